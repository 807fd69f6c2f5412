//! What goes in: [`Batch`], an atomic list of [`Op`]s; and what comes back: [`Appended`], [`Record`].

use bytes::Bytes;

use crate::{Label, Position, Sequence, StreamId};

/// What a record is.
///
/// The values below 128 are the caller's own, and mark records of data: a stream's sequences count them.
/// The engine stores them as they are, and can filter by them. The values from 128 are the engine's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u8);

impl Kind {
    /// Data of no particular kind.
    pub const DATA: Self = Self(0);
    /// The first record of a stream: gives its UUID a number.
    pub const CREATE: Self = Self(128);
    /// A state saved at a sequence of a stream.
    pub const SNAPSHOT: Self = Self(129);
    /// Forgets a stream's records after a sequence.
    pub const TRUNCATE: Self = Self(130);
    /// Makes a stream that shares another's records up to a sequence.
    pub const FORK: Self = Self(131);
    /// Deletes a stream.
    pub const DELETE: Self = Self(132);
    /// Takes a record's payload out of every read.
    pub const REDACT: Self = Self(133);

    /// Whether records of this kind are counted by their stream's sequences.
    pub const fn is_data(self) -> bool {
        self.0 < 128
    }
}

/// What the writer expects of a stream; a mismatch is [`ErrorKind::Conflict`](crate::ErrorKind::Conflict).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expected {
    /// Nothing: append to what is there, make the stream if it isn't.
    #[default]
    Any,
    /// The stream's last sequence is this one. 0 is an empty stream or none at all.
    ///
    /// A stream that was truncated and then appended to can have the same last sequence with another record:
    /// [`Expected::At`] tells them apart.
    Last(Sequence),
    /// The stream's last record has this position, and is therefore the very record that was read: positions are never
    /// used again. [`Position::ZERO`] is an empty stream or none at all. The first records of a fork are its parent's, and
    /// have their positions.
    At(Position),
    /// The stream exists, with any last sequence.
    Exists,
    /// The stream doesn't exist.
    Absent,
}

/// One record to append, borrowed from the caller.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// What it is: a kind below 128.
    pub kind: Kind,
    /// A small part beside the payload, at most [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
    pub meta: &'a [u8],
    /// The payload, kept byte for byte, at most [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    pub payload: &'a [u8],
    /// What it can be found by, in any order: at most [`LABELS_MAX`](crate::limits::LABELS_MAX).
    pub labels: &'a [Label],
}

impl<'a> NewRecord<'a> {
    /// A record of [`Kind::DATA`] without metadata and labels.
    pub const fn data(payload: &'a [u8]) -> Self {
        Self {
            kind: Kind::DATA,
            meta: &[],
            payload,
            labels: &[],
        }
    }
}

/// One operation of a [`Batch`].
#[derive(Clone, Debug)]
pub enum Op<'a> {
    /// Appends records to a stream, which is made if it doesn't exist.
    Append {
        /// The stream.
        stream: StreamId,
        /// What the writer believes of it.
        expected: Expected,
        /// The records; none makes an empty stream.
        records: Vec<NewRecord<'a>>,
    },
    /// Forgets a stream's records after a sequence; later ones continue at `after + 1`.
    Truncate {
        /// The stream.
        stream: StreamId,
        /// What the writer believes of it.
        expected: Expected,
        /// The last sequence that stays.
        after: Sequence,
    },
    /// Makes `child`, which shares `parent`'s records up to `at`, without copying them.
    Fork {
        /// The stream to share.
        parent: StreamId,
        /// What the writer believes of the parent.
        expected: Expected,
        /// The last sequence that is shared.
        at: Sequence,
        /// The new stream.
        child: StreamId,
    },
    /// Saves a state at a sequence of a stream.
    Snapshot {
        /// The stream.
        stream: StreamId,
        /// What the writer believes of it.
        expected: Expected,
        /// The last sequence that the state covers; at most the stream's last.
        sequence: Sequence,
        /// A small part beside the payload.
        meta: &'a [u8],
        /// The state.
        payload: &'a [u8],
    },
    /// Deletes a stream. Forks of it keep what they share. Its id can't be used again.
    Delete {
        /// The stream.
        stream: StreamId,
        /// What the writer believes of it.
        expected: Expected,
    },
    /// Takes the payload of the record at a position out of every read, forks included.
    Redact {
        /// The record.
        position: Position,
        /// The reason, for readers that find the record empty; at most [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
        reason: &'a str,
    },
}

/// How far an append goes before it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// On the device: survives a crash of the process and a loss of power.
    #[default]
    Sync,
    /// Handed to the operating system, and flushed at most so many milliseconds later: survives a crash of
    /// the process; a loss of power may take what was acknowledged since the last flush.
    Interval(u32),
    /// Handed to the operating system: survives a crash of the process; a loss of power may take any
    /// records since the last flush, always the newest ones.
    Os,
}

impl Durability {
    /// How many milliseconds a batch of this durability may stay unflushed, 1 at least; `None` where no time is promised for
    /// it.
    pub const fn interval_ms(self) -> Option<u32> {
        match self {
            Self::Interval(0) => Some(1),
            Self::Interval(ms) => Some(ms),
            Self::Sync | Self::Os => None,
        }
    }
}

/// Operations that are committed atomically: all of them, or none.
#[derive(Clone, Debug, Default)]
pub struct Batch<'a> {
    /// The operations, applied in this order.
    pub ops: Vec<Op<'a>>,
    /// An idempotency key of 1 to [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX) bytes. A batch with the key
    /// of an earlier one in the same stream (that of its first [`Op::Append`]) is not done again: it
    /// returns what the first one returned. So it must append at least one record, and an append of none beside it
    /// must expect a last sequence, or that the stream is absent. If a repeat has other steps than the first one,
    /// it is told the results of those that wrote something.
    ///
    /// A key counts in the stream that it was given in, for as long as that stream is there: also when what the first
    /// batch wrote was truncated since, which [`Appended::truncated`] tells. It does not count in forks of the stream: a
    /// fork inherits records, not keys, so a batch that is repeated there is appended. Once that stream is deleted, a batch
    /// with a key is [`NotFound`](crate::ErrorKind::NotFound), whatever its steps expect of other streams.
    pub key: Option<&'a [u8]>,
    /// How durable it is when acknowledged; `None` is the store's own setting.
    pub durability: Option<Durability>,
}

impl<'a> Batch<'a> {
    /// A batch of these operations, with the store's durability and no key.
    pub fn new(ops: Vec<Op<'a>>) -> Self {
        Self {
            ops,
            key: None,
            durability: None,
        }
    }

    /// The same batch with an idempotency key.
    #[must_use]
    pub fn with_key(mut self, key: &'a [u8]) -> Self {
        self.key = Some(key);
        self
    }

    /// The same batch with a durability of its own.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }
}

/// The result of one [`Op`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpResult {
    /// The position of its first data record, or of the record that says what was done.
    pub position: Position,
    /// The stream's last sequence after the op (the child's for a fork; for a snapshot the sequence that it was
    /// saved at; 0 for a redaction or a deletion).
    pub last_sequence: Sequence,
}

/// The result of a [`Batch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The position of the batch's last record: durable up to here, as far as the durability goes.
    pub last_position: Position,
    /// One for each operation, in order.
    pub ops: Vec<OpResult>,
    /// Whether an earlier batch had the same key, so that nothing was written now.
    pub repeated: bool,
    /// Of a repeat: whether records that the earlier batch wrote were taken out of their streams since, by a truncation or
    /// a deletion. The positions are still theirs, and in the log; the sequences may be those of other records by now.
    /// Whoever wants them in the stream appends them under another key.
    pub truncated: bool,
}

/// One record, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The stream it was appended to. For a record that a fork inherits, the stream it was first appended to.
    pub stream: StreamId,
    /// Its sequence in its stream. For an engine record, the sequence it speaks of.
    pub sequence: Sequence,
    /// Its position in the log.
    pub position: Position,
    /// When it was appended: milliseconds since 1970-01-01 UTC, never less than the record before.
    pub time_ms: u64,
    /// What it is.
    pub kind: Kind,
    /// Whether its payload and metadata were redacted; they are then empty.
    pub redacted: bool,
    /// The small part beside the payload.
    pub meta: Bytes,
    /// The payload as it was given, byte for byte.
    pub payload: Bytes,
}

/// A stream, in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamInfo {
    /// The stream.
    pub id: StreamId,
    /// Its last sequence, 0 when it is empty.
    pub last_sequence: Sequence,
}

/// A state saved by [`Op::Snapshot`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The last sequence that the state covers.
    pub sequence: Sequence,
    /// The position of the snapshot's own record.
    pub position: Position,
    /// When it was saved: milliseconds since 1970-01-01 UTC.
    pub time_ms: u64,
    /// The small part beside the payload.
    pub meta: Bytes,
    /// The state.
    pub payload: Bytes,
}

/// Which way a read goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direction {
    /// From lower sequences to higher ones.
    #[default]
    Forward,
    /// From higher sequences to lower ones.
    Backward,
}

/// Which records of a stream to read, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// The first sequence, inclusive. 0 reads like 1.
    pub first: Sequence,
    /// The last sequence, inclusive. [`Sequence::MAX`] is the stream's last.
    pub last: Sequence,
    /// From `first` up, or from `last` down.
    pub direction: Direction,
    /// Only records of these kinds; empty is all.
    pub kinds: Vec<Kind>,
    /// At most so many records.
    pub limit: u64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            first: Sequence::FIRST,
            last: Sequence::MAX,
            direction: Direction::Forward,
            kinds: Vec::new(),
            limit: u64::MAX,
        }
    }
}
