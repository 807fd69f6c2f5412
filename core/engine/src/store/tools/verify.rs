//! `verify`: reads every byte of a store, rebuilds all data derived from its records, and reports every difference.

use super::examine::{
    run::{View, examine},
    sources::Sources,
};
use crate::{
    ErrorKind, Result, Verification,
    format::files::Identity,
    storage::{Access, Storage},
    store::{
        files::watermark,
        open::{
            beside::{Moving, load_beside_a_writer},
            load::{LoadMode, load},
        },
    },
};

/// Reads every byte of a store, also while a writer is active, rebuilds all data derived from the records, and reports
/// every damage and every difference: index blocks, headers, checkpoint, end marker, watermark, and the result of
/// opening. Changes nothing.
///
/// # Errors
/// Those of reading: [`NotFound`](ErrorKind::NotFound), [`NotAStore`](ErrorKind::NotAStore),
/// [`Io`](ErrorKind::Io); [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a newer build wrote some of it.
/// Damage is not an error: it is reported in the [`Verification`].
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    verify_with(storage, &mut |_, _| {})
}

/// The same as [`verify`]; `progress` gets how many bytes were read, and of how many.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    storage: &dyn Storage,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
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
