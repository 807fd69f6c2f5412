//! Segment files as parts of the log: their chain, and writes to a segment as a whole.

pub(crate) mod chain;
pub(crate) mod seal;
mod tail;
