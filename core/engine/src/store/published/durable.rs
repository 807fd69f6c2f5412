//! [`Durable`]: the state that readers see. The writer adds a group to it once the group is acknowledged; recovery and
//! followers add records from the log, by the same code.

use std::ops::Range;

use crate::sync::Arc;

use crate::{
    Error, Kind, Label, Position, Result, SegmentId, StreamId, checksum,
    format::{
        index::{ControlRow, DROPPED, KeyRow, Labelled},
        record::{self, Flags},
        segment,
    },
    index::{directory::Directory, memory::MemoryIndex, stream::Stream},
    log::{frame::Frame, segment::Segment, stream_postings::StreamPostings},
};

/// The published state of the log: every segment, every stream, and the index of the active segment.
pub(crate) struct Durable {
    pub(crate) directory: Directory,
    /// By id. The last is the active one, or the last that a reader knows of.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) active_index: MemoryIndex,
    /// Where the published records of the active segment end.
    pub(crate) end: u64,
    /// The position that the next record gets.
    pub(crate) next_position: u64,
    pub(crate) last_time_ms: u64,
    /// How many truncations and deletions were published since the open: only these lead to segments without live
    /// records.
    pub(crate) given_up: u64,
    /// The highest epoch of a writer that wrote to it.
    pub(crate) epoch: u32,
    /// The store's key of the hashes of idempotency keys.
    pub(crate) hash_key: [u8; 16],
}

/// The `control` of a record that is counted but not indexed: a newer build's, of a kind that may be skipped.
const SKIPPED: u32 = u32::MAX;

/// A record of the active segment as the index needs it. `control` is the place of its control row among those staged
/// with it, plus 1; 0 for data; `u32::MAX` for one that is skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) stream: u32,
    pub(crate) sequence: u32,
    pub(crate) time_delta_ms: u32,
    pub(crate) control: u32,
}

/// Records that are published together.
#[derive(Default, Debug)]
pub(crate) struct Entries {
    pub(crate) records: Vec<Entry>,
    pub(crate) controls: Vec<ControlRow>,
    pub(crate) keys: Vec<KeyRow>,
    /// The labels of data records, each with the offset of its record; in the order of `records`.
    pub(crate) labels: Vec<(u64, Label)>,
}

impl Durable {
    /// A stream that exists, with its number.
    pub(crate) fn existing(&self, stream: &StreamId) -> Result<(u32, &Stream)> {
        let number = self.directory.number(stream);
        let found = number.and_then(|number| Some((number, self.directory.stream(number)?)));
        found
            .filter(|(_, stream)| !stream.deleted)
            .ok_or_else(|| Error::not_found(format!("no stream {stream}")))
    }

    /// The log before its first segment.
    pub(crate) fn new(hash_key: [u8; 16]) -> Self {
        Self {
            directory: Directory::new(&hash_key),
            segments: Vec::new(),
            active_index: MemoryIndex::default(),
            end: segment::DATA_START,
            next_position: 1,
            last_time_ms: 0,
            given_up: 0,
            epoch: 0,
            hash_key,
        }
    }

    /// The hash of an idempotency key in this store.
    pub(crate) fn key_hash(&self, key: &[u8]) -> u64 {
        checksum::key_hash(&self.hash_key, key)
    }

    /// The last segment, which is not sealed while a writer has the store.
    pub(crate) fn active(&self) -> Option<&Arc<Segment>> {
        self.segments.last()
    }

    /// The segment with a number, or the pack that replaces it.
    pub(crate) fn segment(&self, id: SegmentId) -> Option<&Arc<Segment>> {
        segment_of(&self.segments, id)
    }

    /// Where the published records of a segment end.
    pub(crate) fn end_of(&self, segment: &Segment) -> u64 {
        segment
            .trailer()
            .map_or(self.end, |trailer| trailer.data_end)
    }

    /// The segment that holds a position that was published.
    pub(crate) fn segment_of_position(&self, position: u64) -> Option<&Arc<Segment>> {
        if position == 0 || position >= self.next_position {
            return None;
        }
        let index = self
            .segments
            .partition_point(|segment| segment.header.base_position <= position);
        self.segments.get(index.checked_sub(1)?)
    }

    /// The location of a data record, as far as it is known without I/O.
    pub(crate) fn spot(&self, source: u32, ordinal: u32) -> Result<Spot> {
        let run = self.run(source, ordinal)?;
        let known = self.known_offset(&run, ordinal)?;
        Ok(Spot {
            run,
            ordinal,
            known,
        })
    }

    /// The run of a stream's records that this one belongs to: those in the same segment.
    pub(crate) fn run(&self, source: u32, ordinal: u32) -> Result<Run> {
        let unknown = || {
            let message = format!(
                "the directory names no segment for record {ordinal} of stream number {source}"
            );
            Error::damaged(message)
        };
        let stream = self.directory.stream(source).ok_or_else(unknown)?.id;
        let (id, ordinals) = self
            .directory
            .segment_of(source, ordinal)
            .ok_or_else(unknown)?;
        let segment = self.segment(id).ok_or_else(|| missing(id))?;
        Ok(Run {
            segment: segment.clone(),
            end: self.end_of(segment),
            stream,
            source,
            ordinals,
        })
    }

    /// The offset of a record of a run, as far as it is known without I/O: `None` in a sealed segment, whose index block has it.
    pub(crate) fn known_offset(&self, run: &Run, ordinal: u32) -> Result<Option<u64>> {
        if run.segment.trailer().is_some() {
            return Ok(None);
        }
        let offset = self.active_index.posting(run.source, ordinal);
        offset.map(Some).ok_or_else(|| run.lacks(ordinal))
    }

    /// Publishes records of the active segment: they end at `end`.
    pub(crate) fn publish(&mut self, entries: Entries, end: u64) -> Result<()> {
        let Some(active) = self.active().cloned() else {
            return Err(missing(SegmentId(0)));
        };
        let segment = active.id();
        let mut controls = entries.controls;
        let mut labels = entries.labels.into_iter().peekable();
        for entry in &entries.records {
            let time_ms = active.header.base_time_ms + u64::from(entry.time_delta_ms);
            self.active_index.add_record(entry.offset, time_ms);
            self.last_time_ms = time_ms;
            if entry.control == SKIPPED {
                continue;
            }
            match (entry.control as usize).checked_sub(1) {
                None => {
                    let ordinal =
                        self.directory
                            .apply_data(entry.stream, entry.sequence, segment)?;
                    if !self
                        .active_index
                        .add_data(entry.stream, ordinal, entry.offset)
                    {
                        return Err(active.damaged(
                            entry.offset,
                            "the index of the segment contradicts the directory",
                        ));
                    }
                    while let Some((offset, label)) =
                        labels.next_if(|(offset, _)| *offset == entry.offset)
                    {
                        self.active_index.add_label(Labelled {
                            label,
                            stream: entry.stream,
                            ordinal,
                            offset,
                        });
                    }
                }
                Some(index) => {
                    let control = &mut controls[index];
                    self.directory.complete_control(control);
                    self.directory.apply_control(control, segment)?;
                    self.given_up +=
                        u64::from(matches!(control.kind, Kind::TRUNCATE | Kind::DELETE));
                    self.active_index.add_control(*control);
                }
            }
        }
        entries
            .keys
            .into_iter()
            .for_each(|key| self.active_index.add_key(key));
        self.next_position += entries.records.len() as u64;
        self.end = end;
        Ok(())
    }

    /// Publishes one whole batch read from the active segment. An error if it contradicts the log before it; the state
    /// is then partly updated and must not be used.
    pub(crate) fn publish_frames(&mut self, segment: &Segment, frames: &[Frame]) -> Result<()> {
        let mut entries = Entries::default();
        for frame in frames {
            let header = &frame.header;
            if !header.has_position() {
                if header.kind == record::MARK {
                    let epoch = frame
                        .parts()
                        .and_then(|(_, payload)| record::engine::decode_mark(&payload));
                    self.epoch = self.epoch.max(epoch.unwrap_or(0));
                }
                self.end = frame.end();
                continue;
            }
            let damaged = |what: &str| Err(segment.damaged(frame.offset, what));
            let mut entry = Entry {
                offset: frame.offset,
                stream: header.stream,
                sequence: header.sequence,
                time_delta_ms: header.time_delta_ms,
                control: 0,
            };
            if header.is_skipped() {
                entry.control = SKIPPED;
            } else if !header.kind.is_data() {
                let Some(control) = self.control_of(frame) else {
                    return damaged("engine record with impossible content");
                };
                entries.controls.push(control);
                entry.control = u32::try_from(entries.controls.len()).expect("a batch is bounded");
            }
            if !frame.has_possible_extension() {
                return damaged("record with impossible extension fields");
            }
            let labels = frame.labels().map(|label| (frame.offset, label));
            entries.labels.extend(labels);
            if header.flags.has(Flags::KEY) {
                let Some(key) = frame.key() else {
                    return damaged("record with an impossible key");
                };
                entries.keys.push(KeyRow {
                    stream: header.stream,
                    hash: self.key_hash(key),
                    offset: frames[0].offset,
                });
            }
            entries.records.push(entry);
            // One by one, because an engine record must be validated against the state just before it.
            let end = frame.end();
            self.publish(std::mem::take(&mut entries), end)
                .map_err(|error| {
                    Error::new(
                        error.kind(),
                        format!("{}: offset {}: {error}", segment.name, frame.offset),
                    )
                })?;
        }
        Ok(())
    }

    /// The control row of an engine record, whose position is the next; `None` when this engine can't have written the record.
    pub(crate) fn control_of(&self, frame: &Frame) -> Option<ControlRow> {
        let header = &frame.header;
        let body = record::Body::decode(header.flags, &frame.body)?;
        let mut control = ControlRow {
            sequence: header.sequence,
            offset: frame.offset,
            ..ControlRow::new(header.kind, header.stream)
        };
        let last = |number: u32| {
            self.directory
                .stream(number)
                .map(|stream| stream.last_sequence())
        };
        let possible = match header.kind {
            Kind::CREATE => {
                control.id = record::engine::decode_create(body.payload)?;
                true
            }
            Kind::FORK => {
                (control.id, control.other) = record::engine::decode_fork(body.payload)?;
                header.sequence <= last(control.other)?
            }
            Kind::REDACT => {
                (control.target, control.id) = record::engine::decode_redact(body.payload)?;
                let is_before = control
                    .redacted()
                    .all(|at| Position(at).plain().0 < self.next_position);
                is_before && last(header.stream).is_some()
            }
            Kind::SNAPSHOT => {
                control.target = self.next_position;
                header.sequence <= last(header.stream)?
            }
            Kind::TRUNCATE => header.sequence <= last(header.stream)?,
            Kind::DELETE => last(header.stream).is_some(),
            _ => false,
        };
        possible.then_some(control)
    }
}

/// Records of a stream that are in one segment.
pub(crate) struct Run {
    pub(crate) segment: Arc<Segment>,
    /// Where the published records of the segment end.
    pub(crate) end: u64,
    /// The stream that was given the records, and its number.
    pub(crate) stream: StreamId,
    pub(crate) source: u32,
    ordinals: Range<u32>,
}

impl Run {
    pub(crate) fn has(&self, source: u32, ordinal: u32) -> bool {
        self.source == source && self.ordinals.contains(&ordinal)
    }

    /// The offset of a record whose offset may be known already. It may read the segment's index block, of which `postings` keeps
    /// what the next record needs.
    pub(crate) fn offset(
        &self,
        ordinal: u32,
        known: Option<u64>,
        Postings(kept): &mut Postings,
    ) -> Result<u64> {
        if let Some(offset) = known {
            return Ok(offset);
        }
        let seed = self.segment.seed;
        if kept
            .as_ref()
            .is_none_or(|(segment, known)| (*segment, known.stream()) != (seed, self.source))
        {
            let found = self.segment.postings_of(self.source)?;
            *kept = found.map(|postings| (seed, postings));
        }
        let offset = match kept {
            Some((_, postings)) => postings.offset(ordinal)?,
            None => None,
        };
        match offset {
            Some(DROPPED) => Err(self.dropped(ordinal)),
            Some(offset) => Ok(offset),
            None => Err(self.lacks(ordinal)),
        }
    }

    /// The error for a record that a compaction in another process dropped, while this read, which started before, still
    /// referred to it.
    fn dropped(&self, ordinal: u32) -> Error {
        Error::not_found(format!(
            "{}: record {ordinal} of stream number {} was given up by a compaction after it was truncated or \
             deleted; read again",
            self.segment.name, self.source
        ))
    }

    fn lacks(&self, ordinal: u32) -> Error {
        let end = self.segment.trailer().map_or(0, |trailer| trailer.data_end);
        let source = self.source;
        let message = format!("the index lacks record {ordinal} of stream number {source}");
        self.segment.damaged(end, message)
    }
}

/// The one of some segments, by rising number, that has a number, or the pack that replaces it.
pub(crate) fn segment_of(segments: &[Arc<Segment>], id: SegmentId) -> Option<&Arc<Segment>> {
    let after = segments.partition_point(|segment| segment.id() <= id);
    let found = segments.get(after.checked_sub(1)?)?;
    (id <= found.last_id()).then_some(found)
}

/// The postings of one stream in a sealed segment, kept from one lookup to the next. The segment is identified by its
/// seed, because a pack may have the number of another segment.
#[derive(Default)]
pub(crate) struct Postings(Option<(u32, StreamPostings)>);

/// Where a data record is: found under the directory's lock, looked up without it.
pub(crate) struct Spot {
    run: Run,
    ordinal: u32,
    known: Option<u64>,
}

impl Spot {
    pub(crate) fn segment(&self) -> &Segment {
        &self.run.segment
    }

    /// The record's offset. It may read the segment's index block.
    pub(crate) fn offset(&self) -> Result<u64> {
        self.run
            .offset(self.ordinal, self.known, &mut Postings::default())
    }

    /// The record.
    pub(crate) fn frame(&self) -> Result<Frame> {
        let Run {
            segment,
            end,
            source,
            ..
        } = &self.run;
        let frame = segment.frame(self.offset()?, *end)?;
        if frame.header.stream != *source || !frame.header.kind.is_data() {
            let message = format!("expected a record of stream number {source}");
            return Err(segment.damaged(frame.offset, message));
        }
        Ok(frame)
    }
}

pub(crate) fn missing(id: SegmentId) -> Error {
    Error::damaged(format!("segment {id} is missing from the store"))
}
