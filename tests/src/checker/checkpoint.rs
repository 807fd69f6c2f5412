//! CHECKPOINT, against the records that it was derived from.

use std::collections::BTreeSet;

use super::{
    Files, Problem,
    builder::Builder,
    bytes::Cursor,
    header::RECORDS_BEGIN,
    index::{self, TRAILER_BYTES, Trailer},
    meaning::{Meaning, StreamFacts},
    packed::Row,
    record::LogRecord,
    segment::{Log, SegmentFacts},
};

const NAME: &str = "CHECKPOINT";
const HEADER_BYTES: usize = 32;
const PIECE_STREAMS: usize = 1024;

/// A checkpoint that checks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckpointFacts {
    /// The segment that the log stood in.
    pub segment: u32,
    /// The offset where the log stood.
    pub offset: u64,
    /// How many records of that segment it covers.
    pub records: u32,
    /// The position after the last that it covers.
    pub next_position: u64,
    /// The epoch of the writer that wrote it.
    pub epoch: u32,
    salt: u32,
    time_first_ms: u64,
    time_last_ms: u64,
    streams: Vec<Stream>,
    ranges: Vec<Range>,
    /// The number of each 64 positions, and a bit for each that is redacted.
    redacted: Vec<(u64, u64)>,
    active_index: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    first_sequence: u32,
    stream: u32,
    first_ordinal: u32,
    below: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stream {
    id: [u8; 16],
    ordinals: u32,
    tail_sequence: u32,
    tail_ordinal: u32,
    below: u32,
    /// Segment and first ordinal.
    runs: Vec<(u32, u32)>,
    snapshots: Vec<Snapshot>,
    /// Parent, sequence, segment, offset.
    forked_from: Option<(u32, u32, u32, u64)>,
    deleted: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Snapshot {
    sequence: u32,
    stream: u32,
    ordinal: u32,
    position: u64,
    segment: u32,
    offset: u64,
}

/// The checkpoint of a store; `None` when there is none that checks, which is no problem.
pub(super) fn read(files: &Files, store: &[u8; 16]) -> Result<Option<CheckpointFacts>, Problem> {
    let Some(bytes) = files.get(NAME) else {
        return Ok(None);
    };
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Ok(None);
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&header[..24]);
    hasher.update(rest);
    let mut cursor = Cursor::new(NAME, 0, header);
    let checks = cursor.expect(b"RUNLOGCP", "magic").is_ok()
        && cursor
            .expect(&1_u32.to_le_bytes(), "format version")
            .is_ok()
        && cursor.zeros(4).is_ok()
        && cursor.u64()? == rest.len() as u64
        && cursor.u32()? == hasher.finalize()
        && cursor.zeros(4).is_ok();
    if !checks {
        return Ok(None);
    }
    let mut cursor = Cursor::new(NAME, HEADER_BYTES as u64, rest);
    cursor.expect(store, "store id")?;
    let found = CheckpointFacts {
        segment: cursor.u32()?,
        salt: cursor.u32()?,
        offset: cursor.u64()?,
        records: cursor.u32()?,
        time_first_ms: cursor.u64()?,
        time_last_ms: cursor.u64()?,
        next_position: cursor.u64()?,
        epoch: cursor.u32()?,
        streams: pieces(&mut cursor)?,
        ranges: list(&mut cursor, 16, range)?,
        redacted: list(&mut cursor, 16, |cursor| Ok((cursor.u64()?, cursor.u64()?)))?,
        active_index: list(&mut cursor, 1, Cursor::u8)?,
    };
    cursor.end()?;
    Ok(Some(found))
}

fn list<'a, T>(
    cursor: &mut Cursor<'a>,
    size: usize,
    read: impl Fn(&mut Cursor<'a>) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    let count = cursor.count(size)?;
    (0..count).map(|_| read(cursor)).collect()
}

fn range(cursor: &mut Cursor<'_>) -> Result<Range, Problem> {
    Ok(Range {
        first_sequence: cursor.u32()?,
        stream: cursor.u32()?,
        first_ordinal: cursor.u32()?,
        below: cursor.u32()?,
    })
}

/// The streams of all pieces.
fn pieces(cursor: &mut Cursor<'_>) -> Result<Vec<Stream>, Problem> {
    let count = cursor.count(8)?;
    let mut streams = Vec::new();
    for piece in 1..=count {
        let at = cursor.offset() + 8;
        let length = cursor.count(1)?;
        let mut inside = Cursor::new(NAME, at, cursor.take(length)?);
        let found = piece_streams(&mut inside)?;
        inside.end()?;
        let is_last = piece == count;
        if found.is_empty()
            || found.len() > PIECE_STREAMS
            || found.len() < PIECE_STREAMS && !is_last
        {
            let message = format!("piece {piece} of {count} has {} streams", found.len());
            return Err(cursor.problem(message));
        }
        streams.extend(found);
    }
    Ok(streams)
}

fn piece_streams(cursor: &mut Cursor<'_>) -> Result<Vec<Stream>, Problem> {
    let mut size = || cursor.u32().map(|count| count as usize);
    let (streams, runs, snapshots, forks) = (size()?, size()?, size()?, size()?);
    let ids = cursor.take(streams.saturating_mul(16))?;
    let flags = cursor.take(streams)?;
    let mut list = |count, least_width| numbers(cursor, count, least_width);
    let ordinals = list(streams, 0)?;
    let tail_sequences = list(streams, 0)?;
    let tail_ordinals = list(streams, 0)?;
    let below = list(streams, 0)?;
    let run_counts = list(streams, 0)?;
    let snapshot_counts = list(streams, 0)?;
    let mut runs = list(runs, 1)?.into_iter().zip(list(runs, 1)?);
    let snapshot_lists = (0..7).map(|_| list(snapshots, 1));
    let snapshot_lists = snapshot_lists.collect::<Result<Vec<_>, _>>()?;
    let mut snapshots = (0..snapshots).map(|place| {
        let field = |list: usize| snapshot_lists[list][place];
        Snapshot {
            sequence: field(0),
            stream: field(1),
            ordinal: field(2),
            position: u64::from(field(3)) + (u64::from(field(4)) << 32),
            segment: field(5),
            offset: u64::from(field(6)) * 8,
        }
    });
    let fork_lists = (0..4).map(|_| list(forks, 1));
    let fork_lists = fork_lists.collect::<Result<Vec<_>, _>>()?;
    let mut forks = (0..forks).map(|place| {
        let field = |list: usize| fork_lists[list][place];
        (field(0), field(1), field(2), u64::from(field(3)) * 8)
    });
    let mut found = Vec::new();
    for (place, id) in ids.as_chunks().0.iter().enumerate() {
        let flags = flags[place];
        let stream = Stream {
            id: *id,
            ordinals: ordinals[place],
            tail_sequence: tail_sequences[place],
            tail_ordinal: tail_ordinals[place],
            below: below[place],
            runs: runs.by_ref().take(run_counts[place] as usize).collect(),
            snapshots: snapshots
                .by_ref()
                .take(snapshot_counts[place] as usize)
                .collect(),
            forked_from: if flags & 2 != 0 { forks.next() } else { None },
            deleted: flags & 1 != 0,
        };
        let is_whole = stream.runs.len() == run_counts[place] as usize
            && stream.snapshots.len() == snapshot_counts[place] as usize
            && stream.forked_from.is_some() == (flags & 2 != 0)
            && flags < 4;
        if !is_whole {
            return Err(cursor.problem(format!("stream {place} of a piece: {stream:?}")));
        }
        found.push(stream);
    }
    if (runs.next(), snapshots.next(), forks.next()) == (None, None, None) {
        Ok(found)
    } else {
        Err(cursor.problem("runs, snapshots or forks of no stream"))
    }
}

/// A list of so many numbers.
fn numbers(cursor: &mut Cursor<'_>, count: usize, least_width: u8) -> Result<Vec<u32>, Problem> {
    let least = cursor.u32()?;
    let width = cursor.u8()?;
    if ![0, 1, 2, 4].contains(&width) || width < least_width {
        return Err(cursor.problem(format!("numbers of {width} bytes")));
    }
    let width = usize::from(width);
    let bytes = cursor.take(count.saturating_mul(width))?;
    let number = |place: usize| {
        let stored = bytes[place * width..][..width].iter().rev();
        stored
            .fold(0, |sum: u32, byte| sum << 8 | u32::from(*byte))
            .wrapping_add(least)
    };
    Ok((0..count).map(number).collect())
}

impl CheckpointFacts {
    /// Whether the log stood at just that offset of a segment.
    pub(super) fn is_at(&self, segment: u32, offset: u64) -> bool {
        (self.segment, self.offset) == (segment, offset)
    }

    /// Compares it with what the records up to where it stands mean. `records` are those that have a position.
    pub(super) fn check(
        &self,
        segment: &SegmentFacts,
        log: &Log<'_>,
        records: &[LogRecord],
        builder: &Builder,
        meaning: &Meaning,
    ) -> Result<(), Problem> {
        let wrong = |message: String| Problem::new(NAME, 0, message);
        self.check_place(segment, log, records).map_err(wrong)?;
        let numbers: BTreeSet<u64> = self.redacted.iter().map(|(number, _)| *number).collect();
        let mut redacted = BTreeSet::new();
        for (number, word) in &self.redacted {
            let is_there = |bit: &u64| word & (1 << bit) != 0;
            let first = number
                .checked_mul(64)
                .ok_or_else(|| wrong(format!("redacted: word {number} is beyond any position")))?;
            redacted.extend((0..64).filter(is_there).map(|bit| first + bit));
        }
        let is_empty = |(_, word): &(u64, u64)| *word == 0;
        if redacted != meaning.redacted
            || numbers.len() != self.redacted.len()
            || self.redacted.iter().any(is_empty)
        {
            return Err(wrong(format!(
                "redacted: expected {:?}, found {:?}",
                meaning.redacted, self.redacted
            )));
        }
        if self.streams.len() != meaning.streams.len() {
            return Err(wrong(format!(
                "expected {} streams, found {}",
                meaning.streams.len(),
                self.streams.len()
            )));
        }
        for (place, (found, expected)) in self.streams.iter().zip(&meaning.streams).enumerate() {
            let number = u32::try_from(place + 1).expect("streams have 32-bit numbers");
            self.check_stream(number, found, expected, (log, records), meaning)
                .map_err(|message| wrong(format!("stream {number}: {message}")))?;
        }
        let (before, trailer) = self
            .active_index
            .split_last_chunk::<TRAILER_BYTES>()
            .ok_or_else(|| {
                wrong(format!(
                    "an index of {} bytes has no room for a trailer",
                    self.active_index.len()
                ))
            })?;
        let of = (segment.id, segment.salt, segment.base_position);
        let trailer = Trailer::read(NAME, before.len() as u64, trailer, of)?;
        let length = self.offset + self.active_index.len() as u64;
        let trailer =
            trailer.filter(|found| found.data_end == self.offset && found.length() == Some(length));
        let trailer = trailer.ok_or_else(|| {
            wrong("the trailer of the active segment's index is of another place".to_owned())
        })?;
        index::check_block(
            NAME,
            &self.active_index,
            segment,
            &trailer,
            builder,
            meaning,
        )
    }

    fn check_place(
        &self,
        segment: &SegmentFacts,
        log: &Log<'_>,
        records: &[LogRecord],
    ) -> Result<(), String> {
        let in_segment = &records[records.partition_point(|record| record.segment < segment.id)..];
        let last = in_segment.last();
        let next_position = last.map_or(segment.base_position, |last| last.position + 1);
        let expected = (segment.salt, in_segment.len() as u64, next_position);
        let found = (self.salt, u64::from(self.records), self.next_position);
        if expected != found {
            return Err(format!(
                "salt, records and next position: expected {expected:?}, found {found:?}"
            ));
        }
        if self.offset < RECORDS_BEGIN || last.is_some_and(|last| !last.is_batch_last()) {
            return Err("it stands within a batch".to_owned());
        }
        // The log's last record may be one that a pack left out.
        let packs = log
            .segments
            .iter()
            .take_while(|before| before.id < segment.id)
            .filter(|pack| pack.is_pack() && pack.next_position > pack.base_position);
        let ends = packs.map(|pack| pack.last_time_ms);
        let last = ends.chain(records.last().map(|record| record.time_ms));
        let expected = (
            in_segment
                .first()
                .map_or(self.time_first_ms, |record| record.time_ms),
            last.max().unwrap_or(self.time_last_ms),
        );
        let found = (self.time_first_ms, self.time_last_ms);
        if expected == found {
            Ok(())
        } else {
            Err(format!("times: expected {expected:?}, found {found:?}"))
        }
    }

    fn check_stream(
        &self,
        number: u32,
        found: &Stream,
        expected: &StreamFacts,
        (log, records): (&Log<'_>, &[LogRecord]),
        meaning: &Meaning,
    ) -> Result<(), String> {
        if (found.id, found.ordinals, found.deleted)
            != (expected.id, expected.given, expected.deleted)
        {
            return Err(format!(
                "id, ordinals or deletion: expected {expected:?}, found {found:?}"
            ));
        }
        self.check_runs(number, found, log, records, meaning)?;
        if let Some((parent, sequence, segment, offset)) = found.forked_from {
            // In a pack it is elsewhere than it was.
            let is_it = |record: &&LogRecord| record.kind == 131 && record.stream == number;
            let fork = match log.packed(segment) {
                Some(_) => records.iter().find(is_it),
                None => at(records, segment, offset),
            };
            let fork = fork.ok_or("forked from no record")?;
            let parent_found = fork
                .payload
                .get(16..20)
                .map(|bytes| bytes == parent.to_le_bytes());
            if (fork.kind, fork.stream, fork.sequence, parent_found)
                != (131, number, sequence, Some(true))
            {
                return Err(format!("forked from another record: {fork:?}"));
            }
        }
        if expected.deleted {
            return Ok(());
        }
        for snapshot in &found.snapshots {
            let packed = log.packed(snapshot.segment);
            let record = match packed {
                Some(_) => super::at_position(records, snapshot.position),
                None => at(records, snapshot.segment, snapshot.offset),
            };
            // A pack may have left it out since.
            if record.is_none()
                && packed.is_some_and(|pack| {
                    (pack.base_position..pack.next_position).contains(&snapshot.position)
                })
            {
                continue;
            }
            let record = record.ok_or("a snapshot that is no record")?;
            if (record.kind, record.sequence, record.position)
                != (129, snapshot.sequence, snapshot.position)
            {
                return Err(format!("a snapshot that is another record: {record:?}"));
            }
            if meaning.snapshot_of(record) != Some((snapshot.stream, snapshot.ordinal)) {
                return Err(format!(
                    "a snapshot of another record than that of position {}: {snapshot:?}",
                    record.position
                ));
            }
        }
        // Those that stand and were saved to this stream are all there; what is inherited is found by where it was forked.
        let own = expected
            .snapshots
            .values()
            .filter_map(|snapshot| super::at_position(records, snapshot.position));
        for record in own.filter(|record| record.stream == number) {
            let is_listed = |listed: &Snapshot| listed.position == record.position;
            if !found.snapshots.iter().any(is_listed) {
                return Err(format!(
                    "the snapshot of position {} is missing",
                    record.position
                ));
            }
        }
        let expected: Vec<_> = expected
            .positions
            .iter()
            .map(|position| meaning.given_at(*position))
            .collect();
        let resolved = self.resolve(number, found, expected.len())?;
        if resolved == expected {
            Ok(())
        } else {
            Err(format!(
                "records: expected {expected:?}, found {resolved:?}"
            ))
        }
    }

    /// The stream number and ordinal of each record of a stream.
    fn resolve(
        &self,
        number: u32,
        stream: &Stream,
        count_max: usize,
    ) -> Result<Vec<(u32, u32)>, String> {
        let tail = (u64::from(stream.ordinals) + 1).checked_sub(u64::from(stream.tail_ordinal));
        let tail = tail.ok_or("its tail begins behind its last ordinal")?;
        let mut end = u64::from(stream.tail_sequence) + tail;
        if end != count_max as u64 + 1 {
            return Err(format!(
                "expected {count_max} records, found {}",
                end.saturating_sub(1)
            ));
        }
        let mut reversed = Vec::new();
        let mut range = Range {
            first_sequence: stream.tail_sequence,
            stream: number,
            first_ordinal: stream.tail_ordinal,
            below: stream.below,
        };
        loop {
            let first = u64::from(range.first_sequence);
            if first > end || first == 0 {
                return Err(format!("a range from {first} to {end}"));
            }
            let ordinals = u64::from(range.first_ordinal)..;
            let ordinals = ordinals.take(usize::try_from(end - first).expect("at most count_max"));
            let ordinals: Option<Vec<_>> = ordinals
                .map(|ordinal| Some((range.stream, u32::try_from(ordinal).ok()?)))
                .collect();
            let ordinals = ordinals.ok_or_else(|| {
                format!(
                    "a range of ordinals from {} on, of {}",
                    range.first_ordinal,
                    end - first
                )
            })?;
            reversed.extend(ordinals.into_iter().rev());
            end = first;
            if range.below == 0 {
                break;
            }
            let place = range.below as usize - 1;
            let below = self
                .ranges
                .get(place)
                .ok_or_else(|| format!("no range {}", range.below))?;
            if below.first_sequence >= range.first_sequence {
                return Err("a range above the one that it is below of".to_owned());
            }
            range = below.clone();
        }
        if end != 1 {
            return Err(format!("its lowest range begins at {end}"));
        }
        reversed.reverse();
        Ok(reversed)
    }
}

impl CheckpointFacts {
    /// A run names a segment that holds data records of the stream, or did before it was replaced, and the ordinal of the first of
    /// them.
    fn check_runs(
        &self,
        number: u32,
        found: &Stream,
        log: &Log<'_>,
        records: &[LogRecord],
        meaning: &Meaning,
    ) -> Result<(), String> {
        let mut runs = found.runs.iter().peekable();
        let of_stream = records
            .iter()
            .filter(|record| record.kind < 128 && record.stream == number);
        let mut of_stream = of_stream.peekable();
        let before = |segment: &&SegmentFacts| segment.id <= self.segment;
        for segment in log.segments.iter().take_while(before) {
            let row = log
                .ranges
                .get(&segment.id)
                .and_then(|ranges| ranges.rows.get(&number));
            let mut first = row.map(|row| row.first_ordinal);
            while let Some(record) = of_stream.next_if(|record| record.segment == segment.id) {
                first = first.or(Some(meaning.ordinal(record.position)));
            }
            let Some(first) = first else { continue };
            let is_in = |id: u32| (segment.id..=segment.last_id).contains(&id);
            let run = runs.next_if(|run| is_in(run.0) && run.1 == first);
            let mut last = run.ok_or_else(|| {
                format!(
                    "runs: expected ordinal {first} in segment {}, found {:?}",
                    segment.id, found.runs
                )
            })?;
            // As they were before a compaction.
            let end = row.map_or(first, Row::last);
            while let Some(run) = runs.next_if(|run| is_in(run.0)) {
                if run.0 <= last.0 || run.1 <= last.1 || run.1 > end {
                    return Err(format!("runs: {run:?} after {last:?}, up to {end}"));
                }
                last = run;
            }
        }
        match runs.next() {
            None => Ok(()),
            Some(run) => Err(format!("runs: {run:?} is of no record")),
        }
    }
}

fn at(records: &[LogRecord], segment: u32, offset: u64) -> Option<&LogRecord> {
    let place = records
        .binary_search_by_key(&(segment, offset), |record| (record.segment, record.offset))
        .ok()?;
    records.get(place)
}
