//! Loading a store while another process writes to it.

use super::load::{LoadMode, Loaded, load};
use crate::{
    Result,
    format::files::{Identity, SegmentFile, Watermark},
    storage::{Access, Storage},
    store::{files::watermark, segments::chain},
};

/// Loads a store as far as its writer has published.
///
/// A writer may turn to a new segment meanwhile; then what was read doesn't fit together, and is read again. An error is
/// returned only if nothing of the store moved meanwhile: then no writer was the cause of it.
pub(crate) fn load_beside_a_writer(
    storage: &dyn Storage,
    identity: &Identity,
) -> Result<(Loaded, Option<Watermark>)> {
    loop {
        let before = Moving::look(storage, identity)?;
        let seen = before.watermark;
        let error = match load(storage, identity, Access::Read, LoadMode::Reader(seen)) {
            Ok(loaded) if storage.boot_id().is_some() || seen.is_none() => {
                return Ok((loaded, seen));
            }
            Ok(_) => match load_without_boot_id(storage, identity, seen) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => error,
            },
            // It may be ahead of a log that lost power, where that can't be known.
            Err(_) if seen.is_some() && storage.boot_id().is_none() => {
                match load(storage, identity, Access::Read, LoadMode::Reader(None)) {
                    Ok(loaded) => return Ok((loaded, None)),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if Moving::look(storage, identity)? == before {
            return Err(error);
        }
    }
}

/// What a writer changes when it publishes records or turns to a new segment.
#[derive(PartialEq, Eq)]
pub(crate) struct Moving {
    watermark: Option<Watermark>,
    last_segments: Vec<(SegmentFile, Option<u64>)>,
    packs: Vec<SegmentFile>,
}

impl Moving {
    pub(crate) fn look(storage: &dyn Storage, identity: &Identity) -> Result<Self> {
        let mut files = chain::segment_files(storage)?.current;
        let packs = files.iter().filter(|file| file.generation != 0);
        let packs = packs.copied().collect();
        files.drain(..files.len().saturating_sub(2));
        let length = |file: &SegmentFile| storage.open(&file.name(), Access::Read).ok()?.len().ok();
        let last_segments = files.iter().map(|file| (*file, length(file))).collect();
        Ok(Self {
            watermark: watermark::read(storage, &identity.store)?,
            last_segments,
            packs,
        })
    }
}

/// Without a boot id the watermark may be older than the log, which a loss of power leaves so. What the records themselves
/// prove durable was published too, so a reader goes as far as the further of both.
fn load_without_boot_id(
    storage: &dyn Storage,
    identity: &Identity,
    seen: Option<Watermark>,
) -> Result<(Loaded, Option<Watermark>)> {
    let all = load(storage, identity, Access::Read, LoadMode::Reader(None))?;
    let proven = all
        .proven
        .filter(|proven| seen.is_none_or(|seen| *proven > (seen.segment, seen.offset)));
    let limit = match (seen, proven) {
        (Some(seen), Some((segment, offset))) => Some(Watermark {
            segment,
            offset,
            ..seen
        }),
        _ => seen,
    };
    Ok((
        load(storage, identity, Access::Read, LoadMode::Reader(limit))?,
        limit,
    ))
}
