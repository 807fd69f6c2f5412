//! One open store and the operations of its threads: stage batches, lead groups, flush, rotate segments, close.
//!
//! From the bottom layer up: [`shared`] is the state that all of them share; [`guard`] handles a thread that fails;
//! [`lead`] writes a group; [`flush`], [`new_segment`] and [`checkpoints`] build on that, [`rotate`] on these,
//! [`stage`] on all of them.

pub(crate) mod background;
mod checkpoints;
pub(crate) mod close;
mod flush;
pub(crate) mod future;
mod guard;
mod lead;
mod new_segment;
mod repeat;
mod rotate;
pub(crate) mod shared;
mod spare;
pub(crate) mod stage;
mod threads;
