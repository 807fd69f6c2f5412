//! One event of a list that can't be read ends the list with an error. A repair lets it go on: every event of every list is
//! damaged in turn, its header or its content.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod damaged;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use damaged::copy;
use runlog::{
    AgentDefinition, NewMessage, NewRun, NewSession, RawJson, Result, RunId, RunStatus, SessionId,
    StoreOptions,
    agents::AGENTS_STREAM,
    archive::{self, What},
    blocking::{FlowRun, Store},
    chats::{Chat, ChatFilter, ChatMessage, ChatRole, MessageFilter, Updates},
    engine::{
        self, CompactOptions, StreamId, SystemHost,
        storage::{Access, MemoryStorage, Storage},
    },
    flows::{FLOWS_STREAM, ListFlows},
    runs::{ListRuns, RUNS_STREAM},
    sessions::{CATALOG_STREAM, CopySession, ListSessions},
};

const LISTS: [StreamId; 4] = [CATALOG_STREAM, RUNS_STREAM, FLOWS_STREAM, AGENTS_STREAM];

fn open(storage: &MemoryStorage) -> Result<Store> {
    Store::open_on(Arc::new(storage.clone()), StoreOptions::default())
}

/// What the lists of a store have.
#[derive(Debug)]
struct Lists {
    sessions: BTreeMap<SessionId, Option<String>>,
    runs: BTreeMap<RunId, RunStatus>,
    flows: usize,
    agents: usize,
    chats: usize,
}

fn lists(store: &Store) -> Result<Lists> {
    let sessions = store.list_sessions(&ListSessions::default())?.items;
    let runs = store.runs().list(&ListRuns::default())?.items;
    Ok(Lists {
        sessions: sessions.into_iter().map(|it| (it.id, it.title)).collect(),
        runs: runs.into_iter().map(|run| (run.id, run.status)).collect(),
        flows: store.flows().list(&ListFlows::default())?.items.len(),
        agents: store.agents().list_available_agents(None)?.len(),
        chats: store
            .chats()
            .list_chats(&ChatFilter::default())?
            .items
            .len(),
    })
}

/// A store with something in each list; in a pack if it is `packed`.
fn filled(packed: bool) -> MemoryStorage {
    let storage = MemoryStorage::new();
    let store = open(&storage).unwrap();
    for name in ["coder", "writer"] {
        store
            .agents()
            .define(AgentDefinition::new(name, "It works."))
            .unwrap();
    }
    store.agents().delete(None, "writer").unwrap();
    for number in 0..3 {
        let new = NewRun::in_new_session(NewSession::titled(format!("session {number}")), "coder");
        let run = store.runs().start(new).unwrap();
        run.next_step().unwrap();
        run.record_message(NewMessage::user("hello")).unwrap();
        match number {
            0 => run.complete(Some("done")).unwrap(),
            1 => run.pause("later").unwrap(),
            _ => run.fail("it broke").unwrap(),
        };
    }
    let named = NewSession {
        name: Some("named".into()),
        ..NewSession::titled("named")
    };
    let gone = store.create_session(named.clone()).unwrap();
    store.delete_session(gone.id).unwrap();
    store.create_session(named).unwrap();
    let chat = store.chats().create_chat(Chat::new("user")).unwrap();
    let props = RawJson::parse("{}".to_owned()).unwrap();
    let message = ChatMessage::new(ChatRole::User, "text", props);
    store
        .chats()
        .save_messages(&chat.chat_id, vec![message])
        .unwrap();
    let mut flow = FlowRun::create(&store, None).unwrap();
    flow.save_snapshot().unwrap();
    flow.state_mut().status = "completed".to_owned();
    flow.save_snapshot().unwrap();
    drop(flow);
    store.close().unwrap();
    if packed {
        let engine = engine::Store::open_on(Arc::new(storage.clone()), StoreOptions::default());
        let engine = engine.unwrap();
        engine.compact(CompactOptions::default()).unwrap();
        engine.close().unwrap();
    }
    storage
}

fn flip(storage: &MemoryStorage, file: &str, offset: u64, count: usize) {
    let file = storage.open(file, Access::Write).unwrap();
    let mut bytes = vec![0; count];
    file.read_at(offset, &mut bytes).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
    file.write_at(offset, &bytes).unwrap();
}

/// Repairs a damaged store, and looks at what its lists have then.
fn check(storage: &MemoryStorage, before: &Lists, what: &str, lost: (usize, usize)) {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let repaired = runlog::Store::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
    let told = repaired
        .actions
        .iter()
        .any(|action| action.contains("goes on without"));
    assert!(told, "{what}: {repaired:?}");
    let store = open(storage).unwrap_or_else(|error| panic!("{what}: {error}"));
    let after = lists(&store).unwrap_or_else(|error| panic!("{what}: {error}"));
    // Runs have events of their own, which tell the same.
    assert_eq!(after.runs, before.runs, "{what}");
    let missing: BTreeSet<_> = before
        .sessions
        .iter()
        .filter(|(id, title)| after.sessions.get(id) != Some(title))
        .collect();
    assert!(missing.len() <= lost.0, "{what}: {missing:?}\n{after:?}");
    assert!(after.flows + lost.1 >= before.flows, "{what}");
    assert!(after.agents <= before.agents + lost.1, "{what}");
    assert!(after.chats + lost.1 >= before.chats, "{what}");
    for id in after.runs.keys() {
        let run = store.runs().get(*id).unwrap().unwrap();
        let messages = store
            .context(run.instance_id)
            .and_then(|it| it.get_messages());
        let messages = messages.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(messages.len(), 1, "{what}");
        // Its session is found, if only by its id.
        assert!(
            store.get_session(run.session_id).unwrap().is_some(),
            "{what}"
        );
    }
    // And it goes on.
    let new = NewRun::in_new_session(NewSession::titled("after"), "coder");
    let run = store.runs().start(new).unwrap();
    run.complete(None).unwrap();
    store
        .agents()
        .define(AgentDefinition::new("new", "New."))
        .unwrap();
    let mut lines = Vec::new();
    let exported = archive::export(&store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<_, runlog::Error>(())
    });
    exported.unwrap_or_else(|error| panic!("{what}: the export: {error}"));
    store.close().unwrap();
    let other = Store::in_memory();
    let mut source = || -> Result<Box<dyn std::io::BufRead>> {
        Ok(Box::new(std::io::Cursor::new(lines.clone())))
    };
    let imported = archive::import(&other, None, false, &mut source);
    imported.unwrap_or_else(|error| panic!("{what}: the import: {error}"));
    let (there, here) = (
        lists(&other).unwrap(),
        lists(&open(storage).unwrap()).unwrap(),
    );
    assert_eq!(there.runs, here.runs, "{what}: imported");
    assert_eq!(there.sessions, here.sessions, "{what}: imported");
    let again = runlog::Store::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
    assert_eq!(
        again.actions,
        Vec::<String>::new(),
        "{what}: a second repair"
    );
}

#[test]
fn lists_go_on_without_an_event_that_is_lost() {
    let whole = filled(false);
    let before = lists(&open(&copy(&whole)).unwrap()).unwrap();
    let mut events = Vec::new();
    engine::salvage(&whole, &mut |record| {
        if record.stream.is_some_and(|stream| LISTS.contains(&stream)) && record.kind.is_data() {
            events.push((
                record.file.clone(),
                record.offset,
                record.sequence,
                record.stream,
            ));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(events.len() > 15, "{events:?}");
    for (file, offset, sequence, stream) in events {
        for (what, from, count) in [("header", 4, 8), ("content", 33, 2), ("both", 0, 48)] {
            let storage = copy(&whole);
            flip(&storage, &file, offset + from, count);
            let what = format!("{what} of event {sequence} of {stream:?}");
            check(&storage, &before, &what, (2, 1));
        }
    }
}

#[test]
fn lists_go_on_without_events_of_a_pack_of_which_a_block_is_lost() {
    let whole = filled(true);
    let before = lists(&open(&copy(&whole)).unwrap()).unwrap();
    let names = whole.list().unwrap();
    let pack = names.iter().find(|name| name.ends_with(".pack")).unwrap();
    let storage = copy(&whole);
    // The first block of records.
    flip(&storage, pack, 4096 + 200, 16);
    assert!(open(&storage).and_then(|store| lists(&store)).is_err());
    let everything = (before.sessions.len(), before.flows + before.agents);
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let repaired = runlog::Store::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
    assert!(!repaired.actions.is_empty());
    let store = open(&storage).unwrap();
    let after = lists(&store).unwrap();
    assert!(after.sessions.len() <= everything.0, "{after:?}");
    let new = NewRun::in_new_session(NewSession::titled("after"), "coder");
    store.runs().start(new).unwrap().complete(None).unwrap();
    assert_eq!(
        lists(&store).unwrap().sessions.len(),
        after.sessions.len() + 1
    );
    store.close().unwrap();
}

#[test]
fn a_repaired_list_goes_on_once_the_creation_of_a_stream_and_its_own_event_are_restored() {
    let whole = filled(false);
    let before = all(&open(&copy(&whole)).unwrap());
    whole.remove("CHECKPOINT").unwrap();
    let (mut creations, mut listed) = (Vec::new(), BTreeMap::new());
    engine::salvage(&whole, &mut |record| {
        if record.kind == engine::Kind::CREATE {
            creations.push((record.file.clone(), record.offset));
        }
        if let Some(stream) = record.stream.filter(|stream| LISTS[..2].contains(stream))
            && record.kind.is_data()
        {
            listed
                .entry(stream)
                .or_insert((record.file.clone(), record.offset));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(creations.len() > 8 && listed.len() == 2);
    for creation in &creations {
        for event in listed.values() {
            let storage = copy(&whole);
            let flip_both = || {
                flip(&storage, &creation.0, creation.1 + 33, 2);
                flip(&storage, &event.0, event.1 + 33, 2);
            };
            flip_both();
            let what = format!("creation at {}, event at {}", creation.1, event.1);
            let shared: Arc<dyn Storage> = Arc::new(storage.clone());
            let repair = || {
                runlog::Store::repair(&shared, "test", Arc::new(SystemHost))
                    .unwrap_or_else(|error| panic!("{what}: {error}"))
            };
            repair();
            let goes_on = || {
                let store = open(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
                let new = NewRun::in_new_session(NewSession::titled("after"), "coder");
                let run = store.runs().start(new);
                let run = run.unwrap_or_else(|error| panic!("{what}: {error}"));
                run.complete(None).unwrap();
                let lists = all(&store);
                store.close().unwrap();
                lists
            };
            goes_on();
            flip_both();
            repair();
            let (sessions, runs) = goes_on();
            for (id, title) in &before.0 {
                assert_eq!(sessions.get(id), Some(title), "{what}");
            }
            for (id, status) in &before.1 {
                assert_eq!(runs.get(id), Some(status), "{what}");
            }
        }
    }
}

/// As many events as a checkpoint is written for when the store is closed, in several segments.
fn filled_long() -> MemoryStorage {
    let storage = MemoryStorage::new();
    let options = StoreOptions {
        segment_bytes_max: 64 << 10,
        ..StoreOptions::default()
    };
    let store = Store::open_on(Arc::new(storage.clone()), options).unwrap();
    for number in 0..400 {
        let new = NewRun::in_new_session(NewSession::titled(format!("session {number}")), "coder");
        store.runs().start(new).unwrap().complete(None).unwrap();
    }
    // As after a crash: without checkpoints, which would still have what is lost.
    let crashed = copy(&storage);
    drop(store);
    crashed.remove("LOCK").unwrap_or_default();
    crashed
}

#[test]
fn what_was_passed_over_is_listed_again_once_its_file_is_restored() {
    let whole = filled_long();
    let before = all(&open(&copy(&whole)).unwrap());
    let mut events = Vec::new();
    engine::salvage(&whole, &mut |record| {
        let is_listed = [CATALOG_STREAM, RUNS_STREAM]
            .map(Some)
            .contains(&record.stream);
        if is_listed && record.kind.is_data() && record.file == "00000002.seg" {
            events.push((record.file.clone(), record.offset));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(events.len() > 100, "{}", events.len());
    for (file, offset) in events.into_iter().step_by(23) {
        let storage = copy(&whole);
        flip(&storage, &file, offset + 33, 2);
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let repaired = runlog::Store::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
        assert!(!repaired.actions.is_empty());
        let store = open(&storage).unwrap();
        assert_eq!(
            all(&store).1,
            before.1,
            "{offset}: the runs, as their own events tell"
        );
        let new = NewRun::in_new_session(NewSession::titled("after"), "coder");
        let run = store.runs().start(new).unwrap();
        let (run, session) = (run.run().id, run.run().session_id);
        store.close().unwrap();
        flip(&storage, &file, offset + 33, 2);
        let (mut sessions, mut runs) = all(&open(&storage).unwrap());
        assert_eq!(sessions.remove(&session), Some(Some("after".to_owned())));
        assert!(runs.remove(&run).is_some());
        assert_eq!(
            (&sessions, &runs),
            (&before.0, &before.1),
            "{offset}: restored"
        );
    }
}

/// All sessions and all runs.
fn all(
    store: &Store,
) -> (
    BTreeMap<SessionId, Option<String>>,
    BTreeMap<RunId, RunStatus>,
) {
    let sessions = ListSessions {
        limit: 10_000,
        ..ListSessions::default()
    };
    let runs = ListRuns {
        limit: 10_000,
        ..ListRuns::default()
    };
    let sessions = store.list_sessions(&sessions).unwrap().items;
    let runs = store.runs().list(&runs).unwrap().items;
    (
        sessions.into_iter().map(|it| (it.id, it.title)).collect(),
        runs.into_iter().map(|run| (run.id, run.status)).collect(),
    )
}

#[test]
fn a_chat_of_which_an_event_is_lost_is_told_in_its_order() {
    let whole = MemoryStorage::new();
    let store = open(&whole).unwrap();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("a")).unwrap().chat_id;
    let said = |id: &str| ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(ChatRole::User, "words")
    };
    for id in ["a", "b", "c"] {
        chats.save_messages(&chat, vec![said(id)]).unwrap();
    }
    let last = Updates::parse(r#"{"sequence":50}"#).unwrap();
    chats.update_message("a", &last).unwrap();
    let session = store.find_session(&chat).unwrap().id;
    let made = store.copy_session(session, &CopySession::default());
    let copied = made.unwrap().session.id;
    chats
        .save_messages(&copied.to_string(), vec![said("d")])
        .unwrap();
    store.close().unwrap();
    let mut events = Vec::new();
    engine::salvage(&whole, &mut |record| {
        if record.stream == Some(LISTS[0]) && record.kind.is_data() {
            events.push((record.file.clone(), record.offset, record.sequence));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(events.len() > 6, "{events:?}");
    for (file, offset, sequence) in events {
        let storage = copy(&whole);
        flip(&storage, &file, offset + 33, 2);
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        runlog::Store::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
        // The second time from a checkpoint.
        for opening in 0..2 {
            let store = open(&storage).unwrap();
            for id in [session, copied].map(|id| id.to_string()) {
                let told = |limit| {
                    let cold = Store::with_backend(store.backend().clone());
                    let filter = MessageFilter {
                        limit,
                        ..MessageFilter::default()
                    };
                    cold.chats().get_messages(&id, &filter)
                };
                let what = format!("without event {sequence:?}, opening {opening}");
                // One whose creation is lost with nothing behind it isn't listed.
                if let Ok(all) = told(0) {
                    assert_eq!(told(100).unwrap(), all, "{what}");
                }
            }
            store.close().unwrap();
        }
    }
}
