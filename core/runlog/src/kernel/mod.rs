//! What every part of a store stands on: the [`Store`](crate::Store) itself, with its sessions and instances, and what all
//! of its handles share: the folded catalogs, the chats in use, and what this process is at work on.

pub(crate) mod agents;
pub(crate) mod catalog;
pub(crate) mod chats;
pub(crate) mod claims;
pub(crate) mod flows;
pub(crate) mod gates;
pub(crate) mod inbox;
pub(crate) mod live;
pub(crate) mod lookup;
pub(crate) mod new_session;
pub(crate) mod records;
pub(crate) mod runs;
mod sessions;
pub(crate) mod store;
