//! Segments as files: open, read, scan.

pub(crate) mod arena;
pub(crate) mod scan;
pub(crate) mod segment;
