//! What stopped a run, told by its kind; and runs that go on from one that has ended.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RunId, RunStatus,
    blocking::{RunRecorder, Store},
    runs::{Continuation, ListRuns, ResumeOptions, Stop, StopKind},
};

both! {
    what_stopped_a_run_is_told_by_its_kind
    a_run_that_has_ended_is_gone_on_with_where_that_is_asked_for
    a_run_that_has_ended_is_gone_on_with_once
    the_total_of_steps_bounds_those_that_go_on_from_ended_runs_too
}

fn started(store: &Store) -> RunRecorder {
    let new = NewRun::in_new_session(NewSession::default(), "coder");
    let run = store.runs().start(new).unwrap();
    run.record_message(NewMessage::user("fix it")).unwrap();
    run
}

fn kind(store: &Store, run: RunId) -> Option<StopKind> {
    store.runs().get(run).unwrap().unwrap().stop_kind
}

fn ended() -> ResumeOptions {
    ResumeOptions {
        ended: true,
        ..ResumeOptions::default()
    }
}

fn what_stopped_a_run_is_told_by_its_kind(store: &Store) {
    let run = started(store);
    let paused = run.pause("timeout").unwrap();
    // A caller's own words don't make it one.
    assert_eq!(paused.stop_kind, Some(StopKind::Requested));
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(resumed.run.stop_kind, None);
    let stop = Stop::new(StopKind::Shutdown, "SIGTERM");
    resumed.recorder.pause(stop).unwrap();
    let paused = store.runs().get(resumed.run.id).unwrap().unwrap();
    assert_eq!(
        (paused.stop_kind, paused.pause_reason.as_deref()),
        (Some(StopKind::Shutdown), Some("SIGTERM"))
    );
    resumed.recorder.cancel(None).unwrap();
    assert_eq!(kind(store, resumed.run.id), Some(StopKind::Cancelled));

    let bounded = NewRun {
        max_steps: Some(1),
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    let run = store.runs().start(bounded).unwrap();
    run.next_step().unwrap();
    assert_eq!(run.next_step().unwrap_err().kind(), ErrorKind::LimitReached);
    assert_eq!(kind(store, run.id()), Some(StopKind::Budget));

    let done = started(store);
    done.complete(None).unwrap();
    assert_eq!(kind(store, done.id()), None);
}

#[test]
fn a_run_that_a_dead_process_left_is_told_as_an_orphan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let id = started(&store).id();
    store.close().unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(kind(&store, id), Some(StopKind::Orphaned));
}

fn a_run_that_has_ended_is_gone_on_with_where_that_is_asked_for(store: &Store) {
    for end in [
        RunStatus::Completed,
        RunStatus::Failed,
        RunStatus::Cancelled,
    ] {
        let run = started(store);
        run.next_step().unwrap();
        run.record_message(NewMessage::assistant("done")).unwrap();
        match end {
            RunStatus::Completed => run.complete(Some("done")),
            RunStatus::Failed => run.fail("no more memory"),
            _ => run.cancel(None),
        }
        .unwrap();
        let refused = store
            .runs()
            .resume(run.id(), &ResumeOptions::default())
            .unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WrongStatus);
        assert_eq!(
            store
                .runs()
                .resumable(run.id(), &ResumeOptions::default())
                .unwrap_err()
                .kind(),
            ErrorKind::WrongStatus
        );
        store.runs().resumable(run.id(), &ended()).unwrap();
        let options = ResumeOptions {
            message: Continuation::Message(NewMessage::user("and the tests?")),
            ..ended()
        };
        let resumed = store.runs().resume(run.id(), &options).unwrap();
        assert_eq!(resumed.messages.len(), 3);
        assert_eq!(
            (resumed.run.resumed_from, resumed.run.step_count),
            (Some(run.id()), 1)
        );
        assert_eq!(resumed.recorder.next_step().unwrap(), 2);
        let before = store.runs().get(run.id()).unwrap().unwrap();
        assert_eq!(
            (before.status, before.resumed_by),
            (end, Some(resumed.run.id))
        );
        assert_eq!(resumed.run.summary, None);
        resumed.recorder.complete(None).unwrap();
    }
    let by_status = |status| {
        let of_status = ListRuns {
            status: Some(status),
            ..ListRuns::default()
        };
        store.runs().list(&of_status).unwrap().items.len()
    };
    assert_eq!(
        (
            by_status(RunStatus::Completed),
            by_status(RunStatus::Failed)
        ),
        (4, 1)
    );
}

fn a_run_that_has_ended_is_gone_on_with_once(store: &Store) {
    let run = started(store);
    run.complete(None).unwrap();
    let resumed = store.runs().resume(run.id(), &ended()).unwrap();
    let again = store.runs().resume(run.id(), &ended()).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::WrongStatus);
    assert!(
        again.to_string().contains(&resumed.run.id.to_string()),
        "{again}"
    );
    // The one that goes on is at work; once it has ended, it can be resumed in turn.
    let running = store.runs().resume(resumed.run.id, &ended()).unwrap_err();
    assert_eq!(running.kind(), ErrorKind::WrongStatus);
    resumed.recorder.complete(None).unwrap();
    store.runs().resume(resumed.run.id, &ended()).unwrap();
}

fn the_total_of_steps_bounds_those_that_go_on_from_ended_runs_too(store: &Store) {
    let run = started(store);
    for _ in 0..3 {
        run.next_step().unwrap();
        run.record_message(NewMessage::assistant("a")).unwrap();
    }
    run.complete(None).unwrap();
    let bounded = ResumeOptions {
        max_total_steps: 3,
        ..ended()
    };
    let refused = store.runs().resume(run.id(), &bounded).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached);
}
