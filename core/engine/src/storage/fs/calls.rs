//! The calls that move and flush bytes, as each system has them.
//!
//! Signals: a call that reads, writes, allocates, truncates or queries is retried when a signal interrupts it
//! (`EINTR`), because it is idempotent. A flush is not retried: the effect of an interrupted flush is undefined, and an
//! error that it met may not be reported a second time. It counts as a failed flush, and poisons the writer.

use std::{fs, io};

/// Makes bytes and length durable. One call: see this module on signals.
#[cfg(target_os = "linux")]
pub(super) fn sync_data(file: &fs::File) -> io::Result<()> {
    Ok(rustix::fs::fdatasync(file)?)
}

/// Makes a file durable with all its metadata, or the names in a folder.
#[cfg(target_os = "linux")]
pub(super) fn sync_all(file: &fs::File) -> io::Result<()> {
    Ok(rustix::fs::fsync(file)?)
}

// The standard library makes the right call on other systems (F_FULLFSYNC on macOS). It retries after `EINTR`, which
// Windows never returns and macOS doesn't document for files on a disk.

#[cfg(not(target_os = "linux"))]
pub(super) fn sync_data(file: &fs::File) -> io::Result<()> {
    file.sync_data()
}

#[cfg(all(unix, not(target_os = "linux")))]
pub(super) fn sync_all(file: &fs::File) -> io::Result<()> {
    file.sync_all()
}

#[cfg(target_os = "linux")]
pub(super) fn will_read(file: &fs::File, offset: u64, bytes: u64) {
    if let Some(bytes) = std::num::NonZeroU64::new(bytes) {
        let _ = rustix::fs::fadvise(file, offset, Some(bytes), rustix::fs::Advice::WillNeed);
    }
}

#[cfg(unix)]
pub(super) fn read(file: &fs::File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
pub(super) fn write(file: &fs::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read(file: &fs::File, mut offset: u64, mut bytes: &mut [u8]) -> io::Result<()> {
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

#[cfg(windows)]
pub(super) fn write(file: &fs::File, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = &bytes[count..];
        offset += count as u64;
    }
    Ok(())
}

/// Writes and flushes just these bytes in one call instead of two. `false` after a short write, one that was interrupted
/// before it wrote anything, or from a kernel or file system without such calls: no flush has failed then, so writing
/// again and flushing is no retry of a failed flush.
#[cfg(target_os = "linux")]
pub(super) fn pwrite_durable(
    file: &fs::File,
    offset: u64,
    parts: &[io::IoSlice<'_>],
) -> io::Result<bool> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    match pwritev2(file, parts, offset, ReadWriteFlags::DSYNC) {
        Ok(count) => Ok(count == parts.iter().map(|part| part.len()).sum::<usize>()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
