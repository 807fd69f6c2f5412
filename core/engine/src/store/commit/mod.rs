//! One open store, and what its threads do with it: stage batches, lead groups, flush, rotate segments, close.
//!
//! From below: [`shared`] is what all of them have in common; [`guard`] settles what a thread leaves behind; [`lead`] writes a
//! group; [`flush`], [`new_segment`] and [`checkpoints`] stand on that, [`rotate`] on these, [`stage`] on all of them.

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
