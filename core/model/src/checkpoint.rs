//! [`Checkpointed`]: a fold whose state is saved now and then, so that opening folds only later events; [`Checkpoint`]:
//! the saved parts and their places.
//!
//! A fold's items have places: 0, 1, 2, … in the order in which they were made. They are saved as the records of a
//! stream of parts: *chunks* of 4,096 consecutive items, and *changes*, the few items in other chunks that changed
//! since. The cost of a checkpoint depends on the number of changed items, not of all items: a chunk is written again
//! if half of it changed or an item was added to it. To bound the changes, the oldest chunks are written again too,
//! once changes contain as many items as a quarter of all. Changes older than every chunk are dropped.

use crate::{Error, Result};

mod layout;
mod progress;
pub(crate) mod restoration;

pub use layout::Checkpoint;
pub(crate) use layout::{CHUNK, Changes, Span};
pub use progress::Progress;

/// The size of a part, unless a single item is larger: 1 MiB.
const PART_BYTES: usize = 1 << 20;

/// A fold of one stream whose state can be saved in parts.
pub trait Checkpointed: Default + Send + 'static {
    /// The event that it folds.
    type Event;

    /// The kind byte of a part's record.
    const PART: u8;

    /// The name of one of its events in messages.
    const EVENT: &'static str;

    /// The kind byte of events that can be erased: without one, or with an empty one, nothing is lost that others follow from.
    const ERASABLE: Option<u8> = None;

    /// Reads an event from the parts of a record.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) or [`Damaged`](crate::ErrorKind::Damaged).
    fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<Self::Event>;

    /// Applies the event at the next sequence, and returns the place of the item that it created or changed.
    ///
    /// # Errors
    /// The reason why the event doesn't follow from those before it; nothing is changed then.
    fn apply_next(&mut self, sequence: u64, event: Self::Event)
    -> std::result::Result<u32, String>;

    /// How many items it has.
    fn items(&self) -> usize;

    /// About how many bytes an item takes in a part.
    fn item_bytes(&self, place: u32) -> usize;

    /// Some items as a part.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when they can't be encoded.
    fn encode_part(&self, places: &[u32]) -> Result<Vec<u8>>;

    /// Adds the items of a part of a chunk, which come next.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) or [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion).
    fn add_part(&mut self, part: &[u8]) -> Result<()>;

    /// Applies a part of changes to the items for which `counts` is true.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) or [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion).
    fn change_part(&mut self, part: &[u8], counts: &dyn Fn(u32) -> bool) -> Result<()>;

    /// Ends a restoration, once all items are added.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when they don't fit each other.
    fn restored(&mut self) -> Result<()> {
        Ok(())
    }

    /// The state of saving it.
    fn progress(&self) -> &Progress;

    /// The state of saving it.
    fn progress_mut(&mut self) -> &mut Progress;

    /// The sequence of the last event that was applied.
    fn last_sequence(&self) -> u64 {
        self.progress().last_sequence()
    }

    /// Applies the event at a sequence. One that was applied before changes nothing. Once an event was
    /// [passed over](Self::pass_over), one that doesn't follow from those before it changes nothing either.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event doesn't follow from those before it.
    fn apply(&mut self, sequence: u64, event: Self::Event) -> Result<()> {
        if !self.is_next(sequence)? {
            return Ok(());
        }
        let is_incomplete = self.progress().is_incomplete();
        match self.apply_next(sequence, event) {
            _ if is_incomplete => self.progress_mut().changed_anything(sequence),
            Ok(place) => self.progress_mut().changed(place, sequence),
            Err(what) => {
                let name = Self::EVENT;
                return Err(Error::damaged(format!(
                    "{name} {sequence} doesn't follow: {what}"
                )));
            }
        }
        Ok(())
    }

    /// Goes on without the event at a sequence, which was [erased](Self::ERASABLE).
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when another event comes next.
    fn skip_erased(&mut self, sequence: u64) -> Result<()> {
        if self.is_next(sequence)? {
            self.progress_mut().changed_anything(sequence);
        }
        Ok(())
    }

    /// Goes on without the event at a sequence, which is lost.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when another event comes next.
    fn pass_over(&mut self, sequence: u64) -> Result<()> {
        if self.is_next(sequence)? {
            self.progress_mut().passed_over(sequence);
            self.lost_one();
        }
        Ok(())
    }

    /// Takes into account what an event that was passed over may have said.
    fn lost_one(&mut self) {}

    /// Whether an event was passed over since the beginning, or since the checkpoint that it was restored from.
    fn is_incomplete(&self) -> bool {
        self.progress().is_incomplete()
    }

    /// Whether the event at a sequence is the next one; `false` if it was applied before.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when another event comes next.
    fn is_next(&self, sequence: u64) -> Result<bool> {
        let expected = self.last_sequence() + 1;
        if sequence > expected {
            return Err(Error::damaged(format!(
                "{} {expected} should come next, but {sequence} does",
                Self::EVENT
            )));
        }
        Ok(sequence == expected)
    }

    /// How many events were applied since the last checkpoint.
    fn events_since_checkpoint(&self) -> u64 {
        self.last_sequence() - self.progress().sequence()
    }

    /// Makes a checkpoint: the parts, to be appended from this sequence on in the stream of parts, and the checkpoint
    /// that names them.
    ///
    /// # Errors
    /// As [`encode_part`](Self::encode_part).
    fn checkpoint(&self, first_sequence: u64) -> Result<(Vec<Vec<u8>>, Checkpoint)> {
        let plan = self.progress().plan(self.items());
        let mut checkpoint = self.progress().checkpoint(self.items());
        let mut parts = Vec::new();
        let mut write = |places: &[u32]| {
            let first = first_sequence + parts.len() as u64;
            let mut crc = runlog_log::crc::Hasher::new();
            for places in pieces(places, |place| self.item_bytes(place)) {
                let part = self.encode_part(places)?;
                crc.update(&part);
                parts.push(part);
            }
            Ok(Span {
                first,
                last: first_sequence + parts.len() as u64 - 1,
                crc: crc.finalize(),
            })
        };
        for chunk in plan.chunks {
            checkpoint.chunks[chunk] = write(&places_of(chunk, self.items()))?;
        }
        if !plan.changes.is_empty() {
            let span = write(&plan.changes)?;
            checkpoint.changes.push(Changes {
                span,
                items: plan.changes.len() as u64,
            });
        }
        checkpoint.leave_out_what_is_superseded();
        Ok((parts, checkpoint))
    }

    /// Makes the next checkpoint write all items, and refer to no part of those before.
    fn forget_checkpoint(&mut self) {
        self.progress_mut().forget_checkpoint();
    }

    /// Records that a checkpoint of the first `sequence` events was written.
    fn checkpointed(&mut self, sequence: u64, checkpoint: Checkpoint) {
        self.progress_mut().written(sequence, checkpoint);
    }
}

/// The places of a chunk.
fn places_of(chunk: usize, items: usize) -> Vec<u32> {
    let range = chunk * CHUNK..items.min((chunk + 1) * CHUNK);
    range
        .map(|place| u32::try_from(place).expect("a fold has fewer than 2³² items"))
        .collect()
}

/// Splits places into pieces that make parts of about [`PART_BYTES`].
fn pieces(places: &[u32], bytes_of: impl Fn(u32) -> usize) -> Vec<&[u32]> {
    let mut pieces = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (index, place) in places.iter().enumerate() {
        let more = bytes_of(*place);
        if index > first && bytes + more > PART_BYTES {
            pieces.push(&places[first..index]);
            (first, bytes) = (index, 0);
        }
        bytes += more;
    }
    pieces.push(&places[first..]);
    pieces
}

#[cfg(test)]
mod tests;
