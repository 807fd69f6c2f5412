//! Which files of packs stand for the segments that they name, and what each is good for.

use std::sync::Arc;

use super::slot::{State, Unusable, next_position};
use crate::{
    Error, ErrorKind, Result,
    format::files::{Identity, SegmentFile},
    log::segment::Segment,
    storage::{Access, Storage},
    store::{
        segments::chain::{self, SegmentFiles},
        tools::salvage::has_whole_block,
    },
};

/// The files of the log: in place of a pack of which nothing can be read, those that it replaced, if any are left.
pub(super) fn files_to_use(
    storage: &dyn Storage,
    identity: &Identity,
    strays: &mut Vec<(SegmentFile, String)>,
) -> Result<Vec<SegmentFile>> {
    let mut found = chain::segment_files(storage)?;
    let mut place = 0;
    while let Some(pack) = found.current.get(place).copied() {
        place += 1;
        if !found.replaced.iter().any(|file| pack.replaces(file)) {
            continue;
        }
        if let State::Lost(Some(unusable)) = open_pack(storage, pack, identity)?
            && !unusable.has_records
        {
            strays.push((pack, unusable.why));
            let mut files = [found.current, found.replaced].concat();
            files.retain(|file| *file != pack);
            found = SegmentFiles::of(files);
            place = 0;
        }
    }
    Ok(found.current)
}

/// What the file of a pack is good for. Without its index nothing tells what was left out of it, so it isn't made again.
pub(super) fn open_pack(
    storage: &dyn Storage,
    file: SegmentFile,
    identity: &Identity,
) -> Result<State> {
    let opened = Segment::open_file(storage, file, Access::Read, &identity.store);
    let (segment, error) = match opened {
        Ok(segment) => match segment.block() {
            Ok(_) => return Ok(State::Usable(Arc::new(segment))),
            Err(error) => (Some(segment), error),
        },
        Err(error) => (None, error),
    };
    if error.kind() != ErrorKind::Damaged {
        return Err(error);
    }
    Ok(State::Lost(Some(Unusable {
        has_records: has_whole_block(storage, file)?,
        next_position: segment.map_or(0, |segment| {
            next_position(&segment.header, segment.trailer())
        }),
        ..Unusable::of(file, error.to_string())
    })))
}

/// The damage of a pack's index.
pub(super) fn damage_of_index(segment: &Segment) -> Result<Option<Error>> {
    if !segment.is_pack() {
        return Ok(None);
    }
    match segment.block() {
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(Some(error)),
        block => block.map(|_| None),
    }
}
