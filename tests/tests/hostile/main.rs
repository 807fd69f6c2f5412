//! No content of the files makes the engine panic, hang, or ask for more memory than small files warrant; nor the
//! checker, which reads the same bytes.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runlog_engine::{
    CompactOptions, Direction, Expected, FindOptions, Label, NewRecord, OpenOptions, Position,
    ReadOptions, Sequence, Store, storage::Storage,
};
use runlog_tests::{
    alike, budget, checker,
    damage::{Left, victim},
    faulty::FaultyStorage,
    forge,
    host::TestHost,
    hostile::{PackTemplate, Template},
    random::Random,
    script,
};

mod memory;

#[global_allocator]
static ALLOCATOR: memory::Watched = memory::Watched;

/// The files are below 100 KB, and a segment that is made anew has 64 KiB. The largest thing the engine holds for such
/// is a buffer of some hundred KiB.
const LARGEST_BYTES: usize = 16 << 20;

/// A small pack can claim an image of 2 GiB, and a record in it the longest body that there is: whether it is one is seen by
/// reading that.
const LARGEST_BYTES_OF_PACKS: usize = 65 << 20;

/// The device under a repair has so much room.
const ROOM_BYTES: u64 = 8 << 20;

fn options() -> OpenOptions {
    let host = Arc::new(TestHost::new(1));
    OpenOptions {
        segment_bytes_max: 64 << 10,
        host,
        ..OpenOptions::default()
    }
}

/// Everything that can be done with a store, whatever comes of it.
fn use_all(files: &checker::Files) {
    let _ = checker::check_files(files, Some([0; 16]));
    let storage = || FaultyStorage::from_files(files);
    let _ = runlog_engine::verify(&storage());
    if let Ok(store) = Store::open_on(Arc::new(storage()), options().read_only()) {
        read_all(&store);
    }
    if let Ok(store) = Store::open_on(Arc::new(storage()), options()) {
        read_all(&store);
        let _ = store.backup(&FaultyStorage::new());
        write_all(&store);
    }
    let _ = runlog_engine::salvage(&storage(), &mut |_| ControlFlow::Continue(()));
    let mended = storage();
    // A header may claim that a missing segment was long: on a disk a hole takes no room, in memory it does.
    mended.limit_room(ROOM_BYTES);
    let mended: Arc<dyn Storage> = Arc::new(mended);
    if runlog_engine::repair(&mended, "a person", &TestHost::new(2)).is_ok()
        && let Ok(store) = Store::open_on(mended, options())
    {
        read_all(&store);
    }
}

/// At most so many records are read of anything: no store here has as many.
const RECORDS_MAX: usize = 10_000;

fn read_all(store: &Store) {
    let _ = store.stat();
    let last = store.last_position().map_or(0, |last| last.0);
    for first in [0, 1, last, u64::MAX] {
        let _ = store.next_readable(Position(first));
        if let Ok(scan) = store.scan(Position(first)) {
            assert!(
                scan.take(RECORDS_MAX).count() < RECORDS_MAX,
                "the scan does not end"
            );
        }
    }
    for position in (0..last.min(200)).chain([last, last.wrapping_add(1), u64::MAX]) {
        let _ = store.record(Position(position));
    }
    for label in [Label(7), Label::of("stream", [6])] {
        for direction in [Direction::Forward, Direction::Backward] {
            let options = FindOptions {
                direction,
                ..FindOptions::default()
            };
            if let Ok(found) = store.find(label, options) {
                assert!(
                    found.take(RECORDS_MAX).count() < RECORDS_MAX,
                    "the search does not end"
                );
            }
        }
    }
    for stream in store.streams().unwrap_or_default().into_iter().take(100) {
        for direction in [Direction::Forward, Direction::Backward] {
            // A stream may claim many records; reading ends at the first that is not there.
            let options = ReadOptions {
                direction,
                ..ReadOptions::default()
            };
            if let Ok(read) = store.read(stream.id, options) {
                assert!(
                    read.take(RECORDS_MAX).count() < RECORDS_MAX,
                    "the read does not end"
                );
            }
        }
        for sequence in [0, 1, stream.last_sequence.0, u64::MAX] {
            let _ = store.latest_snapshot(stream.id, Sequence(sequence));
        }
    }
}

fn write_all(store: &Store) {
    for number in 1..=9 {
        let id = script::stream(number);
        let _ = store.append(id, Expected::Any, &[NewRecord::data(b"after all")]);
        let _ = store.truncate(id, Sequence(1));
        let _ = store.snapshot(id, Sequence(1), b"state");
        let _ = store.fork(id, Sequence(1), script::stream(100 + number));
    }
    let _ = store.redact(Position(2), "why not");
    let _ = store.delete(script::stream(1));
    // Where a dictionary is trained, it takes longer than all else.
    if store.last_position().is_ok_and(|last| last.0 < 1000) {
        let _ = store.compact(CompactOptions::default());
        read_all(store);
    }
    let _ = store.close();
}

/// Ends the process, naming the seed, when one case takes longer than any should by far.
fn watch(seed: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut before = seed.load(Ordering::SeqCst);
        loop {
            std::thread::sleep(Duration::from_secs(60));
            let now = seed.load(Ordering::SeqCst);
            if now == before && now != u64::MAX {
                eprintln!("seed {now} hangs");
                std::process::abort();
            }
            before = now;
        }
    });
}

fn try_stores(left: Left, cases: u64) {
    let template = Template::new(victim(left).files);
    let name = format!("hostile {left:?}");
    try_seeds(&name, cases, LARGEST_BYTES, |seed| template.hostile(seed));
}

fn try_seeds(
    name: &str,
    cases: u64,
    largest_bytes: usize,
    hostile: impl Fn(u64) -> checker::Files,
) {
    let budget = budget::of(name);
    let current = Arc::new(AtomicU64::new(0));
    watch(current.clone());
    let mut wrong = Vec::new();
    let first = budget.seed();
    for seed in first.. {
        if seed - first >= cases && !budget.goes_on() {
            break;
        }
        current.store(seed, Ordering::SeqCst);
        let files = hostile(seed);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| use_all(&files))) {
            let told = panic.downcast_ref::<String>().cloned();
            let told = told.or_else(|| panic.downcast_ref::<&str>().map(|told| (*told).to_owned()));
            let told = format!("seed {seed}: {}", told.unwrap_or_default());
            // Here too, since a panic in the next one may end the process.
            eprintln!("{told}");
            wrong.push(told);
        }
        let largest = memory::take_largest();
        if largest > largest_bytes {
            wrong.push(format!(
                "seed {seed}: {largest} bytes were asked for at once"
            ));
        }
        budget.add("hostile stores", 1);
    }
    current.store(u64::MAX, Ordering::SeqCst);
    let told: Vec<_> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} went wrong:\n{}",
        wrong.len(),
        told.join("\n")
    );
}

/// Seeds of closed stores that went wrong once: numbers at the end of what they can hold, and positions that leap.
const WENT_WRONG: [u64; 8] = [
    1_795_375_205_847_610_592,
    1_795_375_205_847_613_056,
    1_795_375_205_847_615_060,
    1_795_375_205_847_616_692,
    1_795_375_205_847_621_760,
    1_795_375_205_847_623_658,
    1_795_375_205_847_624_330,
    1_795_375_205_847_624_468,
];

#[test]
fn hostile_files_that_went_wrong_once_do_no_more() {
    let template = Template::new(victim(Left::Closed).files);
    for seed in WENT_WRONG {
        eprintln!("seed {seed}");
        use_all(&template.hostile(seed));
    }
}

#[test]
fn hostile_files_of_a_closed_store_never_panic_hang_or_fill_memory() {
    try_stores(Left::Closed, 3000);
}

#[test]
fn hostile_files_after_a_crash_never_panic_hang_or_fill_memory() {
    try_stores(Left::Crashed, 3000);
}

#[test]
fn checkpoint_with_a_time_after_all_others_does_not_keep_a_writer_making_segments() {
    let mut files = victim(Left::Closed).files;
    let checkpoint = files.get_mut("CHECKPOINT").unwrap();
    // The time of the last record.
    forge::put(checkpoint, 76, &u64::MAX.to_le_bytes());
    forge::checkpoint(checkpoint);
    let storage = FaultyStorage::from_files(&files);
    storage.limit_room(ROOM_BYTES);
    let store = Store::open_on(Arc::new(storage), options()).unwrap();
    let appended = store.append(
        script::stream(200),
        Expected::Any,
        &[NewRecord::data(b"soon")],
    );
    assert_eq!(appended.map(|_| ()), Ok(()));
}

/// Seeds of packs that went wrong once.
const PACKS_WENT_WRONG: [u64; 1] = [1_795_852_578_190_498_713];

#[test]
fn hostile_packs_that_went_wrong_once_do_no_more() {
    let template = PackTemplate::new();
    for seed in PACKS_WENT_WRONG {
        eprintln!("seed {seed}");
        use_all(&template.hostile(seed));
    }
}

#[test]
fn hostile_packs_never_panic_hang_or_fill_memory() {
    let template = PackTemplate::new();
    try_seeds("hostile packs", 3000, LARGEST_BYTES_OF_PACKS, |seed| {
        template.hostile(seed)
    });
}

/// A block of a pack, whose checksums are right, in the room from `start` to `end`; what doesn't fit is cut off.
fn put_dictionary(
    pack: &mut [u8],
    (start, end): (usize, usize),
    encoding: u8,
    content: &[u8],
    raw_bytes: u32,
) {
    let seed = forge::seed(pack);
    let content = &content[..content.len().min(end - start - 32)];
    let stored_bytes = u32::try_from(content.len()).expect("a dictionary is small");
    let crc = crc32fast::hash(content).to_le_bytes();
    pack[start..end].fill(0);
    pack[start + 4..start + 6].copy_from_slice(&[encoding, 1]);
    pack[start + 8..start + 12].copy_from_slice(&stored_bytes.to_le_bytes());
    pack[start + 12..start + 16].copy_from_slice(&raw_bytes.to_le_bytes());
    pack[start + 20..start + 24].copy_from_slice(&crc);
    pack[start + 24..start + 28].copy_from_slice(&crc);
    pack[start + 32..start + 32 + content.len()].copy_from_slice(content);
    forge::block(pack, start, seed);
}

#[test]
fn hostile_dictionaries_never_panic_or_fill_memory_and_are_told() {
    const MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];
    let (files, name) = alike::packed(options(), 5);
    let places = alike::dictionaries(&files[&name]);
    let room = places[0].len() - 32;
    let mut noise = vec![0; room];
    Random::new(11).fill(&mut noise);
    // A frame that says that 2^60 bytes are in it.
    let huge = [
        &[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..],
        &(1_u64 << 60).to_le_bytes(),
        &noise,
    ]
    .concat();
    let beginning = |rest: &[u8]| [&MAGIC[..], &[1, 0, 0, 0], rest].concat();
    for (what, encoding, content, raw_bytes) in [
        ("zeros", 0, vec![0; room], room),
        ("noise", 0, noise.clone(), room),
        ("zeros behind the magic", 0, beginning(&vec![0; room]), room),
        (
            "ones behind the magic",
            0,
            beginning(&vec![0xff; room]),
            room,
        ),
        ("noise behind the magic", 0, beginning(&noise), room),
        ("the magic alone", 0, MAGIC.repeat(2), 8),
        ("a frame of 2^60 bytes", 2, huge.clone(), 1 << 20),
        (
            "a frame of 2^60 bytes, as many claimed as can be",
            2,
            huge,
            u32::MAX as usize,
        ),
        ("as much as there may be", 2, noise.clone(), 1 << 20),
        ("a dictionary that needs itself", 3, noise, room),
    ] {
        let mut files = files.clone();
        let pack = files.get_mut(&name).unwrap();
        for place in &places {
            let extent = (place.start, place.end);
            put_dictionary(
                pack,
                extent,
                encoding,
                &content,
                u32::try_from(raw_bytes).unwrap(),
            );
        }
        let _ = memory::take_largest();
        use_all(&files);
        let largest = memory::take_largest();
        assert!(
            largest <= LARGEST_BYTES,
            "{what}: {largest} bytes were asked for at once"
        );
        assert!(checker::check_files(&files, None).is_err(), "{what}");
        let found = runlog_engine::verify(&FaultyStorage::from_files(&files)).unwrap();
        assert!(!found.is_sound(), "{what}");
    }
}
