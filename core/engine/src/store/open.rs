//! Opening a store: its identity, its lock, recovery, and the state of the one writer.

use super::{
    background::Background,
    checkpoints::{self, Saved},
    follow::{self, Follower},
    options::{Missing, Mode, OpenOptions, Preallocation},
    recover::{self, Loaded, Look, Recovery},
    segments::Spare,
    shared::Shared,
    watch::Watch,
    writer::Writer,
};
use crate::{
    Error, ErrorKind, Result,
    format::files::{self, Identity},
    limits,
    storage::{Access, Storage},
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, RwLock},
};

/// Opens or makes a store.
pub(crate) fn open(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<(Arc<Shared>, Recovery)> {
    let bounds = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX;
    if !bounds.contains(&options.segment_bytes_max) {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "segment_bytes_max is {}, but it can be from {} to {}",
                options.segment_bytes_max,
                bounds.start(),
                bounds.end()
            ),
        ));
    }
    match options.mode {
        Mode::Write => open_writer(storage, options),
        Mode::ReadOnly => open_reader(storage, options),
    }
}

fn open_writer(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<(Arc<Shared>, Recovery)> {
    let place = storage.describe();
    let found = state_of(&*storage)?;
    let lock = match (&found, options.missing) {
        (Folder::Store, _) => lock(&*storage, &holder(&options))?,
        (Folder::Other(name), _) => return Err(not_a_store(&place, name)),
        (Folder::Missing | Folder::Empty, Missing::Fail) => return Err(no_store(&place)),
        (Folder::Missing | Folder::Empty, Missing::Create) => {
            storage.create_dir().map_err(|error| Error::from_io(error, format!("making the folder {place}")))?;
            let lock = lock(&*storage, &holder(&options))?;
            // Another process may have made it while this one waited.
            if !matches!(state_of(&*storage)?, Folder::Store) {
                let mut store = [0; 16];
                store.copy_from_slice(options.host.new_id().as_bytes());
                let identity = Identity { store, created_ms: options.host.now_ms() };
                checkpoints::replace_file(&*storage, files::IDENTITY, &identity.encode())?;
            }
            lock
        }
    };
    let identity = read_identity(&*storage)?;
    let lock = Box::new((lock, lock_identity(&*storage)?));
    remove_unfinished(&*storage)?;
    let published = follow::read_proven_watermark(&*storage, &identity.store);
    let mut loaded = recover::load(&*storage, &identity.store, Access::Write, Look::Writer(published))?;
    loaded.plan.apply(&*storage, &mut loaded.durable)?;
    let report = loaded.report;
    let proven_end = loaded.plan.unproven.map_or(loaded.durable.end, |(from, _)| from);
    let shared = shared(storage, options, identity, loaded, Some(lock), None);
    let shared = Arc::new(with_writer(shared, proven_end)?);
    shared.background.attach(&shared);
    let (segment, end, position) = {
        let durable = shared.durable();
        (durable.active().map(|active| active.id()).unwrap_or_default(), durable.end, durable.next_position - 1)
    };
    shared.watch.advance(position);
    shared.write_watermark(segment, end, position);
    Ok((shared, report))
}

fn open_reader(storage: Arc<dyn Storage>, options: OpenOptions) -> Result<(Arc<Shared>, Recovery)> {
    let place = storage.describe();
    match state_of(&*storage)? {
        Folder::Store => {}
        Folder::Other(name) => return Err(not_a_store(&place, &name)),
        Folder::Missing | Folder::Empty => return Err(no_store(&place)),
    }
    let identity = read_identity(&*storage)?;
    // A writer may turn to a new segment meanwhile; then what was read doesn't fit together, and is read again.
    let mut attempts = 0;
    let (loaded, seen) = loop {
        let seen = follow::read_watermark(&*storage, &identity.store);
        match recover::load(&*storage, &identity.store, Access::Read, Look::Reader(seen)) {
            Ok(loaded) => break (loaded, seen),
            Err(_) if attempts < 10 && follow::read_watermark(&*storage, &identity.store) != seen => attempts += 1,
            // It may be ahead of a log that lost power, where nobody can tell that it did.
            Err(_) if seen.is_some() && storage.boot_id().is_none() => {
                break (recover::load(&*storage, &identity.store, Access::Read, Look::Reader(None))?, None);
            }
            Err(error) => return Err(error),
        }
    };
    let report = loaded.report;
    let shared = Arc::new(shared(storage, options, identity, loaded, None, Some(Follower::new(seen))));
    shared.background.attach(&shared);
    shared.watch.advance(shared.durable().next_position - 1);
    Ok((shared, report))
}

fn shared(
    storage: Arc<dyn Storage>,
    options: OpenOptions,
    identity: Identity,
    loaded: Loaded,
    lock: Option<Box<dyn Send + Sync>>,
    follower: Option<Follower>,
) -> Shared {
    let boot = storage.boot_id().unwrap_or_default();
    let watermark_file = match options.mode {
        Mode::Write => storage.open(files::WATERMARK, Access::Write).or_else(|_| storage.create(files::WATERMARK)).ok(),
        Mode::ReadOnly => None,
    };
    let process = options.host.process_id();
    Shared {
        storage,
        options,
        identity,
        durable: RwLock::new(loaded.durable),
        writer: None,
        follower,
        watch: Watch::default(),
        background: Background::default(),
        watermark_file,
        boot,
        process,
        lock: Mutex::new(lock),
        spare: Mutex::new(Spare::None),
        spare_changed: Condvar::new(),
        saved: Mutex::new(Saved { end: loaded.checkpoint_end, is_over: false }),
        checkpoint_bytes: AtomicU64::new(0),
        is_due_unwatched: AtomicBool::new(false),
    }
}

/// Adds the writer's state, with the first segment if there is none.
fn with_writer(mut shared: Shared, proven_end: u64) -> Result<Shared> {
    let active = shared.durable().active().cloned();
    let (active, capacity, extendable) = match active {
        Some(active) => {
            let length =
                active.file.len().map_err(|error| Error::from_io(error, format!("measuring {}", active.name)))?;
            (active, length, true)
        }
        None => {
            let made = shared.first_segment()?;
            shared.durable.get_mut().expect("no panic under this lock").segments.push(made.segment.clone());
            (made.segment, made.capacity, made.is_short)
        }
    };
    let capacity = match shared.options.preallocation {
        Preallocation::Auto => capacity,
        Preallocation::None => shared.options.segment_bytes_max,
    };
    let durable = shared.durable();
    let mut writer = Writer::new(&durable, active, proven_end, capacity);
    writer.extendable = extendable && shared.options.preallocation == Preallocation::Auto;
    drop(durable);
    shared.writer = Some(Mutex::new(writer));
    Ok(shared)
}

/// What is in a folder.
enum Folder {
    Missing,
    Empty,
    Store,
    /// Something else, by the name of one of its files.
    Other(String),
}

fn state_of(storage: &dyn Storage) -> Result<Folder> {
    let names = match storage.list() {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Folder::Missing),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(Error::new(
                ErrorKind::NotAStore,
                format!("{} is a file; a runlog store is a folder", storage.describe()),
            ));
        }
        Err(error) => return Err(Error::from_io(error, format!("listing {}", storage.describe()))),
    };
    if names.iter().any(|name| name == files::IDENTITY) {
        return Ok(Folder::Store);
    }
    let leftover =
        |name: &&String| *name == files::LOCK || *name == &format!("{}{}", files::IDENTITY, files::UNFINISHED);
    Ok(match names.iter().find(|name| !leftover(name)) {
        Some(name) => Folder::Other(name.clone()),
        None => Folder::Empty,
    })
}

fn no_store(place: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no runlog store at {place}"))
}

fn not_a_store(place: &str, name: &str) -> Error {
    Error::new(
        ErrorKind::NotAStore,
        format!(
            "{place} is not a runlog store: it has no file {} but others, such as {name}; use an empty folder",
            files::IDENTITY
        ),
    )
}

/// The identity of the store.
pub(crate) fn read_identity(storage: &dyn Storage) -> Result<Identity> {
    let place = storage.describe();
    if let Folder::Other(name) = state_of(storage)? {
        return Err(not_a_store(&place, &name));
    }
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => no_store(&place),
        _ => Error::from_io(error, format!("{place}: reading {}", files::IDENTITY)),
    };
    let file = storage.open(files::IDENTITY, Access::Read).map_err(failed)?;
    let length = usize::try_from(file.len().map_err(failed)?).unwrap_or(usize::MAX).min(4096);
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes).map_err(failed)?;
    Identity::decode(&bytes, &place)
}

/// Locks the store for this writer.
pub(crate) fn lock(storage: &dyn Storage, holder: &str) -> Result<Box<dyn Send + Sync>> {
    storage.lock(files::LOCK, holder).map_err(|refused| match refused {
        Ok(other) => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open for writing by another: {}; close that one, or open this one for reading only",
                storage.describe(),
                other.trim()
            ),
        ),
        Err(error) => Error::from_io(error, format!("{}: locking {}", storage.describe(), files::LOCK)),
    })
}

/// Locks the identity file too: a person may take the lock file for a stale one and delete it. Where a locked
/// file can't be read by others, the lock file alone has to do.
fn lock_identity(storage: &dyn Storage) -> Result<Option<Box<dyn Send + Sync>>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    storage.lock(files::IDENTITY, "").map(Some).map_err(|refused| match refused {
        Ok(_) => Error::new(
            ErrorKind::Locked,
            format!(
                "{} is open for writing by another process, although its file {} was deleted; end that process first",
                storage.describe(),
                files::LOCK
            ),
        ),
        Err(error) => Error::from_io(error, format!("{}: locking {}", storage.describe(), files::IDENTITY)),
    })
}

/// How this writer is named to those it keeps out.
#[cfg(not(target_family = "wasm"))]
#[allow(clippy::disallowed_methods, reason = "names this process, and decides nothing")]
fn holder(options: &OpenOptions) -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_name).map(|name| name.to_string_lossy());
    let (process, since) = (std::process::id(), options.host.now_ms());
    // The system frees the lock when the process ends, so the file is never stale.
    format!("process {process} ({}), since {since} (ms since 1970)", program.as_deref().unwrap_or("unknown program"))
}

#[cfg(target_family = "wasm")]
fn holder(options: &OpenOptions) -> String {
    format!("another handle, since {} ms", options.host.now_ms())
}

/// Removes files that a crash left unfinished. They were never part of the store.
fn remove_unfinished(storage: &dyn Storage) -> Result<()> {
    let names = storage.list().map_err(|error| Error::from_io(error, format!("listing {}", storage.describe())))?;
    for name in names.iter().filter(|name| name.ends_with(files::UNFINISHED)) {
        storage.remove(name).map_err(|error| Error::from_io(error, format!("removing the unfinished {name}")))?;
    }
    Ok(())
}
