//! Files of JSON lines, one for each stream, as agents keep their transcripts.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use runlog_benches::workload::files;

use super::{Has, Peer, Promise, Store, other};

pub const PEER: Peer = Peer {
    name: "JSONL",
    package: "",
    settings: "a file for each stream, kept open; durable: one `write` and `fdatasync`; buffered: one `write`, then `fdatasync` of each",
    has: Has::Streams,
    open: |path, promise| Ok(Box::new(open(path, promise)?)),
};

struct Lines {
    path: PathBuf,
    files: Mutex<HashMap<u32, Arc<Mutex<File>>>>,
    is_durable: bool,
}

fn open(path: &Path, promise: Promise) -> io::Result<Lines> {
    fs::create_dir_all(path)?;
    Ok(Lines {
        path: path.to_path_buf(),
        files: Mutex::default(),
        is_durable: promise == Promise::Durable,
    })
}

fn visit(path: &Path, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(256 << 10, File::open(path)?);
    let mut line = Vec::with_capacity(4096);
    while lines.read_until(b'\n', &mut line)? > 0 {
        see(line.strip_suffix(b"\n").unwrap_or(&line));
        line.clear();
    }
    Ok(())
}

impl Lines {
    fn name(&self, stream: u32) -> PathBuf {
        self.path.join(format!("{stream}.jsonl"))
    }

    fn file(&self, stream: u32) -> io::Result<Arc<Mutex<File>>> {
        let mut files = self.files.lock().map_err(|_| other("poisoned"))?;
        if let Some(file) = files.get(&stream) {
            return Ok(file.clone());
        }
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.name(stream))?;
        let file = Arc::new(Mutex::new(file));
        files.insert(stream, file.clone());
        Ok(file)
    }
}

impl Store for Lines {
    fn append(&self, stream: u32, events: &[&[u8]]) -> io::Result<()> {
        let mut lines = Vec::with_capacity(events.iter().map(|event| event.len() + 1).sum());
        for event in events {
            lines.extend_from_slice(event);
            lines.push(b'\n');
        }
        let file = self.file(stream)?;
        let mut file = file.lock().map_err(|_| other("poisoned"))?;
        file.write_all(&lines)?;
        if self.is_durable {
            file.sync_data()?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let files: Vec<_> = self
            .files
            .lock()
            .map_err(|_| other("poisoned"))?
            .values()
            .cloned()
            .collect();
        files
            .iter()
            .try_for_each(|file| file.lock().map_err(|_| other("poisoned"))?.sync_data())
    }

    fn read(&self, stream: u32, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        visit(&self.name(stream), see)
    }

    fn scan(&self, see: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        files(&self.path)?
            .iter()
            .try_for_each(|path| visit(path, see))
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        self.sync()
    }
}
