//! Records of runs that are lost: what they were of tells an error, and all else is listed, resumed, cancelled and exported as it was.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod damaged;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, Cursor},
    ops::ControlFlow,
    sync::Arc,
};

use damaged::copy;
use runlog::{
    Error, ErrorKind, NewMessage, NewRun, NewSession, RawJson, Result, RunId, RunStatus,
    StoreOptions,
    agents::AGENTS_STREAM,
    archive::{self, What},
    blocking::Store,
    engine::{
        self, StreamId, SystemHost,
        storage::{Access, MemoryStorage, Storage},
    },
    flows::FLOWS_STREAM,
    runs::{
        ListRunMessages, ListRuns, ListToolCalls, RUNS_STREAM, ResumeOptions, RunDetails,
        ToolOutcome,
    },
    sessions::CATALOG_STREAM,
};

const LISTS: [StreamId; 4] = [CATALOG_STREAM, RUNS_STREAM, FLOWS_STREAM, AGENTS_STREAM];

fn open(storage: &MemoryStorage) -> Result<Store> {
    Store::open_on(Arc::new(storage.clone()), StoreOptions::default())
}

/// Damages the header of a record, or its content.
fn flip(storage: &MemoryStorage, file: &str, offset: u64, is_header: bool) {
    let from = offset + if is_header { 4 } else { 33 };
    let file = storage.open(file, Access::Write).unwrap();
    let mut bytes = [0; 2];
    file.read_at(from, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
    file.write_at(from, &bytes).unwrap();
}

fn details(text: &str) -> RunDetails {
    RunDetails {
        metadata: Some(RawJson::parse(format!(r#"{{"of":"{text}"}}"#)).unwrap()),
        ..RunDetails::default()
    }
}

/// Runs of each status, with steps, tool calls, details, children and resumes.
fn filled() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let store = open(&storage).unwrap();
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"grep","arguments":"{}"}}]}"#;
    let mut parent = None;
    for end in ["complete", "pause", "fail", "cancel", "resume"] {
        let new = NewRun {
            parent_run_id: parent,
            max_steps: Some(9),
            ..NewRun::in_new_session(NewSession::titled(end), "coder")
        };
        let run = store.runs().start(new).unwrap();
        parent = Some(run.id());
        run.record_message(NewMessage::user(end)).unwrap();
        for step in 0..3 {
            run.next_step().unwrap();
            if step == 1 {
                run.record_raw_message(RawJson::parse(call.to_owned()).unwrap())
                    .unwrap();
                let outcome = ToolOutcome::completed("c", RawJson::string("found"));
                run.record_tool_result(&outcome).unwrap();
                run.describe(details(end)).unwrap();
            }
            run.record_message(NewMessage::assistant("done")).unwrap();
        }
        match end {
            "complete" => drop(run.complete(Some("done")).unwrap()),
            "fail" => drop(run.fail("broke").unwrap()),
            "cancel" => drop(run.cancel(None).unwrap()),
            "pause" => drop(run.pause("later").unwrap()),
            _ => {
                let paused = run.pause("later").unwrap();
                let resumed = store
                    .runs()
                    .resume(paused.id, &ResumeOptions::default())
                    .unwrap();
                for _ in 0..3 {
                    resumed.recorder.next_step().unwrap();
                    let message = NewMessage::assistant("goes on");
                    resumed.recorder.record_message(message).unwrap();
                }
                resumed.recorder.pause("again").unwrap();
            }
        }
    }
    store.close().unwrap();
    storage
}

/// What a run tells, or that it is damaged.
type Told = std::result::Result<String, String>;

fn told<T: std::fmt::Debug>(what: Result<T>) -> Told {
    match what {
        Ok(told) => Ok(format!("{told:?}")),
        Err(error) if error.kind() == ErrorKind::Damaged => Err(error.to_string()),
        Err(error) => panic!("another error: {error:?}"),
    }
}

fn all(store: &Store) -> BTreeMap<RunId, Vec<Told>> {
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    let of = |id: RunId| {
        let runs = store.runs();
        vec![
            told(runs.get(id)),
            told(runs.messages(id, &ListRunMessages::default())),
            told(runs.tool_calls(id, &ListToolCalls::default())),
        ]
    };
    listed.into_iter().map(|run| (run.id, of(run.id))).collect()
}

fn statuses(store: &Store) -> BTreeMap<RunId, RunStatus> {
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    listed.into_iter().map(|run| (run.id, run.status)).collect()
}

fn events(storage: &MemoryStorage) -> Vec<(String, u64, StreamId, u64)> {
    let mut events = Vec::new();
    engine::salvage(storage, &mut |record| {
        if record.kind.is_data()
            && let Some(stream) = record.stream
        {
            let sequence = record.sequence.0;
            events.push((record.file.clone(), record.offset, stream, sequence));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    events
}

fn repaired(storage: &MemoryStorage, what: &str) -> Store {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    runlog::Store::repair(&shared, "test", Arc::new(SystemHost))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    open(storage).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Goes on with what can be, ends the rest, and exports it.
fn goes_on(
    store: &Store,
    stream: StreamId,
    damaged: &BTreeSet<RunId>,
    is_headless: bool,
    what: &str,
) {
    for (id, status) in statuses(store) {
        let run = store.runs().get(id);
        let is_superseded = run
            .as_ref()
            .is_ok_and(|run| run.as_ref().unwrap().resumed_by.is_some());
        let resumed = (status == RunStatus::Paused && !is_superseded)
            .then(|| store.runs().resume(id, &ResumeOptions::default()));
        match resumed {
            Some(Ok(resumed)) => drop(resumed.recorder.complete(None).unwrap()),
            Some(Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Damaged, "{what}: {error}");
                // An earlier run of the same context may have lost it.
                let listed = store.runs().list(&ListRuns::default()).unwrap().items;
                let is_of_context = listed
                    .iter()
                    .any(|run| run.id == id && StreamId(run.instance_id.0) == stream);
                assert!(
                    is_of_context || damaged.contains(&id),
                    "{what}: {id} isn't resumed: {error}"
                );
            }
            None => {}
        }
    }
    let mut lines = Vec::new();
    let exported = archive::export_readable(store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<_, Error>(())
    });
    exported.unwrap_or_else(|error| panic!("{what}: the export: {error}"));
    let other = Store::in_memory();
    let mut source = || -> Result<Box<dyn BufRead>> { Ok(Box::new(Cursor::new(lines.clone()))) };
    archive::import(&other, None, false, &mut source)
        .unwrap_or_else(|error| panic!("{what}: the import: {error}"));
    let (here, there) = (statuses(store), statuses(&other));
    for (id, status) in here {
        // Nothing can be made of a run without its first event, nor of those that build on it.
        if !damaged.contains(&id) && !is_headless {
            assert_eq!(there.get(&id), Some(&status), "{what}: {id} imported");
        }
    }
}

#[test]
fn a_record_of_a_run_that_is_lost_leaves_all_other_runs() {
    let whole = filled();
    let before = all(&open(&copy(&whole)).unwrap());
    let mut count = 0;
    let all_events = events(&whole).into_iter();
    let both = all_events.flat_map(|event| [true, false].map(|it| (it, event.clone())));
    for (is_header, (file, offset, stream, sequence)) in both {
        if LISTS.contains(&stream) {
            continue;
        }
        count += 1;
        let what = format!("event {sequence} of {stream:?}");
        let storage = copy(&whole);
        flip(&storage, &file, offset, is_header);
        let store = repaired(&storage, &what);
        let after = all(&store);
        assert_eq!(
            after.keys().collect::<Vec<_>>(),
            before.keys().collect::<Vec<_>>(),
            "{what}"
        );
        let mut damaged = BTreeSet::new();
        for (id, told) in &before {
            let now = &after[id];
            for (told, now) in told.iter().zip(now) {
                match now {
                    Err(_) => drop(damaged.insert(*id)),
                    now => assert_eq!(now, told, "{what}"),
                }
            }
        }
        let is_run = before.contains_key(&RunId(stream.0));
        goes_on(&store, stream, &damaged, is_run && sequence == 1, &what);
        store.close().unwrap();
    }
    assert!(count > 40, "{count}");
}

#[test]
fn runs_are_listed_again_whatever_else_of_one_of_them_is_lost() {
    let whole = filled();
    let before = statuses(&open(&copy(&whole)).unwrap());
    let events = events(&whole);
    let (listed, others): (Vec<_>, Vec<_>) = events
        .into_iter()
        .partition(|event| LISTS.contains(&event.2));
    for (file, offset, _, sequence) in listed.iter().filter(|event| event.2 == RUNS_STREAM) {
        for (other, at, stream, number) in &others {
            let what = format!("run event {sequence}, and event {number} of {stream:?}");
            let storage = copy(&whole);
            flip(&storage, file, *offset, false);
            flip(&storage, other, *at, true);
            let store = repaired(&storage, &what);
            let after = statuses(&store);
            for (id, status) in &before {
                if store.runs().get(*id).is_ok() {
                    assert_eq!(after.get(id), Some(status), "{what}");
                }
            }
            store.close().unwrap();
        }
    }
}
