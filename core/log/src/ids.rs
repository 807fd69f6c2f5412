//! Identifiers and places: [`StreamId`], [`Sequence`], [`Position`], [`SegmentId`].

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Names one stream of a store: a UUID chosen by the caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub Uuid);

impl StreamId {
    /// A stream id from its 16 bytes, most significant first.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The 16 bytes of the id, most significant first.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl From<Uuid> for StreamId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamId({})", self.0)
    }
}

/// A record's number in its stream: 1, 2, 3, … without holes; 0 is "before the first".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first record.
    pub const ZERO: Self = Self(0);
    /// The first record of a stream.
    pub const FIRST: Self = Self(1);
    /// After every record: "to the end" in a range.
    pub const MAX: Self = Self(u64::MAX);

    /// The sequence after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record's number in the whole log: assigned at append, never reused; the id of an event.
///
/// The first record of a store has position 1. Positions order the whole store, and every record has
/// one, those that truncate or fork included; so the positions of one stream have gaps.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Position(pub u64);

impl Position {
    /// Before the first record of a store.
    pub const ZERO: Self = Self(0);
    /// The first record of a store.
    pub const FIRST: Self = Self(1);

    /// The position after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// In a redaction: the record with this position as long as it can't be read. Reads pass over it then, instead of ending with an
    /// error; where its file is whole again, it is there again.
    #[must_use]
    pub const fn if_lost(self) -> Self {
        Self(self.0 | IF_LOST)
    }

    /// Without what [`if_lost`](Self::if_lost) adds.
    #[must_use]
    pub const fn plain(self) -> Self {
        Self(self.0 & !IF_LOST)
    }
}

/// Set in a position of a redaction that counts only if the record can't be read. There are fewer positions than that.
const IF_LOST: u64 = 1 << 63;

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Numbers the segments of a store: 1, 2, 3, ….
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct SegmentId(pub u32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
