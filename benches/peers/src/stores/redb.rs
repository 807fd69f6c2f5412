//! redb: one table, a key for each event.

use std::{fs, io, path::Path};

use redb::{Database, Durability, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::{Has, Peer, Promise, Store, other, tails::Tails};

const EVENTS: TableDefinition<'_, (u32, u32), &[u8]> = TableDefinition::new("events");

pub const PEER: Peer = Peer {
    name: "redb",
    package: "redb",
    settings: "durable: the default; buffered: `Durability::None`, then one commit with `Durability::Immediate`",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Redb {
    database: Database,
    durability: Durability,
    tails: Tails,
}

fn open(path: &Path, promise: Promise) -> io::Result<Redb> {
    fs::create_dir_all(path)?;
    let database = Database::create(path.join("events.redb")).map_err(other)?;
    let write = database.begin_write().map_err(other)?;
    write.open_table(EVENTS).map_err(other)?;
    write.commit().map_err(other)?;
    let durability = match promise {
        Promise::Durable => Durability::Immediate,
        Promise::Buffered => Durability::None,
    };
    Ok(Redb {
        database,
        durability,
        tails: Tails::default(),
    })
}

impl Store for Redb {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut write = self.database.begin_write().map_err(other)?;
        write.set_durability(self.durability).map_err(other)?;
        {
            let mut table = write.open_table(EVENTS).map_err(other)?;
            let first = self.tails.take(stream, events.len(), || {
                let mut range = table
                    .range((stream, 0)..=(stream, u32::MAX))
                    .map_err(other)?;
                let last = range.next_back().transpose().map_err(other)?;
                Ok(last.map_or(0, |(key, _)| key.value().1))
            })?;
            for (number, event) in (first..).zip(events) {
                table.insert((stream, number), *event).map_err(other)?;
            }
        }
        write.commit().map_err(other)
    }

    fn sync(&self) -> io::Result<()> {
        let mut write = self.database.begin_write().map_err(other)?;
        write.set_durability(Durability::Immediate).map_err(other)?;
        write.commit().map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let read = self.database.begin_read().map_err(other)?;
        let table = read.open_table(EVENTS).map_err(other)?;
        for found in table
            .range((stream, 0)..=(stream, u32::MAX))
            .map_err(other)?
        {
            see(found.map_err(other)?.1.value());
        }
        Ok(())
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let read = self.database.begin_read().map_err(other)?;
        for found in read
            .open_table(EVENTS)
            .map_err(other)?
            .iter()
            .map_err(other)?
        {
            see(found.map_err(other)?.1.value());
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
