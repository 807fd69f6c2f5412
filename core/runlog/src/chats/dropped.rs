//! Writing a request whose buffer is dropped before it has ended.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures_util::FutureExt;
use runlog_engine::Wait;
use runlog_log::{Batch, Expected};

use super::{
    RequestBuffer, RequestEnd,
    flush::{RequestFlush, place_of},
    write::Prepared,
};
use crate::{Result, backend::Backend};

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
        while self.flushing.is_some() || self.draft.exceeds_part() {
            let Ok(Some(RequestFlush(part))) = self.start_flush() else {
                break;
            };
            let prepared = match part.placed {
                None => Ok(part.prepared.clone()),
                Some(_) => part.prepared.clone().reordered(),
            };
            // Later steps may be saved as differences from those of this part, so that it is tried twice. Its key keeps it
            // from being written twice.
            let write = |prepared: &Prepared| write_under(&part.key, prepared, Expected::Any);
            let _ = prepared.map(|prepared| write(&prepared).or_else(|_| write(&prepared)));
            self.flushing = None;
        }
        let events = self.draft.events(&end);
        let write = |prepared: &Prepared, expected| write_under(&self.key, prepared, expected);
        if !self.draft.is_placed() {
            let prepared = self.prepare(events, None);
            let _ = prepared.and_then(|prepared| write(&prepared, Expected::Any));
            return;
        }
        let given_ids = self.draft.given_ids();
        let place = place_of(&self.store, self.session, given_ids, &events)
            .now_or_never()
            .and_then(Result::ok);
        let written = place.map(|(last, after)| {
            let prepared = self.prepare(events.clone(), after)?;
            write(&prepared, Expected::Last(last))
        });
        if !matches!(written, Some(Ok(()))) {
            // If an id is taken, the message gets another one, which only folding the chat can determine.
            let prepared = self.prepare(events, None);
            let _ = prepared
                .and_then(Prepared::reordered)
                .and_then(|prepared| write(&prepared, Expected::Any));
        }
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
