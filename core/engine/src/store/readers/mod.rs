//! Readers that follow a writer in another process.

pub(crate) mod follow;
