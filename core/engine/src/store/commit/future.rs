//! [`OpenStore`], which closes the store with its last handle, and [`Commit`]: a batch that was queued.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use super::shared::Shared;
use crate::{
    Appended, Result,
    store::staging::{
        group::{Group, Slot},
        open_group::FlushUrgency,
    },
    sync::Arc,
};

/// An open store, closed when the last of its handles is dropped.
pub(crate) struct OpenStore(pub(crate) Arc<Shared>);

impl Drop for OpenStore {
    fn drop(&mut self) {
        // A drop can't report an error; a caller that needs it calls `close`.
        let _ = self.0.close();
    }
}

/// A queued batch. Wait for it with [`Commit::wait`], or await it.
#[must_use = "the batch is acknowledged only once this was waited for"]
pub struct Commit {
    store: Arc<OpenStore>,
    group: Option<Arc<Group>>,
    /// The registration of the task that awaits it.
    slot: Slot,
    appended: Appended,
}

impl Commit {
    pub(crate) fn done(store: Arc<OpenStore>, appended: Appended) -> Self {
        Self {
            store,
            group: None,
            slot: Slot::default(),
            appended,
        }
    }

    pub(crate) fn staged(store: Arc<OpenStore>, group: Arc<Group>, appended: Appended) -> Self {
        Self {
            store,
            group: Some(group),
            slot: Slot::default(),
            appended,
        }
    }

    /// The result of the batch, once it is acknowledged: its positions are assigned already.
    pub fn appended(&self) -> &Appended {
        &self.appended
    }

    /// Blocks until the batch is as durable as was requested.
    ///
    /// # Errors
    /// - [`StorageFull`](crate::ErrorKind::StorageFull) if the device is full: nothing of the batch was written, and
    ///   batches staged after it were refused too. Free some space and continue.
    /// - [`OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown) when a write or flush failed.
    pub fn wait(self) -> Result<Appended> {
        if let Some(group) = &self.group {
            self.store.0.join(group)?;
        }
        Ok(self.appended)
    }
}

impl Future for Commit {
    type Output = Result<Appended>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self {
            store,
            group,
            slot,
            appended,
        } = self.get_mut();
        let Some(group) = group else {
            return Poll::Ready(Ok(appended.clone()));
        };
        let result = match group.poll(slot, context.waker()) {
            Some(result) => Some(result),
            None => {
                let shared = &store.0;
                if let Err(error) = shared.check_process() {
                    return Poll::Ready(Err(error));
                }
                shared.flush_if_due();
                if let Ok(writer) = shared.writer()
                    && writer
                        .open
                        .as_ref()
                        .is_some_and(|open| Arc::ptr_eq(&open.group, group))
                {
                    shared.request_flush(writer, FlushUrgency::Now);
                }
                group.result()
            }
        };
        match result {
            Some(result) => Poll::Ready(result.map(|()| appended.clone())),
            None => Poll::Pending,
        }
    }
}
