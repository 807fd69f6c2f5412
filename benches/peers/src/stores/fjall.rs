//! fjall: one keyspace, a key for each event.

use std::{io, path::Path};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Has, Peer, Promise, Store, key, number_of, other, tails::Tails};

pub const PEER: Peer = Peer {
    name: "fjall",
    package: "fjall",
    settings: "LZ4, the default; durable: batches with `PersistMode::SyncData`; buffered: the default, then `persist(SyncAll)`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Fjall {
    database: Database,
    events: Keyspace,
    mode: Option<PersistMode>,
    tails: Tails,
}

fn open(path: &Path, promise: Promise) -> io::Result<Fjall> {
    let database = Database::builder(path).open().map_err(other)?;
    let events = database
        .keyspace("events", KeyspaceCreateOptions::default)
        .map_err(other)?;
    let mode = (promise == Promise::Durable).then_some(PersistMode::SyncData);
    Ok(Fjall {
        database,
        events,
        mode,
        tails: Tails::default(),
    })
}

impl Store for Fjall {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let first = self.tails.take(stream, events.len(), || {
            let last = self.events.prefix(stream.to_be_bytes()).next_back();
            let last = last.map(|found| found.key().map_err(other)).transpose()?;
            Ok(last.map_or(0, |key| number_of(&key)))
        })?;
        let mut batch = self.database.batch().durability(self.mode);
        for (number, event) in (first..).zip(events) {
            batch.insert(&self.events, key(stream, number), *event);
        }
        batch.commit().map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for found in self.events.prefix(stream.to_be_bytes()) {
            see(&found.value().map_err(other)?);
        }
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for found in self.events.iter() {
            see(&found.value().map_err(other)?);
        }
        Ok(())
    }

    fn compact(&self) -> io::Result<()> {
        self.events.rotate_memtable_and_wait().map_err(other)?;
        self.events.major_compact().map_err(other)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.database.persist(PersistMode::SyncAll).map_err(other)
    }
}
