//! [`FindOptions`]: the options of a search for records by label.

use crate::{Direction, Position, StreamId};

/// Which of the records that have a label to return, and in which order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindOptions {
    /// Only records of this stream, including those shared with the streams it was forked from. `None` searches all
    /// streams and returns each record once, as long as the stream it was appended to contains it. A record that only
    /// forks still contain is found by a search in the fork.
    pub stream: Option<StreamId>,
    /// The newest first ([`Direction::Backward`], the default) or the oldest.
    pub direction: Direction,
    /// The lowest position, inclusive.
    pub first: Position,
    /// The highest position, inclusive.
    pub last: Position,
    /// The maximum number of records.
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
