//! The catalogs of sessions and of runs: opening folds what came since their checkpoints, which are never trusted over
//! the events they were made from.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod watched;

use std::sync::Arc;

use pollster::block_on;
use runlog::{
    ErrorKind, NewRun, NewSession, RunId, RunStatus, SessionId, StoreOptions,
    backend::Backend,
    blocking::Store,
    chats::{Chat, ChatFilter, ChatMessage, ChatRole},
    engine::{
        Batch, Durability, Embedded, Expected, Kind, NewRecord, Op, Sequence, StreamId, SystemHost,
        Wait,
    },
    pages::Page,
    runs::{ListRuns, RUNS_STREAM, RunSummary},
    sessions::{CATALOG_STREAM, Deleted, ListSessions, SessionStatus},
};
use runlog_model::{
    AgentInstance, Catalog, CatalogEvent, Checkpointed, InstanceId, RunCatalog, RunCatalogEvent,
    Session, codec::encode_checkpoint_meta,
};
use tempfile::TempDir;
use uuid::Uuid;
use watched::Watched;

type Shared = Arc<dyn Backend>;

/// More events than one checkpoint leaves to be folded.
const EVENTS: u32 = 10_000;

/// One of the two catalogs.
#[derive(Clone, Copy)]
struct Subject {
    events: StreamId,
    parts: StreamId,
    /// Writes so many events, as if as much had happened.
    fill: fn(&Shared),
    /// Does something that the catalog is told.
    act: fn(&Store),
    /// Everything it lists.
    list: fn(&Store) -> String,
}

const SESSIONS: Subject = Subject {
    events: CATALOG_STREAM,
    parts: StreamId::from_bytes(*b"runlog:catpart:1"),
    fill: fill_sessions,
    act: |store| {
        drop(
            store
                .start_session(NewSession::titled("another"), "agent")
                .unwrap(),
        )
    },
    list: list_sessions,
};

const RUNS: Subject = Subject {
    events: RUNS_STREAM,
    parts: StreamId::from_bytes(*b"runlog:runpart:1"),
    fill: fill_runs,
    act: |store| {
        let session = NewSession {
            id: Some(SessionId(Uuid::from_u128(1 << 90))),
            ..NewSession::default()
        };
        let agent = match store.start_session(session, "agent 3") {
            Ok((_, agent)) => agent,
            Err(_) => store
                .root_instance(SessionId(Uuid::from_u128(1 << 90)))
                .unwrap(),
        };
        // One whose end was cut off by the kill may still count as at work.
        let new = NewRun {
            concurrent: true,
            ..NewRun::new(agent.id)
        };
        drop(store.runs().start(new).unwrap().complete(None).unwrap());
    },
    list: list_runs,
};

fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1)
}

fn append(backend: &Shared, stream: StreamId, records: Vec<NewRecord<'_>>) {
    let append = Op::Append {
        stream,
        expected: Expected::Any,
        records,
    };
    block_on(backend.commit(Batch::new(vec![append]).with_durability(Durability::Os))).unwrap();
}

fn session(number: u32) -> Session {
    Session {
        id: SessionId(id(number)),
        name: Some(format!("session {number}")),
        project: None,
        title: Some(format!("title {number}")),
        status: SessionStatus::Active,
        metadata: None,
        copied_from: None,
        created_at_ms: 1,
        updated_at_ms: 1,
        deleted_at_ms: None,
        chat: None,
    }
}

fn run(number: u32, parent_run_id: Option<RunId>) -> RunSummary {
    RunSummary {
        id: RunId(id(number)),
        project: None,
        session_id: SessionId(id(number / 10)),
        instance_id: InstanceId(id(number)),
        agent_name: format!("agent {}", number % 7),
        status: RunStatus::Running,
        step_count: 0,
        parent_run_id,
        resumed_from: None,
        resumed_by: None,
        usage: None,
        metadata: None,
        created_at_ms: 1,
        completed_at_ms: None,
        duration_ms: None,
    }
}

/// A third are sessions, a third instances; then some are deleted, and one in two has a message as a chat.
fn fill_sessions(backend: &Shared) {
    let mut events = Vec::new();
    for number in 0..EVENTS / 3 {
        let session = SessionId(id(number));
        events.push(CatalogEvent::SessionCreated(self::session(number)));
        events.push(CatalogEvent::InstanceCreated(AgentInstance {
            id: InstanceId(id(number)),
            session_id: session,
            agent_name: format!("agent {}", number % 7),
            parent_instance_id: None,
            created_at_ms: 1,
        }));
    }
    for number in 0..EVENTS / 3 {
        let session = SessionId(id(number * 7 % (EVENTS / 3)));
        events.push(match number % 10 {
            0 => CatalogEvent::SessionDeleted {
                id: session,
                at_ms: 5,
            },
            _ => CatalogEvent::ChatTouched {
                id: session,
                at_ms: u64::from(number),
            },
        });
    }
    let encoded: Vec<_> = events.iter().map(|event| event.encode().unwrap()).collect();
    let records = encoded.iter().map(|event| NewRecord {
        labels: &[],
        kind: Kind(event.kind),
        meta: &event.meta,
        payload: &event.payload,
    });
    append(backend, CATALOG_STREAM, records.collect());
}

/// Half of the events are starts of runs, half their ends.
fn fill_runs(backend: &Shared) {
    let mut events = Vec::new();
    for number in 0..EVENTS / 2 {
        let id = RunId(id(number));
        let parent = (number > 10).then(|| RunId(self::id(number / 10)));
        events.push(RunCatalogEvent::Created(Box::new(run(number, parent))));
        events.push(RunCatalogEvent::StatusChanged {
            id,
            status: RunStatus::Completed,
            step_count: 3,
            at_ms: 2,
        });
    }
    let encoded: Vec<_> = events.iter().map(|event| event.encode().unwrap()).collect();
    let records = encoded.iter().map(|event| NewRecord {
        labels: &[],
        kind: Kind(event.kind),
        meta: &event.meta,
        payload: &event.payload,
    });
    append(backend, RUNS_STREAM, records.collect());
}

fn list_sessions(store: &Store) -> String {
    let all = ListSessions {
        deleted: Deleted::Shown,
        limit: usize::MAX,
        ..ListSessions::default()
    };
    let sessions = store.list_sessions(&all).unwrap().items;
    let agents: Vec<_> = sessions
        .iter()
        .filter_map(|session| store.instances(session.id).ok())
        .collect();
    let names: Vec<_> = (0..50)
        .map(|number| store.find_session(&format!("session {number}")).ok())
        .collect();
    let chats = store
        .chats()
        .list_chats(&ChatFilter {
            pagesize: 1_000,
            ..ChatFilter::default()
        })
        .unwrap();
    format!("{sessions:?} {agents:?} {names:?} {chats:?}")
}

fn list_runs(store: &Store) -> String {
    let all = |filter: ListRuns| {
        let (mut options, mut runs) = (
            ListRuns {
                limit: 1_000,
                ..filter
            },
            Vec::new(),
        );
        loop {
            let Page { items, next } = store.runs().list(&options).unwrap();
            runs.extend(items);
            options.cursor = next;
            if options.cursor.is_none() {
                return runs;
            }
        }
    };
    let agent = Some("agent 3".to_owned());
    let parent_run_id = Some(RunId(id(7)));
    format!(
        "{:?} {:?} {:?}",
        all(ListRuns::default()),
        all(ListRuns {
            agent_name: agent,
            ..ListRuns::default()
        }),
        all(ListRuns {
            parent_run_id,
            ..ListRuns::default()
        })
    )
}

fn over(backend: &Shared) -> Store {
    Store::with_backend(Arc::clone(backend))
}

fn watched(backend: &Shared) -> (Arc<Watched>, Store) {
    let watched = Watched::new(Arc::clone(backend));
    let store = Store::with_backend(Arc::clone(&watched) as Shared);
    (watched, store)
}

/// What a store lists that has never heard of a checkpoint.
fn without_checkpoint(backend: &Shared, subject: Subject) -> String {
    let (watched, store) = watched(backend);
    watched.hide_snapshots();
    (subject.list)(&store)
}

fn in_memory() -> Shared {
    Arc::new(Embedded::in_memory(Arc::new(SystemHost), Wait::Block))
}

fn in_folder() -> (Shared, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Embedded::open(
        folder.path().join("store"),
        StoreOptions::default(),
        Wait::Block,
    )
    .unwrap();
    (Arc::new(embedded), folder)
}

/// A store with a checkpoint of one of its catalogs, and a little after it.
fn checkpointed(backend: &Shared, subject: Subject) -> String {
    (subject.fill)(backend);
    let store = over(backend);
    // Whoever writes next finds that it is time.
    (subject.act)(&store);
    (subject.act)(&store);
    (subject.list)(&store)
}

fn opening_folds_what_came_since(backend: Shared, subject: Subject) {
    let expected = checkpointed(&backend, subject);
    assert_eq!(without_checkpoint(&backend, subject), expected);
    let (first, store) = watched(&backend);
    assert_eq!((subject.list)(&store), expected);
    let read = first.read(subject.events);
    assert!(read < 10, "{read} records folded");
    // As much again, and again it is written down: what it was made from is not read any more.
    (subject.act)(&store);
    let parts = block_on(backend.stream(subject.parts))
        .unwrap()
        .unwrap()
        .last_sequence;
    (subject.act)(&store);
    assert_eq!(
        block_on(backend.stream(subject.parts))
            .unwrap()
            .unwrap()
            .last_sequence,
        parts,
        "not at every write"
    );
    let (second, again) = watched(&backend);
    assert_eq!((subject.list)(&again), (subject.list)(&store));
    assert!(second.read(subject.events) < 20);
}

#[test]
fn in_memory_opening_folds_what_came_since_the_checkpoint() {
    for subject in [SESSIONS, RUNS] {
        opening_folds_what_came_since(in_memory(), subject);
    }
}

#[test]
fn in_a_folder_opening_folds_what_came_since_the_checkpoint() {
    for subject in [SESSIONS, RUNS] {
        let (backend, _folder) = in_folder();
        opening_folds_what_came_since(backend, subject);
    }
}

#[test]
fn messages_of_chats_are_folded_once() {
    let backend = in_memory();
    let store = over(&backend);
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let other = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    for number in 0..9_000 {
        let chat = if number % 100 == 0 { &other } else { &chat };
        // One at a time would take long: chats grow.
        let event = CatalogEvent::ChatTouched {
            id: store.find_session(chat).unwrap().id,
            at_ms: 1_900_000_000_000 + number,
        };
        let event = event.encode().unwrap();
        append(
            &backend,
            CATALOG_STREAM,
            vec![NewRecord {
                labels: &[],
                kind: Kind(event.kind),
                meta: &event.meta,
                payload: &event.payload,
            }],
        );
    }
    chats
        .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, "Oslo")])
        .unwrap();
    let (watched, again) = watched(&backend);
    assert_eq!(
        again.chats().get_chat(&chat).unwrap().unwrap(),
        chats.get_chat(&chat).unwrap().unwrap()
    );
    assert_eq!(
        again
            .chats()
            .get_chat(&chat)
            .unwrap()
            .unwrap()
            .last_message_at_ms,
        Some(1_900_000_008_999)
    );
    assert!(
        watched.read(CATALOG_STREAM) < 10,
        "{}",
        watched.read(CATALOG_STREAM)
    );
}

/// Puts a snapshot on top of a catalog that lists what `expected` says; it is seen through.
fn is_rebuilt(backend: &Shared, subject: Subject, expected: &str, meta: &[u8], payload: &[u8]) {
    let last = block_on(backend.stream(subject.events))
        .unwrap()
        .unwrap()
        .last_sequence;
    let snapshot = Op::Snapshot {
        stream: subject.events,
        expected: Expected::Any,
        sequence: last,
        meta,
        payload,
    };
    block_on(backend.commit(Batch::new(vec![snapshot]))).unwrap();
    let store = over(backend);
    assert_eq!(
        (subject.list)(&store),
        expected,
        "{:?}",
        String::from_utf8_lossy(payload)
    );
}

#[test]
fn a_checkpoint_that_is_none_is_passed_over() {
    for subject in [SESSIONS, RUNS] {
        let backend = in_memory();
        let expected = checkpointed(&backend, subject);
        let snapshot = block_on(backend.latest_snapshot(subject.events, Sequence::MAX))
            .unwrap()
            .unwrap();
        let text = String::from_utf8(snapshot.payload.to_vec()).unwrap();
        let mut fakes: Vec<(Vec<u8>, String)> = [
            "",
            "{}",
            "[]",
            "null",
            r#"{"items":1,"chunks":[],"changes":[]}"#,
            r#"{"items":18446744073709551615,"chunks":[],"changes":[]}"#,
            r#"{"items":0,"chunks":[],"changes":[]}"#,
            r#"{"items":1,"chunks":[{"first":1,"last":18446744073709551615,"crc":0}],"changes":[]}"#,
            r#"{"items":0,"chunks":[],"changes":[{"first":0,"last":0,"crc":0,"items":0}]}"#,
        ]
        .into_iter()
        .map(|text| (encode_checkpoint_meta(text.as_bytes()), text.to_owned()))
        .collect();
        // Of another build, and of other numbers.
        fakes.push((vec![1], text.clone()));
        fakes.push((vec![9], text.clone()));
        fakes.push((Vec::new(), text.clone()));
        fakes.push((vec![0; 9], text.clone()));
        fakes.push((
            snapshot.meta.to_vec(),
            text.replacen("\"first\":1,", "\"first\":2,", 1),
        ));
        let later = text.replacen("\"first\":1,", "\"first\":2,", 1);
        fakes.push((encode_checkpoint_meta(later.as_bytes()), later));
        for (meta, payload) in fakes {
            is_rebuilt(&backend, subject, &expected, &meta, payload.as_bytes());
        }
    }
}

#[test]
fn parts_that_are_not_the_catalogs_are_passed_over() {
    for (subject, other) in [(SESSIONS, RUNS), (RUNS, SESSIONS)] {
        let backend = in_memory();
        let expected = checkpointed(&backend, subject);
        (other.fill)(&backend);
        (other.act)(&over(&backend));
        let expected_now = if subject.events == CATALOG_STREAM {
            without_checkpoint(&backend, subject)
        } else {
            expected
        };
        // Its own snapshot, but the parts are the other's.
        let foreign = block_on(backend.read(other.parts, Default::default())).unwrap();
        let own = block_on(backend.stream(subject.parts))
            .unwrap()
            .unwrap()
            .last_sequence
            .0;
        let records = foreign.records.iter().map(|record| NewRecord {
            labels: &[],
            kind: record.kind,
            meta: &[],
            payload: &record.payload,
        });
        append(&backend, subject.parts, records.collect());
        let snapshot = block_on(backend.latest_snapshot(other.events, Sequence::MAX))
            .unwrap()
            .unwrap();
        let mut checkpoint: serde_json::Value = serde_json::from_slice(&snapshot.payload).unwrap();
        for chunk in checkpoint["chunks"].as_array_mut().unwrap() {
            for end in ["first", "last"] {
                chunk[end] = (chunk[end].as_u64().unwrap() + own).into();
            }
        }
        let payload = checkpoint.to_string();
        is_rebuilt(
            &backend,
            subject,
            &expected_now,
            &encode_checkpoint_meta(payload.as_bytes()),
            payload.as_bytes(),
        );
        for junk in [
            &b""[..],
            b"\x02",
            b"\x02\xff\xff\xff\xff\xff\xff\xff\xff",
            &[2; 4096],
        ] {
            append(
                &backend,
                subject.parts,
                vec![NewRecord {
                    labels: &[],
                    kind: Kind(23),
                    meta: &[],
                    payload: junk,
                }],
            );
            let last = block_on(backend.stream(subject.parts))
                .unwrap()
                .unwrap()
                .last_sequence
                .0;
            let of_junk = format!(
                r#"{{"items":1,"chunks":[{{"first":{last},"last":{last},"crc":0}}],"changes":[]}}"#
            );
            is_rebuilt(
                &backend,
                subject,
                &expected_now,
                &encode_checkpoint_meta(of_junk.as_bytes()),
                of_junk.as_bytes(),
            );
        }
    }
}

#[test]
fn a_checkpoint_that_later_events_do_not_follow_from_is_forgotten() {
    for subject in [SESSIONS, RUNS] {
        let backend = in_memory();
        checkpointed(&backend, subject);
        // In itself it is right, and of one item, as of an event before which there was much.
        let first = block_on(backend.stream(subject.parts))
            .unwrap()
            .unwrap()
            .last_sequence
            .0
            + 1;
        let (parts, checkpoint) = match subject.events {
            CATALOG_STREAM => {
                let mut fold = Catalog::new();
                fold.apply(1, CatalogEvent::SessionCreated(session(EVENTS)))
                    .unwrap();
                fold.checkpoint(first).unwrap()
            }
            _ => {
                let mut fold = RunCatalog::new();
                fold.apply(1, RunCatalogEvent::Created(Box::new(run(EVENTS, None))))
                    .unwrap();
                fold.checkpoint(first).unwrap()
            }
        };
        let records = parts.iter().map(|part| NewRecord {
            labels: &[],
            kind: Kind(23),
            meta: &[],
            payload: part,
        });
        append(&backend, subject.parts, records.collect());
        let (meta, payload) = checkpoint.encode().unwrap();
        let last = block_on(backend.stream(subject.events))
            .unwrap()
            .unwrap()
            .last_sequence;
        let snapshot = Op::Snapshot {
            stream: subject.events,
            expected: Expected::Any,
            sequence: last,
            meta: &meta,
            payload: &payload,
        };
        block_on(backend.commit(Batch::new(vec![snapshot]))).unwrap();
        let tells = match subject.events {
            CATALOG_STREAM => {
                let touched = CatalogEvent::ChatTouched {
                    id: SessionId(id(3)),
                    at_ms: 9,
                }
                .encode()
                .unwrap();
                (touched.kind, touched.meta, touched.payload)
            }
            _ => {
                let status = RunStatus::Failed;
                let failed = RunCatalogEvent::StatusChanged {
                    id: RunId(id(3)),
                    status,
                    step_count: 1,
                    at_ms: 9,
                };
                let failed = failed.encode().unwrap();
                (failed.kind, failed.meta, failed.payload)
            }
        };
        append(
            &backend,
            subject.events,
            vec![NewRecord {
                labels: &[],
                kind: Kind(tells.0),
                meta: &tells.1,
                payload: &tells.2,
            }],
        );
        let expected = without_checkpoint(&backend, subject);
        let store = over(&backend);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (subject.list)(&store)))
                .collect();
            readers
                .into_iter()
                .for_each(|reader| assert_eq!(reader.join().unwrap(), expected));
        });
        (subject.act)(&store);
        assert_eq!(
            (subject.list)(&store),
            without_checkpoint(&backend, subject),
            "it goes on"
        );
    }
}

#[test]
fn a_damaged_event_is_an_error_with_and_without_a_checkpoint() {
    for subject in [SESSIONS, RUNS] {
        let backend = in_memory();
        checkpointed(&backend, subject);
        append(
            &backend,
            subject.events,
            vec![NewRecord {
                labels: &[],
                kind: Kind(40),
                meta: &[1],
                payload: b"{",
            }],
        );
        for _ in 0..2 {
            let store = over(&backend);
            for _ in 0..2 {
                let error = match subject.events {
                    CATALOG_STREAM => store.list_sessions(&ListSessions::default()).unwrap_err(),
                    _ => store.runs().list(&ListRuns::default()).unwrap_err(),
                };
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Damaged | ErrorKind::UnsupportedVersion
                    ),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_kill_between_the_writes_of_a_checkpoint_costs_nothing_but_the_checkpoint() {
    for subject in [SESSIONS, RUNS] {
        for writes in 0.. {
            let backend = in_memory();
            (subject.fill)(&backend);
            let (watched, store) = watched(&backend);
            let before = (subject.list)(&store);
            watched.die_after(writes);
            let acted =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (subject.act)(&store)));
            let survived = watched.refusals() == 0;
            assert!(acted.is_ok() || !survived);
            let expected = without_checkpoint(&backend, subject);
            assert_eq!(
                (subject.list)(&over(&backend)),
                expected,
                "killed after {writes} writes"
            );
            if writes == 0 {
                assert_eq!(expected, before);
            }
            // The next one writes it down.
            let next = over(&backend);
            (subject.act)(&next);
            let (opened, again) = self::watched(&backend);
            assert_eq!((subject.list)(&again), (subject.list)(&next));
            assert!(
                opened.read(subject.events) < 10,
                "killed after {writes} writes"
            );
            if survived {
                assert!(writes > 2, "the write itself, parts, and the snapshot");
                break;
            }
        }
    }
}

#[test]
fn a_checkpoint_that_fails_is_tried_again_after_as_many_events_and_not_at_every_write() {
    for subject in [SESSIONS, RUNS] {
        let backend = in_memory();
        (subject.fill)(&backend);
        let (watched, store) = watched(&backend);
        watched.refuse(Some(subject.parts));
        (0..20).for_each(|_| (subject.act)(&store));
        assert_eq!(watched.refusals(), 1);
        watched.refuse(None);
        (0..20).for_each(|_| (subject.act)(&store));
        assert!(
            block_on(backend.stream(subject.parts)).unwrap().is_none(),
            "not yet"
        );
        // A process that comes later finds that it is time.
        (subject.act)(&over(&backend));
        assert!(block_on(backend.stream(subject.parts)).unwrap().is_some());
        assert_eq!(
            (subject.list)(&over(&backend)),
            without_checkpoint(&backend, subject)
        );
    }
}

#[test]
fn checkpoints_race_with_writers_and_lose_nothing() {
    let backend = in_memory();
    let store = over(&backend);
    let second = over(&backend);
    let made = store.chats().create_chat(Chat::new("travel")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6_u32 {
            // Two handles that know nothing of each other write checkpoints, too.
            let store = if thread % 2 == 0 { &store } else { &second };
            let chat = &made.chat_id;
            scope.spawn(move || {
                for number in 0..1_000 {
                    match number % 4 {
                        0 => drop(store.chats().get_chat(chat).unwrap().unwrap()),
                        1 => drop(
                            store
                                .archive_session(store.find_session(chat).unwrap().id)
                                .unwrap(),
                        ),
                        _ => {
                            let new = NewRun::in_new_session(
                                NewSession::default(),
                                format!("agent {thread}"),
                            );
                            let run = store.runs().start(new).unwrap();
                            if number % 3 == 0 {
                                run.complete(None).unwrap();
                            }
                        }
                    }
                }
            });
        }
        // What had happened before comes in the midst of it.
        let backend = &backend;
        scope.spawn(move || {
            fill_runs(backend);
            fill_sessions(backend);
        });
    });
    for subject in [SESSIONS, RUNS] {
        (subject.act)(&store);
        let expected = without_checkpoint(&backend, subject);
        assert_eq!((subject.list)(&store), expected);
        assert_eq!((subject.list)(&second), expected);
        let (watched, third) = watched(&backend);
        assert_eq!((subject.list)(&third), expected);
        let read = watched.read(subject.events);
        assert!(read < 9_000, "{read} events read, with a checkpoint");
    }
}

#[test]
fn whoever_opens_a_store_that_was_closed_folds_next_to_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = || StoreOptions {
        durability: Durability::Os,
        ..StoreOptions::default()
    };
    let open = || Arc::new(Embedded::open(&path, options(), Wait::Block).unwrap());
    let store = Store::with_backend(open());
    for number in 0..600 {
        let new = NewSession::titled(format!("session {number}"));
        store.create_session(new).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let watched = Watched::new(open());
    let backend: Arc<dyn Backend> = watched.clone();
    let store = Store::with_backend(backend);
    let page = store.list_sessions(&ListSessions::default()).unwrap();
    assert_eq!(page.items.len(), 50);
    let read = watched.read(CATALOG_STREAM);
    assert!(read < 10, "{read} events read");
}
