//! Who read something before it was erased doesn't write it again: copies, details, resumed runs, retention, spaces in memory. What can't be
//! read doesn't keep the rest from being erased.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]
#![cfg(not(target_family = "wasm"))]

mod traces;

use std::{sync::Arc, thread};

use runlog::{
    NewMessage, NewRun, NewSession, RawJson, RunId, SessionId, StoreOptions,
    blocking::{Chats, Store},
    chats::{ChatMessage, ChatRole, NewRequest, RequestDetails, RequestEnd, Resumption, StepType},
    engine::storage::{Access, MemoryStorage, Storage},
    retention::{Erase, Erased, RetentionPolicy},
    runs::{ResumeOptions, RunDetails},
    sessions::CopySession,
};

use traces::tells;

const SECRET: &str = "correct-horse-battery-staple";
const QUESTION: &str = "the question";

fn erase(store: &Store, session: SessionId) -> runlog::Result<Erased> {
    store.erase(&Erase {
        sessions: vec![session],
        reason: "asked to".to_owned(),
        ..Erase::default()
    })
}

fn secret() -> RawJson {
    RawJson::parse(format!(r#"{{"of":"{SECRET}"}}"#)).unwrap()
}

/// A paused run with details, in a session with metadata.
fn paused(store: &Store) -> (SessionId, RunId) {
    let session = NewSession {
        metadata: Some(secret()),
        ..NewSession::titled(SECRET)
    };
    let run = store.runs().start(NewRun::in_new_session(session, "coder"));
    let run = run.unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::user(SECRET)).unwrap();
    let details = RunDetails {
        metadata: Some(secret()),
        usage: Some(secret()),
    };
    run.describe(details).unwrap();
    run.pause(SECRET).unwrap();
    failed(store, run.run().session_id);
    (run.run().session_id, run.id())
}

/// A request that failed in the chat of a session.
fn failed(store: &Store, session: SessionId) {
    let asked = ChatMessage {
        message_id: QUESTION.into(),
        ..ChatMessage::text(ChatRole::User, SECRET)
    };
    let chat_id = session.to_string();
    let begun = store
        .chats()
        .begin_request(&chat_id, NewRequest::new("coder"), asked);
    let mut request = begun.unwrap();
    let details = RequestDetails {
        metadata: Some(secret()),
        usage: Some(secret()),
        ..RequestDetails::default()
    };
    request.describe(details).unwrap();
    request.space_mut().set("of", secret());
    request.start_step(StepType::Llm, secret()).unwrap();
    request.finish(RequestEnd::Failed(SECRET.into())).unwrap();
}

/// Does something with the request that failed, unless it is gone.
fn with_request(store: &Store, session: SessionId, act: impl Fn(&Chats, Resumption)) {
    let chats = store.chats();
    let resumption = chats.resume(&session.to_string());
    if let Some(resumption) = resumption.unwrap() {
        act(&chats, resumption);
    }
}

#[test]
fn a_recorder_from_before_describes_a_run_without_what_was_erased() {
    let store = Store::in_memory();
    let (session, run) = paused(&store);
    let held = store.runs().recorder(run).unwrap();
    erase(&store, session).unwrap();
    let usage = Some(RawJson::parse(r#"{"tokens":5}"#).unwrap());
    let metadata = Some(RawJson::parse(r#"{"a":1}"#).unwrap());
    let details = RunDetails {
        usage: usage.clone(),
        ..RunDetails::default()
    };
    held.describe(details).unwrap();
    let run_now = store.runs().get(run).unwrap().unwrap();
    assert_eq!((&run_now.usage, &run_now.metadata), (&usage, &None));
    let details = RunDetails {
        metadata: metadata.clone(),
        ..RunDetails::default()
    };
    held.describe(details).unwrap();
    let run_now = store.runs().get(run).unwrap().unwrap();
    assert_eq!((run_now.usage, run_now.metadata), (usage, metadata));
    assert!(!tells(&store, SECRET));
}

/// Does something beside an erasure of what it is about, again and again.
fn beside(act: impl Fn(&Store, SessionId, RunId) + Send + Sync) {
    for round in 0..40 {
        // On disk each waits for the other's flushes, in which the other goes on.
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        let (session, run) = paused(&store);
        let start = std::sync::Barrier::new(2);
        let erased = thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                act(&store, session, run);
            });
            start.wait();
            if round % 2 == 0 {
                thread::yield_now();
            }
            erase(&store, session)
        });
        // A run that was resumed first is at work.
        if let Err(error) = erased {
            assert_eq!(error.kind(), runlog::ErrorKind::WrongStatus, "{error}");
            continue;
        }
        assert!(!tells(&store, SECRET), "round {round}");
    }
}

#[test]
fn a_copy_that_is_made_meanwhile_has_nothing_of_it() {
    beside(|store, session, _| {
        for _ in 0..8 {
            let copied = store.copy_session(session, &CopySession::default());
            copied.unwrap();
        }
    });
}

#[test]
fn details_that_are_given_meanwhile_bring_no_others_back() {
    beside(|store, _, run| {
        let details = RunDetails {
            usage: Some(RawJson::parse(r#"{"tokens":5}"#).unwrap()),
            ..RunDetails::default()
        };
        store.runs().describe(run, details).unwrap();
    });
}

#[test]
fn a_run_that_is_resumed_meanwhile_takes_nothing_over() {
    beside(|store, _, run| {
        let resumed = store.runs().resume(run, &ResumeOptions::default()).unwrap();
        resumed.recorder.complete(None).unwrap();
    });
}

#[test]
fn a_request_that_is_gone_on_with_meanwhile_takes_nothing_over() {
    beside(|store, session, _| {
        with_request(store, session, |chats, resumption| {
            let Ok(mut request) = chats.go_on(&resumption) else {
                return;
            };
            let none = RawJson::parse("{}").unwrap();
            request.start_step(StepType::Llm, none).unwrap();
            request.finish(RequestEnd::Interrupted).unwrap();
        });
    });
}

#[test]
fn a_request_that_is_dismissed_meanwhile_leaves_nothing() {
    beside(|store, session, _| {
        with_request(store, session, |chats, resumption| {
            // There is no such request once it is erased.
            let _ = chats.dismiss(&resumption.step.request_id);
        });
    });
}

#[test]
fn a_request_that_is_completed_meanwhile_leaves_nothing() {
    beside(|store, session, _| {
        with_request(store, session, |chats, resumption| {
            let _ = chats.complete_resumed(&resumption, &RawJson::parse("{}").unwrap());
        });
    });
}

#[test]
fn a_request_that_is_superseded_meanwhile_leaves_nothing() {
    beside(|store, session, _| {
        let new = NewRequest {
            replaces: Some(QUESTION.into()),
            ..NewRequest::new("coder")
        };
        let asked = ChatMessage::text(ChatRole::User, "Again?");
        let chats = store.chats();
        if let Ok(mut request) = chats.begin_request(&session.to_string(), new, asked) {
            request.finish(RequestEnd::Completed).unwrap();
        }
    });
}

#[test]
fn a_session_that_is_given_up_meanwhile_leaves_nothing() {
    beside(|store, session, _| {
        let policy = RetentionPolicy {
            deleted: true,
            ..RetentionPolicy::default()
        };
        store.delete_session(session).unwrap();
        store.retain(&policy).unwrap();
    });
}

#[test]
fn what_is_damaged_does_not_keep_the_rest_of_a_session() {
    let storage = MemoryStorage::new();
    let options = || StoreOptions {
        segment_bytes_max: 64 << 10,
        ..StoreOptions::default()
    };
    let open = || Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let store = open();
    let (session, _) = paused(&store);
    let chats = store.chats();
    let chat_id = session.to_string();
    let text = |number: usize| format!("{SECRET} number {number} {}", "x".repeat(2_000));
    for number in 0..100 {
        let message = ChatMessage::text(ChatRole::User, &text(number));
        chats.save_messages(&chat_id, vec![message]).unwrap();
    }
    store.close().unwrap();
    // A flipped byte in a message of a segment in the middle.
    let wanted = format!("{SECRET} number 17 ");
    for name in storage.list().unwrap() {
        let file = storage.open(&name, Access::Write).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        let found = bytes
            .windows(wanted.len())
            .position(|at| at == wanted.as_bytes());
        if let Some(at) = found {
            file.write_at((at + wanted.len() + 100) as u64, b"y")
                .unwrap();
        }
    }
    let store = open();
    let erased = erase(&store, session).unwrap();
    assert!(!erased.is_gone, "the damaged segment stays as it is");
    assert!(erased.records > 100, "{erased:?}");
    let session = store.get_session(session).unwrap().unwrap();
    assert_eq!((session.title, session.metadata), (None, None));
}

#[test]
fn what_a_copy_is_at_work_on_is_not_erased_and_a_copy_is_beside_its_original() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::titled("t"), "coder");
    let run = store.runs().start(new).unwrap();
    run.record_message(NewMessage::user("mine")).unwrap();
    let original = run.run().session_id;
    let copy = store.copy_session(original, &CopySession::default());
    let copy = copy.unwrap();
    // The one in which it was written goes on, and loses nothing.
    erase(&store, copy.session.id).unwrap();
    run.complete(None).unwrap();
    assert!(tells(&store, "mine"));

    let in_copy = NewRun::new(copy.instances[0].instance.id);
    let in_copy = store.runs().start(in_copy).unwrap();
    let refused = erase(&store, original).unwrap_err();
    assert_eq!(refused.kind(), runlog::ErrorKind::WrongStatus, "{refused}");
    let of_copy = copy.session.id.to_string();
    assert!(refused.to_string().contains(&of_copy), "{refused}");
    in_copy.complete(None).unwrap();
    erase(&store, original).unwrap();
    assert!(!tells(&store, "mine"));
}
