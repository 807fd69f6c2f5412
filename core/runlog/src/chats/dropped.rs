//! Writing a request whose buffer is dropped before it has ended.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::FutureExt;
use runlog_engine::Wait;
use runlog_log::{Batch, Expected};
use runlog_model::{ChatEvent, ChatIdOf, SessionId};

use super::{
    RequestBuffer, RequestEnd,
    beside::Beside,
    ending::Wholes,
    flush::{RequestFlush, place_of, renamed},
    parts::Part,
    taken_ids::NewIds,
    write::Prepared,
};
use crate::{ErrorKind, Result, Store, backend::Backend, kernel::chats::Reserved};

impl Drop for RequestBuffer {
    fn drop(&mut self) {
        if self.written {
            return;
        }
        let end = if std::thread::panicking() {
            RequestEnd::Failed("the request panicked".to_owned())
        } else {
            RequestEnd::Interrupted
        };
        if self.check_live().is_err() {
            return;
        }
        // A drop can't report errors.
        let backend = self.store.backend();
        let blocking = backend.waiting(Wait::Block);
        let backend = Arc::clone(blocking.as_ref().unwrap_or(backend));
        let write_under = |key: &[u8; 16], prepared: &Prepared, expected| {
            wait_for(&*backend, Batch::new(prepared.ops(expected)).with_key(key))
        };
        let _ = self.rename_refused();
        let mut ids = Ids::of(&self.store, self.session);
        // Later steps may be saved as differences from those of this part, so that it is tried twice. Its key keeps it
        // from being written twice.
        let write_part = |key: &[u8; 16], prepared: Result<Prepared>| {
            let write = |prepared: &Prepared| write_under(key, prepared, Expected::Any);
            let _ = prepared.map(|prepared| write(&prepared).or_else(|_| write(&prepared)));
        };
        let flushing = self.flushing.take();
        let is_written = |flush: &RequestFlush| {
            let written = flush.0.is_written.try_lock();
            written.is_ok_and(|written| *written)
        };
        if let Some(RequestFlush(part)) = flushing.filter(|flush| !is_written(flush)) {
            let prepared = match &part.looked_up {
                None => Ok(part.prepared.clone()),
                Some(of) => {
                    let events = self.adjusted(of.events.clone(), &of.beside);
                    match part.is_placed {
                        false => self.prepare(events, None),
                        true => self.prepare_with(&mut ids, &of.given_ids, events),
                    }
                }
            };
            write_part(&part.key, prepared);
        }
        while self.draft.exceeds_part() {
            let is_placed = self.draft.is_placed();
            let Part {
                events,
                given_ids,
                beside,
            } = self.draft.take_part();
            if events.is_empty() {
                break;
            }
            let events = self.adjusted(events, &beside);
            let prepared = match is_placed {
                false => self.prepare(ids.given(events), None),
                true => self.prepare_with(&mut ids, &given_ids, events),
            };
            write_part(self.store.backend().new_id().as_bytes(), prepared);
        }
        let events_with = |wholes| {
            let events = self.draft.events(&end, wholes);
            self.adjusted(events, &self.draft.beside(wholes))
        };
        let write = |prepared: &Prepared, expected| write_under(&self.key, prepared, expected);
        if !self.draft.is_placed() {
            for wholes in [Wholes::Written, Wholes::Left] {
                let prepared = self.prepare(ids.given(events_with(wholes)), None);
                let written = prepared.and_then(|prepared| write(&prepared, Expected::Any));
                if !matches!(written, Err(error) if error.kind() == ErrorKind::StorageFull) {
                    break;
                }
            }
            return;
        }
        let events = events_with(Wholes::Written);
        let given_ids = self.draft.given_ids();
        ids.reserve(given_ids);
        let events = ids.given(events);
        let kept: Vec<String> = given_ids
            .iter()
            .filter(|id| !ids.new.contains_key(*id))
            .cloned()
            .collect();
        let place = place_of(&self.store, self.session, &kept, &events)
            .now_or_never()
            .and_then(Result::ok);
        let written = place.map(|(last, after)| {
            let prepared = self.prepare(events.clone(), after)?;
            write(&prepared, Expected::Last(last))
        });
        if !matches!(written, Some(Ok(()))) {
            // If the chat itself has an id, the message gets another one, which only folding the chat can determine.
            let prepared = self.prepare(events, None);
            let _ = prepared
                .and_then(Prepared::reordered)
                .and_then(|prepared| write(&prepared, Expected::Any));
        }
    }
}

impl RequestBuffer {
    /// The events as the chat is now, where that can be known without waiting, as with a backend in this process.
    fn adjusted(&self, events: Vec<ChatEvent>, beside: &Beside) -> Vec<ChatEvent> {
        let now = beside.adjust(&self.store, self.session, events.clone());
        let now = now.now_or_never().and_then(Result::ok);
        now.unwrap_or_else(|| beside.whole(events.clone()).unwrap_or(events))
    }

    /// Events whose place in the chat isn't looked up, with the ids that they may have.
    fn prepare_with(
        &self,
        ids: &mut Ids<'_>,
        given_ids: &[String],
        events: Vec<ChatEvent>,
    ) -> Result<Prepared> {
        ids.reserve(given_ids);
        self.prepare(ids.given(events), None)?.reordered()
    }
}

/// The ids that the messages of a dropped request are written with: the caller's, which are reserved meanwhile, and new ones for
/// those that another chat has: an id names one message in the store, and a drop has nobody to report a taken one to.
struct Ids<'a> {
    store: &'a Store,
    session: SessionId,
    reserved: Vec<Reserved>,
    /// The new one for each that is taken.
    new: NewIds,
}

impl<'a> Ids<'a> {
    fn of(store: &'a Store, session: SessionId) -> Self {
        Self {
            store,
            session,
            reserved: Vec::new(),
            new: NewIds::new(),
        }
    }

    /// Reserves ids until this is dropped, and makes a new one for each that another chat has or is about to save.
    fn reserve(&mut self, given: &[String]) {
        for id in given {
            let one = std::slice::from_ref(id);
            let is_free = match self.store.reserve_ids(self.session, ChatIdOf::Message, one) {
                Ok(reserved) => {
                    self.reserved.push(reserved);
                    // Where that can't be known without waiting, a new one is on the safe side.
                    self.store
                        .check_id_elsewhere(self.session, ChatIdOf::Message, id)
                        .now_or_never()
                        .is_some_and(|found| found.is_ok())
                }
                Err(_) => false,
            };
            if !is_free {
                let new = self.store.backend().new_id().to_string();
                self.new.insert(id.clone(), new);
            }
        }
    }

    /// The events with these ids.
    fn given(&self, events: Vec<ChatEvent>) -> Vec<ChatEvent> {
        let events = events.into_iter();
        events.map(|event| renamed(event, &self.new)).collect()
    }
}

/// Commits synchronously, without yielding. A backend in this process is ready at the first poll.
fn wait_for(backend: &dyn Backend, batch: Batch<'_>) -> Result<()> {
    let mut commit = pin!(backend.commit(batch));
    if let Poll::Ready(done) = commit
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        return done.map(drop);
    }
    #[cfg(not(target_family = "wasm"))]
    {
        pollster::block_on(commit).map(drop)
    }
    #[cfg(target_family = "wasm")]
    {
        Err(crate::Error::invalid(
            "a thread can't be blocked here; end the request with finish",
        ))
    }
}
