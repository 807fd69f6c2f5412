//! `verify`: reads every byte of a store, rebuilds all data derived from its records, and reports every difference.

use std::collections::BTreeSet;

use super::examine::{
    run::{View, examine},
    sources::Sources,
};
use crate::{
    Error, ErrorKind, Result, Verification,
    format::files::Identity,
    log::segment::Segment,
    storage::{Access, Storage},
    store::{
        files::watermark,
        open::{
            beside::{Moving, load_beside_a_writer},
            load::{LoadMode, load},
        },
    },
};

/// It gives up once compactions have removed this many files before they were read.
const GONE_MAX: usize = 16;

/// Reads every byte of a store, also while a writer is active, rebuilds all data derived from the records, and reports
/// every damage and every difference: index blocks, headers, checkpoint, end marker, watermark, and the result of
/// opening. Changes nothing. Where a compaction removes a file before it was read, it begins anew.
///
/// # Errors
/// Those of reading: [`NotFound`](ErrorKind::NotFound), [`NotAStore`](ErrorKind::NotAStore),
/// [`Io`](ErrorKind::Io), also when compactions removed 16 files before it read them;
/// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a newer build wrote some of it.
/// Damage is not an error: it is reported in the [`Verification`].
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    verify_with(storage, &mut |_, _| {})
}

/// The same as [`verify`]; `progress` gets how many bytes were read, and of how many. What was read before it began anew
/// counts in both.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    storage: &dyn Storage,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    let (mut before, mut gone) = (0, BTreeSet::new());
    loop {
        let mut read = 0;
        let result = verify_once(storage, &mut |done, all| {
            read = done;
            progress(before + done, before + all);
        });
        match result {
            // A second time, the same file isn't there for another reason.
            Err(error) if Segment::is_gone(&error) && gone.insert(error.to_string()) => {
                if gone.len() == GONE_MAX {
                    return Err(Error::new(
                        error.kind(),
                        format!(
                            "compactions removed files before they were read, {GONE_MAX} times; verify when nothing \
                             compacts the store, or verify a backup"
                        ),
                    ));
                }
                before += read;
            }
            result => return result,
        }
    }
}

fn verify_once(storage: &dyn Storage, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    // Read before the segments: they hold for any later state of the log.
    let sources = Sources::read(storage)?;
    let view = view(storage, &sources.identity)?;
    Ok(examine(storage, sources, view, progress)?.walker.report)
}

/// The result of opening the store: as a writer would find it, or with an active writer, up to what it has published.
fn view(storage: &dyn Storage, identity: &Identity) -> Result<View> {
    let mut refused = None;
    loop {
        let before = Moving::look(storage, identity)?;
        let published = watermark::read_proven(storage, &identity.store)?;
        let loaded = load(storage, identity, Access::Read, LoadMode::Writer(published));
        if Moving::look(storage, identity)? != before {
            break;
        }
        match loaded {
            Ok(loaded) => return View::of(loaded),
            // What seems to be missing may be in a file that the writer has added.
            Err(_) if !storage.is_whole() => break,
            // Retried once: a write in progress may have been read in part.
            Err(error) if error.kind() == ErrorKind::Damaged && refused.is_none() => {
                refused = Some(error)
            }
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(View::Refused(error)),
            Err(error) => return Err(error),
        }
    }
    match load_beside_a_writer(storage, identity) {
        Ok((loaded, _)) => Ok(View::Opened(Box::new(loaded))),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(View::Refused(error)),
        Err(error) => Err(error),
    }
}
