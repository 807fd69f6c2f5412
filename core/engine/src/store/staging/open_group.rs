//! [`OpenGroup`]: the batches gathered to be written together.

use std::io;

use super::{due::Due, group::Group};
use crate::{format::record, storage::File, store::published::durable::Entries, sync::Arc};

/// The unit in which the operating system writes files.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// A buffer has room for this many bytes from the start.
const BUFFER_BYTES_MIN: usize = 16 << 10;

/// A group that still gathers.
pub(crate) struct OpenGroup {
    pub(crate) group: Arc<Group>,
    /// The offset of its first byte.
    pub(crate) start: u64,
    /// Its bytes, after `lead` bytes that give them the same alignment in memory as in the file's pages: a storage can
    /// then write them directly, without a copy.
    pub(crate) bytes: Vec<u8>,
    lead: usize,
    pub(crate) entries: Entries,
    /// Whether one of its batches requests a flush.
    pub(crate) sync: bool,
    /// How many threads wait for it.
    pub(crate) waiters: u32,
    /// The urgency with which the flusher thread was requested to lead it.
    pub(crate) urgency: FlushUrgency,
    /// The header of its last record.
    pub(crate) last: Option<Held>,
    /// The deadline for flushing it, if one of its batches sets one.
    pub(crate) due: Option<Due>,
}

/// How soon the flusher thread has to lead a group that no thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum FlushUrgency {
    #[default]
    Nothing,
    /// After a short while, so that more can gather.
    Soon,
    Now,
}

/// A frame whose header may still change.
pub(crate) struct Held {
    /// Where it is in the bytes of the open group.
    pub(crate) at: usize,
    pub(crate) offset: u64,
    pub(crate) header: record::Header,
}

impl OpenGroup {
    /// A group that begins at `start`, and gathers in a buffer that was used before.
    pub(crate) fn new(start: u64, mut bytes: Vec<u8>) -> Self {
        if bytes.capacity() < BUFFER_BYTES_MIN {
            bytes = Vec::with_capacity(BUFFER_BYTES_MIN);
        }
        let in_memory = bytes.as_ptr().addr() as u64 % PAGE_BYTES;
        let lead = (PAGE_BYTES + start % PAGE_BYTES - in_memory) % PAGE_BYTES;
        let lead = usize::try_from(lead).expect("less than a page");
        // The bytes before the group are never written, so their old content may stay.
        bytes.truncate(lead);
        bytes.resize(lead, 0);
        Self {
            group: Arc::default(),
            start,
            bytes,
            lead,
            entries: Entries::default(),
            sync: false,
            waiters: 0,
            urgency: FlushUrgency::Nothing,
            last: None,
            due: None,
        }
    }

    /// The offset after its last byte.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.staged().len() as u64
    }

    /// The bytes to write at `start`.
    pub(crate) fn staged(&self) -> &[u8] {
        &self.bytes[self.lead..]
    }

    /// Writes the current watermark into the last record's header, just before the group is written. Records staged
    /// during the flush of the previous group got an older watermark. With this, a later record proves every group of
    /// the log durable, except the last one.
    pub(crate) fn prove(&mut self, synced_end: u64, salt: u32) {
        let Some(last) = self
            .last
            .as_mut()
            .filter(|last| last.header.watermark < synced_end)
        else {
            return;
        };
        last.header.watermark = synced_end;
        self.bytes[last.at..last.at + record::HEADER_BYTES]
            .copy_from_slice(&last.header.encode(salt, last.offset));
    }

    /// Writes it into a file with space up to `capacity`; if one of its batches requests a flush, flushes it together
    /// with earlier unflushed bytes.
    pub(crate) fn write_to(
        &mut self,
        file: &dyn File,
        capacity: u64,
        earlier_unsynced: bool,
    ) -> Result<(), Unwritten> {
        // The operating system then needn't read the last page before it changes part of it.
        if self.end().next_multiple_of(PAGE_BYTES) <= capacity {
            self.pad();
        }
        let written = match (self.sync, earlier_unsynced) {
            (true, false) => file.write_durable_at(self.start, self.staged()),
            _ => file.write_at(self.start, self.staged()),
        };
        written.map_err(Unwritten::of_these_bytes)?;
        if self.sync && earlier_unsynced {
            file.sync().map_err(Unwritten::Failed)
        } else {
            Ok(())
        }
    }

    /// Fills up the last page with zeros.
    fn pad(&mut self) {
        let end = self.end();
        let padding =
            usize::try_from(end.next_multiple_of(PAGE_BYTES) - end).expect("less than a page");
        self.bytes.resize(self.bytes.len() + padding, 0);
    }
}

/// Why a group was not written.
pub(crate) enum Unwritten {
    /// The device is full. Bytes before the group are unaffected.
    Full(io::Error),
    /// Another error: it is unknown which bytes are on the device.
    Failed(io::Error),
}

impl Unwritten {
    /// The outcome of an error that affects the group's bytes alone: they were written without a flush, or flushed when
    /// all earlier bytes were flushed already.
    fn of_these_bytes(error: io::Error) -> Self {
        if is_full(&error) {
            Self::Full(error)
        } else {
            Self::Failed(error)
        }
    }
}

/// Whether an error means that the device is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
