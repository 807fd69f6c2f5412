//! [`UnderWay`]: what becomes of a write whose thread panics.

use std::sync::{Arc, PoisonError};

use super::{
    group::{Group, outcome_unknown},
    shared::Shared,
};
use crate::{Error, ErrorKind, Result};

/// A write that is under way. If its thread panics, the writer is poisoned and those who wait are told, instead of
/// waiting for ever.
pub(crate) struct UnderWay<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) group: Arc<Group>,
}

impl UnderWay<'_> {
    /// It ended in good order; the writer's state was set by the caller.
    pub(crate) fn end(self, result: Result<()>) {
        self.group.complete(result);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.group.result().is_some() {
            return;
        }
        let error = Error::new(ErrorKind::Io, "the thread that wrote panicked");
        if let Some(writer) = &self.shared.writer {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.flushing = None;
            self.shared.fail(writer, &error);
        }
        self.group.complete(Err(outcome_unknown(&error)));
    }
}
