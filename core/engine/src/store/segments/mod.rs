//! Segment files as parts of the log: how they follow each other, and what is written to one as a whole.

pub(crate) mod chain;
pub(crate) mod seal;
mod tail;
