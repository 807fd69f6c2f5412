//! [`Upload`]: the buffer of an archive that arrives piece by piece, until it is complete; an import reads it twice.

#[cfg(target_family = "wasm")]
pub(crate) use memory::Upload;

#[cfg(not(target_family = "wasm"))]
pub(crate) use file::Upload;

#[cfg(not(target_family = "wasm"))]
mod file {
    #![allow(
        clippy::disallowed_methods,
        reason = "a temporary file is none of a store's storage"
    )]

    use std::{
        fs::File,
        io::{BufReader, BufWriter, Seek, SeekFrom, Write},
        path::{Path, PathBuf},
    };

    use runlog::{
        ErrorKind,
        archive::{self, Imported},
        blocking,
    };

    use crate::{Failure, Result};

    const READ_BYTES: usize = 256 << 10;

    /// A file without a name: the system frees it with its last handle, even if the process is killed.
    pub(crate) struct Upload {
        folder: PathBuf,
        file: BufWriter<File>,
    }

    impl Upload {
        /// In the system's temporary folder.
        pub(crate) fn create() -> Result<Self> {
            Self::create_in(std::env::temp_dir())
        }

        pub(crate) fn create_in(folder: PathBuf) -> Result<Self> {
            let file =
                tempfile::tempfile_in(&folder).map_err(|error| failed(error, "make", &folder))?;
            Ok(Self {
                folder,
                file: BufWriter::new(file),
            })
        }

        pub(crate) fn write(&mut self, piece: &[u8]) -> Result<()> {
            self.file
                .write_all(piece)
                .map_err(|error| failed(error, "write", &self.folder))
        }

        /// Imports what was written so far into a store.
        pub(crate) fn import(&mut self, store: &blocking::Store, strict: bool) -> Result<Imported> {
            let done = archive::import(store, None, strict, &mut || Ok(Box::new(self.read()?)));
            // Reading has moved the handle's position; writing continues at the end.
            self.file
                .seek(SeekFrom::End(0))
                .map_err(|error| failed(error, "write", &self.folder))?;
            Ok(done?)
        }

        /// Reads it from its beginning. All readers share one file position, so only the latest one may be used.
        pub(crate) fn read(&mut self) -> runlog::Result<BufReader<File>> {
            let file = self
                .file
                .rewind()
                .and_then(|()| self.file.get_ref().try_clone());
            let file = file.map_err(|error| {
                let message = format!(
                    "can't read a temporary file in {}: {error}",
                    self.folder.display()
                );
                runlog::Error::with_source(ErrorKind::Io, message, error)
            })?;
            Ok(BufReader::with_capacity(READ_BYTES, file))
        }
    }

    fn failed(error: std::io::Error, what: &str, folder: &Path) -> Failure {
        let message = format!(
            "can't {what} a temporary file in {}: {error}",
            folder.display()
        );
        runlog::Error::with_source(ErrorKind::Io, message, error).into()
    }
}

/// In memory, on platforms without files.
#[cfg(target_family = "wasm")]
mod memory {
    use bytes::{Buf, Bytes};
    use runlog::{
        archive::{self, Imported},
        blocking,
    };

    use crate::Result;

    pub(crate) struct Upload(Vec<u8>);

    #[allow(
        clippy::unnecessary_wraps,
        reason = "as where it is a file, which may fail"
    )]
    impl Upload {
        pub(crate) fn create() -> Result<Self> {
            Ok(Self(Vec::new()))
        }

        pub(crate) fn write(&mut self, piece: &[u8]) -> Result<()> {
            self.0.extend_from_slice(piece);
            Ok(())
        }

        /// Imports what was written so far into a store.
        pub(crate) fn import(&mut self, store: &blocking::Store, strict: bool) -> Result<Imported> {
            let bytes = Bytes::from(std::mem::take(&mut self.0));
            let mut source = || Ok(Box::new(bytes.clone().reader()) as Box<dyn std::io::BufRead>);
            let done = archive::import(store, None, strict, &mut source);
            // More may be written, and imported again.
            self.0 = bytes.into();
            Ok(done?)
        }
    }
}
