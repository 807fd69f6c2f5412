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
