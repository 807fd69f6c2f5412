//! Retention beside an append that has seen its session, and isn't written yet.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

use std::sync::{Arc, Mutex};

use runlog::{
    AgentInstance, ErrorKind, NewMessage, NewSession,
    backend::{Backend, BackendFuture, Decorator},
    blocking::Store,
    engine::{Embedded, SystemHost, Wait},
    log::{Appended, Batch, StreamId},
    retention::RetentionPolicy,
};

type Work = Box<dyn FnOnce() + Send>;

/// Does something before the next batch is written.
struct Interrupted {
    inner: Embedded,
    next: Arc<Mutex<Option<Work>>>,
}

impl Decorator for Interrupted {
    fn inner(&self) -> &dyn Backend {
        &self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let work = self.next.lock().unwrap().take();
        if let Some(work) = work {
            work();
        }
        self.inner.commit(batch)
    }
}

/// Two sessions with a message each, of which retention keeps the newer one, and where what comes next is put.
fn two_sessions() -> (Store, [AgentInstance; 2], Arc<Mutex<Option<Work>>>) {
    let next = Arc::default();
    let store = Store::with_backend(Arc::new(Interrupted {
        inner: Embedded::in_memory(Arc::new(SystemHost), Wait::Block),
        next: Arc::clone(&next),
    }));
    let agents = ["old", "new"].map(|name| {
        let (_, agent) = store
            .start_session(NewSession::named(name), "planner")
            .unwrap();
        let context = store.context(agent.id).unwrap();
        context.append_message(NewMessage::user("Oslo.")).unwrap();
        agent
    });
    (store, agents, next)
}

fn retaining(store: &Store) -> Work {
    let store = store.clone();
    let policy = RetentionPolicy {
        keep_last: Some(1),
        ..RetentionPolicy::default()
    };
    Box::new(move || assert_eq!(store.retain(&policy).unwrap().sessions, 1))
}

fn events_left(store: &Store, of: &AgentInstance) -> u64 {
    let found = pollster::block_on(store.backend().stream(StreamId(of.id.0)));
    found.unwrap().map_or(0, |info| info.last_sequence.0)
}

#[test]
fn an_append_to_a_session_that_is_given_up_meanwhile_is_refused_and_leaves_nothing() {
    let (store, [old, _], next) = two_sessions();
    let context = store.context(old.id).unwrap();
    *next.lock().unwrap() = Some(retaining(&store));
    let refused = context.append_message(NewMessage::user("important"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.get_session(old.session_id).unwrap(), None);
    assert_eq!(events_left(&store, &old), 0);
}

#[test]
fn an_append_to_another_session_is_kept() {
    let (store, [_, new], next) = two_sessions();
    let context = store.context(new.id).unwrap();
    *next.lock().unwrap() = Some(retaining(&store));
    context.append_message(NewMessage::user("Bergen.")).unwrap();
    assert_eq!(context.get_messages().unwrap().len(), 2);
}

#[test]
fn a_copy_into_a_session_that_is_given_up_meanwhile_is_refused_and_leaves_nothing() {
    let (store, [old, new], next) = two_sessions();
    let target = store
        .create_instance(old.session_id, "writer", None)
        .unwrap();
    *next.lock().unwrap() = Some(retaining(&store));
    let refused = store.contexts().copy_events(new.id, target.id, None);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(events_left(&store, &target), 0);
}
