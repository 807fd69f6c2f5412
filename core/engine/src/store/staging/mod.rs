//! What the writer has staged and not yet published: the open group, the state of the writer, and how one batch gets into
//! the group. Nothing here does I/O or waits.

pub(crate) mod batch;
pub(crate) mod due;
mod encode;
mod expect;
pub(crate) mod facts;
pub(crate) mod group;
pub(crate) mod heads;
pub(crate) mod open_group;
pub(crate) mod phase;
pub(crate) mod prepare;
pub(crate) mod refusals;
pub(crate) mod stage;
pub(crate) mod writer;
