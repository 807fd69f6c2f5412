//! Every single operation on the storage fails once, or it and all after it, or the power goes at it: nothing
//! panics, errors tell the truth, and what is there when the store is opened again is all that was acknowledged and
//! nothing that was never appended.

use runlog_engine::{
    Durability, ErrorKind, OpenOptions, Preallocation,
    storage::{Access, Storage},
};
use runlog_tests::{
    budget::{self, Budget},
    compare::same,
    driver::{Driver, Leave, Place},
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    script::{self, Line},
};

/// A configuration of the store.
#[derive(Clone, Copy)]
struct Setup {
    durability: Durability,
    preallocation: Preallocation,
    segment_bytes_max: u64,
    script: fn() -> Vec<Line>,
}

const SYNC: Setup = Setup {
    durability: Durability::Sync,
    preallocation: Preallocation::Auto,
    segment_bytes_max: 64 << 10,
    script: script::long,
};

const SETUPS: [Setup; 3] = [
    SYNC,
    Setup {
        preallocation: Preallocation::None,
        ..SYNC
    },
    Setup {
        durability: Durability::Os,
        ..SYNC
    },
];

const COMPACTIONS: [Setup; 2] = [
    Setup {
        preallocation: Preallocation::None,
        script: script::compactions,
        ..SYNC
    },
    Setup {
        durability: Durability::Os,
        preallocation: Preallocation::None,
        script: script::compactions,
        ..SYNC
    },
];

const LONG_TAIL: Setup = Setup {
    durability: Durability::Os,
    segment_bytes_max: 8 << 20,
    script: script::long_tail,
    ..SYNC
};

const END_OF_ROOM: Setup = Setup {
    segment_bytes_max: 128 << 10,
    script: script::end_of_room,
    ..SYNC
};

impl std::fmt::Debug for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:?}, {:?}, {} KiB",
            self.durability,
            self.preallocation,
            self.segment_bytes_max >> 10
        )
    }
}

impl Setup {
    fn driver(&self, storage: &FaultyStorage) -> Driver {
        let Self {
            durability,
            preallocation,
            segment_bytes_max,
            ..
        } = *self;
        let options = OpenOptions {
            durability,
            preallocation,
            segment_bytes_max,
            ..OpenOptions::default()
        };
        let mut driver =
            Driver::unopened(Place::Faulty(storage.clone()), TestHost::new(7), options);
        driver.opening_proves = segment_bytes_max <= 1 << 20;
        driver
    }
}

/// What the device does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Fails(Failure);

impl Fails {
    /// Whether an error of this kind tells the truth.
    fn check(self, kind: ErrorKind) -> Result<(), String> {
        let allowed: &[ErrorKind] = match self.0 {
            Failure::Full => &[ErrorKind::StorageFull],
            // A file that is shorter than it was is damaged.
            Failure::ShortRead => &[ErrorKind::Io, ErrorKind::Damaged],
            _ => &[ErrorKind::Io],
        };
        if allowed.contains(&kind) {
            Ok(())
        } else {
            Err(format!("unexpected kind {kind:?}"))
        }
    }
}

/// Does the script on a storage that may fail. When the writer is poisoned, it is left as a crash of the process
/// would, and the script goes on; what the next opening made of it survives a loss of power, and so does the batch
/// after it.
fn play(driver: &mut Driver, lines: &[Line], fails: Fails) -> Result<(), String> {
    let mut was_poisoned = false;
    for (place, line) in lines.iter().enumerate() {
        // Twice: as it is, and again after leaving a store that was poisoned.
        for _ in 0..2 {
            if !driver.is_open() && !reopen(driver, fails)? {
                break;
            }
            let lose_power = |driver: &Driver, when: &str| {
                let failed = |error| format!("line {place}, {line:?}, power lost {when}: {error}");
                (0..8)
                    .try_for_each(|seed| peek_after_crash(driver, seed))
                    .map_err(failed)
            };
            if was_poisoned {
                lose_power(driver, "before it")?;
            }
            let told = play_line(driver, line, fails)
                .map_err(|error| format!("line {place}, {line:?}: {error}"))?;
            if was_poisoned {
                lose_power(driver, "after it")?;
            }
            was_poisoned = matches!(told, Some(ErrorKind::OutcomeUnknown | ErrorKind::Poisoned));
            if !was_poisoned {
                break;
            }
            driver.leave(Leave::Kill)?;
        }
    }
    Ok(())
}

fn peek_after_crash(driver: &Driver, seed: u64) -> Result<(), String> {
    let Place::Faulty(storage) = &driver.place else {
        unreachable!("all are faulty")
    };
    driver.after_crash(storage, seed).peek()
}

/// Opens the store, if the storage lets it.
fn reopen(driver: &mut Driver, fails: Fails) -> Result<bool, String> {
    match driver.try_reopen()? {
        None => Ok(true),
        Some(error) => {
            fails
                .check(error.kind())
                .map_err(|told| format!("{told} opening: {error}"))?;
            Ok(false)
        }
    }
}

fn play_line(driver: &mut Driver, line: &Line, fails: Fails) -> Result<Option<ErrorKind>, String> {
    let told = match line {
        Line::Commit(work) => driver.try_commit(work)?,
        Line::Sync => driver.try_sync(),
        Line::Compact(options) => driver.try_compact(*options)?,
        Line::Read => driver.try_check().map(|()| None)?,
        Line::Pass(ms) => {
            driver.host.pass_ms(*ms);
            None
        }
        Line::Leave(leave) => {
            // What cannot be closed is left as it is.
            if driver.leave(*leave).is_err() {
                driver.leave(Leave::Kill)?;
            }
            None
        }
    };
    match told {
        None | Some(ErrorKind::OutcomeUnknown | ErrorKind::Poisoned) => Ok(told),
        Some(kind) => fails.check(kind).map(|()| told),
    }
}

/// Fails operation n for n = 0, 1, …, until a whole run is clean.
fn sweep(setups: &[Setup], failure: Failure, lasting: Lasting, budget: &Budget) {
    let mut wrong = Vec::new();
    for setup in setups {
        for after in 0.. {
            let storage = FaultyStorage::new();
            storage.arm(Fault {
                after,
                failure,
                lasting,
            });
            let mut driver = setup.driver(&storage);
            let played = play(&mut driver, &(setup.script)(), Fails(failure));
            let (injected, hit) = (storage.injected(), storage.hit());
            storage.arm(None);
            let ended = played.and_then(|()| end(driver, after, budget));
            let what = format!("{setup:?}, {failure:?} {lasting:?} at {after}, {hit:?}");
            wrong.extend(ended.err().map(|error| format!("{what}: {error}")));
            budget.add("faults injected", injected);
            if injected == 0 {
                break;
            }
        }
    }
    tell(&wrong);
}

fn tell(wrong: &[String]) {
    let first: Vec<_> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} runs went wrong:\n{}",
        wrong.len(),
        first.join("\n")
    );
}

/// The storage is well again. Either the process ends, or the power goes too.
fn end(mut driver: Driver, seed: u64, budget: &Budget) -> Result<(), String> {
    let Place::Faulty(storage) = driver.place.clone() else {
        unreachable!("all are faulty")
    };
    for crash in 0..crashes() {
        let mut other = driver.after_crash(&storage, seed * 1000 + crash);
        other
            .reopen()
            .map_err(|error| format!("after a loss of power: {error}"))?;
        budget.add("crashes survived", 1);
    }
    driver.leave(Leave::Kill)?;
    driver
        .reopen()
        .map_err(|error| format!("after the process ended: {error}"))?;
    driver
        .leave_and_reopen(Leave::Close)
        .map_err(|error| format!("after all: {error}"))
}

fn crashes() -> u64 {
    if budget::is_torture() { 50 } else { 1 }
}

#[test]
fn one_failed_operation_loses_nothing_acknowledged() {
    sweep(
        &SETUPS,
        Failure::Io,
        Lasting::Once,
        &budget::of("faults io once"),
    );
}

#[test]
fn failing_device_loses_nothing_acknowledged() {
    sweep(
        &SETUPS,
        Failure::Io,
        Lasting::ForGood,
        &budget::of("faults io for good"),
    );
}

#[test]
fn device_full_once_is_told_as_such_and_loses_nothing_acknowledged() {
    sweep(
        &SETUPS,
        Failure::Full,
        Lasting::Once,
        &budget::of("faults full once"),
    );
}

#[test]
fn full_device_is_told_as_such_and_loses_nothing_acknowledged() {
    sweep(
        &SETUPS,
        Failure::Full,
        Lasting::ForGood,
        &budget::of("faults full for good"),
    );
}

#[test]
fn short_reads_are_errors_and_lose_nothing() {
    sweep(
        &SETUPS,
        Failure::ShortRead,
        Lasting::Once,
        &budget::of("faults short reads"),
    );
}

/// Does the script until the power goes at operation n, for n = 0, 1, …; then opens what several crashes leave,
/// and for each also lets the power go while it is opened.
#[test]
fn loss_of_power_at_any_operation_loses_nothing_acknowledged() {
    lose_power(&SETUPS, 30, &budget::of("faults loss of power"));
}

#[test]
fn compaction_that_fails_at_any_operation_loses_nothing() {
    let budget = budget::of("faults compactions");
    for (failure, lasting) in [
        (Failure::Io, Lasting::Once),
        (Failure::Io, Lasting::ForGood),
        (Failure::Full, Lasting::Once),
        (Failure::ShortRead, Lasting::Once),
    ] {
        sweep(&COMPACTIONS, failure, lasting, &budget);
    }
}

#[test]
fn loss_of_power_at_any_operation_of_a_compaction_loses_nothing() {
    lose_power(
        &COMPACTIONS,
        10,
        &budget::of("faults compactions powerless"),
    );
}

#[test]
fn more_that_was_only_written_than_opening_flushes_loses_nothing_acknowledged() {
    let budget = budget::of("faults long tail");
    sweep(&[LONG_TAIL], Failure::Io, Lasting::Once, &budget);
    lose_power(&[LONG_TAIL], 1, &budget);
}

/// The file of the active segment is made longer by a call that also flushes it, so what fails there may be the flush of
/// batches that were only written.
#[test]
fn active_file_made_longer_loses_nothing_that_was_only_written_before() {
    let budget = budget::of("faults end of room");
    let mut wrong = Vec::new();
    for failure in [Failure::Io, Failure::Full] {
        for after in 0.. {
            let storage = FaultyStorage::new();
            let mut driver = END_OF_ROOM.driver(&storage);
            // As a crash leaves it: with room behind its records.
            driver.reopen().expect("nothing fails yet");
            driver.leave(Leave::Close).expect("nothing fails yet");
            let active = storage
                .open("00000001.seg", Access::Write)
                .expect("it is there");
            active
                .set_len(64 << 10)
                .and_then(|()| active.sync())
                .expect("nothing fails yet");
            driver.reopen().expect("nothing fails yet");
            storage.arm(Fault {
                after,
                failure,
                lasting: Lasting::Once,
            });
            let played = play(&mut driver, &script::end_of_room(), Fails(failure));
            let (injected, hit) = (storage.injected(), storage.hit());
            storage.arm(None);
            let ended = played.and_then(|()| end(driver, after, &budget));
            wrong.extend(
                ended
                    .err()
                    .map(|error| format!("{failure:?} at {after}, {hit:?}: {error}")),
            );
            budget.add("faults injected", injected);
            if injected == 0 {
                break;
            }
        }
    }
    tell(&wrong);
}

fn lose_power(setups: &[Setup], peeks: u64, budget: &Budget) {
    let mut wrong = Vec::new();
    for setup in setups {
        for after in 0.. {
            let storage = FaultyStorage::new();
            storage.arm(Fault {
                after,
                failure: Failure::PowerLoss,
                lasting: Lasting::Once,
            });
            let mut driver = setup.driver(&storage);
            let what = format!("{setup:?}, power lost at {after}");
            if let Err(error) = play_until_powerless(&mut driver, &storage, setup) {
                wrong.push(format!("{what}: script: {error}"));
            }
            // What depends on how several changes meet takes many seeds to be seen.
            let peeks = if storage.unflushed() > 1 { peeks } else { 0 };
            for seed in (0..2 * crashes() + peeks).map(|crash| after * 1000 + crash) {
                let done = if seed % 1000 < 2 * crashes() {
                    crash_while_opening(&driver, &storage, seed, budget)
                } else {
                    budget.add("crashes survived", 1);
                    driver.after_crash(&storage, seed).peek()
                };
                wrong
                    .extend(done.err().map(|error| {
                        format!("{what}, {:?}, crash {seed}: {error}", storage.hit())
                    }));
            }
            if storage.injected() == 0 {
                break;
            }
        }
    }
    tell(&wrong);
}

fn play_until_powerless(
    driver: &mut Driver,
    storage: &FaultyStorage,
    setup: &Setup,
) -> Result<(), String> {
    if !reopen(driver, Fails(Failure::PowerLoss))? {
        return Ok(());
    }
    for line in (setup.script)() {
        if storage.injected() > 0 {
            break;
        }
        if !driver.is_open() && !reopen(driver, Fails(Failure::PowerLoss))? {
            break;
        }
        play_line(driver, &line, Fails(Failure::PowerLoss))
            .map_err(|error| format!("{line:?}: {error}"))?;
    }
    Ok(())
}

fn crash_while_opening(
    driver: &Driver,
    storage: &FaultyStorage,
    seed: u64,
    budget: &Budget,
) -> Result<(), String> {
    let mut once = driver.after_crash(storage, seed);
    let Place::Faulty(left) = once.place.clone() else {
        unreachable!("all are faulty")
    };
    let interrupted = left.copy();
    // Unless the store was never made.
    if left.files().contains_key("RUNLOG") {
        once.verify()?;
    }
    let _ = left.take_trace();
    once.reopen()?;
    let steps = left.take_trace().len() as u64;
    budget.add("crashes survived", 1);
    // The same folder, opened for a while only.
    interrupted.arm(Fault {
        after: seed % steps,
        failure: Failure::PowerLoss,
        lasting: Lasting::Once,
    });
    let mut twice = driver.after_crash(storage, seed);
    twice.place = Place::Faulty(interrupted.clone());
    let _ = twice.try_reopen();
    let mut twice = driver.after_crash(&interrupted, seed + 1);
    twice
        .reopen()
        .map_err(|error| format!("opened twice, {:?}: {error}", interrupted.hit()))?;
    budget.add("crashes survived", 1);
    let (once, twice) = (once.model.last_position(), twice.model.last_position());
    same("position after opening twice", &twice, &once)
}
