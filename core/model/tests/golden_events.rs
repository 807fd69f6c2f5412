//! The bytes of every event, as the builds before wrote them: a log that people have must stay readable.
//!
//! `golden/events.txt` has a line for each: its name, its kind byte, its metadata in hexadecimal, and its payload. A line never
//! changes; a new event, or a new version of one, is a new line.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fmt::Write;

use runlog_model::{
    AgentCatalogEvent, AgentDefinition, AgentInstance, CatalogEvent, Chat, ChatEvent, ChatMessage,
    ChatRequest, ChatRole, ChatShare, DeletedAgent, EventOptions, FlowCatalogEvent, InstanceId,
    NewContextEvent, OpenRequest, RawJson, RequestStatus, Run, RunCatalogEvent, RunDescription,
    RunEvent, RunId, RunSnapshot, RunStatus, RunSummary, RunWords, RuntimeEvent, Session,
    SessionChanges, SessionDescription, SessionId, SessionStatus, SnapshotChain, SpaceRecord,
    SpawnRecord, SpawnedAgent, StatusChange, Step, StepDiffs, StepStatus, StepType, StopKind,
    TakenRecord, Updates,
};
use uuid::Uuid;

const GOLDEN: &str = include_str!("golden/events.txt");
/// Events of chats as they were written when their times were text.
const TIMES_AS_TEXT: &str = include_str!("golden/times-as-text.txt");
/// Events of runs as they were written when a run's agent was called by its `agent_id`.
const AGENTS_BY_ID: &str = include_str!("golden/agents-by-id.txt");

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, name: &str, kind: u8, meta: &[u8], payload: &[u8]) {
        let meta = meta.iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let payload = std::str::from_utf8(payload).unwrap();
        writeln!(self.0, "{name} {kind} {meta} {payload}").unwrap();
    }
}

macro_rules! encoded {
    ($lines:ident, $($name:literal: $event:expr),* $(,)?) => {$(
        let encoded = $event.encode().unwrap();
        $lines.add($name, encoded.kind, &encoded.meta, &encoded.payload);
    )*};
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

fn text(text: &str) -> Option<String> {
    Some(text.into())
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn session() -> Session {
    Session {
        id: SessionId(id(1)),
        name: text("trip"),
        project: text("travel"),
        title: text("Trip"),
        status: SessionStatus::Archived,
        metadata: Some(json(r#"{ "a":1.0}"#)),
        copied_from: Some(SessionId(id(2))),
        created_at_ms: 1_000,
        updated_at_ms: 2_000,
        deleted_at_ms: Some(3_000),
        chat: None,
    }
}

fn bare_session() -> Session {
    Session {
        name: None,
        project: None,
        title: None,
        status: SessionStatus::Active,
        metadata: None,
        copied_from: None,
        deleted_at_ms: None,
        ..session()
    }
}

fn chat() -> Chat {
    let json = r#"{"chat_id":"c","title":"Chat","assistant_id":"bot","mode":"task","status":"archived","preset":true,
        "public":true,"sort":-7,"last_message_at":"2026-01-03T10:00:00Z","metadata":{"k": [1]},
        "created_at":1000000,"updated_at":1001000,"another":null,"colour":{"deep":[1]}}"#;
    Chat {
        share: ChatShare::Team,
        created_by: text("ann"),
        updated_by: text("bob"),
        team_id: text("t"),
        tenant_id: text("n"),
        ..serde_json::from_str(json).unwrap()
    }
}

fn chat_session(chat: Chat) -> Session {
    let mut session = bare_session();
    chat.write_to(&mut session);
    session
}

fn run() -> Run {
    serde_json::from_str(
        r#"{"id":"00000000-0000-0000-0000-000000000003","project":"p","session_id":"00000000-0000-0000-0000-000000000001",
        "instance_id":"00000000-0000-0000-0000-000000000002","agent_name":"coder","status":"paused","step_count":45,"max_steps":50,
        "parent_run_id":"00000000-0000-0000-0000-000000000004","resumed_from":"00000000-0000-0000-0000-000000000005",
        "resumed_by":"00000000-0000-0000-0000-000000000006","summary":"s","error_message":"e","pause_reason":"r","node_id":"n",
        "created_at":1000,"completed_at":2000,"duration_ms":1000,"colour":"red"}"#,
    )
    .unwrap()
}

fn bare_run() -> Run {
    serde_json::from_str(
        r#"{"id":"00000000-0000-0000-0000-000000000003","session_id":"00000000-0000-0000-0000-000000000001",
        "instance_id":"00000000-0000-0000-0000-000000000002","agent_name":"coder","status":"running","created_at":1000}"#,
    )
    .unwrap()
}

fn message() -> ChatMessage {
    ChatMessage {
        message_id: "m".into(),
        chat_id: "c".into(),
        request_id: text("r"),
        block_id: text("b"),
        thread_id: text("t"),
        assistant_id: text("bot"),
        sequence: 3,
        metadata: Some(json(r#"{"x": 1}"#)),
        created_at_ms: 1_000,
        updated_at_ms: 2_000,
        extra: [("colour".to_owned(), "red".into())].into_iter().collect(),
        ..ChatMessage::text(ChatRole::Assistant, "hi")
    }
}

fn step() -> Step {
    Step {
        step_id: "s".into(),
        chat_id: "c".into(),
        stack_parent_id: text("root"),
        stack_depth: 2,
        status: StepStatus::Failed,
        input: Some(json(r#"{"messages": []}"#)),
        output: Some(json(r#"{"x":1}"#)),
        space_snapshot: Some(json("{}")),
        error: text("broke"),
        sequence: 4,
        metadata: Some(json("[1]")),
        delegate_step_id: None,
        dismissed_at_ms: Some(5),
        created_at_ms: 1_000,
        updated_at_ms: 2_000,
        extra: [("colour".to_owned(), "red".into())].into_iter().collect(),
        ..Step::new("r", "bot", "stk", StepType::HookCreate)
    }
}

fn updates() -> Updates {
    Updates::new()
        .with("title", RawJson::string("Trip"))
        .with("colour", json(r#"{ "a": 1}"#))
}

fn agent() -> AgentDefinition {
    AgentDefinition {
        project: text("p"),
        ..AgentDefinition::new("coder", "Writes code.")
    }
}

fn catalog_events(lines: &mut Lines) {
    let instance = AgentInstance {
        id: InstanceId(id(2)),
        session_id: SessionId(id(1)),
        agent_name: "coder".into(),
        parent_instance_id: Some(InstanceId(id(3))),
        created_at_ms: 1_000,
    };
    let root = AgentInstance {
        parent_instance_id: None,
        ..instance.clone()
    };
    let changes = SessionChanges {
        title: text("New"),
        status: Some(SessionStatus::Active),
        metadata: Some(json("{}")),
    };
    let open = OpenRequest {
        number: 0,
        request_id: "r".into(),
        assistant_id: "bot".into(),
        status: RequestStatus::Interrupted,
        created_at_ms: 1_000,
        updated_at_ms: 2_000,
    };
    let changed = |changes| CatalogEvent::SessionUpdated {
        id: SessionId(id(1)),
        at_ms: 5,
        changes,
    };
    encoded!(lines,
        "session-created": CatalogEvent::SessionCreated(session()),
        "session-created-bare": CatalogEvent::SessionCreated(bare_session()),
        "session-created-chat": CatalogEvent::SessionCreated(chat_session(chat())),
        "session-created-chat-bare": CatalogEvent::SessionCreated(chat_session(Chat::new("bot"))),
        "session-updated": changed(changes),
        "session-updated-bare": changed(SessionChanges::default()),
        "session-described": CatalogEvent::SessionDescribed(SessionDescription {
            created_by: text("ada"),
            updated_by: text("bob"),
            extra: serde_json::from_str(r#"{"mood":"good"}"#).unwrap(),
            ..session().description()
        }),
        "session-described-empty": CatalogEvent::SessionDescribed(SessionDescription::empty(SessionId(id(1)))),
        "session-deleted": CatalogEvent::SessionDeleted { id: SessionId(id(1)), at_ms: 5 },
        "session-restored": CatalogEvent::SessionRestored { id: SessionId(id(1)), at_ms: 5 },
        "instance-created": CatalogEvent::InstanceCreated(instance),
        "instance-created-bare": CatalogEvent::InstanceCreated(root),
        "chat-updated": CatalogEvent::ChatUpdated { id: SessionId(id(1)), at_ms: 5, updates: updates() },
        "chat-touched": CatalogEvent::ChatTouched { id: SessionId(id(1)), at_ms: 5 },
        "chat-reordered": CatalogEvent::ChatReordered { id: SessionId(id(1)) },
        "chat-request-changed": CatalogEvent::ChatRequestChanged { id: SessionId(id(1)), request: open },
        "agent-defined": AgentCatalogEvent::Defined(Box::new(agent())),
        "agent-updated": AgentCatalogEvent::Updated(Box::new(AgentDefinition::new("a", ""))),
        "agent-deleted": AgentCatalogEvent::Deleted(DeletedAgent { project: text("p"), name: "coder".into(), at_ms: 5 }),
        "agent-deleted-bare": AgentCatalogEvent::Deleted(DeletedAgent { project: None, name: "coder".into(), at_ms: 5 }),
    );
}

fn run_events(lines: &mut Lines) {
    let change = StatusChange {
        status: RunStatus::Failed,
        at_ms: 5,
        step_count: 46,
        words: RunWords {
            summary: text("s"),
            error_message: text("e"),
            pause_reason: text("r"),
        },
        stop_kind: None,
    };
    let stopped = StatusChange {
        status: RunStatus::Paused,
        words: RunWords {
            pause_reason: text("r"),
            ..RunWords::default()
        },
        stop_kind: Some(StopKind::Timeout),
        ..change.clone()
    };
    let bare_change = StatusChange {
        words: RunWords::default(),
        ..change.clone()
    };
    let described = RunDescription {
        usage: Some(json(r#"{ "input_tokens":1.0}"#)),
        metadata: Some(json("[1]")),
        at_ms: 5,
    };
    let spawned = SpawnRecord {
        call_id: "call".into(),
        count: 2,
        agents: vec![
            SpawnedAgent {
                index: 0,
                agent_name: "a".into(),
                run_id: Some(RunId(id(7))),
                timeout_ms: Some(60),
                error: None,
            },
            SpawnedAgent {
                index: 1,
                agent_name: "b".into(),
                run_id: None,
                timeout_ms: None,
                error: text("no"),
            },
        ],
        at_ms: 5,
    };
    let flow = FlowCatalogEvent {
        run_id: RunId(id(3)),
        status: "running".into(),
        is_of_run: true,
        parent_run_id: Some(RunId(id(4))),
        resumed_from: Some(RunId(id(5))),
        at_ms: 5,
    };
    let bare_flow = FlowCatalogEvent {
        is_of_run: false,
        parent_run_id: None,
        resumed_from: None,
        ..flow.clone()
    };
    encoded!(lines,
        "run-created": RunEvent::Created(Box::new(run())),
        "run-created-bare": RunEvent::Created(Box::new(bare_run())),
        "run-step-started": RunEvent::StepStarted { step_number: 46, at_ms: 1_100 },
        "run-status-changed": RunEvent::StatusChanged(change),
        "run-status-changed-bare": RunEvent::StatusChanged(bare_change),
        "run-status-changed-stopped": RunEvent::StatusChanged(stopped),
        "run-explained": RunEvent::Explained(RunWords {
            summary: text("s"), error_message: text("e"), pause_reason: text("r"),
        }),
        "run-described": RunEvent::Described(described),
        "run-resumed": RunEvent::Resumed { run_id: RunId(id(9)), at_ms: 2_000 },
        // A run is listed as it is made, when none can have resumed it.
        "listed-run-created": RunCatalogEvent::Created(Box::new(RunSummary { resumed_by: None, ..run().to_summary() })),
        "listed-run-created-bare": RunCatalogEvent::Created(Box::new(bare_run().to_summary())),
        "listed-run-described": RunCatalogEvent::Described { id: RunId(id(3)), sequence: 7 },
        "listed-run-status-changed": RunCatalogEvent::StatusChanged {
            id: RunId(id(3)), status: RunStatus::Cancelled, step_count: 46, at_ms: 5,
        },
        "spawned": spawned,
        "space-saved": SpaceRecord { tree: None, version: 0, space: json(r#"{"k": 1}"#), at_ms: 5 },
        "space-saved-of-tree": SpaceRecord { tree: Some(RunId(id(3))), version: 2, space: json(r#"{"k": 1}"#), at_ms: 5 },
        "commands-taken": TakenRecord { count: 2, at_ms: 5 },
        "listed-flow": flow,
        "listed-flow-bare": bare_flow,
    );
}

fn chat_events(lines: &mut Lines) {
    let bare_step = Step::new("r", "bot", "stk", StepType::Llm);
    let request = ChatRequest {
        request_id: "r".into(),
        chat_id: "c".into(),
        assistant_id: "bot".into(),
        status: RequestStatus::Failed,
        error: text("no"),
        answers: None,
        replaces: Vec::new(),
        is_copied: false,
        run_id: Some(RunId(id(3))),
        usage: Some(json(r#"{ "tokens":1.0}"#)),
        metadata: Some(json("[1]")),
        created_at_ms: 1_000,
        updated_at_ms: 2_000,
    };
    let growing = |more: &str| Step {
        input: Some(json(&format!(
            r#"{{"messages": ["{}"{more}]}}"#,
            "x".repeat(600)
        ))),
        ..step()
    };
    let mut diffs = StepDiffs::new();
    diffs.texts_of(&growing(""));
    let diff = diffs.texts_of(&growing(r#", {"say": "\"hi\""}"#));
    encoded!(lines,
        "message-saved": ChatEvent::MessageSaved(Box::new(message())),
        "message-saved-bare": ChatEvent::MessageSaved(Box::new(ChatMessage::text(ChatRole::User, "hi"))),
        "message-updated": ChatEvent::MessageUpdated { message_id: "m".into(), at_ms: 5, updates: updates(), appended: String::new() },
        "message-appended": ChatEvent::MessageUpdated { message_id: "m".into(), at_ms: 5, updates: Updates::new(), appended: "\"e\"".into() },
        "messages-deleted": ChatEvent::MessagesDeleted { message_ids: vec!["a".into(), "b".into()], at_ms: 5, used_at_ms: None },
        "messages-erased": ChatEvent::MessagesDeleted { message_ids: vec!["a".into()], at_ms: 5, used_at_ms: Some(4) },
        "step-saved": ChatEvent::StepSaved(Box::new(step())),
        "step-saved-bare": ChatEvent::StepSaved(Box::new(bare_step)),
        "step-updated": ChatEvent::StepUpdated { step_id: "s".into(), at_ms: 5, updates: updates() },
        "request-saved": ChatEvent::RequestSaved(Box::new(request)),
        "chat-copied": ChatEvent::Copied { session_id: SessionId(id(1)), chat_id: "c".into() },
        "step-diff-saved": diff.event(step()),
    );
}

fn flow_events(lines: &mut Lines) {
    for json in [
        r#"{ "type":"agent:text","nodeId":"n","runId":"r","timestamp":1,"content":"x"}"#,
        r#"{"type":"agent:text:delta","nodeId":"n","runId":"r","timestamp":1,"content":"x"}"#,
        r#"{"type":"flow:started"}"#,
        r#"{"type":"node:started","nodeId":"n"}"#,
        r#"{"type":"edge:fired"}"#,
        r#"{"type":"command:received","command":{"type":"resume"}}"#,
    ] {
        let event = RuntimeEvent::parse(json).unwrap();
        let encoded = event.encode();
        lines.add(
            &event.event_type,
            encoded.kind,
            &encoded.meta,
            &encoded.payload,
        );
    }
    let mut snapshot = RunSnapshot::new("running");
    snapshot.run_id = text("r");
    snapshot.extra.insert("colour".into(), "red".into());
    let whole = snapshot.encode().unwrap();
    lines.add("flow-snapshot", 0, &whole.meta, whole.payload.as_bytes());
    let document = "word ".repeat(200);
    snapshot.outputs.insert("plan".into(), document.into());
    let (_, chain) = SnapshotChain::default().next(1, &snapshot.encode().unwrap());
    snapshot.outputs.insert("write".into(), "done".into());
    let (saved, _) = chain.next(2, &snapshot.encode().unwrap());
    lines.add(
        "flow-snapshot-diff",
        0,
        &saved.meta,
        saved.payload.as_bytes(),
    );
}

fn context_events(lines: &mut Lines) {
    let options = EventOptions {
        run_id: Some(RunId(id(3))),
        step_number: Some(4),
        created_at_ms: Some(1_000),
        ..EventOptions::default()
    };
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"ls","input":{ "path": "/" }}]}"#;
    let messages = [
        r#"{"role":"system","content":"s"}"#,
        r#"{"role":"user","content":"u"}"#,
        call,
        r#"{"role":"tool","tool_call_id":"t1","content":"out"}"#,
    ];
    for message in messages {
        for event in NewContextEvent::of_message(json(message), &options).unwrap() {
            let meta = event.encode_meta().unwrap();
            lines.add(
                event.kind.name(),
                event.kind.byte(),
                &meta,
                event.content.as_bytes(),
            );
        }
    }
    // What a tool gave is JSON, which the message says as text: the second version of the metadata.
    let said = r#"{"role":"tool","tool_call_id":"t1","content":"{\"n\":1}"}"#;
    let mut events = NewContextEvent::of_message(json(said), &options).unwrap();
    events[0].meta.tools[0].output_is_json = true;
    let meta = events[0].encode_meta().unwrap();
    let (kind, content) = (events[0].kind, events[0].content.as_bytes());
    lines.add(kind.name(), kind.byte(), &meta, content);
}

#[test]
fn every_event_is_written_as_it_always_was() {
    let mut lines = Lines::default();
    context_events(&mut lines);
    catalog_events(&mut lines);
    run_events(&mut lines);
    chat_events(&mut lines);
    flow_events(&mut lines);
    for (line, golden) in lines.0.lines().zip(GOLDEN.lines()) {
        assert_eq!(line, golden);
    }
    assert_eq!(lines.0, GOLDEN);
}

/// The line of an event that is written as it was read; `None` for one of a context, whose content isn't read.
fn written_again(line: &str) -> Option<String> {
    let mut parts = line.splitn(4, ' ');
    let (name, kind) = (parts.next().unwrap(), parts.next().unwrap());
    let (meta, payload) = (parts.next().unwrap(), parts.next().unwrap());
    let kind: u8 = kind.parse().unwrap();
    let meta: Vec<u8> = (0..meta.len() / 2)
        .map(|place| u8::from_str_radix(&meta[place * 2..][..2], 16).unwrap())
        .collect();
    let mut lines = Lines::default();
    macro_rules! again {
        ($($Type:ident),*) => {$(
            if $Type::KINDS.contains(&kind) {
                let event = $Type::decode(kind, &meta, payload.as_bytes()).unwrap();
                let encoded = event.encode().unwrap();
                lines.add(name, encoded.kind, &encoded.meta, &encoded.payload);
            }
        )*};
    }
    again!(
        CatalogEvent,
        AgentCatalogEvent,
        RunCatalogEvent,
        RunEvent,
        ChatEvent
    );
    (!lines.0.is_empty()).then(|| lines.0.trim_end().to_owned())
}

#[test]
fn every_event_is_read_as_it_was_written() {
    let again = GOLDEN
        .lines()
        .filter_map(|line| Some((line, written_again(line)?)));
    let read = again
        .inspect(|(line, again)| assert_eq!(again, line))
        .count();
    assert!(read >= 40, "only {read} were read");
}

/// Checks that events of earlier builds are read, and written again as they are now.
fn check_earlier(lines: &str, count: usize) {
    for line in lines.lines() {
        let name = line.split_once(' ').unwrap().0;
        let now = GOLDEN
            .lines()
            .find(|line| line.split_once(' ').unwrap().0 == name);
        assert_eq!(written_again(line).as_deref(), now);
    }
    assert_eq!(lines.lines().count(), count);
}

#[test]
fn times_that_are_text_are_read() {
    check_earlier(TIMES_AS_TEXT, 11);
}

#[test]
fn agents_of_runs_that_are_called_by_an_id_are_read() {
    check_earlier(AGENTS_BY_ID, 4);
}
