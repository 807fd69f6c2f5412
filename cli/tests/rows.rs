//! What was once found wanting in the command and in `runlog mcp`, row by row, as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Ends, Place};
use serde_json::{Value, json};

/// A raw client of `runlog mcp`: a line at a time.
struct Raw {
    process: Ends,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Raw {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut process = place
            .command(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut client = Self {
            stdin: process.stdin.take(),
            process: Ends(process),
            stdout,
        };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.say(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        client.hear(|message| message["id"] == 0);
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next message that is wanted; others are passed over.
    fn hear(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "it goes on talking"
            );
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&message) {
                return message;
            }
        }
    }

    fn call(&mut self, id: u64, tool: &str, arguments: Value) -> Value {
        self.begin(id, tool, arguments);
        self.hear(|message| message["id"] == id)["result"]["structuredContent"].take()
    }

    fn begin(&mut self, id: u64, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    /// Waits until a run of an agent has a status.
    fn until(&mut self, agent: &str, status: &str) -> Value {
        loop {
            let mut found = self.call(
                1_000,
                "list_runs",
                json!({"agent_name": agent, "status": status}),
            );
            if found["items"][0].is_object() {
                return found["items"][0].take();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Agents that are the agent of the tests, with what each does.
fn agents(place: &Place, agents: &[(&str, &[&str])]) {
    let agents: Vec<Value> = agents
        .iter()
        .map(|(name, steps)| {
            let mut command = vec![env!("CARGO_BIN_EXE_scripted-agent")];
            command.extend(*steps);
            json!({"name": name, "command": command})
        })
        .collect();
    place.write("agents.json", json!({"agents": agents}).to_string());
}

const MCP: [&str; 3] = ["mcp", "--agents", "agents.json"];

/// The programs that work for a process.
#[cfg(target_os = "linux")]
fn programs_of(process: &Child) -> Vec<String> {
    let found = Command::new("pgrep")
        .args(["-P", &process.id().to_string()])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found.lines().map(str::to_owned).collect()
}

/// Waits until a process is gone, or is one that nobody has waited for yet.
#[cfg(target_os = "linux")]
fn is_gone_soon(process: &str) -> bool {
    let patience = Instant::now() + Duration::from_secs(5);
    while Instant::now() < patience {
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = state.rsplit(')').next().unwrap_or_default().trim_start();
        if state.is_empty() || state.starts_with('Z') {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
#[cfg(target_os = "linux")]
fn a14_a_program_does_not_live_on_when_the_server_that_records_it_is_killed() {
    let place = Place::new();
    agents(
        &place,
        &[("slow", &["ready", "say:Begun.", "ack", "sleep:60000"])],
    );
    let mut client = Raw::start(&place, &MCP);
    client.begin(
        1,
        "spawn_agents",
        json!({"requests": [{"agent_name": "slow", "task": "Go."}]}),
    );
    client.until("slow", "running");
    let programs = programs_of(&client.process.0);
    assert_eq!(programs.len(), 1);
    client.process.0.kill().unwrap();
    client.process.0.wait().unwrap();
    assert!(
        is_gone_soon(&programs[0]),
        "one that is resumed would work beside it"
    );

    agents(&place, &[("slow", &["ready", "context", "ack"])]);
    let mut client = Raw::start(&place, &["mcp", "--agents", "agents.json", "--resume"]);
    client.until("slow", "completed");
}

#[test]
#[cfg(target_os = "linux")]
fn a14_a_program_does_not_live_on_when_the_run_that_records_it_is_killed() {
    let place = Place::new();
    let mut recorder = Ends(
        place
            .scripted(&[], &["ready", "say:Begun.", "ack", "sleep:60000"])
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("Begun."));
    let programs = programs_of(&recorder.0);
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    assert!(
        programs.len() == 1 && is_gone_soon(&programs[0]),
        "{programs:?}"
    );
}

#[test]
fn a8_a_client_that_goes_leaves_what_was_paused_as_it_was_and_pauses_the_rest() {
    let place = Place::new();
    agents(
        &place,
        &[
            ("slow", &["ready", "say:Begun.", "ack", "sleep:60000"]),
            ("timed", &["ready", "sleep:60000"]),
        ],
    );
    let mut client = Raw::start(&place, &MCP);
    let timed = json!({"requests": [{"agent_name": "timed", "task": "Go.", "timeout": 0.1}]});
    let timed = client.call(1, "spawn_agents", timed)["results"][0].take();
    assert_eq!(timed["stop_kind"], "timeout", "{timed}");
    client.begin(
        2,
        "spawn_agents",
        json!({"requests": [{"agent_name": "slow", "task": "Go."}]}),
    );
    client.until("slow", "running");
    drop(client.stdin.take());
    assert_eq!(client.process.0.wait().unwrap().code(), Some(0));
    let runs = place.expect(0, &["--json", "runs"]).json();
    let kind = |agent: &str| {
        let run = runs
            .iter()
            .flat_map(|page| page["items"].as_array().unwrap());
        let run = run
            .into_iter()
            .find(|run| run["agent_name"] == agent)
            .unwrap();
        let id = run["id"].as_str().unwrap().to_owned();
        let run = place.expect(0, &["--json", "run", "show", &id]).json();
        (run[0]["status"].clone(), run[0]["stop_kind"].clone())
    };
    assert_eq!(kind("timed"), (json!("paused"), json!("timeout")));
    assert_eq!(kind("slow").0, "paused");
}

#[test]
fn a11_what_a_killed_recorder_left_is_listed_at_once_with_how_to_go_on() {
    let place = Place::new();
    let mut recorder = Ends(
        place
            .scripted(&[], &["ready", "say:Begun.", "ack", "sleep:60000"])
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("Begun."));
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    let listed = place.expect(0, &["resume", "--list", "--json"]).json();
    let run = &listed[0]["items"][0];
    assert_eq!(
        (&run["stop_kind"], &run["can_resume"]),
        (&json!("orphaned"), &json!(true)),
        "{listed:?}"
    );
    let resumed = place.script(
        &["--resume", run["id"].as_str().unwrap()],
        &["ready", "context", "ack"],
    );
    assert_eq!(resumed.code, 0, "{resumed:?}");
}

#[test]
fn b27_an_overwritten_session_forgets_what_its_sub_agents_wrote_since() {
    let place = Place::new();
    agents(&place, &[("helper", &["ready", "say:Helped.", "ack"])]);
    let spawn =
        r#"raw:{"type":"spawn_agents","id":9,"requests":[{"agent_name":"helper","task":"Help."}]}"#;
    let said = place.script(
        &["--agents", "agents.json"],
        &["ready", "say:First.", "ack", spawn, "await:spawned"],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let helped = |said: &str| said.contains("Helped.");
    let session = place.expect(0, &["--json", "ls"]).json()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(helped(
        &place
            .expect(0, &["export", &session, "--format", "events"])
            .out
    ));
    let again = place.script(
        &["--overwrite", &session, "--from-point", "1"],
        &["ready", "context", "ack"],
    );
    assert_eq!(again.code, 0, "{again:?}");
    assert!(!helped(
        &place
            .expect(0, &["export", &session, "--format", "events"])
            .out
    ));
}

#[test]
fn f9_a_run_that_paused_is_told_with_its_reason() {
    let place = Place::new();
    let spent = place.script(
        &["--max-steps", "1"],
        &["ready", "step", "ack", "say:1", "ack", "step", "ack"],
    );
    assert!(
        spent.err.contains("is paused (step budget spent)"),
        "{spent:?}"
    );
    let asked = place.script(
        &["--json"],
        &["ready", r#"done:{"pause_reason":"asks for leave"}"#],
    );
    let ended = asked.json().pop().unwrap();
    assert_eq!(
        (&ended["ended"]["status"], &ended["ended"]["reason"]),
        (&json!("paused"), &json!("asks for leave"))
    );
}

#[test]
fn f10_a_store_in_use_is_told_with_a_time_that_people_read() {
    let place = Place::new();
    let mut recorder = Ends(
        place
            .scripted(&[], &["ready", "say:Begun.", "ack", "sleep:60000"])
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("Begun."));
    let refused = place.script(&[], &["ready"]);
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.err.contains(" UTC;") && !refused.err.contains("1970"),
        "{refused:?}"
    );
}

#[test]
fn d42_a_flow_that_is_given_without_a_program_is_refused() {
    let place = Place::new();
    let alone = place.expect(
        2,
        &["record-fixtures", "--output", "o", "--flow", "flow.json"],
    );
    assert!(alone.err.contains("COMMAND"), "{alone:?}");
}
