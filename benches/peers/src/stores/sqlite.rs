//! SQLite: a table in the order of the log with an index by stream; one connection writes, as only one can.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use rusqlite::{Connection, params};

use super::{Has, Peer, Promise, Store, other, tails::Tails};

pub const PEER: Peer = Peer {
    name: "SQLite",
    package: "libsqlite3-sys",
    settings: "`journal_mode = WAL`; durable: `synchronous = FULL`; buffered: `synchronous = NORMAL`, then \
               `wal_checkpoint(TRUNCATE)`; statements are kept",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Sqlite {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    tails: Tails,
}

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS events (
        position INTEGER PRIMARY KEY, stream INTEGER NOT NULL, sequence INTEGER NOT NULL, event BLOB NOT NULL);
    CREATE UNIQUE INDEX IF NOT EXISTS by_stream ON events (stream, sequence);";

fn open(path: &Path, promise: Promise) -> io::Result<Sqlite> {
    fs::create_dir_all(path)?;
    let path = path.join("events.db");
    let writer = Connection::open(&path).map_err(other)?;
    writer
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(other)?;
    let synchronous = if promise == Promise::Durable {
        "FULL"
    } else {
        "NORMAL"
    };
    writer
        .pragma_update(None, "synchronous", synchronous)
        .map_err(other)?;
    writer.execute_batch(TABLE).map_err(other)?;
    Ok(Sqlite {
        path,
        writer: Mutex::new(writer),
        readers: Mutex::default(),
        tails: Tails::default(),
    })
}

impl Sqlite {
    fn with_reader<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> io::Result<T> {
        let kept = self.readers.lock().map_err(|_| other("poisoned"))?.pop();
        let reader = match kept {
            Some(reader) => reader,
            None => Connection::open(&self.path).map_err(other)?,
        };
        let result = work(&reader).map_err(other);
        self.readers
            .lock()
            .map_err(|_| other("poisoned"))?
            .push(reader);
        result
    }
}

fn visit(
    connection: &Connection,
    query: &str,
    parameters: impl rusqlite::Params,
    see: &mut dyn FnMut(&[u8]),
) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(query)?;
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        see(row.get_ref(0)?.as_blob()?);
    }
    Ok(())
}

impl Store for Sqlite {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut writer = self.writer.lock().map_err(|_| other("poisoned"))?;
        let first = self.tails.take(stream, events.len(), || {
            let query = "SELECT coalesce(max(sequence), 0) FROM events WHERE stream = ?";
            writer
                .query_row(query, [stream], |row| row.get(0))
                .map_err(other)
        })?;
        let insert = |connection: &Connection| {
            let mut insert = connection
                .prepare_cached("INSERT INTO events (stream, sequence, event) VALUES (?, ?, ?)")?;
            for (number, event) in (first..).zip(events) {
                insert.execute(params![stream, number, event])?;
            }
            Ok::<_, rusqlite::Error>(())
        };
        match events.len() {
            1 => insert(&writer).map_err(other),
            _ => {
                let transaction = writer.transaction().map_err(other)?;
                insert(&transaction).map_err(other)?;
                transaction.commit().map_err(other)
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let writer = self.writer.lock().map_err(|_| other("poisoned"))?;
        writer
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(other)
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let query = "SELECT event FROM events WHERE stream = ? ORDER BY sequence";
        self.with_reader(|reader| visit(reader, query, [stream], see))
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        self.with_reader(|reader| {
            visit(
                reader,
                "SELECT event FROM events ORDER BY position",
                [],
                see,
            )
        })
    }

    fn compact(&self) -> io::Result<()> {
        let writer = self.writer.lock().map_err(|_| other("poisoned"))?;
        writer.execute_batch("VACUUM").map_err(other)?;
        drop(writer);
        self.sync()
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}
