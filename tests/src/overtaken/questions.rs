//! Questions that one call answers, while the store changes in the middle of it.

use std::{fmt::Write, ops::ControlFlow, sync::Arc, task::Context};

use runlog_engine::{
    CompactOptions, CompactScope, Direction, FindOptions, Kind, Label, Position, ReadOptions,
    Result, Sequence, Store, StreamId, salvage,
    storage::{MemoryStorage, Storage},
};

use super::{KINDS, LABELS, State, World, options};
use crate::{answers::line, random::Random};

/// One that has an answer at each moment. What is answered while the store changes is right if it was so at any of these.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "they are named after the calls")]
pub enum Question {
    Streams,
    Stream(StreamId),
    LastPosition,
    Stat,
    Snapshot(StreamId, Sequence),
    Record(Position),
    NextReadable(Position),
    Read(StreamId, Direction, Vec<Kind>),
    Unreadable(StreamId),
    Find(Label, Option<StreamId>, Direction),
    Polled,
    DryRun(CompactScope),
    Verify,
    Backup,
    Open,
    Salvage,
}

impl Question {
    /// One of those that there are, about what there is or was.
    pub fn any(state: &State, last: u64, random: &mut Random) -> Self {
        let place = random.place(state.streams.len().max(1));
        let stream = state.streams.iter().nth(place);
        let direction = [Direction::Forward, Direction::Backward][random.place(2)];
        let position = Position(1 + random.below(last.max(1)));
        let scope = [CompactScope::Dead, CompactScope::Sparse, CompactScope::All];
        let Some((stream, positions)) = stream else {
            return Self::Streams;
        };
        let stream = *stream;
        match random.below(40) {
            0 => Self::Streams,
            1 => Self::Stream(stream),
            2 => Self::LastPosition,
            3..=5 => Self::Stat,
            6..=10 => {
                let at = random.place(positions.len() + 1);
                Self::Snapshot(stream, Sequence(at as u64))
            }
            11..=13 => Self::Record(position),
            14 | 15 => Self::NextReadable(position),
            16..=21 => {
                let mut kinds: Vec<_> = (0..KINDS).map(Kind).collect();
                kinds.retain(|_| random.one_in(3));
                Self::Read(stream, direction, kinds)
            }
            22 => Self::Unreadable(stream),
            23..=28 => {
                let stream = Some(stream).filter(|_| random.one_in(2));
                Self::Find(Label(random.below(LABELS)), stream, direction)
            }
            29 => Self::Polled,
            30 | 31 => Self::DryRun(scope[random.place(scope.len())]),
            32 | 33 => Self::Verify,
            34 | 35 => Self::Backup,
            36 | 37 => Self::Open,
            38 => Self::Salvage,
            _ => Self::Streams,
        }
    }

    /// Whether it is answered record by record, of which each is as it was at a moment of its own.
    pub fn is_of_many(&self) -> bool {
        matches!(self, Self::Read(..) | Self::Find(..))
    }

    /// The answer of a store, which is read from this storage; an error's in its words.
    pub fn ask(&self, store: &Store, storage: &Arc<dyn Storage>) -> String {
        self.answer(store, storage)
            .unwrap_or_else(|error| format!("error {:?}: {error}", error.kind()))
    }

    /// The answer at this moment, by handles that keep what was removed.
    pub fn right(&self, world: &World) -> String {
        let storage: Arc<dyn Storage> = Arc::new(world.storage.that_remembers());
        self.ask(&world.oracle, &storage)
    }

    /// Whether an answer is right that isn't that of a moment: records that no stream has may be there as long as no compaction
    /// has dropped them.
    pub fn allows(&self, answer: &str, world: &World) -> bool {
        match self {
            Self::Record(position) => answer == "none" && !world.now.is_live(position.0),
            Self::NextReadable(position) => {
                let mut passed = world.records.range(position.0..);
                let live = passed.find(|(position, _)| world.now.is_live(**position));
                let until = live.map_or(u64::MAX, |(position, _)| *position);
                let found = answer.trim_start_matches("Some(Position(");
                match found.trim_end_matches("))").parse::<u64>() {
                    Ok(found) => (position.0..=until).contains(&found),
                    Err(_) => answer == "None" && live.is_none(),
                }
            }
            // What is known without looking.
            Self::Polled => {
                let mut known = world.states.keys();
                known.any(|last| answer == format!("Ready(Ok(Position({last})))"))
            }
            _ => false,
        }
    }

    fn answer(&self, store: &Store, storage: &Arc<dyn Storage>) -> Result<String> {
        Ok(match self {
            Self::Streams => format!("{:?}", store.streams()?),
            Self::Stream(stream) => format!("{:?}", store.stream(*stream)?),
            Self::LastPosition => format!("{:?}", store.last_position()?),
            Self::Stat => {
                let stat = store.stat()?;
                format!(
                    "{} {} {:?}",
                    stat.streams, stat.streams_deleted, stat.last_position
                )
            }
            Self::Snapshot(stream, at) => format!("{:?}", store.latest_snapshot(*stream, *at)?),
            Self::Record(position) => {
                let record = store.record(*position)?;
                record.map_or("none".to_owned(), |record| line(&record))
            }
            Self::NextReadable(position) => format!("{:?}", store.next_readable(*position)?),
            Self::Read(stream, direction, kinds) => {
                let options = ReadOptions {
                    direction: *direction,
                    kinds: kinds.clone(),
                    ..ReadOptions::default()
                };
                lines(store.read(*stream, options)?)?
            }
            Self::Unreadable(stream) => format!("{:?}", store.unreadable(*stream)?),
            Self::Find(label, stream, direction) => {
                let options = FindOptions {
                    stream: *stream,
                    direction: *direction,
                    ..FindOptions::default()
                };
                lines(store.find(*label, options)?)?
            }
            Self::Polled => {
                let mut context = Context::from_waker(std::task::Waker::noop());
                format!("{:?}", store.poll_past(Position::ZERO, &mut context))
            }
            Self::DryRun(scope) => {
                let options = CompactOptions {
                    scope: *scope,
                    dry_run: true,
                    ..CompactOptions::default()
                };
                store.compact(options).map(|_| "it would".to_owned())?
            }
            Self::Verify => format!("{:?}", store.verify()?.problems),
            Self::Backup => {
                let target = Arc::new(MemoryStorage::new());
                store.backup(&*target)?;
                contents(&Store::open_on(target, options())?)?
            }
            Self::Open => {
                let opened = Store::open_on(storage.clone(), options().read_only())?;
                format!("{:?}", opened.streams()?)
            }
            Self::Salvage => {
                let mut count = 0_u64;
                salvage(&**storage, &mut |_| {
                    count += 1;
                    ControlFlow::Continue(())
                })?;
                format!("{} records or more", count.min(1))
            }
        })
    }
}

fn lines(records: impl Iterator<Item = Result<runlog_engine::Record>>) -> Result<String> {
    let mut told = String::new();
    for record in records {
        writeln!(told, "{}", line(&record?)).ok();
    }
    Ok(told)
}

/// All that the streams of a store have.
fn contents(store: &Store) -> Result<String> {
    let mut told = String::new();
    for info in store.streams()? {
        writeln!(told, "{info:?}").ok();
        told += &lines(store.read(info.id, ReadOptions::default())?)?;
    }
    Ok(told)
}
