//! Runs and flows that the process that writes works on, stopped and sent to from another: one that has the store open
//! for reading.

#![cfg(not(target_family = "wasm"))]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report, and files of other processes are looked at"
)]

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use runlog::{
    AgentDefinition, ErrorKind, NewMessage, NewRun, NewSession, Orchestrator, RawJson, RunId,
    RunStatus, Store, StoreOptions,
    agents::{OrchestratorOptions, RunContext, StartAgent, TokioRuntime, executor_fn},
    flows::FlowRun,
    retention::Erase,
    runs::{ResumeOptions, Stop, StopKind},
};
use tempfile::TempDir;
use tokio::sync::mpsc;

const SOON: Duration = Duration::from_secs(30);

fn orchestrator(store: &Store) -> Orchestrator {
    with_timeout(store, SOON)
}

fn with_timeout(store: &Store, answer_timeout: Duration) -> Orchestrator {
    let options = OrchestratorOptions {
        answer_timeout,
        ..OrchestratorOptions::default()
    };
    Orchestrator::new(store.clone(), TokioRuntime::current().unwrap(), options)
}

struct Place {
    folder: TempDir,
    writer: Store,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let writer = Store::open_with(folder.path().join("store"), StoreOptions::default());
        Self {
            writer: writer.unwrap(),
            folder,
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    fn reader(&self) -> Store {
        Store::open_read_only(self.path()).unwrap()
    }

    /// An agent that tells each command that it gets, until it is stopped.
    async fn listening(&self) -> (Orchestrator, RunId, mpsc::UnboundedReceiver<String>) {
        let agents = self.writer.agents();
        let _ = agents
            .put(AgentDefinition::new("worker", "Works."))
            .await
            .unwrap();
        let (told, tells) = mpsc::unbounded_channel();
        let orchestrator = orchestrator(&self.writer);
        orchestrator.register(
            "worker",
            executor_fn(move |run: RunContext| {
                let told = told.clone();
                async move {
                    loop {
                        let command = run.next_command().await;
                        run.record_message(NewMessage::assistant("Got it.")).await?;
                        let _ = told.send(command.message().unwrap_or_default().to_owned());
                    }
                    #[allow(unreachable_code, reason = "it says what the agent's result is")]
                    Ok::<_, runlog::Error>("")
                }
            }),
        );
        let started = orchestrator.start(StartAgent::new("worker", "Work."));
        let run = started.await.unwrap().run_id();
        (orchestrator, run, tells)
    }

    async fn status(&self, run: RunId) -> RunStatus {
        self.writer.runs().get(run).await.unwrap().unwrap().status
    }
}

fn message(text: &str) -> RawJson {
    RawJson::from_value(&serde_json::json!({"type": "send", "message": text})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_sent_to_paused_and_cancelled_from_another_process() {
    let place = Place::new();
    let (_here, run, mut tells) = place.listening().await;
    let elsewhere = orchestrator(&place.reader());
    elsewhere.send(run, &message("hello")).await.unwrap();
    assert_eq!(tells.recv().await.unwrap(), "hello");
    elsewhere.cancel(run).await.unwrap();
    assert_eq!(place.status(run).await, RunStatus::Cancelled);
    let (_here, run, _tells) = place.listening().await;
    let stop = Stop::new(StopKind::Shutdown, "for the night");
    elsewhere.pause(run, stop.clone()).await.unwrap();
    let paused = place.writer.runs().get(run).await.unwrap().unwrap();
    assert_eq!(
        (paused.status, paused.stop_kind, paused.pause_reason),
        (RunStatus::Paused, Some(stop.kind), Some(stop.reason))
    );
    // What is refused there is refused here, in the same words.
    let refused = elsewhere.send(run, &message("too late")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongStatus, "{refused}");
    let nobody = RunId(place.writer.backend().new_id());
    let refused = elsewhere.cancel(nobody).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    let refused = elsewhere.send(run, &RawJson::parse("5").unwrap()).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::WrongStatus);
    emptied(&place.path()).await;
}

/// Ready once nothing is left in the folder of requests: an answer is there a moment before what was claimed is removed.
async fn emptied(store: &Path) {
    while fs::read_dir(store.join("requests")).unwrap().count() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_that_send_at_once_each_message_comes_once() {
    let place = Place::new();
    let (_here, run, mut tells) = place.listening().await;
    let (readers, all) = (10, 20);
    let mut sending = Vec::new();
    for reader in 0..readers {
        let elsewhere = orchestrator(&place.reader());
        for number in 0..all {
            let elsewhere = elsewhere.clone();
            sending.push(tokio::spawn(async move {
                let text = format!("{reader} {number}");
                elsewhere.send(run, &message(&text)).await.unwrap();
                text
            }));
        }
    }
    let mut sent = BTreeSet::new();
    for one in sending {
        sent.insert(one.await.unwrap());
    }
    let mut got = BTreeSet::new();
    for _ in 0..readers * all {
        assert!(got.insert(tells.recv().await.unwrap()), "one came twice");
    }
    assert_eq!(got, sent);
    assert!(tells.try_recv().is_err(), "one came twice");
    emptied(&place.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_without_an_orchestrator_gets_its_commands_too() {
    let place = Place::new();
    let mut flow = FlowRun::create(&place.writer, None).await.unwrap();
    let elsewhere = orchestrator(&place.reader());
    let command = RawJson::from_value(
        &serde_json::json!({"type": "send", "runId": flow.run_id(), "message": "go"}),
    )
    .unwrap();
    elsewhere.send(flow.run_id(), &command).await.unwrap();
    flow.refresh().await.unwrap();
    let taken = flow.take_inbox(&flow.run_id().to_string());
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].message(), Some("go"));
    let refused = elsewhere.cancel(flow.run_id()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("no orchestrator"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_takes_is_withdrawn_and_never_done() {
    let place = Place::new();
    let (here, run, mut tells) = place.listening().await;
    here.pause(run, "later").await.unwrap();
    place.writer.close().await.unwrap();
    // The process that had the store open has let go of it, and takes nothing any more, though it lives.
    let elsewhere = with_timeout(&place.reader(), Duration::from_millis(900));
    let refused = elsewhere.cancel(run).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    assert!(
        refused.to_string().contains("nothing was done"),
        "{refused}"
    );
    emptied(&place.path()).await;
    // Nor is it done by who opens the store next.
    let again = Store::open(place.path()).unwrap();
    let _next = orchestrator(&again);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let paused = again.runs().get(run).await.unwrap().unwrap();
    assert_eq!(paused.status, RunStatus::Paused);
    assert!(tells.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_needs_nobody_to_be_cancelled() {
    let place = Place::new();
    let (here, run, _tells) = place.listening().await;
    here.cancel(run).await.unwrap();
    place.writer.close().await.unwrap();
    let elsewhere = with_timeout(&place.reader(), Duration::from_millis(300));
    elsewhere.cancel(run).await.unwrap();
    emptied(&place.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_agent_is_started_where_nothing_can_be_written() {
    let place = Place::new();
    let (here, run, _tells) = place.listening().await;
    here.pause(run, "later").await.unwrap();
    let elsewhere = orchestrator(&place.reader());
    let refused = elsewhere.start(StartAgent::new("worker", "Work.")).await;
    let refused = refused.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    let options = ResumeOptions::default();
    let resumed = elsewhere.resume(run, &options, None).await;
    let refused = resumed.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_waiting_withdraws_what_was_asked() {
    let place = Place::new();
    let elsewhere = orchestrator(&place.reader());
    let run = RunId(place.writer.backend().new_id());
    let asked = tokio::time::timeout(Duration::from_millis(200), elsewhere.cancel(run));
    assert!(asked.await.is_err(), "nobody answers");
    emptied(&place.path()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_requests_do_no_harm() {
    let place = Place::new();
    let (_here, run, mut tells) = place.listening().await;
    let folder = place.path().join("requests");
    fs::create_dir(&folder).unwrap();
    // Of now: older ones are removed without being read.
    let now = u128::from(place.writer.backend().now_ms()) << 80;
    let id = |number: u128| uuid::Uuid::from_u128(now | number);
    let late = serde_json::json!({"call": "cancel", "run_id": run, "expires_at_ms": 1});
    let without = serde_json::json!({"call": "send", "run_id": run, "expires_at_ms": u64::MAX});
    for (number, text) in [
        "",
        "{",
        "\u{0}\u{1}",
        r#"{"call":"format","run_id":5}"#,
        &late.to_string(),
        &without.to_string(),
        &"[".repeat(100_000),
    ]
    .iter()
    .enumerate()
    {
        fs::write(folder.join(format!("{}.request", id(number as u128))), text).unwrap();
    }
    fs::write(folder.join(format!("{}.request", id(20))), [0xff, 0xfe]).unwrap();
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    fs::create_dir(folder.join(format!("{}.request", id(21)))).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/dev/zero", folder.join(format!("{}.request", id(22)))).unwrap();
    let huge = fs::File::create(folder.join(format!("{}.request", id(23)))).unwrap();
    huge.set_len(1 << 40).unwrap();
    let elsewhere = orchestrator(&place.reader());
    elsewhere.send(run, &message("still here")).await.unwrap();
    assert_eq!(tells.recv().await.unwrap(), "still here");
    assert_eq!(place.status(run).await, RunStatus::Running);
    assert_eq!(
        fs::read_to_string(folder.join("notes.txt")).unwrap(),
        "mine"
    );
    assert!(
        place
            .writer
            .backend()
            .maintenance()
            .verify()
            .await
            .unwrap()
            .is_sound()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_dropped_is_free_at_once_though_requests_were_looked_for() {
    let place = Place::new();
    let path = place.path();
    for _ in 0..20 {
        let store = Store::open(path.with_extension("other")).unwrap();
        let flow = FlowRun::create(&store, None).await.unwrap();
        drop((flow, store));
        tokio::time::sleep(Duration::from_millis(17)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_of_a_run_that_is_erased_meanwhile_is_answered_and_left_nowhere() {
    let place = Place::new();
    // The process that writes has no orchestrator, and takes nothing.
    let new = NewRun::in_new_session(NewSession::titled("trip"), "worker");
    let run = place.writer.runs().start(new).await.unwrap();
    let (id, reader) = (run.id(), place.reader());
    let elsewhere = orchestrator(&reader);
    let asking = tokio::spawn(async move { elsewhere.send(id, &message("a secret")).await });
    let requests = place.path().join("requests");
    let posted = || fs::read_dir(&requests).is_ok_and(|mut entries| entries.next().is_some());
    while !posted() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    run.complete(None).await.unwrap();
    let what = Erase {
        sessions: vec![run.run().session_id],
        reason: "asked to".to_owned(),
        ..Erase::default()
    };
    assert!(place.writer.erase(&what).await.unwrap().is_gone);
    let refused = asking.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongStatus, "{refused}");
    emptied(&place.path()).await;
}
