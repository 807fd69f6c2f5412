//! What is said of a run beside what it does: usage and metadata.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use std::thread;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson, RunStatus,
    blocking::Store,
    log::{Batch, Expected, Op, StreamId},
    retention::RetentionPolicy,
    runs::{ListRuns, ResumeOptions, RunDetails},
};

both! {
    what_is_said_of_a_run_is_told_by_its_list_as_it_was_given
    a_run_is_described_from_its_start_on_and_after_its_end
    what_is_said_to_be_null_is_taken_away
    a_run_whose_stream_was_deleted_is_listed_without_it
    metadata_goes_on_with_a_resumed_run_and_usage_does_not
    what_is_no_object_or_too_long_is_refused_and_changes_nothing
    many_describe_one_run_at_once_and_nothing_is_lost
    steps_and_messages_go_on_while_somebody_else_describes_the_run
}

fn json(text: &str) -> Option<RawJson> {
    Some(RawJson::parse(text.to_owned()).unwrap())
}

fn usage(text: &str) -> RunDetails {
    RunDetails {
        usage: json(text),
        ..RunDetails::default()
    }
}

fn metadata(text: &str) -> RunDetails {
    RunDetails {
        metadata: json(text),
        ..RunDetails::default()
    }
}

fn new() -> NewRun {
    NewRun::in_new_session(NewSession::default(), "coder")
}

fn a_run_whose_stream_was_deleted_is_listed_without_it(store: &Store) {
    let other = store.runs().start(new()).unwrap();
    let run = store.runs().start(new()).unwrap();
    run.describe(usage("{}")).unwrap();
    run.complete(None).unwrap();
    let delete = Op::Delete {
        stream: StreamId(run.id().as_uuid()),
        expected: Expected::Any,
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![delete]))).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    let told: Vec<_> = listed.iter().map(|run| (run.id, &run.usage)).collect();
    assert_eq!(told, [(run.id(), &None), (other.id(), &None)]);
    let policy = RetentionPolicy {
        keep_last: Some(50),
        dry_run: true,
        ..RetentionPolicy::default()
    };
    store.retain(&policy).unwrap();
}

fn what_is_said_of_a_run_is_told_by_its_list_as_it_was_given(store: &Store) {
    let run = store.runs().start(new()).unwrap();
    let other = store.runs().start(new()).unwrap();
    let told = run.describe(usage(r#"{ "tokens": 1.0 }"#)).unwrap();
    assert_eq!(
        (told.usage, told.metadata),
        (json(r#"{ "tokens": 1.0 }"#), None)
    );
    run.next_step().unwrap();
    run.record_message(NewMessage::assistant("a")).unwrap();
    run.describe(metadata(r#"["\u00e9"]"#)).unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::assistant("b")).unwrap();

    let found = store.runs().get(run.id()).unwrap().unwrap();
    assert_eq!(found.usage, json(r#"{ "tokens": 1.0 }"#));
    assert_eq!(found.metadata, json(r#"["\u00e9"]"#));
    assert_eq!(found.step_count, 2);
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    assert_eq!((listed[0].id, &listed[0].usage), (other.id(), &None));
    assert_eq!(
        (&listed[1].usage, &listed[1].metadata),
        (&found.usage, &found.metadata)
    );
}

fn a_run_is_described_from_its_start_on_and_after_its_end(store: &Store) {
    let run = store
        .runs()
        .start(NewRun {
            metadata: json(r#"{"ticket":7}"#),
            ..new()
        })
        .unwrap();
    assert_eq!(run.run().metadata, json(r#"{"ticket":7}"#));
    run.complete(Some("done")).unwrap();
    let told = store
        .runs()
        .describe(run.id(), usage(r#"{"cost":0.5}"#))
        .unwrap();
    assert_eq!(
        (told.status, told.summary.as_deref()),
        (RunStatus::Completed, Some("done"))
    );
    assert_eq!(
        (told.usage, told.metadata),
        (json(r#"{"cost":0.5}"#), json(r#"{"ticket":7}"#))
    );
    let late = run
        .record_message(NewMessage::assistant("late"))
        .unwrap_err();
    assert_eq!(late.kind(), ErrorKind::WrongStatus);
    let missing = store
        .runs()
        .describe(runlog::RunId(run.run().session_id.0), usage("{}"));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

fn what_is_said_to_be_null_is_taken_away(store: &Store) {
    let mut new = new();
    new.metadata = json("null");
    let run = store.runs().start(new).unwrap();
    assert_eq!(run.run().metadata, None);
    run.describe(usage(r#"{"tokens":1}"#)).unwrap();
    run.describe(metadata(r#"{"user":"ann"}"#)).unwrap();
    let nothing: RunDetails = serde_json::from_str("{}").unwrap();
    let told = run.describe(nothing).unwrap();
    assert_eq!(told.metadata, json(r#"{"user":"ann"}"#));
    let cleared: RunDetails = serde_json::from_str(r#"{"metadata":null}"#).unwrap();
    assert_eq!(cleared, metadata("null"));
    let told = run.describe(cleared).unwrap();
    assert_eq!((told.usage, told.metadata), (json(r#"{"tokens":1}"#), None));
    run.describe(usage("null")).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    assert_eq!((&listed[0].usage, &listed[0].metadata), (&None, &None));
}

fn metadata_goes_on_with_a_resumed_run_and_usage_does_not(store: &Store) {
    let run = store.runs().start(new()).unwrap();
    run.describe(RunDetails {
        usage: json(r#"{"tokens":9}"#),
        metadata: json(r#"{"user":"ann"}"#),
    })
    .unwrap();
    run.pause("lunch").unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(
        (&resumed.run.usage, &resumed.run.metadata),
        (&None, &json(r#"{"user":"ann"}"#))
    );
    resumed.recorder.describe(usage(r#"{"tokens":2}"#)).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    let told: Vec<_> = listed
        .iter()
        .map(|run| {
            (
                run.usage.as_ref().unwrap().as_str(),
                run.metadata.as_ref().unwrap().as_str(),
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (r#"{"tokens":2}"#, r#"{"user":"ann"}"#),
            (r#"{"tokens":9}"#, r#"{"user":"ann"}"#)
        ]
    );
}

fn what_is_no_object_or_too_long_is_refused_and_changes_nothing(store: &Store) {
    let run = store.runs().start(new()).unwrap();
    run.describe(usage(r#"{"tokens":1}"#)).unwrap();
    for (details, kind) in [
        (usage("7"), ErrorKind::InvalidInput),
        (usage("[1]"), ErrorKind::InvalidInput),
        (
            usage(&format!(r#"{{"a":"{}"}}"#, "x".repeat(64 << 10))),
            ErrorKind::TooLarge,
        ),
        (
            metadata(&format!(r#""{}""#, "x".repeat(64 << 10))),
            ErrorKind::TooLarge,
        ),
    ] {
        assert_eq!(run.describe(details.clone()).unwrap_err().kind(), kind);
        let started = store.runs().start(NewRun {
            usage: details.usage,
            metadata: details.metadata,
            ..new()
        });
        assert_eq!(started.unwrap_err().kind(), kind);
    }
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0].usage, &listed[0].metadata),
        (&json(r#"{"tokens":1}"#), &None)
    );
}

fn many_describe_one_run_at_once_and_nothing_is_lost(store: &Store) {
    let run = store.runs().start(new()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..50).for_each(|n| drop(run.describe(usage(&format!(r#"{{"n":{n}}}"#))).unwrap()))
        });
        scope.spawn(|| {
            let runs = store.runs();
            (0..50).for_each(|n| drop(runs.describe(run.id(), metadata(&n.to_string())).unwrap()));
        });
    });
    let found = store.runs().get(run.id()).unwrap().unwrap();
    assert_eq!(
        (found.usage, found.metadata),
        (json(r#"{"n":49}"#), json("49"))
    );
}

fn steps_and_messages_go_on_while_somebody_else_describes_the_run(store: &Store) {
    let run = store.runs().start(new()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                run.next_step().unwrap();
                run.record_message(NewMessage::assistant("a")).unwrap();
            }
        });
        let runs = store.runs();
        (0..50).for_each(|n| drop(runs.describe(run.id(), metadata(&n.to_string())).unwrap()));
    });
    let found = store.runs().get(run.id()).unwrap().unwrap();
    assert_eq!((found.step_count, found.metadata), (50, json("49")));
}

#[test]
fn what_is_said_is_there_for_readers_and_after_a_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    let run = store.runs().start(new()).unwrap();
    run.describe(usage(r#"{"tokens":1}"#)).unwrap();
    assert_eq!(
        reader.runs().get(run.id()).unwrap().unwrap().usage,
        json(r#"{"tokens":1}"#)
    );
    let refused = reader.runs().describe(run.id(), usage("{}")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    drop(run);
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    assert_eq!(
        (listed[0].status, &listed[0].usage),
        (RunStatus::Paused, &json(r#"{"tokens":1}"#))
    );
}

#[test]
fn ten_thousand_descriptions_cost_a_list_nothing_and_outlive_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = || runlog::StoreOptions {
        durability: runlog::Durability::Os,
        ..runlog::StoreOptions::default()
    };
    let store = Store::open_with(&path, options()).unwrap();
    let run = store.runs().start(new()).unwrap();
    for n in 0..10_000 {
        run.describe(usage(&format!(r#"{{"n":{n}}}"#))).unwrap();
    }
    drop(run);
    store.close().unwrap();
    let store = Store::open_with(&path, options()).unwrap();
    let listed = store.runs().list(&ListRuns::default()).unwrap().items;
    assert_eq!(listed[0].usage, json(r#"{"n":9999}"#));
}

#[test]
fn what_was_said_of_a_run_outlives_its_content() {
    let store = Store::in_memory();
    let run = store.runs().start(new()).unwrap();
    run.describe(usage(r#"{"tokens":1}"#)).unwrap();
    for _ in 0..20 {
        run.next_step().unwrap();
        run.record_message(NewMessage::assistant("a")).unwrap();
    }
    run.complete(None).unwrap();
    store.runs().start(new()).unwrap().complete(None).unwrap();
    let policy = RetentionPolicy {
        keep_last: Some(1),
        ..RetentionPolicy::default()
    };
    let retained = store.retain(&policy).unwrap();
    assert_eq!(retained.runs, 1);
    let found = store.runs().get(run.id()).unwrap().unwrap();
    assert_eq!(
        (found.step_count, found.usage),
        (20, json(r#"{"tokens":1}"#))
    );
}
