//! sled: one tree, a key for each event.

use std::{io, path::Path};

use super::{Has, Peer, Promise, Store, key, number_of, other, tails::Tails};

pub const PEER: Peer = Peer {
    name: "sled",
    package: "sled",
    settings: "durable: `flush()` after each batch, which is `sync_file_range` and so no flush of the device; buffered: the default, then `flush()`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Sled {
    database: sled::Db,
    is_durable: bool,
    tails: Tails,
}

fn open(path: &Path, promise: Promise) -> io::Result<Sled> {
    let database = sled::open(path).map_err(other)?;
    Ok(Sled {
        database,
        is_durable: promise == Promise::Durable,
        tails: Tails::default(),
    })
}

impl Store for Sled {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let first = self.tails.take(stream, events.len(), || {
            let last = self.database.scan_prefix(stream.to_be_bytes()).next_back();
            Ok(last
                .transpose()
                .map_err(other)?
                .map_or(0, |(key, _)| number_of(&key)))
        })?;
        let mut batch = sled::Batch::default();
        for (number, event) in (first..).zip(events) {
            batch.insert(&key(stream, number), *event);
        }
        self.database.apply_batch(batch).map_err(other)?;
        if self.is_durable {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.database.flush().map(drop).map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for found in self.database.scan_prefix(stream.to_be_bytes()) {
            see(&found.map_err(other)?.1);
        }
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        for found in self.database.iter() {
            see(&found.map_err(other)?.1);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.sync()
    }
}
