//! Segments: making one, turning to it, sealing the one before, and the spare made ahead of need.

use std::io;

use super::{
    background::MaintenanceTasks, group::is_full, options::Preallocation, recover, shared::Shared,
};
use crate::{
    Durability, Error, Host, Result, SegmentId,
    format::{
        Features, WRITER_VERSION,
        files::{self, Identity},
        index::{TRAILER_BYTES, Trailer},
        segment::{COPY_BYTES, HEADER_BYTES, Header},
    },
    index::{
        memory::{Copied, MemoryIndex},
        streams::Streams,
    },
    limits,
    log::segment::Segment,
    storage::{Access, Allocation, File, Storage},
    sync::{Arc, MutexGuard},
};

/// The first segments of a store are so large; later ones grow with it.
pub(crate) const FIRST_SEGMENT_BYTES: u64 = 4 << 20;
/// Of a segment, so much is kept free beside the records and their index.
pub(crate) const SLACK_BYTES: u64 = 4096;

/// The segment made ahead of need.
#[derive(Default)]
pub(crate) enum Spare {
    #[default]
    None,
    Making,
    Ready(Arc<dyn File>, u64),
    /// The store is being closed.
    Over,
}

/// A segment that was just made.
pub(crate) struct Made {
    pub(crate) segment: Arc<Segment>,
    pub(crate) capacity: u64,
    /// Whether there was no room for as much as a segment usually has.
    pub(crate) is_short: bool,
}

impl Shared {
    /// The header of the segment that follows the active one, but for the CRC of the index block between them.
    pub(crate) fn next_header(
        &self,
        active: &Segment,
        end: u64,
        position: u64,
        last_time_ms: u64,
    ) -> Header {
        Header {
            segment: SegmentId(active.id().0 + 1),
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

    /// Makes the next segment, then seals the active one, of which all is flushed. In this order a sealed segment that nothing
    /// follows is damage; a crash in between leaves one that the next open seals.
    pub(crate) fn rotate_to(
        &self,
        active: &Arc<Segment>,
        header: Header,
        end: u64,
        needed: u64,
    ) -> std::result::Result<Made, Failure> {
        // Nothing is staged or written meanwhile, so the index is what it will be.
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
        let mut durable = self.durable.write().expect("no panic under this lock");
        if let Some(last) = durable.segments.last_mut() {
            *last = Arc::new(sealed);
        }
        durable.segments.push(made.segment.clone());
        durable.active_index = MemoryIndex::default();
        durable.end = HEADER_BYTES as u64;
        Ok(made)
    }

    /// Makes sure that there is room for the index block of a segment: once the next segment has its name, it is too late to
    /// find out that there is none. Zeros behind the records are what any segment may have there.
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
        // It was filled with zeros, unless a close gave that room back.
        if self.allocation() == Some(Allocation::ZeroFill) && length >= end + bytes {
            return Ok(());
        }
        recover::cut(active, end, end + bytes).map_err(|error| {
            if length < end + bytes {
                // Gives back what it took of the room. If that fails, the file is longer, and that is all.
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
            // It is no part of the store. If it can't be removed now, the next opening removes it.
            let _ = self.storage.remove(&unfinished);
            Failure::Harmless(error)
        };
        let (file, capacity, is_short) = make().map_err(forget)?;
        // From here on nobody can tell whether the name is there after a crash. If it is, the segment before
        // ends where this one says, so nothing may be appended to it any more. But a folder that is full, and has no such
        // name, will have none.
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

    /// The size of a new segment: as large as what is before it, within bounds.
    fn segment_bytes(&self, segment: SegmentId, last_bytes: u64) -> u64 {
        let before = last_bytes.saturating_mul(u64::from(segment.0.saturating_sub(1)).min(4));
        before
            .next_power_of_two()
            .max(FIRST_SEGMENT_BYTES)
            .min(self.options.segment_bytes_max)
    }

    fn allocation(&self) -> Option<Allocation> {
        match (self.options.preallocation, self.options.durability) {
            (Preallocation::None, _) => None,
            (Preallocation::Auto, Durability::Sync) => Some(Allocation::ZeroFill),
            (Preallocation::Auto, _) => Some(Allocation::Reserve),
        }
    }

    /// Makes room in a file, of which all is flushed.
    pub(crate) fn allocate(&self, file: &dyn File, from: u64, to: u64) -> io::Result<()> {
        let Some(allocation) = self.allocation() else {
            return Ok(());
        };
        file.allocate(from, to, allocation).inspect_err(|_| {
            // Gives back what it took of the room. If that fails, the file is longer, and that is all.
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

    pub(crate) fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().expect("no panic under this lock")
    }

    /// The spare, if there is one that is large enough. It gets another name before the keeper can make the
    /// next one under its old name.
    fn take_spare(&self, needed: u64, name: &str) -> (Option<Arc<dyn File>>, u64) {
        let mut spare = self.spare();
        while matches!(*spare, Spare::Making) {
            spare = self
                .spare_changed
                .wait(spare)
                .expect("no panic under this lock");
        }
        match std::mem::take(&mut *spare) {
            Spare::Ready(file, capacity)
                if capacity >= needed && self.storage.rename(files::SPARE, name).is_ok() =>
            {
                (Some(file), capacity)
            }
            Spare::Ready(..) => {
                self.remove_spare();
                (None, 0)
            }
            _ => (None, 0),
        }
    }

    /// It is no part of the store. If it can't be removed now, the next opening removes it.
    fn remove_spare(&self) {
        let _ = self.storage.remove(files::SPARE);
    }

    /// No spare is made from now on, and there is none.
    pub(crate) fn end_spares(&self) {
        let mut spare = self.spare();
        while matches!(*spare, Spare::Making) {
            spare = self
                .spare_changed
                .wait(spare)
                .expect("no panic under this lock");
        }
        if let Spare::Ready(..) = std::mem::replace(&mut *spare, Spare::Over) {
            self.remove_spare();
        }
    }

    /// Makes the next segment's space ahead of need. A failure costs time later, nothing else.
    pub(crate) fn make_spare(&self) {
        if self.allocation() != Some(Allocation::ZeroFill) {
            return;
        }
        match &mut *self.spare() {
            spare @ Spare::None => *spare = Spare::Making,
            Spare::Making | Spare::Ready(..) | Spare::Over => return,
        }
        let active = self.durable().active().map(|active| active.id());
        let capacity = active.map_or(FIRST_SEGMENT_BYTES, |id| {
            let end = self.durable().end;
            self.segment_bytes(SegmentId(id.0 + 1), end.next_power_of_two())
        });
        let made = self
            .storage
            .create(files::SPARE)
            .ok()
            .filter(|file| self.allocate(&**file, 0, capacity).is_ok());
        *self.spare() = match made {
            Some(file) => Spare::Ready(file, capacity),
            None => {
                self.remove_spare();
                Spare::None
            }
        };
        self.spare_changed.notify_all();
    }

    /// Has the keeper do chores; without threads they are left, and cost time later.
    pub(crate) fn keep(&self, chores: MaintenanceTasks) {
        if self.options.host.has_threads() {
            self.background.keep(chores);
        }
    }

    /// Makes the first segment of a store and the writer's state for it.
    pub(crate) fn first_segment(&self) -> Result<Made> {
        let header = first_header(&self.identity, &*self.options.host, self.epoch);
        let needed = HEADER_BYTES as u64 + 2 * SLACK_BYTES;
        self.make_segment(header, 0, needed)
            .map_err(Failure::into_error)
    }
}

/// Why turning to a new segment failed.
pub(crate) enum Failure {
    /// Nothing changed; it can be tried again.
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

/// The header of the first segment of a store, with a salt and a uuid that no other has.
pub(crate) fn first_header(identity: &Identity, host: &dyn Host, epoch: u32) -> Header {
    let (mut salt, mut uuid) = ([0; 4], [0; 16]);
    host.random(&mut salt);
    host.random(&mut uuid);
    Header {
        store: identity.store,
        segment: SegmentId(1),
        salt: u32::from_le_bytes(salt),
        uuid,
        base_position: 1,
        base_time_ms: host.now_ms().min(limits::TIME_MS_MAX),
        predecessor_end: 0,
        predecessor_salt: 0,
        predecessor_index_crc: 0,
        next_stream: 1,
        features: Features::default(),
        epoch,
        writer_version: WRITER_VERSION,
        hash_key: identity.hash_key,
    }
}

/// An index block with its trailer, and the CRC that the next segment's header repeats.
pub(crate) struct EncodedIndex {
    pub(crate) bytes: Vec<u8>,
    pub(crate) crc: u32,
}

/// The index block and trailer of a segment whose records end at `end`, as the directory has it now.
pub(crate) fn encode_index(
    segment: &Segment,
    streams: &Streams,
    index: Copied,
    end: u64,
    next_stream: u32,
) -> EncodedIndex {
    let id_of = |number| {
        streams
            .get(number)
            .map_or([0; 16], |stream| *stream.id.as_bytes())
    };
    let times = index
        .times_ms
        .unwrap_or((segment.header.base_time_ms, segment.header.base_time_ms));
    let records = index.records;
    let header = &segment.header;
    let trailer = Trailer {
        segment: segment.id(),
        salt: header.salt,
        data_end: end,
        base_position: header.base_position,
        next_position: header.base_position + u64::from(records),
        records,
        time_min_ms: times.0,
        time_max_ms: times.1,
        stream_rows: 0,
        postings: 0,
        samples: 0,
        steps: 0,
        keys: 0,
        next_stream,
        index_crc: 0,
        repaired: false,
    };
    let (bytes, crc) = index.parts(id_of).encode(trailer, header);
    EncodedIndex { bytes, crc }
}

/// Ends a segment with its index block and trailer, durably, and opens it as sealed.
pub(crate) fn seal(
    storage: &dyn Storage,
    segment: &Segment,
    end: u64,
    index: &[u8],
) -> Result<Segment> {
    let failed = |error| Error::from_io(error, format!("sealing {}", segment.name));
    let file = storage.open(&segment.name, Access::Write).map_err(failed)?;
    file.write_at(end, index).map_err(failed)?;
    file.set_len(end + index.len() as u64).map_err(failed)?;
    file.sync().map_err(failed)?;
    let sealed = Segment::open(storage, segment.id(), Access::Read, &segment.header.store)?;
    if sealed.trailer().is_none() {
        return Err(segment.damaged(end, "the index block just written does not read back"));
    }
    Ok(sealed)
}

const _: () = assert!(
    limits::SEGMENT_BYTES_MIN
        > (HEADER_BYTES + COPY_BYTES + TRAILER_BYTES) as u64 + 2 * SLACK_BYTES
);
