//! A device that is full refuses appends, and they go on when there is room, without reopening; wherever in the work it
//! was met. Nothing acknowledged is lost, nothing refused comes back.

use std::{sync::Arc, thread, time::Duration};

use runlog_engine::{
    Durability, ErrorKind, Expected, NewRecord, OpenOptions, Preallocation, Store,
};
use runlog_tests::{
    budget,
    compare::same,
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    host::TestHost,
    model::{Item, Step, Work},
    random::Random,
    script::stream,
};

const SEGMENT_BYTES: u64 = 64 << 10;

fn driver(storage: &FaultyStorage, durability: Durability, preallocation: Preallocation) -> Driver {
    let options = OpenOptions {
        durability,
        preallocation,
        segment_bytes_max: SEGMENT_BYTES,
        ..OpenOptions::default()
    };
    Driver::unopened(Place::Faulty(storage.clone()), TestHost::new(7), options)
}

/// A batch of two streams, one of them new each time, with a key now and then.
fn work(random: &mut Random, round: u64) -> Work {
    let mut append = |number: u8| {
        let payload: Vec<u8> = vec![round.to_le_bytes()[0]; random.place(6000)];
        let item = |payload: Vec<u8>| Item {
            kind: 1,
            labels: Vec::new(),
            meta: bytes::Bytes::new(),
            payload: payload.into(),
        };
        let items = vec![item(payload), item(vec![7; random.place(50)])];
        Step::Append {
            stream: stream(number),
            expected: Expected::Any,
            records: items,
        }
    };
    let new = 100 + round.to_le_bytes()[0] % 100;
    let steps = vec![append(1), append(new), append(2)];
    let durability = [None, Some(Durability::Os), Some(Durability::Sync)][random.place(3)];
    let key = random.one_in(3).then(|| round.to_le_bytes().to_vec());
    Work {
        steps,
        durability,
        key,
    }
}

/// The device has room for so many bytes; it is filled up, refuses, gets room, and takes what it refused.
fn fill(seed: u64, durability: Durability, preallocation: Preallocation) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let storage = FaultyStorage::new();
    let mut driver = driver(&storage, durability, preallocation);
    storage.limit_room(None);
    driver.reopen()?;
    let (mut room, mut refused_in_a_row, mut refused) =
        (100 + random.below(2 * SEGMENT_BYTES), 0, 0);
    storage.limit_room(room);
    let mut round = 0;
    while round < 30 {
        let work = work(&mut random, round);
        match driver.try_commit(&work)? {
            None => {
                round += 1;
                refused_in_a_row = 0;
            }
            Some(ErrorKind::StorageFull) => {
                refused += 1;
                refused_in_a_row += 1;
                if random.one_in(3) {
                    driver.check()?;
                }
                if refused_in_a_row > 100 {
                    return Err(format!("refused for ever, with room for {room} bytes"));
                }
                if random.one_in(6) {
                    let crash = random.next_u64();
                    driver
                        .after_crash(&storage, crash)
                        .peek()
                        .map_err(|error| format!("crash: {error}"))?;
                }
                match random.below(8) {
                    // What was refused is refused after opening again too, or opening is.
                    0 => {
                        // What can't be closed is left as it is.
                        if random.one_in(2) || driver.leave(Leave::Close).is_err() {
                            driver.leave(Leave::Kill)?;
                        }
                        while let Some(error) = driver.try_reopen()? {
                            same(
                                "kind of a refused opening",
                                &error.kind(),
                                &ErrorKind::StorageFull,
                            )?;
                            room += 5000;
                            storage.limit_room(room);
                        }
                    }
                    1 | 2 => {}
                    _ => {
                        room += random.below(9000);
                        storage.limit_room(room);
                    }
                }
            }
            Some(kind) => return Err(format!("told as {kind:?}")),
        }
    }
    storage.limit_room(None);
    driver
        .after_crash(&storage, seed)
        .reopen()
        .map_err(|error| format!("after a loss of power: {error}"))?;
    driver.leave_and_reopen(Leave::Close)?;
    Ok(refused)
}

#[test]
fn appends_go_on_without_reopening_once_there_is_room() {
    let budget = budget::of("full device");
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        for durability in [Durability::Sync, Durability::Os, Durability::Interval(1000)] {
            for preallocation in [Preallocation::Auto, Preallocation::None] {
                let refused = fill(seed, durability, preallocation).unwrap_or_else(|error| {
                    panic!("{durability:?}, {preallocation:?}, seed {seed}: {error}")
                });
                budget.add("appends refused", refused);
            }
        }
        if seed >= first + 2 && !budget.goes_on() {
            break;
        }
    }
}

/// Wherever in a piece of work over several segments the device is full.
#[test]
fn device_that_is_full_at_any_byte_refuses_and_goes_on_when_there_is_room() {
    let budget = budget::of("full at any byte");
    for durability in [Durability::Sync, Durability::Os] {
        for preallocation in [Preallocation::Auto, Preallocation::None] {
            for room in (2..38).map(|place| place * 7400) {
                let refused = full_at(room, durability, preallocation).unwrap_or_else(|error| {
                    panic!("{durability:?}, {preallocation:?}, room for {room}: {error}")
                });
                budget.add("appends refused", refused);
            }
        }
    }
}

fn full_at(room: u64, durability: Durability, preallocation: Preallocation) -> Result<u64, String> {
    let mut random = Random::new(room);
    let storage = FaultyStorage::new();
    storage.limit_room(room);
    let mut driver = driver(&storage, durability, preallocation);
    let mut refused = 0;
    if let Some(error) = driver.try_reopen()? {
        same(
            "kind of a refused opening",
            &error.kind(),
            &ErrorKind::StorageFull,
        )?;
        storage.limit_room(None);
        driver.reopen()?;
    }
    for round in 0..30 {
        let work = work(&mut random, round);
        let Some(kind) = driver.try_commit(&work)? else {
            continue;
        };
        same("kind of a refused append", &kind, &ErrorKind::StorageFull)?;
        refused += 1;
        driver.check()?;
        // Again, and then a smaller one, for which there may be room.
        let again = driver.try_commit(&work)?;
        let smaller = driver.try_commit(&Work::append(stream(3), "small"))?;
        for kind in again.into_iter().chain(smaller) {
            same("kind of a refused append", &kind, &ErrorKind::StorageFull)?;
        }
        driver
            .after_crash(&storage, room)
            .peek()
            .map_err(|error| format!("after a loss of power: {error}"))?;
        storage.limit_room(None);
        if again.is_some() {
            driver.commit(&work)?;
        }
    }
    driver.check()?;
    driver
        .after_crash(&storage, room)
        .reopen()
        .map_err(|error| format!("after a loss of power: {error}"))?;
    driver.leave_and_reopen(Leave::Close)?;
    Ok(refused)
}

/// The next segment's space is made ahead of need: of what is on a nearly full device, it is the first to be done without.
#[test]
fn room_taken_for_the_next_segment_is_there_for_appends() {
    const SPARE: &str = "spare.seg.tmp";
    let storage = FaultyStorage::new();
    let options = OpenOptions {
        segment_bytes_max: SEGMENT_BYTES,
        ..OpenOptions::default()
    };
    // The first segment is shorter than usual, and made longer with the appends.
    storage.limit_room(20_000);
    let store = Store::open_on(Arc::new(storage.clone()), options.clone()).expect("there is room");
    let append =
        |payload: &[u8]| store.append(stream(0), Expected::Any, &[NewRecord::data(payload)]);
    let used: usize = storage.files().values().map(Vec::len).sum();
    storage.limit_room(used as u64 + SEGMENT_BYTES + 8_000);
    let mut appended = 0;
    while !storage.files().contains_key(SPARE) {
        append(&[1; 500]).expect("there is room");
        appended += 1;
        assert!(appended < 60, "no space was made for the next segment");
        thread::sleep(Duration::from_millis(5));
    }
    let taken = storage.files()[SPARE].len() as u64;
    let mut more = 0;
    while append(&[2; 500]).is_ok() {
        more += 500;
    }
    assert!(more > taken / 2, "{more} bytes of {taken} were used");
    assert_eq!(
        append(&[2; 500]).expect_err("it is full").kind(),
        ErrorKind::StorageFull
    );
    storage.limit_room(None);
    append(&[3; 500]).expect("there is room again");
    store.close().expect("it closes");
    let store = Store::open_on(Arc::new(storage.clone()), options).expect("it opens");
    let info = store.stream(stream(0)).expect("it reads");
    assert_eq!(
        info.map(|info| info.last_sequence.0),
        Some(appended + more / 500 + 1)
    );
}
