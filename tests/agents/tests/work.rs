//! What must not grow with the store: what opening reads, and what a fork or a truncation does; and what is one flush,
//! whatever it is made of. Counted at the storage.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson,
    chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd, StepType},
    runs::{ResumeOptions, ToolOutcome},
    sessions::CopySession,
};
use runlog_engine::{
    Appended, Durability, Expected, NewRecord, OpenOptions, Preallocation, Sequence, Store,
    StreamId,
    storage::{Access, MemoryStorage, Storage},
};
use runlog_tests::tapped::{Tap, Tapped};

const HEADER_BYTES: u64 = 4096;
const TRAILER_BYTES: u64 = 128;
/// The copy of the header before it is read with it.
const HEADER_COPY_BYTES: u64 = 512;
const STREAMS: u128 = 1000;

/// What was asked of each file: offsets and lengths of reads and writes.
#[derive(Default)]
struct Counts {
    reads: BTreeMap<String, Vec<(u64, u64)>>,
    writes: Vec<u64>,
    /// Bytes of checkpoints.
    saved: u64,
    flushes: u64,
    opens: u64,
    /// Up to where a segment was handed to the device.
    writebacks: Vec<u64>,
}

/// Counts what is asked.
#[derive(Default)]
struct Counter(Mutex<Counts>);

/// Memory that counts what is asked of it.
type Counting = Tapped<MemoryStorage, Counter>;

impl Counter {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().expect("no panic under this lock")
    }

    fn take(&self) -> Counts {
        std::mem::take(&mut self.counts())
    }
}

impl Tap for Counter {
    fn open(&self, _name: &str) {
        self.counts().opens += 1;
    }
    fn read(&self, name: &str, offset: u64, bytes: u64) -> io::Result<()> {
        let mut counts = self.counts();
        counts
            .reads
            .entry(name.to_owned())
            .or_default()
            .push((offset, bytes));
        Ok(())
    }
    fn write(&self, name: &str, bytes: u64) {
        if name.contains(".seg") {
            self.counts().writes.push(bytes);
        }
        if name.contains("CHECKPOINT") {
            self.counts().saved += bytes;
        }
    }
    fn sync(&self, _name: &str) {
        self.counts().flushes += 1;
    }
    fn start_writeback(&self, end: u64) {
        self.counts().writebacks.push(end);
    }
}

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 1 << 20,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn stream(number: u128) -> StreamId {
    StreamId::from_bytes((number + 1).to_be_bytes())
}

/// How many events: a tenth of a million in the test command, a whole one when tortured.
fn events() -> u128 {
    if runlog_tests::budget::is_torture() {
        1_000_000
    } else {
        100_000
    }
}

/// A store of many events of many streams, one after the other.
fn filled(storage: &Counting, payload_bytes: usize) -> Store {
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let payload = vec![7; payload_bytes];
    for round in 0..events() / STREAMS / 10 {
        for number in 0..STREAMS {
            let records = vec![NewRecord::data(&payload); 10];
            let expected = Expected::Last(Sequence(u64::try_from(round * 10).unwrap()));
            store.append(stream(number), expected, &records).unwrap();
        }
    }
    store
}

#[test]
fn reopening_reads_no_record_of_a_sealed_segment() {
    let storage = Counting::default();
    let store = filled(&storage, 200);
    let segments = store.stat().unwrap().segments;
    assert!(segments > 10);
    drop(store);
    for with_checkpoint in [true, false] {
        if !with_checkpoint {
            storage.remove("CHECKPOINT").unwrap();
        }
        let sizes: BTreeMap<_, _> = storage
            .list()
            .unwrap()
            .into_iter()
            .map(|name| {
                (
                    name.clone(),
                    storage.open(&name, Access::Read).unwrap().len().unwrap(),
                )
            })
            .collect();
        storage.tap().take();
        let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
        let reads = storage.tap().take().reads;
        let active = sizes.keys().rfind(|name| name.ends_with(".seg")).unwrap();
        for (name, reads) in reads
            .iter()
            .filter(|(name, _)| name.ends_with(".seg") && *name != active)
        {
            let size = sizes[name];
            for (offset, bytes) in reads {
                let header = offset + bytes <= HEADER_BYTES;
                let trailer = *offset >= size - TRAILER_BYTES - HEADER_COPY_BYTES;
                // Without a checkpoint the index block is read as well, which ends where the trailer begins.
                let index =
                    !with_checkpoint && offset + bytes == size - TRAILER_BYTES && *bytes < size / 4;
                assert!(
                    header || trailer || index,
                    "{name} of {size} bytes: read {bytes} at {offset}"
                );
            }
        }
        let read: u64 = reads.values().flatten().map(|(_, bytes)| bytes).sum();
        println!(
            "{} events, {segments} segments, checkpoint {with_checkpoint}: {read} bytes read",
            events()
        );
        assert_eq!(
            store.stream(stream(5)).unwrap().unwrap().last_sequence.0,
            u64::try_from(events() / STREAMS).unwrap()
        );
    }
}

#[test]
fn fork_and_truncation_of_a_long_stream_do_the_work_of_a_short_one() {
    let storage = Counting::default();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let records = vec![NewRecord::data(b"payload"); 10];
    store.append(stream(0), Expected::Absent, &records).unwrap();
    for _ in 0..events() / 10 {
        store.append(stream(1), Expected::Any, &records).unwrap();
    }
    store.sync().unwrap();
    let last = u64::try_from(events()).unwrap();
    let work = |step: &dyn Fn() -> runlog_engine::Result<Appended>| {
        storage.tap().take();
        step().unwrap();
        let counts = storage.tap().take();
        let reads = counts
            .reads
            .keys()
            .filter(|name| name.contains(".seg"))
            .count();
        // A write is filled up to the end of a page.
        assert!(
            counts.writes.iter().all(|bytes| *bytes <= 4096 + 64),
            "{:?}",
            counts.writes
        );
        (reads, counts.writes.len())
    };
    let short = work(&|| store.fork(stream(0), Sequence(5), stream(10)));
    let long = work(&|| store.fork(stream(1), Sequence(last / 2), stream(11)));
    assert_eq!(short, (0, 1));
    assert_eq!(long, short);
    let short = work(&|| store.truncate(stream(0), Sequence(3)));
    let long = work(&|| store.truncate(stream(1), Sequence(last / 3)));
    assert_eq!(short, (0, 1));
    assert_eq!(long, short);
    assert_eq!(
        store.stream(stream(11)).unwrap().unwrap().last_sequence.0,
        last / 2
    );
    assert_eq!(
        store.stream(stream(1)).unwrap().unwrap().last_sequence.0,
        last / 3
    );
}

/// The flush that a rotation begins with would otherwise write all of the segment, while appends wait.
#[test]
fn what_no_append_flushes_goes_to_the_device_meanwhile() {
    const PIECE: u64 = 64 << 10;
    for (durability, is_handed) in [(Durability::Os, true), (Durability::Sync, false)] {
        let storage = Counting::default();
        let options = OpenOptions {
            durability,
            segment_bytes_max: 64 << 20,
            ..options()
        };
        let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
        let payload = vec![7; usize::try_from(PIECE).unwrap()];
        storage.tap().take();
        let mut handed = Vec::new();
        for mebibytes in 1..=6_u64 {
            for _ in 0..(1 << 20) / PIECE {
                store
                    .append(stream(0), Expected::Any, &[NewRecord::data(&payload)])
                    .unwrap();
            }
            // The maintenance thread does it.
            while is_handed && handed.last().is_none_or(|end| *end < mebibytes << 20) {
                let counts = storage.tap().take();
                assert_eq!(counts.flushes, 0);
                handed.extend(counts.writebacks);
                std::thread::yield_now();
            }
        }
        handed.extend(storage.tap().take().writebacks);
        let expected = if is_handed { 6 } else { 0 };
        assert_eq!(handed.len(), expected, "{handed:?}");
        assert!(handed.iter().all(|end| end.is_multiple_of(4096)));
        store.close().unwrap();
    }
}

#[test]
fn checkpoints_take_an_eighth_of_what_the_log_does() {
    const MANY: u128 = 20_000;
    let storage = Counting::default();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for number in 0..MANY {
        store
            .append(
                stream(number),
                Expected::Absent,
                &[NewRecord::data(b"one of many streams")],
            )
            .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let one = storage
        .open("CHECKPOINT", Access::Read)
        .unwrap()
        .len()
        .unwrap();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    storage.tap().take();
    for _ in 0..200 {
        store
            .append(
                stream(1),
                Expected::Any,
                &[NewRecord::data(&vec![7; 100_000])],
            )
            .unwrap();
    }
    // The keeper thread writes them; closing waits for it, and writes the last.
    store.close().unwrap();
    let saved = storage.tap().take().saved;
    assert!(
        saved <= 20_000_000 / 8 + 2 * one,
        "{saved} bytes of checkpoints of {one} bytes each for 20 MB of log"
    );
}

#[test]
fn first_record_of_a_scan_costs_one_record() {
    const RECORD: usize = 100_000;
    let storage = Counting::default();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for _ in 0..200 {
        store
            .append(
                stream(1),
                Expected::Any,
                &[NewRecord::data(&vec![7; RECORD])],
            )
            .unwrap();
    }
    // Once, so that index blocks are in memory.
    assert_eq!(store.scan(runlog_engine::Position(1)).unwrap().count(), 201);
    for position in [2, 100, 150, 199, 201] {
        storage.tap().take();
        assert!(
            store
                .scan(runlog_engine::Position(position))
                .unwrap()
                .next()
                .unwrap()
                .is_ok()
        );
        let read: u64 = storage
            .tap()
            .take()
            .reads
            .values()
            .flatten()
            .map(|(_, bytes)| bytes)
            .sum();
        // The way from the sample before it is by headers, a page each at most.
        assert!(
            read < RECORD as u64 + 70 * 4096,
            "position {position}: {read} bytes"
        );
    }
}

/// What each act of a run or a chat is: one write to the log, and one flush.
#[test]
fn a_message_with_its_tool_call_and_step_is_one_write_and_one_flush() {
    let storage = Counting::default();
    let store = runlog::blocking::Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let once = |act: &str| {
        let counts = storage.tap().take();
        assert_eq!((counts.writes.len(), counts.flushes), (1, 1), "{act}");
    };
    storage.tap().take();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("t"), "coder"))
        .unwrap();
    once("a session, its instance, a run and their places in two catalogs");
    run.next_step().unwrap();
    assert_eq!(
        storage.tap().take().flushes,
        0,
        "a step is written with its first message"
    );
    let message = NewMessage::assistant("").with_tool_calls([NewToolCall::new("a", "ls", "{}")]);
    let outcome = ToolOutcome::completed("a", RawJson::null()).took_ms(7);
    run.record_tool_call(message.to_json().unwrap(), &[outcome])
        .unwrap();
    once("a message, its call, the result and the step");
    run.next_step().unwrap();
    run.record_message(message.clone()).unwrap();
    once("a message, its call and the step");
    run.record_tool_result(&ToolOutcome::error("a", RawJson::null()))
        .unwrap();
    once("a result");
    run.record_message(message).unwrap();
    once("a message and its call");
    run.pause("lunch").unwrap();
    once("a change of status");
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap()
        .recorder;
    once("a call that is closed, two runs, a message and their places in the catalog");
    resumed.complete(None).unwrap();
    once("an end");

    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    once("a chat");
    let asked = ChatMessage::text(ChatRole::User, "Oslo?");
    let mut request = chats
        .begin_request(&chat, NewRequest::new("travel"), asked)
        .unwrap();
    once("the entry of a request");
    for step_type in [StepType::Llm, StepType::Tool, StepType::Llm] {
        let step = request
            .start_step(step_type, RawJson::parse("{}").unwrap())
            .unwrap();
        request
            .send(ChatMessage::text(ChatRole::Assistant, "Well …"))
            .unwrap();
        request.complete_step(&step, None).unwrap();
    }
    assert_eq!(
        storage.tap().take().flushes,
        0,
        "in between all is in memory"
    );
    request.finish(RequestEnd::Completed).unwrap();
    once("its exit");
    let session = store.find_session(&chat).unwrap().id;
    store
        .copy_session(session, &CopySession::default())
        .unwrap();
    once("a copy of a session");
}

/// The files of a storage as they are, in another: what a process that ended now would leave.
fn left_behind(storage: &Counting) -> Counting {
    let left = Counting::default();
    for name in storage.list().unwrap() {
        let file = storage.storage().open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        left.storage()
            .create(&name)
            .unwrap()
            .write_at(0, &bytes)
            .unwrap();
    }
    left
}

#[test]
fn reader_beside_a_writer_opens_no_file_to_look_for_news() {
    let storage = Counting::default();
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    store
        .append(stream(1), Expected::Any, &[NewRecord::data(b"one")])
        .unwrap();
    let reader = Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap();
    reader.last_position().unwrap();
    storage.tap().take();
    for _ in 0..100 {
        assert_eq!(
            reader.last_position().unwrap(),
            store.last_position().unwrap()
        );
    }
    let counts = storage.tap().take();
    assert_eq!(counts.opens, 0, "the watermark's file stays open");
    assert_eq!(counts.reads["WATERMARK"].len(), 100, "one look each");
    for _ in 0..10_000 {
        reader.last_position().unwrap();
    }
    let opens = storage.tap().take().opens;
    assert!(
        (1..=40).contains(&opens),
        "it may have been replaced, which is looked after once in 256 looks, not {opens} times in 10,000"
    );
}

#[test]
fn free_room_is_read_once_after_a_crash_whether_its_front_is_torn_or_not() {
    let preallocated = OpenOptions {
        preallocation: Preallocation::Auto,
        ..options()
    };
    for torn in [false, true] {
        let storage = Counting::default();
        let store = Store::open_on(Arc::new(storage.clone()), preallocated.clone()).unwrap();
        store
            .append(stream(1), Expected::Any, &[NewRecord::data(b"one")])
            .unwrap();
        let left = left_behind(&storage);
        let name = "00000001.seg";
        if torn {
            left.storage()
                .open(name, Access::Write)
                .unwrap()
                .write_at(8192, &[7; 100])
                .unwrap();
        }
        let size = left
            .storage()
            .open(name, Access::Read)
            .unwrap()
            .len()
            .unwrap();
        let reopened = Store::open_on(Arc::new(left.clone()), preallocated.clone()).unwrap();
        assert_eq!(reopened.recovery().torn_bytes > 0, torn);
        let read: u64 = left.tap().take().reads[name]
            .iter()
            .map(|(_, bytes)| bytes)
            .sum();
        // The front is read for records, and where it is torn, for records behind the torn place.
        assert!(read <= size + (1 << 20), "{read} bytes read of {size}");
        drop(store);
    }
}

#[test]
fn what_nobody_has_seen_is_durable_before_anybody_does_however_much_it_is() {
    let os = OpenOptions {
        durability: Durability::Os,
        segment_bytes_max: 8 << 20,
        ..options()
    };
    let storage = Counting::default();
    let store = Store::open_on(Arc::new(storage.clone()), os.clone()).unwrap();
    let payload = vec![7; 600 << 10];
    let mut watermarks = Vec::new();
    for _ in 0..6 {
        store
            .append(stream(1), Expected::Any, &[NewRecord::data(&payload)])
            .unwrap();
        let mut bytes = vec![0; 96];
        storage
            .storage()
            .open("WATERMARK", Access::Read)
            .unwrap()
            .read_at(0, &mut bytes)
            .unwrap();
        watermarks.push(bytes);
    }
    // The process ended after it wrote the last two and before it acknowledged them.
    let left = left_behind(&storage);
    left.storage()
        .open("WATERMARK", Access::Write)
        .unwrap()
        .write_at(0, &watermarks[3])
        .unwrap();
    let reopened = Store::open_on(Arc::new(left.clone()), os).unwrap();
    assert_eq!(
        reopened.stream(stream(1)).unwrap().unwrap().last_sequence,
        Sequence(6)
    );
    let counts = left.tap().take();
    let written: u64 = counts.writes.iter().sum();
    assert!(
        written >= 2 * (600 << 10) && counts.flushes >= 1,
        "{written} bytes written again"
    );
    assert!(
        written < 3 * (600 << 10),
        "what readers have seen waits for the first append: {written} bytes"
    );
}
