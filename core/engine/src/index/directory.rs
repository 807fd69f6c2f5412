//! [`Directory`]: every stream of the store, and how its sequences map to records.
//!
//! Its state is a function of the log's records, applied in order. It makes no decisions of its own, so that recovery
//! and the writer reach the same state by the same code.

use std::{ops, sync::Arc};

use super::{
    ids::Ids,
    lineage,
    redacted::Redacted,
    stream::{Forked, Location, SnapshotRef, Stream, contradiction, next_ordinal},
    streams::Streams,
};
use crate::{
    Kind, Result, SegmentId, StreamId,
    format::index::{ControlRow, StreamRow},
    limits,
};

/// Every stream of the store by number and by id; and which records are redacted.
pub(crate) struct Directory {
    streams: Streams,
    ids: Ids,
    redacted: Arc<Redacted>,
}

impl Directory {
    /// A directory without streams. Ids are hashed with the store's secret.
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        Self {
            streams: Streams::default(),
            ids: Ids::new(secret),
            redacted: Arc::default(),
        }
    }

    /// The directory that a checkpoint says.
    pub(crate) fn from_parts(secret: &[u8; 16], streams: Streams, redacted: Redacted) -> Self {
        Self {
            ids: Ids::of(secret, streams.ids(), streams.len()),
            streams,
            redacted: Arc::new(redacted),
        }
    }

    /// The number of a stream, deleted ones included.
    pub(crate) fn number(&self, id: &StreamId) -> Option<u32> {
        self.ids.find(id, |number| self.streams.id_bytes(number))
    }

    pub(crate) fn stream(&self, number: u32) -> Option<&Stream> {
        self.streams.get(number)
    }

    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The number that the next new stream gets.
    pub(crate) fn next_number(&self) -> u32 {
        u32::try_from(self.streams.len() + 1).expect("the number of streams is limited")
    }

    /// The redacted positions: a shared set, which grows with later redactions.
    pub(crate) fn redacted(&self) -> &Arc<Redacted> {
        &self.redacted
    }

    fn stream_mut(&mut self, number: u32) -> Result<&mut Stream> {
        self.streams
            .get_mut(number)
            .ok_or_else(|| contradiction(format!("stream number {number} was never created")))
    }

    /// Applies a data record: the stream's next ordinal. An error when the record contradicts the log before.
    pub(crate) fn apply_data(
        &mut self,
        number: u32,
        sequence: u32,
        segment: SegmentId,
    ) -> Result<u32> {
        let stream = self.stream_mut(number)?;
        let expected = stream.last_sequence().saturating_add(1);
        if sequence != expected || stream.deleted || u64::from(sequence) > limits::SEQUENCE_MAX {
            let state = if stream.deleted {
                ", which was deleted"
            } else {
                ""
            };
            let message = format!(
                "stream {}{state}: expected sequence {expected}, found {sequence}",
                stream.id
            );
            return Err(contradiction(message));
        }
        let ordinal = next_ordinal(stream, 1)?;
        stream.ordinals = ordinal;
        stream.begin_run(segment, ordinal);
        Ok(ordinal)
    }

    /// Advances a stream by `count` data records that are lost. Returns the ordinal of the first.
    pub(crate) fn apply_lost(
        &mut self,
        number: u32,
        count: u32,
        segment: SegmentId,
    ) -> Result<u32> {
        let stream = self.stream_mut(number)?;
        let last = u64::from(stream.last_sequence()) + u64::from(count);
        if stream.deleted || last > limits::SEQUENCE_MAX {
            return Err(contradiction(format!(
                "stream {}: {count} more records can't be lost",
                stream.id
            )));
        }
        let first = stream.ordinals.saturating_add(1);
        stream.ordinals = next_ordinal(stream, count)?;
        stream.begin_run(segment, first);
        Ok(first)
    }

    /// As [`apply_lost`](Self::apply_lost), for lost records that the last truncation removed, so that no sequence maps
    /// to them. Returns the ordinal of the first.
    pub(crate) fn apply_truncated(
        &mut self,
        number: u32,
        count: u32,
        segment: SegmentId,
    ) -> Result<u32> {
        let stream = self.stream_mut(number)?;
        if stream.tail_first_ordinal != stream.ordinals.saturating_add(1) {
            return Err(contradiction(format!(
                "stream {}: it was given records since its truncation",
                stream.id
            )));
        }
        let (sequence, tail) = (
            stream.tail_first_sequence,
            stream.tail_first_ordinal.saturating_add(count),
        );
        let first = self.apply_lost(number, count, segment)?;
        let stream = self.stream_mut(number)?;
        (stream.tail_first_sequence, stream.tail_first_ordinal) = (sequence, tail);
        Ok(first)
    }

    /// Applies the row of a sealed segment: its data records of one stream, all at once.
    pub(crate) fn apply_row(&mut self, row: &StreamRow, segment: SegmentId) -> Result<()> {
        let stream = self.stream_mut(row.stream)?;
        if stream.id.as_bytes() != &row.id
            || stream.runs.last().is_some_and(|run| run.segment > segment)
        {
            return Err(contradiction(format!(
                "the index row of stream number {} is of another stream",
                row.stream
            )));
        }
        if stream.runs.last().is_none_or(|run| run.segment != segment) {
            if row.first_ordinal != stream.ordinals.saturating_add(1) {
                let message = format!(
                    "stream {}: segment {segment} begins with its record {}, expected {}",
                    stream.id,
                    row.first_ordinal,
                    stream.ordinals.saturating_add(1)
                );
                return Err(contradiction(message));
            }
            stream.begin_run(segment, row.first_ordinal);
        }
        let last = u64::from(row.first_ordinal) + u64::from(row.count.saturating_sub(1));
        let more =
            u32::try_from(last.saturating_sub(u64::from(stream.ordinals))).unwrap_or(u32::MAX);
        stream.ordinals = next_ordinal(stream, more)?;
        Ok(())
    }

    /// Fills in the fields of a control row that come from the directory's state before it.
    pub(crate) fn complete_control(&self, control: &mut ControlRow) {
        match control.kind {
            Kind::TRUNCATE => {
                control.ordinal = self
                    .stream(control.stream)
                    .map_or(0, |stream| stream.ordinals)
            }
            Kind::SNAPSHOT => {
                (control.other, control.ordinal) = self
                    .resolve(control.stream, control.sequence)
                    .unwrap_or((0, 0))
            }
            _ => {}
        }
    }

    /// Turns a stream without records of its own into a fork of an unknown parent at a sequence, or raises the sequence
    /// if it is one already. Returns whether it could be one.
    pub(crate) fn fork_of_unknown(&mut self, number: u32, at: u32, location: Location) -> bool {
        let stream = self.stream_mut(number).ok().filter(|stream| {
            // A snapshot at sequence 0 doesn't tell where the stream begins.
            let is_new = stream.tail_first_sequence == 1
                && stream.lineage.is_none()
                && stream
                    .snapshots
                    .iter()
                    .all(|snapshot| snapshot.sequence == 0);
            let was_lower = stream.forked.is_some_and(|forked| {
                forked.parent == 0 && forked.at < at && stream.tail_first_sequence == forked.at + 1
            });
            stream.ordinals == 0 && (is_new || was_lower) && !stream.deleted && at != u32::MAX
        });
        let Some(stream) = stream else { return false };
        let snapshots = std::mem::take(&mut stream.snapshots);
        *stream = Stream {
            snapshots,
            ..Stream::fork_of_unknown(stream.id, at, location)
        };
        true
    }

    /// Applies a completed control row of the segment. An error when it contradicts the log before.
    pub(crate) fn apply_control(&mut self, control: &ControlRow, segment: SegmentId) -> Result<()> {
        let location = Location {
            segment,
            offset: control.offset,
        };
        match control.kind {
            Kind::CREATE => self.add_stream(
                control.stream,
                Stream::new(StreamId::from_bytes(control.id)),
            ),
            Kind::FORK => self.apply_fork(control, location),
            Kind::TRUNCATE => self.apply_truncate(control),
            Kind::SNAPSHOT => {
                let stream = self.stream_mut(control.stream)?;
                let snapshot = SnapshotRef {
                    sequence: control.sequence,
                    source: control.other,
                    ordinal: control.ordinal,
                    position: control.target,
                    location,
                };
                let at = stream.snapshots.partition_point(|other| {
                    (other.sequence, other.location) <= (control.sequence, location)
                });
                stream.snapshots.insert(at, snapshot);
                Ok(())
            }
            Kind::DELETE => {
                self.stream_mut(control.stream)?.deleted = true;
                Ok(())
            }
            Kind::REDACT => {
                self.redacted.insert_all(control.redacted());
                Ok(())
            }
            kind => Err(contradiction(format!(
                "engine record of unknown kind {}",
                kind.0
            ))),
        }
    }

    fn add_stream(&mut self, number: u32, stream: Stream) -> Result<()> {
        let expected = self.next_number();
        if number != expected || number > limits::STREAMS_MAX {
            return Err(contradiction(format!(
                "new stream has number {number}, expected {expected}"
            )));
        }
        if self.number(&stream.id).is_some() {
            return Err(contradiction(format!(
                "stream {} is created twice",
                stream.id
            )));
        }
        self.ids.insert(stream.id.as_bytes(), number);
        self.streams.push(stream);
        Ok(())
    }

    fn apply_fork(&mut self, control: &ControlRow, location: Location) -> Result<()> {
        let (parent_number, at) = (control.other, control.sequence);
        if parent_number == 0 && at != u32::MAX {
            return self.add_stream(
                control.stream,
                Stream::fork_of_unknown(StreamId::from_bytes(control.id), at, location),
            );
        }
        let parent = self
            .stream(parent_number)
            .filter(|_| parent_number < control.stream)
            .ok_or_else(|| {
                contradiction(format!(
                    "fork of stream number {parent_number}, which was never created"
                ))
            })?;
        if at == u32::MAX {
            return Err(contradiction(format!(
                "fork of stream {} at sequence {at}",
                parent.id
            )));
        }
        // A row of the parent in the same sealed segment may come after this engine record, so the tail counts as
        // reaching `at`; that it did was checked when the fork was made.
        let lineage = parent.lineage_up_to(parent_number, at)?;
        let child = Stream {
            tail_first_sequence: at + 1,
            lineage,
            forked: Some(Forked {
                parent: parent_number,
                at,
                location,
            }),
            ..Stream::new(StreamId::from_bytes(control.id))
        };
        self.add_stream(control.stream, child)
    }

    fn apply_truncate(&mut self, control: &ControlRow) -> Result<()> {
        let number = control.stream;
        let stream = self.stream_mut(number)?;
        // The stream rows of a sealed segment are applied after its control rows, so the count comes from the control
        // row.
        let counted = control
            .ordinal
            .saturating_add(1)
            .checked_sub(stream.tail_first_ordinal);
        let last = counted.and_then(|count| (stream.tail_first_sequence - 1).checked_add(count));
        if last.is_none_or(|last| control.sequence > last) {
            let message = format!(
                "stream {}: truncation after {}, beyond its end",
                stream.id, control.sequence
            );
            return Err(contradiction(message));
        }
        stream.lineage = stream.lineage_up_to(number, control.sequence)?;
        stream.tail_first_sequence = control.sequence.saturating_add(1);
        stream.tail_first_ordinal = control.ordinal.saturating_add(1);
        Ok(())
    }

    /// Maps a sequence of a stream to its record: source stream and ordinal. O(log ranges).
    pub(crate) fn resolve(&self, number: u32, sequence: u32) -> Option<(u32, u32)> {
        let stream = self.stream(number)?;
        let range = lineage::range_at(stream.tail(number), stream.lineage.as_ref(), sequence)?;
        Some((
            range.source,
            range
                .first_ordinal
                .checked_add(sequence - range.first_sequence)?,
        ))
    }

    /// The segment that holds a data record.
    pub(crate) fn segment_of(
        &self,
        source: u32,
        ordinal: u32,
    ) -> Option<(SegmentId, ops::Range<u32>)> {
        let runs = &self.stream(source)?.runs;
        let next = runs.partition_point(|run| run.first_ordinal <= ordinal);
        let run = runs.get(next.checked_sub(1)?)?;
        let end = runs.get(next).map_or(u32::MAX, |next| next.first_ordinal);
        Some((run.segment, run.first_ordinal..end))
    }

    /// The newest snapshot of a stream at or before a sequence, its own or inherited, that is not one of `passed_over`.
    pub(crate) fn latest_snapshot(
        &self,
        number: u32,
        at_or_before: u32,
        passed_over: &[Location],
    ) -> Option<SnapshotRef> {
        let mut bound = at_or_before.min(self.stream(number)?.last_sequence());
        let mut best: Option<SnapshotRef> = None;
        let mut before: Option<Location> = None;
        let mut stream = self.stream(number);
        while let Some(current) = stream {
            let end = current
                .snapshots
                .partition_point(|snapshot| snapshot.sequence <= bound);
            let better =
                |snapshot: &&SnapshotRef| best.is_none_or(|best| snapshot.sequence > best.sequence);
            let found = current.snapshots[..end]
                .iter()
                .rev()
                .take_while(better)
                .find(|snapshot| {
                    before.is_none_or(|limit| snapshot.location < limit)
                        && !passed_over.contains(&snapshot.location)
                        && self.resolve(number, snapshot.sequence).unwrap_or((0, 0))
                            == (snapshot.source, snapshot.ordinal)
                });
            best = found.copied().or(best);
            before = current.forked.map(|forked| forked.location);
            bound = current.forked.map_or(bound, |forked| bound.min(forked.at));
            stream = current.forked.and_then(|forked| self.stream(forked.parent));
        }
        best
    }
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
