//! An archive by `runlog export`: read twice, so that all of it is validated before anything is written.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek},
    path::{Path, PathBuf},
};

use runlog::{
    archive::{self, ImportClock, Imported},
    blocking::Store,
};

use crate::{
    failure::{Failure, Result},
    lines::PIECE_BYTES,
};

/// The first bytes of an archive, white space aside.
const BEGINNING: &[u8] = b"{\"runlog\":\"archive\"";
/// How many bytes of a file are looked at: there is room for the white space that other programs put between tokens.
const LOOKED_AT: usize = 64;

/// Whether a file with this beginning is an archive.
pub(crate) fn is_archive(beginning: &[u8]) -> bool {
    let tokens = beginning
        .iter()
        .take(LOOKED_AT)
        .filter(|byte| !byte.is_ascii_whitespace());
    tokens.take(BEGINNING.len()).eq(BEGINNING)
}

/// An archive that can be read from its beginning repeatedly.
pub(crate) enum Archive {
    /// A file of the user's.
    Named(PathBuf),
    /// A copy of a stream in an unnamed temporary file, which the system removes however the process ends.
    Copy(File),
}

impl Archive {
    /// The archive of a file, detected by its beginning; `None` if it is none, or if the file can't be read twice.
    pub(crate) fn of_file(path: &Path) -> Option<Self> {
        let mut beginning = Vec::new();
        path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        File::open(path)
            .and_then(|file| file.take(LOOKED_AT as u64).read_to_end(&mut beginning))
            .ok()?;
        is_archive(&beginning).then(|| Self::Named(path.to_owned()))
    }

    /// A copy of a stream that can be read only once; it exists as long as this value.
    pub(crate) fn of_stream(mut source: impl Read) -> Result<Self> {
        let folder = std::env::temp_dir();
        let failed = |error: io::Error| {
            Failure::io(&error, format!("can't copy it to {}", folder.display()))
        };
        let mut file = tempfile::tempfile_in(&folder).map_err(failed)?;
        io::copy(&mut source, &mut file).map_err(failed)?;
        Ok(Self::Copy(file))
    }

    /// Opens the archive at its beginning. Readers of a copy share one file offset, so one has to finish before the
    /// next is opened.
    fn open(&self) -> io::Result<File> {
        match self {
            Self::Named(path) => File::open(path),
            Self::Copy(file) => {
                let mut file = file.try_clone()?;
                file.rewind()?;
                Ok(file)
            }
        }
    }

    fn length(&self) -> u64 {
        let metadata = match self {
            Self::Named(path) => path.metadata(),
            Self::Copy(file) => file.metadata(),
        };
        metadata.map_or(0, |it| it.len())
    }

    /// When the first of its records was written, if that can be read.
    pub(crate) fn first_time(&self) -> Option<u64> {
        archive::first_time(&mut BufReader::new(self.open().ok()?))
            .ok()
            .flatten()
    }

    /// Imports it into the store. `read` is called with the number of bytes read.
    pub(crate) fn import(
        &self,
        store: &Store,
        clock: &ImportClock,
        is_strict: bool,
        read: &mut dyn FnMut(u64),
    ) -> Result<Imported> {
        let mut opened = 0_u64;
        let length = self.length();
        let mut source = || {
            // Each of the two passes counts for half of the progress.
            opened += 1;
            read(if opened == 1 { 0 } else { length / 2 });
            let file = self.open().map_err(|error| {
                runlog::Error::with_source(
                    runlog::ErrorKind::Io,
                    format!("can't read it: {error}"),
                    error,
                )
            })?;
            Ok(Box::new(BufReader::with_capacity(PIECE_BYTES, file)) as Box<dyn BufRead>)
        };
        let imported = archive::import(store, Some(clock), is_strict, &mut source)?;
        read(length - length / 2);
        Ok(imported)
    }
}
