//! Asking the process that writes, where that one ends meanwhile or stops the run of a program.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    thread,
    time::Duration,
};

use common::{Ends, Place, Said};
use runlog::{NewRun, NewSession, RunId, RunStatus, blocking::Store};

/// A store that this process writes, and in which it looks for no requests.
struct Writer {
    place: Place,
    store: Store,
    run: RunId,
}

impl Writer {
    /// One with a run.
    fn new() -> Self {
        let place = Place::new();
        let store = Store::open(place.path("runlog-data")).unwrap();
        let new = NewRun::in_new_session(NewSession::named("work"), "worker");
        let run = store.runs().start(new).unwrap().id();
        Self { place, store, run }
    }

    /// Begins to ask for the end of the run; returns the path of the request once it is posted.
    fn asked(&self) -> (Ends, PathBuf) {
        let command = ["cancel", &self.run.to_string()];
        let process = Ends(self.place.command(&command).spawn().unwrap());
        let folder = self.place.path("runlog-data").join("requests");
        loop {
            let names = fs::read_dir(&folder).into_iter().flatten();
            let mut paths = names.map(|entry| entry.unwrap().path());
            if let Some(path) =
                paths.find(|path| path.extension().is_some_and(|it| it == "request"))
            {
                return (process, path);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn ended(mut process: Ends) -> Said {
    let code = process.0.wait().unwrap().code().unwrap_or(-1);
    let (mut out, mut err) = (String::new(), String::new());
    let said = process.0.stdout.as_mut().unwrap();
    said.read_to_string(&mut out).unwrap();
    let said = process.0.stderr.as_mut().unwrap();
    said.read_to_string(&mut err).unwrap();
    Said { out, err, code }
}

#[test]
fn a_run_is_cancelled_though_the_process_that_was_asked_ends() {
    let writer = Writer::new();
    let (asks, _) = writer.asked();
    writer.store.close().unwrap();
    let said = ended(asks);
    assert_eq!(said.code, 0, "{said:#?}");
    assert!(said.out.starts_with("cancelled 1 run"), "{said:#?}");
    let store = Store::open_read_only(writer.place.path("runlog-data")).unwrap();
    let run = store.runs().get(writer.run).unwrap().unwrap();
    assert_eq!(run.status, RunStatus::Cancelled);
}

#[test]
fn a_run_that_ends_while_it_is_to_be_cancelled_is_over_already() {
    let writer = Writer::new();
    let (asks, request) = writer.asked();
    writer
        .store
        .runs()
        .recorder(writer.run)
        .unwrap()
        .complete(None)
        .unwrap();
    // What the process that writes answers where there is nothing to cancel any more.
    let answer = request.with_extension("tmp");
    fs::write(&answer, "{}").unwrap();
    fs::rename(answer, request.with_extension("answer")).unwrap();
    fs::remove_file(request).unwrap();
    let said = ended(asks);
    assert_eq!(said.code, 4, "{said:#?}");
    assert!(said.err.contains("is completed already"), "{said:#?}");
}

#[cfg(unix)]
#[test]
fn a_program_whose_run_is_paused_is_ended_whatever_the_cause() {
    use runlog::{
        Orchestrator,
        agents::{OrchestratorOptions, TokioRuntime},
        runs::{Stop, StopKind},
    };
    let place = Place::new();
    let command = ["run", "--json", "--", "sleep", "60"];
    let mut process = Ends(place.command(&command).spawn().unwrap());
    let mut first = String::new();
    let mut lines = BufReader::new(process.0.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let run: RunId = first["started"]["run_id"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let store = Store::open_read_only(place.path("runlog-data")).unwrap();
    let tokio = tokio::runtime::Runtime::new().unwrap();
    tokio
        .block_on(async {
            let runtime = TokioRuntime::current().unwrap();
            let options = OrchestratorOptions::default();
            Orchestrator::new(store.to_async(), runtime, options)
                .pause(run, Stop::new(StopKind::Shutdown, "for the night"))
                .await
        })
        .unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert!(rest.contains(r#""signal":15"#), "{rest}");
    assert!(rest.contains(r#""status":"paused""#), "{rest}");
    process.0.wait().unwrap();
    let resumed = place.script(
        &["--resume", &run.to_string()],
        &["ready", "say:On.", "ack"],
    );
    assert_eq!(resumed.code, 0, "{resumed:#?}");
}
