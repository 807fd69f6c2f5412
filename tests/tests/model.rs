//! Random work on a store beside a model: whatever is done and however the store is left, it is what the model says,
//! or after a crash a prefix of it that holds all that was acknowledged.

use std::ops::Range;

use bytes::Bytes;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngSeed},
};
use runlog_engine::{
    Codec, CompactOptions, CompactScope, Direction, Durability, Expected, Label, OpenOptions,
    Position, Preallocation, ReadOptions, Sequence, StreamId,
};
use runlog_tests::{
    budget,
    compare::{self, Same},
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    host::TestHost,
    model::{Item, Step, Work},
};

const STREAMS: u8 = 6;
const SEGMENT_BYTES: u64 = 64 << 10;
const DURABILITIES: [Durability; 3] = [Durability::Sync, Durability::Os, Durability::Interval(1)];

/// A step of a test. Numbers from 0 to 65,535 are shares of what there is when it is done.
#[derive(Clone, Debug)]
enum Act {
    Commit(Vec<Part>, Option<u8>, Option<Durability>),
    /// Batches in line, waited for from the first or from the last, or not before the store is left.
    Stage(Vec<Part>, Order),
    Read {
        stream: u8,
        first: u16,
        last: u16,
        backward: bool,
        kinds: Vec<u8>,
        limit: u64,
    },
    Scan(u16),
    Position(u16),
    Snapshot(u8, u16),
    Sync,
    Leave(Leave),
    /// A crash right after opening a store that was left by a crash.
    CrashTwice(u64, u64),
    PassTime(i64),
    Reader,
    Compact(u8),
}

#[derive(Clone, Copy, Debug)]
enum Order {
    FirstToLast,
    LastToFirst,
    Never(Leave),
}

/// A step of a batch.
#[derive(Clone, Debug)]
enum Part {
    Append {
        stream: u8,
        expected: Want,
        records: Vec<(u8, u16, Size)>,
    },
    Truncate {
        stream: u8,
        expected: Want,
        after: u16,
    },
    Fork {
        parent: u8,
        expected: Want,
        at: u16,
        child: u8,
    },
    Snapshot {
        stream: u8,
        expected: Want,
        at: u16,
        size: Size,
    },
    Delete {
        stream: u8,
        expected: Want,
    },
    Redact {
        position: u16,
        others: u128,
    },
}

#[derive(Clone, Copy, Debug)]
enum Want {
    Any,
    Right,
    Wrong,
    /// The position of its last record.
    At,
    /// Another record's.
    NotAt(u16),
    Exists,
    Absent,
}

/// How long a payload is.
#[derive(Clone, Copy, Debug)]
enum Size {
    Bytes(u32),
    /// So that the record ends so many bytes from the end of a page, if it has no key, and its stream is there.
    ToPage(i8),
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        6 => (0..300_u32).prop_map(Size::Bytes),
        3 => (900..1300_u32).prop_map(Size::Bytes),
        3 => (-9..9_i8).prop_map(Size::ToPage),
        2 => (3900..4300_u32).prop_map(Size::Bytes),
        1 => (20_000..40_000_u32).prop_map(Size::Bytes),
        1 => (60_000..70_000_u32).prop_map(Size::Bytes),
    ]
}

fn want() -> impl Strategy<Value = Want> {
    prop_oneof![
        6 => Just(Want::Any),
        4 => Just(Want::Right),
        1 => Just(Want::Wrong),
        4 => Just(Want::At),
        1 => any::<u16>().prop_map(Want::NotAt),
        1 => Just(Want::Exists),
        1 => Just(Want::Absent),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    let records = vec(
        (
            0..4_u8,
            prop_oneof![3 => Just(0), 1 => 1..50_u16, 1 => Just(32_768)],
            size(),
        ),
        0..5,
    );
    prop_oneof![
        12 => (0..STREAMS, want(), records)
            .prop_map(|(stream, expected, records)| Part::Append { stream, expected, records }),
        2 => (0..STREAMS, want(), any::<u16>())
            .prop_map(|(stream, expected, after)| Part::Truncate { stream, expected, after }),
        2 => (0..STREAMS, want(), any::<u16>(), 0..STREAMS * 2)
            .prop_map(|(parent, expected, at, child)| Part::Fork { parent, expected, at, child }),
        2 => (0..STREAMS, want(), any::<u16>(), size())
            .prop_map(|(stream, expected, at, size)| Part::Snapshot { stream, expected, at, size }),
        1 => (0..STREAMS * 2, want()).prop_map(|(stream, expected)| Part::Delete { stream, expected }),
        1 => (any::<u16>(), prop_oneof![Just(0), any::<u128>()])
            .prop_map(|(position, others)| Part::Redact { position, others }),
    ]
}

fn durability() -> impl Strategy<Value = Option<Durability>> {
    prop_oneof![
        6 => Just(None),
        2 => Just(Some(Durability::Sync)),
        2 => Just(Some(Durability::Os)),
        1 => Just(Some(Durability::Interval(5))),
    ]
}

fn leave() -> impl Strategy<Value = Leave> {
    prop_oneof![
        2 => Just(Leave::Close),
        1 => Just(Leave::Drop),
        1 => Just(Leave::CloseWithoutCheckpoint),
        1 => Just(Leave::Kill),
        5 => any::<u64>().prop_map(Leave::Crash),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    let parts =
        prop_oneof![4 => vec(part(), 1..2), 2 => vec(part(), 0..5), 1 => vec(part(), 5..20)];
    let order = prop_oneof![
        2 => Just(Order::FirstToLast),
        1 => Just(Order::LastToFirst),
        1 => leave().prop_map(Order::Never),
    ];
    let read = (
        0..STREAMS * 2,
        any::<u16>(),
        any::<u16>(),
        any::<bool>(),
        vec(0..5_u8, 0..3),
        0..40_u64,
    );
    prop_oneof![
        16 => (parts, proptest::option::weighted(0.4, 0..3_u8), durability())
            .prop_map(|(parts, key, durability)| Act::Commit(parts, key, durability)),
        2 => (vec(part(), 1..8), order).prop_map(|(parts, order)| Act::Stage(parts, order)),
        3 => read.prop_map(|(stream, first, last, backward, kinds, limit)| Act::Read {
            stream, first, last, backward, kinds, limit
        }),
        1 => any::<u16>().prop_map(Act::Scan),
        1 => any::<u16>().prop_map(Act::Position),
        1 => (0..STREAMS * 2, any::<u16>()).prop_map(|(stream, at)| Act::Snapshot(stream, at)),
        1 => Just(Act::Sync),
        3 => leave().prop_map(Act::Leave),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(first, second)| Act::CrashTwice(first, second)),
        1 => prop_oneof![4 => 0..1000_i64, 1 => -5000..0_i64, 1 => Just(30 * 24 * 3_600_000_i64)].prop_map(Act::PassTime),
        1 => Just(Act::Reader),
        2 => any::<u8>().prop_map(Act::Compact),
    ]
}

fn id(number: u8) -> StreamId {
    let mut bytes = [number; 16];
    bytes[0] = 1;
    StreamId::from_bytes(bytes)
}

/// From 0 to `last`, both inclusive.
fn share(of: u16, last: u64) -> u64 {
    u64::from(of) * (last + 1) / 65_536
}

/// Bytes that are different for each record and place.
fn payload(bytes: usize, seed: u64) -> Bytes {
    let word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..bytes)
        .map(|place| word.to_le_bytes()[place % 8] ^ (place / 8).to_le_bytes()[0])
        .collect()
}

/// The test at hand.
struct Run {
    driver: Driver,
    reader: Option<runlog_engine::Store>,
    made: u64,
}

impl Run {
    fn new(
        place: Place,
        durability: Durability,
        preallocation: Preallocation,
        threads: bool,
    ) -> Self {
        let host = TestHost::new(1);
        let host = if threads { host.with_threads() } else { host };
        let options = OpenOptions {
            durability,
            preallocation,
            segment_bytes_max: SEGMENT_BYTES,
            ..OpenOptions::default()
        };
        let mut driver = Driver::new(place, host, options).expect("a new store");
        if threads {
            // Segments of which nothing is in use are given up in the background.
            driver.model.compacted_to = u64::MAX;
        }
        Self {
            driver,
            reader: None,
            made: 0,
        }
    }

    fn step(&mut self, part: &Part) -> Step {
        match part {
            Part::Append {
                stream,
                expected,
                records,
            } => {
                let (stream, expected) = (id(*stream), self.expected(*stream, *expected));
                let records = records.iter();
                let records = records
                    .map(|(kind, meta, size)| self.item(*kind, usize::from(*meta), *size))
                    .collect();
                Step::Append {
                    stream,
                    expected,
                    records,
                }
            }
            Part::Truncate {
                stream,
                expected,
                after,
            } => Step::Truncate {
                stream: id(*stream),
                expected: self.expected(*stream, *expected),
                after: share(*after, self.last(*stream)),
            },
            Part::Fork {
                parent,
                expected,
                at,
                child,
            } => Step::Fork {
                parent: id(*parent),
                expected: self.expected(*parent, *expected),
                at: share(*at, self.last(*parent)),
                child: id(*child),
            },
            Part::Snapshot {
                stream,
                expected,
                at,
                size,
            } => Step::Snapshot {
                stream: id(*stream),
                expected: self.expected(*stream, *expected),
                sequence: share(*at, self.last(*stream)),
                state: self.item(129, usize::from(*at % 3), *size),
            },
            Part::Delete { stream, expected } => Step::Delete {
                stream: id(*stream),
                expected: self.expected(*stream, *expected),
            },
            Part::Redact { position, others } => {
                let position = self.redactable(*position);
                Step::Redact {
                    position,
                    others: self.driver.model.redactable_behind(position, *others),
                    reason: "asked for".to_owned(),
                }
            }
        }
    }

    /// A position, of a record that is sure to be there if it is one.
    fn redactable(&self, position: u16) -> u64 {
        let model = &self.driver.model;
        let position = share(position, model.last_position() + 1);
        if model.may_be_gone(position) {
            model.last_position() + 1
        } else {
            position
        }
    }

    fn compact(&mut self, choice: u8) -> Same {
        let options = CompactOptions {
            scope: [
                CompactScope::Dead,
                CompactScope::Sparse,
                CompactScope::Sealed,
                CompactScope::All,
            ][usize::from(choice % 4)],
            codec: [Codec::Plain, Codec::Lz4, Codec::Zstd][usize::from(choice / 4 % 3)],
            dry_run: choice >= 250,
            bytes_per_second: None,
        };
        match self.driver.try_compact(options)? {
            None => self.driver.check(),
            Some(kind) => Err(format!("compaction: {kind:?}")),
        }
    }

    fn item(&mut self, kind: u8, meta: usize, size: Size) -> Item {
        self.made += 1;
        let bytes = match size {
            Size::Bytes(bytes) => bytes as usize,
            Size::ToPage(from_end) => {
                usize::try_from(4096 - 32 + i32::from(from_end)).expect("positive")
            }
        };
        // What is to end near the end of a page has none: they take room.
        let labels = match size {
            Size::ToPage(_) => Vec::new(),
            Size::Bytes(_) if kind == 129 => Vec::new(),
            Size::Bytes(_) => (0..self.made % 4)
                .map(|nth| Label::of("test", [(self.made * (nth + 1) % 5).to_le_bytes()[0]]))
                .collect(),
        };
        Item {
            kind,
            labels,
            meta: payload(meta, !self.made),
            payload: payload(bytes, self.made),
        }
    }

    fn last(&self, stream: u8) -> u64 {
        self.driver
            .model
            .stream(id(stream))
            .map_or(0, |stream| stream.last())
    }

    fn last_position(&self, stream: u8) -> u64 {
        self.driver
            .model
            .stream(id(stream))
            .map_or(0, |stream| stream.last_position())
    }

    fn expected(&self, stream: u8, want: Want) -> Expected {
        match want {
            Want::Any => Expected::Any,
            Want::Right => Expected::Last(Sequence(self.last(stream))),
            Want::Wrong => Expected::Last(Sequence(self.last(stream) + 1)),
            Want::At => Expected::At(Position(self.last_position(stream))),
            Want::NotAt(at) => Expected::At(Position(share(at, self.driver.model.last_position()))),
            Want::Exists => Expected::Exists,
            Want::Absent => Expected::Absent,
        }
    }

    fn act(&mut self, act: &Act) -> Same {
        match act {
            Act::Commit(parts, key, durability) => {
                let steps = parts.iter().map(|part| self.step(part)).collect();
                let key = key.map(|key| vec![key; 1 + usize::from(key) * 50]);
                self.driver.commit(&Work {
                    steps,
                    key,
                    durability: *durability,
                })
            }
            Act::Stage(parts, order) => self.stage(parts, *order),
            Act::Read {
                stream,
                first,
                last,
                backward,
                kinds,
                limit,
            } => {
                let Some(found) = self.driver.model.stream(id(*stream)) else {
                    return Ok(());
                };
                let sequence = |of: u16| Sequence(share(of, found.last() + 1));
                let options = ReadOptions {
                    first: sequence(*first),
                    last: if last % 5 == 0 {
                        Sequence::MAX
                    } else {
                        sequence(*last)
                    },
                    direction: if *backward {
                        Direction::Backward
                    } else {
                        Direction::Forward
                    },
                    kinds: compare::kinds(kinds),
                    limit: if *limit == 0 { u64::MAX } else { *limit - 1 },
                };
                compare::read_equals(self.driver.store(), &self.driver.model, found, &options)
            }
            Act::Scan(first) => {
                let first = share(*first, self.driver.model.last_position() + 2);
                compare::scan_equals(self.driver.store(), &self.driver.model, first)
            }
            Act::Position(position) => {
                let position = share(*position, self.driver.model.last_position() + 1);
                compare::position_equals(self.driver.store(), &self.driver.model, position)
            }
            Act::Snapshot(stream, at) => {
                let Some(found) = self.driver.model.stream(id(*stream)) else {
                    return Ok(());
                };
                let at = share(*at, found.last() + 1);
                compare::snapshot_equals(self.driver.store(), &self.driver.model, found, at)
            }
            Act::Sync => self.driver.sync(),
            Act::Leave(leave) => self.leave(*leave),
            Act::CrashTwice(first, second) => {
                self.leave(Leave::Crash(*first))?;
                let last = self.driver.model.last_position();
                self.leave(Leave::Crash(*second))?;
                compare::same(
                    "position after a second crash",
                    &self.driver.model.last_position(),
                    &last,
                )
            }
            Act::PassTime(ms) => {
                match u64::try_from(*ms) {
                    Ok(ms) => self.driver.host.pass_ms(ms),
                    Err(_) => self.driver.host.turn_back_ms(ms.unsigned_abs()),
                }
                Ok(())
            }
            Act::Compact(choice) => self.compact(*choice),
            Act::Reader => {
                if self.reader.is_none() {
                    self.reader = Some(
                        self.driver
                            .reader()
                            .map_err(|error| format!("opening a reader: {error}"))?,
                    );
                }
                Ok(())
            }
        }
    }

    fn stage(&mut self, parts: &[Part], order: Order) -> Same {
        let published = self.driver.model.last_position();
        let mut staged = Vec::new();
        for part in parts {
            let step = self.step(part);
            // A redaction reaches what was published; whether a staged batch is by now depends on its size.
            if let Step::Redact {
                position, others, ..
            } = step
                && position + u64::from(u128::BITS - others.leading_zeros()) > published
            {
                continue;
            }
            staged.extend(self.driver.stage(&Work::one(step))?);
        }
        match order {
            Order::FirstToLast => staged
                .into_iter()
                .try_for_each(|staged| self.driver.wait(staged)),
            Order::LastToFirst => staged
                .into_iter()
                .rev()
                .try_for_each(|staged| self.driver.wait(staged)),
            Order::Never(leave) => {
                drop(staged);
                self.leave(leave)
            }
        }
    }

    fn leave(&mut self, leave: Leave) -> Same {
        // Another process goes on reading, but not through a crash of the machine.
        if matches!(leave, Leave::Crash(_) | Leave::Kill) {
            self.reader = None;
        }
        self.driver.leave_and_reopen(leave)
    }

    fn finish(mut self) -> Same {
        self.check_reader()?;
        self.leave(Leave::Close)
    }

    fn check_reader(&self) -> Same {
        self.reader.iter().try_for_each(|reader| {
            compare::store_equals(reader, &self.driver.model)
                .map_err(|difference| format!("reader: {difference}"))
        })
    }
}

fn run(mut run: Run, acts: &[Act]) -> Result<(), TestCaseError> {
    for (place, act) in acts.iter().enumerate() {
        let done = run.act(act).and_then(|()| run.check_reader());
        done.map_err(|difference| {
            TestCaseError::fail(format!("act {place}, {act:?}: {difference}"))
        })?;
    }
    run.finish()
        .map_err(|difference| TestCaseError::fail(format!("at the end: {difference}")))
}

/// Runs a property on so many cases; on more, with a seed of its own that it prints, when tortured.
fn check<S: Strategy>(
    name: &str,
    cases: u32,
    strategy: S,
    property: impl Fn(S::Value) -> Result<(), TestCaseError>,
) {
    let budget = budget::of(name);
    loop {
        let seed = budget.seed();
        let config = Config {
            cases,
            rng_seed: RngSeed::Fixed(seed),
            failure_persistence: None,
            max_shrink_iters: 20_000,
            ..Config::default()
        };
        let mut runner = proptest::test_runner::TestRunner::new(config);
        if let Err(failure) = runner.run(&strategy, &property) {
            panic!("seed {seed}: {failure}");
        }
        budget.add("cases", u64::from(cases));
        if !budget.goes_on() {
            break;
        }
    }
}

fn acts(count: Range<usize>) -> impl Strategy<Value = Vec<Act>> {
    vec(act(), count)
}

fn on_faulty(name: &str, cases: u32, durability: Durability, preallocation: Preallocation) {
    check(name, cases, acts(1..60), |acts| {
        run(
            Run::new(
                Place::Faulty(FaultyStorage::new()),
                durability,
                preallocation,
                false,
            ),
            &acts,
        )
    });
}

#[test]
fn store_that_flushes_each_append_equals_the_model() {
    on_faulty("model sync", 96, Durability::Sync, Preallocation::Auto);
}

#[test]
fn store_that_leaves_flushing_to_the_system_equals_the_model() {
    on_faulty("model os", 96, Durability::Os, Preallocation::Auto);
}

#[test]
fn store_that_flushes_at_intervals_equals_the_model() {
    on_faulty(
        "model interval",
        48,
        Durability::Interval(5),
        Preallocation::Auto,
    );
}

#[test]
fn store_on_a_system_without_boot_ids_equals_the_model() {
    check("model no boot id", 64, acts(1..60), |acts| {
        let place = Place::Faulty(FaultyStorage::without_boot_id());
        run(
            Run::new(place, Durability::Os, Preallocation::Auto, false),
            &acts,
        )
    });
}

#[test]
fn store_whose_files_grow_equals_the_model() {
    on_faulty("model growing", 64, Durability::Sync, Preallocation::None);
}

#[test]
fn store_with_threads_equals_the_model() {
    let strategy = (
        acts(1..60),
        proptest::sample::select(DURABILITIES.as_slice()),
    );
    check("model threads", 64, strategy, |(acts, durability)| {
        let place = Place::Faulty(FaultyStorage::new());
        run(
            Run::new(place, durability, Preallocation::Auto, true),
            &acts,
        )
    });
}

#[test]
fn store_in_a_folder_equals_the_model_and_the_checker() {
    let strategy = (
        acts(1..40),
        proptest::sample::select(DURABILITIES.as_slice()),
    );
    check("model folder", 24, strategy, |(acts, durability)| {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::Folder(folder.path().join("store"));
        run(
            Run::new(place, durability, Preallocation::Auto, true),
            &acts,
        )
    });
}
