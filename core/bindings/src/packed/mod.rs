//! Binary layouts for the boundary to JavaScript: the only encoder or decoder of each on this side. `sdk/src/packed.ts`
//! is the other side. All numbers are little-endian.

mod batch;
mod contents;
mod heads;
mod records;

pub(crate) use batch::PackedAppend;
pub(crate) use batch::records as packed_records;
pub(crate) use contents::Contents;
pub(crate) use heads::{pack_found, pack_heads};
pub(crate) use records::pack_records;
