//! Reading an archive: checked against the store first, then written.

use std::io::BufRead;

use super::{
    Conflict, ImportClock, Imported,
    check::{self},
    write,
};
use crate::{Result, blocking::Store};

/// Opens the archive's source; called twice, to read it from its beginning each time.
pub type ImportSource<'a> = dyn FnMut() -> Result<Box<dyn BufRead>> + 'a;

/// Imports an archive into a store. Records that the store has already are skipped: importing an archive twice changes
/// nothing, and a longer version of it adds what is new. A session (with its runs), a definition or a stream that
/// differs from the store's is left out as a whole, and reported. Of a stream of which the archive [lacks](super::export_readable)
/// a record that the store hasn't got either, what comes behind that is left out, and reported.
///
/// The archive is read twice: nothing is written before all of it is checked. The list entries of sessions, runs and
/// definitions are written last, after their content, so that an interrupted import shows nothing incomplete; the next
/// import of the same archive completes it. Imports into one open store are serialized, so that each sees what earlier
/// ones have written; nothing else should write to the store meanwhile.
///
/// Times are preserved if `clock` is the one that the store was opened with and the store has nothing later.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if it is no archive, is incomplete, or has a line that can't be
/// read; with `strict`, [`Conflict`](crate::ErrorKind::Conflict) if something would be left out. Nothing was written
/// then. Else those of reading the source, and of reading and writing the store.
///
/// ```
/// use runlog::{
///     NewSession,
///     archive::{What, export, import},
///     blocking::Store,
/// };
///
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::named("trip"))?;
/// let mut lines = Vec::new();
/// export(&store, What::All, &mut |line| {
///     lines.extend_from_slice(line);
///     Ok::<(), runlog::Error>(())
/// })?;
///
/// let other = Store::in_memory();
/// let mut source = || Ok(Box::new(std::io::Cursor::new(lines.clone())) as Box<dyn std::io::BufRead>);
/// import(&other, None, false, &mut source)?;
/// assert_eq!(other.find_session("trip")?, session);
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn import(
    store: &Store,
    clock: Option<&ImportClock>,
    strict: bool,
    source: &mut ImportSource<'_>,
) -> Result<Imported> {
    let importing = &store.as_async().shared.folds.importing;
    // A poisoned lock can be ignored: it guards no value that a panic could leave inconsistent, and the store always
    // has whole batches.
    let _alone = importing
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let plan = check::check(store, source()?.as_mut())?;
    let lost = plan.lost();
    if strict && let Some((line, what)) = plan.conflicts.values().chain(&lost).min() {
        let message = format!("line {line}: {what}; nothing was written");
        return Err(crate::Error::new(crate::ErrorKind::Conflict, message));
    }
    let mut imported = write::write(store, clock, &plan, source()?.as_mut())?;
    imported.skipped += plan.listed;
    let mut conflicts: Vec<_> = plan.conflicts.values().chain(&lost).collect();
    runlog_log::order::sort(&mut conflicts);
    imported.conflicts = conflicts
        .into_iter()
        .map(|(line, what)| Conflict {
            line: *line,
            what: what.clone(),
        })
        .collect();
    Ok(imported)
}
