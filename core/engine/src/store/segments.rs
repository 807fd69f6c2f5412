//! Segments: making one, turning to it, sealing the one before, and the spare made ahead of need.

use std::sync::{Arc, MutexGuard};

use super::{background::Chores, options::Preallocation, shared::Shared};
use crate::{
    Durability, Error, Result, SegmentId,
    format::{
        files,
        index::{TRAILER_BYTES, Trailer},
        segment::{HEADER_BYTES, Header},
    },
    index::{
        memory::{Copied, MemoryIndex},
        streams::Streams,
    },
    limits,
    log::segment::Segment,
    storage::{Access, Allocation, File, Storage},
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
}

/// A segment that was just made.
pub(crate) struct Made {
    pub(crate) segment: Arc<Segment>,
    pub(crate) capacity: u64,
}

impl Shared {
    pub(crate) fn next_header(&self, active: &Segment, end: u64, position: u64, last_time_ms: u64) -> Header {
        Header {
            store: self.identity.store,
            segment: SegmentId(active.id().0 + 1),
            salt: random_salt(self),
            base_position: position,
            base_time_ms: self.options.host.now_ms().max(last_time_ms),
            predecessor_end: end,
            predecessor_salt: active.header.salt,
            next_stream: self.durable().directory.next_number(),
        }
    }

    /// Makes the next segment, then seals the active one. In this order a sealed segment that nothing follows
    /// is damage; a crash in between leaves one that the next open seals.
    pub(crate) fn turn(
        &self,
        active: &Arc<Segment>,
        header: Header,
        end: u64,
        unsynced: bool,
        needed: u64,
    ) -> std::result::Result<Made, Failure> {
        if unsynced {
            active
                .file
                .sync()
                .map_err(|error| Failure::Poisoning(Error::from_io(error, format!("flushing {}", active.name))))?;
        }
        let made = self.make_segment(header, end, needed)?;
        let sealed = {
            let durable = self.durable();
            let (streams, index) = (durable.directory.streams(), durable.active_index.copy());
            let index = encode_index(active, streams, index, end, header.next_stream);
            seal(&*self.storage, active, end, &index).map_err(Failure::Poisoning)?
        };
        let mut durable = self.durable.write().expect("no panic under this lock");
        if let Some(last) = durable.segments.last_mut() {
            *last = Arc::new(sealed);
        }
        durable.segments.push(made.segment.clone());
        durable.active_index = MemoryIndex::default();
        durable.end = HEADER_BYTES as u64;
        Ok(made)
    }

    /// Makes a segment of at least `needed` bytes, under its final name once its header is durable.
    fn make_segment(&self, header: Header, log_bytes: u64, needed: u64) -> std::result::Result<Made, Failure> {
        let name = files::segment_name(header.segment);
        let unfinished = format!("{name}{}", files::UNFINISHED);
        let (spare, capacity) = self.take_spare(needed, &unfinished);
        let place = |error, what: &str| Error::from_io(error, format!("{}: {what} {name}", self.storage.describe()));
        let make = || -> Result<(Arc<dyn File>, u64)> {
            let (file, capacity) = match spare {
                Some(file) => (file, capacity),
                None => {
                    let capacity = self.segment_bytes(header.segment, log_bytes).max(needed);
                    let file = self.storage.create(&unfinished).map_err(|error| place(error, "making"))?;
                    self.allocate(&*file, &name, 0, capacity)?;
                    (file, capacity)
                }
            };
            file.write_at(0, &header.encode()).map_err(|error| place(error, "writing the header of"))?;
            file.sync().map_err(|error| place(error, "flushing the header of"))?;
            Ok((file, capacity))
        };
        let (file, capacity) = make().map_err(|error| {
            let _ = self.storage.remove(&unfinished);
            Failure::Harmless(error)
        })?;
        // From here on nobody can tell whether the name is there after a crash. If it is, the segment before
        // ends where this one says, so nothing may be appended to it any more.
        self.storage.rename(&unfinished, &name).map_err(|error| Failure::Poisoning(place(error, "naming")))?;
        self.storage.sync_dir().map_err(|error| Failure::Poisoning(place(error, "flushing the folder with")))?;
        Ok(Made { segment: Arc::new(Segment::unsealed(header, file)), capacity })
    }

    /// The size of a new segment: as large as what is before it, within bounds.
    fn segment_bytes(&self, segment: SegmentId, last_bytes: u64) -> u64 {
        let before = last_bytes.saturating_mul(u64::from(segment.0.saturating_sub(1)).min(4));
        before.next_power_of_two().max(FIRST_SEGMENT_BYTES).min(self.options.segment_bytes_max)
    }

    fn allocation(&self) -> Option<Allocation> {
        match (self.options.preallocation, self.options.durability) {
            (Preallocation::None, _) => None,
            (Preallocation::Auto, Durability::Sync) => Some(Allocation::ZeroFill),
            (Preallocation::Auto, _) => Some(Allocation::Reserve),
        }
    }

    pub(crate) fn allocate(&self, file: &dyn File, name: &str, from: u64, to: u64) -> Result<()> {
        let Some(allocation) = self.allocation() else { return Ok(()) };
        file.allocate(from, to, allocation).map_err(|error| {
            let _ = file.set_len(from);
            let mebibytes = (to - from) >> 20;
            Error::from_io(error, format!("{}: making room for {mebibytes} MiB in {name}", self.storage.describe()))
        })
    }

    pub(crate) fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().expect("no panic under this lock")
    }

    /// The spare, if there is one that is large enough. It gets another name before the keeper can make the
    /// next one under its old name.
    fn take_spare(&self, needed: u64, name: &str) -> (Option<Arc<dyn File>>, u64) {
        let mut spare = self.spare();
        while matches!(*spare, Spare::Making) {
            spare = self.spare_changed.wait(spare).expect("no panic under this lock");
        }
        match std::mem::take(&mut *spare) {
            Spare::Ready(file, capacity) if capacity >= needed && self.storage.rename(files::SPARE, name).is_ok() => {
                (Some(file), capacity)
            }
            Spare::Ready(..) => {
                let _ = self.storage.remove(files::SPARE);
                (None, 0)
            }
            _ => (None, 0),
        }
    }

    /// Makes the next segment's space ahead of need. A failure costs time later, nothing else.
    pub(crate) fn make_spare(&self) {
        if self.allocation() != Some(Allocation::ZeroFill) {
            return;
        }
        match &mut *self.spare() {
            spare @ Spare::None => *spare = Spare::Making,
            Spare::Making | Spare::Ready(..) => return,
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
            .filter(|file| self.allocate(&**file, files::SPARE, 0, capacity).is_ok());
        *self.spare() = match made {
            Some(file) => Spare::Ready(file, capacity),
            None => {
                let _ = self.storage.remove(files::SPARE);
                Spare::None
            }
        };
        self.spare_changed.notify_all();
    }

    /// Has the keeper do chores; without threads they are left, and cost time later.
    pub(crate) fn keep(&self, chores: Chores) {
        if self.options.host.has_threads() {
            self.background.keep(chores);
        }
    }

    /// Makes the first segment of a store and the writer's state for it.
    pub(crate) fn first_segment(&self) -> Result<(Arc<Segment>, u64)> {
        let header = Header {
            store: self.identity.store,
            segment: SegmentId(1),
            salt: random_salt(self),
            base_position: 1,
            base_time_ms: self.options.host.now_ms(),
            predecessor_end: 0,
            predecessor_salt: 0,
            next_stream: 1,
        };
        let made = self.make_segment(header, 0, 0).map_err(Failure::into_error)?;
        Ok((made.segment, made.capacity))
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

fn random_salt(shared: &Shared) -> u32 {
    let mut bytes = [0; 4];
    shared.options.host.random(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// The index block and trailer of a segment whose records end at `end`.
pub(crate) fn encode_index(segment: &Segment, streams: &Streams, index: Copied, end: u64, next_stream: u32) -> Vec<u8> {
    let id_of = |number| streams.get(number).map_or([0; 16], |stream| *stream.id.as_bytes());
    let times = index.times_ms.unwrap_or((segment.header.base_time_ms, segment.header.base_time_ms));
    let records = index.records;
    index.parts(id_of).encode(Trailer {
        segment: segment.id(),
        salt: segment.header.salt,
        data_end: end,
        base_position: segment.header.base_position,
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
    })
}

/// Ends a segment with its index block and trailer, durably, and opens it as sealed.
pub(crate) fn seal(storage: &dyn Storage, segment: &Segment, end: u64, index: &[u8]) -> Result<Segment> {
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

const _: () = assert!(limits::SEGMENT_BYTES_MIN > (HEADER_BYTES + TRAILER_BYTES) as u64 + 2 * SLACK_BYTES);
