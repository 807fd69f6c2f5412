//! Requests to the process that writes, where something is wrong with the folder, a clock or one of the two processes.

#![cfg(not(target_family = "wasm"))]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    reason = "it does to the folder of a store what other processes do"
)]

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use runlog::{
    AgentDefinition, ErrorKind, NewRun, NewSession, Orchestrator, RawJson, Result, RunId,
    RunStatus, Store, StoreOptions,
    agents::{
        OrchestratorOptions, RunContext, SpawnRequest, StartAgent, TokioRuntime, executor_fn,
    },
    blocking,
    engine::{Host, SystemHost},
    flows::FlowRun,
    runs::ListRuns,
};
use tempfile::TempDir;

/// Longer than anything here takes: who waits that long waits for ever.
const LONG: Duration = Duration::from_secs(30);
/// How long nobody is waited for.
const SHORT: Duration = Duration::from_millis(900);

struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn requests(&self) -> PathBuf {
        self.path().join("requests")
    }

    fn writer(&self) -> Store {
        Store::open(self.path()).unwrap()
    }

    /// Asks the process that writes.
    fn asker(&self, answer_timeout: Duration) -> Orchestrator {
        orchestrator(&Store::open_read_only(self.path()).unwrap(), answer_timeout)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.requests()).into_iter().flatten();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Ready once nothing is left: an answer is there a moment before what was claimed is removed.
    async fn emptied(&self) {
        while !self.names().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The path of the only request, once it is posted.
    async fn posted(&self) -> PathBuf {
        loop {
            let names = self.names();
            if let Some(name) = names.iter().find(|name| name.ends_with(".request")) {
                return self.requests().join(name);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn orchestrator(store: &Store, answer_timeout: Duration) -> Orchestrator {
    let options = OrchestratorOptions {
        answer_timeout,
        ..OrchestratorOptions::default()
    };
    Orchestrator::new(store.clone(), TokioRuntime::current().unwrap(), options)
}

fn message(text: &str) -> RawJson {
    RawJson::from_value(&serde_json::json!({"type": "send", "message": text})).unwrap()
}

fn of_flow(flow: &FlowRun, text: &str) -> RawJson {
    let value = serde_json::json!({"type": "send", "runId": flow.run_id(), "message": text});
    RawJson::from_value(&value).unwrap()
}

fn some_run() -> RunId {
    RunId(SystemHost.new_id())
}

/// What the call gives, unless it hangs.
async fn given<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(LONG, call).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_removed_is_not_made_again_by_who_asks() {
    let place = Place::new();
    place.writer().close().await.unwrap();
    let asker = place.asker(SHORT);
    fs::remove_dir_all(place.path()).unwrap();
    let refused = given(asker.cancel(some_run())).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    assert!(!place.path().exists());
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn who_writes_a_store_that_was_moved_takes_nothing_of_another_in_its_place() {
    let place = Place::new();
    let first = place.writer();
    let _takes = orchestrator(&first, LONG);
    fs::rename(place.path(), place.folder.path().join("moved")).unwrap();
    // It looks for no requests: it has no orchestrator and no flow.
    let _second = place.writer();
    let refused = given(place.asker(SHORT).cancel(some_run())).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    assert!(refused.to_string().contains("nobody took"), "{refused}");
    // The first one is still asked where it is now.
    let moved = Store::open_read_only(place.folder.path().join("moved")).unwrap();
    let refused = given(orchestrator(&moved, LONG).cancel(some_run())).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
}

/// A host whose clock stands.
struct Standing(u64);

impl Host for Standing {
    fn now_ms(&self) -> u64 {
        self.0
    }

    fn random(&self, bytes: &mut [u8]) {
        SystemHost.random(bytes);
    }

    fn has_threads(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clock_of_the_stores_host_decides_nothing() {
    let place = Place::new();
    let writer = place.writer();
    let flow = FlowRun::create(&writer, None).await.unwrap();
    let options = StoreOptions::with_host(Arc::new(Standing(1_000))).read_only();
    let reader = Store::open_with(place.path(), options).unwrap();
    let asker = orchestrator(&reader, SHORT);
    given(asker.send(flow.run_id(), &of_flow(&flow, "go")))
        .await
        .unwrap();
    let waiting = FlowRun::waiting(&writer, flow.run_id()).await.unwrap();
    assert_eq!(waiting.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_no_requests_are_answered_and_those_of_others_left() {
    let place = Place::new();
    let writer = place.writer();
    let flow = FlowRun::create(&writer, None).await.unwrap();
    let _takes = orchestrator(&writer, LONG);
    fs::create_dir(place.requests()).unwrap();
    let put = |name: &str, bytes: &[u8]| fs::write(place.requests().join(name), bytes).unwrap();
    // Others name files by ids too, and these tell no time.
    let other = "00000000-0000-4000-8000-000000000001.jsonl";
    put(other, b"mine");
    let run = flow.run_id();
    let late = serde_json::json!({"call": "cancel", "run_id": run, "expires_at_ms": 1});
    let without = serde_json::json!({"call": "pause", "run_id": run, "expires_at_ms": u64::MAX});
    let (late, without) = (late.to_string(), without.to_string());
    let nested = "[".repeat(100_000);
    let bad: [(&[u8], &str); 7] = [
        (b"", "invalid_input"),
        (b"{", "invalid_input"),
        (&[0xff, 0xfe], "invalid_input"),
        (br#"{"call":"format","run_id":5}"#, "invalid_input"),
        (nested.as_bytes(), "invalid_input"),
        (late.as_bytes(), "locked"),
        (without.as_bytes(), "invalid_input"),
    ];
    let mut expected = Vec::new();
    for (bytes, kind) in bad {
        let id = SystemHost.new_id();
        put(&format!("{id}.tmp"), bytes);
        fs::rename(
            place.requests().join(format!("{id}.tmp")),
            place.requests().join(format!("{id}.request")),
        )
        .unwrap();
        expected.push((place.requests().join(format!("{id}.answer")), kind));
    }
    let huge = SystemHost.new_id();
    let file = fs::File::create(place.requests().join(format!("{huge}.tmp"))).unwrap();
    file.set_len(1 << 40).unwrap();
    fs::rename(
        place.requests().join(format!("{huge}.tmp")),
        place.requests().join(format!("{huge}.request")),
    )
    .unwrap();
    expected.push((place.requests().join(format!("{huge}.answer")), "io"));
    given(place.asker(LONG).send(run, &of_flow(&flow, "still here")))
        .await
        .unwrap();
    for (answer, kind) in expected {
        let text = answered(&answer).await;
        assert!(text.contains(kind), "{kind}: {text}");
    }
    assert!(place.names().contains(&other.to_owned()));
}

async fn answered(path: &Path) -> String {
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_gets_commands_though_another_handle_of_the_store_is_gone() {
    let place = Place::new();
    let writer = place.writer();
    let flow = FlowRun::create(&writer, None).await.unwrap();
    let other = writer.to_blocking();
    drop(blocking::FlowRun::attach(&other, flow.run_id()).unwrap());
    drop(other);
    given(place.asker(LONG).send(flow.run_id(), &of_flow(&flow, "go")))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_not_valid_for_long_however_long_its_answer_is_waited_for() {
    let place = Place::new();
    let _writer = place.writer();
    let asker = place.asker(Duration::from_secs(36_000));
    let asked = tokio::spawn(async move { asker.cancel(some_run()).await });
    let text = fs::read_to_string(place.posted().await).unwrap();
    let request: serde_json::Value = serde_json::from_str(&text).unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at_most = now.unwrap() + Duration::from_secs(60);
    assert!(u128::from(request["expires_at_ms"].as_u64().unwrap()) < at_most.as_millis());
    asked.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_not_come_any_more_is_not_waited_for() {
    let place = Place::new();
    let _writer = place.writer();
    let asker = place.asker(SHORT);
    let asked = tokio::spawn(async move { given(asker.cancel(some_run())).await });
    // Taken, and then its answer couldn't be written.
    fs::remove_file(place.posted().await).unwrap();
    let refused = asked.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused}");
}

/// Claims a posted request as a process does that has ended since; returns the path that the claim has.
fn claim_and_end(posted: &Path) -> PathBuf {
    let by = SystemHost.new_id();
    let claimed = posted.with_extension(format!("{by}.claimed"));
    // Free: the system frees what a process has locked when it ends.
    fs::write(posted.with_file_name(format!("{by}.writer")), "").unwrap();
    fs::rename(posted, &claimed).unwrap();
    claimed
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_is_told_that_the_process_which_took_the_request_has_ended() {
    let place = Place::new();
    let _writer = place.writer();
    // It waits for long if need be.
    let asker = place.asker(Duration::from_secs(36_000));
    let asked = tokio::spawn(async move { given(asker.cancel(some_run())).await });
    claim_and_end(&place.posted().await);
    let refused = asked.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("has ended, and gave no answer"), "{text}");
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// In the environment of the process that writes: where its store is.
const WRITES_IN: &str = "RUNLOG_TEST_WRITES_IN";

/// The work of a process that writes until it is killed.
async fn writes(path: OsString) {
    let store = Store::open(path).unwrap();
    let worker = AgentDefinition::new("worker", "Works.");
    let _ = store.agents().put(worker).await.unwrap();
    let options = OrchestratorOptions {
        // A cancelled run isn't over before.
        stop_grace: Duration::from_secs(36_000),
        ..OrchestratorOptions::default()
    };
    let takes = Orchestrator::new(store, TokioRuntime::current().unwrap(), options);
    takes.register(
        "worker",
        executor_fn(async |_: RunContext| std::future::pending::<Result<&str>>().await),
    );
    let started = takes.start(StartAgent::new("worker", "Work."));
    let run = started.await.unwrap().run_id();
    let mut output = std::io::stdout();
    writeln!(output, "run {run}").unwrap();
    std::future::pending().await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_a_process_that_is_killed_meanwhile_is_told_and_its_claim_is_removed() {
    // The process that writes is this test, started once more.
    if let Some(path) = std::env::var_os(WRITES_IN) {
        return writes(path).await;
    }
    let place = Place::new();
    let test = "who_asks_a_process_that_is_killed_meanwhile_is_told_and_its_claim_is_removed";
    let process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", test])
        .env(WRITES_IN, place.path())
        .stdout(Stdio::piped())
        .spawn();
    let mut process = Killed(process.unwrap());
    let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let run = lines
        .map_while(std::io::Result::ok)
        // The harness may have said something on the same line.
        .find_map(|line| line.split_once("run ")?.1.parse::<RunId>().ok())
        .unwrap();
    let asker = place.asker(LONG);
    let asked = tokio::spawn(async move { given(asker.cancel(run)).await });
    while !place.names().iter().any(|name| name.ends_with(".claimed")) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(process);
    let refused = asked.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused}");
    let text = refused.to_string();
    assert!(text.contains("has ended, and gave no answer"), "{text}");
    let _next = place.writer();
    assert_eq!(place.names(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_opens_a_store_for_writing_removes_what_ended_processes_left_and_no_request_that_is_waited_for()
 {
    let place = Place::new();
    drop(place.writer());
    let asker = place.asker(Duration::from_secs(36_000));
    let asked = tokio::spawn(async move { given(asker.cancel(some_run())).await });
    let waited_for = place.posted().await;
    let put = |id: uuid::Uuid, ending: &str| {
        let path = place.requests().join(format!("{id}.{ending}"));
        fs::write(&path, "the text of a command").unwrap();
        path
    };
    let now = || SystemHost.new_id();
    claim_and_end(&put(now(), "request"));
    // An hour ago.
    let old = uuid::Uuid::from_u128(now().as_u128() - (3_600_000 << 80));
    put(old, "answer");
    put(old, "tmp");
    let kept = [waited_for, put(now(), "answer"), put(now(), "tmp")];
    // It takes no requests: it has no orchestrator and no flow.
    let writer = place.writer();
    let mut kept = kept.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    kept.sort();
    assert_eq!(place.names(), kept);
    // Nor does it execute one that is too old, whose text goes too.
    let late = put(old, "request");
    drop(writer);
    let _writer = place.writer();
    assert!(!late.exists());
    let told = fs::read_to_string(late.with_extension("answer")).unwrap();
    assert!(told.contains("came too late"), "{told}");
    asked.abort();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_in_the_folder_of_requests_stops_nobody_and_leads_nowhere() {
    use std::{
        ffi::OsStr,
        os::unix::{ffi::OsStrExt, fs::symlink},
    };
    let place = Place::new();
    drop(place.writer());
    fs::create_dir(place.requests()).unwrap();
    let mine = place.folder.path().join("mine");
    fs::write(&mine, "mine").unwrap();
    let nowhere = place.folder.path().join("nowhere");
    let mut folders = Vec::new();
    for age_ms in [0, 60_000, 3_600_000_u128] {
        for what in [
            "fifo",
            "link",
            "link to nothing",
            "link to the lock",
            "folder",
            "huge",
        ] {
            let id = || uuid::Uuid::from_u128(SystemHost.new_id().as_u128() - (age_ms << 80));
            let claimed = format!("{}.claimed", id());
            for ending in ["tmp", "request", "answer", "writer", &claimed] {
                let path = place.requests().join(format!("{}.{ending}", id()));
                match what {
                    "fifo" => {
                        let made = Command::new("mkfifo").arg(&path).status().unwrap();
                        assert!(made.success());
                    }
                    "link" => symlink(&mine, &path).unwrap(),
                    "link to nothing" => symlink(&nowhere, &path).unwrap(),
                    "link to the lock" => symlink("../LOCK", &path).unwrap(),
                    "folder" => {
                        fs::create_dir(&path).unwrap();
                        fs::write(path.join("mine"), "mine").unwrap();
                        folders.push(path);
                    }
                    _ => fs::File::create(&path).unwrap().set_len(1 << 30).unwrap(),
                }
            }
        }
    }
    for name in [
        &b"\xff\xfe.request"[..],
        b".request",
        b"..claimed",
        b"a\nb.writer",
    ] {
        fs::write(place.requests().join(OsStr::from_bytes(name)), "mine").unwrap();
    }
    let writer = place.writer();
    let flow = FlowRun::create(&writer, None).await.unwrap();
    given(place.asker(LONG).send(flow.run_id(), &of_flow(&flow, "go")))
        .await
        .unwrap();
    // Still the only one that writes.
    let second = Store::open(place.path()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Locked, "{second}");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    assert!(!nowhere.exists());
    let count = |of: &Path| fs::read_dir(of).map_or(0, Iterator::count);
    // Those that were requests have other names now.
    let left = folders.iter().filter(|path| count(path) == 1).count();
    assert!(left >= folders.len() * 4 / 5, "{left} of {}", folders.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_can_not_be_read_leaves_the_outcome_unknown() {
    let place = Place::new();
    let _writer = place.writer();
    let asker = place.asker(LONG);
    let asked = tokio::spawn(async move { given(asker.cancel(some_run())).await });
    let posted = place.posted().await;
    fs::create_dir(posted.with_extension("made")).unwrap();
    fs::remove_file(&posted).unwrap();
    fs::rename(
        posted.with_extension("made"),
        posted.with_extension("answer"),
    )
    .unwrap();
    let refused = asked.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutcomeUnknown, "{refused}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_folder_of_requests_is_named() {
    let place = Place::new();
    let _takes = orchestrator(&place.writer(), LONG);
    let elsewhere = place.folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let asker = place.asker(SHORT);
    std::os::unix::fs::symlink(&elsewhere, place.requests()).unwrap();
    let link = given(asker.cancel(some_run())).await.unwrap_err();
    fs::remove_file(place.requests()).unwrap();
    fs::write(place.requests(), "").unwrap();
    let file = given(asker.cancel(some_run())).await.unwrap_err();
    for refused in [link, file] {
        assert_eq!(refused.kind(), ErrorKind::Io, "{refused}");
        let text = refused.to_string();
        assert!(text.contains("requests is not a folder"), "{text}");
    }
    assert_eq!(fs::read_dir(elsewhere).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_at_once_are_answered() {
    let place = Place::new();
    let _takes = orchestrator(&place.writer(), LONG);
    let asker = place.asker(LONG);
    let mut asked = Vec::new();
    for _ in 0..1_000 {
        let asker = asker.clone();
        asked.push(tokio::spawn(async move { asker.cancel(some_run()).await }));
    }
    for one in asked {
        let refused = one.await.unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    }
    place.emptied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_are_as_large_from_elsewhere_as_they_are_here() {
    let place = Place::new();
    let writer = place.writer();
    let flow = FlowRun::create(&writer, None).await.unwrap();
    let asker = place.asker(LONG);
    let sent = async |size| {
        let command = of_flow(&flow, &"a".repeat(size));
        given(asker.send(flow.run_id(), &command)).await
    };
    // Refused by the process that writes, and before it is asked.
    for size in [17 << 20, 21 << 20] {
        let refused = sent(size).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{refused}");
    }
    sent(15 << 20).await.unwrap();
    let waiting = FlowRun::waiting(&writer, flow.run_id()).await.unwrap();
    assert_eq!(waiting[0].message().map(str::len), Some(15 << 20));
    place.emptied().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_recorded_beside_the_orchestrator_takes_no_commands_and_is_cancelled() {
    let place = Place::new();
    let writer = place.writer();
    let agents = writer.agents();
    let _ = agents
        .put(AgentDefinition::new("worker", "Works."))
        .await
        .unwrap();
    let takes = orchestrator(&writer, LONG);
    takes.register(
        "worker",
        executor_fn(async |_: RunContext| std::future::pending::<Result<&str>>().await),
    );
    let new = NewRun::in_new_session(NewSession::named("lead"), "lead");
    let lead = writer.runs().start(new).await.unwrap();
    let spawned = takes.spawn(lead.id(), vec![SpawnRequest::new("worker", "Work.")]);
    let _spawned = spawned.await.unwrap();
    assert!(takes.handle(lead.id()).is_some());
    let asker = place.asker(LONG);
    let refused = given(asker.send(lead.id(), &message("hello"))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongStatus, "{refused}");
    given(asker.cancel(lead.id())).await.unwrap();
    let runs = writer
        .runs()
        .list(&ListRuns::default())
        .await
        .unwrap()
        .items;
    let statuses: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Cancelled; 2]);
}
