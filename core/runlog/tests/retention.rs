//! Retention: each rule alone and with others, what is never given up, and erasing.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test looks at the files of the store"
)]

mod traces;
mod watched;

use std::{
    fs,
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson, RunStatus, SessionId, Store as AsyncStore,
    StoreOptions,
    backend::Backend,
    blocking::{FlowRun, Playback, RunRecorder, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ListRequests, MessageFilter, NewRequest, RequestEnd, StepType,
        Updates,
    },
    engine::{
        Host, SystemHost,
        storage::{Access, MemoryStorage, Storage},
    },
    flows::{AgentEvent, PlaybackOptions, RuntimeEvent, Speed},
    log::{Codec, CompactOptions, Position, StreamId},
    retention::{Erase, RetainStage, Retained, RetentionPolicy},
    runs::{ListRunMessages, ListRuns},
    scan::TextQuery,
    sessions::{CopySession, ListSessions, SessionChanges},
};
use traces::{holds, tells};
use watched::Watched;

const SECRET: &str = "correct-horse-battery-staple";

/// A clock that a test sets.
struct Clock(AtomicU64);

impl Clock {
    fn at(now_ms: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(now_ms)))
    }

    fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Host for Clock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn random(&self, bytes: &mut [u8]) {
        SystemHost.random(bytes);
    }

    fn has_threads(&self) -> bool {
        true
    }

    fn process_id(&self) -> u32 {
        std::process::id()
    }
}

fn on(clock: &Arc<Clock>) -> Store {
    AsyncStore::in_memory_with(Arc::clone(clock) as Arc<dyn Host>).to_blocking()
}

/// A session in which something was said.
fn said(store: &Store, text: &str) -> SessionId {
    let (session, agent) = store
        .start_session(NewSession::titled("a talk"), "planner")
        .unwrap();
    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::user(text)).unwrap();
    session.id
}

fn started(store: &Store, text: &str) -> RunRecorder {
    let new = NewRun::in_new_session(NewSession::titled(text), "coder");
    let run = store.runs().start(new).unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::user(text)).unwrap();
    run
}

fn ids(store: &Store) -> Vec<SessionId> {
    let page = store.list_sessions(&ListSessions::default()).unwrap();
    page.items.iter().map(|session| session.id).collect()
}

fn keep_last(count: u64) -> RetentionPolicy {
    RetentionPolicy {
        keep_last: Some(count),
        ..RetentionPolicy::default()
    }
}

fn of_status(status: RunStatus) -> RetentionPolicy {
    RetentionPolicy {
        statuses: vec![status],
        ..RetentionPolicy::default()
    }
}

/// What a policy gives up, which a dry run has told before without changing anything.
fn retained(store: &Store, policy: &RetentionPolicy) -> Retained {
    let before = (ids(store), store.backend().redactions());
    let dry = RetentionPolicy {
        dry_run: true,
        ..policy.clone()
    };
    let told = store.retain(&dry).unwrap();
    assert_eq!((ids(store), store.backend().redactions()), before);
    assert_eq!(
        store.retain(&dry).unwrap(),
        told,
        "a dry run changes nothing"
    );
    let done = store.retain(policy).unwrap();
    assert_eq!(done, told, "a dry run tells what the run does");
    let again = store.retain(policy).unwrap();
    assert_eq!(again.sessions, 0, "what is gone isn't given up once more");
    done
}

#[test]
fn a_policy_that_would_keep_nothing_is_refused_and_changes_nothing() {
    let store = Store::in_memory();
    let session = said(&store, "hello");
    let project = RetentionPolicy {
        project: Some("p".to_owned()),
        archived: true,
        compact: true,
        ..RetentionPolicy::default()
    };
    let old = |older_than_ms| RetentionPolicy {
        older_than_ms: Some(older_than_ms),
        ..RetentionPolicy::default()
    };
    let large = RetentionPolicy {
        max_bytes: Some(0),
        ..old(1)
    };
    for (policy, word) in [
        (RetentionPolicy::default(), "no rule"),
        (project, "no rule"),
        (keep_last(0), "`keep_last`"),
        (old(0), "`older_than_ms`"),
        (large, "`max_bytes`"),
        (of_status(RunStatus::Running), "running"),
    ] {
        let error = store.retain(&policy).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(ids(&store), [session]);
}

#[test]
fn an_age_of_nothing_goes_with_what_else_restricts_a_policy() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let (kept, gone) = (said(&store, "kept"), said(&store, "gone"));
    store.delete_session(gone).unwrap();
    clock.set(2_000);
    let of_any_age = RetentionPolicy {
        older_than_ms: Some(0),
        ..RetentionPolicy::default()
    };
    for (policy, going) in [
        (of_status(RunStatus::Failed), vec![]),
        (keep_last(1), vec![]),
        (
            RetentionPolicy {
                project: Some("p".to_owned()),
                ..RetentionPolicy::default()
            },
            vec![],
        ),
        (
            RetentionPolicy {
                deleted: true,
                ..RetentionPolicy::default()
            },
            vec![gone],
        ),
    ] {
        let policy = RetentionPolicy {
            older_than_ms: Some(0),
            ..policy
        };
        assert_eq!(store.retain(&policy).unwrap().session_ids, going);
    }
    assert_eq!(ids(&store), [kept]);
    let error = store.retain(&of_any_age).unwrap_err().to_string();
    assert!(error.contains("nothing else restricts it"), "{error}");
}

#[test]
fn by_age_goes_where_nothing_has_happened_for_longer() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let old = said(&store, "old");
    let used = said(&store, "used");
    clock.set(5_000);
    let agent = store.root_instance(used).unwrap();
    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::user("again")).unwrap();
    clock.set(6_000);
    let policy = RetentionPolicy {
        older_than_ms: Some(4_999),
        ..RetentionPolicy::default()
    };
    let done = retained(&store, &policy);
    assert_eq!((done.session_ids, done.records), (vec![old], 1));
    assert_eq!(ids(&store), [used]);
    assert_eq!(context.get_messages().unwrap().len(), 2);
}

#[test]
fn by_age_no_record_is_read_of_a_session_whose_own_times_keep_it() {
    let clock = Clock::at(1_000);
    let backend = Watched::new(Arc::clone(on(&clock).backend()));
    let store = Store::with_backend(Arc::clone(&backend) as Arc<dyn Backend>);
    let _old = said(&store, "old");
    let used = said(&store, "used");
    let streams = |id| StreamId(store.root_instance(id).unwrap().id.as_uuid());
    let used_stream = streams(used);
    clock.set(5_000);
    let recent = said(&store, "recent");
    let context = store
        .context(store.root_instance(used).unwrap().id)
        .unwrap();
    context.append_message(NewMessage::user("again")).unwrap();
    let recent_stream = streams(recent);
    clock.set(6_000);
    let of_age = RetentionPolicy {
        older_than_ms: Some(4_999),
        dry_run: true,
        ..RetentionPolicy::default()
    };
    let read = |policy: &RetentionPolicy| {
        let before = (backend.read(used_stream), backend.read(recent_stream));
        let going = store.retain(policy).unwrap().sessions;
        let (used, recent) = (backend.read(used_stream), backend.read(recent_stream));
        (going, used - before.0, recent - before.1)
    };
    // What was said last is known of the one that was begun long ago only by its records.
    assert_eq!(read(&of_age), (1, 1, 0));
    // A rule that counts needs the time of each.
    let counting = RetentionPolicy {
        keep_last: Some(1),
        ..of_age
    };
    assert_eq!(read(&counting), (1, 1, 1));
}

#[test]
fn by_count_the_last_used_stay() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let first = said(&store, "first");
    let mut all = vec![first];
    for at in 2..6 {
        clock.set(at * 1_000);
        all.push(said(&store, "next"));
    }
    clock.set(9_000);
    let agent = store.root_instance(first).unwrap();
    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::user("again")).unwrap();
    let done = retained(&store, &keep_last(2));
    assert_eq!(done.sessions, 3);
    assert_eq!(ids(&store), [all[4], first]);
}

#[test]
fn what_is_erased_is_not_used_by_that() {
    let erase = |what: Erase| Erase {
        reason: "left".into(),
        ..what
    };
    for how in [
        "user",
        "chat",
        "message",
        "position",
        "redacted",
        "not at all",
    ] {
        let clock = Clock::at(1_000);
        let store = on(&clock);
        let chats = store.chats();
        let mut ids = Vec::new();
        for (at, user) in (1..=6).map(|at| (at, if at < 4 { "ann" } else { "bob" })) {
            clock.set(at * 1_000);
            let chat = Chat {
                created_by: Some(user.into()),
                title: Some(format!("{user} {at}")),
                ..Chat::new("lead")
            };
            let chat_id = chats.create_chat(chat).unwrap().chat_id;
            let asked = ChatMessage::text(ChatRole::User, "hello");
            let saved = chats.save_messages(&chat_id, vec![asked]).unwrap();
            ids.push((user, chat_id, saved[0].clone()));
        }
        clock.set(10_000);
        let of_ann: Vec<_> = ids.iter().filter(|(user, ..)| *user == "ann").collect();
        let of_each = |get: fn(&ChatMessage) -> String| of_ann.iter().map(move |(.., it)| get(it));
        let what = match how {
            "user" => Erase {
                users: vec!["ann".into()],
                ..Erase::default()
            },
            "chat" => Erase {
                chats: of_ann.iter().map(|(_, chat, _)| chat.clone()).collect(),
                ..Erase::default()
            },
            "message" => Erase {
                messages: of_each(|it| it.message_id.clone()).collect(),
                ..Erase::default()
            },
            "position" => Erase {
                positions: of_ann.iter().filter_map(|(.., it)| it.id).collect(),
                ..Erase::default()
            },
            _ => Erase::default(),
        };
        match how {
            "redacted" => {
                for id in of_each(|it| it.message_id.clone()) {
                    chats.redact_message(&id, "left").unwrap();
                }
            }
            "not at all" => {}
            _ => drop(store.erase(&erase(what)).unwrap()),
        }
        let gone: Vec<SessionId> = of_ann
            .iter()
            .map(|(_, chat, _)| chat.parse().unwrap())
            .collect();
        // Of what was used at one time, that which was made last counts as the later.
        let unused = store
            .retain(&RetentionPolicy {
                dry_run: true,
                ..keep_last(3)
            })
            .unwrap();
        let mut given_up = unused.session_ids;
        given_up.reverse();
        assert_eq!(given_up, gone, "{how}");
    }
}

#[test]
fn by_size_the_last_used_stay_that_fit() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let mut all = Vec::new();
    for at in 1..=4 {
        clock.set(at * 1_000);
        all.push(said(&store, &"x".repeat(10_000)));
    }
    let policy = RetentionPolicy {
        max_bytes: Some(25_000),
        ..RetentionPolicy::default()
    };
    let done = retained(&store, &policy);
    assert_eq!(done.session_ids, [all[1], all[0]]);
    assert!((20_000..21_000).contains(&done.bytes), "{}", done.bytes);
}

#[test]
fn by_status_the_last_run_counts_and_its_end_stays_known() {
    let store = Store::in_memory();
    let failed = started(&store, "failed");
    failed.fail("no disk").unwrap();
    let done = started(&store, "done");
    done.complete(None).unwrap();
    let saved = started(&store, "failed, then done");
    saved.fail("no net").unwrap();
    let again = NewRun::new(saved.run().instance_id);
    store.runs().start(again).unwrap().complete(None).unwrap();
    let before = store.runs().get(failed.id()).unwrap().unwrap();

    let gone = retained(&store, &of_status(RunStatus::Failed));
    assert_eq!((gone.session_ids, gone.runs), (vec![before.session_id], 1));
    let after = store.runs().get(failed.id()).unwrap().unwrap();
    assert_eq!(after, before, "how the run ended is still told");
    let listed = store.runs().list(&ListRuns::default()).unwrap();
    assert_eq!(listed.items.len(), 4);
    let messages = store.runs().messages(failed.id(), &Default::default());
    assert!(messages.unwrap().items.is_empty());
}

#[test]
fn together_what_one_rule_keeps_stays() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let first = started(&store, "first");
    first.fail("no").unwrap();
    started(&store, "second").complete(None).unwrap();
    clock.set(100_000);
    started(&store, "third").fail("no").unwrap();
    let policy = RetentionPolicy {
        older_than_ms: Some(50_000),
        keep_last: Some(1),
        max_bytes: Some(1),
        ..of_status(RunStatus::Failed)
    };
    let of_three = RetentionPolicy {
        keep_last: Some(3),
        ..policy.clone()
    };
    assert_eq!(retained(&store, &of_three).sessions, 0);
    let done = retained(&store, &policy);
    assert_eq!(done.session_ids, [first.run().session_id]);
}

#[test]
fn what_is_at_work_or_paused_stays_unless_paused_is_named() {
    let store = Store::in_memory();
    let running = started(&store, "running");
    let paused = started(&store, "paused");
    paused.pause("lunch").unwrap();
    let resumed = started(&store, "resumed");
    resumed.pause("lunch").unwrap();
    let runs = store.runs();
    let later = runs.resume(resumed.id(), &Default::default()).unwrap();
    // A handle that nobody dropped: the flow ends with its run all the same.
    let _flow = FlowRun::create(&store, Some(later.recorder.id())).unwrap();
    later.recorder.complete(None).unwrap();
    let last = said(&store, "last");
    let done = retained(&store, &keep_last(1));
    assert_eq!((done.sessions, done.kept_at_work), (1, 2));
    assert_eq!(done.session_ids, [resumed.run().session_id]);
    let named = retained(&store, &of_status(RunStatus::Paused));
    assert_eq!(named.session_ids, [paused.run().session_id]);
    assert_eq!(ids(&store), [last, running.run().session_id]);
    running.record_message(NewMessage::user("on")).unwrap();
    let error = runs.resume(paused.id(), &Default::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn of_a_deleted_session_a_paused_run_keeps_nothing() {
    let store = Store::in_memory();
    let [paused, running] = ["paused", "running"].map(|text| started(&store, text));
    paused.pause("lunch").unwrap();
    for run in [&paused, &running] {
        store.delete_session(run.run().session_id).unwrap();
    }
    let policy = RetentionPolicy {
        deleted: true,
        ..RetentionPolicy::default()
    };
    let done = retained(&store, &policy);
    assert_eq!(
        (done.session_ids, done.kept_at_work),
        (vec![paused.run().session_id], 1)
    );
}

#[test]
fn a_chat_that_is_being_answered_stays() {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat_id = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let message = ChatMessage::text(ChatRole::User, "Oslo?");
    let new = NewRequest::new("travel");
    let request = chats.begin_request(&chat_id, new, message).unwrap();
    said(&store, "last");
    assert_eq!(retained(&store, &keep_last(1)).kept_at_work, 1);
    drop(request);
    assert_eq!(retained(&store, &keep_last(1)).sessions, 1);
}

#[test]
fn a_copy_reads_the_same_after_its_source_was_asked_to_go() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let source = said(&store, "shared");
    let copied = store.copy_session(source, &CopySession::default()).unwrap();
    let copy = store.context(copied.instances[0].instance.id).unwrap();
    copy.append_message(NewMessage::user("own")).unwrap();
    let other = store.create_session(NewSession::titled("other")).unwrap();
    let instance = store.create_instance(other.id, "a", None).unwrap();
    let lent = said(&store, "lent to another context");
    let lender = store.root_instance(lent).unwrap();
    store
        .contexts()
        .copy_events(lender.id, instance.id, None)
        .unwrap();
    let borrower = store.context(instance.id).unwrap();
    let seen = (
        copy.get_messages().unwrap(),
        borrower.get_messages().unwrap(),
    );
    store.archive_session(source).unwrap();
    store.archive_session(lent).unwrap();
    let policy = RetentionPolicy {
        archived: true,
        max_bytes: Some(1),
        compact: true,
        ..RetentionPolicy::default()
    };
    let done = store.retain(&policy).unwrap();
    assert_eq!((done.kept_for_copies, done.session_ids), (1, vec![lent]));
    assert!(done.compaction.is_some());
    let now = (
        copy.get_messages().unwrap(),
        borrower.get_messages().unwrap(),
    );
    assert_eq!(now, seen);
    // With its copy, the source goes, too.
    store.archive_session(copied.session.id).unwrap();
    let done = store.retain(&policy).unwrap();
    assert_eq!(done.session_ids, [copied.session.id, source]);
    drop((copy, borrower, store));
    let store = Store::open(folder.path().join("store")).unwrap();
    let borrower = store.context(instance.id).unwrap();
    assert_eq!(borrower.get_messages().unwrap(), seen.1);
    assert_eq!(ids(&store), [other.id]);
}

#[test]
fn deleted_sessions_are_emptied_and_a_restored_chat_is_empty() {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat_id = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let say = |text| {
        let message = ChatMessage::text(ChatRole::User, text);
        chats.save_messages(&chat_id, vec![message]).unwrap();
    };
    say("Oslo?");
    say("Bergen?");
    let policy = RetentionPolicy {
        deleted: true,
        ..RetentionPolicy::default()
    };
    assert_eq!(retained(&store, &policy).sessions, 0);
    chats.delete_chat(&chat_id).unwrap();
    assert_eq!(retained(&store, &policy).sessions, 1);
    chats.restore_chat(&chat_id).unwrap();
    let messages = || chats.get_messages(&chat_id, &MessageFilter::default());
    assert!(messages().unwrap().is_empty());
    for text in ["one", "two", "three", "four"] {
        say(text);
    }
    assert_eq!(messages().unwrap().len(), 4);
}

#[test]
fn ten_thousand_runs_are_given_up_and_one_that_was_stopped_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = StoreOptions {
        durability: runlog::Durability::Os,
        ..StoreOptions::default()
    };
    let store = Store::open_with(&path, options.clone()).unwrap();
    for number in 0..10_000 {
        started(&store, &format!("run {number}"))
            .complete(None)
            .unwrap();
    }
    let policy = RetentionPolicy {
        keep_last: Some(10),
        ..RetentionPolicy::default()
    };
    let dry = RetentionPolicy {
        dry_run: true,
        ..policy.clone()
    };
    let told = store.retain(&dry).unwrap();
    assert_eq!((told.sessions, told.runs), (9_990, 9_990));
    assert_eq!(told.session_ids.len(), 1_000);
    // Stopped half-way, without closing, as a process that dies.
    let mut left = 4_000;
    let stopped = store
        .retain_with(&policy, |at| {
            if at.stage == RetainStage::GivingUp {
                left -= 1;
            }
            if left == 0 {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(stopped.is_cancelled && stopped.sessions == 3_999);
    drop(store);
    let store = Store::open_with(&path, options).unwrap();
    let rest = store.retain(&policy).unwrap();
    assert_eq!(rest.sessions + stopped.sessions, told.sessions);
    assert_eq!(rest.records + stopped.records, told.records);
    assert_eq!(rest.bytes + stopped.bytes, told.bytes);
    assert_eq!(ids(&store).len(), 10);
    let compaction = store.compact(CompactOptions::default()).unwrap();
    assert!(compaction.bytes_after < compaction.bytes_before);
    assert_eq!(
        store
            .runs()
            .list(&ListRuns {
                limit: 20_000,
                ..ListRuns::default()
            })
            .unwrap()
            .items
            .len(),
        10_000
    );
}

/// Does something to a session between the choice of those that go and their going, and asserts that it stays for that.
fn assert_kept_for(what: &str, change: impl Fn(&Store, SessionId) + Sync) {
    let clock = Clock::at(1_000_000);
    let store = on(&clock);
    let run = started(&store, "it goes but for that");
    run.fail("no disk").unwrap();
    let id = run.run().session_id;
    clock.set(100_000_000);
    let policy = RetentionPolicy {
        older_than_ms: Some(1_000),
        statuses: vec![RunStatus::Failed],
        ..RetentionPolicy::default()
    };
    let mut is_done = false;
    let retained = store
        .retain_with(&policy, |at| {
            if at.stage == RetainStage::GivingUp && !std::mem::replace(&mut is_done, true) {
                change(&store, id);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(is_done, "{what}");
    let kept = (retained.sessions, retained.kept_changed);
    assert_eq!(kept, (0, 1), "{what}: {retained:?}");
    let agent = store.instances(id).unwrap().remove(0);
    let messages = store.context(agent.id).unwrap().get_messages().unwrap();
    assert!(!messages.is_empty(), "{what}");
}

#[test]
fn a_session_that_changes_after_the_rules_were_applied_stays() {
    assert_kept_for("a message", |store, id| {
        let agent = store.instances(id).unwrap().remove(0);
        let context = store.context(agent.id).unwrap();
        context
            .append_message(NewMessage::user("one more"))
            .unwrap();
    });
    assert_kept_for("a newer run that is completed", |store, id| {
        let agent = store.instances(id).unwrap().remove(0);
        let run = store.runs().start(NewRun::new(agent.id)).unwrap();
        run.complete(None).unwrap();
    });
    assert_kept_for("a copy", |store, id| {
        store.copy_session(id, &CopySession::default()).unwrap();
    });
    assert_kept_for("a title", |store, id| {
        let changes = SessionChanges {
            title: Some("read again".to_owned()),
            ..SessionChanges::default()
        };
        store.update_session(id, changes).unwrap();
    });
}

#[test]
fn wherever_a_crash_cuts_it_off_each_session_is_whole_or_gone_and_the_next_one_does_the_rest() {
    for cut in [0, 1, 7, 19] {
        let folder = tempfile::tempdir().unwrap();
        let (path, image) = (folder.path().join("store"), folder.path().join("image"));
        let store = Store::open(&path).unwrap();
        let all: Vec<SessionId> = (0..20)
            .map(|number| {
                let run = started(&store, &format!("run {number}"));
                run.complete(None).unwrap().session_id
            })
            .collect();
        let mut steps = 0;
        let done = store
            .retain_with(&keep_last(1), |at| {
                if at.stage == RetainStage::GivingUp && at.done == cut || cut == 19 {
                    // What the disk has at this moment is what a process that is killed now leaves.
                    fs::create_dir_all(&image).unwrap();
                    for entry in fs::read_dir(&path).unwrap() {
                        let from = entry.unwrap().path();
                        fs::copy(&from, image.join(from.file_name().unwrap())).unwrap();
                    }
                    steps += 1;
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        assert!(done.sessions == 19 && steps > 0);
        let store = Store::open(&image).unwrap();
        let left = ids(&store);
        for id in &all {
            let runs = ListRuns {
                session_id: Some(*id),
                ..ListRuns::default()
            };
            let run = store.runs().list(&runs).unwrap().items[0].id;
            let messages = store.runs().messages(run, &Default::default()).unwrap();
            let is_there = usize::from(left.contains(id));
            assert_eq!(messages.items.len(), is_there, "whole or gone");
        }
        let rest = store.retain(&keep_last(1)).unwrap();
        assert_eq!(rest.sessions, left.len() as u64 - 1);
        assert_eq!(ids(&store), [all[19]]);
    }
}

#[test]
fn what_is_erased_is_gone_from_reads_copies_and_files() {
    for packed in [
        None,
        Some(Codec::Plain),
        Some(Codec::Lz4),
        Some(Codec::Zstd),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Store::open(&path).unwrap();
        let (session, agent) = store
            .start_session(NewSession::titled("trip"), "planner")
            .unwrap();
        let context = store.context(agent.id).unwrap();
        context.append_message(NewMessage::user(SECRET)).unwrap();
        let copied = store.copy_session(session.id, &CopySession::default());
        let copy = copied.unwrap().instances[0].instance.id;
        let kept = said(&store, "kept");
        let chats = store.chats();
        let chat_id = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
        let message = ChatMessage::text(ChatRole::User, SECRET);
        let saved = chats.save_messages(&chat_id, vec![message]).unwrap();
        if let Some(codec) = packed {
            let options = CompactOptions {
                codec,
                ..CompactOptions::default()
            };
            store.compact(options).unwrap();
        } else {
            assert!(holds(&path, SECRET));
        }
        assert!(tells(&store, SECRET));
        let erased = store
            .erase(&Erase {
                sessions: vec![session.id],
                messages: vec![saved[0].message_id.clone()],
                reason: "a password".to_owned(),
                ..Erase::default()
            })
            .unwrap();
        // Of the session and of its copy, what was said and the title; and the message of the chat.
        assert!(erased.is_gone && erased.records == 4, "{erased:?}");
        assert!(!tells(&store, SECRET));
        let of_copy = store.context(copy).unwrap().get_messages().unwrap();
        assert!(of_copy.iter().all(|it| !it.json.as_str().contains(SECRET)));
        assert!(!holds(&path, SECRET));
        drop((context, chats, store));
        assert!(!holds(&path, SECRET));
        let store = Store::open(&path).unwrap();
        assert!(!tells(&store, SECRET));
        let agent = store.root_instance(kept).unwrap();
        let messages = store.context(agent.id).unwrap().get_messages().unwrap();
        assert!(messages[0].json.as_str().contains("kept"));
    }
}

#[test]
fn what_a_session_was_truncated_before_is_erased_in_the_copies_that_still_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let start = |name| {
        store
            .start_session(NewSession::titled(name), "planner")
            .unwrap()
    };
    let (session, agent) = start("trip");
    let context = store.context(agent.id).unwrap();
    let kept = start("kept").1.id;
    store
        .context(kept)
        .unwrap()
        .append_message(NewMessage::user("I stay."))
        .unwrap();
    for text in ["To Oslo.", SECRET, "By train."] {
        context.append_message(NewMessage::user(text)).unwrap();
    }
    let copied = store.copy_session(session.id, &CopySession::default());
    let copy = copied.unwrap().instances[0].instance.id;
    let of_copy = store.context(copy).unwrap();
    of_copy
        .append_message(NewMessage::user("Only here."))
        .unwrap();
    store.truncate_session(session.id, 1).unwrap();
    context.append_message(NewMessage::user("By bus.")).unwrap();
    let erased = store
        .erase(&Erase {
            sessions: vec![session.id],
            reason: "asked to".to_owned(),
            ..Erase::default()
        })
        .unwrap();
    // What was said in it, and two titles.
    assert!(erased.is_gone && erased.records == 6, "{erased:?}");
    for gone in ["To Oslo.", SECRET, "By train.", "By bus."] {
        let messages = of_copy.get_messages().unwrap();
        assert!(
            messages.iter().all(|it| !it.json.as_str().contains(gone)),
            "{gone}"
        );
        assert!(!holds(&path, gone), "{gone}");
    }
    let messages = of_copy.get_messages().unwrap();
    assert!(
        messages[3].json.as_str().contains("Only here."),
        "{messages:?}"
    );
    let messages = store.context(kept).unwrap().get_messages().unwrap();
    assert!(messages[0].json.as_str().contains("I stay."));
}

#[test]
fn an_erasure_can_be_repeated_and_changes_nothing_where_it_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let chats = store.chats();
    let chat_id = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let texts = ["first", "second", "third", "fourth"].map(|text| format!("{SECRET} {text}"));
    let messages = texts
        .iter()
        .map(|text| ChatMessage::text(ChatRole::User, text));
    let saved = chats.save_messages(&chat_id, messages.collect()).unwrap();
    let ids: Vec<&str> = saved
        .iter()
        .map(|message| message.message_id.as_str())
        .collect();
    let erase = |messages: &[&str], positions: &[u64]| {
        store.erase(&Erase {
            messages: messages.iter().map(|id| (*id).to_owned()).collect(),
            positions: positions.to_vec(),
            reason: "a password".to_owned(),
            ..Erase::default()
        })
    };
    for (messages, positions) in [(vec![ids[0], "none"], vec![]), (vec![ids[0]], vec![9_999])] {
        let refused = erase(&messages, &positions).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        assert_eq!(
            chats
                .get_messages(&chat_id, &MessageFilter::default())
                .unwrap()
                .len(),
            4
        );
    }
    // As after an erasure that was killed before it compacted: redacted already, its bytes in the files still.
    chats.redact_message(ids[0], "a password").unwrap();
    assert!(holds(&path, &texts[0]));
    assert!(erase(&[ids[0], ids[0]], &[]).unwrap().is_gone);
    assert!(!holds(&path, &texts[0]));
    // One that was deleted, whose text is in the log.
    chats.delete_messages(&chat_id, &[ids[1]]).unwrap();
    assert_eq!(erase(&[ids[1]], &[]).unwrap().records, 1);
    assert!(!holds(&path, &texts[1]));
    // One of which a version is erased by its position: all of it.
    let text = format!(r#"{{"content":"{SECRET} update"}}"#);
    let updates = Updates::new().with("props", RawJson::parse(text).unwrap());
    chats.update_message(ids[2], &updates).unwrap();
    let query = TextQuery::new(&texts[2]).unwrap();
    let original = store.search(&query, Position::FIRST).unwrap().found[0];
    erase(&[], &[original.0]).unwrap();
    assert_eq!(erase(&[ids[2]], &[]).unwrap().records, 0);
    assert!(!holds(&path, &format!("{SECRET} update")));
    let left = chats
        .get_messages(&chat_id, &MessageFilter::default())
        .unwrap();
    assert_eq!(
        left.iter()
            .map(|message| message.message_id.as_str())
            .collect::<Vec<_>>(),
        [ids[3]]
    );
}

#[test]
fn a_chat_whose_request_is_gone_on_with_is_kept_from_then_on() {
    let store = Store::in_memory();
    let chats = store.chats();
    let asked = |chat: &str| {
        let chat = Chat {
            chat_id: chat.into(),
            ..Chat::new("travel")
        };
        let chat = chats.create_chat(chat).unwrap().chat_id;
        let asked = ChatMessage::text(ChatRole::User, "Oslo?");
        let mut request = chats
            .begin_request(&chat, NewRequest::new("travel"), asked)
            .unwrap();
        request
            .start_step(StepType::Llm, RawJson::parse("{}".to_owned()).unwrap())
            .unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
        chat
    };
    let (resumed, other) = (asked("resumed"), asked("other"));
    let resumption = chats.resume(&resumed).unwrap().unwrap();
    // Nothing is written by that.
    let mut request = chats.go_on(&resumption).unwrap();
    let policy = RetentionPolicy {
        older_than_ms: Some(1),
        ..RetentionPolicy::default()
    };
    std::thread::sleep(std::time::Duration::from_millis(5));
    let done = retained(&store, &policy);
    assert_eq!((done.sessions, done.kept_at_work), (1, 1));
    assert!(chats.get_chat(&other).unwrap().is_none());
    request
        .send(ChatMessage::text(ChatRole::Assistant, "By train."))
        .unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    drop(request);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(retained(&store, &policy).sessions, 1);
}

#[test]
fn a_request_whose_chat_is_erased_or_given_up_is_in_no_list_any_more() {
    let store = Store::in_memory();
    let chats = store.chats();
    let interrupted = || {
        let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
        let asked = ChatMessage::text(ChatRole::User, "Oslo?");
        let request = chats.begin_request(&chat, NewRequest::new("travel"), asked);
        request.unwrap().finish(RequestEnd::Interrupted).unwrap();
        let id: SessionId = chat.parse().unwrap();
        (chat, id)
    };
    let listed = || {
        let all = chats.list_requests(&ListRequests::default()).unwrap().items;
        all.into_iter().map(|it| it.chat_id).collect::<Vec<_>>()
    };
    let ((erased, id), (given_up, _), (kept, _)) = (interrupted(), interrupted(), interrupted());
    assert_eq!(listed(), [kept.clone(), given_up.clone(), erased]);
    let erase = Erase {
        sessions: vec![id],
        reason: "asked for".to_owned(),
        ..Erase::default()
    };
    store.erase(&erase).unwrap();
    assert_eq!(listed(), [kept.clone(), given_up.clone()]);
    chats.delete_chat(&given_up).unwrap();
    let deleted = RetentionPolicy {
        deleted: true,
        ..RetentionPolicy::default()
    };
    assert_eq!(retained(&store, &deleted).sessions, 1);
    chats.restore_chat(&given_up).unwrap();
    assert_eq!(listed(), [kept]);
}

#[test]
fn erasing_nothing_or_what_is_at_work_is_refused() {
    let store = Store::in_memory();
    let nothing = store.erase(&Erase::default()).unwrap_err();
    assert!(nothing.to_string().contains("nothing is named"));
    let run = started(&store, "running");
    let erase = |reason: &str| Erase {
        sessions: vec![run.run().session_id],
        reason: reason.to_owned(),
        ..Erase::default()
    };
    let silent = store.erase(&erase("")).unwrap_err();
    assert!(silent.to_string().contains("reason"));
    let error = store.erase(&erase("a name")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongStatus);
    run.complete(None).unwrap();
    assert!(store.erase(&erase("a name")).unwrap().is_gone);
}

#[test]
fn entries_of_lists_and_of_the_course_of_a_run_are_not_erased_by_their_positions() {
    let store = Store::in_memory();
    let run = started(&store, "finished");
    run.complete(None).unwrap();
    let id = run.run().id;
    let (before, calls) = (
        store.runs().get(id).unwrap(),
        store.runs().list(&ListRuns::default()).unwrap(),
    );
    let mut refused = 0_u32;
    for record in pollster::block_on(store.backend().scan(Position(1), 1_000))
        .unwrap()
        .records
    {
        let what = Erase {
            positions: vec![record.position.0],
            reason: "a name".to_owned(),
            ..Erase::default()
        };
        match store.erase(&what) {
            Ok(erased) => assert_eq!(erased.records, 1, "{record:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
                assert!(error.to_string().contains("position "), "{error}");
                refused += u32::from(record.kind.0 < 128);
            }
        }
        assert_eq!(store.runs().get(id).unwrap(), before, "{record:?}");
        assert_eq!(
            store.runs().list(&ListRuns::default()).unwrap(),
            calls,
            "{record:?}"
        );
    }
    // Beside the engine's: session, instance, the run in its list and its end there, and its creation, its step and its end.
    assert_eq!(refused, 7);
    let said = store
        .runs()
        .messages(id, &ListRunMessages::default())
        .unwrap();
    assert!(format!("{:?}", said.items[0]).contains("[redacted]"));
}

#[test]
fn a_reader_is_told_what_would_go_and_gives_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    said(&store, "first");
    said(&store, "second");
    store.close().unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    let dry = RetentionPolicy {
        dry_run: true,
        ..keep_last(1)
    };
    assert_eq!(reader.retain(&dry).unwrap().sessions, 1);
    let error = reader.retain(&keep_last(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
}

fn agent(kind: &str, run: &str, text: &str) -> RuntimeEvent {
    let field = match kind {
        "agent:complete" => "result",
        _ => "content",
    };
    let text = RawJson::string(text);
    let usage = r#""usage":{"inputTokens":1,"outputTokens":1},"durationMs":1,"numTurns":1"#;
    RuntimeEvent::parse(format!(
        r#"{{"type":"{kind}","nodeId":"n","runId":"{run}","timestamp":1,"{field}":{},{usage}}}"#,
        text.as_str()
    ))
    .unwrap()
}

/// A flow that streams two texts: one that it completes with, and before it one that no event repeats.
fn streamed(store: &Store) -> FlowRun {
    let mut flow = FlowRun::create(store, None).unwrap();
    for (kind, text) in [
        ("agent:text:delta", "I'll "),
        ("agent:text:delta", "look."),
        ("agent:thinking:delta", "Hm"),
        ("agent:thinking:delta", "m."),
        ("agent:thinking", "Hmm."),
        ("agent:text:delta", "Do"),
        ("agent:text:delta", "ne."),
        ("agent:complete", "Done."),
    ] {
        flow.record(&agent(kind, "r", text)).unwrap();
    }
    flow
}

fn played(store: &Store, flow: &FlowRun) -> Vec<String> {
    let options = PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    let playback = Playback::new(store, flow.run_id(), options).unwrap();
    playback
        .map(|event| match event.unwrap().1.event.agent().unwrap() {
            AgentEvent::TextDelta { content, .. } | AgentEvent::ThinkingDelta { content, .. } => {
                format!("+{content}")
            }
            AgentEvent::Thinking { content, .. } | AgentEvent::Text { content, .. } => content,
            AgentEvent::Complete { result, .. } => result,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn of_deltas(age_ms: u64) -> RetentionPolicy {
    RetentionPolicy {
        deltas_older_than_ms: Some(age_ms),
        ..RetentionPolicy::default()
    }
}

#[test]
fn deltas_go_once_their_whole_text_has_stood_for_long_enough_and_the_only_text_stays() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let flow = streamed(&store);
    clock.set(2_000);
    assert_eq!(retained(&store, &of_deltas(1_000)).deltas, 0);
    clock.set(2_001);
    let done = retained(&store, &of_deltas(1_000));
    assert_eq!((done.deltas, done.records, done.sessions), (4, 4, 0));
    assert_eq!(done.deltas_kept, 2, "no event has what came before");
    assert!(done.bytes > 4 * 80, "{}", done.bytes);
    assert_eq!(played(&store, &flow), ["+I'll ", "+look.", "Hmm.", "Done."]);
    assert_eq!(retained(&store, &of_deltas(1)).deltas, 0, "once");
}

#[test]
fn flow_is_read_for_its_deltas_until_none_can_go_and_again_once_it_goes_on() {
    let clock = Clock::at(1_000);
    let backend = Watched::new(Arc::clone(on(&clock).backend()));
    let store = Store::with_backend(Arc::clone(&backend) as Arc<dyn Backend>);
    let mut flow = streamed(&store);
    let stream = StreamId(flow.run_id().as_uuid());
    let dropped = |age_ms: u64| {
        let before = backend.read(stream);
        let done = store.retain(&of_deltas(age_ms)).unwrap();
        let read = backend.read(stream) - before;
        (done.deltas, done.deltas_kept, read > 0)
    };
    clock.set(1_500);
    assert_eq!(dropped(1_000), (0, 0, true), "their text is too recent");
    clock.set(3_000);
    assert_eq!(dropped(1_000), (4, 2, true), "they are dropped");
    assert_eq!(dropped(1_000), (0, 2, true), "nothing is left to drop");
    for _ in 0..3 {
        assert_eq!(dropped(1_000), (0, 2, false));
        assert_eq!(dropped(500), (0, 2, false));
    }
    // By a later time fewer of them are old.
    assert_eq!(dropped(2_500), (0, 0, true));
    assert_eq!(dropped(1_000), (0, 2, true));
    assert_eq!(dropped(1_000), (0, 2, false));
    clock.set(4_000);
    // The text of the first, at last.
    let whole = agent("agent:text", "r", "I'll look.");
    flow.record(&whole).unwrap();
    assert_eq!(dropped(1_000), (0, 0, true), "that text is too recent");
    clock.set(6_000);
    assert_eq!(dropped(1_000), (2, 0, true));
    assert_eq!(dropped(1_000), (0, 0, true));
    assert_eq!(dropped(1_000), (0, 0, false));
    // A delta that nothing completes is counted once it is old.
    flow.record(&agent("agent:text:delta", "r", "And")).unwrap();
    assert_eq!(dropped(1_000), (0, 0, true));
    clock.set(8_000);
    assert_eq!(dropped(1_000), (0, 1, true));
    assert_eq!(dropped(1_000), (0, 1, false));
    assert_eq!(
        played(&store, &flow),
        ["Hmm.", "Done.", "I'll look.", "+And"]
    );
}

#[test]
fn delta_that_was_erased_no_longer_keeps_those_around_it() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let mut flow = FlowRun::create(&store, None).unwrap();
    for text in ["Do", "XX", "ne."] {
        flow.record(&agent("agent:text:delta", "r", text)).unwrap();
    }
    flow.record(&agent("agent:text", "r", "Done.")).unwrap();
    clock.set(3_000);
    for _ in 0..2 {
        let done = store.retain(&of_deltas(1_000)).unwrap();
        assert_eq!((done.deltas, done.deltas_kept), (0, 3));
    }
    let options = PlaybackOptions {
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    let mut playback = Playback::new(&store, flow.run_id(), options).unwrap();
    let odd = playback.nth(1).unwrap().unwrap().1;
    let erase = Erase {
        positions: vec![odd.position],
        reason: "a slip".into(),
        ..Erase::default()
    };
    store.erase(&erase).unwrap();
    let done = store.retain(&of_deltas(1_000)).unwrap();
    assert_eq!((done.deltas, done.deltas_kept), (2, 0));
    assert_eq!(played(&store, &flow), ["Done."]);
}

#[test]
fn deltas_of_an_agent_that_was_killed_and_of_another_execution_stay() {
    let clock = Clock::at(1_000);
    let store = on(&clock);
    let mut flow = FlowRun::create(&store, None).unwrap();
    for (kind, run, text) in [
        ("agent:text:delta", "first", "Do"),
        ("agent:text:delta", "first", "ne."),
        ("agent:complete", "second", "Done."),
        ("agent:text:delta", "second", "Don"),
    ] {
        flow.record(&agent(kind, run, text)).unwrap();
    }
    clock.set(9_000);
    let done = retained(&store, &of_deltas(1));
    assert_eq!((done.deltas, done.deltas_kept), (0, 3));
    assert_eq!(played(&store, &flow), ["+Do", "+ne.", "Done.", "+Don"]);
}

#[test]
fn a_policy_for_deltas_is_one_of_its_own() {
    let store = Store::in_memory();
    for refused in [
        of_deltas(0),
        RetentionPolicy {
            keep_last: Some(1),
            ..of_deltas(1)
        },
        RetentionPolicy {
            project: Some("p".to_owned()),
            ..of_deltas(1)
        },
    ] {
        let error = store.retain(&refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn deltas_share_few_redactions_and_a_compaction_gives_their_bytes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = StoreOptions {
        durability: runlog::Durability::Os,
        ..StoreOptions::default()
    };
    let store = Store::open_with(&path, options).unwrap();
    let mut flows: Vec<FlowRun> = (0..10)
        .map(|_| FlowRun::create(&store, None).unwrap())
        .collect();
    let mut text = vec![String::new(); flows.len()];
    let (mut state, mut at) = (7_u64, 1_767_225_600_000_u64);
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let syllables = ["ra", "ter", "in", "lo", "sha", "ment", "ke", "ing"];
    for _ in 0..200 {
        for (flow, text) in flows.iter_mut().zip(&mut text) {
            let mut words = String::new();
            for _ in 0..9 {
                words.push_str(syllables[usize::try_from(random() % 8).unwrap()]);
            }
            text.push_str(&words);
            at += 17 + random() % 20;
            let run = "0199b2c4-7d31-7a52-9f0e-3c5d8e6f1a2b";
            let delta = format!(
                r#"{{"type":"agent:text:delta","nodeId":"n","runId":"{run}","timestamp":{at},"content":"{words}"}}"#
            );
            flow.record(&RuntimeEvent::parse(delta).unwrap()).unwrap();
        }
    }
    for (flow, text) in flows.iter_mut().zip(&text) {
        let run = "0199b2c4-7d31-7a52-9f0e-3c5d8e6f1a2b";
        flow.record(&agent("agent:complete", run, text)).unwrap();
    }
    let all = CompactOptions {
        scope: runlog::log::CompactScope::All,
        ..CompactOptions::default()
    };
    let with_deltas = store.compact(all).unwrap().bytes_after;
    std::thread::sleep(std::time::Duration::from_millis(5));
    let last = || pollster::block_on(store.backend().wait_past(Position(0))).unwrap();
    let before = last();
    let done = store.retain(&of_deltas(1)).unwrap();
    assert_eq!((done.deltas, done.deltas_kept), (2_000, 0));
    let redactions = last().0 - before.0;
    assert!(redactions <= 2_000 / 100, "{redactions}");
    let compacted = store.compact(all).unwrap();
    assert_eq!(compacted.payloads_erased, 2_000);
    assert!(
        compacted.bytes_after < with_deltas,
        "{} of {with_deltas}",
        compacted.bytes_after
    );
    assert_eq!(played(&store, &flows[3]), [text[3].clone()]);
}

#[test]
fn a_lost_record_keeps_no_other_session_from_being_given_up() {
    // In the middle of a session that goes, and at the end of one that stays.
    for lost in ["2 of 3", "9 of 1"] {
        let storage = MemoryStorage::new();
        let open = || Store::open_on(Arc::new(storage.clone()), StoreOptions::default());
        let store = open().unwrap();
        for session in 0..10 {
            let new = NewSession::titled(format!("session {session}"));
            let (_, agent) = store.start_session(new, "coder").unwrap();
            let context = store.context(agent.id).unwrap();
            let count = if session == 9 { 2 } else { 4 };
            for message in 0..count {
                let text = format!("message {session} of {message}");
                context.append_message(NewMessage::user(&text)).unwrap();
            }
        }
        store.close().unwrap();
        drop(store);
        let wanted = format!("message {lost}");
        let file = storage.open("00000001.seg", Access::Write).unwrap();
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        let at = bytes
            .windows(wanted.len())
            .position(|window| window == wanted.as_bytes())
            .unwrap();
        file.write_at(at as u64, b"nothing").unwrap();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        AsyncStore::repair(&shared, "test", Arc::new(SystemHost)).unwrap();
        let store = open().unwrap();
        let policy = RetentionPolicy {
            keep_last: Some(3),
            ..RetentionPolicy::default()
        };
        let told = store.retain(&policy).unwrap();
        assert_eq!(told.sessions, 7, "{lost}");
        let left = store.list_sessions(&ListSessions::default()).unwrap().items;
        let mut titles: Vec<_> = left.into_iter().filter_map(|it| it.title).collect();
        titles.sort();
        assert_eq!(titles, ["session 7", "session 8", "session 9"], "{lost}");
    }
}
