//! Random stores: several segments, with forks, truncations, deletions, redactions and snapshots; left in every way.

use bytes::Bytes;
use runlog_engine::{Expected, OpenOptions, StreamId};

use crate::{
    checker::Files,
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    forge::RECORDS_BEGIN,
    host::TestHost,
    model::{Item, Model, ModelStream, Step, Work},
    random::Random,
    script,
};

/// A store, and what it holds.
pub struct RandomStore {
    /// Its files.
    pub files: Files,
    /// What it holds.
    pub model: Model,
    /// How it was left.
    pub left: &'static str,
}

/// Segments end when so much time has passed.
const PASS_MS: u64 = 60 * 24 * 3_600_000;
/// Appends go to so many streams; forks make others.
const STREAMS: u64 = 9;

/// The store of a seed.
pub fn random_store(seed: u64) -> RandomStore {
    let mut random = Random::new(seed);
    let host = TestHost::new(seed);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let storage = FaultyStorage::new();
    let mut driver =
        Driver::new(Place::Faulty(storage.clone()), host.clone(), options).expect("a new store");
    for _ in 0..3 + random.below(3) {
        for _ in 0..2 + random.below(8) {
            let work = work(&driver.model, &mut random);
            driver.commit(&work).expect("it is as the model says");
        }
        if random.one_in(4) {
            driver
                .leave_and_reopen(Leave::Close)
                .expect("it closes and opens");
        }
        host.pass_ms(PASS_MS);
    }
    let last = Work::append(script::stream(1), "the last of all");
    driver.commit(&last).expect("it is as the model says");
    let (left, files) = leave(&mut driver, &storage, &mut random);
    RandomStore {
        files,
        model: driver.model.clone(),
        left,
    }
}

fn leave(
    driver: &mut Driver,
    storage: &FaultyStorage,
    random: &mut Random,
) -> (&'static str, Files) {
    let is_closed = random.one_in(2);
    if is_closed {
        driver.leave(Leave::Close).expect("it closes");
    }
    let mut files = storage.files();
    files.remove("LOCK");
    files.retain(|name, _| !name.ends_with(".tmp"));
    // Some free space behind the records is as good as much.
    let active = files
        .iter_mut()
        .rfind(|(name, _)| name.ends_with(".seg"))
        .expect("segments")
        .1;
    let end = active
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    active.resize(end.max(RECORDS_BEGIN).next_multiple_of(8) + 600, 0);
    if is_closed {
        return ("closed", files);
    }
    if random.one_in(2) {
        return ("killed", files);
    }
    // What was published is known of the running system alone.
    files.remove("WATERMARK");
    ("crashed", files)
}

fn work(model: &Model, random: &mut Random) -> Work {
    let living: Vec<&ModelStream> = model
        .streams
        .iter()
        .filter(|stream| !stream.deleted)
        .collect();
    let steps = (0..=random.below(3))
        .map(|nth| step(model, &living, nth == 0, random))
        .collect();
    Work {
        steps,
        ..Work::default()
    }
}

fn step(model: &Model, living: &[&ModelStream], is_first: bool, random: &mut Random) -> Step {
    let kind = random.below(20);
    // What the other steps of the batch do to a stream isn't known here: only the first speaks of what is there.
    let Some(stream) = living
        .get(random.place(living.len().max(1)))
        .filter(|_| is_first)
    else {
        return append(random);
    };
    let at = random.below(stream.last() + 1);
    match kind {
        0 | 1 => Step::Truncate {
            stream: stream.id,
            expected: Expected::Exists,
            after: at,
        },
        2..5 => {
            let child =
                StreamId::from_bytes([100 + u8::try_from(model.streams.len()).expect("few"); 16]);
            Step::Fork {
                parent: stream.id,
                expected: Expected::Any,
                at,
                child,
            }
        }
        5 | 6 => Step::Snapshot {
            stream: stream.id,
            expected: Expected::Any,
            sequence: at,
            state: item(129, random),
        },
        7 | 8 => {
            let position = 1 + random.below(model.last_position());
            let wanted = u128::from(random.below(1 << 20));
            Step::Redact {
                position,
                others: model.redactable_behind(position, wanted),
                reason: "asked for".to_owned(),
            }
        }
        9 => Step::Delete {
            stream: stream.id,
            expected: Expected::Any,
        },
        // Of a fork, too.
        10..14 => Step::Append {
            stream: stream.id,
            expected: Expected::Any,
            records: vec![item(1, random)],
        },
        _ => append(random),
    }
}

fn append(random: &mut Random) -> Step {
    let stream = script::stream(1 + u8::try_from(random.below(STREAMS)).expect("few"));
    let records = (0..=random.below(4))
        .map(|kind| item(u8::try_from(kind).expect("few"), random))
        .collect();
    Step::Append {
        stream,
        expected: Expected::Any,
        records,
    }
}

fn item(kind: u8, random: &mut Random) -> Item {
    let mut payload = vec![0; random.place(90)];
    random.fill(&mut payload);
    let meta = if random.one_in(3) {
        Bytes::from_static(b"{}")
    } else {
        Bytes::new()
    };
    Item {
        kind,
        labels: Vec::new(),
        meta,
        payload: payload.into(),
    }
}
