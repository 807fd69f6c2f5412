//! [`UnderWay`]: what becomes of the log when the thread that writes to it panics.

use super::shared::Shared;
use crate::{Error, ErrorKind, sync::PoisonError};

/// Something that one thread alone does to the log. If it panics, the writer is poisoned and those who wait are told,
/// instead of waiting for ever.
pub(crate) struct UnderWay<'a> {
    shared: &'a Shared,
    has_ended: bool,
}

impl<'a> UnderWay<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            has_ended: false,
        }
    }

    /// The thread is about to leave the state itself, under the writer's lock.
    pub(crate) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for UnderWay<'_> {
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
