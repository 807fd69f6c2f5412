//! [`SharedFold`]: a fold of a chat, or of a part of one, that several hold.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use runlog_model::ChatFold;

/// A chat's fold, shared and never copied. The task that catches it up blocks the readers only while it applies one event.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedFold(Arc<RwLock<ChatFold>>);

impl SharedFold {
    pub(crate) fn of(fold: ChatFold) -> Self {
        Self(Arc::new(RwLock::new(fold)))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ChatFold> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, ChatFold> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}
