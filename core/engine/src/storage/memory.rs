//! [`MemoryStorage`]: files in memory, for tests, for browsers without a file system, and for work that needs
//! no durability.

use std::{collections::BTreeMap, io};

use super::{Access, File, Storage};
use crate::sync::{Arc, Mutex, MutexGuard, RwLock};

/// A folder of files in memory. Clones share the same files.
#[derive(Clone, Default)]
pub struct MemoryStorage {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
    /// The locked names, and by whom.
    locked: Arc<Mutex<BTreeMap<String, String>>>,
}

impl MemoryStorage {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Arc<MemoryFile>>> {
        self.shared.files.lock().expect("no panic under this lock")
    }

    fn missing(name: &str) -> io::Error {
        io::Error::new(io::ErrorKind::NotFound, format!("no file {name} in memory"))
    }
}

impl Storage for MemoryStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = Arc::new(MemoryFile::default());
        self.files().insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str, _access: Access) -> io::Result<Arc<dyn File>> {
        self.files()
            .get(name)
            .map(|file| file.clone() as _)
            .ok_or_else(|| Self::missing(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files();
        let file = files.remove(from).ok_or_else(|| Self::missing(from))?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files()
            .remove(name)
            .map(|_| ())
            .ok_or_else(|| Self::missing(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn create_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        let mut locked = self.shared.locked.lock().expect("no panic under this lock");
        if let Some(other) = locked.get(name) {
            return Err(Ok(other.clone()));
        }
        locked.insert(name.to_owned(), holder.to_owned());
        Ok(Box::new(Unlock {
            locked: self.shared.locked.clone(),
            name: name.to_owned(),
        }))
    }

    fn is_locked(&self, name: &str) -> Option<bool> {
        let locked = self.shared.locked.lock().expect("no panic under this lock");
        Some(locked.contains_key(name))
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        Some([0; 16])
    }
}

struct Unlock {
    locked: Arc<Mutex<BTreeMap<String, String>>>,
    name: String,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        self.locked
            .lock()
            .expect("no panic under this lock")
            .remove(&self.name);
    }
}

#[derive(Default)]
struct MemoryFile {
    bytes: RwLock<Vec<u8>>,
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.bytes.read().expect("no panic under this lock");
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let source = start
            .checked_add(bytes.len())
            .and_then(|end| file.get(start..end));
        bytes.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.bytes.write().expect("no panic under this lock");
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let end = start
            .checked_add(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        if file.len() < end {
            file.resize(end, 0);
        }
        file[start..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let mut file = self.bytes.write().expect("no panic under this lock");
        if length > file.capacity() {
            // Zeroed by the allocator: what comes from the system is zero already, and takes no memory until it is written.
            // A segment is as long as it may become from its beginning.
            let mut longer = vec![0; length];
            longer[..file.len()].copy_from_slice(&file);
            *file = longer;
        } else {
            file.resize(length, 0);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.read().expect("no panic under this lock").len() as u64)
    }
}
