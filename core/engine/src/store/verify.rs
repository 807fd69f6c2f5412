//! `verify`: reads every byte of a store, makes everything anew that is derived from its records, and tells every
//! difference.

use super::{
    examine::{self, Sources, View},
    open::{self, Moving},
    recover::{self, LoadMode},
    watermark,
};
use crate::{
    ErrorKind, Result, Verification,
    format::files::Identity,
    storage::{Access, Storage},
};

/// At most so many problems are told one by one; the rest are counted.
pub(crate) const PROBLEMS_MAX: usize = 1000;

/// Reads every byte of a store, also beside a writer, makes everything again that is derived from the records, and tells
/// every damage and every difference: index blocks, headers, checkpoint, end marker, watermark, and what opening makes of
/// them. Changes nothing.
///
/// # Errors
/// Those of reading: [`NotFound`](ErrorKind::NotFound), [`NotAStore`](ErrorKind::NotAStore),
/// [`Io`](ErrorKind::Io); [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) when a newer build wrote some of it. Damage
/// is no error: it is in the [`Verification`].
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    verify_with(storage, &mut |_, _| {})
}

/// The same as [`verify`]; `progress` is told how many of how many bytes were read.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
    storage: &dyn Storage,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Verification> {
    // Before the segments: what these say is true of any later state of the log.
    let sources = Sources::read(storage)?;
    let view = view(storage, &sources.identity)?;
    Ok(examine::examine(storage, sources, view, progress)?
        .walker
        .report
        .found)
}

/// What opening makes of the store: as a writer would find it; where one is at work, as far as that one has published.
fn view(storage: &dyn Storage, identity: &Identity) -> Result<View> {
    let mut refused = None;
    loop {
        let before = Moving::look(storage, identity)?;
        let published = watermark::read_proven(storage, &identity.store)?;
        let loaded = recover::load(storage, identity, Access::Read, LoadMode::Writer(published));
        if Moving::look(storage, identity)? != before {
            break;
        }
        match loaded {
            Ok(loaded) => return Ok(View::Opened(Box::new(loaded))),
            // Once more: what a writer was just writing may have been read half.
            Err(error) if error.kind() == ErrorKind::Damaged && refused.is_none() => {
                refused = Some(error)
            }
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(View::Refused(error)),
            Err(error) => return Err(error),
        }
    }
    match open::load_beside_a_writer(storage, identity) {
        Ok((loaded, _)) => Ok(View::Opened(Box::new(loaded))),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(View::Refused(error)),
        Err(error) => Err(error),
    }
}
