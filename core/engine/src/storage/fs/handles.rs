//! [`ReadFile`]: a file that is open for reading, whose descriptor may be closed and reopened.

use std::{fs, io, sync::Arc};

use super::{
    calls,
    descriptors::OPEN,
    folder::{Folder, How, Identity},
};
use crate::{bounded::Slot, storage::File};

/// A file that is open for reading, or will be when it is read.
pub(super) struct ReadFile {
    folder: Arc<Folder>,
    name: String,
    identity: Identity,
    handle: Arc<Slot<fs::File>>,
    #[cfg(target_os = "linux")]
    map: super::map::Place,
}

impl ReadFile {
    pub(super) fn open(folder: Arc<Folder>, name: &str) -> io::Result<Self> {
        let file = folder.open_file(name, How::Read)?;
        let opened = Self {
            folder,
            name: name.to_owned(),
            identity: Identity::of(&file)?,
            handle: Arc::default(),
            #[cfg(target_os = "linux")]
            map: super::map::Place::default(),
        };
        OPEN.get(&opened.handle, || Ok::<_, io::Error>((file, 1)))?;
        Ok(opened)
    }

    pub(crate) fn file(&self) -> io::Result<Arc<fs::File>> {
        OPEN.get(&self.handle, || {
            let gone = |kind, what: &str| {
                let message = format!(
                    "{} was {what} while the store was open; open the store again",
                    self.name
                );
                io::Error::new(kind, message)
            };
            let file = self
                .folder
                .open_file(&self.name, How::Read)
                .map_err(|error| match error.kind() {
                    io::ErrorKind::NotFound => gone(io::ErrorKind::NotFound, "removed"),
                    _ => error,
                })?;
            if Identity::of(&file)? != self.identity {
                return Err(gone(
                    io::ErrorKind::StaleNetworkFileHandle,
                    "replaced by another file",
                ));
            }
            Ok((file, 1))
        })
    }
}

impl File for ReadFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        calls::read(&*self.file()?, offset, bytes)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        Err(read_only(&self.name))
    }

    fn sync(&self) -> io::Result<()> {
        calls::sync_data(&*self.file()?)
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Err(read_only(&self.name))
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file()?.metadata()?.len())
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: u64, bytes: u64) {
        if let Ok(file) = self.file() {
            calls::will_read(&file, offset, bytes);
        }
    }

    #[cfg(target_os = "linux")]
    fn map(&self) -> Option<Arc<dyn crate::storage::Map>> {
        Some(self.map.get(|| self.file().ok())?)
    }
}

fn read_only(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{name} was opened to be read only"),
    )
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "tests change files behind the storage's back"
)]
mod tests {
    use super::{super::descriptors::READ_HANDLES_MAX, *};
    use crate::storage::{Access, FsStorage, Storage};

    #[test]
    fn file_that_was_replaced_behind_an_evicted_handle_is_told_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FsStorage::new(folder.path());
        for (name, text) in [("one", b"one"), ("two", b"two")] {
            storage.create(name).unwrap().write_at(0, text).unwrap();
        }
        let (one, two) = (
            storage.open("one", Access::Read).unwrap(),
            storage.open("two", Access::Read).unwrap(),
        );
        fs::rename(folder.path().join("two"), folder.path().join("one")).unwrap();
        let mut bytes = [0; 3];
        OPEN.clear();
        let replaced = one.read_at(0, &mut bytes).unwrap_err();
        assert!(
            replaced
                .to_string()
                .contains("one was replaced by another file"),
            "{replaced}"
        );
        let removed = two.read_at(0, &mut bytes).unwrap_err();
        assert!(removed.to_string().contains("two was removed"), "{removed}");
    }

    #[test]
    fn files_open_for_reading_are_bounded_and_read_alike() {
        let folder = tempfile::tempdir().unwrap();
        let storage = FsStorage::new(folder.path());
        let files: Vec<_> = (0..300_u32)
            .map(|number| {
                let name = number.to_string();
                storage
                    .create(&name)
                    .unwrap()
                    .write_at(0, &number.to_le_bytes())
                    .unwrap();
                storage.open(&name, Access::Read).unwrap()
            })
            .collect();
        for _ in 0..2 {
            for (file, number) in files.iter().zip(0_u32..) {
                let mut bytes = [0; 4];
                file.read_at(0, &mut bytes).unwrap();
                assert_eq!(u32::from_le_bytes(bytes), number);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            let here = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            let here = here.filter(|path| path.starts_with(folder.path())).count();
            // The folder itself is open too.
            assert!(here <= READ_HANDLES_MAX + 1, "{here} are open");
        }
    }
}
