//! Making a segment, and sealing the one before it.

use std::io;

use super::shared::Shared;
use crate::{
    Durability, Error, Result, SegmentId,
    format::{
        files,
        index::TRAILER_BYTES,
        segment::{COPY_BYTES, DATA_START, HEADER_BYTES, Header},
    },
    index::memory::MemoryIndex,
    limits,
    log::segment::Segment,
    storage::{Allocation, File},
    store::{
        options::Preallocation,
        segments::seal::{encode_index, first_header, seal},
        staging::open_group::is_full,
    },
    sync::{self, Arc},
};

/// The size of a store's first segments; later ones grow with the store.
pub(crate) const FIRST_SEGMENT_BYTES: u64 = 4 << 20;

/// This much of a segment is kept free beside the records and their index.
pub(crate) const SLACK_BYTES: u64 = 4096;

/// A segment that was just made.
pub(crate) struct Made {
    pub(crate) segment: Arc<Segment>,
    pub(crate) capacity: u64,
    /// Whether the device had no space for a segment of the usual size.
    pub(crate) is_short: bool,
}

impl Shared {
    /// The header of the segment after the active one, without the CRC of the active segment's index block.
    pub(crate) fn next_header(
        &self,
        active: &Segment,
        end: u64,
        position: u64,
        last_time_ms: u64,
    ) -> Header {
        Header {
            segment: SegmentId(active.id().0.saturating_add(1)),
            base_position: position,
            base_time_ms: self
                .options
                .host
                .now_ms()
                .max(last_time_ms)
                .min(limits::TIME_MS_MAX),
            predecessor_end: end,
            predecessor_salt: active.header.salt,
            next_stream: self.durable().directory.next_number(),
            ..first_header(&self.identity, &*self.options.host, self.epoch)
        }
    }

    /// Makes the next segment, then seals the active one, which is flushed. With this order a sealed segment without a
    /// successor always means damage; a crash between the two steps leaves an unsealed segment with a successor, which
    /// the next open seals.
    pub(crate) fn rotate_to(
        &self,
        active: &Arc<Segment>,
        header: Header,
        end: u64,
        needed: u64,
    ) -> std::result::Result<Made, Failure> {
        // No batch is staged or written meanwhile, so the index is final.
        let index = {
            let durable = self.durable();
            let (streams, copied) = (durable.directory.streams(), durable.active_index.copy());
            encode_index(active, streams, copied, end, header.next_stream)
        };
        self.reserve_index(active, end, index.bytes.len() as u64)?;
        let header = Header {
            predecessor_index_crc: index.crc,
            ..header
        };
        let made = self.make_segment(header, end, needed)?;
        let sealed = seal(&*self.storage, active, end, &index.bytes).map_err(Failure::Poisoning)?;
        let mut durable = sync::write(&self.durable);
        if let Some(last) = durable.segments.last_mut() {
            *last = Arc::new(sealed);
        }
        durable.segments.push(made.segment.clone());
        durable.active_index = MemoryIndex::default();
        durable.end = DATA_START;
        Ok(made)
    }

    /// Reserves space for the index block of a segment: once the next segment has its name, it would be too late to
    /// find the device full. Any segment may have zeros after its records.
    fn reserve_index(
        &self,
        active: &Segment,
        end: u64,
        bytes: u64,
    ) -> std::result::Result<(), Failure> {
        let failed = |error| {
            Error::from_io(
                error,
                format!("making room for the index block of {}", active.name),
            )
        };
        let length = active
            .file
            .len()
            .map_err(|error| Failure::Harmless(failed(error)))?;
        // The space is filled with zeros already, unless a close freed it.
        if self.allocation() == Some(Allocation::ZeroFill) && length >= end + bytes {
            return Ok(());
        }
        let reserved = match active.zero(end, end + bytes) {
            Err(error) if is_full(&error) => {
                // As when a segment is extended.
                self.give_up_spare();
                active.zero(end, end + bytes)
            }
            reserved => reserved,
        };
        reserved.map_err(|error| {
            if length < end + bytes {
                // Frees the partly allocated space. If that fails, the file is longer, without other harm.
                let _ = active.file.set_len(length);
            }
            if is_full(&error) {
                Failure::Harmless(failed(error))
            } else {
                Failure::Poisoning(failed(error))
            }
        })
    }

    /// Makes a segment of at least `needed` bytes, under its final name once its header is durable.
    fn make_segment(
        &self,
        header: Header,
        log_bytes: u64,
        needed: u64,
    ) -> std::result::Result<Made, Failure> {
        let name = files::segment_name(header.segment);
        let unfinished = format!("{name}{}", files::UNFINISHED);
        let (spare, capacity) = self.take_spare(needed, &unfinished);
        let usual = self.segment_bytes(header.segment, log_bytes).max(needed);
        let place = |error, what: &str| {
            Error::from_io(error, format!("{}: {what} {name}", self.storage.describe()))
        };
        let make = || -> Result<(Arc<dyn File>, u64, bool)> {
            let (file, capacity, is_short) = match spare {
                Some(file) => (file, capacity, false),
                None => {
                    let file = self
                        .storage
                        .create(&unfinished)
                        .map_err(|error| place(error, "making"))?;
                    let capacity = match self.allocate(&*file, 0, usual) {
                        Err(error) if is_full(&error) && needed < usual => {
                            self.allocate(&*file, 0, needed).map(|()| needed)
                        }
                        made => made.map(|()| usual),
                    };
                    let capacity =
                        capacity.map_err(|error| self.no_room(error, &name, 0, needed))?;
                    (file, capacity, capacity < usual)
                }
            };
            file.write_at(0, &header.encode_both())
                .map_err(|error| place(error, "writing the header of"))?;
            file.sync()
                .map_err(|error| place(error, "flushing the header of"))?;
            Ok((file, capacity, is_short))
        };
        let forget = |error| {
            // It is not part of the store. If it can't be removed now, the next open removes it.
            let _ = self.storage.remove(&unfinished);
            Failure::Harmless(error)
        };
        let (file, capacity, is_short) = make().map_err(forget)?;
        // From here on it is unknown whether the name survives a crash. If it does, the previous segment ends where
        // this one's header says, so nothing may be appended to it any more. Except that if the folder is full and
        // doesn't contain the name, it won't after a crash either.
        if let Err(error) = self.storage.rename(&unfinished, &name) {
            let has_none = || {
                self.storage
                    .list()
                    .is_ok_and(|names| !names.contains(&name))
            };
            let is_harmless = is_full(&error) && has_none();
            let error = place(error, "naming");
            return Err(if is_harmless {
                forget(error)
            } else {
                Failure::Poisoning(error)
            });
        }
        self.storage
            .sync_dir()
            .map_err(|error| Failure::Poisoning(place(error, "flushing the folder with")))?;
        Ok(Made {
            segment: Arc::new(Segment::unsealed(header, file)),
            capacity,
            is_short,
        })
    }

    /// The size of a new segment: the size of the log before it, within bounds.
    pub(super) fn segment_bytes(&self, segment: SegmentId, last_bytes: u64) -> u64 {
        let before = last_bytes.saturating_mul(u64::from(segment.0.saturating_sub(1)).min(4));
        before
            .next_power_of_two()
            .max(FIRST_SEGMENT_BYTES)
            .min(self.options.segment_bytes_max)
    }

    pub(super) fn allocation(&self) -> Option<Allocation> {
        match (self.options.preallocation, self.options.durability) {
            (Preallocation::None, _) => None,
            (Preallocation::Auto, Durability::Sync) => Some(Allocation::ZeroFill),
            (Preallocation::Auto, _) => Some(Allocation::Reserve),
        }
    }

    /// Preallocates space in a file, which is flushed.
    pub(crate) fn allocate(&self, file: &dyn File, from: u64, to: u64) -> io::Result<()> {
        let Some(allocation) = self.allocation() else {
            return Ok(());
        };
        file.allocate(from, to, allocation).inspect_err(|_| {
            // Frees the partly allocated space. If that fails, the file is longer, without other harm.
            let _ = file.set_len(from);
        })
    }

    pub(crate) fn no_room(&self, error: io::Error, name: &str, from: u64, to: u64) -> Error {
        let kibibytes = (to - from).div_ceil(1 << 10);
        Error::from_io(
            error,
            format!(
                "{}: making room for {kibibytes} KiB in {name}",
                self.storage.describe()
            ),
        )
    }

    /// Makes the first segment of a store and the writer's state for it.
    pub(crate) fn first_segment(&self) -> Result<Made> {
        let header = first_header(&self.identity, &*self.options.host, self.epoch);
        let needed = DATA_START + 2 * SLACK_BYTES;
        self.make_segment(header, 0, needed)
            .map_err(Failure::into_error)
    }
}

/// Why a rotation failed.
pub(crate) enum Failure {
    /// Nothing changed; it can be retried.
    Harmless(Error),
    /// A flush or a write of the log failed.
    Poisoning(Error),
}

impl Failure {
    fn into_error(self) -> Error {
        match self {
            Self::Harmless(error) | Self::Poisoning(error) => error,
        }
    }
}

const _: () = assert!(
    limits::SEGMENT_BYTES_MIN
        > (HEADER_BYTES + COPY_BYTES + TRAILER_BYTES) as u64 + 2 * SLACK_BYTES
);
