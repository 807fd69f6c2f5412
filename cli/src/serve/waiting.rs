//! [`Waiting`]: somebody waits for an answer; once nobody does, its work ends with its next read.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use runlog::{
    Error, ErrorKind, Result, Store,
    backend::{Backend, BackendFuture, Decorator, is_list},
    log::{
        FindOptions, Label, Maintenance, Page, Position, ReadOptions, Sequence, Snapshot, StreamId,
        StreamInfo,
    },
};

/// Held by whoever waits for an answer. It is dropped when the client goes away, and when the time is over.
#[derive(Default)]
pub(super) struct Waiting {
    is_over: Arc<AtomicBool>,
}

impl Waiting {
    /// What ends reads once nobody waits.
    pub(super) fn ends(&self) -> Ends {
        Ends(Arc::clone(&self.is_over))
    }
}

/// What ends the reads of a store once nobody waits.
pub(super) struct Ends(Arc<AtomicBool>);

impl Ends {
    /// The same store, with reads that end.
    pub(super) fn reads_of(self, store: &Store) -> Store {
        let is_over = self.0;
        store.through(|inner| Arc::new(Ending { inner, is_over }))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// A backend whose reads fail once nobody waits for what is made of them. A read is short: its work ends within one.
struct Ending {
    inner: Arc<dyn Backend>,
    is_over: Arc<AtomicBool>,
}

impl Ending {
    /// Whether a stream may be read on. The store's own lists are read to their end: they are kept, and the next request that needs
    /// them would begin at the beginning.
    fn check_stream(&self, stream: StreamId) -> Result<()> {
        match is_list(stream) {
            true => Ok(()),
            false => self.check(),
        }
    }

    fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            let what = "nobody waits for the answer any more";
            return Err(Error::new(ErrorKind::Closed, what));
        }
        Ok(())
    }
}

impl Decorator for Ending {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            self.check_stream(stream)?;
            self.inner.read(stream, options).await
        })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move {
            self.check()?;
            self.inner.scan(first, limit).await
        })
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move {
            self.check()?;
            self.inner.find(label, options).await
        })
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        Box::pin(async move {
            self.check_stream(stream)?;
            self.inner.stream(stream).await
        })
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        Box::pin(async move {
            self.check_stream(stream)?;
            self.inner.latest_snapshot(stream, at_or_before).await
        })
    }

    fn maintenance(&self) -> &dyn Maintenance {
        self.inner.maintenance()
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;
    use runlog::{NewMessage, NewSession, scan::TextQuery};

    use super::*;

    #[test]
    fn work_that_nobody_waits_for_ends() {
        let store = Store::in_memory();
        let session = block_on(store.create_session(NewSession::default())).unwrap();
        let agent = block_on(store.create_instance(session.id, "coder", None)).unwrap();
        let context = block_on(store.context(agent.id)).unwrap();
        block_on(context.append_message(NewMessage::user("find me"))).unwrap();
        let waiting = Waiting::default();
        let ending = waiting.ends().reads_of(&store);
        let query = TextQuery::new("find me").unwrap();
        let found = || block_on(ending.search(&query, Position(1)));
        assert_eq!(found().unwrap().found.len(), 1);
        drop(waiting);
        assert_eq!(found().unwrap_err().kind(), ErrorKind::Closed);
        // The lists are read on, and so are all others.
        assert!(block_on(ending.get_session(session.id)).unwrap().is_some());
        assert!(block_on(store.get_session(session.id)).unwrap().is_some());
    }
}
