//! Input and output of a log: [`Batch`], an atomic list of [`Op`]s, and its result [`Appended`]; [`Record`], as read.

use bytes::Bytes;

use crate::{Label, Position, Sequence, StreamId};

/// The kind of a record.
///
/// Values below 128 belong to the caller and mark data records, which a stream's sequences count. The engine stores
/// them as given, and can filter by them. Values from 128 belong to the engine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Kind(pub u8);

impl Kind {
    /// Data of no particular kind.
    pub const DATA: Self = Self(0);
    /// The first record of a stream: gives its UUID a number.
    pub const CREATE: Self = Self(128);
    /// A state saved at a sequence of a stream.
    pub const SNAPSHOT: Self = Self(129);
    /// Removes a stream's records after a sequence.
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
    /// No expectation: append to the stream, or create it if it doesn't exist.
    #[default]
    Any,
    /// The stream's last sequence is this one. 0: the stream is empty or doesn't exist.
    ///
    /// A stream that was truncated and then appended to can have the same last sequence with another record:
    /// [`Expected::At`] tells them apart.
    Last(Sequence),
    /// The stream's last record has this position, and is therefore the very record that was read: positions are never
    /// used again. [`Position::ZERO`]: the stream is empty or doesn't exist. The first records of a fork are its
    /// parent's, and have their positions.
    At(Position),
    /// The stream exists, with any last sequence.
    Exists,
    /// The stream doesn't exist.
    Absent,
}

/// One record to append, borrowed from the caller.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// Its kind, below 128.
    pub kind: Kind,
    /// Metadata stored beside the payload, at most [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
    pub meta: &'a [u8],
    /// The payload, stored byte for byte, at most [`PAYLOAD_BYTES_MAX`](crate::limits::PAYLOAD_BYTES_MAX).
    pub payload: &'a [u8],
    /// The labels it can be found by, in any order: at most [`LABELS_MAX`](crate::limits::LABELS_MAX).
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
        /// What the writer expects of it.
        expected: Expected,
        /// The records; an empty list creates an empty stream.
        records: Vec<NewRecord<'a>>,
    },
    /// Removes a stream's records after a sequence; later appends continue at `after + 1`.
    Truncate {
        /// The stream.
        stream: StreamId,
        /// What the writer expects of it.
        expected: Expected,
        /// The last sequence that is kept.
        after: Sequence,
    },
    /// Makes `child`, which shares `parent`'s records up to `at`, without copying them.
    Fork {
        /// The stream to share.
        parent: StreamId,
        /// What the writer expects of the parent.
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
        /// What the writer expects of it.
        expected: Expected,
        /// The last sequence that the state covers; at most the stream's last.
        sequence: Sequence,
        /// Metadata stored beside the state.
        meta: &'a [u8],
        /// The state.
        payload: &'a [u8],
    },
    /// Deletes a stream. Forks of it keep what they share. Its id can't be used again.
    Delete {
        /// The stream.
        stream: StreamId,
        /// What the writer expects of it.
        expected: Expected,
    },
    /// Removes the payload of the record at a position from every read, forks included.
    Redact {
        /// The record.
        position: Position,
        /// The reason, shown to readers of the emptied record; at most
        /// [`META_BYTES_MAX`](crate::limits::META_BYTES_MAX).
        reason: &'a str,
    },
    /// Takes the payloads of several records that lie close to each other out of every read, with one record in the log where
    /// [`Redact`](Self::Redact) writes one for each.
    RedactMany {
        /// The first of them.
        first: Position,
        /// The others: bit `n`, the lowest being 0, stands for position `first + 1 + n`.
        others: u128,
        /// The reason, as that of one.
        reason: &'a str,
    },
}

impl<'a> Op<'a> {
    /// Redactions of positions, in as few ops as there can be. `positions` rise; where they don't, there are more ops than
    /// are needed.
    ///
    /// ```
    /// use runlog_log::{Op, Position};
    ///
    /// let positions = [5, 6, 9, 400].map(Position);
    /// let ops = Op::redactions(&positions, "asked for");
    /// let redacted: Vec<_> = ops.iter().map(Op::redacted).collect();
    /// // Those at 5, 6 and 9, then the one at 400, too far away for the same op.
    /// assert_eq!(redacted[0], Some((Position(5), 0b1001, "asked for")));
    /// assert_eq!(redacted[1], Some((Position(400), 0, "asked for")));
    /// ```
    pub fn redactions(positions: &[Position], reason: &'a str) -> Vec<Self> {
        let mut ops: Vec<(Position, u128)> = Vec::new();
        for position in positions {
            let bit_of = |first: Position| position.0.checked_sub(first.0)?.checked_sub(1);
            match ops.last_mut() {
                Some((first, others)) if bit_of(*first).is_some_and(|bit| bit < 128) => {
                    *others |= 1 << (position.0 - first.0 - 1);
                }
                _ => ops.push((*position, 0)),
            }
        }
        let op = |(first, others)| match others {
            0 => Self::Redact {
                position: first,
                reason,
            },
            others => Self::RedactMany {
                first,
                others,
                reason,
            },
        };
        ops.into_iter().map(op).collect()
    }

    /// The first position that an op redacts, the others as [`RedactMany`](Self::RedactMany) has them, and the reason; `None`
    /// for an op that redacts nothing.
    pub fn redacted(&self) -> Option<(Position, u128, &'a str)> {
        match self {
            Self::Redact { position, reason } => Some((*position, 0, reason)),
            Self::RedactMany {
                first,
                others,
                reason,
            } => Some((*first, *others, reason)),
            _ => None,
        }
    }
}

/// The positions of a redaction, by its first and the others as [`Op::RedactMany`] has them. None is beyond the last that
/// there can be.
pub fn redacted_positions(first: Position, others: u128) -> impl Iterator<Item = Position> {
    let is_one = move |bit: &u64| others >> bit & 1 == 1;
    let others = (0..128).filter(is_one);
    let position = move |bit: u64| first.0.checked_add(1)?.checked_add(bit).map(Position);
    std::iter::once(first).chain(others.filter_map(position))
}

/// How durable an append is when it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// On the device: survives a crash of the process and a loss of power.
    #[default]
    Sync,
    /// Handed to the operating system, and flushed at most this many milliseconds later: survives a crash of the
    /// process; a loss of power may lose what was acknowledged since the last flush.
    Interval(u32),
    /// Handed to the operating system: survives a crash of the process; a loss of power may lose records acknowledged
    /// since the last flush, always the newest ones.
    Os,
}

impl Durability {
    /// The longest time in milliseconds that a batch of this durability may stay unflushed, at least 1; `None` if none
    /// is promised.
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
    /// An idempotency key of 1 to [`KEY_BYTES_MAX`](crate::limits::KEY_BYTES_MAX) bytes. A batch with the key of an
    /// earlier one in the same stream (that of its first [`Op::Append`] with records) is not executed again: it returns the result
    /// of the first one. So a batch with a key must append at least one record, and an append of no records in it must
    /// expect a last sequence or an absent stream. A repeat whose ops differ from the first batch's returns the results
    /// of those of the first that wrote something.
    ///
    /// A key is scoped to the stream it was given in, and valid as long as that stream exists, even when the records of
    /// the first batch were truncated since, which [`Appended::truncated`] reports. It is not valid in forks of the
    /// stream: a fork inherits records, not keys, so a batch repeated in a fork is appended. Once the stream is
    /// deleted, a batch with a key is [`NotFound`](crate::ErrorKind::NotFound), whatever its ops expect of other
    /// streams.
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
    /// The position of its first data record, or of the engine record that it wrote.
    pub position: Position,
    /// The stream's last sequence after the op (the child's for a fork; for a snapshot the sequence that it was
    /// saved at; 0 for a redaction or a deletion).
    pub last_sequence: Sequence,
}

/// The result of a [`Batch`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Appended {
    /// The position of the batch's last record. The log is durable up to here, to the extent of the batch's durability.
    pub last_position: Position,
    /// One for each operation, in order.
    pub ops: Vec<OpResult>,
    /// Whether an earlier batch had the same key, so that nothing was written by this one.
    pub repeated: bool,
    /// Of a repeat: whether records of the earlier batch were removed from their streams since, by a truncation or a
    /// deletion. Their positions in the log stay valid; their sequences may belong to other records by now. To have
    /// them in the stream again, append them under another key.
    pub truncated: bool,
}

impl Appended {
    /// The sequence of the first record of a batch that is one append of so many. A repeat has the sequences of the earlier
    /// batch, which may have had another number of records; its positions tell, for those of a batch follow one another.
    pub fn first_sequence(&self, records: u64) -> Option<Sequence> {
        let op = self.ops.first()?;
        let records = match self.repeated {
            true => self.last_position.0.saturating_sub(op.position.0) + 1,
            false => records,
        };
        Some(Sequence((op.last_sequence.0 + 1).saturating_sub(records)))
    }
}

/// One record, as read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The stream it was appended to. For a record that a fork inherits, the stream it was first appended to.
    pub stream: StreamId,
    /// Its sequence in its stream. For an engine record, the sequence it refers to.
    pub sequence: Sequence,
    /// Its position in the log.
    pub position: Position,
    /// When it was appended: milliseconds since 1970-01-01 UTC, never less than the record before.
    pub time_ms: u64,
    /// Its kind.
    pub kind: Kind,
    /// Whether its payload and metadata were redacted; they are then empty.
    pub redacted: bool,
    /// Whether it was redacted because it can't be read, by a repair: with its file restored, it is there again.
    pub lost: bool,
    /// The metadata stored beside the payload.
    pub meta: Bytes,
    /// The payload as it was given, byte for byte.
    pub payload: Bytes,
}

/// How far a stream goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamInfo {
    /// The stream.
    pub id: StreamId,
    /// Its last sequence, 0 when it is empty.
    pub last_sequence: Sequence,
    /// How many records it was ever given, without those that a fork shares with its parent. A truncation takes none of them
    /// back: two infos with one last sequence are of the same records only if this is the same, too.
    pub appended: u64,
}

impl StreamInfo {
    /// Whether the stream goes on from what it was: nothing was truncated since, so that what was read then still stands.
    pub fn goes_on_from(&self, earlier: &Self) -> bool {
        let more = self.last_sequence.0.checked_sub(earlier.last_sequence.0);
        self.id == earlier.id
            && more.is_some()
            && more == self.appended.checked_sub(earlier.appended)
    }
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
    /// The metadata stored beside the payload.
    pub meta: Bytes,
    /// The state.
    pub payload: Bytes,
    /// How many newer ones, at or before the sequence that was asked for, were redacted.
    pub redacted_since: u32,
}

/// The order of a read.
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
    /// The maximum number of records.
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
