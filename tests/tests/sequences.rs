//! Every short sequence of operations, with the power going at every point of it.

use runlog_engine::{Durability, Expected, OpenOptions, Preallocation};
use runlog_tests::{
    budget::{self, Budget},
    driver::{Driver, Leave, Place},
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    model::{Item, Step, Work},
    script::stream,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Act {
    Append,
    AppendUnflushed,
    Batch,
    Sync,
    Rotate,
    Snapshot,
    Truncate,
    Fork,
    Redact,
    Delete,
    Close,
    Kill,
}

const ACTS: [Act; 12] = [
    Act::Append,
    Act::AppendUnflushed,
    Act::Batch,
    Act::Sync,
    Act::Rotate,
    Act::Snapshot,
    Act::Truncate,
    Act::Fork,
    Act::Redact,
    Act::Delete,
    Act::Close,
    Act::Kill,
];

fn item(bytes: usize) -> Item {
    Item {
        kind: 1,
        labels: Vec::new(),
        meta: "meta".into(),
        payload: vec![b'p'; bytes].into(),
    }
}

fn append(number: u8, sizes: &[usize]) -> Step {
    let records = sizes.iter().map(|bytes| item(*bytes)).collect();
    Step::Append {
        stream: stream(number),
        expected: Expected::Any,
        records,
    }
}

impl Act {
    /// Does it, as the `turn`th; `false` when the storage failed.
    fn play(self, driver: &mut Driver, turn: u8) -> Result<bool, String> {
        let last = driver
            .model
            .stream(stream(1))
            .map_or(0, |stream| stream.last());
        let step = match self {
            Self::Append | Self::AppendUnflushed => append(1, &[700]),
            Self::Batch => {
                let steps = vec![
                    append(1, &[1, 600]),
                    append(2 + turn, &[500]),
                    append(1, &[900]),
                ];
                return commit(
                    driver,
                    Work {
                        steps,
                        key: Some(vec![turn]),
                        durability: None,
                    },
                );
            }
            Self::Sync => return Ok(driver.try_sync().is_none()),
            Self::Rotate => {
                driver.host.pass_ms(60 * 24 * 3_600_000);
                append(1, &[5])
            }
            Self::Snapshot => Step::Snapshot {
                stream: stream(1),
                expected: Expected::Any,
                sequence: last,
                state: item(800),
            },
            Self::Truncate => Step::Truncate {
                stream: stream(1),
                expected: Expected::Any,
                after: last.saturating_sub(1),
            },
            Self::Fork => Step::Fork {
                parent: stream(1),
                expected: Expected::Any,
                at: last,
                child: stream(20 + turn),
            },
            Self::Redact => Step::Redact {
                position: 2,
                others: driver.model.redactable_behind(2, 0b1011),
                reason: "asked for".to_owned(),
            },
            Self::Delete => Step::Delete {
                stream: stream(2),
                expected: Expected::Any,
            },
            Self::Close | Self::Kill => {
                let leave = if self == Self::Close {
                    Leave::Close
                } else {
                    Leave::Kill
                };
                let left = driver.leave(leave).is_ok();
                return Ok(left && driver.try_reopen()?.is_none());
            }
        };
        let durability = (self == Self::AppendUnflushed).then_some(Durability::Os);
        commit(
            driver,
            Work {
                durability,
                ..Work::one(step)
            },
        )
    }
}

fn commit(driver: &mut Driver, work: Work) -> Result<bool, String> {
    Ok(driver.try_commit(&work)?.is_none())
}

/// A store with a few records in it.
fn begin(durability: Durability, preallocation: Preallocation) -> (Driver, FaultyStorage) {
    let storage = FaultyStorage::new();
    let options = OpenOptions {
        durability,
        preallocation,
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let mut driver = Driver::new(Place::Faulty(storage.clone()), TestHost::new(1), options)
        .expect("a new store");
    driver
        .commit(&Work::one(append(1, &[300, 300, 300])))
        .expect("as the model says");
    driver
        .commit(&Work::one(append(2, &[20])))
        .expect("as the model says");
    (driver, storage)
}

/// Does a sequence, the power going at operation n for n = 0, 1, …, until it doesn't.
fn try_sequence(acts: &[Act], peeks: u64, budget: &Budget) -> Result<(), String> {
    for (durability, preallocation) in [
        (Durability::Sync, Preallocation::Auto),
        (Durability::Os, Preallocation::Auto),
        (Durability::Sync, Preallocation::None),
    ] {
        for after in 0.. {
            let (mut driver, storage) = begin(durability, preallocation);
            storage.arm(Fault {
                after,
                failure: Failure::PowerLoss,
                lasting: Lasting::Once,
            });
            let told = |error: String| {
                format!(
                    "{durability:?}, {preallocation:?}, {acts:?}, power lost at {after}: {error}"
                )
            };
            for (act, turn) in acts.iter().zip(0..) {
                if !act.play(&mut driver, turn).map_err(told)? {
                    break;
                }
            }
            // What comes with a seed is tried with several; one of them is looked at closely.
            let peeks = if storage.unflushed() > 1 { peeks } else { 1 };
            for seed in 0..peeks {
                let told = |error| told(format!("{:?}, crash {seed}: {error}", storage.hit()));
                let mut left = driver.after_crash(&storage, after * 1000 + seed);
                if seed == 0 {
                    left.reopen().map_err(told)?
                } else {
                    left.peek().map_err(told)?
                }
                budget.add("crashes survived", 1);
            }
            if storage.injected() == 0 {
                storage.arm(None);
                driver.leave_and_reopen(Leave::Close).map_err(told)?;
                break;
            }
        }
    }
    Ok(())
}

/// Every sequence of so many operations.
fn try_all(count: u32, peeks: u64, budget: &Budget) {
    let base = ACTS.len();
    let wrong: Vec<String> = (0..base.pow(count))
        .map(|number| {
            (0..count)
                .map(|place| ACTS[number / base.pow(place) % base])
                .collect::<Vec<_>>()
        })
        .inspect(|_| budget.add("sequences", 1))
        .filter_map(|acts| try_sequence(&acts, peeks, budget).err())
        .take(20)
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn loss_of_power_in_any_short_sequence_loses_nothing_acknowledged() {
    let budget = budget::of("sequences");
    try_all(1, 20, &budget);
    try_all(2, 5, &budget);
    if budget::is_torture() {
        try_all(3, 5, &budget);
    }
    if budget.goes_on() {
        try_all(4, 2, &budget);
    }
}
