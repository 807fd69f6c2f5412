//! [`Projection`]: a fold of one stream, caught up before reads, with periodic checkpoints.
//!
//! Checkpoints are derived data, and never trusted over the events: an unusable checkpoint is skipped. If later events
//! contradict a checkpoint, it is discarded, and the fold is rebuilt from the first event.

use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use runlog_log::{
    Batch, Durability, Expected, Kind, NewRecord, Op, Position, ReadOptions, Sequence, Snapshot,
    StreamId,
};
use runlog_model::{Checkpoint, Checkpointed, Restoration, kinds};

use super::{
    attempts::Retries,
    follow::{read_each, read_while},
};
use crate::{Error, ErrorKind, Result, backend::Backend};

/// A checkpoint is written after this many events, so that opening a store folds no more than these, unless writing failed.
const CHECKPOINT_EVENTS: u64 = 8_192;
/// When the store is closed, a checkpoint is written after this many, so that the next opening folds almost nothing.
const CLOSING_EVENTS: u64 = 512;
/// The most bytes of one batch of parts, unless a single part is larger: 16 MiB.
const BATCH_BYTES: usize = 16 << 20;

/// How many parts are redacted in one batch.
const REDACTIONS: usize = 10_000;

const UNBROKEN: &str = "a fold was left broken by a panic";

/// The streams of a fold and its checkpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams {
    /// The events; the stream's snapshots list the valid parts.
    pub(crate) events: StreamId,
    /// The parts of the checkpoints.
    pub(crate) parts: StreamId,
    /// The name of an event in error messages.
    pub(crate) event: &'static str,
}

/// Invariant: the fold is never ahead of what is durable.
pub(crate) struct Projection<Fold> {
    backend: Arc<dyn Backend>,
    streams: Streams,
    folded: Arc<Folded<Fold>>,
}

/// The current state of a fold, shared by all handles of a store, blocking and async ones.
#[derive(Default)]
pub(crate) struct Folded<Fold> {
    state: RwLock<State<Fold>>,
}

#[derive(Default)]
struct State<Fold> {
    fold: Fold,
    /// Whether it was restored from a checkpoint.
    is_restored: bool,
    /// Whether events contradicted a checkpoint.
    is_distrusted: bool,
    /// How many events were passed over that can't be read, and may be again once their files are restored. A checkpoint would
    /// go on without them then, so none is written.
    passed_over: u64,
    /// Whether a checkpoint is being written.
    is_written: bool,
    /// The fold's last sequence at the last attempt to write a checkpoint.
    tried_at: u64,
    /// How often checkpoints were [begun anew](Projection::renew_checkpoint): one that was being written then doesn't count.
    renewals: u64,
}

/// Marks that a checkpoint is being written, until it is dropped.
struct Writing<'a, Fold>(&'a Folded<Fold>);

impl<Fold> Drop for Writing<'_, Fold> {
    fn drop(&mut self) {
        self.0.change().is_written = false;
    }
}

impl<Fold> Folded<Fold> {
    /// The lock is never held across a wait. Any number of readers can hold it at a time, for as long as it takes to
    /// build a list.
    fn state(&self) -> RwLockReadGuard<'_, State<Fold>> {
        self.state.read().expect(UNBROKEN)
    }

    fn change(&self) -> RwLockWriteGuard<'_, State<Fold>> {
        self.state.write().expect(UNBROKEN)
    }
}

impl<Fold: Checkpointed> Folded<Fold> {
    fn last_sequence(&self) -> Sequence {
        Sequence(self.state().fold.last_sequence())
    }

    /// Discards state that was restored from a checkpoint. `true` if there was any, even if another thread has
    /// discarded it.
    fn discard_checkpoint(&self) -> bool {
        let mut state = self.change();
        if state.is_distrusted {
            return true;
        }
        if !state.is_restored {
            return false;
        }
        *state = State {
            is_distrusted: true,
            is_written: state.is_written,
            renewals: state.renewals,
            ..State::default()
        };
        true
    }

    /// `Some` if a checkpoint is due after this many events, and none is being written. After a failed attempt, the
    /// next one is due after as many events again.
    fn is_time_to_write(&self, after: u64) -> Option<Writing<'_, Fold>> {
        let mut state = self.change();
        let last = state.fold.last_sequence();
        let is_time = state.fold.events_since_checkpoint() >= after
            && last >= state.tried_at.saturating_add(after);
        if !is_time || state.is_written || state.passed_over > 0 {
            return None;
        }
        (state.is_written, state.tried_at) = (true, last);
        Some(Writing(self))
    }
}

impl<Fold: Checkpointed> Projection<Fold> {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        streams: Streams,
        folded: Arc<Folded<Fold>>,
    ) -> Self {
        Self {
            backend,
            streams,
            folded,
        }
    }

    /// Looks something up in the fold, without catching up.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&Fold) -> T) -> T {
        look(&self.folded.state().fold)
    }

    /// Catches up, then looks something up.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&Fold) -> T) -> Result<T> {
        self.catch_up().await?;
        Ok(self.with_state(look))
    }

    /// Applies the events just written, and writes a checkpoint when one is due. The events are committed even if this
    /// fails; the next read reports an error of reading.
    pub(crate) async fn after_commit(&self) {
        if self.catch_up().await.is_ok()
            && let Some(_writing) = self.folded.is_time_to_write(CHECKPOINT_EVENTS)
        {
            let _ = self.checkpoint().await;
        }
    }

    /// Writes a checkpoint, so that the next opening has fewer events to fold.
    pub(crate) async fn before_close(&self) {
        if let Some(_writing) = self.folded.is_time_to_write(CLOSING_EVENTS) {
            let _ = self.checkpoint().await;
        }
    }

    pub(crate) async fn catch_up(&self) -> Result<()> {
        // If the fold didn't start from a checkpoint, the damage is in the log itself.
        let is_distrusted = self.folded.state().is_distrusted;
        match self.apply_new_events().await {
            Err(error)
                if error.kind() == ErrorKind::Damaged
                    && !is_distrusted
                    && self.folded.discard_checkpoint() =>
            {
                self.apply_new_events().await
            }
            taken => taken,
        }
    }

    async fn apply_new_events(&self) -> Result<()> {
        let Some(info) = self.backend.stream(self.streams.events).await? else {
            return Ok(());
        };
        if self.folded.last_sequence() == Sequence::ZERO && info.last_sequence.0 >= CLOSING_EVENTS {
            self.restore().await?;
        }
        let mut next = Some(self.folded.last_sequence().next());
        while let Some(first) = next.filter(|first| *first <= info.last_sequence) {
            let page = self
                .backend
                .read(
                    self.streams.events,
                    ReadOptions {
                        first,
                        ..ReadOptions::default()
                    },
                )
                .await?;
            next = page.next;
            let mut state = self.folded.change();
            for record in &page.records {
                let last = state.fold.last_sequence();
                // Another thread may have caught up further meanwhile; skip what it has applied.
                if record.sequence.0 <= last {
                    continue;
                }
                // Another thread may also have discarded the checkpoint and restarted the fold.
                if first.0 > last + 1 {
                    next = Some(Sequence(last).next());
                    break;
                }
                let is_erasable = Fold::ERASABLE == Some(record.kind.0);
                if is_erasable && record.payload.is_empty() && !record.lost {
                    state.fold.skip_erased(record.sequence.0)?;
                    continue;
                }
                // Only a repair redacts another, and only if it can't be read.
                if record.redacted || record.kind.0 == kinds::LISTED_EVENT_LOST {
                    state.passed_over += u64::from(record.redacted);
                    state.fold.pass_over(record.sequence.0)?;
                    continue;
                }
                let event = Fold::decode(record.kind.0, &record.meta, &record.payload).map_err(
                    |error| {
                        Error::new(
                            error.kind(),
                            format!("{} {}: {error}", self.streams.event, record.sequence),
                        )
                    },
                )?;
                state.fold.apply(record.sequence.0, event)?;
            }
        }
        Ok(())
    }

    /// Restores the newest checkpoint. One that can't be used is skipped: all events are still in the log.
    async fn restore(&self) -> Result<()> {
        if self.folded.state().is_distrusted {
            return Ok(());
        }
        let restored = match self.read_checkpoint().await {
            Ok(restored) => restored,
            Err(error) if is_unusable(&error) => None,
            Err(error) => return Err(error),
        };
        let mut state = self.folded.change();
        if let Some(fold) = restored
            && state.fold.last_sequence() == 0
            && !state.is_distrusted
        {
            (state.fold, state.is_restored) = (fold, true);
        }
        Ok(())
    }

    async fn read_checkpoint(&self) -> Result<Option<Fold>> {
        let snapshot = self
            .backend
            .latest_snapshot(self.streams.events, Sequence::MAX)
            .await?;
        let Some(Snapshot {
            sequence,
            meta,
            payload,
            ..
        }) = snapshot
        else {
            return Ok(None);
        };
        let parts = self
            .backend
            .stream(self.streams.parts)
            .await?
            .map_or(0, |info| info.last_sequence.0);
        let checkpoint = Checkpoint::decode(&meta, &payload, parts)?;
        let mut restoration = Restoration::new(checkpoint);
        while let Some(sequences) = restoration.wanted() {
            let (first, last) = (Sequence(*sequences.start()), Sequence(*sequences.end()));
            restoration.add(&self.read_parts(first, last).await?)?;
        }
        Ok(Some(restoration.finish(sequence.0)?))
    }

    async fn read_parts(&self, first: Sequence, last: Sequence) -> Result<Vec<Bytes>> {
        let mut parts = Vec::new();
        let options = ReadOptions {
            first,
            last,
            ..ReadOptions::default()
        };
        read_each(&*self.backend, self.streams.parts, options, &mut |record| {
            parts.push(record.payload.clone());
            Ok(())
        })
        .await?;
        Ok(parts)
    }

    /// Removes the parts that were written before a position of the log from every read, if there are any: something was erased there
    /// that they may have. A whole checkpoint takes their place.
    pub(crate) async fn renew_checkpoint(&self, position: Position, reason: &str) -> Result<()> {
        let oldest = self.oldest_part_left().await?;
        if oldest.is_none_or(|oldest| oldest > position) {
            return Ok(());
        }
        let mut retries = Retries::default();
        let before = loop {
            self.catch_up().await?;
            let is_whole = {
                let mut state = self.folded.change();
                state.renewals += 1;
                state.fold.forget_checkpoint();
                state.passed_over == 0
            };
            if !is_whole {
                break Sequence::MAX;
            }
            match self.checkpoint().await {
                Ok(first) => break Sequence(first.0 - 1),
                // Another checkpoint was being written. It failed by this one's parts, or this one by its.
                Err(error) => retries.again(error)?,
            }
        };
        for some in self.parts_left(before).await?.chunks(REDACTIONS) {
            let batch = Batch::new(Op::redactions(some, reason));
            self.backend.commit(batch).await?;
        }
        Ok(())
    }

    /// The position of the first part that wasn't redacted. It reads no further.
    async fn oldest_part_left(&self) -> Result<Option<Position>> {
        if self.backend.stream(self.streams.parts).await?.is_none() {
            return Ok(None);
        }
        let mut oldest = None;
        let options = ReadOptions::default();
        read_while(&*self.backend, self.streams.parts, options, &mut |record| {
            oldest = (!record.redacted).then_some(record.position);
            Ok(record.redacted)
        })
        .await?;
        Ok(oldest)
    }

    /// The positions of the parts up to a sequence that weren't redacted.
    async fn parts_left(&self, last: Sequence) -> Result<Vec<Position>> {
        let mut positions = Vec::new();
        if self.backend.stream(self.streams.parts).await?.is_some() {
            let options = ReadOptions {
                last,
                ..ReadOptions::default()
            };
            read_each(&*self.backend, self.streams.parts, options, &mut |record| {
                positions.extend((!record.redacted).then_some(record.position));
                Ok(())
            })
            .await?;
        }
        Ok(positions)
    }

    /// Writes the changes since the last checkpoint. It isn't flushed: checkpoints are derived data. Returns the sequence of its
    /// first part.
    async fn checkpoint(&self) -> Result<Sequence> {
        let stream = self.streams.parts;
        let mut last = self
            .backend
            .stream(stream)
            .await?
            .map_or(Sequence::ZERO, |info| info.last_sequence);
        let first = last.next();
        let (sequence, parts, checkpoint, renewals) = {
            let state = self.folded.state();
            let (parts, checkpoint) = state.fold.checkpoint(first.0)?;
            let sequence = Sequence(state.fold.last_sequence());
            (sequence, parts, checkpoint, state.renewals)
        };
        let mut parts = &parts[..];
        while !parts.is_empty() {
            let (batch, rest) = parts.split_at(parts_of_batch(parts));
            // The expected sequence prevents that a second writer of checkpoints mixes in its parts.
            let record = |part| NewRecord {
                labels: &[],
                kind: Kind(Fold::PART),
                meta: &[],
                payload: part,
            };
            let records = batch.iter().map(Vec::as_slice).map(record).collect();
            let op = Op::Append {
                stream,
                expected: Expected::Last(last),
                records,
            };
            self.backend
                .commit(Batch::new(vec![op]).with_durability(Durability::Os))
                .await?;
            last = Sequence(last.0 + batch.len() as u64);
            parts = rest;
        }
        let (meta, payload) = checkpoint.encode()?;
        let (stream, expected) = (self.streams.events, Expected::Any);
        let op = Op::Snapshot {
            stream,
            expected,
            sequence,
            meta: &meta,
            payload: &payload,
        };
        self.backend
            .commit(Batch::new(vec![op]).with_durability(Durability::Os))
            .await?;
        let mut state = self.folded.change();
        // Not if another thread has restarted the fold since, or the checkpoints.
        if sequence.0 <= state.fold.last_sequence() && renewals == state.renewals {
            state.fold.checkpointed(sequence.0, checkpoint);
        }
        Ok(first)
    }
}

/// Whether an error says that a checkpoint can't be used, and not that the store can't be read.
fn is_unusable(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Damaged | ErrorKind::UnsupportedVersion | ErrorKind::NotFound
    )
}

/// How many parts the next batch holds; at least one.
fn parts_of_batch(parts: &[Vec<u8>]) -> usize {
    let mut bytes = 0;
    let fit = parts.iter().take_while(|part| {
        bytes += part.len();
        bytes <= BATCH_BYTES
    });
    fit.count().max(1)
}
