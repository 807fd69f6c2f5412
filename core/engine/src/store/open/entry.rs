//! Opening a store as its writer or as a reader.

use super::{
    beside::load_beside_a_writer,
    folder::{
        Folder, no_store, not_a_store, read_identity, remove_replaced, remove_unfinished, state_of,
    },
    holder::holder,
    load::{LoadMode, Loaded, load},
    lock::{in_time, lock, lock_identity},
};
use crate::{
    Error, Recovery, Result,
    format::{
        Features,
        files::{self, Identity},
    },
    limits,
    storage::{Access, IoContext, Storage},
    store::{
        commit::{
            background::Background,
            shared::{Following, Saved, Shared, Spare},
        },
        files::{
            small,
            watermark::{self, WatermarkFile, WatermarkReader},
        },
        options::{Missing, Mode, OpenOptions, Preallocation},
        staging::writer::Writer,
    },
    sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, RwLock},
};

/// Opens or makes a store.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    options: OpenOptions,
) -> Result<(Arc<Shared>, Recovery)> {
    let bounds = limits::SEGMENT_BYTES_MIN..=limits::SEGMENT_BYTES_MAX;
    if !bounds.contains(&options.segment_bytes_max) {
        return Err(Error::invalid(format!(
            "`segment_bytes_max` is {}, but it can be from {} to {}",
            options.segment_bytes_max,
            bounds.start(),
            bounds.end()
        )));
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
                .with_context(|| format!("making the folder {place}"))?;
            let lock = in_time(&options, || lock(&*storage, &holder(&options)))?;
            // Another process may have made it while this one waited for the lock.
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
                small::replace(&*storage, files::IDENTITY, &identity.encode())?;
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
    let mut loaded = load(
        &*storage,
        &identity,
        Access::Write,
        LoadMode::Writer(published),
    )?;
    for segment in &loaded.durable.segments {
        segment.header.features.check_writable(&segment.name)?;
    }
    let watermark = WatermarkFile::open(&*storage)?;
    // The store opens without the replaced segments, so they can be removed.
    remove_replaced(&*storage, &loaded.durable.segments)?;
    loaded.plan.apply(&*storage, &mut loaded.durable)?;
    // A new store was not left by a crash.
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
    shared.background.attach(shared.background_work());
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
        Role::Reader(Following {
            seen,
            file: WatermarkReader::default(),
        }),
    ));
    shared.background.attach(shared.background_work());
    shared.watch.advance(shared.durable().next_position - 1);
    Ok((shared, report))
}

/// The role of a handle, with the state that only this role has.
enum Role {
    Writer(Box<dyn Send + Sync>, WatermarkFile),
    Reader(Following),
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
        follower: follower.map(Mutex::new),
        watch: Arc::default(),
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
        packing: Mutex::default(),
        given_up_seen: AtomicU64::new(0),
        is_dead_left: AtomicBool::new(false),
        packing_over: AtomicBool::new(false),
        readings: Mutex::default(),
        lost_places: Mutex::default(),
        is_due_unwatched: AtomicBool::new(false),
    }
}

/// Adds the writer's state, with the first segment if there is none.
fn with_writer(mut shared: Shared, proven_end: u64) -> Result<Shared> {
    let active = shared.durable().active().cloned();
    let (active, capacity, extendable) = match active {
        Some(active) => {
            let length = active.file_bytes()?;
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
