//! Writing an archive.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
};

use pollster::block_on;
use runlog_log::{
    Kind, Position, ReadOptions, Record, Sequence, StreamId, crc::Hasher, if_supported,
};
use runlog_model::{RunCatalogEvent, SessionId, kinds};

use super::{
    Exported, What,
    lines::{Counts, Line, RecordLine, StreamLine, encode},
    lists::{List, ListEvent, Subject, each_record, record_at, what_of_context},
    owners::{Owners, Planned},
};
use crate::{Error, ErrorKind, Result, blocking::Store};

/// How many records of a stream are read at first; more if no other stream's records come in between.
const PAGE_RECORDS_MIN: u64 = 16;
/// The most records that are read at once.
const PAGE_RECORDS_MAX: u64 = 1024;
/// How many records of the log are read at once if a backend can't list its streams.
const SCAN_RECORDS: u64 = 1024;

/// Writes an archive of a store as it is now, whether or not another process is writing it. `write` gets whole JSON lines.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) for a session that doesn't exist, [`Conflict`](ErrorKind::Conflict) when records
/// that a copy shares are truncated meanwhile, or a session is given up by a retention, those of reading the store, and those of `write`.
pub fn export<E: From<Error>>(
    store: &Store,
    what: What<'_>,
    write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<Exported, E> {
    let (bound, all) = extent(store)?;
    let owners = Owners::read(store, bound)?;
    let chosen = match what {
        What::All => None,
        What::Sessions(sessions) => Some(owners.with_relatives(sessions)?),
    };
    let streams = owners.streams(&all, chosen.as_deref());
    let mut merge = Merge::plan(store, bound, streams)?;
    let mut sum = Hasher::new();
    let mut summed = |line: &[u8]| {
        sum.update(line);
        write(line)
    };
    summed(&encode(&Line::Archive, None))?;
    merge.write(store, bound, &mut summed)?;
    let chosen: Option<HashSet<SessionId>> = chosen.map(|ids| ids.into_iter().collect());
    for list in List::ALL {
        let chosen = chosen.as_ref();
        merge.counts.records += write_list(store, list, bound, &owners, chosen, &mut summed)?;
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
    } = merge.counts;
    Ok(Exported {
        sessions,
        streams,
        records,
        snapshots,
    })
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
struct Merge {
    streams: Vec<Planned>,
    places: HashMap<StreamId, usize>,
    heap: BinaryHeap<Reverse<(Key, usize, u64)>>,
    counts: Counts,
}

impl Merge {
    fn plan(store: &Store, bound: Position, streams: Vec<Planned>) -> Result<Self> {
        let chosen: HashSet<StreamId> = streams.iter().map(|stream| stream.id).collect();
        let mut merge = Self {
            streams: Vec::new(),
            places: HashMap::new(),
            heap: BinaryHeap::new(),
            counts: Counts::default(),
        };
        for mut stream in streams {
            let Some(info) = block_on(store.backend().stream(stream.id))? else {
                continue;
            };
            stream.last = info.last_sequence.0;
            let first = record_at(store, stream.id, 1)?.filter(|first| first.position <= bound);
            if first.is_none() && stream.last > 0 {
                // It was created after the export began.
                continue;
            }
            if let Some(first) = &first
                && first.stream != stream.id
            {
                stream.inherited = inherited(store, &stream)?;
                stream.fork = shared(store, &stream, &chosen)?;
            }
            merge.begin(store, bound, stream, first.is_none())?;
        }
        Ok(merge)
    }

    /// Determines the places of a stream's lines.
    fn begin(
        &mut self,
        store: &Store,
        bound: Position,
        stream: Planned,
        is_empty: bool,
    ) -> Result<()> {
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
        if let Some(record) =
            record_at(store, stream.id, first)?.filter(|record| record.position <= bound)
        {
            self.heap.push(Reverse((stream.key(&record), index, first)));
        }
        let mut at = Sequence::MAX;
        while let Some(snapshot) = block_on(store.backend().latest_snapshot(stream.id, at))? {
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
            let Some(before) = sequence.0.checked_sub(1) else {
                break;
            };
            at = Sequence(before);
        }
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
        store: &Store,
        bound: Position,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut limits = vec![PAGE_RECORDS_MIN; self.streams.len()];
        while let Some(Reverse((key, index, sequence))) = self.heap.pop() {
            self.stream_line(index, write)?;
            match key.2 {
                Step::Fork => {}
                Step::Snapshot => self.snapshot(store, index, sequence, write)?,
                Step::Record => {
                    let limit = limits.get(index).copied().unwrap_or(PAGE_RECORDS_MIN);
                    let is_whole = self.records(store, bound, index, sequence, limit, write)?;
                    let next = if is_whole { limit * 2 } else { limit / 2 };
                    if let Some(limit) = limits.get_mut(index) {
                        *limit = next.clamp(PAGE_RECORDS_MIN, PAGE_RECORDS_MAX);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the line of a stream, once.
    fn stream_line<E: From<Error>>(
        &mut self,
        index: usize,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let written = |id| {
            self.places
                .get(&id)
                .and_then(|place| self.streams.get(*place))
                .map_or(0, |it| it.written)
        };
        let shared = self.streams.get(index).and_then(|stream| stream.fork);
        let is_lost = shared.is_some_and(|(parent, at)| written(parent) < at);
        let Some(stream) = self
            .streams
            .get_mut(index)
            .filter(|stream| !stream.is_written)
        else {
            return Ok(());
        };
        if is_lost {
            let what = format!(
                "what {} shares with another stream was truncated meanwhile; export it again",
                stream.id
            );
            return Err(Error::new(ErrorKind::Conflict, what).into());
        }
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

    /// Writes records of a stream from a sequence on, until another stream's are next. Returns whether all records that
    /// were read are written.
    fn records<E: From<Error>>(
        &mut self,
        store: &Store,
        bound: Position,
        index: usize,
        first: u64,
        limit: u64,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<bool, E> {
        let Some(stream) = self.streams.get_mut(index) else {
            return Ok(true);
        };
        let options = ReadOptions {
            first: Sequence(first),
            limit,
            ..ReadOptions::default()
        };
        let page = block_on(store.backend().read(stream.id, options))?;
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
        if let Some(next) = next
            && let Some(record) =
                record_at(store, stream.id, next)?.filter(|record| record.position <= bound)
        {
            self.heap.push(Reverse((stream.key(&record), index, next)));
        }
        Ok(is_whole)
    }

    fn snapshot<E: From<Error>>(
        &mut self,
        store: &Store,
        index: usize,
        sequence: u64,
        write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let Some(stream) = self.streams.get(index) else {
            return Ok(());
        };
        let found = block_on(
            store
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

/// The last sequence at which a stream's records belong to another stream, by binary search: these are its first ones.
fn inherited(store: &Store, stream: &Planned) -> Result<u64> {
    halve(stream.last, |sequence| {
        Ok(record_at(store, stream.id, sequence)?.is_some_and(|it| it.stream != stream.id))
    })
}

/// The stream of the archive that this one shares its first records with, and how many.
fn shared(
    store: &Store,
    stream: &Planned,
    chosen: &HashSet<StreamId>,
) -> Result<Option<(StreamId, u64)>> {
    let Some(last) = record_at(store, stream.id, stream.inherited)? else {
        return Ok(None);
    };
    let parent = last.stream;
    if !chosen.contains(&parent) {
        return Ok(None);
    }
    // Shared records come first: once the positions of the two streams differ, they differ from there on.
    let at = halve(stream.inherited, |sequence| {
        let (own, other) = (
            record_at(store, stream.id, sequence)?,
            record_at(store, parent, sequence)?,
        );
        Ok(own.is_some_and(|own| other.is_some_and(|other| own.position == other.position)))
    })?;
    // The parent's line must come first, which is so if the last shared record is its own.
    let is_parents =
        at > 0 && record_at(store, parent, at)?.is_some_and(|record| record.stream == parent);
    Ok(is_parents.then_some((parent, at)))
}

/// The last sequence up to which a condition holds, by binary search; 0 for none.
fn halve(last: u64, mut holds: impl FnMut(u64) -> Result<bool>) -> Result<u64> {
    let (mut good, mut bad) = (0, last + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if holds(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

fn line_of(stream: StreamId, record: &Record) -> RecordLine {
    RecordLine {
        stream,
        sequence: record.sequence.0,
        position: record.position.0,
        time_ms: record.time_ms,
        kind: record.kind,
        redacted: record.redacted,
        meta: record.meta.clone(),
        payload: record.payload.clone(),
        labels: Vec::new(),
    }
}

/// Writes the records of a list about the chosen sessions, or all of them. Returns how many.
fn write_list<E: From<Error>>(
    store: &Store,
    list: List,
    bound: Position,
    owners: &Owners,
    chosen: Option<&HashSet<SessionId>>,
    write: &mut dyn FnMut(&[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<u64, E> {
    let mut count = 0;
    let mut created = HashSet::new();
    each_record(store, list.stream(), bound, |record| {
        let event = list.event_of(record)?;
        match event.subject() {
            Subject::Run(id) if matches!(event, ListEvent::Run(RunCatalogEvent::Created(_))) => {
                created.insert(id);
            }
            // Its creation is lost; a repair has listed it again, as it is by now, further on.
            Subject::Run(id) if !created.contains(&id) => return Ok(()),
            _ => {}
        }
        let session = match event.subject() {
            Subject::Session(id) => Some(id),
            Subject::Run(id) | Subject::Flow(id) => {
                owners.runs.get(&id).map(|(session, _)| *session)
            }
            Subject::Agent(..) | Subject::Lost(_) => None,
        };
        let is_lost = matches!(event, ListEvent::Lost(_));
        if is_lost
            || chosen.is_none_or(|chosen| session.is_some_and(|session| chosen.contains(&session)))
        {
            count += 1;
            let mut line = line_of(list.stream(), record);
            if is_lost {
                (line.kind, line.redacted) = (Kind(kinds::LISTED_EVENT_LOST), false);
            }
            write(&encode(&Line::Record(line), Some(event.what())))?;
        }
        Ok::<(), E>(())
    })?;
    Ok(count)
}
