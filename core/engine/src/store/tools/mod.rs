//! Tools for a store as a whole: verify, repair, salvage, backup.

pub(crate) mod backup;
mod examine;
pub(crate) mod repair;
pub(crate) mod salvage;
pub(crate) mod verify;
