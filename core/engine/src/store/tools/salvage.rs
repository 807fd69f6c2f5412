//! `salvage`: every whole record of a folder, whatever else is lost: from segments without a neighbour, a header or an
//! index block, and from bytes put aside in `cut-….bin`.

mod found;
mod image;
mod known;
mod places;
mod raw_file;
mod remains;

use std::{collections::BTreeSet, ops::ControlFlow};

use self::{
    image::SalvagedImage,
    known::Known,
    places::{Place, places},
    remains::Remains,
};
use crate::{
    Result,
    format::files::SegmentFile,
    log::segment::Segment,
    storage::{Access, IoContext, Storage},
    store::files::checkpoint,
};

pub use found::{Salvage, Salvaged};

/// The folder is listed anew after this many files, at most, that a compaction removed before they were opened.
const GONE_MAX: usize = 16;

/// Whether any block of a pack's image is whole, and can be decoded.
pub(super) fn has_whole_block(storage: &dyn Storage, file: SegmentFile) -> Result<bool> {
    let name = file.name();
    let opened = storage
        .open(&name, Access::Read)
        .with_context(|| format!("opening {name}"))?;
    let place = Place::of(name, file);
    let image = SalvagedImage::of(&opened, &place, &mut Salvage::default())?;
    Ok(image.is_some_and(|image| image.has_blocks()))
}

/// Finds every whole record of a folder, in order of segment and offset, whether it can be opened as a store or not. It
/// takes no lock, changes nothing, and keeps in memory only the ids of the streams.
///
/// Truncated and deleted records are found too, unless a compaction dropped them: it reports the records in the files,
/// not the state of the streams. Of a pack every whole block is decoded, even if others, its header or its table of
/// blocks are damaged; if the pack is whole, the files that it replaced are skipped.
///
/// # Errors
/// [`NotFound`](crate::ErrorKind::NotFound) when there is no folder, and [`Io`](crate::ErrorKind::Io) when it
/// can't be listed. Unreadable parts of a file are skipped, and noted.
pub fn salvage(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    let (mut found, mut summary) = opened(storage)?;
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

/// The files that may hold records. They are listed anew where a compaction removed some before they were opened: what they
/// had is in another by then.
fn opened(storage: &dyn Storage) -> Result<(Vec<Remains>, Salvage)> {
    let mut gone = BTreeSet::new();
    'listing: loop {
        let mut summary = Salvage::default();
        let mut found: Vec<Remains> = Vec::new();
        for place in places(storage)? {
            let described = place.name.clone();
            match Remains::open(storage, place, &found, &mut summary) {
                Ok(remains) => found.push(remains),
                // One that was listed a second time isn't there for another reason.
                Err(error)
                    if Segment::is_gone(&error)
                        && gone.len() < GONE_MAX
                        && gone.insert(described.clone()) =>
                {
                    continue 'listing;
                }
                Err(error) => summary.note(format!("{described}: {error}")),
            }
        }
        return Ok((found, summary));
    }
}
