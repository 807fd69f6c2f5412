//! Retention by a command that is killed in the middle: a session is there as it was, or gone, and never half of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use runlog::{
    Durability, NewMessage, NewRun, NewSession, RawJson, Role, RunId, RunStatus, SessionId,
    StoreOptions,
    blocking::{FlowRun, Store},
    flows::RuntimeEvent,
    retention::RetentionPolicy,
    runs::{ListRunMessages, ListRuns},
    sessions::{CopySession, ListSessions},
};
use runlog_engine::{storage::FsStorage, verify};
use runlog_tests::{budget, command, random::Random};

const KEPT: usize = 12;

fn policy(dry_run: bool) -> RetentionPolicy {
    RetentionPolicy {
        keep_last: Some(KEPT as u64),
        dry_run,
        ..RetentionPolicy::default()
    }
}

fn start_retention(folder: &Path) -> Child {
    Command::new(command::runlog())
        .args(["retain", "--compact", "--keep-last"])
        .arg(KEPT.to_string())
        .arg("--store")
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A session with a run, its messages and its flow; some are copied.
fn furnish(store: &Store, random: &mut Random, number: u64) {
    let new = NewRun::in_new_session(NewSession::titled(format!("talk {number}")), "coder");
    let run = store.runs().start(new).unwrap();
    let mut flow = FlowRun::create(store, Some(run.id())).unwrap();
    for said in 0..random.below(30) {
        let text = format!("message {said} of {number}: {}", "word ".repeat(40));
        run.record_message(NewMessage::new(Role::User, RawJson::string(&text)))
            .unwrap();
        let event = format!(r#"{{"type":"node:tick","timestamp":{said}}}"#);
        flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
    }
    let session = run.run().session_id;
    if random.one_in(2) {
        run.complete(Some("done")).unwrap();
    } else {
        run.fail("no disk").unwrap();
    }
    if random.one_in(4) {
        store
            .copy_session(session, &CopySession::default())
            .unwrap();
    }
}

/// What each session says: the messages of its runs and of its contexts.
type Said = BTreeMap<SessionId, Vec<String>>;

fn sessions(store: &Store) -> Vec<SessionId> {
    let mut found = Vec::new();
    let mut options = ListSessions::default();
    loop {
        let page = store.list_sessions(&options).unwrap();
        found.extend(page.items.iter().map(|session| session.id));
        match page.next {
            Some(next) => options.cursor = Some(next),
            None => return found,
        }
    }
}

fn said(store: &Store) -> Said {
    let of = |session| {
        let mut said = Vec::new();
        for instance in store.instances(session).unwrap() {
            let context = store.context(instance.id).unwrap();
            for message in context.get_messages().unwrap() {
                said.push(format!("{}: {message:?}", instance.id));
            }
        }
        (session, said)
    };
    sessions(store).into_iter().map(of).collect()
}

/// How each run ended, and how many messages can be read of it.
fn runs(store: &Store) -> BTreeMap<RunId, (RunStatus, SessionId, usize)> {
    let mut found = BTreeMap::new();
    let mut options = ListRuns::default();
    loop {
        let page = store.runs().list(&options).unwrap();
        for run in &page.items {
            let messages = store
                .runs()
                .messages(run.id, &ListRunMessages::default())
                .unwrap();
            found.insert(run.id, (run.status, run.session_id, messages.items.len()));
        }
        match page.next {
            Some(next) => options.cursor = Some(next),
            None => return found,
        }
    }
}

#[test]
fn command_killed_in_the_middle_of_a_retention_leaves_each_session_whole_or_gone() {
    let budget = budget::of("retention kills");
    let mut random = Random::new(budget.seed());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    drop(Store::open(folder.path()).unwrap());
    let mut longest = Duration::from_millis(30);
    let (mut rounds, mut killed, mut halfway, mut number) = (0, 0, 0, 0);
    while rounds < 12 || (budget.goes_on() && rounds < 10_000) {
        rounds += 1;
        // A process is killed, the machine goes on: what the operating system has isn't lost.
        let options = StoreOptions {
            durability: Durability::Os,
            ..StoreOptions::default()
        };
        let store = Store::open_with(folder.path(), options).unwrap();
        for _ in 0..20 {
            number += 1;
            furnish(&store, &mut random, number);
        }
        let (before, runs_before) = (said(&store), runs(&store));
        let told = store.retain(&policy(true)).unwrap();
        let goes: BTreeSet<SessionId> = told.session_ids.iter().copied().collect();
        assert_eq!(goes.len() as u64, told.sessions);
        store.close().unwrap();

        let mut child = start_retention(folder.path());
        let nanos = u64::try_from(longest.as_nanos()).unwrap();
        thread::sleep(Duration::from_nanos(random.below(nanos * 5 / 4)));
        child.kill().unwrap();
        if !child.wait().unwrap().success() {
            killed += 1;
        }

        let when = format!("round {rounds}, seed {}", budget.seed());
        let store = Store::open(folder.path()).unwrap();
        let (after, runs_after) = (said(&store), runs(&store));
        let gone: Vec<_> = goes.iter().filter(|id| !after.contains_key(id)).collect();
        if !gone.is_empty() && gone.len() < goes.len() {
            halfway += 1;
        }
        for (session, said) in &before {
            match after.get(session) {
                Some(now) => assert_eq!(now, said, "{when}: {session} changed"),
                None => assert!(goes.contains(session), "{when}: {session} is lost"),
            }
        }
        for (run, (status, session, messages)) in &runs_before {
            let (now, _, left) = runs_after[run];
            assert_eq!(now, *status, "{when}: {run}");
            let expected = if after.contains_key(session) {
                *messages
            } else {
                0
            };
            assert_eq!(left, expected, "{when}: messages of {run}");
        }
        store.close().unwrap();
        let found = verify(&FsStorage::new(folder.path())).unwrap();
        assert!(found.is_sound(), "{when}: {:?}", found.problems);

        let since = Instant::now();
        assert!(
            start_retention(folder.path()).wait().unwrap().success(),
            "{when}"
        );
        longest = since.elapsed().max(longest / 2);
        let store = Store::open(folder.path()).unwrap();
        let left: BTreeSet<SessionId> = sessions(&store).into_iter().collect();
        let expected: BTreeSet<SessionId> = before
            .keys()
            .filter(|id| !goes.contains(id))
            .copied()
            .collect();
        assert_eq!(left, expected, "{when}: asked again, it does the rest");
        store.close().unwrap();
    }
    budget.add("rounds", rounds);
    budget.add("kills", killed);
    budget.add("kills with some sessions gone and some left", halfway);
}
