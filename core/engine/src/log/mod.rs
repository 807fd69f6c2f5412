//! Segments as files: open, read, scan.

pub(crate) mod arena;
pub(crate) mod blocks;
pub(crate) mod codec;
pub(crate) mod dictionary;
pub(crate) mod frame;
pub(crate) mod pack;
pub(crate) mod pack_writer;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod stream_postings;

/// Empties the caches of this floor.
pub(crate) fn clear_caches() {
    blocks::BLOCKS.clear();
    blocks::LABELS.clear();
    pack::DECODED.clear();
    pack::DICTIONARIES.clear();
}
