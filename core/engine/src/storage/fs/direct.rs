//! Large durable writes past the page cache, on Linux.
//!
//! From 16 KiB on they are a tenth to a fifth faster than through it (docs/decisions/0001). They must begin and end at
//! whole pages, in memory and in the file, so the page in which a write begins is rewritten with its existing bytes.
//! This module owns a copy of that page; its invariant is that the copy is never older than the file.

use std::{fs, io, sync::Mutex};

/// Writes past the page cache begin, end and lie in memory at multiples of this.
pub(super) const ALIGNMENT: usize = 4096;
/// Smaller writes go through the page cache: they are as fast, and what they wrote is read from memory.
pub(super) const BYTES_MIN: usize = 16 << 10;
/// Larger ones too: they would need a buffer as large.
const BYTES_MAX: usize = 16 << 20;

/// The state of one file for writes past the page cache.
#[derive(Default)]
pub(super) struct Direct {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Handle,
    buffer: AlignedBuffer,
    /// The last page that was written here: its offset and its bytes.
    last_page: Option<(u64, Vec<u8>)>,
}

#[derive(Default)]
enum Handle {
    #[default]
    Unopened,
    Open(fs::File),
    /// The file system doesn't support them.
    Refused,
}

/// Bytes that begin at a multiple of the alignment in memory.
#[derive(Default)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
}

impl AlignedBuffer {
    /// `length` bytes, of any content.
    pub(super) fn get(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + ALIGNMENT {
            self.bytes = vec![0; (length + ALIGNMENT).next_power_of_two()];
        }
        let start = self.bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        &mut self.bytes[start..start + length]
    }
}

impl Direct {
    /// Writes `bytes` durably past the page cache; `None` if it can't, and then nothing was written.
    pub(super) fn write_durable(
        &self,
        file: &fs::File,
        offset: u64,
        bytes: &[u8],
    ) -> Option<io::Result<()>> {
        let end = offset + bytes.len() as u64;
        if !(BYTES_MIN..=BYTES_MAX).contains(&bytes.len()) || !end.is_multiple_of(ALIGNMENT as u64)
        {
            self.forget();
            return None;
        }
        let state = &mut *self.state.lock().expect("no panic under this lock");
        if matches!(state.file, Handle::Unopened) {
            state.file = open(file).map_or(Handle::Refused, Handle::Open);
        }
        let Handle::Open(direct) = &state.file else {
            return None;
        };
        let start = offset - offset % ALIGNMENT as u64;
        let before = usize::try_from(offset - start).expect("less than a page");
        // If the bytes have the same alignment in memory as in the file, only the page they begin in is copied;
        // otherwise all of them.
        let congruent = bytes.as_ptr().addr() % ALIGNMENT == before;
        let copied = if !congruent {
            bytes.len()
        } else if before == 0 {
            0
        } else {
            ALIGNMENT - before
        };
        let buffer = state
            .buffer
            .get(if copied == 0 { 0 } else { before + copied });
        if before > 0 {
            match state.last_page.take() {
                Some((at, page)) if at == start => {
                    buffer[..before].copy_from_slice(&page[..before])
                }
                _ => {
                    if let Err(error) = super::calls::read(file, start, &mut buffer[..before]) {
                        return Some(Err(error));
                    }
                }
            }
        }
        if copied > 0 {
            buffer[before..].copy_from_slice(&bytes[..copied]);
        }
        let parts = [io::IoSlice::new(buffer), io::IoSlice::new(&bytes[copied..])];
        let used = if copied == bytes.len() {
            &parts[..1]
        } else {
            &parts[usize::from(copied == 0)..]
        };
        match super::calls::pwrite_durable(direct, start, used) {
            Ok(true) => {
                let last = bytes[bytes.len() - ALIGNMENT..].to_vec();
                state.last_page = Some((end - ALIGNMENT as u64, last));
                Some(Ok(()))
            }
            Ok(false) => {
                state.file = Handle::Refused;
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Invalidates the copy of the page, before the file is written through the page cache.
    pub(super) fn forget(&self) {
        self.state
            .lock()
            .expect("no panic under this lock")
            .last_page = None;
    }
}

/// The same file, open for writing past the page cache; `None` if that isn't supported.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the one place that reaches the file system"
)]
pub(super) fn open(file: &fs::File) -> Option<fs::File> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags};
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(
        own,
        OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .ok()
    .map(fs::File::from)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test looks at the file itself")]
mod tests {
    use super::*;

    #[test]
    fn writes_of_both_ways_interleave_without_losing_a_byte() {
        let path = tempfile::NamedTempFile::new_in(".")
            .unwrap()
            .into_temp_path();
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        file.set_len(1 << 20).unwrap();
        let (direct, mut expected) = (Direct::default(), vec![0; 1 << 20]);
        let mut memory = AlignedBuffer::default();
        let mut offset = 100_usize;
        for round in 1..=24_u8 {
            let length = match round % 3 {
                0 => 1000,
                1 => 20_000,
                _ => 40_960 - offset % ALIGNMENT,
            };
            let end = (offset + length).next_multiple_of(ALIGNMENT);
            // Every other time the bytes lie in memory as in the file.
            let lead = if round % 2 == 0 {
                offset % ALIGNMENT
            } else {
                8
            };
            let bytes = &mut memory.get(lead + end - offset)[lead..];
            bytes.fill(0);
            bytes[..length].fill(round);
            let bytes = &*bytes;
            expected[offset..end].copy_from_slice(bytes);
            match direct.write_durable(&file, offset as u64, bytes) {
                Some(written) => written.unwrap(),
                None => super::super::calls::write(&file, offset as u64, bytes).unwrap(),
            }
            offset += length;
        }
        assert!(fs::read(&path).unwrap() == expected);
    }
}
