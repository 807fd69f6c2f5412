//! The basis of every part of a store: the [`Store`](crate::Store) itself, with its sessions and instances, and the
//! state that all of its handles share: the folded catalogs, the chats in use, and the runs, flows and requests that
//! this process is working on.

pub(crate) mod agents;
pub(crate) mod catalog;
pub(crate) mod chats;
pub(crate) mod claims;
pub(crate) mod descriptions;
pub(crate) mod erased_runs;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod inbox;
pub(crate) mod last_used;
pub(crate) mod live;
pub(crate) mod lookup;
pub(crate) mod new_session;
pub(crate) mod often;
pub(crate) mod places;
mod raw;
pub(crate) mod records;
pub(crate) mod removals;
pub(crate) mod runs;
pub(crate) mod saved_states;
mod sessions;
pub(crate) mod shared_fold;
pub(crate) mod step_folds;
pub(crate) mod store;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod writer_requests;
