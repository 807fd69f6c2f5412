//! [`Storage`] and [`File`]: the few operations that the engine needs of its storage.
//!
//! A storage is one flat folder of named files. Its contract: bytes written are read back at once by every handle;
//! [`File::sync`] makes a file's bytes and length durable, and [`Storage::sync_dir`] the names.

use std::{io, sync::Arc};

use bytes::BytesMut;

use crate::Error;

/// Adds to a storage error what was being done.
pub(crate) trait IoContext<T> {
    /// The engine's error with `doing` as message, and the cause.
    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T, Error>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn with_context(self, doing: impl FnOnce() -> String) -> Result<T, Error> {
        self.map_err(|error| Error::from_io(error, doing()))
    }
}

/// How [`Storage::open`] opens a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To read only.
    Read,
    /// To read and write.
    Write,
}

/// How [`File::allocate`] makes room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// The space is reserved and reads as zeros.
    Reserve,
    /// Zeros are written and flushed, so that a later flush of bytes there changes nothing but the bytes.
    ZeroFill,
}

/// A flat folder of named files.
pub trait Storage: Send + Sync + 'static {
    /// Makes a new empty file, readable by its owner only; an existing one of the name is replaced.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Opens a file that exists.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;
    /// The names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Whether every file that there is can be opened. A reader in a browser can open those that a writer adds during a
    /// call only when the call has ended.
    fn is_whole(&self) -> bool {
        true
    }
    /// Gives a file another name, replacing a file of that name. Atomic.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Handles of it that can write stay usable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes names durable: files made, renamed and removed before.
    fn sync_dir(&self) -> io::Result<()>;
    /// Creates the folder, and its parents, if it doesn't exist.
    fn create_dir(&self) -> io::Result<()>;
    /// Locks the folder for one writer until the returned guard is dropped, through the file `name`, to which `holder`
    /// is written; `Err(Ok(text))` returns the text of the current holder if it is locked. An empty `holder` leaves the
    /// file's content unchanged.
    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>>;
    /// Whether somebody has a lock through the file `name`; `None` where that can't be told.
    fn is_locked(&self, name: &str) -> Option<bool> {
        let _ = name;
        None
    }
    /// What to call this place in messages: a path, or "memory".
    fn describe(&self) -> String;
    /// Whether this place is `other`, or lies inside it, as far as this can be known.
    fn is_inside(&self, other: &dyn Storage) -> bool {
        let _ = other;
        false
    }
    /// The path of the folder, where it is one of the file system.
    fn folder_path(&self) -> Option<&std::path::Path> {
        None
    }
    /// Whether that folder isn't at its path any more: it was moved, replaced or removed.
    fn is_moved(&self) -> bool {
        false
    }
    /// The boot id of the machine, where there is one: unsynced bytes written under
    /// another id may be gone.
    fn boot_id(&self) -> Option<[u8; 16]>;
}

/// An open file.
pub trait File: Send + Sync + 'static {
    /// Fills `bytes` from `offset`; an error of kind `UnexpectedEof` when the file ends before.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Writes all `bytes` at `offset`, past the end too.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes bytes and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Writes all `bytes` at `offset` and makes these bytes durable, not what was written before.
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_at(offset, bytes)?;
        self.sync()
    }
    /// Cuts or extends the file; new bytes are zeros.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Makes room for the bytes from `from` to `to`, which lie beyond the end; the file is `to` long after.
    fn allocate(&self, from: u64, to: u64, allocation: Allocation) -> io::Result<()> {
        let _ = (from, allocation);
        self.set_len(to)
    }
    /// Starts the writeback of bytes before an offset, so that a later flush has less to do. Makes nothing durable, and
    /// doesn't wait. Advice only.
    fn start_writeback(&self, end: u64) {
        let _ = end;
    }
    /// These bytes will be read soon, in order. Advice only.
    fn will_read(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }
    /// The whole file mapped into memory, if the storage supports it. Called often, so the storage keeps the map.
    fn map(&self) -> Option<Arc<dyn Map>> {
        None
    }
}

/// A file mapped into memory. Bytes are only ever copied out of it, since the file may change or become unreadable.
pub trait Map: Send + Sync {
    /// Fills `bytes` with those of the file from `offset`. `false` if they can't be copied, because they lie beyond its
    /// end or could not be read: `bytes` are then undefined, and [`File::read_at`] returns the error.
    fn copy(&self, offset: u64, bytes: &mut [u8]) -> bool;
    /// As [`copy`](Self::copy), appended to `to`, which is left unchanged on `false`.
    fn append(&self, offset: u64, bytes: usize, to: &mut BytesMut) -> bool {
        let start = to.len();
        to.resize(start + bytes, 0);
        let copied = self.copy(offset, &mut to[start..]);
        if !copied {
            to.truncate(start);
        }
        copied
    }
    /// These bytes are copied soon: the processor may fetch them from memory meanwhile, a little more than a kilobyte of
    /// them. Advice only.
    fn prefetch(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }
    /// What begins at these offsets will be read soon, two pages of each. Advice only.
    fn will_need(&self, offsets: &[u64]) {
        let _ = offsets;
    }
    /// All of these bytes will be read soon. Advice only.
    fn will_need_all(&self, offset: u64, bytes: u64) {
        let _ = (offset, bytes);
    }
}
