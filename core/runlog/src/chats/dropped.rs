//! Writing a request whose buffer is dropped before it has ended.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::FutureExt;
use runlog_engine::Wait;
use runlog_log::{Batch, Expected, Sequence};
use runlog_model::{ChatEvent, ChatIdOf, SessionId};

use super::{
    RequestBuffer, RequestEnd,
    beside::Beside,
    ending::Wholes,
    flush::{RequestFlush, have_changes, is_change, place_of, renamed},
    parts::Part,
    taken_ids::NewIds,
    write::Prepared,
};
use crate::{Error, ErrorKind, Result, Store, backend::Backend, kernel::chats::Reserved};

/// How often a drop looks at a chat at which others are at work.
const LOOKS_MAX: u32 = 1_000;
/// How often of these it doesn't wait for what it looks at.
const GLANCES: u32 = 100;

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
        // A drop can't report errors. Without what comes before it an end would say that this is all there was: the request stays
        // unfinished then, as after a crash.
        let _ = self.write_dropped(&end);
    }
}

impl RequestBuffer {
    /// Writes what isn't written, and how the request ended.
    fn write_dropped(&mut self, end: &RequestEnd) -> Result<()> {
        let _ = self.rename_refused();
        let mut writing = Writing::of(&self.store, self.session);
        let flushing = self.flushing.take();
        let is_written = |flush: &RequestFlush| {
            let written = flush.0.is_written.try_lock();
            written.is_ok_and(|written| *written)
        };
        if let Some(RequestFlush(part)) = flushing.filter(|flush| !is_written(flush)) {
            match &part.looked_up {
                None => writing.twice(|it| it.commit(&part.key, &part.prepared, Expected::Any))?,
                Some(of) => writing.twice(|it| it.write_looked_up(&part.key, of))?,
            }
        }
        while self.draft.exceeds_part() {
            let is_placed = self.draft.is_placed();
            let part = self.draft.take_part();
            if part.events.is_empty() {
                break;
            }
            let key = *self.store.backend().new_id().as_bytes();
            writing.twice(|it| it.write(&key, &part, is_placed))?;
        }
        let is_placed = self.draft.is_placed();
        let written = [Wholes::Written, Wholes::Left].into_iter().map(|wholes| {
            let part = Part {
                events: self.draft.events(end, wholes),
                given_ids: self.draft.given_ids().to_vec(),
                beside: self.draft.beside(wholes),
            };
            writing.twice(|it| it.write(&self.key, &part, is_placed))
        });
        // What is written once more, for those who search, is no reason not to end.
        let is_full = |written: &Result<()>| matches!(written, Err(error) if error.kind() == ErrorKind::StorageFull);
        let mut written = written.skip_while(is_full);
        written.next().unwrap_or(Ok(()))
    }
}

/// The writes of a request that is dropped.
struct Writing<'a> {
    store: &'a Store,
    session: SessionId,
    /// That of the store, which waits for the storage.
    backend: Arc<dyn Backend>,
    ids: Ids<'a>,
}

impl<'a> Writing<'a> {
    fn of(store: &'a Store, session: SessionId) -> Self {
        let backend = store.backend();
        let blocking = backend.waiting(Wait::Block);
        Self {
            store,
            session,
            backend: Arc::clone(blocking.as_ref().unwrap_or(backend)),
            ids: Ids::of(store, session),
        }
    }

    /// Does a write, and does it again if it fails: nobody else will, and what comes later, such as steps that are saved as differences, is
    /// nothing without it. Its key keeps it from being written twice.
    fn twice(&mut self, mut write: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        write(self).or_else(|_| write(self))
    }

    /// Writes a part, of which messages may have given ids or sequences.
    fn write(&mut self, key: &[u8; 16], part: &Part, is_placed: bool) -> Result<()> {
        if is_placed || have_changes(&part.events) {
            return self.write_looked_up(key, part);
        }
        let prepared = self.prepare(self.ids.given(&part.events), None)?;
        self.commit(key, &prepared, Expected::Any)
    }

    /// Writes a part for which the chat has to be looked at.
    fn write_looked_up(&mut self, key: &[u8; 16], part: &Part) -> Result<()> {
        self.ids.reserve(&part.given_ids);
        let mut events = self.ids.given(&part.events);
        let kept = self.ids.kept(&part.given_ids);
        let mut written = self.write_as_it_is(key, Some(&kept), &events, &part.beside);
        if matches!(&written, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            // The chat itself has one of the ids: the message gets another one when the chat is folded.
            written = self.write_as_it_is(key, None, &events, &part.beside);
        }
        let is_unknown = |kind| {
            matches!(
                kind,
                ErrorKind::Conflict | ErrorKind::AlreadyExists | ErrorKind::Damaged
            )
        };
        if !matches!(&written, Err(error) if is_unknown(error.kind())) {
            return written;
        }
        // How the chat is can't be known. What is new is written all the same, but no change of a message: what was taken out of it
        // meanwhile would be in the log again.
        events.retain(|event| !is_change(event));
        let prepared = self.prepare(events, None)?.reordered()?;
        self.commit(key, &prepared, Expected::Any)
    }

    /// Writes events on condition that the chat is as it was looked at, as an end does that is awaited. Without `ids` it isn't looked
    /// whether those of its messages are taken.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when others were at work on it all the time: nobody can be waited for here, who may be waiting
    /// for this thread.
    fn write_as_it_is(
        &self,
        key: &[u8; 16],
        ids: Option<&[String]>,
        events: &[ChatEvent],
        beside: &Beside,
    ) -> Result<()> {
        let mut own = None;
        for look in 0..LOOKS_MAX {
            let glance = self.look(self.store, ids, events, beside).now_or_never();
            let looked = match glance {
                Some(looked) => looked,
                None if look < GLANCES => {
                    std::thread::yield_now();
                    continue;
                }
                // What isn't there at once may be held by somebody who waits for this thread, but not in a store of its own: there only the
                // backend is waited for, as for the write.
                None => {
                    let own = own.get_or_insert_with(|| Store::with_backend(self.backend.clone()));
                    wait_for(self.look(own, ids, events, beside))
                }
            };
            let (last, after, events) = looked?;
            if events.is_empty() {
                return Ok(());
            }
            let mut prepared = self.prepare(events, after)?;
            if ids.is_none() {
                prepared = prepared.reordered()?;
            }
            match self.commit(key, &prepared, Expected::Last(last)) {
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                written => return written,
            }
        }
        Err(Error::new(
            ErrorKind::Conflict,
            "others are at work on the chat",
        ))
    }

    /// The last sequence of the chat, that of its last message where the events have to know it, and the events as the chat is now.
    async fn look(
        &self,
        store: &Store,
        ids: Option<&[String]>,
        events: &[ChatEvent],
        beside: &Beside,
    ) -> Result<(Sequence, Option<u64>, Vec<ChatEvent>)> {
        let ids = ids.unwrap_or_default();
        let (last, after) = place_of(store, self.session, ids, events).await?;
        let events = beside.adjust(store, self.session, events.to_vec());
        Ok((last, after, events.await?))
    }

    fn prepare(&self, events: Vec<ChatEvent>, after: Option<u64>) -> Result<Prepared> {
        Prepared::new(self.session, events, after, self.backend.now_ms())
    }

    fn commit(&self, key: &[u8; 16], prepared: &Prepared, expected: Expected) -> Result<()> {
        let batch = Batch::new(prepared.ops(expected)).with_key(key);
        wait_for(self.backend.commit(batch))?;
        self.store.chat_cache().forget_tail_of(self.session);
        Ok(())
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
    fn given(&self, events: &[ChatEvent]) -> Vec<ChatEvent> {
        let events = events.iter().cloned();
        events.map(|event| renamed(event, &self.new)).collect()
    }

    /// Those of the ids that stay.
    fn kept(&self, given: &[String]) -> Vec<String> {
        let kept = given.iter().filter(|id| !self.new.contains_key(*id));
        kept.cloned().collect()
    }
}

/// Waits for a backend, without yielding. One in this process is ready at the first poll.
fn wait_for<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut work = pin!(work);
    if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return done;
    }
    #[cfg(not(target_family = "wasm"))]
    {
        pollster::block_on(work)
    }
    #[cfg(target_family = "wasm")]
    {
        Err(Error::new(
            ErrorKind::Conflict,
            "a thread can't be blocked here; end the request with finish",
        ))
    }
}
