//! [`Folder`]: the folder of a store, held open, and everything that is done by name in it.
//!
//! On Unix it is opened once and names are looked up in what was opened, never by the path again: a folder that was
//! moved stays the same folder, and another one made in its place is never touched. Elsewhere names are joined to
//! the path.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]

use std::{
    fs, io,
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
    /// To read and write, made if it isn't there, and left as it is if it is.
    Keep,
}

/// Which file this is, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    #[cfg(unix)]
    handle: fs::File,
}

impl Folder {
    /// The same error, or a clear one when the folder is no longer there at all.
    fn explain(&self, error: io::Error) -> io::Error {
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

fn not_regular(name: &str, what: &str) -> io::Error {
    io::Error::other(format!("{name} is a {what}, not a regular file"))
}

#[cfg(unix)]
mod unix {
    use std::os::fd::OwnedFd;

    use rustix::{
        fs::{AtFlags, FileType, Mode, OFlags},
        io::{Errno, retry_on_intr},
    };

    use super::{
        super::handles::with_descriptors, Folder, How, Identity, Path, fs, io, not_regular,
    };

    impl Folder {
        /// Opens the folder at a path.
        pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let handle = with_descriptors(|| {
                retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
            })?;
            Ok(Self {
                path: path.to_owned(),
                handle: handle.into(),
            })
        }

        /// Opens a regular file; anything else is refused without waiting for it.
        pub(in super::super) fn open_file(&self, name: &str, how: How) -> io::Result<fs::File> {
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
                retry_on_intr(|| {
                    rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)
                })
            };
            let opened: OwnedFd = with_descriptors(open).map_err(|error| {
                // A socket can't be opened at all, a folder not for writing: the reason is what they are.
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

        pub(in super::super) fn list(&self) -> io::Result<Vec<String>> {
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

        pub(in super::super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            // Not tried again when interrupted: it may have been done, and a second one would find nothing.
            rustix::fs::renameat(&self.handle, from, &self.handle, to)
                .map_err(|error| self.explain(error.into()))
        }

        pub(in super::super) fn remove(&self, name: &str) -> io::Result<()> {
            rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())
                .map_err(|error| self.explain(error.into()))
        }

        /// Makes the names durable.
        pub(in super::super) fn sync(&self) -> io::Result<()> {
            super::super::file::sync_all(&self.handle)?;
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
        pub(in super::super) fn of(file: &fs::File) -> io::Result<Self> {
            let stat = retry_on_intr(|| rustix::fs::fstat(file))?;
            Ok(Self {
                device: stat.st_dev as u64,
                inode: stat.st_ino as u64,
            })
        }
    }

    /// Whether an error says that the process or the system has no descriptors left.
    pub(in super::super) fn is_out_of_descriptors(error: &io::Error) -> bool {
        [Errno::MFILE, Errno::NFILE]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
}

#[cfg(unix)]
pub(super) use unix::is_out_of_descriptors;

#[cfg(not(unix))]
impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            path: path.to_owned(),
        })
    }

    pub(super) fn open_file(&self, name: &str, how: How) -> io::Result<fs::File> {
        let path = self.path.join(name);
        // Looked at first: what is opened may be a pipe or a device only then.
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

    fn is_removed(&self) -> bool {
        !self.path.is_dir()
    }
}

#[cfg(not(unix))]
impl Identity {
    /// Nobody tells it portably, so every file passes for the same.
    pub(super) fn of(_file: &fs::File) -> io::Result<Self> {
        Ok(Self {
            device: 0,
            inode: 0,
        })
    }
}

#[cfg(not(unix))]
pub(super) fn is_out_of_descriptors(_error: &io::Error) -> bool {
    false
}
