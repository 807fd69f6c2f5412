//! The stores beside each other: one small adapter each, set as the store's own documentation says.

mod commitlog;
mod fjall;
mod jsonl;
mod lmdb;
mod okaywal;
mod raft_engine;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod runlog;
mod sled;
mod sqlite;
mod tails;
mod walrus;

use std::{io, ops::ControlFlow, path::Path};

/// When an append is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// It is on the device.
    Durable,
    /// The operating system has it, or the store's memory where the store does it so; [`Store::sync`] makes all durable.
    Buffered,
}

/// What a store is asked for. Streams are numbered, and each keeps its events in order.
pub trait Store: Send + Sync {
    /// Appends events to a stream, together where the store can, and returns when they are as durable as was promised.
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()>;
    /// Makes durable what was appended.
    fn sync(&self) -> io::Result<()>;
    /// Gives each event of a stream.
    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()>;
    /// Gives each event of the store: in the order of the log, or in that of keys where the store knows no other.
    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()>;
    /// Makes a stream that begins with the first events of another: a copy, where the store can't share them.
    fn fork(&self, parent: u32, count: usize, child: u32) -> io::Result<()> {
        let mut events = Vec::with_capacity(count);
        self.read(parent, &mut |event| {
            if events.len() < count {
                events.push(event.to_vec());
            }
        })?;
        self.append(child, &events.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }
    /// Makes the store as small on disk as it makes itself.
    fn compact(&self) -> io::Result<()> {
        Err(lacks("way to be compacted"))
    }
    /// Ends in an orderly way.
    fn close(self: Box<Self>) -> io::Result<()>;
}

/// What a store has, beside durable appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Has {
    /// Events, each in its stream.
    Streams,
    /// One log of events.
    Log,
    /// Nothing that stays: a write-ahead log, whose entries go when they were used.
    Entries,
}

/// One store beside Runlog.
#[derive(Clone, Copy)]
pub struct Peer {
    pub name: &'static str,
    /// The package in the lock file.
    pub package: &'static str,
    /// How it was set for durable appends, and for buffered ones.
    pub settings: &'static str,
    pub has: Has,
    pub open: fn(&Path, Promise) -> io::Result<Box<dyn Store>>,
}

/// All of them, Runlog first.
pub const PEERS: &[Peer] = &[
    runlog::PEER,
    sqlite::PEER,
    #[cfg(feature = "rocksdb")]
    rocksdb::PEER,
    lmdb::PEER,
    redb::PEER,
    fjall::PEER,
    sled::PEER,
    raft_engine::PEER,
    okaywal::PEER,
    commitlog::PEER,
    walrus::PEER,
    jsonl::PEER,
];

impl Peer {
    /// The version that was built: as the lock file has it, but for one that may be the system's.
    pub fn version(&self) -> String {
        #[cfg(feature = "rocksdb")]
        if self.name == rocksdb::PEER.name {
            return rocksdb::version().unwrap_or_default();
        }
        let lock = include_str!("../../Cargo.lock");
        let head = format!("name = \"{}\"\nversion = \"", self.package);
        let version = lock
            .split_once(&head)
            .and_then(|(_, rest)| rest.split_once('"'));
        version.map_or_else(String::new, |(version, _)| version.to_owned())
    }

    pub fn named(name: &str) -> io::Result<&'static Self> {
        PEERS
            .iter()
            .find(|peer| peer.name == name)
            .ok_or_else(|| io::Error::other(format!("no store is named {name}")))
    }
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::other(error)
}

fn lacks(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        format!("this store has no {what}"),
    )
}

/// The key of an event: its stream and its number in it, in the order of both.
fn key(stream: u32, number: u32) -> [u8; 8] {
    ((u64::from(stream) << 32) | u64::from(number)).to_be_bytes()
}

/// The number in a key.
fn number_of(key: &[u8]) -> u32 {
    key.last_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Whether a key is of a stream.
fn is_of(key: &[u8], stream: u32) -> ControlFlow<()> {
    if key.starts_with(&stream.to_be_bytes()) {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_gives_back_what_it_was_given() {
        for peer in PEERS {
            for promise in [Promise::Durable, Promise::Buffered] {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("store");
                let store = match (peer.open)(&path, promise) {
                    Err(error) if error.kind() == io::ErrorKind::Unsupported => continue,
                    store => store.expect(peer.name),
                };
                store.append(1, &[b"one", b"two"]).expect(peer.name);
                store.append(2, &[b"other"]).expect(peer.name);
                store.append(1, &[b"three"]).expect(peer.name);
                store.sync().expect(peer.name);
                store.close().expect(peer.name);
                if peer.has == Has::Entries {
                    continue;
                }
                let store = (peer.open)(&path, promise).expect(peer.name);
                let mut seen = Vec::new();
                match store.scan(&mut |event| seen.push(event.to_vec())) {
                    Ok(()) => {
                        seen.sort();
                        let all: [&[u8]; 4] = [b"one", b"other", b"three", b"two"];
                        assert_eq!(seen, all, "{}", peer.name);
                    }
                    Err(error) => assert_eq!(
                        error.kind(),
                        io::ErrorKind::Unsupported,
                        "{}: {error}",
                        peer.name
                    ),
                }
                if peer.has == Has::Streams {
                    store.append(1, &[b"four"]).expect(peer.name);
                    store.fork(1, 3, 7).expect(peer.name);
                    store.append(7, &[b"five"]).expect(peer.name);
                    let read = |stream| {
                        let mut seen = Vec::new();
                        store
                            .read(stream, &mut |event| seen.push(event.to_vec()))
                            .expect(peer.name);
                        seen
                    };
                    let kept: [&[u8]; 4] = [b"one", b"two", b"three", b"four"];
                    assert_eq!(read(1), kept, "{}", peer.name);
                    let forked: [&[u8]; 4] = [b"one", b"two", b"three", b"five"];
                    assert_eq!(read(7), forked, "{}", peer.name);
                }
                store.close().expect(peer.name);
            }
        }
    }

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(
            PEERS
                .iter()
                .all(|peer| peer.package.is_empty() || !peer.version().is_empty())
        );
    }
}
