//! Compares the records of a store with all data derived from them, and finds what a repair would have to change.
//! [`verify`](super::verify) reports it, [`repair`](super::repair) repairs it.
//!
//! Every record is read once, in order, and applied without the use of derived data ([`walk`]). The index blocks, the
//! checkpoint, the end marker, the watermark and the result of opening are then compared with that ([`compare`],
//! [`ends`]). If records can't be read, a valid index block names the lost ones ([`pass`]); without one, later records
//! reveal what was lost ([`gap`] has the rules, [`settle`] and [`lose`] apply them).
//!
//! Memory holds the directory, the index block of the segment being read, and the index blocks that have to be made
//! again.

mod catch_up;
mod compare;
pub(crate) mod draft;
mod ends;
pub(crate) mod examiner;
mod gap;
mod guide;
mod lose;
mod missing;
mod names;
mod pack;
mod pack_files;
mod pack_index;
mod part;
mod pass;
mod places;
pub(crate) mod run;
pub(crate) mod seed;
mod settle;
pub(crate) mod slot;
mod slots;
pub(crate) mod sources;
mod stand;
pub(crate) mod survey;
mod tail;
mod walk;
pub(crate) mod walker;
