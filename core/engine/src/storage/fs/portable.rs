//! What is done by name in a [`Folder`] where there is no Unix: names are joined to its path.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]

use std::{fs, io, path::Path};

use super::folder::{Folder, How, Identity, not_a_folder, not_regular};

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Opens a folder in this one.
    pub(super) fn open_in(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        match Self::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_a_folder(&path)),
            opened => opened.map_err(|error| self.explain(error)),
        }
    }

    /// Makes a folder in this one, unless there is one.
    pub(super) fn make_in(&self, name: &str) -> io::Result<()> {
        match fs::create_dir(self.path.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(|error| self.explain(error)),
        }
    }

    /// Whether it isn't at its path any more. What is at the path is what is used here.
    pub(super) fn is_moved(&self) -> bool {
        self.is_removed()
    }

    pub(super) fn open_file(&self, name: &str, how: How) -> io::Result<fs::File> {
        let path = self.path.join(name);
        // Checked before opening, so that a pipe or a device is never opened.
        match fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Err(not_regular(name, "folder")),
            Ok(found) if !found.is_file() => return Err(not_regular(name, "special file")),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        options.read(true).write(how != How::Read);
        options
            .create(matches!(how, How::Create | How::Keep))
            .truncate(how == How::Create);
        options.open(path).map_err(|error| self.explain(error))
    }

    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to)).map_err(|error| self.explain(error))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name)).map_err(|error| self.explain(error))
    }

    /// Windows has no way to flush a folder, and needs none: its journal orders names.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn is_removed(&self) -> bool {
        !self.path.is_dir()
    }
}

impl Identity {
    /// There is no portable file identity, so all files compare equal.
    pub(super) fn of(_file: &fs::File) -> io::Result<Self> {
        Ok(Self {
            device: 0,
            inode: 0,
        })
    }
}
