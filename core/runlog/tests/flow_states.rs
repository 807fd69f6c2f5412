//! The states of a flow are saved as differences, and read whole: by other handles, at any sequence, from an archive, after a
//! compaction, and beside what was redacted.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use runlog::{
    Error, ErrorKind, NewRun, NewSession, RunId,
    archive::{What, export, import},
    backend::{Backend, BackendFuture, Decorator},
    blocking::{FlowRun, Playback, Store},
    flows::{PlaybackOptions, RunSnapshot, RuntimeEvent},
    log::{
        Appended, Batch, CompactOptions, CompactScope, Expected, Kind, Op, Position, Sequence,
        StreamId,
    },
    runs::ResumeOptions,
    scan::TextQuery,
};
use serde_json::{Value, json};

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

fn event() -> RuntimeEvent {
    RuntimeEvent::parse(r#"{"type":"node:started"}"#).unwrap()
}

/// The output of a node, of some length.
fn output(at: u64, length: u64) -> Value {
    let words = (0..length).map(|word| format!("word {at}-{word}"));
    json!({ "node": at, "text": words.collect::<Vec<_>>().join(" ") })
}

fn at(last: u64) -> PlaybackOptions {
    PlaybackOptions {
        last: Some(last),
        ..PlaybackOptions::default()
    }
}

/// What a handle that has nothing in memory reads of the flow at a sequence.
fn state_at(store: &Store, run: RunId, last: u64) -> Option<RunSnapshot> {
    let cold = Store::with_backend(store.backend().clone());
    let played = Playback::new(&cold, run, at(last)).unwrap();
    played.snapshot().cloned()
}

fn saved_position(store: &Store, run: RunId, at: u64) -> Position {
    let stream = StreamId(run.as_uuid());
    let found = pollster::block_on(store.backend().latest_snapshot(stream, Sequence(at)));
    found.unwrap().unwrap().position
}

fn bytes_of_states(store: &Store) -> usize {
    let mut bytes = 0;
    let mut next = Some(Position(1));
    while let Some(first) = next {
        let page = pollster::block_on(store.backend().scan(first, 1_000)).unwrap();
        let snapshots = page
            .records
            .iter()
            .filter(|record| record.kind == Kind::SNAPSHOT);
        bytes += snapshots.map(|record| record.payload.len()).sum::<usize>();
        next = page.next;
    }
    bytes
}

#[test]
fn what_a_flow_takes_grows_with_what_each_node_adds() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let mut whole = 0;
    for node in 0..300 {
        flow.record(&event()).unwrap();
        flow.finish_node(&format!("node-{node}"), output(node, 30))
            .unwrap();
        whole += serde_json::to_vec(flow.state()).unwrap().len();
    }
    let saved = bytes_of_states(&store);
    assert!(saved < whole / 20, "{saved} of {whole}");
    let (resumed, _) = FlowRun::resume(&store, flow.run_id(), None).unwrap();
    assert_eq!(resumed.state().outputs.len(), 300);
}

/// Saves, resumes, redacts and goes on, as `seed` says; returns the state that was saved last at each sequence.
fn lived(store: &Store, seed: u64) -> (RunId, BTreeMap<u64, RunSnapshot>) {
    let mut numbers = Numbers(seed);
    let mut flow = FlowRun::create(store, None).unwrap();
    let run = flow.run_id();
    let mut sequence = 0;
    let mut known = BTreeMap::from([(0, flow.state().clone())]);
    for step in 0..120 {
        match numbers.below(12) {
            0..4 => sequence = flow.record(&event()).unwrap(),
            4..7 => {
                let length = numbers.below(40);
                flow.state_mut()
                    .outputs
                    .insert(format!("node-{}", numbers.below(30)), output(step, length));
                flow.save_snapshot().unwrap();
                known.insert(sequence, flow.state().clone());
            }
            7 => {
                flow.state_mut().outputs.clear();
                flow.save_snapshot().unwrap();
                known.insert(sequence, flow.state().clone());
            }
            8 => {
                // Unchanged.
                flow.save_snapshot().unwrap();
                known.insert(sequence, flow.state().clone());
            }
            9 => {
                let before = flow.run_id();
                drop(flow);
                let (resumed, told) = FlowRun::resume(store, before, None).unwrap();
                flow = resumed;
                sequence = told.sequence;
            }
            10 => {
                let deleted = flow.state().outputs.keys().next().cloned();
                if let Some(name) = deleted {
                    flow.state_mut().outputs.remove(&name);
                }
            }
            _ => flow
                .state_mut()
                .loop_counters
                .insert("l".into(), step)
                .map_or((), drop),
        }
    }
    (run, known)
}

fn check(store: &Store, run: RunId, known: &BTreeMap<u64, RunSnapshot>, what: &str) {
    let last = known.keys().last().copied().unwrap();
    for sequence in 0..=last {
        let expected = known.range(..=sequence).next_back().map(|(_, state)| state);
        assert_eq!(
            state_at(store, run, sequence).as_ref(),
            expected,
            "{what}, at {sequence}"
        );
    }
}

#[test]
fn each_state_is_what_was_saved_there_also_in_an_archive_and_after_a_compaction() {
    for seed in 0..12 {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (run, known) = lived(&store, seed);
        check(&store, run, &known, &format!("seed {seed}"));
        let mut archive = Vec::new();
        export(&store, What::All, &mut |line| {
            archive.extend_from_slice(line);
            Ok::<(), Error>(())
        })
        .unwrap();
        let other = Store::in_memory();
        let mut source =
            || Ok(Box::new(std::io::Cursor::new(archive.clone())) as Box<dyn std::io::BufRead>);
        import(&other, None, true, &mut source).unwrap();
        check(&other, run, &known, &format!("seed {seed}, imported"));
        let all = CompactOptions {
            scope: CompactScope::All,
            ..CompactOptions::default()
        };
        store.compact(all).unwrap();
        check(&store, run, &known, &format!("seed {seed}, compacted"));
        store.close().unwrap();
        let store = Store::open(folder.path()).unwrap();
        check(&store, run, &known, &format!("seed {seed}, opened again"));
    }
}

#[test]
fn of_a_state_that_was_redacted_nothing_is_left_in_those_that_differ_from_it() {
    for gone in 2..=6 {
        let store = Store::in_memory();
        let mut flow = FlowRun::create(&store, None).unwrap();
        let run = flow.run_id();
        for node in 1..=6 {
            flow.record(&event()).unwrap();
            flow.finish_node(&format!("node-{node}"), output(node, 60))
                .unwrap();
        }
        let redact = Op::Redact {
            position: saved_position(&store, run, gone),
            reason: "asked for",
        };
        pollster::block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
        if gone % 2 == 0 {
            store.compact(CompactOptions::default()).unwrap();
        }
        let state = state_at(&store, run, 6).unwrap();
        assert_eq!(
            state.outputs.len() as u64,
            gone - 1,
            "the one before is whole"
        );
        drop(flow);
        // It goes on from there.
        let (mut flow, resumed) = FlowRun::resume(&store, run, None).unwrap();
        assert_eq!(flow.state().outputs.len() as u64, gone - 1);
        assert_eq!(u64::from(resumed.unreadable_states), 7 - gone);
        flow.finish_node("last", output(7, 60)).unwrap();
        let state = FlowRun::inspect(&store, run).unwrap();
        assert_eq!(state.outputs.len() as u64, gone);
    }
}

/// A snapshot of the caller's own, at the sequence of a state that the later ones differ from.
fn replace_state(store: &Store, run: RunId, at: u64) {
    let own = Op::Snapshot {
        stream: StreamId(run.as_uuid()),
        expected: Expected::Any,
        sequence: Sequence(at),
        meta: b"of my own",
        payload: b"{}",
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![own]))).unwrap();
}

#[test]
fn who_goes_on_from_an_older_state_is_told() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::titled("x"), "coder");
    let run = store.runs().start(new).unwrap();
    let id = run.run().id;
    let mut flow = FlowRun::create(&store, Some(id)).unwrap();
    let mut sequences = Vec::new();
    for node in 1..=4 {
        sequences.push(flow.record(&event()).unwrap());
        flow.finish_node(&format!("node-{node}"), output(node, 60))
            .unwrap();
    }
    drop(flow);
    let (flow, resumed) = FlowRun::resume(&store, id, None).unwrap();
    assert_eq!(resumed.unreadable_states, 0);
    let told = |sequence: u64| {
        let played = Playback::new(&store, id, at(sequence)).unwrap();
        let last = played.last().unwrap().unwrap().1;
        last.event.json.to_value::<Value>().unwrap()
    };
    assert_eq!(told(resumed.sequence).get("unreadableStates"), None);
    drop(flow);

    replace_state(&store, id, sequences[1]);
    let (flow, resumed) = FlowRun::resume(&store, id, None).unwrap();
    assert_eq!(
        (flow.state().outputs.len(), resumed.unreadable_states),
        (1, 2)
    );
    assert_eq!(told(resumed.sequence)["unreadableStates"], 2);
    drop(flow);

    run.pause("lunch").unwrap();
    let resumed = store.runs().resume(id, &ResumeOptions::default()).unwrap();
    assert_eq!(resumed.unreadable_states, 2);
    // The new run has the older state of its own, whole.
    let (flow, resumed) = FlowRun::resume(&store, resumed.run.id, None).unwrap();
    assert_eq!(
        (flow.state().outputs.len(), resumed.unreadable_states),
        (1, 0)
    );
}

/// Redacts a state of a flow while a later one is saved: before the save is written, or behind it.
struct RedactsBeside {
    inner: Arc<dyn Backend>,
    of: Mutex<Option<(Position, bool)>>,
}

impl Decorator for RedactsBeside {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let saves = batch.ops.iter().any(|op| matches!(op, Op::Snapshot { .. }));
        let Some((position, first)) = self.of.lock().unwrap().take_if(|_| saves) else {
            return self.inner.commit(batch);
        };
        let redact = move || Op::Redact {
            position,
            reason: "asked for",
        };
        Box::pin(async move {
            if first {
                self.inner.commit(Batch::new(vec![redact()])).await?;
            }
            let done = self.inner.commit(batch).await;
            if !first {
                self.inner.commit(Batch::new(vec![redact()])).await?;
            }
            done
        })
    }
}

#[test]
fn what_is_saved_beside_a_redaction_or_after_it_can_be_read() {
    for beside in [None, Some(true), Some(false)] {
        let inner = Store::in_memory().backend().clone();
        let of = Mutex::new(None);
        let backend = Arc::new(RedactsBeside { inner, of });
        let store = Store::with_backend(backend.clone());
        let mut flow = FlowRun::create(&store, None).unwrap();
        let run = flow.run_id();
        for node in 1..=8 {
            let last = flow.record(&event()).unwrap();
            if node % 3 == 0 {
                // The one before it, which this one would differ from.
                let position = saved_position(&store, run, last - 1);
                match beside {
                    Some(first) => *backend.of.lock().unwrap() = Some((position, first)),
                    None => {
                        let reason = "asked for";
                        let redact = Op::Redact { position, reason };
                        pollster::block_on(store.backend().commit(Batch::new(vec![redact])))
                            .unwrap();
                    }
                }
            }
            flow.finish_node(&format!("node-{node}"), output(node, 60))
                .unwrap();
            let state = state_at(&store, run, last);
            assert_eq!(
                state.as_ref(),
                Some(flow.state()),
                "{beside:?}, node {node}"
            );
        }
    }
}

#[test]
fn a_save_that_fails_is_none_that_later_ones_differ_from() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    for node in 1..=3 {
        flow.record(&event()).unwrap();
        flow.finish_node(&format!("node-{node}"), output(node, 60))
            .unwrap();
        let large = Value::String("x".repeat(17 << 20));
        flow.finish_node("large", large).unwrap_err();
        flow.save_snapshot().unwrap();
    }
    let known = flow.state().clone();
    assert_eq!(FlowRun::inspect(&store, flow.run_id()).unwrap(), known);
}

/// Writes, and says once that it failed, as where the answer of a device is lost.
struct Unsure {
    inner: Arc<dyn Backend>,
    fails: AtomicBool,
}

impl Decorator for Unsure {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let done = self.inner.commit(batch);
        if !self.fails.swap(false, Ordering::SeqCst) {
            return done;
        }
        Box::pin(async move {
            done.await?;
            Err(Error::new(ErrorKind::Io, "the answer is lost"))
        })
    }
}

#[test]
fn a_save_of_which_nobody_knows_whether_it_was_written_harms_no_later_one() {
    let inner = Store::in_memory().backend().clone();
    let fails = AtomicBool::new(false);
    let backend = Arc::new(Unsure { inner, fails });
    let store = Store::with_backend(backend.clone());
    let mut flow = FlowRun::create(&store, None).unwrap();
    for node in 1..=5 {
        flow.record(&event()).unwrap();
        flow.finish_node(&format!("node-{node}"), output(node, 60))
            .unwrap();
        backend.fails.store(true, Ordering::SeqCst);
        flow.finish_node("unsure", output(node, 9)).unwrap_err();
        flow.record(&event()).unwrap();
        flow.save_snapshot().unwrap();
        let state = FlowRun::inspect(&store, flow.run_id()).unwrap();
        assert_eq!(&state, flow.state());
    }
}

#[test]
fn a_text_in_a_state_is_found_in_the_record_that_brought_it() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    for (node, key) in ["AAAA1111", "AAAA2222", "AAAA3333"].into_iter().enumerate() {
        flow.record(&event()).unwrap();
        let mut output = output(0, 100);
        output["key"] = json!(format!("a \"key\": sk-live-{key}"));
        flow.finish_node(&format!("node-{node}"), output).unwrap();
    }
    let query = TextQuery::new("\"key\\\": sk-live-AAAA2222").unwrap();
    let found = store.search(&query, Position(1)).unwrap().found;
    assert_eq!(found, [saved_position(&store, flow.run_id(), 2)]);
}

#[test]
fn what_is_saved_behind_a_truncation_can_be_read() {
    for behind in [false, true] {
        let store = Store::in_memory();
        let mut flow = FlowRun::create(&store, None).unwrap();
        let run = flow.run_id();
        for node in 1..=4 {
            flow.record(&event()).unwrap();
            flow.finish_node(&format!("node-{node}"), output(node, 60))
                .unwrap();
        }
        let truncate = Op::Truncate {
            stream: StreamId(run.as_uuid()),
            expected: Expected::Exists,
            after: Sequence(2),
        };
        pollster::block_on(store.backend().commit(Batch::new(vec![truncate]))).unwrap();
        // As long as it was, or longer.
        for _ in 0..2 + u64::from(behind) {
            flow.record(&event()).unwrap();
        }
        flow.finish_node("last", output(5, 60)).unwrap();
        let state = FlowRun::inspect(&store, run).unwrap();
        assert_eq!(&state, flow.state(), "longer: {behind}");
    }
}

#[test]
fn what_a_handle_saves_behind_the_records_of_another_is_the_newest_state() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let run = flow.run_id();
    flow.finish_node("first", output(1, 60)).unwrap();
    // Another handle goes on beside it.
    let recorded = event().encode();
    let append = Op::Append {
        stream: StreamId(run.as_uuid()),
        expected: Expected::Exists,
        records: vec![recorded.record()],
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![append]))).unwrap();
    let first = flow.state().clone();
    flow.finish_node("second", output(2, 60)).unwrap();
    assert_eq!(state_at(&store, run, 0), Some(first));
    assert_eq!(state_at(&store, run, 1).as_ref(), Some(flow.state()));
}

#[test]
fn a_command_that_came_before_a_save_that_failed_goes_on_waiting() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let run = flow.run_id();
    let command = r#"{"type":"command:received","timestamp":1,"command":{"type":"resume"}}"#;
    let received = RuntimeEvent::parse(command).unwrap().encode();
    let append = Op::Append {
        stream: StreamId(run.as_uuid()),
        expected: Expected::Exists,
        records: vec![received.record()],
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![append]))).unwrap();
    let large = Value::String("x".repeat(17 << 20));
    flow.finish_node("large", large).unwrap_err();
    flow.save_snapshot().unwrap();
    assert_eq!(flow.state().inbox.len(), 1);
    assert_eq!(FlowRun::inspect(&store, run).unwrap().inbox.len(), 1);
}
