//! [`Forgetful`]: a folder in memory whose files are read as by a process that keeps none of them open.
//!
//! A process has only so many files open. One that it reads again after it was closed is opened again, by its name: once a
//! compaction has removed it, the read fails as [`FsStorage`](runlog_engine::storage::FsStorage)'s does. That takes many files,
//! and luck, as long as a handle, a map or a cached index block still has what was removed. Here no handle and no map has it.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog_engine::storage::{Access, File, MemoryStorage, Storage};

/// What happens between two operations on the files.
type Event = Box<dyn FnOnce() + Send>;

/// A folder in memory. Clones share it, and its events.
#[derive(Clone, Default)]
pub struct Forgetful {
    files: MemoryStorage,
    names: Arc<Names>,
    /// How many operations are let go on before what happens then.
    events: Arc<Mutex<Vec<(u64, Event)>>>,
    /// Whether handles keep what was removed.
    remembers: bool,
}

/// Which file has a name.
#[derive(Default)]
struct Names {
    next: AtomicU64,
    ids: Mutex<BTreeMap<String, u64>>,
    gone: AtomicU64,
}

impl Names {
    fn ids(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Forgetful {
    /// An empty folder.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same folder as a process of its own has it that keeps no file open.
    #[must_use]
    pub fn that_forgets(&self) -> Self {
        Self {
            remembers: false,
            events: Arc::default(),
            ..self.clone()
        }
    }

    /// The same folder as a process has it whose handles are never closed.
    #[must_use]
    pub fn that_remembers(&self) -> Self {
        Self {
            remembers: true,
            events: Arc::default(),
            ..self.clone()
        }
    }

    /// Lets something happen before an operation on the files, after so many others.
    pub fn after(&self, operations: u64, event: impl FnOnce() + Send + 'static) {
        self.events().push((operations, Box::new(event)));
    }

    /// Forgets what was to happen and didn't.
    pub fn calm(&self) {
        self.events().clear();
    }

    /// How many reads failed because their file was removed or replaced, in all processes.
    pub fn gone(&self) -> u64 {
        self.names.gone.load(Ordering::Relaxed)
    }

    fn events(&self) -> MutexGuard<'_, Vec<(u64, Event)>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more operation.
    fn pass(&self) {
        let mut due = Vec::new();
        {
            let mut events = self.events();
            for (left, event) in std::mem::take(&mut *events) {
                match left {
                    0 => due.push(event),
                    left => events.push((left - 1, event)),
                }
            }
        }
        for event in due {
            event();
        }
    }

    fn name_new(&self, name: &str) {
        let id = self.names.next.fetch_add(1, Ordering::Relaxed);
        self.names.ids().insert(name.to_owned(), id);
    }

    fn file(&self, name: &str, access: Access, file: Arc<dyn File>) -> Arc<dyn File> {
        // One that writes keeps its file, as the storage's contract says.
        let id = match access {
            Access::Read if !self.remembers => self.names.ids().get(name).copied(),
            _ => None,
        };
        Arc::new(ForgetfulFile {
            folder: self.clone(),
            name: name.to_owned(),
            id,
            file,
        })
    }
}

impl Storage for Forgetful {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.pass();
        let file = self.files.create(name)?;
        self.name_new(name);
        Ok(self.file(name, Access::Write, file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.pass();
        let file = self.files.open(name, access)?;
        Ok(self.file(name, access, file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.pass();
        self.files.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.pass();
        self.files.rename(from, to)?;
        let mut ids = self.names.ids();
        if let Some(id) = ids.remove(from) {
            ids.insert(to.to_owned(), id);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.pass();
        self.files.remove(name)?;
        self.names.ids().remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.files.sync_dir()
    }

    fn create_dir(&self) -> io::Result<()> {
        self.files.create_dir()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        self.files.lock(name, holder)
    }

    fn describe(&self) -> String {
        self.files.describe()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.files.boot_id()
    }
}

struct ForgetfulFile {
    folder: Forgetful,
    name: String,
    /// Which file it is; none for a handle that keeps what was removed.
    id: Option<u64>,
    file: Arc<dyn File>,
}

impl ForgetfulFile {
    /// The file, as if it was opened again.
    fn again(&self) -> io::Result<&Arc<dyn File>> {
        self.folder.pass();
        let Some(id) = self.id else {
            return Ok(&self.file);
        };
        let (kind, what) = match self.folder.names.ids().get(&self.name) {
            Some(now) if *now == id => return Ok(&self.file),
            Some(_) => (
                io::ErrorKind::StaleNetworkFileHandle,
                "replaced by another file",
            ),
            None => (io::ErrorKind::NotFound, "removed"),
        };
        self.folder.names.gone.fetch_add(1, Ordering::Relaxed);
        let name = &self.name;
        let message = format!("{name} was {what} while the store was open; open the store again");
        Err(io::Error::new(kind, message))
    }
}

impl File for ForgetfulFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.again()?.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.again()?.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.again()?.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_replaced_files_are_told_and_not_read_but_by_who_writes_them_or_remembers() {
        let here = Forgetful::new();
        let reads = |file: &Arc<dyn File>| file.read_at(0, &mut [0; 3]).map_err(|e| e.kind());
        for name in ["one", "two"] {
            here.create(name).unwrap().write_at(0, b"abc").unwrap();
        }
        let opened = [
            here.open("one", Access::Read).unwrap(),
            here.open("two", Access::Read).unwrap(),
        ];
        let kept = here.that_remembers().open("one", Access::Read).unwrap();
        let written = here.open("two", Access::Write).unwrap();
        assert_eq!(opened.each_ref().map(reads), [Ok(()), Ok(())]);
        here.rename("two", "one").unwrap();
        let kinds = [
            io::ErrorKind::StaleNetworkFileHandle,
            io::ErrorKind::NotFound,
        ];
        assert_eq!(opened.each_ref().map(reads), kinds.map(Err));
        assert_eq!((reads(&kept), reads(&written)), (Ok(()), Ok(())));
        assert_eq!(here.gone(), 2);
    }

    #[test]
    fn what_is_to_happen_after_some_operations_happens_then_once() {
        let here = Forgetful::new();
        let there = here.that_forgets();
        here.create("one").unwrap();
        let file = here.open("one", Access::Read).unwrap();
        here.after(1, move || there.remove("one").unwrap());
        assert!(file.len().is_ok());
        assert!(file.len().is_err());
        here.create("one").unwrap();
        assert!(here.open("one", Access::Read).unwrap().len().is_ok());
    }
}
