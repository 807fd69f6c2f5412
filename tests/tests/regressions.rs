//! What went wrong once, in as few steps as it takes.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use runlog_engine::{
    CompactOptions, CompactScope, Durability, ErrorKind, Expected, OpenOptions, Position, Sequence,
    storage::{Access, File, MemoryStorage, Storage},
};
use runlog_tests::{
    checker,
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    host::TestHost,
    model::{Item, Step, Work},
    script::stream,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
}

fn driver() -> Driver {
    Driver::new(
        Place::Faulty(FaultyStorage::new()),
        TestHost::new(1),
        options(),
    )
    .expect("a new store")
}

fn with(work: Work, durability: Durability) -> Work {
    Work {
        durability: Some(durability),
        ..work
    }
}

#[test]
fn repeated_batch_is_as_durable_as_it_asks_this_time() {
    for seed in 0..20 {
        let mut driver = driver();
        let work = Work {
            key: Some(b"key".to_vec()),
            ..Work::append(stream(1), "once")
        };
        driver.commit(&with(work.clone(), Durability::Os)).unwrap();
        driver.commit(&with(work, Durability::Sync)).unwrap();
        driver.leave_and_reopen(Leave::Crash(seed)).unwrap();
    }
}

#[test]
fn batch_that_writes_nothing_makes_durable_what_was_before_it() {
    for seed in 0..20 {
        let mut driver = driver();
        driver
            .commit(&with(Work::append(stream(1), "once"), Durability::Os))
            .unwrap();
        driver
            .commit(&with(Work::default(), Durability::Sync))
            .unwrap();
        driver.leave_and_reopen(Leave::Crash(seed)).unwrap();
    }
}

/// Memory whose renames of a spare segment take so long that anything the engine does in the background meanwhile is
/// done before them.
struct SlowNames {
    memory: MemoryStorage,
    spares_named: AtomicU64,
}

impl Storage for SlowNames {
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        // As on a file system, whoever has the file open sees it emptied.
        match self.memory.open(name, Access::Write) {
            Ok(file) => file.set_len(0).map(|()| file),
            Err(_) => self.memory.create(name),
        }
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        self.memory.open(name, access)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.memory.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if from.contains("spare") {
            self.spares_named.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(20));
        }
        self.memory.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.memory.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.memory.sync_dir()
    }

    fn create_dir(&self) -> io::Result<()> {
        self.memory.create_dir()
    }

    fn lock(&self, name: &str, holder: &str) -> Result<Box<dyn Send + Sync>, io::Result<String>> {
        self.memory.lock(name, holder)
    }

    fn describe(&self) -> String {
        "slow names".to_owned()
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.memory.boot_id()
    }
}

#[test]
fn spare_segment_is_not_made_anew_while_it_is_turned_to() {
    let storage = Arc::new(SlowNames {
        memory: MemoryStorage::new(),
        spares_named: AtomicU64::new(0),
    });
    let store = runlog_engine::Store::open_on(storage.clone(), options()).unwrap();
    let payload = vec![7; 3000];
    let mut staged = 0;
    while staged < 20_000 && storage.spares_named.load(Ordering::SeqCst) < 20 {
        if storage.spares_named.load(Ordering::SeqCst) == 0 {
            // On a busy machine the thread that makes the first one may not have begun yet.
            std::thread::sleep(Duration::from_millis(1));
        }
        let commits: Vec<_> = (0..16)
            .map(|_| {
                store
                    .stage(&Work::append(stream(1), payload.clone()).batch())
                    .unwrap()
            })
            .collect();
        staged += commits.len();
        commits
            .into_iter()
            .for_each(|commit| drop(commit.wait().unwrap()));
    }
    assert!(
        storage.spares_named.load(Ordering::SeqCst) > 0,
        "no spare was ever used"
    );
    store.close().unwrap();
    let files = storage.list().unwrap().into_iter().map(|name| {
        let file = storage.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        (name, bytes)
    });
    let checked = checker::check_files(&files.collect(), None).unwrap();
    assert_eq!(checked.streams()[0].1.len(), staged);
}

#[test]
fn repeated_batch_returns_what_the_first_returned_for_each_kind_of_step() {
    let item = |byte| Item {
        kind: 0,
        labels: Vec::new(),
        meta: Bytes::new(),
        payload: vec![byte; 10].into(),
    };
    let append = |number, count| Step::Append {
        stream: stream(number),
        expected: Expected::Any,
        records: (0..count).map(item).collect(),
    };
    let nothing = |number, expected| Step::Append {
        stream: stream(number),
        expected,
        records: Vec::new(),
    };
    let steps = [
        nothing(2, Expected::Last(Sequence(1))),
        Step::Snapshot {
            stream: stream(1),
            expected: Expected::Any,
            sequence: 1,
            state: item(1),
        },
        Step::Truncate {
            stream: stream(1),
            expected: Expected::Any,
            after: 2,
        },
        Step::Fork {
            parent: stream(1),
            expected: Expected::Any,
            at: 1,
            child: stream(3),
        },
        Step::Redact {
            position: 2,
            others: 0,
            reason: "asked for".to_owned(),
        },
        nothing(4, Expected::Absent),
        append(2, 3),
        append(1, 1),
        Step::Delete {
            stream: stream(3),
            expected: Expected::Any,
        },
    ];
    for first in 0..steps.len() {
        let mut driver = driver();
        driver.commit(&Work::one(append(1, 3))).unwrap();
        driver.commit(&Work::one(append(2, 1))).unwrap();
        let mut steps = steps.to_vec();
        // With each step at the front once.
        steps.rotate_left(first);
        let work = Work {
            steps,
            key: Some(b"key".to_vec()),
            durability: None,
        };
        if driver.commit(&work).is_ok() {
            driver.commit(&work).unwrap();
            driver.leave_and_reopen(Leave::Close).unwrap();
            driver.commit(&work).unwrap();
            // Another batch under the same key is told what was written.
            let other = Work {
                steps: work.steps[1..].to_vec(),
                ..work
            };
            driver.commit(&other).unwrap();
        }
    }
}

#[test]
fn times_do_not_go_back_behind_a_mark_of_which_a_crash_left_only_it() {
    for seed in 0..20 {
        let mut driver = driver();
        driver.host.pass_ms(1000);
        // Its end is on another page than the mark before it.
        driver
            .commit(&with(
                Work::append(stream(1), vec![1; 8192]),
                Durability::Os,
            ))
            .unwrap();
        driver.leave_and_reopen(Leave::Crash(seed)).unwrap();
        driver.host.turn_back_ms(1000);
        driver
            .commit(&Work::append(stream(1), "by a clock that was put back"))
            .unwrap();
        driver.leave_and_reopen(Leave::Close).unwrap();
    }
}

#[test]
fn batch_whose_key_counted_in_a_deleted_stream_is_not_found_whatever_else_it_expects() {
    let append = |number, expected| Step::Append {
        stream: stream(number),
        expected,
        records: vec![Item {
            kind: 0,
            labels: Vec::new(),
            meta: Bytes::new(),
            payload: Bytes::from_static(b"x"),
        }],
    };
    let nothing = |expected| Step::Append {
        stream: stream(2),
        expected,
        records: Vec::new(),
    };
    let mut driver = driver();
    let keyed = |steps, key: &str| Work {
        steps,
        key: Some(key.into()),
        durability: None,
    };
    let work = keyed(
        vec![nothing(Expected::Absent), append(1, Expected::Any)],
        "key",
    );
    driver.commit(&work).unwrap();
    let delete = Step::Delete {
        stream: stream(1),
        expected: Expected::Any,
    };
    // As long as the deletion is in line, and when it is published.
    let staged = driver.stage(&Work::one(delete)).unwrap();
    for _ in 0..2 {
        let found = driver.store().commit(&work.batch()).unwrap_err();
        assert_eq!(found.kind(), ErrorKind::NotFound, "{found}");
        driver.commit(&work).unwrap();
        driver
            .commit(&keyed(
                vec![
                    nothing(Expected::Last(Sequence(7))),
                    append(1, Expected::Any),
                ],
                "key",
            ))
            .unwrap();
        driver
            .commit(&keyed(
                vec![nothing(Expected::Absent), append(1, Expected::Any)],
                "another",
            ))
            .unwrap();
        driver.sync().unwrap();
    }
    staged.map(|staged| driver.wait(staged)).unwrap().unwrap();
    driver.leave_and_reopen(Leave::Close).unwrap();
    driver.commit(&work).unwrap();
}

#[test]
fn conflict_is_told_before_a_deleted_stream_whose_records_a_compaction_gave_up() {
    let mut driver = driver();
    for number in [1, 2] {
        driver.commit(&Work::append(stream(number), "x")).unwrap();
    }
    let deletion = Step::Delete {
        stream: stream(2),
        expected: Expected::Any,
    };
    driver.commit(&Work::one(deletion)).unwrap();
    let options = CompactOptions {
        scope: CompactScope::All,
        ..CompactOptions::default()
    };
    assert_eq!(driver.try_compact(options).unwrap(), None);
    // Where the last record of the first is, isn't known from memory then.
    driver.leave_and_reopen(Leave::Close).unwrap();
    let nothing = |number| Step::Append {
        stream: stream(number),
        expected: Expected::At(Position(1)),
        records: Vec::new(),
    };
    // The model expects a conflict.
    let work = Work {
        steps: vec![nothing(1), nothing(2)],
        ..Work::default()
    };
    driver.commit(&work).unwrap();
}
