//! [`History`]: what a writer does, and what every answer beside it has to be.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use runlog_engine::{
    Appended, Direction, Error, ErrorKind, Expected, FindOptions, Label, Position, ReadOptions,
    Record, Result, Sequence, Snapshot, StreamId, StreamInfo,
};

use crate::{
    compare::{Same, same, same_record},
    model::{Entry, Item as NewItem, Model, ModelStream, Step, Work},
    random::Random,
};

/// How many labels there are. The first is a record's more often than the others together.
const LABELS: u64 = 4;
const NEVER: usize = usize::MAX;

/// What a history is like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// How many batches it has.
    pub works: usize,
    /// How many streams there are at a time.
    pub streams: usize,
    /// The most records of an append.
    pub records_max: u64,
    /// The most bytes of a payload.
    pub payload_bytes_max: u64,
    /// Of how many batches one is no append.
    pub other_than_append: u64,
}

/// The state after some batches.
struct Version {
    last_position: u64,
    /// All there ever were, those that were deleted too.
    streams: Vec<Arc<ModelStream>>,
}

impl Version {
    fn stream(&self, id: StreamId) -> Option<&Arc<ModelStream>> {
        let mut living = self.streams.iter().filter(|stream| !stream.deleted);
        living.find(|stream| stream.id == id)
    }
}

/// The versions that may have been there while something was done: from the one that was acknowledged when it began to the one
/// that was begun when it ended, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The first.
    pub from: usize,
    /// The last.
    pub to: usize,
}

/// How far the writer is.
#[derive(Default, Debug)]
pub struct Progress {
    begun: AtomicUsize,
    acknowledged: AtomicUsize,
}

impl Progress {
    /// The writer is about to do the batch before this version.
    pub fn begin(&self, version: usize) {
        self.begun.store(version, Ordering::SeqCst);
    }

    /// The batches before this version are acknowledged.
    pub fn acknowledge(&self, version: usize) {
        self.acknowledged.store(version, Ordering::SeqCst);
    }

    /// The version that is begun.
    pub fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    /// The version that is acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// What is done, and the versions meanwhile.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> (Window, T) {
        let from = self.acknowledged();
        let done = work();
        (
            Window {
                from,
                to: self.begun(),
            },
            done,
        )
    }
}

/// Whose answers they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handle {
    /// The writer's own.
    Writer,
    /// A reader's, as in another process. A record that it has begun to read, and that was truncated since, may be gone.
    ReadOnly,
}

/// One of several records that are given one after the other.
pub struct Item {
    /// The version that was acknowledged before it was asked for.
    pub acknowledged: usize,
    /// The record, or what was given in its place.
    pub record: Result<Record>,
}

/// Records that were given one after the other.
pub struct Given {
    /// The versions while they began to be given.
    pub made: Window,
    /// The records, or why there are none.
    pub items: Result<Vec<Item>>,
    /// The version that was begun when the last one was given.
    pub ended: usize,
    /// The version that was acknowledged before it was asked for another and there was none; `None` if it wasn't asked.
    pub exhausted: Option<usize>,
}

/// What a writer does, and what the store is after each batch.
pub struct History {
    /// The batches.
    pub works: Vec<Work>,
    /// Which of them are put in line together, and waited for then.
    pub groups: Vec<Range<usize>>,
    /// What comes of each.
    pub expected: Vec<std::result::Result<Appended, ErrorKind>>,
    versions: Vec<Version>,
    entries: Vec<Entry>,
    /// The streams, as often as they are ever there.
    ids: Vec<StreamId>,
    /// From and before which versions a stream has the record with a position.
    stays: HashMap<(StreamId, u64), Range<usize>>,
    /// From which version a record is redacted.
    redacted: HashMap<u64, usize>,
    /// From which version no stream has a record.
    gone: HashMap<u64, usize>,
}

/// A history in the making.
struct Maker {
    shape: Shape,
    random: Random,
    model: Model,
    made: u64,
    /// Positions up to here are acknowledged before the next batch is put in line.
    settled: u64,
    history: History,
    /// The last batches with keys.
    keyed: Vec<Work>,
}

/// The id of the stream with a number.
fn id(number: u64) -> StreamId {
    StreamId::from_bytes(u128::from(number + 1).to_be_bytes())
}

/// A label.
fn label(number: u64) -> Label {
    Label::of("beside", number.to_le_bytes())
}

impl History {
    /// The history of a seed.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let mut model = Model::default();
        model.compacted_to = u64::MAX;
        let mut maker = Maker {
            shape,
            random: Random::new(seed),
            model,
            made: 0,
            settled: 0,
            keyed: Vec::new(),
            history: Self {
                works: Vec::new(),
                groups: Vec::new(),
                expected: Vec::new(),
                versions: vec![Version {
                    last_position: 0,
                    streams: Vec::new(),
                }],
                entries: Vec::new(),
                ids: Vec::new(),
                stays: HashMap::new(),
                redacted: HashMap::new(),
                gone: HashMap::new(),
            },
        };
        while maker.history.works.len() < shape.works {
            maker.group();
        }
        let Maker { model, history, .. } = maker;
        Self {
            ids: model.streams.iter().map(|stream| stream.id).collect(),
            entries: model.log,
            ..history
        }
    }

    /// The last version.
    pub fn last_version(&self) -> usize {
        self.works.len()
    }

    /// The last position of a version.
    pub fn last_position(&self, version: usize) -> u64 {
        self.versions[version].last_position
    }

    /// How many records a stream has in a version.
    pub fn length(&self, version: usize, stream: StreamId) -> u64 {
        let found = self.versions[version].stream(stream);
        found.map_or(0, |stream| stream.last())
    }

    /// A label to look for; rarely one that no record has.
    pub fn some_label(&self, random: &mut Random) -> Label {
        label(random.below(LABELS + 1).saturating_sub(1) + u64::from(random.one_in(50)) * LABELS)
    }

    /// A stream to look at, mostly one that is there in a version.
    pub fn some_stream(&self, version: usize, random: &mut Random) -> StreamId {
        let version = &self.versions[version];
        let living: Vec<_> = version.streams.iter().filter(|it| !it.deleted).collect();
        if living.is_empty() || random.one_in(10) {
            return self.ids[random.place(self.ids.len())];
        }
        living[random.place(living.len())].id
    }

    /// Whether a record that was given by a handle that asked in `from`, and was answered before `to`, is what was written.
    fn is_right(&self, record: &Record, from: usize, to: usize) -> Same {
        let position = record.position.0;
        let entry = usize::try_from(position).ok();
        let entry = entry.and_then(|position| self.entries.get(position.checked_sub(1)?));
        let entry = entry.ok_or_else(|| format!("position {position} is never written"))?;
        let redacted = self.redacted_from(position);
        if record.redacted && redacted > to {
            return Err(format!("position {position} isn't redacted before {to}"));
        }
        if !record.redacted && redacted <= from {
            return Err(format!("position {position} was redacted before {from}"));
        }
        let entry = Entry {
            redacted: record.redacted,
            ..entry.clone()
        };
        same_record(record, position, &entry)
    }

    fn redacted_from(&self, position: u64) -> usize {
        self.redacted.get(&position).copied().unwrap_or(NEVER)
    }

    /// Whether no stream has a record in a version, so that it may be given up.
    fn is_gone(&self, position: u64, version: usize) -> bool {
        self.gone
            .get(&position)
            .is_some_and(|from| *from <= version)
    }

    /// The records of an answer, in order, and the error that ended it.
    fn told<'g>(
        &self,
        given: &'g Given,
    ) -> std::result::Result<(Vec<u64>, Option<&'g Error>), String> {
        let items = given.items.as_ref().map_err(ToString::to_string)?;
        let mut positions = Vec::new();
        for (nth, item) in items.iter().enumerate() {
            match &item.record {
                Ok(record) => {
                    self.is_right(record, given.made.from, given.ended)?;
                    positions.push(record.position.0);
                }
                Err(error) if nth + 1 == items.len() => return Ok((positions, Some(error))),
                Err(error) => return Err(format!("in place {nth}: {:?}: {error}", error.kind())),
            }
        }
        Ok((positions, None))
    }

    fn may_be_missing(&self, stream: StreamId, error: &Error, window: Window) -> Same {
        let mut versions = self.versions[window.from..=window.to].iter();
        if error.kind() == ErrorKind::NotFound && versions.any(|it| it.stream(stream).is_none()) {
            return Ok(());
        }
        Err(format!("{:?}: {error}", error.kind()))
    }

    /// A stream as it was when the read began.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_read(
        &self,
        stream: StreamId,
        options: &ReadOptions,
        given: &Given,
        handle: Handle,
    ) -> Same {
        if let Err(error) = &given.items {
            return self.may_be_missing(stream, error, given.made);
        }
        let (found, error) = self.told(given)?;
        let mut first_difference = None;
        let mut last: Option<&Arc<ModelStream>> = None;
        for version in &self.versions[given.made.from..=given.made.to] {
            let Some(stands) = version.stream(stream) else {
                continue;
            };
            if last.is_some_and(|last| Arc::ptr_eq(last, stands)) {
                continue;
            }
            last = Some(stands);
            let expected = self.read(stands, options);
            let is_it = match error {
                // One was given up after it was truncated, and another process didn't know of who reads it.
                Some(error) => {
                    let mut all = stands.positions.iter();
                    handle == Handle::ReadOnly
                        && error.kind() == ErrorKind::NotFound
                        && expected.starts_with(&found)
                        && all.any(|position| self.is_gone(*position, given.ended))
                }
                None if given.exhausted.is_none() => expected.starts_with(&found),
                None => expected == found,
            };
            if is_it {
                return Ok(());
            }
            first_difference.get_or_insert(expected);
        }
        Err(format!(
            "found {found:?}, {error:?}; expected in the first version {first_difference:?}"
        ))
    }

    fn read(&self, stream: &ModelStream, options: &ReadOptions) -> Vec<u64> {
        let within =
            |(_, sequence): &(u64, u64)| (options.first.0..=options.last.0).contains(sequence);
        let of_kind = |(position, _): &(u64, u64)| {
            let kind = self.entry(*position).kind;
            options.kinds.is_empty() || options.kinds.iter().any(|wanted| wanted.0 == kind)
        };
        let numbered = stream.positions.iter().copied().zip(1..);
        let mut found: Vec<u64> = numbered
            .filter(within)
            .filter(of_kind)
            .map(|(position, _)| position)
            .collect();
        if options.direction == Direction::Backward {
            found.reverse();
        }
        found.truncate(usize::try_from(options.limit).unwrap_or(usize::MAX));
        found
    }

    fn entry(&self, position: u64) -> &Entry {
        &self.entries[usize::try_from(position).expect("a small log") - 1]
    }

    /// From and before which versions a record is found by a label.
    fn is_found(
        &self,
        label: Label,
        stream: Option<StreamId>,
        position: u64,
    ) -> Option<Range<usize>> {
        let entry = self.entry(position);
        if !entry.labels.contains(&label) {
            return None;
        }
        let stays = self
            .stays
            .get(&(stream.unwrap_or(entry.stream), position))?;
        Some(stays.start..stays.end.min(self.redacted_from(position)))
    }

    /// The records with a label: all that were there when it began and still are, none that is gone before it is given, none
    /// that came after.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_find(
        &self,
        label: Label,
        options: &FindOptions,
        given: &Given,
        handle: Handle,
    ) -> Same {
        let items = match &given.items {
            Ok(items) => items,
            Err(error) => {
                let stream = options.stream.ok_or_else(|| error.to_string())?;
                return self.may_be_missing(stream, error, given.made);
            }
        };
        let (found, error) = self.told(given)?;
        if let Some(error) = error {
            return Err(format!("{:?}: {error}", error.kind()));
        }
        let forward = options.direction == Direction::Forward;
        let is_in_order = |pair: &[u64]| (pair[0] < pair[1]) == forward && pair[0] != pair[1];
        if !found.windows(2).all(is_in_order) {
            return Err(format!("not in order: {found:?}"));
        }
        let within = options.first.0..=options.last.0.min(self.last_position(given.made.to));
        for (position, item) in found.iter().zip(items) {
            let stands = self.is_found(label, options.stream, *position);
            let stands = stands.ok_or_else(|| format!("position {position} hasn't that label"))?;
            if !within.contains(position) {
                return Err(format!("position {position} isn't in {within:?}"));
            }
            // Who follows a writer in another process looks when it begins, and then only where it has to.
            let asked = match handle {
                Handle::Writer => item.acknowledged,
                Handle::ReadOnly => given.made.from,
            };
            if stands.end <= asked || stands.start > given.made.to {
                return Err(format!(
                    "position {position} is found in versions {stands:?}, not in {asked}, where it was asked for"
                ));
            }
        }
        if found.len() as u64 > options.limit {
            return Err(format!(
                "{} records, at most {}",
                found.len(),
                options.limit
            ));
        }
        let is_whole = given.exhausted.is_some() && (found.len() as u64) < options.limit;
        let passed = |position: u64| match found.last() {
            _ if is_whole => true,
            Some(last) if forward => position <= *last,
            Some(last) => position >= *last,
            None => false,
        };
        let mut given_up = found.clone();
        given_up.sort_unstable();
        let first = options.first.0.max(1);
        for position in first..=options.last.0.min(self.last_position(given.made.from)) {
            let stands = self.is_found(label, options.stream, position);
            let is_there =
                |stands: Range<usize>| stands.start <= given.made.from && stands.end > given.ended;
            if passed(position)
                && stands.is_some_and(is_there)
                && given_up.binary_search(&position).is_err()
            {
                return Err(format!("position {position} is missing in {found:?}"));
            }
        }
        Ok(())
    }

    /// The log from a position on: no gap but of what was given up, and all that was acknowledged before it was asked for more.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_scan(&self, first: Position, given: &Given, handle: Handle) -> Same {
        let (found, error) = self.told(given)?;
        if let Some(error) = error {
            return Err(format!("{:?}: {error}", error.kind()));
        }
        let next = self.without_gap(first.0.max(1), &found, given.ended)?;
        match given.exhausted {
            // Who follows a writer in another process looks when it begins, and then only where it has to.
            Some(_) if handle == Handle::ReadOnly => {
                self.is_all(next, given.made.from, given.ended)
            }
            Some(version) => self.is_all(next, version, given.ended),
            None => Ok(()),
        }
    }

    /// The position after some that follow each other, but for those that were given up.
    fn without_gap(
        &self,
        first: u64,
        found: &[u64],
        version: usize,
    ) -> std::result::Result<u64, String> {
        let mut next = first;
        for position in found {
            while next < *position && self.is_gone(next, version) {
                next += 1;
            }
            if next != *position {
                return Err(format!("position {position}, expected {next}"));
            }
            next += 1;
        }
        if next > first.max(self.last_position(version) + 1) {
            return Err(format!("position {} before it was written", next - 1));
        }
        Ok(next)
    }

    fn is_all(&self, mut next: u64, acknowledged: usize, version: usize) -> Same {
        while self.is_gone(next, version) {
            next += 1;
        }
        let last = self.last_position(acknowledged);
        if next > last {
            return Ok(());
        }
        Err(format!("it ends before {next}, {last} is acknowledged"))
    }

    /// Records that are followed, from the one that is next on; gives the next after them.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_followed(&self, next: u64, given: &Given) -> std::result::Result<u64, String> {
        let (found, error) = self.told(given)?;
        if let Some(error) = error {
            return Err(format!("{:?}: {error}", error.kind()));
        }
        let next = self.without_gap(next, &found, given.ended)?;
        match given.exhausted {
            Some(version) => self.is_all(next, version, given.ended).map(|()| next),
            None => Ok(next),
        }
    }

    /// The record with a position.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_record(
        &self,
        position: u64,
        found: Result<Option<Record>>,
        window: Window,
    ) -> Same {
        match found.map_err(|error| format!("{:?}: {error}", error.kind()))? {
            Some(record) => {
                same("position", &record.position.0, &position)?;
                if position > self.last_position(window.to) {
                    return Err("it isn't written yet".to_owned());
                }
                self.is_right(&record, window.from, window.to)
            }
            None if (1..=self.last_position(window.from)).contains(&position)
                && !self.is_gone(position, window.to) =>
            {
                Err("it isn't there".to_owned())
            }
            None => Ok(()),
        }
    }

    /// That an answer is that of one of the versions.
    fn is_of_one<T: PartialEq + std::fmt::Debug>(
        &self,
        found: Result<T>,
        window: Window,
        of: impl Fn(usize, &Version) -> T,
    ) -> Same {
        let found = found.map_err(|error| format!("{:?}: {error}", error.kind()))?;
        if (window.from..=window.to).any(|at| of(at, &self.versions[at]) == found) {
            return Ok(());
        }
        let first = of(window.from, &self.versions[window.from]);
        Err(format!("found {found:?}, in the first version {first:?}"))
    }

    /// The last position.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_last_position(&self, found: Result<Position>, window: Window) -> Same {
        self.is_of_one(found, window, |_, version| Position(version.last_position))
    }

    /// What is said of a stream.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_stream(
        &self,
        stream: StreamId,
        found: Result<Option<StreamInfo>>,
        window: Window,
    ) -> Same {
        let found = found.map(|found| found.map(|info| (info.id, info.last_sequence.0)));
        self.is_of_one(found, window, |_, version| {
            version
                .stream(stream)
                .map(|stream| (stream.id, stream.last()))
        })
    }

    /// All streams.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_streams(&self, found: Result<Vec<StreamInfo>>, window: Window) -> Same {
        let told = |info: &StreamInfo| (info.id, info.last_sequence.0);
        let found = found.map(|found| found.iter().map(told).collect::<Vec<_>>());
        self.is_of_one(found, window, |_, version| {
            let living = version.streams.iter().filter(|stream| !stream.deleted);
            living.map(|stream| (stream.id, stream.last())).collect()
        })
    }

    /// The newest snapshot of a stream.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check_snapshot(
        &self,
        stream: StreamId,
        at_or_before: Sequence,
        found: Result<Option<Snapshot>>,
        window: Window,
    ) -> Same {
        let found = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.may_be_missing(stream, &error, window);
            }
            found => found,
        };
        if let Ok(Some(found)) = &found {
            let entry = self.entry(found.position.0);
            if (&entry.meta, &entry.payload) != (&found.meta, &found.payload) {
                return Err(format!("other bytes at {}", found.position));
            }
        }
        let found = found.map(|found| found.map(|it| (it.sequence.0, it.position.0)));
        self.is_of_one(found, window, |at, version| {
            let told = |(_, position): &&(u64, u64)| self.redacted_from(*position) > at;
            let snapshots = version.stream(stream)?.snapshots.iter();
            let before = snapshots.filter(|(sequence, _)| *sequence <= at_or_before.0);
            before.filter(told).max().copied()
        })
    }
}

impl Maker {
    /// Some batches that are put in line together; mostly it is one.
    fn group(&mut self) {
        let first = self.history.works.len();
        let count = if self.random.one_in(4) {
            2 + self.random.below(4)
        } else {
            1
        };
        for _ in 0..count {
            let work = self.work();
            let expected = self.model.apply(&work);
            self.note();
            if work.key.is_some() && expected.is_ok() {
                self.keyed.push(work.clone());
            }
            self.history.works.push(work);
            self.history.expected.push(expected);
        }
        self.settled = self.model.last_position();
        self.history.groups.push(first..self.history.works.len());
    }

    fn work(&mut self) -> Work {
        if !self.keyed.is_empty() && self.random.one_in(25) {
            return self.keyed[self.random.place(self.keyed.len())].clone();
        }
        let mut work = Work::one(self.step());
        while self.random.one_in(6) {
            work.steps.push(self.step());
        }
        let is_append = |step: &Step| matches!(step, Step::Append { .. });
        if self.random.one_in(8) && work.steps.iter().any(is_append) {
            work.key = Some(self.made.to_le_bytes().to_vec());
        }
        work
    }

    fn step(&mut self) -> Step {
        let model = &self.model;
        let living: Vec<_> = model.streams.iter().filter(|it| !it.deleted).collect();
        if living.len() < 2 || !self.random.one_in(self.shape.other_than_append) {
            let is_new = living.len() < self.shape.streams / 2 || living.is_empty();
            let stream =
                match is_new || (living.len() < self.shape.streams && self.random.one_in(8)) {
                    true => id(model.streams.len() as u64),
                    // Half of all go to one, which is long.
                    false if self.random.one_in(2) => living[0].id,
                    false => living[self.random.place(living.len())].id,
                };
            let records = 1 + self.random.below(self.shape.records_max);
            return Step::Append {
                stream,
                expected: Expected::Any,
                records: (0..records).map(|_| self.item()).collect(),
            };
        }
        let found = living[self.random.place(living.len())];
        let (stream, last) = (found.id, found.last());
        // Mostly near the end.
        let near = self.random.below(1 + last.min(5));
        let sequence = match self.random.one_in(4) {
            true => self.random.below(last + 1),
            false => last - near,
        };
        let expected = Expected::Any;
        let settled = self.settled;
        let is_full = living.len() >= self.shape.streams;
        match self.random.below(10) {
            0..3 if !is_full => Step::Fork {
                parent: stream,
                expected,
                at: sequence,
                child: id(model.streams.len() as u64),
            },
            3..5 => Step::Truncate {
                stream,
                expected,
                after: sequence,
            },
            5 | 0..3 if is_full || living.len() > 3 => Step::Delete { stream, expected },
            6 | 7 if settled > 0 => {
                let near = self.random.below(settled.min(40));
                let position = settled - near;
                let (is_data, is_gone) = {
                    let entry = model.entry(position).expect("it is settled");
                    let is_data = entry.kind < 128 || entry.kind == 129;
                    (is_data, model.may_be_gone(position))
                };
                if !is_data || is_gone {
                    return self.step();
                }
                let wanted =
                    (u128::from(self.random.next_u64()) & 0xff) * u128::from(self.random.below(2));
                let others = (0..8)
                    .filter(|bit| position + 1 + bit <= settled)
                    .fold(0, |others, bit| others | (wanted & 1 << bit));
                Step::Redact {
                    position,
                    others: self.model.redactable_behind(position, others),
                    reason: "asked for".to_owned(),
                }
            }
            _ => Step::Snapshot {
                stream,
                expected,
                sequence,
                state: NewItem {
                    labels: Vec::new(),
                    ..self.item()
                },
            },
        }
    }

    fn item(&mut self) -> NewItem {
        self.made += 1;
        let bytes = match self.random.one_in(10) {
            true => 0,
            false => self.random.below(self.shape.payload_bytes_max + 1),
        };
        let mut payload = vec![0; usize::try_from(bytes).expect("small")];
        Random::new(self.made).fill(&mut payload);
        let mut labels = Vec::new();
        if !self.random.one_in(3) {
            labels.push(label(0));
        }
        while self.random.one_in(3) {
            labels.push(label(self.random.below(LABELS)));
        }
        labels.truncate(4);
        NewItem {
            kind: u8::try_from(self.random.below(4)).expect("small"),
            labels,
            meta: self.made.to_le_bytes().to_vec().into(),
            payload: payload.into(),
        }
    }

    /// Notes what a batch changed.
    fn note(&mut self) {
        let (model, history) = (&self.model, &mut self.history);
        let at = history.versions.len();
        let before = history.versions.last().expect("the first");
        let mut streams = Vec::with_capacity(model.streams.len());
        for (nth, now) in model.streams.iter().enumerate() {
            let was = before.streams.get(nth);
            if let Some(was) = was.filter(|was| ***was == *now) {
                streams.push(was.clone());
                continue;
            }
            let had: &[u64] = was
                .filter(|was| !was.deleted)
                .map_or(&[], |was| &was.positions);
            let has: &[u64] = if now.deleted { &[] } else { &now.positions };
            let shared = had
                .iter()
                .zip(has)
                .take_while(|(had, has)| had == has)
                .count();
            for position in &had[shared..] {
                let stays = history.stays.get_mut(&(now.id, *position));
                stays.expect("it had it").end = at;
            }
            for position in &has[shared..] {
                history.stays.insert((now.id, *position), at..NEVER);
            }
            streams.push(Arc::new(now.clone()));
        }
        let last_position = model.last_position();
        let mut in_use = vec![false; model.log.len() + 1];
        for stream in streams.iter().filter(|stream| !stream.deleted) {
            let snapshots = stream.snapshots.iter().map(|(_, position)| position);
            for position in stream.positions.iter().chain(snapshots) {
                in_use[usize::try_from(*position).expect("a small log")] = true;
            }
        }
        for (position, entry) in (1..).zip(&model.log) {
            let is_kept = entry.kind >= 128 && entry.kind != 129;
            if !is_kept && !in_use[usize::try_from(position).expect("a small log")] {
                history.gone.entry(position).or_insert(at);
            }
            if entry.redacted {
                history.redacted.entry(position).or_insert(at);
            }
        }
        history.versions.push(Version {
            last_position,
            streams,
        });
    }
}
