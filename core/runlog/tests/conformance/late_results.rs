//! Claims about results of tool calls that come when the run that made the calls is over.

use std::sync::Arc;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId, RunRecorder, Store,
    backend::Backend,
    contexts::{AppendOptions, EventOptions},
    runs::{Dangling, ListToolCalls, ResumeOptions, ToolCall, ToolCallStatus, ToolOutcome},
};

use super::contexts::raw;

type Shared = Arc<dyn Backend>;

const ANTHROPIC: &str =
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"cat","input":{}}]}"#;

/// A run that was paused with calls `a` and `b` open.
async fn cut_off(store: &Store) -> RunRecorder {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .await
        .unwrap();
    run.next_step().await.unwrap();
    run.record_message(asks(&["a", "b"])).await.unwrap();
    run.pause("stop").await.unwrap();
    run
}

fn asks(ids: &[&str]) -> NewMessage {
    NewMessage::assistant("")
        .with_tool_calls(ids.iter().map(|id| NewToolCall::new(*id, "test", "{}")))
}

fn took(id: &str, duration_ms: u64) -> ToolOutcome {
    ToolOutcome::completed(id, RawJson::string(id)).took_ms(duration_ms)
}

fn reporting() -> ResumeOptions {
    ResumeOptions {
        dangling: Dangling::Report,
        ..ResumeOptions::default()
    }
}

async fn calls(store: &Store, run: RunId) -> Vec<ToolCall> {
    store
        .runs()
        .tool_calls(run, &ListToolCalls::default())
        .await
        .unwrap()
        .items
}

fn told(calls: &[ToolCall]) -> Vec<(ToolCallStatus, Option<u64>)> {
    calls
        .iter()
        .map(|call| (call.status, call.duration_ms))
        .collect()
}

pub async fn a_result_recorded_after_a_resume_ends_the_call(backend: Shared) {
    use ToolCallStatus::{Completed, Error, Pending};
    let store = Store::with_backend(backend);
    let run = cut_off(&store).await;
    assert_eq!(
        told(&calls(&store, run.id()).await),
        [(Pending, None), (Pending, None)]
    );
    let resumed = store
        .runs()
        .resume(run.id(), &reporting())
        .await
        .unwrap()
        .recorder;
    resumed.record_tool_result(&took("b", 7)).await.unwrap();
    assert_eq!(
        told(&calls(&store, run.id()).await),
        [(Pending, None), (Completed, Some(7))]
    );
    let failed = ToolOutcome {
        status: Error,
        ..took("a", 9)
    };
    resumed.record_tool_result(&failed).await.unwrap();
    let ended = calls(&store, run.id()).await;
    assert_eq!(told(&ended), [(Error, Some(9)), (Completed, Some(7))]);
    assert!(
        calls(&store, resumed.id()).await.is_empty(),
        "a call is of the run that made it, once"
    );
    for call in &ended {
        assert_eq!(
            store
                .runs()
                .tool_call(run.id(), call.id)
                .await
                .unwrap()
                .as_ref(),
            Some(call)
        );
        let only = ListToolCalls {
            status: Some(call.status),
            limit: 1,
            ..ListToolCalls::default()
        };
        assert_eq!(
            store
                .runs()
                .tool_calls(run.id(), &only)
                .await
                .unwrap()
                .items,
            std::slice::from_ref(call)
        );
    }
}

pub async fn a_result_after_two_resumes_ends_the_call(backend: Shared) {
    let store = Store::with_backend(backend);
    let run = cut_off(&store).await;
    let second = store.runs().resume(run.id(), &reporting()).await.unwrap();
    assert_eq!(second.dangling.len(), 2);
    second.recorder.pause("again").await.unwrap();
    let third = store
        .runs()
        .resume(second.run.id, &reporting())
        .await
        .unwrap();
    assert_eq!(third.dangling, second.dangling, "of whichever run they are");
    third
        .recorder
        .record_tool_result(&took("a", 3))
        .await
        .unwrap();
    third
        .recorder
        .record_tool_result(&took("b", 4))
        .await
        .unwrap();
    let durations = told(&calls(&store, run.id()).await);
    assert_eq!(
        durations,
        [
            (ToolCallStatus::Completed, Some(3)),
            (ToolCallStatus::Completed, Some(4))
        ]
    );
}

pub async fn a_result_of_a_newer_call_of_the_same_id_is_not_a_late_one(backend: Shared) {
    let store = Store::with_backend(backend);
    let run = cut_off(&store).await;
    let resumed = store
        .runs()
        .resume(run.id(), &reporting())
        .await
        .unwrap()
        .recorder;
    resumed.next_step().await.unwrap();
    // A recorder would refuse it, since the older call is open.
    let context = store.context(run.run().instance_id).await.unwrap();
    let event = EventOptions {
        run_id: Some(resumed.id()),
        step_number: Some(1),
        ..EventOptions::default()
    };
    context
        .append_message_with(
            asks(&["a"]),
            &AppendOptions {
                event,
                ..AppendOptions::default()
            },
        )
        .await
        .unwrap();
    resumed.record_tool_result(&took("a", 5)).await.unwrap();
    assert_eq!(
        told(&calls(&store, run.id()).await)[0],
        (ToolCallStatus::Pending, None)
    );
    assert_eq!(
        told(&calls(&store, resumed.id()).await),
        [(ToolCallStatus::Completed, Some(5))]
    );
    // What comes then can only be for the older one.
    resumed.record_tool_result(&took("a", 6)).await.unwrap();
    assert_eq!(
        told(&calls(&store, run.id()).await)[0],
        (ToolCallStatus::Completed, Some(6))
    );
}

pub async fn calls_closed_by_no_run_are_ended(backend: Shared) {
    let store = Store::with_backend(backend);
    let run = cut_off(&store).await;
    let context = store.context(run.run().instance_id).await.unwrap();
    context
        .close_dangling_tool_calls("nobody knows")
        .await
        .unwrap();
    assert_eq!(
        told(&calls(&store, run.id()).await),
        [(ToolCallStatus::Error, None); 2]
    );
    assert!(
        store
            .runs()
            .resume(run.id(), &reporting())
            .await
            .unwrap()
            .dangling
            .is_empty()
    );
}

pub async fn a_late_result_is_written_in_the_providers_form(backend: Shared) {
    let store = Store::with_backend(backend);
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .await
        .unwrap();
    run.record_raw_message(raw(ANTHROPIC)).await.unwrap();
    run.pause("stop").await.unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &reporting())
        .await
        .unwrap()
        .recorder;
    resumed.record_tool_result(&took("t1", 5)).await.unwrap();
    let messages = store
        .context(run.run().instance_id)
        .await
        .unwrap()
        .get_messages()
        .await
        .unwrap();
    let expected =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"t1"}]}"#;
    assert_eq!(messages.last().unwrap().json.as_str(), expected);
    assert_eq!(
        told(&calls(&store, run.id()).await),
        [(ToolCallStatus::Completed, Some(5))]
    );
}

pub async fn dangling_calls_are_answered_before_the_agent_is_told_to_go_on(backend: Shared) {
    let store = Store::with_backend(backend);
    let run = cut_off(&store).await;
    let answering = |outcomes| ResumeOptions {
        dangling: Dangling::Answer(outcomes),
        ..ResumeOptions::default()
    };
    let stray = store
        .runs()
        .resume(run.id(), &answering(vec![took("c", 1)]))
        .await
        .unwrap_err();
    assert_eq!(stray.kind(), ErrorKind::InvalidInput);
    let twice = store
        .runs()
        .resume(run.id(), &answering(vec![took("a", 1), took("a", 1)]))
        .await
        .unwrap_err();
    assert_eq!(twice.kind(), ErrorKind::InvalidInput);

    let resumed = store
        .runs()
        .resume(run.id(), &answering(vec![took("b", 8)]))
        .await
        .unwrap();
    let roles: Vec<_> = resumed
        .messages
        .iter()
        .map(|message| message.role.name())
        .collect();
    assert_eq!(roles, ["assistant", "tool", "tool", "user"]);
    let ended = calls(&store, run.id()).await;
    assert_eq!(
        told(&ended),
        [
            (ToolCallStatus::Error, None),
            (ToolCallStatus::Completed, Some(8))
        ]
    );
    assert_eq!(
        ended
            .iter()
            .map(|call| call.step_number)
            .collect::<Vec<_>>(),
        [1, 1]
    );

    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .await
        .unwrap();
    run.record_raw_message(raw(ANTHROPIC)).await.unwrap();
    run.pause("stop").await.unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &answering(vec![took("t1", 2)]))
        .await
        .unwrap();
    let expected =
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"t1"}]}"#;
    assert_eq!(resumed.messages[1].json.as_str(), expected);
}
