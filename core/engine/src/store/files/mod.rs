//! The small files beside the segments: each is replaced whole, but for the watermark, which is overwritten in place.

pub(crate) mod checkpoint;
pub(crate) mod end;
pub(crate) mod small;
pub(crate) mod watermark;
