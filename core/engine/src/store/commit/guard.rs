//! [`WriteGuard`]: poisons the writer if the thread that writes to the log fails or panics.

use super::shared::Shared;
use crate::{
    Error, ErrorKind,
    store::staging::{
        group::{Waiters, outcome_unknown},
        writer::Writer,
    },
    sync::{MutexGuard, PoisonError},
};

/// Guard of an exclusive operation on the log. If its thread panics, the writer is poisoned and waiting threads get an
/// error, instead of waiting forever.
pub(crate) struct WriteGuard<'a> {
    shared: &'a Shared,
    has_ended: bool,
}

impl<'a> WriteGuard<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            has_ended: false,
        }
    }

    /// Disarms the guard: the thread leaves the state itself, under the writer's lock.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let error = Error::new(ErrorKind::Io, "the thread that wrote panicked");
        if let Some(writer) = &self.shared.writer {
            self.shared.poison(
                writer.lock().unwrap_or_else(PoisonError::into_inner),
                &error,
            );
        }
    }
}

impl Shared {
    /// Poisons the writer: a write or a flush failed, so it is unknown which bytes are on the device.
    pub(crate) fn fail(
        &self,
        writer: MutexGuard<'_, Writer>,
        guard: WriteGuard<'_>,
        error: &Error,
    ) {
        guard.end();
        self.poison(writer, error);
    }

    /// As [`fail`](Self::fail), without a guard: for a thread that panicked.
    pub(crate) fn poison(&self, mut writer: MutexGuard<'_, Writer>, error: &Error) {
        writer.phase.fail(error);
        let behind = writer.open.take().map(|open| open.group);
        let groups = [Some(writer.phase.end()), behind];
        // Both groups get their result before any waiter is woken, since a woken task may close the store.
        let waiters =
            groups.map(|group| group.map(|group| group.settle(Err(outcome_unknown(error)))));
        drop(writer);
        waiters.into_iter().flatten().for_each(Waiters::wake);
    }
}
