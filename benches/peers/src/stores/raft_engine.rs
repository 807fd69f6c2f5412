//! raft-engine: a stream is a Raft group. Its entries are messages of protobuf, each with its index in it: the first 8 bytes here.

use std::{io, path::Path};

use protobuf::well_known_types::BytesValue;
use raft_engine::{Config, Engine, LogBatch, MessageExt};

use super::{Has, Peer, Promise, Store, other, tails::Tails};

pub const PEER: Peer = Peer {
    name: "raft-engine",
    package: "raft-engine",
    settings: "LZ4 of batches over 8 KiB, the default; durable: `write(batch, true)`; buffered: `write(batch, false)`, then `sync()`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

const INDEX_BYTES: usize = 8;

struct Entry;

impl MessageExt for Entry {
    type Entry = BytesValue;

    fn index(entry: &BytesValue) -> u64 {
        entry
            .value
            .first_chunk()
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

struct Raft {
    engine: Engine,
    is_durable: bool,
    tails: Tails,
}

fn open(path: &Path, promise: Promise) -> io::Result<Raft> {
    let config = Config {
        dir: path.to_string_lossy().into_owned(),
        ..Config::default()
    };
    let engine = Engine::open(config).map_err(other)?;
    Ok(Raft {
        engine,
        is_durable: promise == Promise::Durable,
        tails: Tails::default(),
    })
}

impl Store for Raft {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let region = u64::from(stream) + 1;
        let first = self.tails.take(stream, events.len(), || {
            u32::try_from(self.engine.last_index(region).unwrap_or(0)).map_err(other)
        })?;
        let entries: Vec<BytesValue> = (u64::from(first)..)
            .zip(events)
            .map(|(index, event)| {
                let mut value = Vec::with_capacity(INDEX_BYTES + event.len());
                value.extend_from_slice(&index.to_le_bytes());
                value.extend_from_slice(event);
                BytesValue {
                    value,
                    ..BytesValue::default()
                }
            })
            .collect();
        let mut batch = LogBatch::with_capacity(1);
        batch
            .add_entries::<Entry>(region, &entries)
            .map_err(other)?;
        self.engine
            .write(&mut batch, self.is_durable)
            .map(drop)
            .map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        self.engine.sync().map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let region = u64::from(stream) + 1;
        let (Some(first), Some(last)) = (
            self.engine.first_index(region),
            self.engine.last_index(region),
        ) else {
            return Ok(());
        };
        let mut entries = Vec::new();
        self.engine
            .fetch_entries_to::<Entry>(region, first, last + 1, None, &mut entries)
            .map_err(other)?;
        entries
            .iter()
            .for_each(|entry| see(entry.value.get(INDEX_BYTES..).unwrap_or_default()));
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for region in self.engine.raft_groups() {
            self.read(u32::try_from(region - 1).map_err(other)?, see)?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
