//! A workload that is told by its seed: threads that append, truncate, fork, snapshot and delete, each on streams of its
//! own, so that a store tells after how many of its operations each thread was cut off.

use std::{
    collections::{BTreeMap, HashMap},
    str::FromStr,
};

use runlog_engine::{
    Batch, Durability, Expected, NewRecord, Op, ReadOptions, Sequence, Store, StreamId,
};

use crate::random::Random;

/// A stream of a thread, by the order they are made.
type Number = u64;

/// One step of an operation. A tag names a payload that nothing else has.
#[derive(Clone, Debug)]
enum Step {
    Append {
        stream: Number,
        expected: u64,
        tags: Vec<u64>,
    },
    Truncate {
        stream: Number,
        expected: u64,
        after: u64,
    },
    Fork {
        parent: Number,
        at: u64,
        child: Number,
    },
    Snapshot {
        stream: Number,
        sequence: u64,
        tag: u64,
    },
    Delete {
        stream: Number,
    },
}

/// What a thread does as one batch.
#[derive(Clone, Debug)]
pub struct Operation {
    thread: u64,
    steps: Vec<Step>,
    durability: Durability,
    /// Whether it is put in line and waited for, or waited for by the call.
    is_staged: bool,
}

#[derive(Clone, Default)]
struct Stream {
    tags: Vec<u64>,
    /// By sequence.
    snapshots: BTreeMap<u64, u64>,
}

/// The streams of a thread as they should be.
#[derive(Clone, Default)]
pub struct State {
    streams: BTreeMap<Number, Stream>,
    made: u64,
}

/// The operations of a thread so far: for each run, its seed and how many of them stayed.
#[derive(Clone, Default, Debug)]
pub struct Past(Vec<(u64, Vec<u64>)>);

impl Past {
    /// The same and one run more, of which so many operations of each thread stayed.
    #[must_use]
    pub fn and(&self, seed: u64, stayed: Vec<u64>) -> Self {
        let mut past = self.clone();
        past.0.push((seed, stayed));
        past
    }

    /// Whether nothing stayed of it: there was no run, or the power went each time before anything was durable.
    pub fn is_empty(&self) -> bool {
        self.0
            .iter()
            .all(|(_, stayed)| stayed.iter().all(|count| *count == 0))
    }

    /// The state of a thread after it.
    pub fn state(&self, thread: u64) -> State {
        let mut state = State::default();
        for (seed, stayed) in &self.0 {
            for number in 1..=stayed[usize::try_from(thread).expect("few threads")] {
                state.next(*seed, thread, number);
            }
        }
        state
    }
}

impl std::fmt::Display for Past {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (seed, stayed) in &self.0 {
            let stayed: Vec<_> = stayed.iter().map(u64::to_string).collect();
            write!(f, "{seed}:{};", stayed.join(","))?;
        }
        Ok(())
    }
}

impl FromStr for Past {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let runs = text.split_terminator(';').map(|run| {
            let (seed, stayed) = run.split_once(':').unwrap_or((run, ""));
            let stayed: Result<_, _> = stayed.split(',').map(str::parse).collect();
            Ok((seed.parse()?, stayed?))
        });
        Ok(Self(runs.collect::<Result<_, _>>()?))
    }
}

fn mixed(numbers: [u64; 3]) -> u64 {
    numbers.into_iter().fold(0x9e37_79b9, |mixed, number| {
        Random::new(mixed ^ number).next_u64()
    })
}

/// What a tag stands for: mostly short, rarely a good part of a segment.
fn payload(tag: u64) -> Vec<u8> {
    let length = if tag.is_multiple_of(41) {
        20_000
    } else {
        8 + tag % 2000
    };
    let length = usize::try_from(length).expect("small");
    tag.to_le_bytes().into_iter().cycle().take(length).collect()
}

/// The tag of a payload, if it is the payload of one.
fn tag_of(found: &[u8]) -> Option<u64> {
    let tag = u64::from_le_bytes(*found.first_chunk()?);
    (payload(tag) == found).then_some(tag)
}

fn stream_id(thread: u64, number: Number) -> StreamId {
    StreamId::from_bytes(((u128::from(thread) + 1) << 64 | u128::from(number + 1)).to_be_bytes())
}

impl State {
    /// The operation of a thread with a number, from 1, after those before; the state is that after it.
    pub fn next(&mut self, seed: u64, thread: u64, number: u64) -> Operation {
        let mut random = Random::new(mixed([seed, thread, number]));
        let durability = match random.below(10) {
            0..4 => Durability::Sync,
            4..7 => Durability::Os,
            _ => Durability::Interval(20),
        };
        let is_staged = random.one_in(4);
        let steps = (0..=u64::from(random.one_in(6)))
            .map(|_| self.step(&mut random))
            .collect();
        Operation {
            thread,
            steps,
            durability,
            is_staged,
        }
    }

    fn step(&mut self, random: &mut Random) -> Step {
        let living: Vec<Number> = self.streams.keys().copied().collect();
        if living.is_empty() || (living.len() < 5 && random.one_in(20)) {
            self.made += 1;
            return self.append(self.made - 1, random);
        }
        let number = living[random.place(living.len())];
        let last = self.streams[&number].tags.len() as u64;
        match random.below(24) {
            0 if last > 0 => {
                let after = last - random.below(last.min(9)) - 1;
                let stream = self.stream(number);
                stream.tags.truncate(usize::try_from(after).expect("small"));
                stream.snapshots.retain(|sequence, _| *sequence <= after);
                Step::Truncate {
                    stream: number,
                    expected: last,
                    after,
                }
            }
            1 if living.len() < 8 => {
                let (at, child) = (random.below(last + 1), self.made);
                self.made += 1;
                let mut made = self.streams[&number].clone();
                made.tags.truncate(usize::try_from(at).expect("small"));
                made.snapshots.retain(|sequence, _| *sequence <= at);
                self.streams.insert(child, made);
                Step::Fork {
                    parent: number,
                    at,
                    child,
                }
            }
            2 if last > 0 => {
                let (sequence, tag) = (1 + random.below(last), random.next_u64());
                self.stream(number).snapshots.insert(sequence, tag);
                Step::Snapshot {
                    stream: number,
                    sequence,
                    tag,
                }
            }
            3 if living.len() > 5 => {
                self.streams.remove(&number);
                Step::Delete { stream: number }
            }
            _ => self.append(number, random),
        }
    }

    fn append(&mut self, number: Number, random: &mut Random) -> Step {
        let tags: Vec<_> = (0..=random.below(3)).map(|_| random.next_u64()).collect();
        let stream = self.stream(number);
        let expected = stream.tags.len() as u64;
        stream.tags.extend(&tags);
        Step::Append {
            stream: number,
            expected,
            tags,
        }
    }

    fn stream(&mut self, number: Number) -> &mut Stream {
        self.streams.entry(number).or_default()
    }

    /// A number that tells it from others.
    fn fingerprint(&self) -> u64 {
        self.streams.iter().fold(1, |mut sum, (number, stream)| {
            sum = mixed([sum, *number, stream.tags.len() as u64]);
            sum = stream
                .tags
                .iter()
                .fold(sum, |sum, tag| mixed([sum, *tag, 0]));
            match stream.snapshots.last_key_value() {
                Some((sequence, tag)) => mixed([sum, *sequence, *tag]),
                None => sum,
            }
        })
    }
}

impl Operation {
    /// Does it; the position it ends at.
    ///
    /// # Errors
    /// Those of the store.
    pub fn run(&self, store: &Store) -> runlog_engine::Result<u64> {
        let payloads: Vec<Vec<Vec<u8>>> = self.steps.iter().map(Step::payloads).collect();
        let steps = self.steps.iter().zip(&payloads);
        let ops = steps
            .map(|(step, payloads)| step.op(self.thread, payloads))
            .collect();
        let batch = Batch::new(ops).with_durability(self.durability);
        let done = if self.is_staged {
            store.stage(&batch)?.wait()?
        } else {
            store.commit(&batch)?
        };
        Ok(done.last_position.0)
    }

    /// Whether it is durable when it was acknowledged.
    pub fn is_durable(&self) -> bool {
        self.durability == Durability::Sync
    }
}

impl Step {
    fn payloads(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Append { tags, .. } => tags.iter().map(|tag| payload(*tag)).collect(),
            Self::Snapshot { tag, .. } => vec![payload(*tag)],
            _ => Vec::new(),
        }
    }

    fn op<'a>(&self, thread: u64, payloads: &'a [Vec<u8>]) -> Op<'a> {
        let id = |number| stream_id(thread, number);
        match self {
            Self::Append {
                stream, expected, ..
            } => Op::Append {
                stream: id(*stream),
                expected: Expected::Last(Sequence(*expected)),
                records: payloads
                    .iter()
                    .map(|payload| NewRecord::data(payload))
                    .collect(),
            },
            Self::Truncate {
                stream,
                expected,
                after,
            } => Op::Truncate {
                stream: id(*stream),
                expected: Expected::Last(Sequence(*expected)),
                after: Sequence(*after),
            },
            Self::Fork { parent, at, child } => Op::Fork {
                parent: id(*parent),
                expected: Expected::Exists,
                at: Sequence(*at),
                child: id(*child),
            },
            Self::Snapshot {
                stream, sequence, ..
            } => Op::Snapshot {
                stream: id(*stream),
                expected: Expected::Exists,
                sequence: Sequence(*sequence),
                meta: &[],
                payload: payloads.first().map(Vec::as_slice).unwrap_or_default(),
            },
            Self::Delete { stream } => Op::Delete {
                stream: id(*stream),
                expected: Expected::Any,
            },
        }
    }
}

/// After how many of its operations each thread's streams may be as they are found.
pub struct Possible {
    by_fingerprint: Vec<HashMap<u64, u64>>,
}

impl Possible {
    /// The states of a run of so many threads and operations after a past.
    pub fn new(past: &Past, seed: u64, threads: u64, operations: u64) -> Self {
        let states = |thread| {
            let mut state = past.state(thread);
            let mut found = HashMap::from([(state.fingerprint(), 0)]);
            for number in 1..=operations {
                state.next(seed, thread, number);
                found.insert(state.fingerprint(), number);
            }
            found
        };
        Self {
            by_fingerprint: (0..threads).map(states).collect(),
        }
    }

    /// After how many operations of each thread a store is, as all its streams are read.
    ///
    /// # Errors
    /// What is wrong with it: an error of reading, a payload of nobody, or a state that never was.
    pub fn stayed(&self, store: &Store) -> Result<Vec<u64>, String> {
        let mut found = vec![State::default(); self.by_fingerprint.len()];
        for info in store
            .streams()
            .map_err(|error| format!("streams: {error}"))?
        {
            let id = u128::from_be_bytes(*info.id.as_bytes());
            let thread = usize::try_from(id >> 64).unwrap_or(0).wrapping_sub(1);
            let number = u64::try_from(id & u128::from(u64::MAX))
                .unwrap_or(0)
                .wrapping_sub(1);
            let state = found
                .get_mut(thread)
                .ok_or_else(|| format!("a stream of nobody: {}", info.id))?;
            state.streams.insert(number, read(store, info.id)?);
        }
        let stayed = found.iter().zip(&self.by_fingerprint).zip(0..).map(|((found, possible), thread)| {
            let lengths: Vec<_> = found.streams.iter().map(|(number, stream)| (number, stream.tags.len())).collect();
            let never = || format!("thread {thread} has a state that never was; its streams and lengths: {lengths:?}");
            possible.get(&found.fingerprint()).copied().ok_or_else(never)
        });
        stayed.collect()
    }
}

fn read(store: &Store, id: StreamId) -> Result<Stream, String> {
    let told = |error: runlog_engine::Error| format!("stream {id}: {:?}: {error}", error.kind());
    let mut stream = Stream::default();
    for (record, sequence) in store
        .read(id, ReadOptions::default())
        .map_err(told)?
        .zip(1..)
    {
        let record = record.map_err(told)?;
        if record.sequence.0 != sequence {
            return Err(format!(
                "stream {id}: sequence {} where {sequence} should be",
                record.sequence
            ));
        }
        let tag = tag_of(&record.payload);
        stream.tags.push(
            tag.ok_or_else(|| format!("stream {id}, sequence {sequence}: a payload of nobody"))?,
        );
    }
    if let Some(snapshot) = store.latest_snapshot(id, Sequence::MAX).map_err(told)? {
        let tag = tag_of(&snapshot.payload)
            .ok_or_else(|| format!("stream {id}: a snapshot of nobody"))?;
        stream.snapshots.insert(snapshot.sequence.0, tag);
    }
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use runlog_engine::OpenOptions;

    use super::*;

    #[test]
    fn states_are_told_from_each_other_and_from_those_that_never_were() {
        let store = Store::in_memory(OpenOptions::default()).expect("a store");
        let possible = Possible::new(&Past::default(), 7, 2, 60);
        let mut states = [State::default(), State::default()];
        for number in 1..=60 {
            for (state, thread) in states.iter_mut().zip(0..) {
                state
                    .next(7, thread, number)
                    .run(&store)
                    .expect("it is as the state says");
            }
            // A later operation may lead back to this state: the highest number counts.
            let stayed = possible.stayed(&store).expect("a state of these");
            assert!(
                stayed.iter().all(|stayed| *stayed >= number),
                "{stayed:?} after {number}"
            );
        }
        let past: Past = Past::default()
            .and(7, vec![60, 60])
            .to_string()
            .parse()
            .expect("as it was told");
        assert_eq!(past.state(1).fingerprint(), states[1].fingerprint());
        store
            .append(
                stream_id(1, 0),
                Expected::Any,
                &[NewRecord::data(&payload(5))],
            )
            .expect("it is there");
        possible.stayed(&store).expect_err("nobody appended that");
    }
}
