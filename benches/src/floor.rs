//! Raw floors: the least that a store has to do for the same promise, without any store.
//!
//! - A durable write is one `pwrite` and one `fdatasync` into a file that was filled with zeros before, so that the
//!   flush changes no metadata. Writers that share a flush ideally are one write of all their frames and one flush.
//! - A buffered event is one copy and one CRC-32 of its bytes; a buffered file is that and one `write` for each MiB.
//! - A read is a `pread` from a warm file: in a row for a scan, at scattered places for one stream among many.

use std::{
    fs::{File, OpenOptions},
    hint::black_box,
    io,
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
    time::Duration,
};

use crate::{measure::rate, workload::Random};

/// The bytes of an event that a store has to write beside its payload; the floors write as many.
pub const FRAME_OVERHEAD_BYTES: usize = 32;
/// The unit in which a device is written without being read first.
const BLOCK_BYTES: usize = 4096;

/// A file of zeros that really has its blocks, to be overwritten from its start to its end, again and again.
#[derive(Debug)]
pub struct ZeroFilled {
    file: File,
    size: u64,
    offset: u64,
}

impl ZeroFilled {
    /// The size of the floors' files: that of a segment.
    pub const SIZE: u64 = 64 << 20;

    /// Makes the file, and waits until its zeros are on the device.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn create(path: &Path, size: u64) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        let zeros = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < size {
            let count = zeros
                .len()
                .min(usize::try_from(size - offset).unwrap_or(usize::MAX));
            file.write_all_at(zeros.get(..count).unwrap_or(&zeros), offset)?;
            offset += u64::try_from(count).unwrap_or(u64::MAX);
        }
        file.sync_all()?;
        Ok(Self {
            file,
            size,
            offset: 0,
        })
    }

    /// Writes the next bytes; starts over at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = bytes.len() as u64;
        if self.offset + count > self.size {
            self.offset = 0;
        }
        self.file.write_all_at(bytes, self.offset)?;
        self.offset += count;
        Ok(())
    }

    /// Writes the next bytes, and returns when they are on the device.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write_durably(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes)?;
        self.file.sync_data()
    }
}

/// The same file, written past the page cache, each write durable by itself (`O_DIRECT` and `O_DSYNC`).
#[derive(Debug)]
pub struct Direct {
    file: File,
    offset: u64,
}

impl Direct {
    /// Makes the file, and opens it for direct writes. A file system without them answers `EINVAL`.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        drop(ZeroFilled::create(path, ZeroFilled::SIZE)?);
        let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::DSYNC;
        let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
        Ok(Self {
            file: OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open(path)?,
            offset: 0,
        })
    }

    /// Writes the next blocks, and returns when they are on the device.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write_durably(&mut self, blocks: &Aligned) -> io::Result<()> {
        let count = blocks.bytes().len() as u64;
        if self.offset + count > ZeroFilled::SIZE {
            self.offset = 0;
        }
        self.file.write_all_at(blocks.bytes(), self.offset)?;
        self.offset += count;
        Ok(())
    }
}

/// Whole blocks that start at a multiple of the block size in memory, as direct writes want them.
#[derive(Debug)]
pub struct Aligned {
    memory: Vec<u8>,
    start: usize,
    size: usize,
}

impl Aligned {
    /// At least so many bytes that are not zero.
    #[must_use]
    pub fn new(size: usize) -> Self {
        let size = size.next_multiple_of(BLOCK_BYTES);
        let memory = vec![0xa5; size + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self {
            memory,
            start,
            size,
        }
    }

    /// The blocks.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory
            .get(self.start..self.start + self.size)
            .unwrap_or(&[])
    }
}

/// Durable events a second when `events` of them share one write and one flush ideally.
///
/// # Errors
///
/// Those of the file system.
pub fn durable_events(
    file: &mut ZeroFilled,
    payload_bytes: usize,
    events: usize,
    budget: Duration,
) -> io::Result<f64> {
    let bytes = vec![0xa5; (payload_bytes + FRAME_OVERHEAD_BYTES) * events];
    rate(budget, || {
        file.write_durably(&bytes)?;
        Ok(events as u64)
    })
}

/// The same through direct writes of whole blocks.
///
/// # Errors
///
/// Those of the file system.
pub fn direct_events(
    file: &mut Direct,
    payload_bytes: usize,
    events: usize,
    budget: Duration,
) -> io::Result<f64> {
    let blocks = Aligned::new((payload_bytes + FRAME_OVERHEAD_BYTES) * events);
    rate(budget, || {
        file.write_durably(&blocks)?;
        Ok(events as u64)
    })
}

/// Bytes a second of plain copies between two areas of memory that no cache holds.
#[must_use]
pub fn memory_copy(budget: Duration) -> f64 {
    const SIZE: usize = 64 << 20;
    let source = vec![0xa5_u8; SIZE];
    let mut target = vec![0x5a_u8; SIZE];
    let copied = rate(budget, || {
        black_box(&mut target).copy_from_slice(black_box(&source));
        Ok::<_, std::convert::Infallible>(SIZE as u64)
    });
    match copied {
        Ok(rate) => rate,
        Err(never) => match never {},
    }
}

/// Events a second that are copied into a buffer of 1 MiB and get a CRC-32.
#[must_use]
pub fn copy_and_checksum(payload: &[u8], budget: Duration) -> f64 {
    let mut buffer = Vec::with_capacity(1 << 20);
    let events = rate(budget, || {
        buffer.clear();
        Ok::<_, std::convert::Infallible>(fill(&mut buffer, payload))
    });
    match events {
        Ok(rate) => rate,
        Err(never) => match never {},
    }
}

/// Events a second that are copied, get a CRC-32 and are handed to the operating system 1 MiB at a time.
///
/// # Errors
///
/// Those of the file system.
pub fn buffered_events(file: &mut ZeroFilled, payload: &[u8], budget: Duration) -> io::Result<f64> {
    let mut buffer = Vec::with_capacity(1 << 20);
    rate(budget, || {
        buffer.clear();
        let events = fill(&mut buffer, payload);
        file.write(&buffer)?;
        Ok(events)
    })
}

/// Fills what the buffer has room for with frames; says with how many.
fn fill(buffer: &mut Vec<u8>, payload: &[u8]) -> u64 {
    let mut events = 0;
    while buffer.len() + FRAME_OVERHEAD_BYTES + payload.len() <= buffer.capacity() {
        let crc = crc32fast::hash(black_box(payload));
        let mut header = [0; FRAME_OVERHEAD_BYTES];
        header
            .iter_mut()
            .zip(crc.to_le_bytes())
            .for_each(|(header, crc)| *header = crc);
        buffer.extend_from_slice(&header);
        buffer.extend_from_slice(payload);
        events += 1;
    }
    black_box(buffer);
    events
}

/// Bytes a second of one pass over a file, 1 MiB at a time.
///
/// # Errors
///
/// Those of the file system.
pub fn sequential_read(path: &Path) -> io::Result<f64> {
    let file = File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    let start = std::time::Instant::now();
    loop {
        let count = file.read_at(&mut buffer, offset)?;
        if count == 0 {
            return Ok(crate::measure::per_second(offset, start.elapsed()));
        }
        black_box(&buffer);
        offset += count as u64;
    }
}

/// Seconds to read `count` pieces of `size` bytes at scattered places of a file, in order of offset.
///
/// # Errors
///
/// Those of the file system.
pub fn scattered_read(path: &Path, count: usize, size: usize) -> io::Result<f64> {
    let file = File::open(path)?;
    let places = file.metadata()?.len().saturating_sub(size as u64).max(1);
    let mut random = Random::new(7);
    let mut offsets: Vec<u64> = (0..count).map(|_| random.next() % places).collect();
    offsets.sort_unstable();
    crate::measure::seconds(|| {
        let mut pieces = Vec::with_capacity(count);
        for offset in &offsets {
            let mut piece = vec![0; size];
            file.read_exact_at(&mut piece, *offset)?;
            pieces.push(piece);
        }
        Ok(pieces)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_filled_file_starts_over_at_its_end() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("floor");
        let mut file = ZeroFilled::create(&path, 10_000).expect("a file");
        for _ in 0..3 {
            file.write_durably(&[1; 4000]).expect("a write");
        }
        let bytes = std::fs::read(&path).expect("the file");
        assert_eq!(
            (bytes.len(), bytes.iter().filter(|byte| **byte == 1).count()),
            (10_000, 8000)
        );
    }

    #[test]
    fn aligned_blocks_are_whole_and_start_at_a_block() {
        for size in [1, 4096, 4097] {
            let blocks = Aligned::new(size);
            assert!(blocks.bytes().len() >= size);
            assert_eq!(blocks.bytes().len() % BLOCK_BYTES, 0);
            assert_eq!(blocks.bytes().as_ptr().align_offset(BLOCK_BYTES), 0);
        }
    }
}
