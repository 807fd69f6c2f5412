//! Loading a store for reading while another process writes to it.

use super::load::{LoadMode, Loaded, load};
use crate::{
    Result,
    format::files::{Identity, SegmentFile, Watermark},
    storage::{Access, Storage},
    store::{files::watermark, segments::chain},
};

/// Loads a store up to what its writer has published.
///
/// A writer may rotate meanwhile; then the parts that were read are inconsistent, and are read again. An error is
/// returned only if the store didn't change meanwhile: then no writer caused it.
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
            Ok(loaded) => match load_without_boot_id(storage, identity, seen) {
                Ok(loaded) => return Ok(loaded),
                // What seems to be missing may be in a file that the writer has added.
                Err(_) if !storage.is_whole() => return Ok((loaded, seen)),
                Err(error) => error,
            },
            // Without a boot id, the watermark may be ahead of a log that lost power.
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

/// The state that a writer changes when it publishes records or rotates.
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

/// Without a boot id the watermark may be from before a loss of power, and older than the log. Records that prove
/// themselves durable were published too, so a reader may read up to the later of both.
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
