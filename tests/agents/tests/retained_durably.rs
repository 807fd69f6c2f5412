//! Retention shares one flush among the sessions that it removes; when it returns, all of them are removed for good.

use std::{ops::ControlFlow, sync::Arc};

use runlog::{
    NewMessage, NewRun, NewSession, SessionId, StoreOptions,
    blocking::Store,
    engine::Preallocation,
    retention::RetentionPolicy,
    runs::{ListRunMessages, ListRuns},
    sessions::ListSessions,
};
use runlog_tests::{
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
};

const SESSIONS: usize = 12;

fn options() -> StoreOptions {
    StoreOptions {
        preallocation: Preallocation::None,
        ..StoreOptions::with_host(Arc::new(TestHost::new(5)))
    }
}

fn open(storage: &FaultyStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options()).expect("it opens")
}

fn filled() -> (FaultyStorage, Store) {
    let storage = FaultyStorage::new();
    let store = open(&storage);
    for number in 0..SESSIONS {
        let new = NewRun::in_new_session(NewSession::titled(format!("{number}")), "coder");
        let run = store.runs().start(new).expect("it starts");
        run.record_message(NewMessage::user("hello"))
            .expect("it records");
        run.complete(None).expect("it completes");
    }
    (storage, store)
}

fn keep_last() -> RetentionPolicy {
    RetentionPolicy {
        keep_last: Some(1),
        ..RetentionPolicy::default()
    }
}

fn sessions(store: &Store) -> Vec<SessionId> {
    let page = store
        .list_sessions(&ListSessions::default())
        .expect("it lists");
    page.items.into_iter().map(|session| session.id).collect()
}

/// Each session is there with its message, or gone with it. Returns how many are there.
fn whole_ones(store: &Store) -> usize {
    let there = sessions(store);
    let runs = store.runs().list(&ListRuns::default()).expect("it lists");
    assert_eq!(runs.items.len(), SESSIONS, "all runs stay listed");
    for run in runs.items {
        let messages = store
            .runs()
            .messages(run.id, &ListRunMessages::default())
            .expect("it reads");
        let is_there = there.contains(&run.session_id);
        assert_eq!(messages.items.len(), usize::from(is_there), "whole or gone");
    }
    there.len()
}

#[test]
fn all_removals_share_few_flushes_and_are_durable_when_it_returns() {
    let (storage, store) = filled();
    storage.take_trace();
    let done = store.retain(&keep_last()).expect("it removes");
    assert_eq!(done.sessions, SESSIONS as u64 - 1);
    let flushes = storage
        .take_trace()
        .iter()
        .filter(|operation| matches!(operation.call, Call::Sync | Call::WriteDurableAt))
        .count();
    assert!((1..=2).contains(&flushes), "{flushes} flushes");
    for seed in 0..20 {
        let after = open(&storage.crashed(seed));
        assert_eq!(whole_ones(&after), 1, "seed {seed}");
    }
}

#[test]
fn what_was_removed_before_it_was_cancelled_stays_removed() {
    let (storage, store) = filled();
    let done = store
        .retain_with(&keep_last(), |at| {
            if at.done == 4 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .expect("it removes");
    assert!(done.is_cancelled);
    let left = SESSIONS - usize::try_from(done.sessions).expect("few");
    for seed in 0..20 {
        assert_eq!(whole_ones(&open(&storage.crashed(seed))), left);
    }
}

#[test]
fn what_was_removed_before_something_could_not_be_read_stays_removed() {
    let mut removed_before = 0;
    for place in 0.. {
        let (storage, store) = filled();
        storage.arm(Fault {
            failure: Failure::Io,
            after: place,
            lasting: Lasting::Once,
        });
        let done = store.retain(&keep_last());
        let Some(hit) = storage.hit() else {
            break;
        };
        storage.arm(None);
        if hit.call != Call::ReadAt || done.is_ok() {
            continue;
        }
        let left = sessions(&store).len();
        removed_before += SESSIONS - left;
        for seed in 0..4 {
            assert_eq!(whole_ones(&open(&storage.crashed(seed))), left, "{hit:?}");
        }
    }
    assert!(removed_before > SESSIONS, "{removed_before} were removed");
}

#[test]
fn wherever_the_power_goes_each_session_is_whole_or_gone_and_the_next_one_does_the_rest() {
    for place in 0.. {
        let (storage, store) = filled();
        storage.arm(Fault {
            failure: Failure::PowerLoss,
            after: place,
            lasting: Lasting::Once,
        });
        let done = store.retain(&keep_last());
        if storage.hit().is_none() {
            assert!(place > SESSIONS as u64, "it wrote all of them");
            break;
        }
        for seed in 0..4 {
            let store = open(&storage.crashed(seed));
            let left = whole_ones(&store);
            assert!(done.is_err() || left == 1, "it said that they are removed");
            let rest = store.retain(&keep_last()).expect("it removes");
            assert_eq!(rest.sessions, left as u64 - 1);
            assert_eq!(whole_ones(&store), 1);
        }
    }
}
