//! A backend that counts what is asked of it, and can be told to refuse.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    reason = "a module of test binaries, each of which uses a part"
)]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
};

use runlog::{
    Error, ErrorKind, Result,
    backend::{Backend, BackendFuture, Decorator, Page},
    log::{
        Appended, Batch, FindOptions, Label, Op, Position, ReadOptions, Sequence, Snapshot,
        StreamId,
    },
};

/// Another backend, watched.
pub struct Watched {
    inner: Arc<dyn Backend>,
    batches: AtomicU64,
    read: Mutex<HashMap<StreamId, u64>>,
    /// How many batches are written before all others are refused, as if the process had been killed.
    batches_left: AtomicU64,
    refused: Mutex<Option<StreamId>>,
    refusals: AtomicU64,
    hides_snapshots: AtomicBool,
    gives_way: AtomicBool,
}

impl Watched {
    pub fn new(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            batches: AtomicU64::new(0),
            read: Mutex::default(),
            batches_left: AtomicU64::new(u64::MAX),
            refused: Mutex::default(),
            refusals: AtomicU64::new(0),
            hides_snapshots: AtomicBool::new(false),
            gives_way: AtomicBool::new(false),
        })
    }

    /// How many batches were written since this was last asked.
    pub fn batches(&self) -> u64 {
        self.batches.swap(0, Ordering::Relaxed)
    }

    /// How many records of a stream were read, or found by a label.
    pub fn read(&self, stream: StreamId) -> u64 {
        self.read.lock().unwrap().get(&stream).copied().unwrap_or(0)
    }

    /// Writes so many batches more, and then none.
    pub fn die_after(&self, batches: u64) {
        self.batches_left.store(batches, Ordering::Relaxed);
    }

    /// Refuses batches that append to a stream from now on, or to none.
    pub fn refuse(&self, stream: Option<StreamId>) {
        *self.refused.lock().unwrap() = stream;
    }

    /// How many batches were refused.
    pub fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Finds no snapshot any more.
    pub fn hide_snapshots(&self) {
        self.hides_snapshots.store(true, Ordering::Relaxed);
    }

    /// Lets others go on before each read from now on.
    pub fn give_way(&self) {
        self.gives_way.store(true, Ordering::Relaxed);
    }

    fn admit(&self, batch: &Batch<'_>) -> Result<()> {
        let refused = *self.refused.lock().unwrap();
        let is_refused = batch
            .ops
            .iter()
            .any(|op| matches!(op, Op::Append { stream, .. } if Some(*stream) == refused));
        let one_less = |left: u64| left.checked_sub(1);
        if is_refused
            || self
                .batches_left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
                .is_err()
        {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Io, "refused"));
        }
        self.batches.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Decorator for Watched {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        match self.admit(&batch) {
            Ok(()) => self.inner.commit(batch),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            let mut waits = self.gives_way.load(Ordering::Relaxed);
            std::future::poll_fn(|context| {
                if !std::mem::take(&mut waits) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
            let page = self.inner.read(stream, options).await?;
            *self.read.lock().unwrap().entry(stream).or_default() += page.records.len() as u64;
            Ok(page)
        })
    }

    fn find(&self, label: Label, options: FindOptions) -> BackendFuture<'_, Page<Position>> {
        Box::pin(async move {
            let page = self.inner.find(label, options).await?;
            let mut read = self.read.lock().unwrap();
            for record in &page.records {
                *read.entry(record.stream).or_default() += 1;
            }
            drop(read);
            Ok(page)
        })
    }

    fn latest_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
    ) -> BackendFuture<'_, Option<Snapshot>> {
        if self.hides_snapshots.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        self.inner.latest_snapshot(stream, at_or_before)
    }
}
