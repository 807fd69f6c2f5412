//! Writing an archive.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use pollster::block_on;
use runlog_log::{
    Kind, Position, ReadOptions, Record, Sequence, StreamId, crc::Hasher, if_supported,
};
use runlog_model::SessionId;

use super::{
    Exported, LostRecords, What,
    lines::{Counts, Line, LostLine, RecordLine, StreamLine, encode, line_of},
    listing::write_list,
    lists::{List, record_at, what_of_context},
    owners::{Owners, Planned},
    readable::Reading,
};
#[cfg(doc)]
use crate::ErrorKind;
use crate::{Error, Result, blocking::Store};

/// How many records of a stream are read at first; more if no other stream's records come in between.
const PAGE_RECORDS_MIN: u64 = 16;
/// The most records that are read at once.
const PAGE_RECORDS_MAX: u64 = 1024;
/// How many records of the log are read at once if a backend can't list its streams.
const SCAN_RECORDS: u64 = 1024;

/// Writes an archive of a store as it is now, whether or not another process is writing it. `write` gets whole JSON lines.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) for a session that doesn't exist, [`Conflict`](ErrorKind::Conflict) when a session is given
/// up by a retention meanwhile, those of reading the store, and those of `write`.
pub fn export<E: From<Error>>(
    store: &Store,
    what: What<'_>,
    write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<Exported, E> {
    let passes_over = false;
    export_with(Reading { store, passes_over }, what, write).map(|(exported, _)| exported)
}

/// The same of a damaged store: what can be read of it. The archive says which records it lacks, which are returned. An import
/// takes each stream as far as nothing is missing, and tells what it left out.
///
/// # Errors
/// As [`export`]; of damage only [`Damaged`](ErrorKind::Damaged) in one of the store's lists, which a
/// [repair](crate::Store::repair) lets go on.
pub fn export_readable<E: From<Error>>(
    store: &Store,
    what: What<'_>,
    write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(Exported, Vec<LostRecords>), E> {
    let passes_over = true;
    export_with(Reading { store, passes_over }, what, write)
}

fn export_with<E: From<Error>>(
    reading: Reading<'_>,
    what: What<'_>,
    write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(Exported, Vec<LostRecords>), E> {
    let store = reading.store;
    let (bound, all) = extent(store)?;
    let owners = Owners::read(store, bound)?;
    let chosen = match what {
        What::All => None,
        What::Sessions(sessions) => Some(owners.with_relatives(sessions)?),
    };
    let streams = owners.streams(&all, chosen.as_deref());
    let mut merge = Merge::plan(reading, bound, streams)?;
    let mut sum = Hasher::new();
    let mut summed = |line: &[u8]| {
        sum.update(line);
        write(line)
    };
    summed(&encode(&Line::Archive, None))?;
    merge.write(&mut summed)?;
    let chosen: Option<HashSet<SessionId>> = chosen.map(|ids| ids.into_iter().collect());
    let mut headless = merge.headless();
    for list in List::ALL {
        let chosen = chosen.as_ref();
        merge.counts.records += write_list(
            store,
            list,
            bound,
            &owners,
            chosen,
            &mut headless,
            &mut summed,
        )?;
    }
    owners.check_kept(store, bound, |id| {
        chosen.as_ref().is_none_or(|chosen| chosen.contains(&id))
    })?;
    let crc = sum.finalize();
    write(&encode(&Line::End(merge.counts, Some(crc)), None))?;
    let sessions = owners.sessions.iter().map(|(id, _)| *id);
    let sessions = sessions
        .filter(|id| chosen.as_ref().is_none_or(|chosen| chosen.contains(id)))
        .collect();
    let Counts {
        streams,
        records,
        snapshots,
        ..
    } = merge.counts;
    let exported = Exported {
        sessions,
        streams,
        records,
        snapshots,
    };
    Ok((exported, merge.lost))
}

/// The position up to which the log is read, and its streams.
fn extent(store: &Store) -> Result<(Position, Vec<StreamId>)> {
    let log = store.backend().maintenance();
    if let Some(bound) = if_supported(block_on(log.last_position()))?
        && let Some(streams) = if_supported(block_on(log.streams()))?
    {
        return Ok((bound, streams.into_iter().map(|info| info.id).collect()));
    }
    let (mut bound, mut all, mut known) = (Position::ZERO, Vec::new(), HashSet::new());
    let mut next = Some(Position::FIRST);
    while let Some(first) = next {
        let page = block_on(store.backend().scan(first, SCAN_RECORDS))?;
        next = page.next.filter(|_| !page.records.is_empty());
        for record in page.records {
            bound = record.position;
            if known.insert(record.stream) {
                all.push(record.stream);
            }
        }
    }
    Ok((bound, all))
}

/// The place of a line in the archive: by position. But records that a copy shares with a stream that isn't in the
/// archive come together, at the place where the copy was created, so that an envelope is still right before its message.
type Key = (u64, u64, Step);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    Record,
    Fork,
    Snapshot,
}

/// All streams, merged in the order in which their records were written.
struct Merge<'a> {
    reading: Reading<'a>,
    /// The position up to which the log is read.
    bound: Position,
    streams: Vec<Planned>,
    places: HashMap<StreamId, usize>,
    heap: BinaryHeap<Reverse<(Key, usize, u64)>>,
    counts: Counts,
    /// What was passed over.
    lost: Vec<LostRecords>,
}

impl<'a> Merge<'a> {
    fn plan(reading: Reading<'a>, bound: Position, streams: Vec<Planned>) -> Result<Self> {
        let chosen: HashSet<StreamId> = streams.iter().map(|stream| stream.id).collect();
        let mut merge = Self {
            reading,
            bound,
            streams: Vec::new(),
            places: HashMap::new(),
            heap: BinaryHeap::new(),
            counts: Counts::default(),
            lost: Vec::new(),
        };
        for mut stream in streams {
            let Some(info) = block_on(reading.store.backend().stream(stream.id))? else {
                continue;
            };
            stream.last = info.last_sequence.0;
            let (first, lost) = reading.from(stream.id, 1, stream.last)?;
            let first = first.filter(|first| first.position <= bound);
            if first.is_none() && lost.is_none() && stream.last > 0 {
                // It was created after the export began.
                continue;
            }
            if let Some(first) = &first
                && first.stream != stream.id
            {
                stream.inherited = reading.inherited(&stream)?;
                stream.fork = reading.shared(&stream, |parent| chosen.contains(&parent))?;
            }
            let is_empty = first.is_none() && lost.is_none();
            merge.begin(stream, is_empty)?;
        }
        Ok(merge)
    }

    /// The streams of which the first record is lost.
    fn headless(&self) -> HashSet<StreamId> {
        let first = self.lost.iter();
        let first = first.filter(|lost| lost.first == 1 && !lost.is_snapshot);
        first.map(|lost| lost.stream).collect()
    }

    /// Determines the places of a stream's lines.
    fn begin(&mut self, mut stream: Planned, is_empty: bool) -> Result<()> {
        let (Reading { store, .. }, bound) = (self.reading, self.bound);
        let index = self.streams.len();
        let mut first = 1;
        if let Some((_, at)) = stream.fork {
            if let Some(last) = record_at(store, stream.id, at)? {
                // Not right after that record: it may be an envelope, whose message must come next.
                let key = (stream.made_at.max(last.position.0), 0, Step::Fork);
                self.heap.push(Reverse((key, index, at)));
            }
            first = at + 1;
        }
        let place = next_place(self.reading, bound, &mut stream, index, first)?;
        self.heap.extend(place.map(Reverse));
        let (snapshots, lost) = self.reading.snapshots(stream.id, stream.last)?;
        for snapshot in snapshots {
            let sequence = snapshot.sequence;
            let is_parents = match stream.fork {
                Some((parent, shared)) if sequence.0 <= shared => {
                    block_on(store.backend().latest_snapshot(parent, sequence))?
                        .is_some_and(|other| other.position == snapshot.position)
                }
                _ => false,
            };
            if snapshot.position <= bound && !is_parents {
                let mut key = (snapshot.position.0, 0, Step::Snapshot);
                if sequence.0 <= stream.inherited {
                    key = (
                        stream.made_at.max(snapshot.position.0),
                        snapshot.position.0,
                        Step::Snapshot,
                    );
                }
                self.heap.push(Reverse((key, index, sequence.0)));
            }
        }
        stream
            .lost
            .extend(lost.into_iter().map(|(first, last)| LostLine {
                stream: stream.id,
                first,
                last,
                is_snapshot: true,
            }));
        if is_empty {
            // An empty stream has no position, so it comes last.
            self.heap
                .push(Reverse(((u64::MAX, 0, Step::Fork), index, 0)));
        }
        self.places.insert(stream.id, index);
        self.streams.push(stream);
        Ok(())
    }

    fn write<E: From<Error>>(
        &mut self,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut limits = vec![PAGE_RECORDS_MIN; self.streams.len()];
        while let Some(Reverse((key, index, sequence))) = self.heap.pop() {
            self.stream_line(index, write)?;
            match key.2 {
                Step::Fork => {}
                Step::Snapshot => {
                    self.lost_lines(index, sequence, write)?;
                    self.snapshot(index, sequence, write)?;
                }
                Step::Record => {
                    self.lost_lines(index, sequence, write)?;
                    let limit = limits.get(index).copied().unwrap_or(PAGE_RECORDS_MIN);
                    let is_whole = self.records(index, sequence, limit, write)?;
                    let next = if is_whole { limit * 2 } else { limit / 2 };
                    if let Some(limit) = limits.get_mut(index) {
                        *limit = next.clamp(PAGE_RECORDS_MIN, PAGE_RECORDS_MAX);
                    }
                }
            }
        }
        for index in 0..self.streams.len() {
            self.lost_lines(index, u64::MAX, write)?;
        }
        Ok(())
    }

    /// Writes the lines of what is lost of a stream up to a sequence.
    fn lost_lines<E: From<Error>>(
        &mut self,
        index: usize,
        up_to: u64,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        let is_due = |line: &mut LostLine| match line.is_snapshot {
            // A snapshot is of records that come before it.
            true => up_to == u64::MAX,
            false => line.first <= up_to,
        };
        let mut due: Vec<_> = stream.lost.extract_if(.., is_due).collect();
        due.sort_unstable_by_key(|line| line.is_snapshot);
        for line in due {
            self.stream_line(index, write)?;
            let Some(stream) = self.streams.get_mut(index) else {
                return Ok(());
            };
            if !line.is_snapshot {
                stream.written = line.last;
            }
            self.counts.lost += 1;
            self.lost.push(LostRecords::of(stream, &line));
            write(&encode(&Line::Lost(line), None))?;
        }
        Ok(())
    }

    /// Writes the line of a stream, once.
    fn stream_line<E: From<Error>>(
        &mut self,
        index: usize,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(stream) = self
            .streams
            .get_mut(index)
            .filter(|stream| !stream.is_written)
        else {
            return Ok(());
        };
        if let Some((parent, at)) = stream.fork
            && let Some(written) = self.written_less(parent, at)
        {
            self.share_less(index, parent, written)?;
        }
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        stream.is_written = true;
        stream.written = stream.fork.map_or(0, |(_, at)| at);
        self.counts.streams += 1;
        let line = StreamLine {
            id: stream.id,
            of: stream.of.to_owned(),
            session: stream.session,
            parent: stream.fork,
        };
        write(&encode(&Line::Stream(line), None))
    }

    /// How many records of a stream are written, if that is less than so many: it was truncated since the archive was begun.
    fn written_less(&self, parent: StreamId, at: u64) -> Option<u64> {
        let place = self.places.get(&parent);
        let parent = place.and_then(|place| self.streams.get(*place));
        let written = parent.map_or(0, |parent| parent.written);
        (written < at).then_some(written)
    }

    /// A stream has what its parent has lost since: it shares with it only the records that are written, and the rest
    /// is written as its own.
    fn share_less(&mut self, index: usize, parent: StreamId, written: u64) -> Result<()> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(());
        };
        stream.fork = (written > 0).then_some((parent, written));
        let place = next_place(self.reading, self.bound, stream, index, written + 1)?;
        self.heap.extend(place.map(Reverse));
        Ok(())
    }

    /// Writes records of a stream from a sequence on, until another stream's are next. Returns whether all records that
    /// were read are written.
    fn records<E: From<Error>>(
        &mut self,
        index: usize,
        first: u64,
        limit: u64,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let bound = self.bound;
        // What was planned before the stream turned out to share less is written already.
        let Some(stream) = self.streams.get_mut(index).filter(|it| it.written < first) else {
            return Ok(true);
        };
        let options = ReadOptions {
            first: Sequence(first),
            limit,
            ..ReadOptions::default()
        };
        let page = block_on(self.reading.store.backend().read(stream.id, options))?;
        let mut next = page.next.map(|next| next.0);
        let mut is_whole = true;
        for record in &page.records {
            let key = stream.key(record);
            if record.position > bound {
                return Ok(true);
            }
            let is_first = record.sequence.0 == first;
            if !is_first
                && self
                    .heap
                    .peek()
                    .is_some_and(|Reverse((other, ..))| *other < key)
            {
                (next, is_whole) = (Some(record.sequence.0), false);
                break;
            }
            let what = if stream.of == "context" {
                what_of_context(record.kind.0)
            } else {
                None
            };
            write(&encode(&Line::Record(line_of(stream.id, record)), what))?;
            stream.written = record.sequence.0;
            self.counts.records += 1;
        }
        if let Some(next) = next {
            let place = next_place(self.reading, bound, stream, index, next)?;
            self.heap.extend(place.map(Reverse));
        }
        Ok(is_whole)
    }

    fn snapshot<E: From<Error>>(
        &mut self,
        index: usize,
        sequence: u64,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(stream) = self.streams.get(index) else {
            return Ok(());
        };
        let found = block_on(
            self.reading
                .store
                .backend()
                .latest_snapshot(stream.id, Sequence(sequence)),
        )?;
        let found =
            found.filter(|snapshot| snapshot.sequence.0 == sequence && sequence <= stream.written);
        let Some(snapshot) = found else { return Ok(()) };
        let line = RecordLine {
            stream: stream.id,
            sequence,
            position: snapshot.position.0,
            time_ms: snapshot.time_ms,
            kind: Kind::SNAPSHOT,
            redacted: false,
            meta: snapshot.meta,
            payload: snapshot.payload,
            labels: Vec::new(),
        };
        self.counts.snapshots += 1;
        write(&encode(&Line::Snapshot(line), None))
    }
}

impl Planned {
    fn key(&self, record: &Record) -> Key {
        let position = record.position.0;
        if record.sequence.0 <= self.inherited {
            return (self.made_at.max(position), position, Step::Record);
        }
        (position, 0, Step::Record)
    }
}

/// The place of a stream's next record. What is lost before it is added to the stream's.
fn next_place(
    reading: Reading<'_>,
    bound: Position,
    stream: &mut Planned,
    index: usize,
    first: u64,
) -> Result<Option<(Key, usize, u64)>> {
    let (record, lost) = reading.from(stream.id, first, stream.last)?;
    if let Some((first, last)) = lost {
        stream.lost.push(LostLine {
            stream: stream.id,
            first,
            last,
            is_snapshot: false,
        });
    }
    let record = record.filter(|record| record.position <= bound);
    Ok(record.map(|record| (stream.key(&record), index, record.sequence.0)))
}
