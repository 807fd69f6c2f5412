//! The live tail: records as they are appended, without gaps or repeats.
//!
//! One [follower](follower) reads the log for all clients and encodes each record once; [channels](channels) pass it to
//! the subscribed clients; a [client](client) that is behind reads the log itself until it has caught up.

mod channels;
mod client;
mod event;
mod follower;

pub(super) use client::endpoint;
pub(super) use follower::Follower;
