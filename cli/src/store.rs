//! Opening the store, and the operations on a folder that can't be opened: verifying, repairing, salvaging. Only this
//! file of the command uses the engine directly.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use runlog::engine::{Salvage, Salvaged};
use runlog::{
    ErrorKind, RunId, StoreOptions,
    archive::ImportClock,
    blocking::Store,
    engine::{
        SystemHost,
        storage::{FsStorage, Storage},
    },
    log::{Repair, Verification},
};

use crate::{
    args::Global,
    failure::{Failure, Result},
    output::note,
};

/// How long to wait before retrying to open a store that another process has locked.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// A file that whoever opens a store for writing makes, and that a backup doesn't have.
const WATERMARK: &str = "WATERMARK";
/// The most runs of a killed process that are listed.
const RECOVERED_SHOWN: usize = 3;

/// Opens the store for writing, creating it if needed. Prints the runs that a killed process had left running.
pub(crate) fn open_or_create(global: &Global) -> Result<Store> {
    let store = open_quietly(global)?;
    print_recovered(global, &store, None);
    Ok(store)
}

/// Opens the store for importing records with their original times, with the clock for that; creates it if needed. A
/// new store begins at `first_ms`.
pub(crate) fn open_to_import(
    global: &Global,
    first_ms: Option<u64>,
) -> Result<(Store, Arc<ImportClock>)> {
    let clock = ImportClock::new(Arc::new(SystemHost));
    if let Some(first_ms) = first_ms.filter(|_| !global.store.join("RUNLOG").exists()) {
        clock.stand_at(first_ms);
    }
    let store = opened(
        global,
        Store::open_with(
            &global.store,
            writing(global, StoreOptions::with_host(clock.clone())),
        ),
    )?;
    clock.go_on();
    print_recovered(global, &store, None);
    Ok((store, clock))
}

/// The options for opening for writing.
fn writing(global: &Global, options: StoreOptions) -> StoreOptions {
    StoreOptions {
        lock_timeout: Duration::from_secs(global.lock_timeout),
        ..options
    }
}

/// Prints the runs that a killed process had left running, and how to go on from each but the one that the command
/// itself goes on from.
pub(crate) fn print_recovered(global: &Global, store: &Store, resumed: Option<RunId>) {
    let recovered = store.recovered_runs();
    for run in recovered.iter().take(RECOVERED_SHOWN) {
        let mut paused = format!("paused run {run}, whose process was gone");
        if resumed != Some(*run) {
            paused += &format!("; `runlog run --resume {run} -- CMD` goes on from it");
        }
        note(global.json, paused);
    }
    if let Some(more) = recovered
        .len()
        .checked_sub(RECOVERED_SHOWN)
        .filter(|more| *more > 0)
    {
        note(
            global.json,
            format!("… and {more} more; `runlog resume` lists them"),
        );
    }
}

/// Opens an existing store for writing. Prints the runs that a killed process had left running.
pub(crate) fn open(global: &Global) -> Result<Store> {
    let store = open_existing_quietly(global)?;
    print_recovered(global, &store, None);
    Ok(store)
}

/// Opens an existing store for writing, for callers that handle the runs of a killed process themselves.
pub(crate) fn open_existing_quietly(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    open_quietly(global)
}

/// Opens the store for writing, creating it if needed, for callers that handle the runs of a killed process themselves.
pub(crate) fn open_quietly(global: &Global) -> Result<Store> {
    opened(
        global,
        Store::open_with(&global.store, writing(global, StoreOptions::default())),
    )
}

/// Opens an existing store for writing; for reading where another process writes it, which can then be asked.
pub(crate) fn open_or_ask(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    match Store::open_with(&global.store, writing(global, StoreOptions::default())) {
        Ok(store) => {
            print_recovered(global, &store, None);
            Ok(store)
        }
        Err(error) if error.kind() == ErrorKind::Locked => open_read_only(global),
        Err(error) => opened(global, Err(error)),
    }
}

/// Opens the store for reading, whether or not another process is writing it.
pub(crate) fn open_read_only(global: &Global) -> Result<Store> {
    opened(global, Store::open_read_only(&global.store))
}

/// Opens the store for reading what can be resumed. If no process has it open for writing, the runs that a killed
/// process left are paused first, and printed. If it can't be written to, they stay `running`; so they do in a backup, which takes
/// no further backup once it was written to.
pub(crate) fn open_recovered(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    if !global.store.join(WATERMARK).exists() {
        note(
            global.json,
            "nobody has written to this folder yet, which may be a backup: what a killed process left is still `running`",
        );
        return open_read_only(global);
    }
    match Store::open_with(&global.store, writing(global, StoreOptions::default())) {
        Ok(store) => {
            print_recovered(global, &store, None);
            Ok(store)
        }
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::Locked | ErrorKind::ReadOnly | ErrorKind::PermissionDenied
            ) =>
        {
            if error.kind() != ErrorKind::Locked {
                note(
                    global.json,
                    "the store can't be written to: what a killed process left is still `running`",
                );
            }
            open_read_only(global)
        }
        Err(error) => opened(global, Err(error)),
    }
}

fn opened<T>(global: &Global, store: runlog::Result<T>) -> Result<T> {
    store.map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(global),
        // These errors name the folder themselves.
        ErrorKind::NotAStore => Failure::from(error),
        ErrorKind::Locked => Failure::from(error)
            .and("--lock-timeout 60 waits for a minute; commands that only read work meanwhile"),
        _ => Failure::from(error).about(format!("can't open the store {}", global.store.display())),
    })
}

fn missing(global: &Global) -> Failure {
    let message = format!(
        "there is no store at {}; name another one with --store or RUNLOG_STORE, or make one with `runlog import` or `runlog run`",
        global.store.display()
    );
    Failure::not_found(message)
}

/// Checks every byte of the store; `progress` is called with the bytes read and their total.
pub(crate) fn verify(global: &Global, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    let found = runlog::engine::verify_with(&FsStorage::new(&global.store), progress);
    opened(global, found)
}

/// Passes on every complete record of a folder, whether or not it can be opened as a store.
pub(crate) fn salvage(
    folder: &Path,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    let found = runlog::engine::salvage(&FsStorage::new(folder), visit)?;
    // Nothing that may hold records, nor a note of what could not be opened: it is the folder of something else.
    if found.files == 0 && found.notes.is_empty() && !folder.join("RUNLOG").exists() {
        let message = format!(
            "there is no store in {}: no segment, no pack, nothing that a repair put aside; name the folder that has them",
            folder.display()
        );
        return Err(Failure::not_found(message));
    }
    Ok(found)
}

/// Repairs the store.
pub(crate) fn repair(global: &Global) -> Result<Repair> {
    let storage: Arc<dyn Storage> = Arc::new(FsStorage::new(&global.store));
    let begun = Instant::now();
    loop {
        let repaired =
            runlog::Store::repair(&storage, "runlog verify --repair", Arc::new(SystemHost));
        match repaired {
            Err(error)
                if error.kind() == ErrorKind::Locked
                    && begun.elapsed() < Duration::from_secs(global.lock_timeout) =>
            {
                std::thread::sleep(LOCK_PAUSE);
            }
            repaired => return opened(global, repaired),
        }
    }
}
