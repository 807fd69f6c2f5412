//! commitlog: one log, without streams; it syncs when it is told to.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use commitlog::{
    CommitLog, LogOptions, ReadLimit,
    message::{MessageBuf, MessageSet as _},
};

use runlog_benches::workload::files;

use super::{Has, Peer, Promise, Store, lacks, other};

/// So much is read at once.
const READ_BYTES: usize = 1 << 20;

pub const PEER: Peer = Peer {
    name: "commitlog",
    package: "commitlog",
    settings: "buffered: the default; its `flush()` syncs no file of events, so it has no durable form, and its files are synced from outside",
    has: Has::Log,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Log {
    log: Mutex<CommitLog>,
    path: PathBuf,
}

fn open(path: &Path, promise: Promise) -> io::Result<Log> {
    if promise == Promise::Durable {
        return Err(lacks("call that syncs a file of events"));
    }
    let mut options = LogOptions::new(path);
    options.message_max_bytes(64 << 20);
    let log = Mutex::new(CommitLog::new(options)?);
    Ok(Log {
        log,
        path: path.to_path_buf(),
    })
}

impl Store for Log {
    fn append(&self, _: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut messages = MessageBuf::default();
        for event in events {
            messages
                .push(event)
                .map_err(|error| other(format!("{error:?}")))?;
        }
        let mut log = self.log.lock().map_err(|_| other("poisoned"))?;
        log.append(&mut messages).map_err(other)?;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.log.lock().map_err(|_| other("poisoned"))?.flush()?;
        let mut files = files(&self.path)?.into_iter();
        files.try_for_each(|file| File::open(file)?.sync_all())
    }

    fn read(&self, _: u32, _: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        Err(lacks("streams"))
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let log = self.log.lock().map_err(|_| other("poisoned"))?;
        let mut offset = 0;
        while offset < log.next_offset() {
            let messages = log
                .read(offset, ReadLimit::max_bytes(READ_BYTES))
                .map_err(other)?;
            let before = offset;
            for message in messages.iter() {
                see(message.payload());
                offset = message.offset() + 1;
            }
            if offset == before {
                return Err(other("the log gives nothing more"));
            }
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.sync()
    }
}
