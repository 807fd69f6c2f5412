//! okaywal: a write-ahead log, whose segments are used again once they are checkpointed.

use std::{io, path::Path};

use okaywal::{Configuration, LogVoid, WriteAheadLog};

use super::{Has, Peer, Promise, Store, lacks};

pub const PEER: Peer = Peer {
    name: "okaywal",
    package: "okaywal",
    settings: "64 MiB preallocated, a checkpoint after 48 MiB that keeps nothing; it has no buffered form",
    has: Has::Entries,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Okay(WriteAheadLog);

fn open(path: &Path, _: Promise) -> io::Result<Okay> {
    Configuration::default_for(path)
        .preallocate_bytes(64 << 20)
        .checkpoint_after_bytes(48 << 20)
        .open(LogVoid)
        .map(Okay)
}

impl Store for Okay {
    fn append(&self, _: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut entry = self.0.begin_entry()?;
        for event in events {
            entry.write_chunk(event)?;
        }
        entry.commit().map(drop)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, _: u32, _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        Err(lacks("streams"))
    }

    fn scan(&self, _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        Err(lacks("history"))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.0.shutdown()
    }
}
