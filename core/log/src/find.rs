//! [`FindOptions`]: how to look for the records that have a label.

use crate::{Direction, Position, StreamId};

/// Which of the records that have a label to give, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindOptions {
    /// Only records of this stream, those that it shares with the streams it was forked from included. Without one, of all streams:
    /// each record once, as long as the stream that it was appended to has it. One that only forks still have is found in them.
    pub stream: Option<StreamId>,
    /// The newest first ([`Direction::Backward`], the default) or the oldest.
    pub direction: Direction,
    /// The lowest position, inclusive.
    pub first: Position,
    /// The highest position, inclusive.
    pub last: Position,
    /// At most so many records.
    pub limit: u64,
}

impl Default for FindOptions {
    fn default() -> Self {
        Self {
            stream: None,
            direction: Direction::Backward,
            first: Position::ZERO,
            last: Position(u64::MAX),
            limit: u64::MAX,
        }
    }
}
