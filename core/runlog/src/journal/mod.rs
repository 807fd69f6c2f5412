//! Tools for any stream, whatever its events mean: optimistic writes, projections (folds) and paging.

pub(crate) mod attempts;
pub(crate) mod cursor;
pub(crate) mod follow;
pub(crate) mod page;
pub(crate) mod projection;
