//! What agents under `runlog run` did, as runs.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use common::{Ends, Place, Said, fixture, said};
use serde_json::{Value, json};

/// The newest run, whole.
#[track_caller]
fn newest(place: &Place) -> Value {
    place
        .expect(0, &["run", "show", "@last", "--json"])
        .json()
        .remove(0)
}

#[track_caller]
fn items(place: &Place, command: &[&str]) -> Vec<Value> {
    place
        .expect(0, &[command, &["--json"]].concat())
        .json()
        .remove(0)["items"]
        .as_array()
        .unwrap()
        .clone()
}

/// The line of `runlog run --json` that is about this.
#[track_caller]
fn told(said: &Said, what: &str) -> Value {
    let found = said
        .json()
        .into_iter()
        .find_map(|mut line| line.get_mut(what).map(Value::take));
    found.unwrap_or_else(|| panic!("no {what}: {said:?}"))
}

#[test]
fn an_agent_is_recorded_as_a_run_with_its_steps_and_tool_calls() {
    let place = Place::new();
    let steps = [
        "ready",
        "say:one",
        "call:c1",
        "result:c1",
        "say:two",
        "done:{\"summary\":\"fixed \\u001b[31m it\"}",
    ];
    let said = place.script(
        &["--json", "--message", "Fix it.", "--agent", "coder"],
        &steps,
    );
    assert_eq!(said.code, 0, "{said:?}");
    let run = newest(&place);
    assert_eq!(
        (
            &run["status"],
            &run["step_count"],
            &run["agent_name"],
            &run["summary"]
        ),
        (
            &json!("completed"),
            &json!(3),
            &json!("coder"),
            &json!("fixed \u{1b}[31m it")
        )
    );
    assert_eq!(
        (
            &told(&said, "started")["run_id"],
            &told(&said, "ended")["run_id"]
        ),
        (&run["id"], &run["id"])
    );
    assert_eq!(told(&said, "ended")["status"], "completed");
    let id = run["id"].as_str().unwrap();
    let messages = items(&place, &["messages", id]);
    let numbers: Vec<_> = messages
        .iter()
        .map(|message| message["step_number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2, 2, 3]);
    assert_eq!(messages[0]["content"]["content"], "Fix it.");
    let calls = items(&place, &["tool-calls", id]);
    assert_eq!(
        (
            &calls[0]["status"],
            &calls[0]["duration_ms"],
            &calls[0]["step_number"]
        ),
        (&json!("completed"), &json!(12), &json!(2))
    );
    for command in [
        &["runs"][..],
        &["run", "show", id],
        &["messages", id],
        &["tool-calls", id],
    ] {
        let said = place.expect(0, command);
        assert!(
            !said.out.contains('\u{1b}') && !said.out.is_empty(),
            "{said:?}"
        );
    }
}

#[test]
fn how_an_agent_ends_is_how_its_run_ends() {
    let place = Place::new();
    for (steps, code, status, field, text) in [
        (&["say:x"][..], 0, "completed", "summary", Value::Null),
        (
            &["say:x", "exit:3"],
            7,
            "failed",
            "error_message",
            json!("the agent ended with exit code 3"),
        ),
        (
            &["say:x", "done:{\"pause_reason\":\"asks mia\"}"],
            0,
            "paused",
            "pause_reason",
            json!("asks mia"),
        ),
        (
            &["say:x", "done:{\"error_message\":\"no key\"}"],
            7,
            "failed",
            "error_message",
            json!("no key"),
        ),
        (
            &["raw:{\"type\":\"hello\",\"protocol\":9}", "sleep:20000"],
            1,
            "failed",
            "error_message",
            json!("the agent can't be run: this is protocol version 1; the agent asks for 9"),
        ),
    ] {
        let said = place.script(&[], steps);
        let run = newest(&place);
        assert_eq!(
            (said.code, &run["status"], &run[field]),
            (code, &json!(status), &text),
            "{said:?}"
        );
    }
    #[cfg(unix)]
    {
        assert_eq!(
            place.runlog(&["run", "--", "sh", "-c", "kill -9 $$"]).code,
            7
        );
        assert_eq!(
            newest(&place)["error_message"],
            "the agent was ended by signal 9"
        );
    }
}

#[test]
fn an_agent_may_count_its_steps_itself() {
    let place = Place::new();
    let steps = [
        "ready", "step", "ack", "say:a", "say:b", "step", "ack", "say:c",
    ];
    let said = place.script(&["--json", "--max-steps", "4"], &steps);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(
        told(&said, "step"),
        json!({"id": null, "step": 1, "steps_left": 3})
    );
    let run = newest(&place);
    let numbers: Vec<_> = items(&place, &["messages", run["id"].as_str().unwrap()])
        .iter()
        .map(|it| it["step_number"].clone())
        .collect();
    assert_eq!(
        (&run["step_count"], numbers),
        (&json!(2), vec![json!(1), json!(1), json!(2)])
    );
}

#[test]
fn a_spent_budget_pauses_the_run_and_a_resume_has_a_fresh_one() {
    let place = Place::new();
    let with = ["--json", "--name", "n", "--max-steps", "2"];
    let said = place.script(
        &with,
        &["ready", "say:1", "say:2", "say:3", "stop", "say:4"],
    );
    assert_eq!(said.code, 8, "{said:?}");
    let codes: Vec<_> = said
        .json()
        .iter()
        .filter_map(|line| Some(line.get("error")?["code"].clone()))
        .collect();
    assert_eq!(codes, ["step_budget", "run_over"]);
    let first = newest(&place);
    assert_eq!(
        (&first["status"], &first["step_count"]),
        (&json!("paused"), &json!(2))
    );
    assert_eq!(first["pause_reason"], "step budget spent");

    let said = place.script(
        &["--json", "--resume", "n", "--message", "On."],
        &["ready", "context", "ack", "step"],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let second = newest(&place);
    assert_eq!(
        (&second["resumed_from"], &second["step_count"]),
        (&first["id"], &json!(4))
    );
    assert_eq!(
        (&second["max_steps"], &second["status"]),
        (&json!(2), &json!("completed"))
    );
    let messages = items(&place, &["messages", second["id"].as_str().unwrap()]);
    assert_eq!(
        messages[0]["content"],
        json!({"role": "user", "content": "On."})
    );
    assert!(
        messages[1]["content"]["content"]
            .as_str()
            .unwrap()
            .starts_with("3 messages"),
        "{messages:?}"
    );
    assert_eq!(messages[1]["step_number"], 3);
    let shown = place
        .expect(0, &["run", "show", first["id"].as_str().unwrap(), "--json"])
        .json()
        .remove(0);
    assert_eq!(shown["resumed_by"], second["id"]);
}

#[test]
fn a_session_whose_run_has_ended_is_gone_on_with_where_that_is_asked_for() {
    let place = Place::new();
    for (steps, status) in [
        (&["ready", "say:x"][..], "completed"),
        (&["ready", "say:x", "exit:1"], "failed"),
    ] {
        place.script(&[], steps);
        let before = newest(&place)["id"].as_str().unwrap().to_owned();
        let said = place.script(
            &[
                "--resume",
                &before,
                "--ended",
                "--message",
                "and the tests?",
            ],
            &["ready", "context", "say:y"],
        );
        assert_eq!(said.code, 0, "{said:?}");
        let run = newest(&place);
        assert_eq!(
            (&run["resumed_from"], &run["status"]),
            (&before.as_str().into(), &"completed".into())
        );
        let shown = place.expect(0, &["run", "show", &before, "--json"]).json();
        assert_eq!(
            (&shown[0]["status"], &shown[0]["resumed_by"]),
            (&status.into(), &run["id"])
        );
        let again = place.expect(4, &["run", "--resume", &before, "--ended", "--", "true"]);
        assert!(again.err.contains("was resumed already"), "{again:?}");
    }
    place.expect(2, &["run", "--ended", "--", "true"]);
}

#[test]
fn only_a_paused_run_is_resumed() {
    let place = Place::new();
    let mark = place.path("started");
    let touch = ["--", "touch", mark.to_str().unwrap()];
    for (steps, status) in [
        (&["say:x"][..], "completed"),
        (&["say:x", "exit:1"], "failed"),
    ] {
        place.script(&[], steps);
        for json in [&[][..], &["--json"]] {
            let said = place.expect(4, &[&["run", "--resume", "@last"], json, &touch].concat());
            assert!(
                said.err
                    .contains(&format!("is {status}; only paused runs can be resumed")),
                "{said:?}"
            );
            for advice in ["--ended", "--overwrite", "--copy"] {
                assert_eq!(said.err.matches(advice).count(), 1, "{advice}: {said:?}");
            }
            assert!(
                said.err.contains("--overwrite")
                    && (json.is_empty() || said.err.contains("wrong_status"))
            );
        }
    }
    assert!(!mark.exists(), "no program was started for it");
    // A new run goes on in the session all the same.
    assert_eq!(
        place
            .script(&["--overwrite", "@last"], &["ready", "say:y"])
            .code,
        0
    );
    assert_eq!(items(&place, &["runs"]).len(), 3);
    // A run that was resumed can't be resumed again, by its own id neither.
    place.script(
        &["--name", "p"],
        &["say:x", "done:{\"pause_reason\":\"waits\"}"],
    );
    let first = newest(&place)["id"].as_str().unwrap().to_owned();
    assert_eq!(
        place
            .script(&["--resume", &first[..30]], &["ready", "say:y"])
            .code,
        0
    );
    let said = place.script(&["--resume", &first], &["ready"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("was resumed already"), "{said:?}");
    assert_eq!(
        place
            .script(
                &["--resume", "0198c7e0-0000-7000-8000-000000000000"],
                &["ready"]
            )
            .code,
        3
    );
}

#[test]
fn a_run_of_500_steps_is_not_resumed() {
    let place = Place::new();
    let says = vec!["say:x"; 501];
    assert_eq!(
        place
            .script(&["--name", "n", "--max-steps", "499"], &says)
            .code,
        8
    );
    assert_eq!(
        place
            .script(
                &["--resume", "n"],
                &["say:x", "done:{\"pause_reason\":\"waits\"}"]
            )
            .code,
        0
    );
    assert_eq!(newest(&place)["step_count"], 500);
    let said = place.expect(4, &["run", "--json", "--resume", "n", "--", "true"]);
    assert!(
        [
            "limit_reached",
            "maximum total steps of 500",
            "--max-total-steps N allows more"
        ]
        .iter()
        .all(|told| said.err.contains(told)),
        "{said:?}"
    );
    let listed = place.expect(0, &["resume", "--list"]).out;
    assert!(listed.contains("all 500 steps"), "{listed}");
    assert!(
        listed.contains("--max-total-steps N allows more"),
        "{listed}"
    );
    let more = ["--resume", "n", "--max-total-steps", "501"];
    assert_eq!(place.script(&more, &["say:x"]).code, 0);
    assert_eq!(newest(&place)["step_count"], 501);
    // It says how a run is resumed, and says nothing of a new one.
    place.expect(2, &["run", "--max-total-steps", "9", "--", "true"]);
}

#[test]
fn whoever_gives_resume_a_run_is_told_which_command_resumes_it() {
    let place = Place::new();
    for given in [&["resume", "@last"][..], &["resume", "@last", "--", "true"]] {
        let said = place.expect(2, given).err;
        assert!(
            said.contains("`runlog run --resume @last -- CMD`"),
            "{said}"
        );
    }
}

#[test]
fn a_session_without_a_run_gets_one() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-messages.jsonl")]);
    assert_eq!(
        place
            .script(
                &["--resume", "openai-messages"],
                &["ready", "context", "ack"]
            )
            .code,
        0
    );
    let run = newest(&place);
    assert_eq!(
        (&run["status"], run.get("resumed_from")),
        (&json!("completed"), None)
    );
    let messages = items(&place, &["messages", run["id"].as_str().unwrap()]);
    assert_eq!(messages.len(), 1, "what was imported is no run's");
    // A copy has no run of its own either.
    assert_eq!(
        place
            .script(
                &["--copy", "openai-messages", "--name", "c"],
                &["say:x", "exit:1"]
            )
            .code,
        7
    );
    let copied = newest(&place);
    assert_ne!(copied["session_id"], run["session_id"]);
}

#[test]
fn open_tool_calls_are_closed_before_the_message_or_left_to_the_agent() {
    for (with, left) in [
        (&[][..], "0 dangling"),
        (&["--leave-tool-calls"], "1 dangling"),
    ] {
        let place = Place::new();
        place.script(
            &["--name", "n"],
            &["call:c1", "done:{\"pause_reason\":\"waits\"}"],
        );
        let answers: &[&str] = if with.is_empty() {
            &[]
        } else {
            &["result:c1", "ack"]
        };
        let steps = [&["ready"], answers, &["dangling", "ack"]].concat();
        let said = place.script(&[&["--resume", "n"], with].concat(), &steps);
        assert_eq!(
            (said.code, said.err.contains("closed 1 tool call")),
            (0, with.is_empty()),
            "{said:?}"
        );
        let messages = items(
            &place,
            &["messages", newest(&place)["id"].as_str().unwrap()],
        );
        // Where the call is left open, no message that tells the agent to continue stands between it and its result.
        assert_eq!(
            messages[0]["role"],
            if with.is_empty() { "user" } else { "tool" }
        );
        assert_eq!(messages.len(), 2);
        assert_eq!(messages.last().unwrap()["content"]["content"], left);
    }
    // Nor is one of the agent's own recorded there.
    let place = Place::new();
    let said = place.script(
        &["--json"],
        &[
            "ready",
            "call:c1",
            "ack",
            "say:too early",
            "result:c1",
            "ack",
            "say:x",
            "ack",
        ],
    );
    assert!(said.out.contains("these calls have none: c1"), "{said:?}");
    let messages = items(
        &place,
        &["messages", newest(&place)["id"].as_str().unwrap()],
    );
    assert_eq!(messages.len(), 3);
    let place = Place::new();
    assert_eq!(place.script(&["--leave-tool-calls"], &["say:x"]).code, 2);
}

#[test]
fn run_show_stands_beside_programs_of_that_name() {
    let place = Place::new();
    place.script(&[], &["say:x"]);
    let shown = place.expect(0, &["run", "show", "@last"]).out;
    assert!(shown.contains("completed"), "{shown}");
    // After `--` it is a program, and there is none of that name.
    assert!(
        place
            .expect(3, &["run", "--", "show", "@last"])
            .err
            .contains("can't run \"show\"")
    );
    place.expect(2, &["run", "--name", "n", "show", "@last"]);
    place.expect(2, &["run", "show"]);
    assert!(place.expect(0, &["run", "--help"]).out.contains("show"));
    assert!(!place.expect(0, &["runs", "--help"]).out.contains("show  "));
    place.expect(0, &["man", "pages"]);
    assert!(place.path("pages/runlog-run-show.1").exists());
    for shell in ["zsh", "fish"] {
        assert!(
            place
                .expect(0, &["completions", shell])
                .out
                .contains("Show a run"),
            "{shell}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_signal_pauses_the_run_and_a_second_one_kills_an_agent_that_ignores_it() {
    let place = Place::new();
    let agent = r#"trap '' INT TERM; echo '{"type":"message","message":{"role":"user","content":"hi"}}'; while :; do sleep 1; done"#;
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let command = ["run", "--json", "--", "sh", "-c", agent];
        let mut child = place.command(&command).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("ack") {}
        let started = Instant::now();
        signal(child.id(), name);
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it waits for the agent"
        );
        signal(child.id(), name);
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let said = said(child.wait_with_output().unwrap());
        assert_eq!(said.code, 128 + number, "{said:?} {rest:?}");
        assert!(started.elapsed() < Duration::from_secs(10));
        let run = newest(&place);
        let reason = format!("interrupted: signal {number} told runlog to stop");
        assert_eq!(
            (&run["status"], &run["pause_reason"]),
            (&json!("paused"), &json!(reason))
        );
    }
    assert_eq!(
        place
            .script(&["--resume", "@last"], &["ready", "say:again"])
            .code,
        0
    );
}

#[test]
#[cfg(unix)]
fn an_agent_that_does_not_end_when_its_steps_are_spent_is_ended() {
    let place = Place::new();
    let line = r#"{"type":"message","message":{"role":"assistant","content":"hi"}}"#;
    let agent = format!("trap '' TERM; while :; do echo '{line}' || exit; sleep 0.2; done");
    let command = ["run", "--json", "--max-steps", "1", "--", "sh", "-c"];
    let said = place.expect(8, &[&command[..], &[&agent]].concat());
    // It never ends by itself, and not when it is asked to.
    let ended = said.json().pop().unwrap();
    assert_eq!(ended["ended"]["signal"], 9, "{ended}");
    assert_eq!(
        (
            newest(&place)["status"].clone(),
            newest(&place)["step_count"].clone()
        ),
        (json!("paused"), json!(1))
    );
}

#[test]
fn a_recorder_that_is_killed_leaves_a_run_that_is_paused_and_resumed() {
    let place = Place::new();
    let mut recorder = Ends(
        place
            .scripted(
                &["--json", "--name", "n"],
                &["ready", "say:one", "call:c1", "ack", "ack", "sleep:20000"],
            )
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("\"id\":2") {}
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
    // What looks at one thing changes nothing: the run is as it was left. Neither does what can't find it.
    for command in [
        &["ls"][..],
        &["stat"],
        &["flows"],
        &["runs", "--status", "completed"],
    ] {
        place.expect(0, command);
        let shown = place.expect(0, &["run", "show", "@last", "--json"]).json();
        assert_eq!(shown[0]["status"], "running", "{command:?}: {shown:?}");
    }
    for command in ["runs", "flows", "resume"] {
        let help = place.expect(0, &[command, "--help"]).out;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("which writes to the store"), "{help}");
    }
    // The very commands that one types then find it.
    let paused = place.expect(0, &["runs", "--status", "paused", "--json"]);
    assert_eq!(
        paused.json()[0]["items"].as_array().unwrap().len(),
        1,
        "{paused:?}"
    );
    assert_eq!(newest(&place)["status"], "paused");
    let listed = place
        .expect(0, &["resume", "--list", "--json"])
        .json()
        .remove(0);
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
    assert!(
        listed["items"][0]["command"]
            .as_str()
            .unwrap()
            .contains("--resume"),
        "{listed}"
    );
    let said = place.script(
        &["--json", "--resume", "n"],
        &["ready", "context", "ack", "dangling"],
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(told(&said, "started")["step_count"], 2);
    let runs = items(&place, &["runs"]);
    assert_eq!(
        (&runs[0]["step_count"], &runs[1]["step_count"]),
        (&json!(4), &json!(2))
    );
    let first = place
        .expect(
            0,
            &["run", "show", runs[1]["id"].as_str().unwrap(), "--json"],
        )
        .json()
        .remove(0);
    assert_eq!(first["status"], "paused");
    assert!(
        first["pause_reason"].as_str().unwrap().contains("orphaned"),
        "{first}"
    );
    let calls = items(&place, &["tool-calls", runs[1]["id"].as_str().unwrap()]);
    assert_eq!(calls[0]["status"], "error", "it was closed");
}

#[test]
fn a_recorder_that_is_killed_again_and_again_loses_nothing_acknowledged_and_counts_each_step_once()
{
    let place = Place::new();
    let mut acknowledged = 0;
    for round in 0..8_u64 {
        let with: &[&str] = if round == 0 {
            &["--json", "--name", "n"]
        } else {
            &["--json", "--resume", "n"]
        };
        let says: Vec<String> = (0..200)
            .map(|index| format!("say:{round}.{index}"))
            .collect();
        let steps: Vec<&str> = std::iter::once("ready")
            .chain(says.iter().flat_map(|say| [say, "ack"]))
            .collect();
        let mut recorder = Ends(place.scripted(with, &steps).spawn().unwrap());
        let lines = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
        let mut acks = 0;
        // Killed at another place each time; what is acknowledged until it is dead counts.
        for line in lines.map_while(Result::ok) {
            acks += u64::from(line.starts_with("{\"ack\"") && line.ends_with('}'));
            if acks == round * 7 + 3 {
                recorder.0.kill().unwrap();
            }
        }
        recorder.0.wait().unwrap();
        acknowledged += acks;
    }
    assert_eq!(
        place.script(&["--resume", "n"], &["ready", "say:end"]).code,
        0
    );
    let runs = items(&place, &["runs"]);
    assert_eq!(runs.len(), 9);
    for pair in runs.windows(2) {
        assert_eq!(
            (&pair[0]["resumed_from"], &pair[1]["status"]),
            (&pair[1]["id"], &json!("paused"))
        );
    }
    let events = place.expect(0, &["replay", "n", "--json"]).json();
    let mut said: Vec<&str> = events
        .iter()
        .filter_map(|event| event["content"]["content"].as_str())
        .collect();
    said.retain(|text| !text.starts_with("Continue"));
    let count = said.len() as u64;
    assert!(
        count > acknowledged,
        "{count} recorded, {acknowledged} acknowledged"
    );
    assert_eq!(runs[0]["step_count"], count, "each message is a step");
    said.sort_unstable();
    said.dedup();
    assert_eq!(said.len() as u64, count, "nothing is there twice");
}

#[cfg(unix)]
fn signal(process: u32, name: &str) {
    let status = std::process::Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}
