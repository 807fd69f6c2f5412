//! What the records of a store say, held against everything that is derived from them; and what it would take to repair
//! what doesn't agree. [`verify`](super::verify) reports it, [`repair`](super::repair) does it.
//!
//! Every record is read once, in order, and applied as if nothing else was there ([`walk`]). What the index blocks, the
//! checkpoint, the end marker, the watermark and opening say is then compared ([`compare`], [`ends`]). Where records can't be
//! read, an index block that checks names what was there ([`pass`]); where there is none, later records show what was lost
//! ([`gap`] has the rules, [`settle`] and [`lose`] apply them).
//!
//! At any time the directory is in memory, and of the index blocks the one of the segment that is read, and those that have
//! to be made again.

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
mod part;
mod pass;
mod places;
pub(crate) mod run;
pub(crate) mod seed;
mod settle;
mod slots;
pub(crate) mod sources;
mod stand;
pub(crate) mod survey;
mod tail;
mod walk;
pub(crate) mod walker;
