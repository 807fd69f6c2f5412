//! walrus: a topic for each stream. It reads on from where it read before, and keeps that place only when told to.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use runlog_benches::workload::files;
use walrus_rust::{FsyncSchedule, ReadConsistency, Walrus};

use super::{Has, Peer, Promise, Store, lacks};

pub const PEER: Peer = Peer {
    name: "walrus",
    package: "walrus-rust",
    settings: "durable: `FsyncSchedule::SyncEach`; buffered: `NoFsync`; it has no call to sync, so its files are synced from outside; one process can't have both",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

/// The most of a topic that is read at once; a reading that isn't kept begins at the start again, so it is read whole.
const READ_BYTES: usize = 256 << 20;
/// The most entries of a batch.
const BATCH_MAX: usize = 2000;

struct Wal {
    wal: Walrus,
    path: PathBuf,
}

#[allow(unsafe_code, reason = "it takes its folder from the environment only")]
fn open(path: &Path, promise: Promise) -> io::Result<Wal> {
    // The first schedule of flushes that a process asks for holds for all that it opens.
    static FIRST: OnceLock<Promise> = OnceLock::new();
    if *FIRST.get_or_init(|| promise) != promise {
        return Err(lacks("second schedule of flushes in one process"));
    }
    fs::create_dir_all(path)?;
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    // SAFETY: stores are opened by the one thread of the benchmark, while no other looks at the environment.
    unsafe {
        env::set_var("WALRUS_QUIET", "1");
        env::set_var("WALRUS_DATA_DIR", path);
    }
    let schedule = match promise {
        Promise::Durable => FsyncSchedule::SyncEach,
        Promise::Buffered => FsyncSchedule::NoFsync,
    };
    let wal = Walrus::with_consistency_and_schedule_for_key(
        &name,
        ReadConsistency::StrictlyAtOnce,
        schedule,
    )?;
    Ok(Wal {
        wal,
        path: path.to_path_buf(),
    })
}

fn topic(stream: u32) -> String {
    format!("stream-{stream}")
}

impl Store for Wal {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        match events {
            [event] => self.wal.append_for_topic(&topic(stream), event),
            _ => events
                .chunks(BATCH_MAX)
                .try_for_each(|events| self.wal.batch_append_for_topic(&topic(stream), events)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        files(&self.path)?
            .iter()
            .try_for_each(|file| fs::File::open(file)?.sync_all())
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let entries = self
            .wal
            .batch_read_for_topic(&topic(stream), READ_BYTES, false)?;
        entries.iter().for_each(|entry| see(&entry.data));
        Ok(())
    }

    fn scan(&self, _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        Err(lacks("list of its topics"))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
