//! What is done by name in a [`Folder`] on Unix: by the folder that was opened, never by its path again.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]

use std::{fs, io, os::fd::OwnedFd, path::Path};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::{Errno, retry_on_intr},
};

use super::{
    calls,
    descriptors::with_descriptors,
    folder::{Folder, How, Identity, not_a_folder, not_regular},
};

impl Folder {
    /// Opens the folder at a path.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle =
            with_descriptors(|| retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty())))?;
        Ok(Self {
            path: path.to_owned(),
            handle: handle.into(),
        })
    }

    /// Opens a folder in this one. A link is refused: it may lead to files that aren't the store's.
    pub(super) fn open_in(&self, name: &str) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let open =
            || retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::empty()));
        let path = self.path.join(name);
        let handle =
            with_descriptors(open).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR | Errno::LOOP) => not_a_folder(&path),
                _ => self.explain(error),
            })?;
        Ok(Self {
            path,
            handle: handle.into(),
        })
    }

    /// Makes a folder in this one, unless there is one.
    pub(super) fn make_in(&self, name: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.handle, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(self.explain(error.into())),
        }
    }

    /// Whether it isn't at its path any more: it was moved or removed.
    pub(super) fn is_moved(&self) -> bool {
        let at_path = retry_on_intr(|| rustix::fs::stat(&self.path));
        let own = retry_on_intr(|| rustix::fs::fstat(&self.handle));
        match (at_path, own) {
            (Ok(at_path), Ok(own)) => (at_path.st_dev, at_path.st_ino) != (own.st_dev, own.st_ino),
            _ => true,
        }
    }

    /// Opens a regular file; anything else is refused without waiting for it.
    pub(super) fn open_file(&self, name: &str, how: How) -> io::Result<fs::File> {
        // Opening a FIFO waits for its other end, and a terminal may become the process's own; not with these flags.
        // For a regular file they mean nothing.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = flags
            | match how {
                How::Read => OFlags::RDONLY,
                How::Write => OFlags::RDWR,
                How::Create => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
                How::Keep => OFlags::RDWR | OFlags::CREATE,
            };
        // An interrupted open has opened nothing, so it is tried again.
        let open = || {
            retry_on_intr(|| rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR))
        };
        let opened: OwnedFd = with_descriptors(open).map_err(|error| {
            // A socket can't be opened at all, a folder not for writing: report the file's type as the reason.
            self.type_of(name)
                .and_then(|found| refused(name, found))
                .unwrap_or_else(|| self.explain(error))
        })?;
        let stat = retry_on_intr(|| rustix::fs::fstat(&opened))?;
        match refused(name, FileType::from_raw_mode(stat.st_mode)) {
            Some(error) => Err(error),
            None => Ok(opened.into()),
        }
    }

    fn type_of(&self, name: &str) -> Option<FileType> {
        let stat = rustix::fs::statat(&self.handle, name, AtFlags::empty()).ok()?;
        Some(FileType::from_raw_mode(stat.st_mode))
    }

    pub(super) fn list(&self) -> io::Result<Vec<String>> {
        let list = || {
            let mut names = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.handle)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name != "." && name != ".." {
                    names.push(name);
                }
            }
            Ok(names)
        };
        // An interrupted listing begins anew: it changes nothing.
        let names: Vec<String> =
            with_descriptors(|| retry_on_intr(list)).map_err(|error| self.explain(error))?;
        // A removed folder is listed as an empty one by some file systems.
        if names.is_empty() && self.is_removed() {
            return Err(self.explain(io::ErrorKind::NotFound.into()));
        }
        Ok(names)
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        // Not retried when interrupted: it may have succeeded, and a second attempt would find no file.
        rustix::fs::renameat(&self.handle, from, &self.handle, to)
            .map_err(|error| self.explain(error.into()))
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())
            .map_err(|error| self.explain(error.into()))
    }

    /// Makes the names durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        calls::sync_all(&self.handle)?;
        // A removed folder flushes without an error.
        if self.is_removed() {
            Err(self.explain(io::ErrorKind::NotFound.into()))
        } else {
            Ok(())
        }
    }

    pub(super) fn is_removed(&self) -> bool {
        rustix::fs::fstat(&self.handle).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

fn refused(name: &str, found: FileType) -> Option<io::Error> {
    let what = match found {
        FileType::RegularFile => return None,
        FileType::Directory => "folder",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "special file",
    };
    Some(not_regular(name, what))
}

impl Identity {
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "the types differ between systems"
    )]
    pub(super) fn of(file: &fs::File) -> io::Result<Self> {
        let stat = retry_on_intr(|| rustix::fs::fstat(file))?;
        Ok(Self {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
        })
    }
}
