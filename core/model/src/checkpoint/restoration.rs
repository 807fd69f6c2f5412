//! [`Restoration`]: making a fold from its checkpoint.

use std::ops::RangeInclusive;

use super::{
    Checkpoint, Checkpointed,
    layout::{CHUNK, Span},
};
use crate::{Error, Result};

/// A fold that is made from its checkpoint, a chunk at a time, so that the parts are never in memory all at once.
///
/// ```
/// use runlog_model::{Checkpoint, Checkpointed, Restoration, Result};
///
/// /// `read` reads records of the stream of parts.
/// fn restored<Fold: Checkpointed>(
///     sequence: u64,
///     checkpoint: Checkpoint,
///     read: impl Fn(std::ops::RangeInclusive<u64>) -> Vec<Vec<u8>>,
/// ) -> Result<Fold> {
///     let mut restoration = Restoration::new(checkpoint);
///     while let Some(sequences) = restoration.wanted() {
///         restoration.add(&read(sequences))?;
///     }
///     restoration.finish(sequence)
/// }
/// ```
pub struct Restoration<Fold> {
    fold: Fold,
    checkpoint: Checkpoint,
    /// How many chunks and, behind them, changes were added.
    added: usize,
}

impl<Fold: Checkpointed> Restoration<Fold> {
    /// Begins with nothing.
    pub fn new(checkpoint: Checkpoint) -> Self {
        Self {
            fold: Fold::default(),
            checkpoint,
            added: 0,
        }
    }

    /// The sequences in the stream of parts of what is to be [added](Self::add) next; `None` once that is all.
    pub fn wanted(&self) -> Option<RangeInclusive<u64>> {
        self.span().map(Span::sequences)
    }

    fn span(&self) -> Option<Span> {
        let (chunks, changes) = (&self.checkpoint.chunks, &self.checkpoint.changes);
        let change = || changes.get(self.added - chunks.len());
        match chunks.get(self.added) {
            Some(chunk) => Some(*chunk),
            None => change().map(|changes| changes.span),
        }
    }

    /// Adds the payloads of the parts that are [wanted](Self::wanted).
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) or [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion): the fold can
    /// then be made from its first event.
    pub fn add(&mut self, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        let Some(span) = self.span() else {
            return Ok(());
        };
        span.check(parts)?;
        if self.added < self.checkpoint.chunks.len() {
            self.add_chunk(parts)?;
        } else {
            self.change(span, parts)?;
        }
        self.added += 1;
        Ok(())
    }

    fn add_chunk(&mut self, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        for part in parts {
            self.fold.add_part(part.as_ref())?;
        }
        let expected = self.checkpoint.items_up_to(self.added);
        let found = self.fold.items();
        if found as u64 == expected {
            return Ok(());
        }
        Err(Error::damaged(format!(
            "a checkpoint should have {expected} items here, but has {found}"
        )))
    }

    fn change(&mut self, span: Span, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        let chunks = &self.checkpoint.chunks;
        // A chunk that was written later has the changes already.
        let counts = |place: u32| {
            let chunk = chunks.get(place as usize / CHUNK);
            chunk.is_some_and(|chunk| chunk.last < span.first)
        };
        for part in parts {
            self.fold.change_part(part.as_ref(), &counts)?;
        }
        Ok(())
    }

    /// The fold as it was at the sequence of the checkpoint.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn finish(mut self, sequence: u64) -> Result<Fold> {
        if self.fold.items() == 0 {
            return Err(Error::damaged(
                "a checkpoint has no item, though something was made before",
            ));
        }
        self.fold.restored()?;
        self.fold.progress_mut().restored(sequence, self.checkpoint);
        Ok(self.fold)
    }
}

/// The fold of a checkpoint whose parts are all there.
#[cfg(test)]
pub(crate) fn restore<Fold: Checkpointed>(
    sequence: u64,
    checkpoint: Checkpoint,
    parts: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> Result<Fold> {
    let mut parts = parts.into_iter();
    let mut restoration = Restoration::new(checkpoint);
    while let Some(sequences) = restoration.wanted() {
        let wanted: Vec<_> = sequences.map_while(|_| parts.next()).collect();
        restoration.add(&wanted)?;
    }
    restoration.finish(sequence)
}
