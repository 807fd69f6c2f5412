//! [`WriteFile`]: a file that is open for writing.

use std::{fs, io};

use super::calls::{read, sync_data, write};
#[cfg(target_os = "linux")]
use super::{
    calls::{pwrite_durable, will_read},
    direct, writeback,
};
use crate::storage::{Allocation, File};

/// Zeros are written in pieces of this size.
const ZERO_FILL_BYTES: usize = 1 << 20;

/// A file that is open for writing, for as long as it is used.
pub(super) struct WriteFile {
    file: fs::File,
    #[cfg(target_os = "linux")]
    direct: direct::Direct,
}

impl WriteFile {
    pub(super) fn new(file: fs::File) -> Self {
        Self {
            file,
            #[cfg(target_os = "linux")]
            direct: direct::Direct::default(),
        }
    }

    /// Fails for a file without a name: its bytes are freed with the handle, so they can't be durable.
    #[cfg(unix)]
    fn has_name(&self) -> io::Result<()> {
        if links(&self.file)? == 0 {
            return Err(io::Error::other(
                "the file was removed while it was open; open the store again",
            ));
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn has_name(&self) -> io::Result<()> {
        Ok(())
    }
}

/// How many names a file has. It must request nothing else: once a file's times were read, Linux (6.13 and later)
/// updates them at the next write, and a durable write then writes the inode besides its data.
#[cfg(target_os = "linux")]
fn links(file: &fs::File) -> io::Result<u64> {
    use rustix::{
        fs::{AtFlags, StatxFlags},
        io::{Errno, retry_on_intr},
    };
    match retry_on_intr(|| rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK)) {
        Ok(stat) if stat.stx_mask & StatxFlags::NLINK.bits() != 0 => Ok(stat.stx_nlink.into()),
        Ok(_) | Err(Errno::NOSYS | Errno::PERM) => {
            Ok(retry_on_intr(|| rustix::fs::fstat(file))?.st_nlink)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn links(file: &fs::File) -> io::Result<u64> {
    Ok(u64::from(
        rustix::io::retry_on_intr(|| rustix::fs::fstat(file))?.st_nlink,
    ))
}

impl File for WriteFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        read(&self.file, offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        self.direct.forget();
        write(&self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        sync_data(&self.file)?;
        self.has_name()
    }

    #[cfg(target_os = "linux")]
    fn write_durable_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.direct.write_durable(&self.file, offset, bytes) {
            Some(written) => written?,
            None if pwrite_durable(&self.file, offset, &[io::IoSlice::new(bytes)])? => {}
            None => {
                self.write_at(offset, bytes)?;
                return self.sync();
            }
        }
        self.has_name()
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
            use rustix::{
                fs::FallocateFlags,
                io::{Errno, retry_on_intr},
            };
            // A file system in memory allocates page by page, and a signal interrupts it in between.
            match retry_on_intr(|| {
                rustix::fs::fallocate(&self.file, FallocateFlags::empty(), from, to - from)
            }) {
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
    fn start_writeback(&self, end: u64) {
        writeback::start(&self.file, end);
    }

    #[cfg(target_os = "linux")]
    fn will_read(&self, offset: u64, bytes: u64) {
        will_read(&self.file, offset, bytes);
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
        let end = if aligned {
            to
        } else {
            offset.next_multiple_of(alignment).min(to)
        };
        let count =
            usize::try_from(end - offset).map_or(ZERO_FILL_BYTES, |rest| rest.min(ZERO_FILL_BYTES));
        let whole = aligned && count.is_multiple_of(direct::ALIGNMENT);
        match direct.as_ref().filter(|_| whole) {
            Some(direct) if write(direct, offset, &zeros[..count]).is_ok() => {}
            _ => write(file, offset, &zeros[..count])?,
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
        let count =
            usize::try_from(to - offset).map_or(ZERO_FILL_BYTES, |rest| rest.min(ZERO_FILL_BYTES));
        write(file, offset, &zeros[..count])?;
        offset += count as u64;
    }
    Ok(())
}
