//! Many things of a run recorded at once.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RunStatus,
    blocking::{RunRecorder, Store},
    contexts::EventOptions,
    runs::{ListRunMessages, ResumeOptions, RunEntry},
    transcripts::NewContextEvent,
};

fn says(text: &str, begins_step: bool) -> RunEntry {
    let json = NewMessage::assistant(text).to_json().unwrap();
    RunEntry {
        events: NewContextEvent::of_message(json, &EventOptions::default()).unwrap(),
        begins_step,
    }
}

fn most_in_all(max_total_steps: u32) -> ResumeOptions {
    ResumeOptions {
        max_total_steps,
        ..ResumeOptions::default()
    }
}

fn run(store: &Store, max_steps: Option<u32>) -> RunRecorder {
    store
        .runs()
        .start(NewRun {
            max_steps,
            ..NewRun::in_new_session(NewSession::default(), "coder")
        })
        .unwrap()
}

fn steps(store: &Store, run: &RunRecorder) -> Vec<u32> {
    let messages = store
        .runs()
        .messages(run.id(), &ListRunMessages::default())
        .unwrap()
        .items;
    messages
        .into_iter()
        .map(|message| message.step_number)
        .collect()
}

#[test]
fn entries_are_one_batch_with_the_steps_they_begin() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let run = run(&store, None);
    let recorded = run
        .record_entries(
            &[
                says("a", false),
                says("b", true),
                says("c", false),
                says("d", true),
            ],
            None,
        )
        .unwrap();
    let told: Vec<_> = recorded
        .iter()
        .map(|it| (it.sequence_number, it.last_sequence, it.step_number))
        .collect();
    assert_eq!(told, [(1, 1, 0), (2, 2, 1), (3, 3, 1), (4, 4, 2)]);
    assert_eq!(run.next_step().unwrap(), 3);
    run.record_entries(&[says("e", false), says("f", true)], None)
        .unwrap();
    assert_eq!(
        (steps(&store, &run), run.run().step_count),
        (vec![0, 1, 1, 2, 3, 4], 4)
    );
    assert!(run.record_entries(&[], None).unwrap().is_empty());
    let empty = RunEntry {
        events: Vec::new(),
        begins_step: true,
    };
    let refused = run
        .record_entries(&[says("g", true), empty], None)
        .unwrap_err();
    assert_eq!(
        (refused.kind(), steps(&store, &run).len()),
        (ErrorKind::InvalidInput, 6)
    );
    // It is all there for whoever opens the store next.
    let id = run.id();
    drop((run, store));
    let store = Store::open(folder.path().join("store")).unwrap();
    let found = store.runs().get(id).unwrap().unwrap();
    assert_eq!((found.status, found.step_count), (RunStatus::Paused, 4));
}

#[test]
fn a_repeated_key_begins_no_step_and_is_told_the_first_result() {
    let store = Store::in_memory();
    let first = run(&store, None);
    let recorded = first.record_entries(&[says("a", true)], Some("k")).unwrap();
    let again = first.record_entries(&[says("a", true)], Some("k")).unwrap();
    assert_eq!(
        (
            again[0].sequence_number,
            again[0].repeated,
            recorded[0].repeated
        ),
        (1, true, false)
    );
    assert_eq!(first.run().step_count, 1);
    // Also in the run that goes on from it.
    first.pause("lunch").unwrap();
    let second = store
        .runs()
        .resume(first.id(), &ResumeOptions::default())
        .unwrap()
        .recorder;
    let again = second
        .record_entries(&[says("a", true)], Some("k"))
        .unwrap();
    assert_eq!((again[0].sequence_number, again[0].repeated), (1, true));
    assert_eq!(
        (second.run().step_count, steps(&store, &second)),
        (1, vec![1])
    );
}

#[test]
fn entries_over_the_budget_or_after_the_end_are_refused_whole() {
    let store = Store::in_memory();
    let run = run(&store, Some(2));
    run.record_entries(&[says("a", true)], None).unwrap();
    let refused = run
        .record_entries(&[says("b", true), says("c", true)], None)
        .unwrap_err();
    assert_eq!(
        (refused.kind(), steps(&store, &run)),
        (ErrorKind::LimitReached, vec![1])
    );
    assert_eq!(run.run().status, RunStatus::Running);
    run.record_entries(&[says("b", true), says("c", false)], None)
        .unwrap();
    assert_eq!(run.next_step().unwrap_err().kind(), ErrorKind::LimitReached);
    let refused = run
        .record_entries(&[says("late", false)], None)
        .unwrap_err();
    assert_eq!(
        (refused.kind(), steps(&store, &run)),
        (ErrorKind::WrongStatus, vec![1, 2, 2])
    );
}

#[test]
fn whether_a_run_can_be_resumed_is_told_before() {
    let store = Store::in_memory();
    let run = run(&store, None);
    let kind = |most| {
        store
            .runs()
            .resumable(run.id(), &most_in_all(most))
            .unwrap_err()
            .kind()
    };
    assert_eq!(kind(500), ErrorKind::WrongStatus);
    run.record_entries(&[says("a", true), says("b", true)], None)
        .unwrap();
    run.pause("lunch").unwrap();
    assert_eq!(
        (
            store
                .runs()
                .resumable(run.id(), &most_in_all(3))
                .unwrap()
                .step_count,
            kind(2)
        ),
        (2, ErrorKind::LimitReached)
    );
    store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(kind(500), ErrorKind::WrongStatus);
}
