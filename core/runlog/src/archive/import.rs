//! Reading an archive: checked against the store first, then written.

use std::io::BufRead;

use super::{
    Conflict, ImportClock, Imported,
    check::{self},
    write,
};
use crate::{Result, blocking::Store};

/// Where an archive is read from: twice, from its beginning each time.
pub type ImportSource<'a> = dyn FnMut() -> Result<Box<dyn BufRead>> + 'a;

/// Takes an archive into a store. What the store has already is left as it is: reading an archive twice changes nothing, and
/// one that has more adds what is new. A session (with its runs), a definition or a stream of which the store has something
/// else is left out as a whole, and told.
///
/// The archive is read twice: nothing is written before all of it was found to be right. Sessions, runs and definitions are
/// listed at the end, once what they are about is there, so that an import that was interrupted shows nothing half done; the
/// next import of the same archive completes it. Imports into one open store wait for each other, so that each finds what
/// those before it have written; nothing else should write to the store meanwhile.
///
/// Times are kept if `clock` is what the store was opened with and the store has nothing later.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what is no archive, or one that breaks off or has a line that can't be read; with
/// `strict`, [`Conflict`](crate::ErrorKind::Conflict) where something would be left out. Nothing was written then. Else those of reading
/// the source, and of reading and writing the store.
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
    // It guards no value that a panic could leave broken: what is in the store is always whole batches.
    let _alone = importing
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let plan = check::check(store, source()?.as_mut())?;
    if strict && let Some((line, what)) = plan.conflicts.values().min() {
        let message = format!("line {line}: {what}; nothing was written");
        return Err(crate::Error::new(crate::ErrorKind::Conflict, message));
    }
    let mut imported = write::write(store, clock, &plan, source()?.as_mut())?;
    imported.skipped += plan.listed;
    let mut conflicts: Vec<_> = plan.conflicts.values().collect();
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
