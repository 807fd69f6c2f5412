//! Runlog's engine, with its defaults.

use std::{io, ops::ControlFlow, path::Path};

use runlog_benches::workload::stream as id;
use runlog_engine::{
    CompactOptions, Durability, Error, Expected, NewRecord, OpenOptions, Position, ReadOptions,
    RecordRef, Sequence, Store as Engine,
};

use super::{Has, Peer, Promise, Store, other};

pub const PEER: Peer = Peer {
    name: "Runlog",
    package: "runlog-engine",
    settings: "durable: the default; buffered: `Durability::Os`, then `sync()`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Runlog(Engine);

fn open(path: &Path, promise: Promise) -> io::Result<Runlog> {
    let durability = match promise {
        Promise::Durable => Durability::Sync,
        Promise::Buffered => Durability::Os,
    };
    let options = OpenOptions {
        durability,
        ..OpenOptions::default()
    };
    Engine::open(path, options).map(Runlog).map_err(other)
}

/// Shows payloads until something fails.
struct Shown<'s> {
    see: &'s mut dyn FnMut(&[u8]),
    failed: Option<Error>,
}

impl<'s> Shown<'s> {
    fn new(see: &'s mut dyn FnMut(&[u8])) -> Self {
        Self { see, failed: None }
    }

    fn show(&mut self, record: Result<RecordRef<'_>, Error>) -> ControlFlow<()> {
        match record {
            Ok(record) if record.kind.is_data() => (self.see)(record.payload),
            Ok(_) => {}
            Err(error) => {
                self.failed = Some(error);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn end(self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |error| Err(other(error)))
    }
}

impl Store for Runlog {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let records: Vec<NewRecord<'_>> =
            events.iter().map(|event| NewRecord::data(event)).collect();
        self.0
            .append(id(stream), Expected::Any, &records)
            .map(drop)
            .map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync().map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut records = self
            .0
            .read(id(stream), ReadOptions::default())
            .map_err(other)?;
        let mut shown = Shown::new(see);
        records.for_each_ref(|record| shown.show(record));
        shown.end()
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut shown = Shown::new(see);
        self.0
            .scan(Position::FIRST)
            .map_err(other)?
            .for_each_ref(|record| shown.show(record));
        shown.end()
    }

    fn fork(&self, parent: u32, count: usize, child: u32) -> io::Result<()> {
        let at = Sequence(count as u64);
        self.0
            .fork(id(parent), at, id(child))
            .map(drop)
            .map_err(other)
    }

    fn compact(&self) -> io::Result<()> {
        self.0
            .compact(CompactOptions::default())
            .map(drop)
            .map_err(other)
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.close().map_err(other)
    }
}
