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
    blocking::Store,
    chats::{ChatMessage, ChatRole},
    engine::storage::{Access, MemoryStorage, Storage},
    retention::{Erase, Erased, RetentionPolicy},
    runs::{ResumeOptions, RunDetails},
    sessions::CopySession,
};

use traces::tells;

const SECRET: &str = "correct-horse-battery-staple";

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
    (run.run().session_id, run.id())
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
fn a_copy_that_ends_between_a_message_and_its_calls_takes_these_along() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::titled("t"), "coder");
    let run = store.runs().start(new).unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::user("before")).unwrap();
    let call = |id: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{\"a\":\"{SECRET}\"}}"}}}}"#
        )
    };
    let message = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{},{}]}}"#,
        call("a"),
        call("b")
    );
    run.record_raw_message(RawJson::parse(message).unwrap())
        .unwrap();
    run.pause("later").unwrap();
    for up_to_sequence in [2, 3] {
        let options = CopySession {
            up_to_sequence: Some(up_to_sequence),
            ..CopySession::default()
        };
        let copy = store.copy_session(run.run().session_id, &options).unwrap();
        assert!(up_to_sequence == 3 || tells(&store, SECRET));
        erase(&store, copy.session.id).unwrap();
        assert!(!tells(&store, SECRET));
    }
    let context = store.context(run.run().instance_id).unwrap();
    let messages = context.get_messages().unwrap();
    assert_eq!(messages.len(), 2);
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
fn a_copy_is_not_erased_while_somebody_is_at_work_on_what_it_shares() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::titled("t"), "coder");
    let run = store.runs().start(new).unwrap();
    run.record_message(NewMessage::user("mine")).unwrap();
    let session = run.run().session_id;
    let copy = store
        .copy_session(session, &CopySession::default())
        .unwrap();
    let refused = erase(&store, copy.session.id).unwrap_err();
    assert_eq!(refused.kind(), runlog::ErrorKind::WrongStatus, "{refused}");
    assert!(refused.to_string().contains(&session.to_string()));
    run.complete(None).unwrap();
    erase(&store, copy.session.id).unwrap();
}
