//! `repair`: makes a store open again that doesn't, without cutting anything that can be read, and without giving a
//! position out again.
//!
//! What is to be done is decided from what is there alone, before anything is changed ([`Plan`]); and it is tried on a
//! directory of its own, so that what can't be repaired stays as it is. Then it is done in an order that no crash in between
//! can turn into silent loss. At each of these points the store either opens and has all that a whole repair saves, or is
//! refused as damaged and the next repair comes to the same:
//!
//! 1. What is overwritten is saved in `cut-….bin`, and files that are no segments of this log get such names.
//! 2. Copies of headers are written again, one after the other: there is always another, or else the records, which give the
//!    seed.
//! 3. Files in place of missing ones get their names when they are whole and durable. So does the new last segment, *before*
//!    the one before it is sealed with its holes: its header says where those end, and its base position lies behind all that
//!    was ever acknowledged, so that this is known from then on, whatever becomes of the watermark. It names an index block
//!    with another CRC than that will have, which only one of a repair may: recovery, which seals a segment that a crash left
//!    without an index, refuses this one. Sealing the holes first would leave a sealed last segment: refused as well, but by
//!    then nothing but the small files would give the positions.
//! 4. Index blocks are written, each behind its records, from those alone and from the checkpoint. Until its last byte is
//!    durable, the segment has none, as before.
//! 5. Index blocks that an earlier repair made are written once more: one that it could not flush looks as if it was there.
//!    Then the end marker is replaced by one that says the new end, or removed; until then it says that there was more, and the
//!    store is refused. Then the checkpoint is removed, which was needed to name what is lost until here. The watermark is
//!    overwritten with zeros in place: readers keep its file open, and a removed one would go on telling them the old end.
//! 6. `RUNLOG` comes last: without it the store can't be opened.

mod apply;
mod plan;

use std::sync::Arc;

use super::{
    examine::{
        run::{View, examine},
        sources::Sources,
    },
    verify::verify,
};
use crate::{
    Error, ErrorKind, Host, Repair, Result,
    format::files,
    storage::{Access, Storage},
    store::open::{
        load::{LoadMode, load},
        lock::{lock, lock_identity},
    },
};
use plan::Plan;

/// A repair looks again after it has done something, at most this often.
const ROUNDS_MAX: u32 = 4;

/// Repairs a store: makes again what can be made from the records, and goes on behind what can't be read. Nothing that can
/// be read is cut: of a batch that lost records, the others stay. What is overwritten is saved before, in `cut-….bin`.
///
/// Positions that were acknowledged are not given out again. Reading a record that is lost is an error that names its place;
/// everything else reads as before. Doing it again when it was cut off, or when nothing is to be done, is safe.
///
/// # Errors
/// [`Locked`](ErrorKind::Locked) while a writer has the store; [`Damaged`](ErrorKind::Damaged) when nothing can be made of
/// it, and [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a newer build wrote some of it: nothing is changed
/// then. Those of reading, before anything is changed; those of writing: do it again.
pub fn repair(storage: &Arc<dyn Storage>, holder: &str, host: &dyn Host) -> Result<Repair> {
    let storage = &**storage;
    // First of all that it is a store: locking makes a file.
    Sources::read(storage)?;
    let lock = lock(storage, holder)?;
    let is_named = match storage.open(files::IDENTITY, Access::Read) {
        Ok(_) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => {
            return Err(Error::from_io(
                error,
                format!("{}: opening {}", storage.describe(), files::IDENTITY),
            ));
        }
    };
    let identity_lock = if is_named {
        lock_identity(storage)?
    } else {
        None
    };
    let mut repair = Repair::default();
    // What was damaged in several places may show some of it only when the rest is repaired.
    for _ in 0..ROUNDS_MAX {
        let sources = Sources::read(storage)?;
        sources.identity.features.check_writable(&format!(
            "{}: {}",
            storage.describe(),
            files::IDENTITY
        ))?;
        let mode = LoadMode::Writer(sources.watermark);
        let view = match load(storage, &sources.identity, Access::Read, mode) {
            Ok(loaded) => View::Opened(Box::new(loaded)),
            Err(error) if error.kind() == ErrorKind::Damaged => View::Refused(error),
            Err(error) => return Err(error),
        };
        let examined = examine(storage, sources, view, &mut |_, _| {})?;
        let plan = Plan::of(examined, host)?;
        if plan.is_empty() {
            break;
        }
        plan.apply(storage, &mut repair)?;
    }
    drop((identity_lock, lock));
    repair.left = verify(storage)?.problems;
    Ok(repair)
}
