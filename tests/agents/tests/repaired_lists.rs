//! A repair that lets lists go on, and is cut off anywhere: the next one comes to the same.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use runlog::{
    NewMessage, NewRun, NewSession, RunStatus, SessionId, StoreOptions,
    blocking::Store,
    engine::{self, Preallocation, storage::Storage},
    runs::{ListRuns, RUNS_STREAM},
    sessions::{CATALOG_STREAM, ListSessions},
};
use runlog_tests::{
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
};

type Lists = (
    BTreeMap<SessionId, Option<String>>,
    Vec<(String, RunStatus)>,
);

fn options() -> StoreOptions {
    StoreOptions {
        preallocation: Preallocation::None,
        ..StoreOptions::with_host(Arc::new(TestHost::new(5)))
    }
}

fn lists(storage: &FaultyStorage) -> Lists {
    let store = Store::open_on(Arc::new(storage.copy()), options()).expect("it opens");
    let sessions = store
        .list_sessions(&ListSessions::default())
        .expect("it lists");
    let runs = store.runs().list(&ListRuns::default()).expect("it lists");
    let mut runs: Vec<_> = runs
        .items
        .into_iter()
        .map(|run| (run.id.to_string(), run.status))
        .collect();
    runs.sort_by(|one, other| one.0.cmp(&other.0));
    (
        sessions
            .items
            .into_iter()
            .map(|session| (session.id, session.title))
            .collect(),
        runs,
    )
}

fn filled() -> FaultyStorage {
    let storage = FaultyStorage::new();
    let store = Store::open_on(Arc::new(storage.clone()), options()).expect("it opens");
    for title in ["one", "two"] {
        let new = NewRun::in_new_session(NewSession::titled(title), "coder");
        let run = store.runs().start(new).expect("it starts");
        run.record_message(NewMessage::user("hello"))
            .expect("it records");
        run.complete(None).expect("it completes");
    }
    store.close().expect("it closes");
    storage
}

fn repair(storage: &FaultyStorage) -> runlog::Result<Vec<String>> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let repaired = runlog::Store::repair(&shared, "test", Arc::new(TestHost::new(6)))?;
    Ok(repaired.actions)
}

#[test]
fn repair_that_was_cut_off_is_completed_by_the_next() {
    let whole = filled();
    let mut events = Vec::new();
    engine::salvage(&whole, &mut |record| {
        let is_listed = [CATALOG_STREAM, RUNS_STREAM]
            .map(Some)
            .contains(&record.stream);
        if is_listed && record.kind.is_data() {
            events.push((record.file.clone(), record.offset));
        }
        ControlFlow::Continue(())
    })
    .expect("it reads");
    assert!(events.len() > 6, "{events:?}");
    let mut cuts = 0;
    // Of the operations, mostly reads, one in five: others for each event.
    for (first, (file, offset)) in (0..5_u64).cycle().zip(events) {
        let mut files = whole.files();
        let bytes = files.get_mut(&file).expect("it has the file");
        let at = usize::try_from(offset).expect("small");
        bytes[at + 40] ^= 0xff;
        files.remove("LOCK");
        let uncut = FaultyStorage::from_files(&files);
        let actions = repair(&uncut).expect("it repairs");
        assert!(!actions.is_empty());
        let expected = lists(&uncut);
        for after in (first..).step_by(5) {
            let storage = FaultyStorage::from_files(&files);
            storage.arm(Fault {
                after,
                failure: Failure::PowerLoss,
                lasting: Lasting::Once,
            });
            let done = repair(&storage);
            if storage.injected() == 0 {
                done.expect("it repairs");
                break;
            }
            cuts += 1;
            let left = storage.crashed(after);
            left.arm(None);
            repair(&left).expect("it repairs");
            let found = lists(&left);
            // A session that was made up for an instance has another id each time.
            let titles = |lists: &Lists| -> Vec<Option<String>> {
                let mut titles: Vec<_> = lists.0.values().cloned().collect();
                titles.sort();
                titles
            };
            assert_eq!(
                titles(&found),
                titles(&expected),
                "{file} {offset}, cut after {after}"
            );
            assert_eq!(found.1, expected.1, "{file} {offset}, cut after {after}");
        }
    }
    assert!(cuts > 100, "{cuts}");
}
