//! [`Checkpoint`]: where the parts of a checkpoint are.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, codec, json::read_bytes};

/// Items per chunk; in this crate's own tests so few that small folds have many chunks.
pub(crate) const CHUNK: usize = if cfg!(test) { 8 } else { 1 << 12 };

/// The places of a checkpoint's parts. As JSON, the payload of a snapshot of the fold's stream.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Checkpoint {
    /// How many items there are.
    pub(super) items: u64,
    /// Each chunk, in the order of its items.
    pub(super) chunks: Vec<Span>,
    /// The valid changes, the oldest first.
    pub(super) changes: Vec<Changes>,
}

/// Records of the stream of parts, which follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// The CRC-32 of all of them.
    pub(crate) crc: u32,
}

/// Items that changed, of any chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Changes {
    #[serde(flatten)]
    pub(crate) span: Span,
    /// How many items.
    pub(crate) items: u64,
}

impl Span {
    pub(super) fn sequences(self) -> RangeInclusive<u64> {
        self.first..=self.last
    }

    /// Checks that these are its parts, by their number and their CRC.
    pub(super) fn check(self, parts: &[impl AsRef<[u8]>]) -> Result<()> {
        let mut crc = runlog_log::crc::Hasher::new();
        parts.iter().for_each(|part| crc.update(part.as_ref()));
        let are_all_there = parts.len() as u64 == self.last - self.first + 1;
        if are_all_there && crc.finalize() == self.crc {
            return Ok(());
        }
        Err(Error::damaged(format!(
            "parts {} to {} aren't as they were written",
            self.first, self.last
        )))
    }

    fn is_in(self, parts: u64) -> bool {
        1 <= self.first && self.first <= self.last && self.last <= parts
    }
}

impl Checkpoint {
    /// The metadata and the payload of the snapshot.
    ///
    /// # Errors
    /// None in practice: a list of numbers has a JSON form.
    pub fn encode(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let payload = serde_json::to_vec(self)
            .map_err(|source| Error::invalid(format!("a checkpoint has no JSON form: {source}")))?;
        Ok((codec::encode_checkpoint_meta(&payload), payload))
    }

    /// Reads a checkpoint from the metadata and the payload of the snapshot. `parts` is how many records the stream
    /// of parts has: what it says can't be larger.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) or [`Damaged`](crate::ErrorKind::Damaged); the
    /// fold can then be made from its first event.
    pub fn decode(meta: &[u8], payload: &[u8], parts: u64) -> Result<Self> {
        codec::decode_checkpoint_meta(meta, payload)?;
        let checkpoint: Self = read_bytes(payload)
            .map_err(|source| Error::damaged(format!("a checkpoint can't be read: {source}")))?;
        let in_order = checkpoint
            .changes
            .is_sorted_by(|one, next| one.span.last < next.span.first);
        let spans = checkpoint
            .chunks
            .iter()
            .copied()
            .chain(checkpoint.changes.iter().map(|changes| changes.span));
        let (mut listed, mut are_there) = (0_u64, true);
        for span in spans {
            are_there &= span.is_in(parts);
            listed = listed.saturating_add(span.last.saturating_sub(span.first).saturating_add(1));
        }
        let chunks = checkpoint.items.div_ceil(CHUNK as u64);
        if are_there && in_order && listed <= parts && chunks == checkpoint.chunks.len() as u64 {
            return Ok(checkpoint);
        }
        Err(Error::damaged(format!(
            "a checkpoint of {} items names parts that can't be its own",
            checkpoint.items
        )))
    }

    /// The sequences of its parts in the stream of parts, in the order in which they are to be read.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> impl Iterator<Item = RangeInclusive<u64>> + '_ {
        let changes = self.changes.iter().map(|changes| changes.span.sequences());
        self.chunks
            .iter()
            .map(|chunk| chunk.sequences())
            .chain(changes)
    }

    /// How many items the chunks up to this one have.
    pub(super) fn items_up_to(&self, chunk: usize) -> u64 {
        self.items.min((chunk as u64 + 1) * CHUNK as u64)
    }

    pub(super) fn leave_out_what_is_superseded(&mut self) {
        let oldest = self.chunks.iter().map(|chunk| chunk.first).min();
        self.changes
            .retain(|changes| oldest.is_some_and(|oldest| oldest < changes.span.first));
    }
}
