//! RocksDB: one column family, a key for each event.

use std::{fs, io, path::Path};

use rocksdb::{
    BottommostLevelCompaction, CompactOptions, DB, DBCompressionType, Direction, IteratorMode,
    Options, ReadOptions, WriteBatch, WriteOptions,
};

use super::{Has, Peer, Promise, Store, is_of, key, number_of, other, tails::Tails};

pub const PEER: Peer = Peer {
    name: "RocksDB",
    package: "librocksdb-sys",
    settings: "LZ4, zstd at the bottommost level, as its tuning guide has it; durable: `WriteOptions::sync`; buffered: without, then \
               `flush_wal(true)`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Rocks {
    database: DB,
    write: WriteOptions,
    tails: Tails,
}

fn open(path: &Path, promise: Promise) -> io::Result<Rocks> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    options.set_bottommost_compression_type(DBCompressionType::Zstd);
    options.set_bytes_per_sync(1 << 20);
    options.increase_parallelism(2);
    let mut write = WriteOptions::default();
    write.set_sync(promise == Promise::Durable);
    let database = DB::open(&options, path).map_err(other)?;
    Ok(Rocks {
        database,
        write,
        tails: Tails::default(),
    })
}

/// The version that is linked, which may be the system's: it writes it into its log.
pub fn version() -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    drop(open(folder.path(), Promise::Durable).ok()?);
    let log = fs::read_to_string(folder.path().join("LOG")).ok()?;
    let (_, version) = log.split_once("RocksDB version: ")?;
    version.split_whitespace().next().map(str::to_owned)
}

impl Rocks {
    fn last(&self, stream: u32) -> io::Result<u32> {
        let last = key(stream, u32::MAX);
        let mut found = self
            .database
            .iterator(IteratorMode::From(&last, Direction::Reverse));
        let found = found.next().transpose().map_err(other)?;
        Ok(found
            .filter(|(key, _)| is_of(key, stream).is_continue())
            .map_or(0, |(key, _)| number_of(&key)))
    }

    fn visit(&self, options: ReadOptions, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut cursor = self.database.raw_iterator_opt(options);
        cursor.seek_to_first();
        while let Some(event) = cursor.value() {
            see(event);
            cursor.next();
        }
        cursor.status().map_err(other)
    }
}

impl Store for Rocks {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let first = self
            .tails
            .take(stream, events.len(), || self.last(stream))?;
        let mut batch = WriteBatch::default();
        for (number, event) in (first..).zip(events) {
            batch.put(key(stream, number), event);
        }
        self.database.write_opt(batch, &self.write).map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        self.database.flush_wal(true).map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(key(stream, 0));
        options.set_iterate_upper_bound(key(stream + 1, 0));
        self.visit(options, see)
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.visit(ReadOptions::default(), see)
    }

    fn compact(&self) -> io::Result<()> {
        self.database.flush().map_err(other)?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        let all = None::<&[u8]>;
        self.database.compact_range_opt(all, all, &options);
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
