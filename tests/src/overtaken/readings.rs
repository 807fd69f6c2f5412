//! Readings that are held open, and what they have to give.

use std::{ops::ControlFlow, time::Duration};

use runlog_engine::{
    Direction, Error, ErrorKind, Finder, Label, LogReader, Position, ReadOptions, Reader, Record,
    Result, Sequence, Store, StreamId, Subscription,
};

use super::{KINDS, LABELS, State, World};
use crate::random::Random;

/// One that was begun.
pub struct Reading {
    /// What it is, for messages.
    pub what: String,
    open: Open,
    /// It gives nothing any more.
    pub is_over: bool,
}

enum Open {
    Stream(Box<Reader>, OfStream),
    Label(Box<Finder>, OfLabel),
    Log(Box<LogReader>, OfLog),
    Following(Box<Subscription>, OfLog),
}

/// What the reading of a stream gives.
struct OfStream {
    /// The positions of its records when it began, in the order of the reading, of all kinds.
    expected: Vec<u64>,
    at: usize,
    kinds: Vec<runlog_engine::Kind>,
    limit: u64,
    is_lent: bool,
}

/// What a search gives.
struct OfLabel {
    stream: Option<StreamId>,
    expected: Vec<u64>,
    at: usize,
    limit: u64,
}

/// What the reading of the log gives.
struct OfLog {
    /// The position before the next one.
    last: u64,
    /// The last position when it began.
    until: u64,
}

impl World {
    fn check(&self, record: &Record) -> std::result::Result<(), String> {
        let Some(written) = self.records.get(&record.position.0) else {
            return Err(format!("{record:?} was never written"));
        };
        let is_same = (record.stream, record.sequence.0, record.kind)
            == (written.stream, written.sequence, written.kind);
        let is_right = match record.redacted {
            true => record.payload.is_empty() && self.now.redacted.contains(&record.position.0),
            false => record.payload == written.payload,
        };
        if is_same && is_right {
            return Ok(());
        }
        Err(format!(
            "{} at {} has {} bytes, redacted: {}",
            record.stream,
            record.position.0,
            record.payload.len(),
            record.redacted
        ))
    }
}

impl Reading {
    /// Begins one on a handle that doesn't look for what is new, of a store that has some state.
    ///
    /// # Errors
    /// What the store's.
    pub fn begin(
        store: &Store,
        state: &State,
        world: &World,
        random: &mut Random,
    ) -> Result<Option<Self>> {
        let last = store.last_position()?.0;
        let place = random.place(state.streams.len().max(1));
        let stream = state.streams.iter().nth(place);
        let direction = [Direction::Forward, Direction::Backward][random.place(2)];
        let limit = match random.one_in(4) {
            true => random.below(40),
            false => u64::MAX,
        };
        let first = Position(match random.one_in(2) {
            true => 1,
            false => 1 + random.below(last + 2),
        });
        let (open, what) = match random.below(8) {
            0..=3 => {
                let Some((stream, positions)) = stream else {
                    return Ok(None);
                };
                let of_kinds = random.one_in(3);
                let kinds: Vec<_> = (0..KINDS)
                    .map(runlog_engine::Kind)
                    .filter(|_| of_kinds && random.one_in(2))
                    .collect();
                let count = positions.len();
                let (from, to) = match random.one_in(3) {
                    true => (random.place(count + 1), random.place(count + 1)),
                    false => (0, count),
                };
                let to = to.max(from);
                let options = ReadOptions {
                    first: Sequence(from as u64 + 1),
                    last: Sequence(to as u64),
                    direction,
                    kinds: kinds.clone(),
                    limit,
                };
                let what = format!("read {stream} {options:?}");
                let mut expected = positions[from..to].to_vec();
                if direction == Direction::Backward {
                    expected.reverse();
                }
                let of = OfStream {
                    expected,
                    at: 0,
                    kinds,
                    limit,
                    is_lent: random.one_in(2),
                };
                (
                    Open::Stream(Box::new(store.read(*stream, options)?), of),
                    what,
                )
            }
            4 | 5 => {
                let label = Label(random.below(LABELS));
                let stream = stream.map(|(stream, _)| *stream);
                let stream = stream.filter(|_| random.one_in(2));
                let options = runlog_engine::FindOptions {
                    stream,
                    direction,
                    first,
                    limit,
                    ..runlog_engine::FindOptions::default()
                };
                let what = format!("find {label:?} {options:?}");
                let of = OfLabel {
                    stream,
                    expected: world.labelled(state, label, stream, first, direction, last),
                    at: 0,
                    limit,
                };
                (Open::Label(Box::new(store.find(label, options)?), of), what)
            }
            kind => {
                let of = OfLog {
                    last: first.0 - 1,
                    until: last,
                };
                let what = format!("from {}", first.0);
                match kind {
                    6 => (
                        Open::Log(Box::new(store.scan(first)?), of),
                        format!("scan {what}"),
                    ),
                    _ => (
                        Open::Following(Box::new(store.subscribe(first)), of),
                        format!("follow {what}"),
                    ),
                }
            }
        };
        Ok(Some(Self {
            what,
            open,
            is_over: false,
        }))
    }

    /// Goes on by one record.
    pub fn go_on(&mut self) -> Option<Result<Record>> {
        match &mut self.open {
            Open::Stream(reader, of) if of.is_lent => lent(reader),
            Open::Stream(reader, _) => reader.next(),
            Open::Label(finder, _) => finder.next(),
            Open::Log(reader, _) => reader.next(),
            Open::Following(following, _) => following.next_timeout(Duration::ZERO).transpose(),
        }
    }

    /// Whether what was given is right, as the world is afterwards. `seen` is the last position that there was before.
    ///
    /// # Errors
    /// What is wrong.
    pub fn take(
        &mut self,
        given: Option<&Result<Record>>,
        seen: u64,
        world: &World,
    ) -> std::result::Result<(), String> {
        let taken = match &mut self.open {
            Open::Stream(_, of) => of.take(world, given),
            Open::Label(_, of) => of.take(world, given),
            Open::Log(_, of) => of.take(world, given, of.until),
            Open::Following(_, of) => of.take(world, given, seen.max(of.until)),
        };
        let goes_on = matches!(given, Some(Ok(_))) || matches!(self.open, Open::Following(..));
        self.is_over |= !goes_on;
        taken.map_err(|what| format!("{}: {what}", self.what))
    }
}

fn lent(reader: &mut Reader) -> Option<Result<Record>> {
    let mut given = None;
    reader.for_each_ref(|record| {
        given = Some(record.map(|record| record.to_record()));
        ControlFlow::Break(())
    });
    given
}

/// Whether an error is the one of a record that was given up.
fn is_given_up(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
        && error.to_string().contains("was given up by a compaction")
}

impl OfStream {
    fn take(
        &mut self,
        world: &World,
        given: Option<&Result<Record>>,
    ) -> std::result::Result<(), String> {
        let left = &self.expected[self.at..];
        let is_wanted = |position: &u64| {
            self.kinds.is_empty() || self.kinds.contains(&world.records[position].kind)
        };
        let next = left.iter().position(is_wanted).filter(|_| self.limit > 0);
        match (given, next) {
            (None, None) => Ok(()),
            (None, Some(next)) => Err(format!("it ends before {}", left[next])),
            (Some(Err(error)), _) => {
                let until = next.map_or(left.len(), |next| next + 1);
                let mut asked = left[..until].iter();
                if is_given_up(error) && asked.any(|position| !world.now.is_live(*position)) {
                    return Ok(());
                }
                Err(format!("{error}, before {:?}", next.map(|next| left[next])))
            }
            (Some(Ok(record)), Some(next)) if record.position.0 == left[next] => {
                self.at += next + 1;
                self.limit -= 1;
                world.check(record)
            }
            (Some(Ok(record)), next) => Err(format!(
                "{} was given, not {:?}",
                record.position.0,
                next.map(|next| left[next])
            )),
        }
    }
}

impl World {
    /// The records that a search has to find.
    fn labelled(
        &self,
        state: &State,
        label: Label,
        stream: Option<StreamId>,
        first: Position,
        direction: Direction,
        last: u64,
    ) -> Vec<u64> {
        let records = self.records.range(first.0..=last.max(first.0));
        let found = records.filter(|(position, written)| {
            written.labels.contains(&label)
                && state.has(stream.unwrap_or(written.stream), **position)
                && !state.redacted.contains(position)
        });
        let mut found: Vec<_> = found.map(|(position, _)| *position).collect();
        if direction == Direction::Backward {
            found.reverse();
        }
        found
    }
}

impl OfLabel {
    fn take(
        &mut self,
        world: &World,
        given: Option<&Result<Record>>,
    ) -> std::result::Result<(), String> {
        let is_findable = |position: &&u64| {
            let stream = self.stream.unwrap_or(world.records[*position].stream);
            world.now.has(stream, **position) && !world.now.redacted.contains(*position)
        };
        let left = &self.expected[self.at..];
        let passed = match given {
            None if self.limit == 0 => return Ok(()),
            None => left,
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(record)) => {
                let found = left.iter().position(|at| *at == record.position.0);
                let found = found.ok_or_else(|| format!("{} was found", record.position.0))?;
                self.at += found + 1;
                self.limit -= 1;
                world.check(record)?;
                &left[..found]
            }
        };
        match passed.iter().find(is_findable) {
            Some(missed) => Err(format!("{missed} wasn't found")),
            None => Ok(()),
        }
    }
}

impl OfLog {
    fn take(
        &mut self,
        world: &World,
        given: Option<&Result<Record>>,
        until: u64,
    ) -> std::result::Result<(), String> {
        let end = match given {
            None => until + 1,
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(record)) if record.position.0 <= self.last => {
                return Err(format!("{} comes again", record.position.0));
            }
            Some(Ok(record)) => {
                if record.kind.is_data() {
                    world.check(record)?;
                }
                record.position.0
            }
        };
        let mut passed = (self.last + 1..end).filter(|at| world.records.contains_key(at));
        if let Some(missed) = passed.find(|position| world.now.is_live(*position)) {
            return Err(format!("{missed} was left out"));
        }
        self.last = self.last.max(end - u64::from(given.is_none()));
        Ok(())
    }
}
