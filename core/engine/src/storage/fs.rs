//! [`FsStorage`]: a folder of the file system.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use self::{
    descriptors::with_descriptors,
    file::WriteFile,
    folder::{Folder, How},
    handles::ReadFile,
    lock::Lock,
};
use super::{Access, File, Storage};

mod calls;
mod create;
mod descriptors;
#[cfg(target_os = "linux")]
mod direct;
mod file;
mod folder;
mod handles;
mod lock;
#[cfg(target_os = "linux")]
mod map;
#[cfg(not(unix))]
mod portable;
#[cfg(target_os = "linux")]
mod sigbus;
#[cfg(unix)]
mod unix;
#[cfg(target_os = "linux")]
mod writeback;

/// A folder of the file system. Files are made for their owner only (mode 0600, the folder 0700).
///
/// On Unix the folder is opened at the first use, and from then on this is that folder, wherever it is moved: another one
/// made at the same path is never touched. Clones share it. A folder that was removed can't be used any more, nor made
/// again through this value.
///
/// However many files are open for reading, at most 64 of them have a descriptor at a time, in the whole process: the
/// others get it back when they are read. So a file that is removed or replaced while it is open for reading can become
/// unreadable.
#[derive(Clone)]
pub struct FsStorage {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    folder: OnceLock<Arc<Folder>>,
}

impl FsStorage {
    /// The folder at `path`, which needn't exist yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            shared: Arc::new(Shared {
                path: path.as_ref().to_owned(),
                folder: OnceLock::new(),
            }),
        }
    }

    /// Closes all files that are open for reading, as happens to those that weren't read for long.
    #[cfg(test)]
    pub(crate) fn close_for_reading() {
        descriptors::OPEN.clear();
    }

    /// The path of the folder, where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// A folder in this one: that which has the name now, wherever this one is moved. A link is no folder here.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) when there is none; else those of the file system.
    pub fn folder_in(&self, name: &str) -> io::Result<Self> {
        let folder = self.folder()?.open_in(name)?;
        Ok(Self {
            shared: Arc::new(Shared {
                path: folder.path.clone(),
                folder: OnceLock::from(Arc::new(folder)),
            }),
        })
    }

    /// Makes a folder in this one, unless there is one. Its name isn't durable before a flush, and this folder isn't made
    /// again where it was removed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn make_folder_in(&self, name: &str) -> io::Result<()> {
        self.folder()?.make_in(name)
    }

    fn folder(&self) -> io::Result<&Arc<Folder>> {
        if let Some(folder) = self.shared.folder.get() {
            return Ok(folder);
        }
        let opened = Arc::new(Folder::open(&self.shared.path)?);
        Ok(self.shared.folder.get_or_init(|| opened))
    }
}

impl fmt::Debug for FsStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FsStorage")
            .field("folder", &self.shared.path)
            .finish()
    }
}

impl Storage for FsStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(WriteFile::new(
            self.folder()?.open_file(name, How::Create)?,
        )))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let folder = self.folder()?;
        match access {
            Access::Read => Ok(Arc::new(ReadFile::open(folder.clone(), name)?)),
            Access::Write => Ok(Arc::new(WriteFile::new(
                folder.open_file(name, How::Write)?,
            ))),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder()?.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder()?.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder()?.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.folder()?.sync()
    }

    fn create_dir(&self) -> io::Result<()> {
        create::create(&self.shared.path)?;
        self.folder().map(drop)
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        Ok(Box::new(Lock::take(
            self.folder().map_err(Err)?,
            name,
            holder,
        )?))
    }

    fn is_locked(&self, name: &str) -> Option<bool> {
        lock::is_locked(self.folder().ok()?, name)
    }

    fn describe(&self) -> String {
        self.shared.path.display().to_string()
    }

    fn folder_path(&self) -> Option<&Path> {
        Some(&self.shared.path)
    }

    fn is_moved(&self) -> bool {
        self.folder().is_ok_and(|folder| folder.is_moved())
    }

    fn is_inside(&self, other: &dyn Storage) -> bool {
        other
            .folder_path()
            .is_some_and(|other| is_inside(&self.shared.path, other))
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "this is the one place that reaches the file system"
    )]
    fn boot_id(&self) -> Option<[u8; 16]> {
        let text =
            with_descriptors(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id")).ok()?;
        text.trim()
            .parse::<uuid::Uuid>()
            .ok()
            .map(uuid::Uuid::into_bytes)
    }
}

/// Whether a folder, which needn't exist yet, is another one or lies inside it. Links are resolved in the part of the
/// path that exists.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]
fn is_inside(folder: &Path, other: &Path) -> bool {
    let named = |path: &Path| {
        if path.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            path.to_owned()
        }
    };
    let Ok(other) = named(other).canonicalize() else {
        return false;
    };
    let found = folder
        .ancestors()
        .find_map(|folder| named(folder).canonicalize().ok());
    found.is_some_and(|folder| folder.starts_with(&other))
}
