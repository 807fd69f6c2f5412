//! The writer's state that isn't published yet: the open group, the state of the writer, and the staging of one batch
//! into the group. Staging does no I/O and doesn't wait.

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
