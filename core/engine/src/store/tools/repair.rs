//! `repair`: makes a damaged store open again, without removing any readable record, and without reusing a position.
//!
//! The changes are planned from the existing files alone, before anything is written ([`Plan`]), and applied to a
//! directory in memory first, so that a store that can't be repaired is left unchanged. Then they are written in an
//! order in which no crash can cause a silent loss. After a crash at any of these steps the store either opens with
//! everything that the whole repair preserves, or is refused as damaged and the next repair has the same result:
//!
//! 1. What is overwritten is saved in `cut-….bin`, and files that are no segments of this log get such names.
//! 2. Copies of headers are written again, one after the other: there is always another, or else the records, which give the
//!    seed. So are the tables of packs, which the headers of their blocks give.
//! 3. Files in place of missing ones get their names when they are whole and durable. So does the new last segment, *before*
//!    the one before it is sealed with its holes: its header says where those end, and its base position lies behind all that
//!    was ever acknowledged, so that this is known from then on, whatever becomes of the watermark. It names an index block
//!    with another CRC than that will have, which only one of a repair may: recovery, which seals a segment that a crash left
//!    without an index, refuses this one. Sealing the holes first would leave a sealed last segment: refused as well, but by
//!    then nothing but the small files would give the positions.
//! 4. Index blocks are written, each behind its records, from those alone and from the checkpoint. Until its last byte is
//!    durable, the segment has none, as before.
//! 5. Index blocks that an earlier repair made are written once more: one that it could not flush looks as if it was
//!    there. Then the end marker is replaced by one that says the new end, or removed; until then it says that there
//!    was more, and the store is refused. Then the checkpoint is removed, which was needed to name what is lost until
//!    here. The watermark is overwritten with zeros in place: readers keep its file open, and a removed file would
//!    still show them the old end.
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

/// A repair examines the store again after it has changed it, at most this often.
const ROUNDS_MAX: u32 = 4;

/// Repairs a store: rebuilds derived data from the records, and continues after records that can't be read. No readable
/// record is removed: of a batch that lost records, the others are kept. Overwritten bytes are saved first, in
/// `cut-….bin`.
///
/// Acknowledged positions are not assigned again. Reading a lost record is an error that names its place; all other
/// records read as before. Repeating a repair is safe, also after it was interrupted and if there is nothing to repair.
///
/// # Errors
/// [`Locked`](ErrorKind::Locked) while a writer has the store open; [`Damaged`](ErrorKind::Damaged) if it
/// can't be repaired, and [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a newer build wrote some of it:
/// nothing is changed then. Those of reading, before anything is changed; those of writing: do it again.
pub fn repair(storage: &Arc<dyn Storage>, holder: &str, host: &dyn Host) -> Result<Repair> {
    let storage = &**storage;
    // Checks first that it is a store, because locking creates a file.
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
    // With damage in several places, some of it may become visible only once the rest is repaired.
    for _ in 0..ROUNDS_MAX {
        let sources = Sources::read(storage)?;
        sources.identity.features.check_writable(&format!(
            "{}: {}",
            storage.describe(),
            files::IDENTITY
        ))?;
        let mode = LoadMode::Writer(sources.watermark);
        let view = match load(storage, &sources.identity, Access::Read, mode) {
            Ok(loaded) => View::of(loaded)?,
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
