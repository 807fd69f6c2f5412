//! What `runlog export` wrote: read twice, so that all of it is looked at before anything is written.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use runlog::{
    Store,
    archive::{self, ImportClock, Imported},
};

use crate::failure::{Failure, Result};

/// How an archive begins.
const BEGINNING: &[u8] = b"{\"runlog\":\"archive\"";

/// Whether a file that begins so is an archive.
pub(crate) fn is_archive(beginning: &[u8]) -> bool {
    beginning.starts_with(BEGINNING)
}

/// An archive that can be read from its beginning as often as wanted.
pub(crate) struct Archive {
    path: PathBuf,
    /// Whether it is a copy of what can be read once only.
    is_copy: bool,
}

impl Archive {
    /// The archive that a file is, by its beginning; `None` for what is none, or no file that can be read twice.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let mut beginning = [0; BEGINNING.len()];
        path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        File::open(path).and_then(|mut file| file.read_exact(&mut beginning)).ok()?;
        is_archive(&beginning).then(|| Self { path: path.to_owned(), is_copy: false })
    }

    /// A copy of what can be read once only, for as long as this is held.
    pub(crate) fn of_stream(mut source: impl Read) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("runlog-import-{}.jsonl", std::process::id()));
        let failed = |error: io::Error| Failure::io(&error, format!("can't copy it to {}", path.display()));
        let mut file = File::create_new(&path).map_err(failed)?;
        let archive = Self { path: path.clone(), is_copy: true };
        io::copy(&mut source, &mut file).map_err(failed)?;
        Ok(archive)
    }

    /// When the first of its records was written, as far as that can be told.
    pub(crate) fn first_time(&self) -> Option<u64> {
        archive::first_time(&mut BufReader::new(File::open(&self.path).ok()?)).ok().flatten()
    }

    /// Takes it into the store. `read` is told how many bytes were.
    pub(crate) fn import(
        &self,
        store: &Store,
        clock: &ImportClock,
        is_strict: bool,
        read: &mut dyn FnMut(u64),
    ) -> Result<Imported> {
        let mut opened = 0_u64;
        let length = self.path.metadata().map_or(0, |it| it.len());
        let mut source = || {
            // What is told is half of it for each time.
            opened += 1;
            read(if opened == 1 { 0 } else { length / 2 });
            let file = File::open(&self.path).map_err(|error| {
                runlog::Error::with_source(runlog::ErrorKind::Io, format!("can't read it: {error}"), error)
            })?;
            Ok(Box::new(BufReader::with_capacity(super::source::PIECE_BYTES, file)) as Box<dyn BufRead>)
        };
        let imported = archive::import(store, Some(clock), is_strict, &mut source)?;
        read(length - length / 2);
        Ok(imported)
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.is_copy {
            // A copy that stays takes room, and no more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
