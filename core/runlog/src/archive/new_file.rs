//! [`NewFile`]: a file that gets its name once it is complete.

#![allow(
    clippy::disallowed_methods,
    reason = "a file of the caller's, and not one of a store's storage"
)]

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use tempfile::{Builder, NamedTempFile};

/// A file that gets its name once it is complete, and never replaces another: an export that was killed leaves no file
/// of that name, and of two with the same path one fails. Until then it is a hidden temporary file in the same folder.
/// If it is dropped before [`finish`](Self::finish), it is deleted.
///
/// ```
/// use std::io::{ErrorKind, Write};
///
/// use runlog::archive::NewFile;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("all.jsonl");
/// let mut file = NewFile::create(&path)?;
/// file.write_all(b"{}\n")?;
/// assert!(!path.exists());
/// file.finish()?;
/// assert_eq!(std::fs::read(&path)?, b"{}\n");
/// assert_eq!(NewFile::create(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct NewFile {
    path: PathBuf,
    folder: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl NewFile {
    /// Begins a file that is to have this path.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the path exists; else those of creating a file in its folder.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        // Decisive is the check in `finish`; this one avoids writing a whole file in vain.
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".runlog-").suffix(".partial");
        // The mode of an ordinary new file, subject to the process's umask.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        Ok(Self {
            path: path.to_owned(),
            folder: folder.to_owned(),
            file: BufWriter::new(file),
        })
    }

    /// Flushes the file, then gives it its name, and flushes that too.
    ///
    /// # Errors
    /// [`AlreadyExists`](io::ErrorKind::AlreadyExists) if the path was created since, which is left unchanged; else
    /// those of writing.
    pub fn finish(self) -> io::Result<()> {
        let Self { path, folder, file } = self;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Before the name, so that after a power loss no incomplete file has the name.
        file.as_file().sync_all()?;
        file.persist_noclobber(&path)?;
        sync_folder(&folder)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems can't flush a folder.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        done => done,
    }
}

#[cfg(not(unix))]
fn sync_folder(_folder: &Path) -> io::Result<()> {
    // On this platform a folder can't be opened to be flushed.
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn of_two_with_one_path_the_first_that_is_whole_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.jsonl");
        let (mut first, mut second) = (
            NewFile::create(&path).unwrap(),
            NewFile::create(&path).unwrap(),
        );
        first.write_all(b"first").unwrap();
        second.write_all(b"second, and longer").unwrap();
        first.finish().unwrap();
        second.write_all(b", and longer still").unwrap();
        assert_eq!(
            second.finish().unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(names(folder.path()), ["all.jsonl"]);
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.jsonl");
        let mut file = NewFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()).len(), 1);
        drop(file);
        assert_eq!(names(folder.path()), <[String; 0]>::default());
        assert_eq!(
            NewFile::create(folder.path().join("no/a"))
                .unwrap_err()
                .kind(),
            io::ErrorKind::NotFound
        );
    }
}
