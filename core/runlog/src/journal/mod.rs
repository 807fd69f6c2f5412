//! What is done with a stream whatever it tells of: deciding and writing, folding, and listing in pages.

pub(crate) mod attempts;
pub(crate) mod cursor;
pub(crate) mod page;
pub(crate) mod projection;
