//! `salvage`: every whole record of a folder, whatever else is lost: segments without a neighbour, a header or an index
//! block, and what repairs and people have put aside in `cut-….bin`.

mod found;
mod image;
mod known;
mod places;
mod raw_file;
mod remains;

use std::ops::ControlFlow;

use self::{known::Known, places::places, remains::Remains};
use crate::{Result, storage::Storage, store::files::checkpoint};

pub use found::{Salvage, Salvaged};

/// Gives every whole record of a folder, in order of segment and offset, whether it can be opened as a store or not. It takes
/// no lock, changes nothing, and keeps in memory only the ids of the streams.
///
/// What was truncated or deleted is given, too, unless a compaction left it out: this is what lies there, not what it means. Of a
/// pack every block that is whole is decoded, whatever happened to the others, to its header or to its table of blocks; while it is
/// whole, nothing is given of the files whose place it took.
///
/// # Errors
/// [`NotFound`](crate::ErrorKind::NotFound) when there is no folder, and [`Io`](crate::ErrorKind::Io) when it can't be listed. What can't be
/// read of a file is left out, and noted.
pub fn salvage(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    let mut summary = Salvage::default();
    let mut found: Vec<Remains> = Vec::new();
    for place in places(storage)? {
        let described = place.name.clone();
        match Remains::open(storage, place, &found, &mut summary) {
            Ok(remains) => found.push(remains),
            Err(error) => summary.note(format!("{described}: {error}")),
        }
    }
    let is_leftover = |remains: &Remains| found.iter().any(|other| remains.is_leftover_of(other));
    let leftovers: Vec<bool> = found.iter().map(is_leftover).collect();
    let mut is_leftover = leftovers.into_iter();
    found.retain(|_| !is_leftover.next().unwrap_or(false));
    summary.files = found.len() as u64;
    let mut known = Known::default();
    // No id is looked up in it: any secret will do.
    if let Ok(Some(checkpoint)) = checkpoint::read(storage, &[0; 16]) {
        let streams = checkpoint.directory.streams().iter().zip(1..);
        known
            .ids
            .extend(streams.map(|(stream, number)| (number, *stream.id.as_bytes())));
        known
            .redacted
            .extend(checkpoint.directory.redacted().to_vec());
    }
    found
        .iter()
        .try_for_each(|remains| remains.tell(&mut known))?;
    for remains in &found {
        if remains.each(&known, &mut summary, visit)?.is_break() {
            break;
        }
    }
    Ok(summary)
}
