//! Compaction: packs in the place of sealed segments, with the records that something refers to, and the disk space of the
//! others given back.
//!
//! What is in use is decided from memory ([`live`]) for the whole store at once; what nobody refers to stays so, whatever is
//! written meanwhile. [`plan`] chooses the segments, [`gather`] copies what stays of some into the file of a pack, and
//! [`place`] puts that in their place; [`run`] does so range by range, and [`work`] knows which are left. Appends and reads go on all the while.
//!
//! A crash at any point leaves the store as it was or as it will be: the file is whole and durable before it gets its name,
//! and its name is durable before what it replaces is removed. What is left of that is removed by the next writer.

mod gather;
pub(crate) mod live;
mod place;
mod plan;
mod run;
mod sample;
mod source;
mod throttle;
mod work;

#[cfg(test)]
mod tests;
