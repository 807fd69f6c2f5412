//! Calls of a run that a caller doesn't wait for one by one: they take effect in the order in which they were made.

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::Arc;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunRecorder, RunStatus, Store,
    runs::{ListToolCalls, ToolCallStatus, ToolOutcome},
};

async fn started(store: &Store) -> Arc<RunRecorder> {
    let new = NewRun::in_new_session(NewSession::default(), "coder");
    Arc::new(store.runs().start(new).await.unwrap())
}

fn asks(id: &str) -> NewMessage {
    NewMessage::assistant("").with_tool_calls([NewToolCall::new(id, "ls", "{}")])
}

fn says(text: &str) -> ToolOutcome {
    ToolOutcome::completed("a", RawJson::string(text))
}

/// Stores whose flushes take as long as a device's, so that calls are at work at the same time.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    (folder, store)
}

#[tokio::test]
async fn what_was_recorded_before_the_end_is_recorded() {
    let (_folder, store) = store();
    for _ in 0..20 {
        let run = started(&store).await;
        let outcome = says("x");
        let (asked, answered, said, ended) = tokio::join!(
            run.record_message(asks("a")),
            run.record_tool_result(&outcome),
            run.record_message(NewMessage::assistant("done")),
            run.complete(None),
        );
        asked.unwrap();
        answered.unwrap();
        said.unwrap();
        assert_eq!(ended.unwrap().status, RunStatus::Completed);
        let late = run.record_message(NewMessage::assistant("late")).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::WrongStatus);
    }
}

#[tokio::test]
async fn one_call_has_one_result_whichever_recorders_write_it_at_once() {
    let (_folder, store) = store();
    for _ in 0..20 {
        let run = started(&store).await;
        run.record_message(asks("a")).await.unwrap();
        let other = store.runs().recorder(run.id()).await.unwrap();
        let (first, second) = (says("1"), says("2"));
        let (one, two) = tokio::join!(
            run.record_tool_result(&first),
            other.record_tool_result(&second),
        );
        let refused: Vec<_> = [one, two].into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert_eq!(refused[0].kind(), ErrorKind::AlreadyExists, "{refused:?}");
        let context = store.context(run.run().instance_id).await.unwrap();
        assert_eq!(context.get_messages().await.unwrap().len(), 2);
        let options = ListToolCalls::default();
        let calls = store.runs().tool_calls(run.id(), &options).await.unwrap();
        assert_eq!(calls.items[0].status, ToolCallStatus::Completed);
    }
}

#[tokio::test]
async fn a_result_is_written_behind_its_call_and_before_what_came_after_it() {
    let (_folder, store) = store();
    for _ in 0..20 {
        let run = started(&store).await;
        let outcome = says("x");
        let others = [says("y")];
        let (said, asked, answered, further, again, answered_again, ended) = tokio::join!(
            run.record_message(NewMessage::assistant("1")),
            run.record_message(asks("a")),
            run.record_tool_result(&outcome),
            run.record_message(NewMessage::assistant("2")),
            // The same id once more, as local servers give it in each turn.
            run.record_message(asks("a")),
            run.record_tool_results(&others),
            run.complete(None),
        );
        for recorded in [said, asked, answered, further, again, answered_again] {
            recorded.unwrap();
        }
        ended.unwrap();
        let options = ListToolCalls::default();
        let calls = store.runs().tool_calls(run.id(), &options).await.unwrap();
        let outputs: Vec<_> = calls
            .items
            .iter()
            .map(|call| call.output.as_ref().map(RawJson::as_str))
            .collect();
        assert_eq!(outputs, [Some(r#""x""#), Some(r#""y""#)]);
        let unknown = ToolOutcome::completed("zz", RawJson::null());
        let refused = run.record_tool_result(&unknown).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WrongStatus, "{refused}");
    }
}

#[tokio::test]
async fn a_message_belongs_to_the_step_in_which_it_was_recorded() {
    let (_folder, store) = store();
    for _ in 0..20 {
        let run = started(&store).await;
        let outcome = says("x");
        let say = |text| run.record_message(NewMessage::assistant(text));
        let (one, two, three, four, five, six, seven, eight) = tokio::join!(
            run.next_step(),
            say("1"),
            run.record_message(asks("a")),
            run.record_tool_result(&outcome),
            run.next_step(),
            run.next_step(),
            say("3"),
            say("3"),
        );
        assert_eq!([one, five, six].map(Result::unwrap), [1, 2, 3]);
        let steps = [two, three, four, seven, eight].map(|it| it.unwrap().step_number);
        assert_eq!(steps, [1, 1, 1, 3, 3]);
        // A second recorder, which has begun a step more.
        let other = store.runs().recorder(run.id()).await.unwrap();
        assert_eq!(other.next_step().await.unwrap(), 4);
        other
            .record_message(NewMessage::assistant("4"))
            .await
            .unwrap();
        assert_eq!(say("4").await.unwrap().step_number, 4);
        let listed = store.runs().get(run.id()).await.unwrap().unwrap();
        assert_eq!(listed.step_count, 4);
    }
}

/// After a truncation to a message that makes calls their records are added, once, whoever answers them.
#[tokio::test]
async fn calls_whose_records_were_truncated_are_listed_and_answered_once() {
    let (_folder, store) = store();
    for kept in 0..3 {
        for _ in 0..5 {
            let run = started(&store).await;
            let calls = ["a", "b", "c"].map(|id| NewToolCall::new(id, "ls", "{}"));
            let message = NewMessage::assistant("").with_tool_calls(calls);
            let asked = run.record_message(message).await.unwrap();
            let context = store.context(run.run().instance_id).await.unwrap();
            context
                .truncate_after_sequence(asked.sequence_number + kept)
                .await
                .unwrap();
            let other = store.runs().recorder(run.id()).await.unwrap();
            let says = |id: &str| ToolOutcome::completed(id, RawJson::string(id));
            let [a, b, c] = ["a", "b", "c"].map(says);
            let (one, two, three, four) = tokio::join!(
                other.record_tool_result(&a),
                run.record_tool_result(&a),
                run.record_tool_result(&b),
                run.record_tool_result(&c),
            );
            let (one, two) = (one.map(|_| ()), two.map(|_| ()));
            let refused = [&one, &two].into_iter().find_map(|it| it.as_ref().err());
            assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
            assert_eq!(refused.unwrap().kind(), ErrorKind::AlreadyExists);
            // What was recorded is the result, not the record of the call in front of it.
            for (recorded, id) in [(three.unwrap(), "b"), (four.unwrap(), "c")] {
                let event = store
                    .contexts()
                    .event(run.run().instance_id, recorded.sequence_number)
                    .await
                    .unwrap()
                    .unwrap();
                assert_eq!(event.position, recorded.id);
                assert!(
                    event.content.as_str().contains(&format!("{id:?}")),
                    "{event:?}"
                );
                assert!(
                    event.content.as_str().contains("\"role\":\"tool\""),
                    "{event:?}"
                );
            }
            let options = ListToolCalls::default();
            let listed = store.runs().tool_calls(run.id(), &options).await.unwrap();
            let mut told: Vec<_> = listed
                .items
                .iter()
                .map(|call| (call.tool_call_id.as_deref().unwrap(), call.status))
                .collect();
            told.sort_unstable_by_key(|(id, _)| *id);
            assert_eq!(
                told,
                ["a", "b", "c"].map(|id| (id, ToolCallStatus::Completed))
            );
            assert_eq!(context.dangling_tool_calls().await.unwrap(), []);
            let done = NewMessage::assistant("done");
            run.record_message(done).await.unwrap();
        }
    }
}
