//! [`Folder`]: the folder of a store, held open.
//!
//! On Unix it is opened once and names are looked up in what was opened, never by the path again: a folder that was
//! moved stays the same folder, and another one made in its place is never touched. Elsewhere names are joined to
//! the path. What is done by name is in `unix` and `portable`.

#[cfg(unix)]
use std::fs;
use std::{
    io,
    path::{Path, PathBuf},
};

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// One that exists, to read only.
    Read,
    /// One that exists, to read and write.
    Write,
    /// To read and write, made or emptied.
    Create,
    /// To read and write, created if it doesn't exist, unchanged if it does.
    Keep,
}

/// The identity of a file, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    #[cfg(unix)]
    pub(super) handle: fs::File,
}

impl Folder {
    /// The same error, or a clear one if the folder no longer exists.
    pub(super) fn explain(&self, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::NotFound && self.is_removed() {
            let message = format!(
                "the folder {} was removed while it was open; open the store again",
                self.path.display()
            );
            return io::Error::other(message);
        }
        error
    }
}

pub(super) fn not_regular(name: &str, what: &str) -> io::Error {
    io::Error::other(format!("{name} is a {what}, not a regular file"))
}

pub(super) fn not_a_folder(path: &Path) -> io::Error {
    let message = format!("{} is not a folder; remove it", path.display());
    io::Error::other(message)
}
