//! Readers beside a writer in another process.

pub(crate) mod follow;
