//! The live tail: what is appended, as it is appended, without a gap and without a repeat.
//!
//! One [follower](follower) reads the log for all clients and encodes each record once; [channels](channels) lead to the
//! clients that asked for it; a [client](client) that is behind reads for itself until it has caught up.

mod channels;
mod client;
mod event;
mod follower;

pub(super) use client::endpoint;
pub(super) use follower::Follower;
