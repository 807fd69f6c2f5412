//! [`FsStorage`]: a folder of the file system.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Access, Allocation, File, Storage};

#[cfg(target_os = "linux")]
mod direct;
mod map;

/// Zeros are written in pieces of this size.
const ZERO_FILL_BYTES: usize = 1 << 20;

/// A folder of the file system. Files are made for their owner only (mode 0600, the folder 0700).
#[derive(Clone, Debug)]
pub struct FsStorage {
    folder: PathBuf,
}

#[allow(clippy::disallowed_methods, reason = "this is the one place that reaches the file system")]
impl FsStorage {
    /// The folder at `path`, which needn't exist yet.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self { folder: path.as_ref().to_owned() }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

fn options(write: bool) -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(write);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options
}

#[allow(clippy::disallowed_methods, reason = "this is the one place that reaches the file system")]
impl Storage for FsStorage {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = options(true).create(true).truncate(true).open(self.folder.join(name))?;
        Ok(Arc::new(FsFile::new(file)))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let file = options(access == Access::Write).open(self.folder.join(name))?;
        Ok(Arc::new(FsFile::new(file)))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        // Windows has no way to flush a folder, and needs none: its journal orders names.
        if cfg!(unix) { fs::File::open(&self.folder)?.sync_all() } else { Ok(()) }
    }

    fn create_dir(&self) -> io::Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt;
            builder.mode(0o700);
        }
        builder.create(&self.folder)?;
        if let Some(parent) = self.folder.parent().filter(|parent| cfg!(unix) && !parent.as_os_str().is_empty()) {
            fs::File::open(parent)?.sync_all()?;
        }
        Ok(())
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        let path = self.folder.join(name);
        let file = options(true).create(true).truncate(false).open(&path).map_err(Err)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            }
            Err(fs::TryLockError::Error(error)) => return Err(Err(error)),
        }
        if !holder.is_empty() {
            let written = file.set_len(0).and_then(|()| FsFile::write(&file, 0, holder.as_bytes()));
            written.map_err(Err)?;
        }
        Ok(Box::new(file))
    }

    fn describe(&self) -> String {
        self.folder.display().to_string()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        text.trim().parse::<uuid::Uuid>().ok().map(uuid::Uuid::into_bytes)
    }
}

struct FsFile {
    file: Arc<fs::File>,
    #[cfg(target_os = "linux")]
    direct: direct::Direct,
}

impl FsFile {
    fn new(file: fs::File) -> Self {
        Self {
            file: Arc::new(file),
            #[cfg(target_os = "linux")]
            direct: direct::Direct::default(),
        }
    }
}

#[cfg(unix)]
impl FsFile {
    fn read(file: &fs::File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
    }

    fn write(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
    }
}

#[cfg(windows)]
impl FsFile {
    fn read(file: &fs::File, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    bytes = &mut bytes[count..];
                    offset += count as u64;
                }
            }
        }
        Ok(())
    }

    fn write(file: &fs::File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
            bytes = &bytes[count..];
            offset += count as u64;
        }
        Ok(())
    }
}

impl File for FsFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        Self::read(&self.file, offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.direct.forget();
        Self::write(&self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    #[cfg(target_os = "linux")]
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(written) = self.direct.write_durable(&self.file, offset, bytes) {
            return written;
        }
        if pwrite_durable(&self.file, offset, &[io::IoSlice::new(bytes)])? {
            return Ok(());
        }
        self.write_at(offset, bytes)?;
        self.sync()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, from: u64, to: u64, allocation: Allocation) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::{fs::FallocateFlags, io::Errno};
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), from, to - from) {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.set_len(to)?,
                Err(error) => return Err(error.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        self.set_len(to)?;
        if allocation == Allocation::ZeroFill {
            zero_fill(&self.file, from, to)?;
            self.sync()?;
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: u64, bytes: u64) {
        if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
            let _ = rustix::fs::fadvise(&self.file, offset, Some(bytes), rustix::fs::Advice::WillNeed);
        }
    }

    fn map(&self) -> Option<super::Map> {
        map::map(&self.file)
    }
}

/// Writes and flushes just these bytes in one call instead of two. `false` after a short write, or from a
/// kernel or file system without such calls: no flush has failed then, so writing again and flushing is no
/// retry of a failed flush.
#[cfg(target_os = "linux")]
fn pwrite_durable(file: &fs::File, offset: u64, parts: &[io::IoSlice<'_>]) -> io::Result<bool> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    match pwritev2(file, parts, offset, ReadWriteFlags::DSYNC) {
        Ok(count) => Ok(count == parts.iter().map(|part| part.len()).sum::<usize>()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes zeros, past the page cache where that works: it is faster, and leaves the cache to what is read.
#[cfg(target_os = "linux")]
fn zero_fill(file: &fs::File, from: u64, to: u64) -> io::Result<()> {
    let mut buffer = direct::AlignedBuffer::default();
    let zeros = &*buffer.get(ZERO_FILL_BYTES);
    let alignment = direct::ALIGNMENT as u64;
    let direct = direct::open(file);
    let mut offset = from;
    while offset < to {
        let aligned = offset.is_multiple_of(alignment);
        let end = if aligned { to } else { offset.next_multiple_of(alignment).min(to) };
        let count = usize::try_from(end - offset).map_or(ZERO_FILL_BYTES, |rest| rest.min(ZERO_FILL_BYTES));
        let whole = aligned && count.is_multiple_of(direct::ALIGNMENT);
        match direct.as_ref().filter(|_| whole) {
            Some(direct) if FsFile::write(direct, offset, &zeros[..count]).is_ok() => {}
            _ => FsFile::write(file, offset, &zeros[..count])?,
        }
        offset += count as u64;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn zero_fill(file: &fs::File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0; ZERO_FILL_BYTES];
    let mut offset = from;
    while offset < to {
        let count = usize::try_from(to - offset).map_or(ZERO_FILL_BYTES, |rest| rest.min(ZERO_FILL_BYTES));
        FsFile::write(file, offset, &zeros[..count])?;
        offset += count as u64;
    }
    Ok(())
}
