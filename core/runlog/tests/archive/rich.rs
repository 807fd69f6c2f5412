//! A store with something of everything in it, on a clock of its own.

#![allow(missing_docs, unreachable_pub, reason = "a module of a test binary")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use pollster::block_on;
use runlog::{
    AgentDefinition, Error, ErrorKind, NewInstance, NewMessage, NewRun, NewSession, NewToolCall,
    RawJson, SessionId, StoreOptions,
    backend::{Backend, BackendFuture, Decorator},
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd, StepType, Updates},
    engine::{Host, SystemHost},
    flows::RuntimeEvent,
    log::{Appended, Batch, Expected, Kind, NewRecord, Op, Sequence, StreamId},
    runs::{ResumeOptions, ToolOutcome},
    sessions::CopySession,
    transcripts::{Options, keep::EntryBatch, parse},
};
use uuid::Uuid;

/// A clock that is a little later each time it is asked, far from now.
pub struct Ticking(AtomicU64);

impl Host for Ticking {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(7, Ordering::Relaxed)
    }

    fn random(&self, bytes: &mut [u8]) {
        SystemHost.random(bytes);
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }
}

pub const CUSTOM: StreamId = StreamId(Uuid::from_u128(0x0198_c7e0_0000_7000_8000_0000_0000_00aa));
pub const EMPTY: StreamId = StreamId(Uuid::from_u128(0x0198_c7e0_0000_7000_8000_0000_0000_00ab));

pub fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// Opens a store whose clock tells a time of long ago.
pub fn open(folder: &std::path::Path) -> Store {
    let clock = Arc::new(Ticking(AtomicU64::new(1_600_000_000_000)));
    Store::open_with(
        folder,
        StoreOptions {
            segment_bytes_max: 64 << 10,
            ..StoreOptions::with_host(clock)
        },
    )
    .unwrap()
}

/// Fills a store.
pub fn fill(store: &Store) {
    runs(store);
    flow(store);
    chats(store);
    transcript(store);
    copies(store);
    others(store);
}

pub fn runs(store: &Store) {
    let runs = store.runs();
    let new = NewRun {
        max_steps: Some(9),
        messages: vec![json(r#"{"role":"system","content":"Be\nbrief."}"#)],
        ..NewRun::in_new_session(
            NewSession {
                project: Some("p".into()),
                ..NewSession::named("work")
            },
            "coder",
        )
    };
    let run = runs.start(new).unwrap();
    run.record_message(NewMessage::user("Fix it.")).unwrap();
    run.next_step().unwrap();
    let calls = [NewToolCall::new("call-1", "look", r#"{"a": 1.0}"#)];
    run.record_message(NewMessage::assistant("").with_tool_calls(calls))
        .unwrap();
    run.record_tool_result(&ToolOutcome::completed("call-1", json(r#""seen""#)).took_ms(42))
        .unwrap();
    run.pause("lunch").unwrap();
    let again = runs
        .resume(run.id(), &ResumeOptions::default())
        .unwrap()
        .recorder;
    again.next_step().unwrap();
    again
        .record_message(
            NewMessage::assistant("").with_tool_calls([NewToolCall::new("call-2", "look", "{}")]),
        )
        .unwrap();
    again
        .record_tool_result(&ToolOutcome::error("call-2", json(r#""gone""#)))
        .unwrap();
    again
        .record_message(NewMessage::assistant("Done."))
        .unwrap();
    again.complete(Some("fixed")).unwrap();

    let parent = runs
        .start(NewRun::in_new_session(NewSession::named("tree"), "lead"))
        .unwrap();
    parent.next_step().unwrap();
    parent.record_message(NewMessage::assistant("Go.")).unwrap();
    let place = NewInstance::new(parent.run().session_id, "helper");
    let place = NewInstance {
        parent_instance_id: Some(parent.run().instance_id),
        ..place
    };
    let child = NewRun {
        parent_run_id: Some(parent.id()),
        node_id: Some("n".into()),
        ..NewRun::in_new_instance(place)
    };
    let child = runs.start(child).unwrap();
    // Those of two contexts take turns.
    for turn in 0..3 {
        child.next_step().unwrap();
        child
            .record_message(NewMessage::assistant(format!("child {turn}")))
            .unwrap();
        parent
            .record_message(NewMessage::user(format!("parent {turn}")))
            .unwrap();
    }
    child.fail("no network").unwrap();
    parent.cancel(None).unwrap();
    // In another session, but spawned by a run of the first.
    let far = NewRun {
        parent_run_id: Some(parent.id()),
        ..NewRun::in_new_session(NewSession::named("far"), "far")
    };
    runs.start(far).unwrap().pause("wait").unwrap();
}

fn flow(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::named("flow"), "flow"))
        .unwrap();
    let mut flow = FlowRun::create(store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:a"}"#).unwrap())
        .unwrap();
    flow.save_snapshot().unwrap();
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:b"}"#).unwrap())
        .unwrap();
    flow.command(&json(r#"{"type":"send","runId":"r","message":"m"}"#))
        .unwrap();
    run.pause("later").unwrap();
    // One of its own, whose first snapshot is older than its first event.
    let mut own = FlowRun::create(store, None).unwrap();
    own.record(&RuntimeEvent::parse(r#"{"type":"node:a"}"#).unwrap())
        .unwrap();
    FlowRun::create(store, None)
        .unwrap()
        .save_snapshot()
        .unwrap();
}

fn chats(store: &Store) {
    let chats = store.chats();
    for (id, assistant) in [("c1", "weather"), ("c2", "weather"), ("gone", "none")] {
        chats
            .create_chat(Chat {
                chat_id: id.into(),
                title: Some(id.to_uppercase()),
                ..Chat::new(assistant)
            })
            .unwrap();
    }
    chats.delete_chat("gone").unwrap();
    let asked = ChatMessage::text(ChatRole::User, "Rain?");
    let mut request = chats
        .begin_request("c1", NewRequest::new("weather"), asked)
        .unwrap();
    let step = request
        .start_step(StepType::Llm, json(r#"{"messages":[]}"#))
        .unwrap();
    request
        .send(ChatMessage::text(ChatRole::Assistant, "Yes."))
        .unwrap();
    request
        .complete_step(&step, Some(json(r#"{"content":"Yes."}"#)))
        .unwrap();
    request.start_step(StepType::Tool, json("{}")).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let more = (0..3)
        .map(|n| ChatMessage::text(ChatRole::User, &format!("more {n}")))
        .collect();
    let saved = chats.save_messages("c1", more).unwrap();
    chats
        .delete_messages("c1", &[&saved[1].message_id])
        .unwrap();
    chats
        .update_chat(
            "c2",
            &Updates::new().with("title", RawJson::string("Renamed")),
        )
        .unwrap();
}

/// A session that came from elsewhere, with what stood around its messages, one of which is gone since.
fn transcript(store: &Store) {
    let (session, agent) = store
        .start_session(NewSession::named("taken"), "main")
        .unwrap();
    let lines = (0..4).map(|n| {
        let role = if n % 2 == 0 { "user" } else { "assistant" };
        format!(
            "{{\"type\":\"{role}\",\"sessionId\":\"x\",\"uuid\":\"u{n}\",\"message\":{{\"role\":\"{role}\",\"content\":\"{n}\"}}}}\n"
        )
    });
    let transcript = parse(lines.collect::<String>().as_bytes(), Options::default()).unwrap();
    for entry in &transcript.entries {
        let mut batch = EntryBatch::new(session.id);
        batch.push(agent.id, entry).unwrap();
        store.write_entries(&batch).unwrap();
    }
    let context = store.context(agent.id).unwrap();
    context.truncate_after_sequence(3).unwrap();
    context
        .append_message(NewMessage::user("not what the envelope was for"))
        .unwrap();
}

fn copies(store: &Store) {
    let id = |name: &str| store.find_session(name).unwrap().id;
    let copy = |name: &str, source: SessionId, up_to_sequence| {
        let options = CopySession {
            name: Some(name.into()),
            up_to_sequence,
            ..CopySession::default()
        };
        store.copy_session(source, &options).unwrap().session.id
    };
    let short = copy("short", id("taken"), Some(2));
    let of_copy = copy("copy of a copy", short, None);
    for session in [short, of_copy] {
        let root = store.root_instance(session).unwrap();
        store
            .context(root.id)
            .unwrap()
            .append_message(NewMessage::user(session.to_string()))
            .unwrap();
    }
    copy("tree again", id("tree"), None);
    copy(
        "chat again",
        store.find_session(&chat_session(store, "c1")).unwrap().id,
        None,
    );
    // The copy keeps what its source then loses.
    copy("longer than its source", id("work"), None);
    store.truncate_session(id("work"), 2).unwrap();
    let root = store.root_instance(id("work")).unwrap();
    store
        .context(root.id)
        .unwrap()
        .append_message(NewMessage::user("another way"))
        .unwrap();
}

fn chat_session(store: &Store, chat: &str) -> String {
    let sessions = store
        .list_sessions(&runlog::sessions::ListSessions {
            limit: 100,
            ..Default::default()
        })
        .unwrap()
        .items;
    let found = sessions
        .iter()
        .find(|it| it.id.to_string() == chat || it.name.as_deref() == Some(chat));
    found.expect("the chat is a session").id.to_string()
}

fn others(store: &Store) {
    let agents = store.agents();
    agents
        .define(AgentDefinition {
            max_steps: Some(5),
            ..AgentDefinition::new("coder", "Writes code.")
        })
        .unwrap();
    agents
        .define(AgentDefinition {
            project: Some("p".into()),
            ..AgentDefinition::new("coder", "Another.")
        })
        .unwrap();
    agents
        .update(
            None,
            "coder",
            &Updates::new().with("description", RawJson::string("Writes Rust.")),
        )
        .unwrap();
    store
        .archive_session(store.find_session("far").unwrap().id)
        .unwrap();
    let deleted = store.create_session(NewSession::named("deleted")).unwrap();
    store.delete_session(deleted.id).unwrap();
    let restored = store.create_session(NewSession::named("restored")).unwrap();
    store.delete_session(restored.id).unwrap();
    store.chats().restore_chat("restored").unwrap();
    store.create_session(NewSession::named("deleted")).unwrap();
    let record = |payload| NewRecord {
        labels: &[],
        kind: Kind(17),
        meta: &[0, 1],
        payload,
    };
    let payloads: [&[u8]; 4] = [b"\xff\xfe", b"", b"{\"a\":\n 1}", b"text \xc3\xa9"];
    let records: Vec<_> = payloads.into_iter().map(record).collect();
    let stream = CUSTOM;
    let commit = |op| block_on(store.backend().commit(Batch::new(vec![op]))).unwrap();
    let appended = commit(Op::Append {
        stream,
        expected: Expected::Absent,
        records,
    });
    commit(Op::Append {
        stream: EMPTY,
        expected: Expected::Absent,
        records: Vec::new(),
    });
    let (expected, sequence) = (Expected::Any, Sequence(2));
    commit(Op::Snapshot {
        stream,
        expected,
        sequence,
        meta: b"m",
        payload: b"\x00state",
    });
    commit(Op::Redact {
        position: appended.ops[0].position,
        reason: "a secret",
    });
}

/// A backend that refuses every batch after so many.
pub struct Failing {
    inner: Arc<dyn Backend>,
    left: AtomicU64,
}

impl Failing {
    pub fn new(inner: Arc<dyn Backend>, batches: u64) -> Self {
        Self {
            inner,
            left: AtomicU64::new(batches),
        }
    }
}

impl Decorator for Failing {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        match self.left.load(Ordering::Relaxed) {
            0 => Box::pin(std::future::ready(Err(Error::new(
                ErrorKind::StorageFull,
                "no room",
            )))),
            left => {
                self.left.store(left - 1, Ordering::Relaxed);
                self.inner.commit(batch)
            }
        }
    }
}
