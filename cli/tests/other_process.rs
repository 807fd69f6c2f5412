//! Commands about runs and flows that another process works on, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{process::Stdio, time::Duration};

use common::{Place, said};
use runlog::{
    RunId,
    blocking::{FlowRun, Store},
};

/// The newest run, once there is one.
fn newest_run(place: &Place) -> String {
    for _ in 0..3_000 {
        let listed = place.runlog(&["runs", "--json"]);
        if listed.code == 0
            && let Some(run) = listed.json()[0]["items"][0]["id"].as_str()
        {
            return run.to_owned();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("there is no run");
}

/// Runs a program under `runlog run`, cancels its run from outside, and returns what the first told at its end.
fn cancelled(program: &str) -> common::Said {
    let place = Place::new();
    let agent = place.write("agent.sh", program);
    let mut command = place.command(&["run", "--json", "--", "sh", agent.to_str().unwrap()]);
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let running = command.spawn().unwrap();
    let run = newest_run(&place);
    let told = place.expect(0, &["cancel", &run, "--json"]).json();
    assert_eq!(told[0]["cancelled"], serde_json::json!([run]));
    let ended = said(running.wait_with_output().unwrap());
    let shown = place.expect(0, &["run", "show", &run, "--json"]).json();
    assert_eq!(shown[0]["status"], "cancelled");
    ended
}

#[test]
fn a_run_that_another_process_records_is_cancelled_and_its_program_ends() {
    let ended = cancelled("read line\nexec sleep 60\n");
    assert_eq!(ended.code, 143, "{}", ended.err);
}

#[test]
fn a_program_whose_run_is_cancelled_is_told_that_nothing_more_is_recorded() {
    // It says by its own exit code which line it got.
    let ended = cancelled(
        "trap '' TERM\nwhile read line; do case $line in *run_over*) exit 3;; *interrupted*) exit 4;; esac; done\n",
    );
    let told = ended.json();
    assert_eq!(told.last().unwrap()["ended"]["exit_code"], 3, "{told:?}");
}

#[test]
fn a_program_that_does_not_end_when_its_run_is_cancelled_is_killed() {
    let ended = cancelled("trap '' TERM\nread line\nwhile :; do sleep 1; done\n");
    assert_eq!(ended.code, 143, "{}", ended.err);
    let told = ended.json();
    assert_eq!(told.last().unwrap()["ended"]["signal"], 9, "{told:?}");
}

#[test]
fn a_flow_of_another_process_gets_its_commands_at_once() {
    let place = Place::new();
    // This process is the one that has the store open for writing.
    let store = Store::open(place.path("runlog-data")).unwrap();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let id = flow.run_id().to_string();
    let told = place
        .expect(0, &["flow", "send", &id, "--to", &id, "go", "--json"])
        .json();
    assert_eq!(told[0]["waiting"][0]["message"], "go");
    place.expect(0, &["send", &id, "and on"]);
    flow.refresh().unwrap();
    let taken = flow.take_inbox(&id);
    let said: Vec<_> = taken
        .iter()
        .map(|command| command.message().unwrap())
        .collect();
    assert_eq!(said, ["go", "and on"]);
    let refused = place.runlog(&["flow", "command", &id, r#"{"type":5}"#]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let nobody = RunId(store.backend().new_id()).to_string();
    let refused = place.runlog(&["flow", "send", &nobody, "--to", &nobody, "go"]);
    assert_eq!(refused.code, 3, "{}", refused.err);
}
