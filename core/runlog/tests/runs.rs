//! Runs in a folder: a process that dies leaves them paused, and a long catalog opens from its checkpoint.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use runlog::{
    Embedded, ListRunMessages, ListRuns, ListToolCalls, NewMessage, NewRun, NewSession, NewToolCall, Paged,
    RUNS_STREAM, RawJson, ResumeOptions, RunId, RunStatus, RunSummary, Store, StoreOptions, ToolCallStatus,
    ToolOutcome, Wait,
    backend::{Backend, BackendFuture, Page},
    engine::{
        Appended, Batch, Durability, Expected, Kind, NewRecord, Op, Position, ReadOptions, Sequence, Snapshot,
        StreamId, StreamInfo,
    },
    memory::MemoryBackend,
};
use runlog_model::{InstanceId, RunCatalogEvent, SessionId};
use uuid::Uuid;

fn asks(id: &str) -> NewMessage {
    NewMessage::assistant("").with_tool_calls([NewToolCall::new(id, "test", "{}")])
}

#[test]
fn a_process_that_dies_leaves_its_run_paused_with_what_it_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let run = store.runs().start(NewRun::in_new_session(NewSession::named("s"), "coder")).unwrap();
    run.next_step().unwrap();
    run.record_message(asks("a")).unwrap();
    run.record_tool_result(&ToolOutcome::completed("a", RawJson::null()).took_ms(3)).unwrap();
    run.next_step().unwrap();
    run.record_message(asks("b")).unwrap();
    let sent = store.context(run.run().instance_id).unwrap().get_messages().unwrap();
    let id = run.id();
    // No close: nothing is written but what was acknowledged.
    drop((run, store));

    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(reader.runs().get(id).unwrap().unwrap().status, RunStatus::Running, "a reader changes nothing");
    drop(reader);
    let store = Store::open(&path).unwrap();
    assert!(store.recover_runs().unwrap().is_empty(), "opening has done it");
    let run = store.runs().get(id).unwrap().unwrap();
    assert_eq!((run.status, run.step_count), (RunStatus::Paused, 2));
    assert!(run.pause_reason.unwrap().contains("orphaned"));
    let resumed = store.runs().resume(id, &ResumeOptions::default()).unwrap();
    assert_eq!(resumed.messages[..sent.len()], sent[..]);
    assert_eq!(resumed.dangling[0].id.as_deref(), Some("b"));
    assert_eq!(resumed.recorder.next_step().unwrap(), 3);
    let calls = store.runs().tool_calls(id, &ListToolCalls::default()).unwrap().items;
    assert_eq!(
        calls.iter().map(|call| call.status).collect::<Vec<_>>(),
        [ToolCallStatus::Completed, ToolCallStatus::Error]
    );
    assert_eq!(store.runs().messages(id, &ListRunMessages::default()).unwrap().items.len(), 4);
    let resumed = resumed.recorder;
    // The awaiting handle of the same store knows that the run is at work.
    assert!(pollster::block_on(store.to_async().recover_runs()).unwrap().is_empty());
    resumed.complete(Some("done")).unwrap();
    drop((resumed, store));

    let store = Store::open(&path).unwrap();
    let listed: Vec<_> =
        store.runs().list(&ListRuns::default()).unwrap().items.iter().map(|run| (run.status, run.step_count)).collect();
    assert_eq!(listed, [(RunStatus::Completed, 3), (RunStatus::Paused, 2)]);
}

#[test]
fn the_calls_for_waiting_callers_do_what_their_twins_do() {
    let store = Store::in_memory();
    let runs = store.runs();
    let parent = runs.start(NewRun::in_new_session(NewSession::default(), "lead")).unwrap();
    let new = NewRun { parent_run_id: Some(parent.id()), ..NewRun::new(parent.run().instance_id) };
    let run = runs.start(new).unwrap();
    let message = RawJson::parse(r#"{"role":"user","content":"x"}"#).unwrap();
    let recorded = run.record_raw_message(message.clone()).unwrap();
    run.record_raw_message_with(message, &runlog::AppendOptions::default()).unwrap();
    run.record_tool_call(asks("a").to_json().unwrap(), &[ToolOutcome::error("a", RawJson::null())]).unwrap();
    assert_eq!(runs.message(run.id(), recorded.id).unwrap().unwrap().id, recorded.id);
    let call = runs.tool_calls(run.id(), &ListToolCalls::default()).unwrap().items.remove(0);
    assert_eq!(runs.tool_call(run.id(), call.id).unwrap(), Some(call));
    assert_eq!(runs.children(parent.id(), 5, None).unwrap().items[0].id, run.id());
    assert_eq!(runs.recorder(run.id()).unwrap().fail("boom").unwrap().status, RunStatus::Failed);
    assert_eq!(parent.cancel(None).unwrap().status, RunStatus::Cancelled);
    assert!(runs.recover().unwrap().is_empty());
}

/// A backend that counts batches, and the records of the runs catalog that are read.
struct Counting {
    inner: Arc<dyn Backend>,
    batches: AtomicU64,
    read: AtomicU64,
}

impl Counting {
    fn new(inner: Arc<dyn Backend>) -> Arc<Self> {
        Arc::new(Self { inner, batches: AtomicU64::new(0), read: AtomicU64::new(0) })
    }
}

impl Backend for Counting {
    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.inner.commit(batch)
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        Box::pin(async move {
            let page = self.inner.read(stream, options).await?;
            if stream == RUNS_STREAM {
                self.read.fetch_add(page.records.len() as u64, Ordering::Relaxed);
            }
            Ok(page)
        })
    }

    fn scan(&self, first: Position, limit: u64) -> BackendFuture<'_, Page<Position>> {
        self.inner.scan(first, limit)
    }

    fn stream(&self, stream: StreamId) -> BackendFuture<'_, Option<StreamInfo>> {
        self.inner.stream(stream)
    }

    fn latest_snapshot(&self, stream: StreamId, at_or_before: Sequence) -> BackendFuture<'_, Option<Snapshot>> {
        self.inner.latest_snapshot(stream, at_or_before)
    }

    fn wait_past(&self, seen: Position) -> BackendFuture<'_, Position> {
        self.inner.wait_past(seen)
    }

    fn new_id(&self) -> Uuid {
        self.inner.new_id()
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }
}

#[test]
fn every_write_of_a_run_is_one_batch() {
    let counting = Counting::new(Arc::new(MemoryBackend::new()));
    let store = Store::with_backend(Arc::clone(&counting) as Arc<dyn Backend>);
    let batches = || counting.batches.swap(0, Ordering::Relaxed);
    let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder")).unwrap();
    assert_eq!(batches(), 1, "session, instance, run and its place in the catalog");
    run.next_step().unwrap();
    run.record_tool_call(asks("a").to_json().unwrap(), &[ToolOutcome::completed("a", RawJson::null())]).unwrap();
    assert_eq!(batches(), 1, "message, call, result and step");
    run.next_step().unwrap();
    run.record_message(asks("b")).unwrap();
    run.pause("stop").unwrap();
    assert_eq!(batches(), 2);
    let resumed = store.runs().resume(run.id(), &ResumeOptions::default()).unwrap();
    assert_eq!(batches(), 1, "the closed call, the message, both runs and the catalog");
    resumed.recorder.complete(None).unwrap();
    assert_eq!(batches(), 1);
}

const EVENTS: u32 = 20_000;

/// Fills the runs catalog, as if so many runs had started, and half of them ended.
fn fill(backend: &Arc<dyn Backend>) {
    let mut events = Vec::new();
    for number in 0..EVENTS / 2 {
        let id = RunId(Uuid::from_u128(u128::from(number) + 1));
        let run = RunSummary {
            id,
            project: None,
            session_id: SessionId(Uuid::from_u128(u128::from(number / 10))),
            instance_id: InstanceId(id.as_uuid()),
            agent_id: format!("agent {}", number % 7),
            status: RunStatus::Running,
            step_count: 0,
            parent_run_id: None,
            resumed_from: None,
            created_at_ms: 1,
            completed_at_ms: None,
            duration_ms: None,
        };
        events.push(RunCatalogEvent::Created(run).encode().unwrap());
        let status = RunCatalogEvent::StatusChanged { id, status: RunStatus::Completed, step_count: 3, at_ms: 2 };
        events.push(status.encode().unwrap());
    }
    let records =
        events.iter().map(|event| NewRecord { kind: Kind(event.kind), meta: &event.meta, payload: &event.payload });
    let append = Op::Append { stream: RUNS_STREAM, expected: Expected::Absent, records: records.collect() };
    pollster::block_on(backend.commit(Batch::new(vec![append]).with_durability(Durability::Os))).unwrap();
}

fn every_run(store: &Store) -> Vec<RunSummary> {
    let mut options = ListRuns { agent_id: Some("agent 3".into()), limit: 100, ..ListRuns::default() };
    let mut runs = Vec::new();
    loop {
        let Paged { items, next } = store.runs().list(&options).unwrap();
        runs.extend(items);
        options.cursor = next;
        if options.cursor.is_none() {
            return runs;
        }
    }
}

fn opening_reads_only_what_came_after_the_checkpoint(backend: Arc<dyn Backend>) {
    fill(&backend);
    let first = Store::with_backend(Arc::clone(&backend));
    // Whoever writes next finds that it is time.
    first.runs().start(NewRun::in_new_session(NewSession::default(), "agent 3")).unwrap().complete(None).unwrap();
    let expected = every_run(&first);
    assert_eq!(expected.len(), EVENTS as usize / 2 / 7 + 2);

    let counting = Counting::new(Arc::clone(&backend));
    let second = Store::with_backend(Arc::clone(&counting) as Arc<dyn Backend>);
    assert_eq!(every_run(&second), expected);
    let read = counting.read.load(Ordering::Relaxed);
    assert!(read < 10, "{read} records read");

    // A checkpoint that can't be read is passed over.
    let last = pollster::block_on(backend.stream(RUNS_STREAM)).unwrap().unwrap().last_sequence;
    let broken = Op::Snapshot { stream: RUNS_STREAM, sequence: last, meta: &[1], payload: b"{}" };
    pollster::block_on(backend.commit(Batch::new(vec![broken]))).unwrap();
    assert_eq!(every_run(&Store::with_backend(backend)), expected);
}

#[test]
fn in_memory_opening_reads_only_what_came_after_the_checkpoint() {
    opening_reads_only_what_came_after_the_checkpoint(Arc::new(MemoryBackend::new()));
}

#[test]
fn in_a_folder_opening_reads_only_what_came_after_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(folder.path().join("store"), StoreOptions::default(), Wait::Block).unwrap();
    opening_reads_only_what_came_after_the_checkpoint(Arc::new(embedded));
}

#[test]
fn threads_that_race_with_the_end_of_a_run_write_what_they_were_told_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder")).unwrap();
    run.next_step().unwrap();
    let other = store.runs().recorder(run.id()).unwrap();
    let written: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let recorder = if number % 2 == 0 { run.clone() } else { other.clone() };
                scope.spawn(move || {
                    let write = |_| recorder.record_message(NewMessage::user("x"));
                    let outcomes: Vec<_> = (0..200).map(write).take_while(Result::is_ok).collect();
                    outcomes.len()
                })
            })
            .collect();
        // Once the writers are at work, the run ends under their hands.
        while store.contexts().last_sequence(run.run().instance_id).unwrap() < 8 {
            std::thread::yield_now();
        }
        other.cancel(None).unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert!(written >= 8, "{written}");
    let all = ListRunMessages { limit: 1_000, ..ListRunMessages::default() };
    assert_eq!(store.runs().messages(run.id(), &all).unwrap().items.len(), written);
    assert_eq!(store.contexts().last_sequence(run.run().instance_id).unwrap(), written as u64);
    assert_eq!(run.record_message(NewMessage::user("late")).unwrap_err().kind(), runlog::ErrorKind::WrongStatus);
}
