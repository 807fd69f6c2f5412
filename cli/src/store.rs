//! Opening the store, and what works on a folder that doesn't open: checking, repairing, salvaging. Only here the command names
//! the engine.

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) use runlog::engine::{Salvage, Salvaged};
use runlog::{
    ErrorKind, StoreOptions,
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

/// How long to wait before the store is tried again that another process has.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// The most runs that are named of those that a process left when it was killed.
const RECOVERED_SHOWN: usize = 3;

/// Opens the store for writing; makes it when it isn't there. Says what a process that was killed had left running.
pub(crate) fn open_or_create(global: &Global) -> Result<Store> {
    Ok(tell_recovered(global, open_quietly(global)?))
}

/// Opens the store for writing what happened before, with its clock; makes it when it isn't there. One that is made for
/// it begins at `first_ms`.
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
    Ok((tell_recovered(global, store), clock))
}

/// Options of an opening for writing.
fn writing(global: &Global, options: StoreOptions) -> StoreOptions {
    StoreOptions {
        lock_timeout: Duration::from_secs(global.lock_timeout),
        ..options
    }
}

fn tell_recovered(global: &Global, store: Store) -> Store {
    let recovered = store.recovered_runs();
    for run in recovered.iter().take(RECOVERED_SHOWN) {
        let resume = format!("`runlog run --resume {run} -- CMD` goes on from it");
        note(
            global.json,
            format!("paused run {run}, whose process was gone; {resume}"),
        );
    }
    if let Some(more) = recovered
        .len()
        .checked_sub(RECOVERED_SHOWN)
        .filter(|more| *more > 0)
    {
        note(
            global.json,
            format!("… and {more} more; `runlog resume --list` lists them"),
        );
    }
    store
}

/// Opens the store for writing, when it is there. Says what a process that was killed had left running.
pub(crate) fn open(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    open_or_create(global)
}

/// Opens the store for writing, for who sees to itself what a process that was killed had left running; makes it when
/// it isn't there.
pub(crate) fn open_quietly(global: &Global) -> Result<Store> {
    opened(
        global,
        Store::open_with(&global.store, writing(global, StoreOptions::default())),
    )
}

/// Opens the store for reading, beside a writer or without one.
pub(crate) fn open_read_only(global: &Global) -> Result<Store> {
    opened(global, Store::open_read_only(&global.store))
}

/// Opens the store for reading what can be gone on with: where nobody has it open for writing, the runs that a killed process
/// left are paused first, and told. Where it can't be written to, they can't be, and are still `running`.
pub(crate) fn open_recovered(global: &Global) -> Result<Store> {
    if !global.store.exists() {
        return Err(missing(global));
    }
    match Store::open_with(&global.store, writing(global, StoreOptions::default())) {
        Ok(store) => Ok(tell_recovered(global, store)),
        Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::ReadOnly) => {
            if error.kind() == ErrorKind::ReadOnly {
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
        // They name the folder themselves.
        ErrorKind::NotAStore | ErrorKind::Locked => Failure::from(error),
        _ => Failure::from(error).about(format!("can't open the store {}", global.store.display())),
    })
}

fn missing(global: &Global) -> Failure {
    let message = format!(
        "there is no store at {}; name another one with --store, or make one with `runlog import` or `runlog run`",
        global.store.display()
    );
    Failure::not_found(message)
}

/// Checks every byte of the store; `progress` is told how many of how many bytes were read.
pub(crate) fn verify(global: &Global, progress: &mut dyn FnMut(u64, u64)) -> Result<Verification> {
    let found = runlog::engine::verify_with(&FsStorage::new(&global.store), progress);
    opened(global, found)
}

/// Gives every whole record of a folder, whether it opens as a store or not.
pub(crate) fn salvage(
    folder: &Path,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    Ok(runlog::engine::salvage(&FsStorage::new(folder), visit)?)
}

/// Repairs the store.
pub(crate) fn repair(global: &Global) -> Result<Repair> {
    let storage: Arc<dyn Storage> = Arc::new(FsStorage::new(&global.store));
    let begun = Instant::now();
    loop {
        let repaired = runlog::engine::repair(&storage, "runlog verify --repair", &SystemHost);
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
