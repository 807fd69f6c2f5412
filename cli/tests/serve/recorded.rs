//! A store with something of everything.

use runlog::{
    InstanceId, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId, SessionId,
    agents::AgentDefinition,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, Step},
    flows::RuntimeEvent,
    runs::ToolOutcome,
};
use serde_json::json;

use crate::common::Place;

/// What is in the store.
pub(crate) struct Recorded {
    pub(crate) session: SessionId,
    pub(crate) instance: InstanceId,
    /// Completed, with messages of two steps and two tool calls.
    pub(crate) done: RunId,
    /// Paused; spawned by the one that is done.
    pub(crate) paused: RunId,
    /// Of another project.
    pub(crate) other: RunId,
    pub(crate) flow: RunId,
    pub(crate) chat: String,
}

pub(crate) const PROJECT: &str = "papers & more";

/// Makes the place's store, and closes it.
pub(crate) fn record(place: &Place) -> Recorded {
    let store = Store::open(place.path("runlog-data")).unwrap();
    let recorded = fill(&store);
    store.close().unwrap();
    recorded
}

fn fill(store: &Store) -> Recorded {
    let in_project = |project: &str| NewSession {
        project: Some(project.to_owned()),
        ..NewSession::titled("Find papers")
    };
    let run = store
        .runs()
        .start(NewRun::in_new_session(in_project(PROJECT), "finder"))
        .unwrap();
    let done = run.run();
    run.record_message(NewMessage::user("Find papers on logs."))
        .unwrap();
    run.next_step().unwrap();
    for (step, tool) in ["search", "read_file"].into_iter().enumerate() {
        let id = format!("call_{step}");
        let call = NewToolCall::new(&id, tool, r#"{"query": "append-only  logs"}"#);
        run.record_message(NewMessage::assistant("I'll look.").with_tool_calls([call]))
            .unwrap();
        let outcome = match tool {
            "search" => ToolOutcome::completed(&id, RawJson::string("42 papers")),
            _ => ToolOutcome::error(&id, RawJson::string("no such file")),
        };
        run.record_tool_result(&outcome.took_ms(7)).unwrap();
        run.next_step().unwrap();
    }
    let child = NewRun {
        parent_run_id: Some(done.id),
        ..NewRun::in_new_session(in_project(PROJECT), "reader")
    };
    let paused = store.runs().start(child).unwrap();
    paused.pause("lunch").unwrap();
    run.complete(Some("42 papers found")).unwrap();
    let other = store
        .runs()
        .start(NewRun::in_new_session(in_project("other"), "finder"))
        .unwrap();
    other.fail("no network").unwrap();
    Recorded {
        session: done.session_id,
        instance: done.instance_id,
        done: done.id,
        paused: paused.id(),
        other: other.id(),
        flow: flow(store),
        chat: chat(store),
    }
}

fn flow(store: &Store) -> RunId {
    let mut flow = FlowRun::create(store, None).unwrap();
    for (index, event_type) in ["flow:started", "node:started", "node:done"]
        .into_iter()
        .enumerate()
    {
        let event = json!({"type": event_type, "nodeId": "plan", "timestamp": 1_700_000_000_000_u64 + 100 * index as u64});
        flow.record(&RuntimeEvent::parse(event.to_string()).unwrap())
            .unwrap();
    }
    flow.save_snapshot().unwrap();
    flow.run_id()
}

fn chat(store: &Store) -> String {
    let chat: Chat =
        serde_json::from_value(json!({"assistant_id": "helper", "mode": "chat"})).unwrap();
    let chat = store.chats().create_chat(chat).unwrap().chat_id;
    let message: ChatMessage = serde_json::from_value(json!({
        "chat_id": chat, "role": "user", "type": "text", "props": {"content": "hello"}, "request_id": "req_1"
    })).unwrap();
    store.chats().save_messages(&chat, vec![message]).unwrap();
    let step: Step = serde_json::from_value(json!({
        "chat_id": chat, "request_id": "req_1", "assistant_id": "helper", "stack_id": "s1", "stack_depth": 0,
        "type": "llm", "status": "completed", "input": {"a": 1}
    })).unwrap();
    store.chats().save_steps(vec![step]).unwrap();
    let agent: AgentDefinition = serde_json::from_value(json!({
        "project": PROJECT, "name": "finder", "description": "Finds papers.", "system_prompt": "You find papers."
    })).unwrap();
    store.agents().put(agent).unwrap();
    chat
}
