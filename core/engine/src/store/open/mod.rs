//! Opening a store: its folder, its locks, recovery, and the state of the one writer.
//!
//! [`load`] reads the log and decides; [`plan`] applies the writes of recovery; [`entry`] assembles the open store.

pub(crate) mod beside;
pub(crate) mod entry;
pub(crate) mod folder;
mod holder;
pub(crate) mod load;
pub(crate) mod lock;
mod plan;
mod resume;
mod torn;
