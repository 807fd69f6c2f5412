//! Runs in a folder: a process that dies leaves them paused; what a write is; and races with a run's end.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod watched;

use std::{sync::Arc, thread, time::Duration};

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunStatus,
    backend::Backend,
    blocking::Store,
    contexts::{AppendOptions, EventOptions},
    engine::{Embedded, SystemHost, Wait},
    log::{ReadOptions, StreamId},
    runs::{ListRunMessages, ListRuns, ListToolCalls, ResumeOptions, ToolCallStatus, ToolOutcome},
};
use watched::Watched;

#[expect(
    clippy::disallowed_methods,
    reason = "the clock of the store is the system's here"
)]
fn wait(time: Duration) {
    thread::sleep(time);
}

fn asks(id: &str) -> NewMessage {
    NewMessage::assistant("").with_tool_calls([NewToolCall::new(id, "test", "{}")])
}

#[test]
fn a_process_that_dies_leaves_its_run_paused_with_what_it_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::named("s"), "coder"))
        .unwrap();
    run.next_step().unwrap();
    run.record_message(asks("a")).unwrap();
    run.record_tool_result(&ToolOutcome::completed("a", RawJson::null()).took_ms(3))
        .unwrap();
    run.next_step().unwrap();
    run.record_message(asks("b")).unwrap();
    let sent = store
        .context(run.run().instance_id)
        .unwrap()
        .get_messages()
        .unwrap();
    let id = run.id();
    let stream = StreamId(run.run().instance_id.as_uuid());
    let last = pollster::block_on(store.backend().read(stream, ReadOptions::default()));
    let last_ms = last.unwrap().records.last().unwrap().time_ms;
    // No close: nothing is written but what was acknowledged.
    drop((run, store));
    // However long it takes until the store is opened again.
    wait(Duration::from_millis(20));

    let reader = Store::open_read_only(&path).unwrap();
    assert_eq!(
        reader.runs().get(id).unwrap().unwrap().status,
        RunStatus::Running,
        "a reader changes nothing"
    );
    drop(reader);
    let store = Store::open(&path).unwrap();
    assert!(
        store.recover_runs().unwrap().is_empty(),
        "opening has done it"
    );
    let run = store.runs().get(id).unwrap().unwrap();
    assert_eq!((run.status, run.step_count), (RunStatus::Paused, 2));
    assert!(run.pause_reason.unwrap().contains("orphaned"));
    assert_eq!(run.duration_ms, Some(last_ms - run.created_at_ms));
    let resumed = store.runs().resume(id, &ResumeOptions::default()).unwrap();
    assert_eq!(resumed.messages[..sent.len()], sent[..]);
    assert_eq!(resumed.dangling[0].id.as_deref(), Some("b"));
    assert_eq!(resumed.recorder.next_step().unwrap(), 3);
    let calls = store
        .runs()
        .tool_calls(id, &ListToolCalls::default())
        .unwrap()
        .items;
    assert_eq!(
        calls.iter().map(|call| call.status).collect::<Vec<_>>(),
        [ToolCallStatus::Completed, ToolCallStatus::Error]
    );
    assert_eq!(
        store
            .runs()
            .messages(id, &ListRunMessages::default())
            .unwrap()
            .items
            .len(),
        4
    );
    let resumed = resumed.recorder;
    // The awaiting handle of the same store knows that the run is at work.
    assert!(
        pollster::block_on(store.to_async().recover_runs())
            .unwrap()
            .is_empty()
    );
    resumed.complete(Some("done")).unwrap();
    drop((resumed, store));

    let store = Store::open(&path).unwrap();
    let listed: Vec<_> = store
        .runs()
        .list(&ListRuns::default())
        .unwrap()
        .items
        .iter()
        .map(|run| (run.status, run.step_count))
        .collect();
    assert_eq!(listed, [(RunStatus::Completed, 3), (RunStatus::Paused, 2)]);
}

#[test]
fn the_calls_for_waiting_callers_do_what_their_twins_do() {
    let store = Store::in_memory();
    let runs = store.runs();
    let parent = runs
        .start(NewRun::in_new_session(NewSession::default(), "lead"))
        .unwrap();
    let new = NewRun {
        parent_run_id: Some(parent.id()),
        concurrent: true,
        ..NewRun::new(parent.run().instance_id)
    };
    let run = runs.start(new).unwrap();
    let message = RawJson::parse(r#"{"role":"user","content":"x"}"#).unwrap();
    let recorded = run.record_raw_message(message.clone()).unwrap();
    run.record_raw_message_with(message, &AppendOptions::default())
        .unwrap();
    run.record_tool_call(
        asks("a").to_json().unwrap(),
        &[ToolOutcome::error("a", RawJson::null())],
    )
    .unwrap();
    assert_eq!(
        runs.message(run.id(), recorded.id).unwrap().unwrap().id,
        recorded.id
    );
    let call = runs
        .tool_calls(run.id(), &ListToolCalls::default())
        .unwrap()
        .items
        .remove(0);
    assert_eq!(runs.tool_call(run.id(), call.id).unwrap(), Some(call));
    assert_eq!(
        runs.children(parent.id(), 5, None).unwrap().items[0].id,
        run.id()
    );
    assert_eq!(
        runs.recorder(run.id())
            .unwrap()
            .fail("boom")
            .unwrap()
            .status,
        RunStatus::Failed
    );
    assert_eq!(parent.cancel(None).unwrap().status, RunStatus::Cancelled);
    assert!(runs.recover().unwrap().is_empty());
}

#[test]
fn every_write_of_a_run_is_one_batch() {
    let watched = Watched::new(Arc::new(Embedded::in_memory(
        Arc::new(SystemHost),
        Wait::Block,
    )));
    let store = Store::with_backend(Arc::clone(&watched) as Arc<dyn Backend>);
    let batches = || watched.batches();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    assert_eq!(
        batches(),
        1,
        "session, instance, run and its place in the catalog"
    );
    run.next_step().unwrap();
    run.record_tool_call(
        asks("a").to_json().unwrap(),
        &[ToolOutcome::completed("a", RawJson::null())],
    )
    .unwrap();
    assert_eq!(batches(), 1, "message, call, result and step");
    run.next_step().unwrap();
    run.record_message(asks("b")).unwrap();
    run.pause("stop").unwrap();
    assert_eq!(batches(), 2);
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(
        batches(),
        1,
        "the closed call, the message, both runs and the catalog"
    );
    resumed.recorder.complete(None).unwrap();
    assert_eq!(batches(), 1);
}

#[test]
fn threads_that_race_with_the_end_of_a_run_write_what_they_were_told_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    run.next_step().unwrap();
    let other = store.runs().recorder(run.id()).unwrap();
    let written: usize = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let recorder = if number % 2 == 0 {
                    run.clone()
                } else {
                    other.clone()
                };
                scope.spawn(move || {
                    let write = |_| recorder.record_message(NewMessage::user("x"));
                    let outcomes: Vec<_> = (0..200).map(write).take_while(Result::is_ok).collect();
                    outcomes.len()
                })
            })
            .collect();
        // Once the writers are at work, the run ends under their hands.
        while store
            .contexts()
            .last_sequence(run.run().instance_id)
            .unwrap()
            < 8
        {
            thread::yield_now();
        }
        other.cancel(None).unwrap();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .sum()
    });
    assert!(written >= 8, "{written}");
    let all = ListRunMessages {
        limit: 1_000,
        ..ListRunMessages::default()
    };
    assert_eq!(
        store.runs().messages(run.id(), &all).unwrap().items.len(),
        written
    );
    assert_eq!(
        store
            .contexts()
            .last_sequence(run.run().instance_id)
            .unwrap(),
        written as u64
    );
    assert_eq!(
        run.record_message(NewMessage::user("late"))
            .unwrap_err()
            .kind(),
        ErrorKind::WrongStatus
    );
}

#[test]
fn a_recorder_refuses_a_run_and_a_step_that_are_not_its_own() {
    let store = Store::in_memory();
    let start = || NewRun::in_new_session(NewSession::default(), "coder");
    let (run, other) = (
        store.runs().start(start()).unwrap(),
        store.runs().start(start()).unwrap(),
    );
    let message = || NewMessage::user("a").to_json().unwrap();
    let of = |run_id, step_number| AppendOptions {
        event: EventOptions {
            run_id,
            step_number,
            ..EventOptions::default()
        },
        ..AppendOptions::default()
    };
    for refused in [of(Some(other.id()), None), of(None, Some(3))] {
        let error = run
            .record_raw_message_with(message(), &refused)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let own = of(Some(run.id()), None);
    run.record_raw_message_with(message(), &own).unwrap();
}
