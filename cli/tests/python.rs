//! The client of the agent protocol in plain Python, `examples/runlog_agent.py`, as a lead that spawns workers.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::Command,
};

use common::Place;
use serde_json::{Value, json};

/// The program, and a file of two agents that it plays too.
fn prepared(place: &Place) -> (String, String) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/runlog_agent.py");
    let program = program.canonicalize().unwrap().to_str().unwrap().to_owned();
    let agents = ["left", "right"].map(|name| {
        let command = ["python3", "-I", &program];
        json!({"name": name, "description": "d", "system_prompt": "s", "command": command})
    });
    let file = json!({"project": "papers", "agents": agents}).to_string();
    let file = place
        .write("agents.json", file)
        .to_str()
        .unwrap()
        .to_owned();
    (program, file)
}

fn runs(place: &Place) -> Vec<Value> {
    let listed = place.expect(0, &["runs", "--json"]).json();
    listed[0]["items"].as_array().unwrap().clone()
}

#[test]
fn a_python_program_records_lists_and_spawns_like_any_agent() {
    let place = Place::new();
    let (program, file) = prepared(&place);
    let run = [
        "run",
        "--agents",
        &file,
        "--name",
        "s",
        "--message",
        "count",
    ];
    place.expect(0, &[&run[..], &["--", "python3", "-I", &program]].concat());
    let runs = runs(&place);
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert!(
        runs.iter().all(|run| run["status"] == "completed"),
        "{runs:?}"
    );
    let lead = runs
        .iter()
        .find(|run| run["parent_run_id"].is_null())
        .unwrap();
    let shown = place
        .expect(0, &["run", "show", lead["id"].as_str().unwrap(), "--json"])
        .json();
    let summary = shown[0]["summary"].as_str().unwrap();
    for name in ["left", "right"] {
        let told = format!(
            "{name}: completed, count ({name}) ['ZeroDivisionError: division by zero', 5.0]"
        );
        assert!(summary.contains(&told), "{summary}");
    }
    for worker in runs.iter().filter(|run| !run["parent_run_id"].is_null()) {
        assert_eq!(worker["parent_run_id"], lead["id"]);
        let calls = place
            .expect(0, &["tool-calls", worker["id"].as_str().unwrap(), "--json"])
            .json();
        let calls = calls[0]["items"].as_array().unwrap().clone();
        let told: Vec<_> = calls
            .iter()
            .map(|call| (&call["status"], &call["output"]))
            .collect();
        let (error, gave) = (json!("ZeroDivisionError: division by zero"), json!("5.0"));
        assert_eq!(
            told,
            [(&json!("error"), &error), (&json!("completed"), &gave)]
        );
        assert!(
            calls.iter().all(|call| call["duration_ms"].is_number()),
            "{calls:?}"
        );
    }
}

#[test]
fn a_python_program_is_stopped_by_its_budget_and_its_run_is_paused() {
    let place = Place::new();
    let (program, file) = prepared(&place);
    let run = ["run", "--agents", &file, "--name", "s", "--max-steps", "1"];
    let said = place.expect(8, &[&run[..], &["--", "python3", "-I", &program]].concat());
    assert!(said.err.contains("Stopped: step_budget"), "{}", said.err);
    let lead = runs(&place)
        .into_iter()
        .find(|run| run["parent_run_id"].is_null());
    assert_eq!(lead.unwrap()["status"], "paused");
}

#[test]
fn a_python_program_that_is_stopped_has_a_while_for_its_last_words() {
    let place = Place::new();
    let (program, _) = prepared(&place);
    let arguments = [
        "run",
        "--json",
        "--message",
        "listen",
        "--",
        "python3",
        "-I",
        &program,
    ];
    let mut run = place.command(&arguments).spawn().unwrap();
    // Once something of it is recorded, it is ready to be stopped.
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| line.unwrap());
    assert!(lines.any(|line| line.starts_with("{\"ack\"")));
    let pid = run.id().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.unwrap().success());
    let told: Vec<String> = lines.collect();
    assert_eq!(run.wait().unwrap().code(), Some(128 + 15), "{told:?}");
    let run = runs(&place).remove(0);
    let id = run["id"].as_str().unwrap();
    let shown = place.expect(0, &["run", "show", id, "--json"]).json();
    assert_eq!(
        (&shown[0]["status"], &shown[0]["stop_kind"]),
        (&json!("paused"), &json!("shutdown"))
    );
    assert_eq!(shown[0]["pause_reason"], "interrupted");
    let messages = place.expect(0, &["messages", id, "--json"]).json();
    let last = messages[0]["items"]
        .as_array()
        .unwrap()
        .last()
        .unwrap()
        .clone();
    assert_eq!(last["content"]["content"], "stopped: interrupted");
}
