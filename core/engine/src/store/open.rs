//! Opening a store: its identity, its lock, recovery, and the state of the one writer.

use std::time::Duration;

use super::{
    background::Background,
    chain,
    checkpoints::{self, Saved},
    follow::Follower,
    holder::holder,
    options::{Missing, Mode, OpenOptions, Preallocation},
    recover::{self, LoadMode, Loaded},
    segments::Spare,
    shared::Shared,
    watch::Watch,
    watermark::{self, WatermarkFile},
    writer::Writer,
};
use crate::{
    Error, ErrorKind, Recovery, Result, SegmentId,
    format::{
        Features,
        files::{self, Identity, Watermark},
    },
    limits,
    storage::{Access, Storage},
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, RwLock},
};

/// How long an opening waits before it tries to lock the store again.
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Opens or makes a store.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    options: OpenOptions,
) -> Result<(Arc<Shared>, Recovery)> {
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
    let mut is_new = false;
    let lock = match (&found, options.missing) {
        (Folder::Store, _) => in_time(&options, || lock(&*storage, &holder(&options)))?,
        (Folder::Other(name), _) => return Err(not_a_store(&place, name)),
        (Folder::Missing | Folder::Empty, Missing::Fail) => return Err(no_store(&place)),
        (Folder::Missing | Folder::Empty, Missing::Create) => {
            storage
                .create_dir()
                .map_err(|error| Error::from_io(error, format!("making the folder {place}")))?;
            let lock = in_time(&options, || lock(&*storage, &holder(&options)))?;
            // Another process may have made it while this one waited.
            if !matches!(state_of(&*storage)?, Folder::Store) {
                let (mut store, mut hash_key) = ([0; 16], [0; 16]);
                store.copy_from_slice(options.host.new_id().as_bytes());
                options.host.random(&mut hash_key);
                let created_ms = options.host.now_ms();
                let identity = Identity {
                    store,
                    created_ms,
                    features: Features::default(),
                    hash_key,
                };
                checkpoints::replace_file(&*storage, files::IDENTITY, &identity.encode())?;
                is_new = true;
            }
            lock
        }
    };
    let identity = read_identity(&*storage)?;
    identity
        .features
        .check_writable(&format!("{place}: {}", files::IDENTITY))?;
    let lock = Box::new((lock, in_time(&options, || lock_identity(&*storage))?));
    remove_unfinished(&*storage)?;
    let published = watermark::read_proven(&*storage, &identity.store)?;
    let mut loaded = recover::load(
        &*storage,
        &identity,
        Access::Write,
        LoadMode::Writer(published),
    )?;
    for segment in &loaded.durable.segments {
        segment.header.features.check_writable(&segment.name)?;
    }
    let watermark = WatermarkFile::open(&*storage)?;
    loaded.plan.apply(&*storage, &mut loaded.durable)?;
    // No crash left a store that wasn't there.
    let report = Recovery {
        clean: loaded.report.clean || is_new,
        ..loaded.report
    };
    let proven_end = loaded
        .plan
        .unproven
        .map_or(loaded.durable.end, |(from, _)| from);
    let shared = shared(
        storage,
        options,
        identity,
        loaded,
        Role::Writer(lock, watermark),
    );
    let shared = Arc::new(with_writer(shared, proven_end)?);
    shared.background.attach(&shared);
    let (segment, end, position) = {
        let durable = shared.durable();
        (
            durable
                .active()
                .map(|active| active.id())
                .unwrap_or_default(),
            durable.end,
            durable.next_position - 1,
        )
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
    let (loaded, seen) = load_beside_a_writer(&*storage, &identity)?;
    let report = loaded.report;
    let shared = Arc::new(shared(
        storage,
        options,
        identity,
        loaded,
        Role::Reader(Follower::new(seen)),
    ));
    shared.background.attach(&shared);
    shared.watch.advance(shared.durable().next_position - 1);
    Ok((shared, report))
}

/// Loads a store as far as its writer has published.
///
/// A writer may turn to a new segment meanwhile; then what was read doesn't fit together, and is read again. An error is
/// told only if nothing of the store moved while it was met: then no writer was the cause of it.
pub(crate) fn load_beside_a_writer(
    storage: &dyn Storage,
    identity: &Identity,
) -> Result<(Loaded, Option<Watermark>)> {
    loop {
        let before = Moving::look(storage, identity)?;
        let seen = before.watermark;
        let error = match recover::load(storage, identity, Access::Read, LoadMode::Reader(seen)) {
            Ok(loaded) if storage.boot_id().is_some() || seen.is_none() => {
                return Ok((loaded, seen));
            }
            Ok(_) => match load_without_boot_id(storage, identity, seen) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => error,
            },
            // It may be ahead of a log that lost power, where nobody can tell that it did.
            Err(_) if seen.is_some() && storage.boot_id().is_none() => {
                match recover::load(storage, identity, Access::Read, LoadMode::Reader(None)) {
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
    last_segments: Vec<(SegmentId, Option<u64>)>,
}

impl Moving {
    pub(crate) fn look(storage: &dyn Storage, identity: &Identity) -> Result<Self> {
        let mut ids = chain::segment_ids(storage)?;
        ids.drain(..ids.len().saturating_sub(2));
        let length = |id: &SegmentId| {
            storage
                .open(&files::segment_name(*id), Access::Read)
                .ok()?
                .len()
                .ok()
        };
        let last_segments = ids.iter().map(|id| (*id, length(id))).collect();
        Ok(Self {
            watermark: watermark::read(storage, &identity.store)?,
            last_segments,
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
    let all = recover::load(storage, identity, Access::Read, LoadMode::Reader(None))?;
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
        recover::load(storage, identity, Access::Read, LoadMode::Reader(limit))?,
        limit,
    ))
}

/// What a handle of a store is, and what only such a one has.
enum Role {
    Writer(Box<dyn Send + Sync>, WatermarkFile),
    Reader(Follower),
}

fn shared(
    storage: Arc<dyn Storage>,
    options: OpenOptions,
    identity: Identity,
    loaded: Loaded,
    role: Role,
) -> Shared {
    let boot = storage.boot_id().unwrap_or_default();
    let checkpoint = storage.open(files::CHECKPOINT, Access::Read);
    let checkpoint_bytes = checkpoint.and_then(|file| file.len()).unwrap_or(0);
    let (lock, watermark, follower) = match role {
        Role::Writer(lock, watermark) => (Some(lock), Some(watermark), None),
        Role::Reader(follower) => (None, None, Some(follower)),
    };
    let process = options.host.process_id();
    Shared {
        storage,
        options,
        identity,
        epoch: loaded.durable.epoch.saturating_add(1),
        durable: RwLock::new(loaded.durable),
        writer: None,
        follower,
        watch: Watch::default(),
        background: Background::default(),
        watermark,
        boot,
        marked_end: loaded.marked_end,
        process,
        lock: Mutex::new(lock),
        spare: Mutex::new(Spare::None),
        spare_changed: Condvar::new(),
        saved: Mutex::new(Saved {
            end: loaded.checkpoint_end,
            is_over: false,
        }),
        checkpoint_bytes: AtomicU64::new(checkpoint_bytes),
        keys: Mutex::default(),
        is_due_unwatched: AtomicBool::new(false),
    }
}

/// Adds the writer's state, with the first segment if there is none.
fn with_writer(mut shared: Shared, proven_end: u64) -> Result<Shared> {
    let active = shared.durable().active().cloned();
    let (active, capacity, extendable) = match active {
        Some(active) => {
            let length = active
                .file
                .len()
                .map_err(|error| Error::from_io(error, format!("measuring {}", active.name)))?;
            (active, length, true)
        }
        None => {
            let made = shared.first_segment()?;
            shared
                .durable
                .get_mut()
                .expect("no panic under this lock")
                .segments
                .push(made.segment.clone());
            (made.segment, made.capacity, made.is_short)
        }
    };
    let capacity = match shared.options.preallocation {
        Preallocation::Auto => capacity,
        Preallocation::None => shared.options.segment_bytes_max,
    };
    let durable = shared.durable();
    let mut writer = Writer::new(&durable, active, proven_end, capacity);
    writer.mark = Some(shared.epoch);
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
                format!(
                    "{} is a file; a runlog store is a folder",
                    storage.describe()
                ),
            ));
        }
        Err(error) => {
            return Err(Error::from_io(
                error,
                format!("listing {}", storage.describe()),
            ));
        }
    };
    if names.iter().any(|name| name == files::IDENTITY) {
        return Ok(Folder::Store);
    }
    let leftover = |name: &&String| {
        *name == files::LOCK || *name == &format!("{}{}", files::IDENTITY, files::UNFINISHED)
    };
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
    let file = storage
        .open(files::IDENTITY, Access::Read)
        .map_err(failed)?;
    let length = usize::try_from(file.len().map_err(failed)?)
        .unwrap_or(usize::MAX)
        .min(4096);
    let mut bytes = vec![0; length];
    file.read_at(0, &mut bytes).map_err(failed)?;
    Identity::decode(&bytes, &place)
}

/// Tries to lock the store until another writer lets go of it, or the time for that is over.
fn in_time<T>(options: &OpenOptions, lock: impl Fn() -> Result<T>) -> Result<T> {
    let mut left = options.lock_timeout;
    loop {
        match lock() {
            Err(error) if error.kind() == ErrorKind::Locked && !left.is_zero() => {
                let pause = left.min(LOCK_PAUSE);
                options.host.sleep(pause);
                left = left.saturating_sub(pause);
            }
            locked => return locked,
        }
    }
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
pub(crate) fn lock_identity(storage: &dyn Storage) -> Result<Option<Box<dyn Send + Sync>>> {
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

/// Removes files that a crash left unfinished. They were never part of the store.
fn remove_unfinished(storage: &dyn Storage) -> Result<()> {
    let names = storage
        .list()
        .map_err(|error| Error::from_io(error, format!("listing {}", storage.describe())))?;
    for name in names
        .iter()
        .filter(|name| name.ends_with(files::UNFINISHED))
    {
        storage
            .remove(name)
            .map_err(|error| Error::from_io(error, format!("removing the unfinished {name}")))?;
    }
    Ok(())
}
