//! LMDB, through heed: one database, a key for each event.

use std::{fs, io, path::Path};

use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, types::Bytes};

use super::{Has, Peer, Promise, Store, is_of, key, number_of, other, tails::Tails};

/// Room in the address space, which costs nothing until it is used.
const MAP_BYTES: usize = 64 << 30;

pub const PEER: Peer = Peer {
    name: "LMDB",
    package: "lmdb-master-sys",
    settings: "durable: the default; buffered: `MDB_NOSYNC`, then `mdb_env_sync`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Lmdb {
    env: Env,
    database: Database<'static, Bytes, Bytes>,
    tails: Tails,
}

#[allow(
    unsafe_code,
    reason = "a map of a file is unsafe where others change it; here nobody does"
)]
fn open(path: &Path, promise: Promise) -> io::Result<Lmdb> {
    fs::create_dir_all(path)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_readers(64);
    // SAFETY: the folder is this benchmark's own, and no two processes have it open at a time.
    let env = unsafe {
        if promise == Promise::Buffered {
            options.flags(EnvFlags::NO_SYNC);
        }
        options.open(path).map_err(other)?
    };
    let write = env.write_txn().map_err(other)?;
    let made = env.create_databases_and_commit(write, |opener, write| {
        opener
            .create_database(write, None)
            .map(CommitOrAbort::<_, ()>::Commit)
    });
    let database = made
        .map_err(|error: heed::Error| other(error))?
        .unwrap_commit();
    Ok(Lmdb {
        env,
        database,
        tails: Tails::default(),
    })
}

impl Store for Lmdb {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut write = self.env.write_txn().map_err(other)?;
        let first = self.tails.take(stream, events.len(), || {
            let found = self
                .database
                .get_lower_than_or_equal_to(&write, &key(stream, u32::MAX))
                .map_err(other)?;
            Ok(found
                .filter(|(key, _)| is_of(key, stream).is_continue())
                .map_or(0, |(key, _)| number_of(key)))
        })?;
        for (number, event) in (first..).zip(events) {
            self.database
                .put(&mut write, &key(stream, number), event)
                .map_err(other)?;
        }
        write.commit().map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        self.env.force_sync().map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let read = self.env.read_txn().map_err(other)?;
        for found in self
            .database
            .prefix_iter(&read, &stream.to_be_bytes())
            .map_err(other)?
        {
            see(found.map_err(other)?.1);
        }
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let read = self.env.read_txn().map_err(other)?;
        for found in self.database.iter(&read).map_err(other)? {
            see(found.map_err(other)?.1);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.env.force_sync().map_err(other)?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
