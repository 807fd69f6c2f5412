//! Agents that are run and recorded, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader},
    time::{Duration, Instant},
};

use common::{Ends, Place, Said, said};
use serde_json::Value;

/// What a line of `runlog run --json` is about.
fn all<'a>(lines: &'a [Value], what: &str) -> Vec<&'a Value> {
    lines.iter().filter_map(|line| line.get(what)).collect()
}

/// What an agent's messages say, in order.
fn contents(place: &Place, session: &str) -> Vec<String> {
    let events = place.expect(0, &["replay", "--json", session]).json();
    events
        .iter()
        .map(|event| {
            event["content"]["content"]
                .as_str()
                .unwrap_or("-")
                .to_owned()
        })
        .collect()
}

#[track_caller]
fn ended(said: &Said) -> Value {
    let lines = said.json();
    let ended = all(&lines, "ended");
    assert_eq!(ended.len(), 1, "{said:?}");
    ended[0].clone()
}

#[test]
fn each_line_is_acknowledged_with_its_sequence() {
    let place = Place::new();
    let said = place.script(
        &["--json", "--name", "n", "--title", "T"],
        &[
            "ready",
            "say:one",
            "ack",
            "call:c1",
            "ack",
            "result:c1",
            "ack",
            "say:two",
            "ack",
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let lines = said.json();
    let acks: Vec<_> = all(&lines, "ack")
        .iter()
        .map(|ack| {
            (
                ack["id"].clone(),
                ack["sequence"].clone(),
                ack["last_sequence"].clone(),
            )
        })
        .collect();
    let ack = |id: u64, sequence: u64, last: u64| (id.into(), sequence.into(), last.into());
    assert_eq!(
        acks,
        [
            ack(1, 1, 1),
            ack(2, 2, 3),
            (Value::Null, 4.into(), 4.into()),
            ack(3, 5, 5)
        ]
    );
    assert_eq!(ended(&said)["events"], 5);
    assert_eq!(contents(&place, "n"), ["one", "-", "-", "ok", "two"]);
    assert!(place.expect(0, &["ls"]).out.contains('T'));
    // How the run went is kept beside its messages, and is no message.
    let shown = place.expect(0, &["show", "n"]).out;
    assert!(shown.contains("· run new by `"), "{shown}");
    assert!(
        shown.contains("· run ended with exit code 0, 5 events recorded"),
        "{shown}"
    );
    assert!(
        place
            .expect(0, &["export", "n"])
            .out
            .contains("\"exit_code\":0")
    );
    assert!(
        !place
            .expect(0, &["export", "--format", "claude-code", "n"])
            .out
            .contains("exit_code")
    );
}

#[test]
fn the_id_of_a_line_may_be_any_json() {
    let place = Place::new();
    let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
    for id in ["1e400", r#""\ud800""#, &deep] {
        let taken = format!(
            r#"raw:{{"type":"message","id":{id},"message":{{"role":"user","content":"x"}}}}"#
        );
        let refused = format!(r#"raw:{{"type":"message","id":{id}}}"#);
        let step = format!(r#"raw:{{"type":"step","id":{id}}}"#);
        let said = place.script(
            &["--json"],
            &["ready", &taken, &refused, &step, "sleep:100"],
        );
        assert_eq!(said.code, 0, "{said:?}");
        for what in ["ack", "error", "step"] {
            let line = format!("{{\"{what}\":{{\"id\":{id},");
            assert!(said.out.contains(&line), "{what}: {said:?}");
        }
    }
}

#[test]
fn an_agent_says_what_its_run_took_and_is_told_once_that_is_kept() {
    let place = Place::new();
    let said = place.script(
        &["--json"],
        &[
            "ready",
            "say:one",
            "ack",
            r#"raw:{"type":"describe","id":"d","usage":{"input_tokens":812},"metadata":[7]}"#,
            "await:described",
            "ack",
            r#"raw:{"type":"describe","usage":7}"#,
            "ack",
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(ended(&said)["refused"], 1);
    let lines = said.json();
    let refused = all(&lines, "error");
    assert_eq!(refused[0]["code"], "invalid_message");
    let shown = place.expect(0, &["run", "show", "@last", "--json"]).json();
    assert_eq!(shown[0]["usage"], serde_json::json!({"input_tokens": 812}));
    assert_eq!(shown[0]["metadata"], serde_json::json!([7]));
}

#[test]
fn an_agent_need_not_wait_nor_read() {
    let place = Place::new();
    let many: Vec<String> = (0..3000).map(|index| format!("say:{index}")).collect();
    let steps: Vec<&str> = many.iter().map(String::as_str).collect();
    let said = place.script(&["--json"], &steps);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(ended(&said)["events"], 3000);
    let expected: Vec<String> = (0..3000).map(|index: u32| index.to_string()).collect();
    assert_eq!(contents(&place, "@last"), expected);
}

#[test]
fn an_agent_that_goes_on_gets_its_context() {
    let place = Place::new();
    place.script(&["--name", "n"], &["ready", "say:one", "call:c1"]);
    let said = place.script(
        &["--overwrite", "n"],
        &[
            "ready",
            "result:c1",
            "ack",
            "context",
            "dangling",
            "ack",
            "ack",
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    let now = contents(&place, "n");
    assert!(
        now[4].starts_with("2 messages, the last {\"content\":null,\"role\":\"assistant\""),
        "{now:?}"
    );
    assert_eq!(now[5], "1 dangling");
    place.script(&["--overwrite", "n"], &["ready", "call:c2", "ack"]);

    let said = place.script(
        &["--overwrite", "n", "--close-tool-calls"],
        &["ready", "dangling", "ack"],
    );
    assert!(said.err.contains("closed 1 tool call"), "{said:?}");
    assert_eq!(contents(&place, "n").last().unwrap(), "0 dangling");
}

#[test]
fn a_message_after_an_open_call_is_refused_with_the_option_that_closes_it() {
    let place = Place::new();
    place.script(&["--name", "n"], &["ready", "say:one", "call:c1", "ack"]);
    let said = place.script(&["--copy", "n"], &["ready", "say:two", "ack"]);
    assert!(
        said.err.contains("`runlog run --close-tool-calls`"),
        "{said:?}"
    );
}

#[test]
fn what_says_how_a_run_is_resumed_is_refused_where_none_is() {
    let place = Place::new();
    place.script(&["--name", "n"], &["say:one"]);
    for option in ["--ended", "--no-message", "--leave-tool-calls"] {
        for mode in [["--copy", "n"], ["--overwrite", "n"], ["--name", "new"]] {
            let said = place.script(&[mode[0], mode[1], option], &["say:two"]);
            assert_eq!(said.code, 2, "{option} {mode:?}: {}", said.err);
            assert!(said.err.contains(option), "{}", said.err);
        }
    }
    assert_eq!(contents(&place, "n"), ["one"]);
}

#[test]
fn a_copy_goes_on_apart_and_an_overwritten_session_forgets() {
    let place = Place::new();
    place.script(&["--name", "n"], &["say:one", "say:two", "say:three"]);
    place.script(
        &["--copy", "n", "--to-point", "2", "--name", "copy"],
        &["ready", "say:other"],
    );
    assert_eq!(contents(&place, "copy"), ["one", "two", "other"]);
    assert_eq!(contents(&place, "n"), ["one", "two", "three"]);

    place.script(
        &["--overwrite", "n", "--from-point", "1"],
        &["ready", "context"],
    );
    let now = contents(&place, "n");
    assert_eq!(now.len(), 2);
    assert!(now[1].starts_with("1 messages"), "{now:?}");
    assert_eq!(contents(&place, "copy"), ["one", "two", "other"]);

    assert_eq!(
        place
            .script(&["--overwrite", "n", "--from-point", "99"], &["ready"])
            .code,
        2
    );
    assert_eq!(place.script(&["--resume", "nobody"], &["ready"]).code, 3);
    assert_eq!(
        place
            .script(&["--resume", "n", "--copy", "n"], &["ready"])
            .code,
        2
    );
    assert_eq!(place.script(&["--to-point", "1"], &["ready"]).code, 2);
    assert_eq!(place.script(&["--name", "n"], &["ready"]).code, 4);
}

#[test]
fn a_second_result_of_a_call_is_a_wrong_line_and_the_rest_goes_on() {
    let place = Place::new();
    let steps = ["call:c1", "result:c1", "result:c1", "result:c2", "say:end"];
    let said = place.script(&["--json"], &steps);
    assert_eq!(said.code, 0, "{said:?}");
    let lines = said.json();
    let refused: Vec<_> = all(&lines, "error")
        .iter()
        .map(|error| {
            (
                error["line"].as_u64(),
                error["code"].as_str().map(str::to_owned),
            )
        })
        .collect();
    let wrong = |line| (Some(line), Some("invalid_message".to_owned()));
    assert_eq!(refused, [wrong(3), wrong(4)]);
    assert_eq!(ended(&said)["refused"], 2);
    let shown = place.expect(0, &["run", "show", "@last", "--json"]).json();
    assert_eq!(shown[0]["status"], "completed");
}

#[test]
fn a_wrong_line_is_answered_and_counted_and_the_rest_goes_on() {
    let place = Place::new();
    let steps = [
        "raw:not json",
        "say:one",
        "raw:{\"type\":\"dance\",\"id\":\"d\"}",
        "raw:{\"type\":\"message\",\"id\":9,\"message\":{\"role\":\"king\",\"content\":\"\"}}",
        "raw:",
        "raw:[1]",
        "say:two",
    ];
    let said = place.script(&["--json"], &steps);
    assert_eq!(said.code, 0, "{said:?}");
    let lines = said.json();
    let codes: Vec<_> = all(&lines, "error")
        .iter()
        .map(|error| {
            (
                error["line"].as_u64().unwrap(),
                error["code"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let code = |line, code: &str| (line, code.to_owned());
    assert_eq!(
        codes,
        [
            code(1, "invalid_json"),
            code(3, "unknown_type"),
            code(4, "invalid_message"),
            code(6, "invalid_json")
        ]
    );
    assert_eq!(all(&lines, "error")[2]["id"], 9);
    assert_eq!(
        (&ended(&said)["events"], &ended(&said)["refused"]),
        (&2.into(), &4.into())
    );
    assert_eq!(contents(&place, "@last"), ["one", "two"]);
    // The agent is told of each.
    assert_eq!(
        place
            .script(&[], &["ready", "raw:oops", "ack", "say:told"])
            .code,
        0
    );
}

#[test]
fn an_agent_that_dies_in_the_middle_of_a_line_loses_that_line_alone() {
    let place = Place::new();
    let said = place.script(
        &["--json"],
        &["say:one", "partial:{\"type\":\"message\",\"mess", "exit:3"],
    );
    assert_eq!(said.code, 7, "{said:?}");
    let ended = ended(&said);
    assert_eq!(
        (&ended["exit_code"], &ended["events"], &ended["refused"]),
        (&3.into(), &1.into(), &1.into())
    );
    assert_eq!(contents(&place, "@last"), ["one"]);
    // A last line that is whole but for its line feed counts.
    let whole =
        "partial:{\"type\":\"message\",\"message\":{\"role\":\"user\",\"content\":\"last\"}}";
    assert_eq!(place.script(&[], &["say:one", whole]).code, 0);
    assert_eq!(contents(&place, "@last"), ["one", "last"]);
}

#[test]
fn a_huge_line_is_dropped_and_told() {
    let place = Place::new();
    let said = place.script(&["--json"], &["say:one", "big:67108865", "say:two"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let lines = said.json();
    assert_eq!(all(&lines, "error")[0]["code"], "too_large");
    assert_eq!(contents(&place, "@last"), ["one", "two"]);
}

#[test]
fn a_key_makes_a_line_be_recorded_once() {
    let place = Place::new();
    let line = "raw:{\"type\":\"message\",\"id\":1,\"key\":\"k1\",\"message\":{\"role\":\"user\",\"content\":\"once\"}}";
    let said = place.script(
        &["--json", "--name", "n"],
        &["ready", line, "ack", line, "ack", "say:two", "ack"],
    );
    let lines = said.json();
    let acks: Vec<_> = all(&lines, "ack")
        .iter()
        .map(|ack| ack["sequence"].as_u64().unwrap())
        .collect();
    assert_eq!(acks, [1, 1, 2]);
    let repeated: Vec<bool> = all(&lines, "ack")
        .iter()
        .map(|ack| ack["repeated"] == true)
        .collect();
    assert_eq!(repeated, [false, true, false]);
    assert_eq!(
        place
            .script(&["--overwrite", "n"], &["ready", line, "ack"])
            .code,
        0
    );
    assert_eq!(contents(&place, "n"), ["once", "two"]);
}

#[test]
fn another_version_of_the_protocol_is_refused() {
    let place = Place::new();
    assert_eq!(
        place
            .script(&[], &["raw:{\"type\":\"hello\",\"protocol\":1}", "say:one"])
            .code,
        0
    );
    let said = place.script(
        &[],
        &[
            "raw:{\"type\":\"hello\",\"protocol\":2}",
            "say:one",
            "sleep:20000",
        ],
    );
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("the agent asks for 2"), "{}", said.err);
}

#[test]
#[cfg(unix)]
fn what_an_agent_left_behind_does_not_keep_its_run_from_ending() {
    let place = Place::new();
    // Its own last lines fill the pipe; what it leaves behind writes on without a pause.
    let own = r#"{"type":"message","message":{"role":"user","content":"own"}}"#;
    let script = format!(
        "i=0; while [ $i -lt 2000 ]; do echo '{own}'; i=$((i+1)); done; \
         (yes & echo $! > left; sleep 60; kill $!; echo > ended) 2> errors & \
         while [ ! -s left ]; do :; done"
    );
    let said = place.runlog(&["run", "--json", "--name", "s", "--", "sh", "-c", &script]);
    assert_eq!(said.code, 0, "{}", ended(&said));
    assert_eq!(ended(&said)["events"], 2000);
    assert!(!place.path("ended").exists(), "it was waited for");
    let left = std::fs::read_to_string(place.path("left")).unwrap();
    let _ = std::process::Command::new("kill").arg(left.trim()).status();
}

#[test]
fn standard_error_is_passed_through_and_a_program_that_is_none_is_told() {
    let place = Place::new();
    assert!(
        place
            .script(&[], &["stderr:look here"])
            .err
            .contains("look here")
    );
    let said = place.expect(3, &["run", "--", "./no-such-agent"]);
    assert!(
        said.err.contains("there is no such program"),
        "{}",
        said.err
    );
    place.expect(2, &["run"]);
}

#[test]
fn a_program_that_can_not_be_run_changes_nothing() {
    let place = Place::new();
    let folder = place.path(".").display().to_string();
    for program in ["./no-such-agent", "", &folder] {
        assert_ne!(place.runlog(&["run", "--", program]).code, 0, "{program:?}");
        assert!(
            !place.path("runlog-data").exists(),
            "{program:?} leaves no store behind"
        );
    }
    place.script(&["--name", "n"], &["say:one", "say:two", "say:three"]);
    for program in ["./no-such-agent", "", &folder] {
        for with in [
            &["--overwrite", "n", "--from-point", "2"][..],
            &["--copy", "n"],
            &[],
        ] {
            let arguments = [&["run"], with, &["--", program]].concat();
            assert_ne!(place.runlog(&arguments).code, 0, "{arguments:?}");
        }
    }
    assert_eq!(contents(&place, "n"), ["one", "two", "three"]);
    assert_eq!(place.expect(0, &["ls", "--json"]).json().len(), 1);
}

#[test]
fn recording_goes_on_when_nobody_reads_the_display() {
    for json in [&[][..], &["--json"]] {
        let place = Place::new();
        let many: Vec<String> = (0..3000).map(|index| format!("say:{index}")).collect();
        let steps: Vec<&str> = many.iter().map(String::as_str).chain(["exit:3"]).collect();
        let mut child = place.scripted(json, &steps).spawn().unwrap();
        drop(child.stdout.take());
        let said = said(child.wait_with_output().unwrap());
        assert_eq!(said.code, 7, "the agent's outcome counts: {said:?}");
        assert_eq!(
            said.err.matches("not shown any more").count(),
            1,
            "{said:?}"
        );
        assert_eq!(contents(&place, "@last").len(), 3000);
    }
}

#[test]
fn an_option_of_another_mode_is_refused() {
    let place = Place::new();
    place.script(&["--name", "n"], &["say:one", "say:two"]);
    for with in [
        &["--from-point", "1"][..],
        &["--to-point", "1"],
        &["--resume", "n", "--from-point", "1"],
        &["--resume", "n", "--to-point", "1"],
        &["--overwrite", "n", "--to-point", "1"],
        &["--copy", "n", "--from-point", "1"],
        &["--name", "@last"],
    ] {
        assert_eq!(place.script(with, &["say:more"]).code, 2, "{with:?}");
    }
    assert_eq!(contents(&place, "n"), ["one", "two"]);
    assert_eq!(place.script(&["--overwrite", "n"], &["say:three"]).code, 0);
    assert_eq!(contents(&place, "n"), ["one", "two", "three"]);
}

#[test]
fn a_time_that_an_agent_tells_is_recorded_and_shown_up_to_the_year_9999() {
    let place = Place::new();
    let line = |ms: u64| {
        format!(
            r#"raw:{{"type":"message","time_ms":{ms},"message":{{"role":"user","content":"far"}}}}"#
        )
    };
    // The last millisecond of the year 9999.
    let last = 253_402_300_799_999;
    assert_eq!(place.script(&["--name", "n"], &[&line(last)]).code, 0);
    for command in [&["tail"][..], &["show", "n"], &["replay", "n"], &["ls"]] {
        place.expect(0, command);
    }
    assert!(place.expect(0, &["show", "n"]).out.contains("9999-12-31"));
    let replayed = place.expect(0, &["replay", "--json", "n"]).out;
    assert!(replayed.contains(&last.to_string()));
    let refused = place.script(&["--name", "later"], &[&line(last + 1)]);
    assert!(refused.err.contains("after the year 9999"), "{refused:?}");
    assert_eq!(refused.code, 7, "{refused:?}");
}

#[test]
fn many_refused_lines_are_counted_and_not_all_printed() {
    let place = Place::new();
    let steps = ["raw:null"; 100];
    let said = place.script(&[], &steps);
    assert_eq!(
        said.err.matches("a line is a JSON object").count(),
        20,
        "{said:?}"
    );
    assert!(said.err.contains("refused 100 lines"), "{said:?}");
    let said = place.script(&["--json"], &steps);
    assert_eq!(said.out.matches("invalid_json").count(), 100);
}

#[test]
fn an_agent_written_in_shell_is_recorded() {
    let place = Place::new();
    place.write(
        "agent.sh",
        r#"while read -r line; do
  case "$line" in
    *'"type":"ready"'*) echo '{"type":"message","id":1,"message":{"role":"assistant","content":"Hello."}}' ;;
    *'"type":"ack"'*) exit 0 ;;
  esac
done
"#,
    );
    let said = place.expect(0, &["run", "--", "sh", "agent.sh"]);
    assert!(said.out.contains("Hello."), "{said:?}");
    assert_eq!(contents(&place, "@last"), ["Hello."]);
}

#[test]
#[cfg(unix)]
fn a_signal_is_forwarded_once_and_what_came_is_kept() {
    let place = Place::new();
    let mut child = place
        .scripted(&["--json"], &["ready", "say:one", "ack", "sleep:20000"])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("ack") {}
    let started = Instant::now();
    signal(child.id(), "TERM");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.code, 128 + 15, "{said:?}");
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "the agent was told at once"
    );
    assert!(
        rest.iter().any(|line| line.contains("\"signal\":15")),
        "{rest:?}"
    );
    assert_eq!(contents(&place, "@last"), ["one"]);
}

/// Records an agent up to its first message; then the recorder itself dies without a word.
#[cfg(unix)]
fn killed(place: &Place) {
    let mut recorder = Ends(
        place
            .scripted(&["--json"], &["ready", "say:one", "ack", "sleep:20000"])
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("ack") {}
    recorder.0.kill().unwrap();
    recorder.0.wait().unwrap();
}

#[test]
#[cfg(unix)]
fn what_was_killed_is_told_of_with_how_to_go_on_by_a_resume_of_another() {
    let place = Place::new();
    let first = place.script(&["--name", "first"], &["ready", "say:one", "ack"]);
    assert_eq!(first.code, 0, "{first:?}");
    killed(&place);
    let said = place.script(&["--resume", "first"], &["ready"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(
        said.err
            .contains("whose process was gone; `runlog run --resume "),
        "{said:?}"
    );
}

#[test]
#[cfg(unix)]
fn an_agent_that_is_killed_leaves_a_session_that_goes_on() {
    let place = Place::new();
    killed(&place);
    let said = place.script(&["--resume", "@last"], &["ready", "context"]);
    assert_eq!(said.code, 0, "{said:?}");
    // It is told of, but not to do what is being done.
    assert!(
        said.err.contains("whose process was gone") && !said.err.contains("goes on from it"),
        "{said:?}"
    );
    let now = contents(&place, "@last");
    assert_eq!(
        now[..2],
        ["one", "Continue your work from where you left off."]
    );
    assert!(now[2].starts_with("2 messages"), "{now:?}");
}

#[cfg(unix)]
fn signal(process: u32, name: &str) {
    let status = std::process::Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_program_that_speaks_no_protocol_or_says_nothing_fails() {
    let place = Place::new();
    let said = place.runlog(&["run", "--json", "--", "echo", "hello world"]);
    assert_eq!(said.code, 7, "{said:?}");
    let shown = place.expect(0, &["runs", "--json"]).out;
    assert!(shown.contains("\"failed\""), "{shown}");
    assert!(
        place
            .expect(0, &["run", "show", "@last"])
            .out
            .contains("doesn't speak the agent protocol")
    );
    let said = place.runlog(&["run", "--json", "--", "true"]);
    assert_eq!(ended(&said)["status"], "failed", "{said:?}");
    let shown = place.expect(0, &["run", "show", "@last"]).out;
    assert!(shown.contains("it said nothing"), "{shown}");
    // One that sends back what it is sent would be refused without end.
    let said = place.runlog(&["run", "--", "cat"]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("send back what it is sent"), "{said:?}");
    assert_eq!(said.err.matches("refused line ").count(), 1, "{said:?}");
    assert!(said.err.contains("docs/agent-protocol.md"), "{said:?}");
    let shown = place.expect(0, &["runs", "--json"]).out;
    assert!(!shown.contains("\"running\""), "{shown}");
    // One line is enough.
    let hello = r#"echo '{"type":"hello","protocol":1}'"#;
    assert_eq!(place.runlog(&["run", "--", "sh", "-c", hello]).code, 0);
}

#[test]
fn an_agent_whose_last_word_is_refused_has_failed() {
    for done in [
        r#"{"error_message":"a","pause_reason":"b"}"#,
        r#"{"summary":5}"#,
    ] {
        let place = Place::new();
        let said = place.script(
            &["--json"],
            &["ready", "say:one", "ack", &format!("done:{done}")],
        );
        assert_eq!(said.code, 7, "{said:?}");
        assert_eq!(ended(&said)["status"], "failed");
        let shown = place.expect(0, &["run", "show", "@last"]).out;
        assert!(shown.contains("`done` line was refused"), "{shown}");
    }
    // One that says it again, and right this time, is done.
    let place = Place::new();
    let steps = [
        "ready",
        "say:one",
        "ack",
        r#"done:{"summary":5}"#,
        "ack",
        r#"done:{"summary":"five"}"#,
    ];
    let said = place.script(&["--json"], &steps);
    assert_eq!(
        (said.code, &ended(&said)["summary"]),
        (0, &"five".into()),
        "{said:?}"
    );
}

#[test]
fn an_agent_is_told_its_task_its_tools_and_its_parent() {
    let place = Place::new();
    let steps = ["ready", "hello:task", "hello:tools", "hello:parent_run_id"];
    place.script(&["-m", "fix it", "--name", "undefined"], &steps);
    assert_eq!(
        contents(&place, "undefined"),
        ["fix it", r#""fix it""#, "null", "null"]
    );
    let definition = place.write("coder.json", r#"{"name":"coder","tools":["grep","sed"]}"#);
    place.expect(0, &["agents", "put", definition.to_str().unwrap()]);
    place.script(&["--agent", "coder", "--name", "defined"], &steps);
    assert_eq!(
        contents(&place, "defined"),
        ["null", r#"["grep","sed"]"#, "null"]
    );
}

/// A file of agents that the tests run, each by the steps that it does.
fn agents(place: &Place, agents: &[(&str, &[&str])]) -> String {
    let agent = env!("CARGO_BIN_EXE_scripted-agent");
    let agents = agents.iter().map(|(name, steps)| {
        let command: Vec<&str> = [agent].iter().chain(*steps).copied().collect();
        serde_json::json!({"name": name, "description": "d", "system_prompt": "SECRET", "command": command})
    });
    let file = serde_json::json!({"project": "papers", "agents": agents.collect::<Vec<_>>()});
    place
        .write("agents.json", file.to_string())
        .to_str()
        .unwrap()
        .to_owned()
}

#[test]
fn an_agent_lists_and_spawns_others_and_those_do_too() {
    let place = Place::new();
    let spawn = |name: &str, call: &str| {
        let requests = serde_json::json!([{"agent_name": name, "task": "find it"}]);
        let mut line = serde_json::json!({"type": "spawn_agents", "id": 1, "requests": requests});
        if !call.is_empty() {
            line["tool_call_id"] = call.into();
        }
        format!("raw:{line}")
    };
    let below = spawn("worker", "");
    let lead: [&str; 5] = [
        "ready",
        &below,
        "await:spawned",
        "hello:parent_run_id",
        "say:led",
    ];
    let file = agents(
        &place,
        &[
            ("worker", &["ready", "hello:task", "say:found"]),
            ("lead", &lead),
        ],
    );
    let (own, nobody) = (spawn("lead", "c1"), spawn("nobody", ""));
    let steps = [
        "ready",
        r#"raw:{"type":"list_available_agents","id":0}"#,
        "await:agents",
        "call:c1",
        "ack",
        &own,
        "await:spawned",
        &nobody,
        "await:spawned",
    ];
    let said = place.script(&["--agents", &file, "--name", "s"], &steps);
    assert_eq!(said.code, 0, "{said:?}");
    let told = contents(&place, "s");
    assert!(
        told[0].contains("\"lead\"")
            && told[0].contains("\"worker\"")
            && !told[0].contains("SECRET"),
        "{told:?}"
    );
    let spawned = told
        .iter()
        .filter(|said| said.contains("\"type\":\"spawned\""))
        .collect::<Vec<_>>();
    assert!(
        spawned[1].contains("\"completed\"") && spawned[1].contains("led"),
        "{spawned:?}"
    );
    assert!(
        spawned[2].contains("no agent \\\"nobody\\\" is defined"),
        "{spawned:?}"
    );
    // The result stands behind the call, before what the agent said of it.
    let events = place.expect(0, &["show", "s", "--json"]).out;
    assert!(events.contains("tool_result"), "{events}");
    let runs = place.expect(0, &["runs", "--json"]).json()[0]["items"]
        .as_array()
        .unwrap()
        .clone();
    let of = |agent: &str| runs.iter().find(|run| run["agent_name"] == agent).unwrap();
    assert_eq!(
        (&of("lead")["parent_run_id"], &of("worker")["parent_run_id"]),
        (&of("agent")["id"], &of("lead")["id"])
    );
    assert!(
        runs.iter().all(|run| run["status"] == "completed"),
        "{runs:?}"
    );
}

#[test]
fn many_agents_that_wait_for_theirs_leave_room_for_them() {
    let place = Place::new();
    let below = serde_json::json!({
        "type": "spawn_agents", "requests": [{"agent_name": "worker", "task": "find it"}]
    });
    let below = format!("raw:{below}");
    let file = agents(
        &place,
        &[
            ("worker", &["ready", "say:found"]),
            ("lead", &["ready", &below, "await:spawned"]),
        ],
    );
    let lead = serde_json::json!({"agent_name": "lead", "task": "find it", "timeout": 50});
    let leads = serde_json::json!({"type": "spawn_agents", "requests": vec![lead; 20]});
    let leads = format!("raw:{leads}");
    let said = place.script(&["--agents", &file], &["ready", &leads, "await:spawned"]);
    assert_eq!(said.code, 0, "{said:?}");
    let completed = place
        .expect(0, &["runs", "--status", "completed", "--json"])
        .json()[0]["items"]
        .clone();
    assert_eq!(completed.as_array().unwrap().len(), 41, "{completed}");
}

#[test]
fn what_an_agent_spawned_ends_with_it() {
    let place = Place::new();
    let file = agents(
        &place,
        &[("slow", &["ready", "say:begun", "ack", "sleep:60000"])],
    );
    let spawn =
        r#"raw:{"type":"spawn_agents","id":1,"requests":[{"agent_name":"slow","task":"t"}]}"#;
    let none = place.script(&["--json"], &["ready", spawn, "ack", "say:on"]);
    assert_eq!((none.code, none.out.contains("on")), (0, true), "{none:?}");
    let began = Instant::now();
    let said = place.script(
        &["--agents", &file, "--name", "s"],
        &["ready", spawn, "sleep:1500"],
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "it isn't waited for"
    );
    let slow = place
        .expect(0, &["runs", "--agent", "slow", "--json"])
        .json()[0]["items"][0]
        .clone();
    assert_eq!(slow["status"], "cancelled");
    // Where the agent only pauses, so does what it spawned.
    let paused = place.script(
        &["--agents", &file],
        &[
            "ready",
            spawn,
            "sleep:1500",
            r#"done:{"pause_reason":"lunch"}"#,
        ],
    );
    assert_eq!(paused.code, 0, "{paused:?}");
    let slow = place
        .expect(0, &["runs", "--agent", "slow", "--json"])
        .json()[0]["items"][0]
        .clone();
    assert_eq!(slow["status"], "paused");
    assert_eq!(
        place.expect(0, &["run", "show", "@last", "--json"]).json()[0]["status"],
        "paused"
    );
    let other = place.script(
        &["--agents", &file, "--overwrite", "@last"],
        &["ready", "say:on"],
    );
    assert_eq!(other.code, 0, "{other:?}");
}

#[test]
fn no_message_stands_between_a_tool_call_and_its_result() {
    let place = Place::new();
    place.script(
        &["--name", "n", "-m", "go"],
        &["ready", "say:one", "ack", "call:c1", "ack", "exit:1"],
    );
    let roles = |session: &str| {
        let events = place.expect(0, &["replay", "--json", session]).json();
        let role = |event: &Value| event["event_type"].as_str().unwrap_or("-").to_owned();
        events.iter().map(role).collect::<Vec<_>>()
    };
    // In a copy that ends between the two, and in the session itself.
    place.script(
        &[
            "--copy",
            "n",
            "--to-point",
            "4",
            "--name",
            "copied",
            "-m",
            "other way",
        ],
        &["ready"],
    );
    let closed = [
        "user_message",
        "assistant_message",
        "assistant_message",
        "tool_call",
        "tool_result",
        "user_message",
    ];
    assert_eq!(roles("copied"), closed);
    place.script(&["--overwrite", "n", "-m", "other way"], &["ready"]);
    assert_eq!(roles("n"), closed);
}

/// A terminal sends Ctrl-C to all of its processes, and the agent's end may be seen before Runlog's own signal.
#[test]
#[cfg(unix)]
fn an_agent_that_ctrl_c_ends_before_runlog_gets_it_leaves_a_run_that_can_be_resumed() {
    for (ends, code) in [("kill -INT $$", 130), ("exit 130", 130)] {
        let place = Place::new();
        let script = format!("(sleep 0.15; kill -INT $PPID) </dev/null >/dev/null 2>&1 & {ends}");
        let said = place.runlog(&["run", "--", "sh", "-c", &script]);
        assert_eq!(said.code, code, "{ends}: {said:?}");
        let shown = place.expect(0, &["run", "show", "@last", "--json"]).json();
        assert_eq!(shown[0]["status"], "paused", "{ends}: {said:?}");
    }
}

#[test]
fn the_shortest_agent_is_recorded_and_goes_on_from_a_copy() {
    let place = Place::new();
    let agent = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/agent.sh");
    let agent = agent.canonicalize().unwrap().to_str().unwrap().to_owned();
    place.expect(0, &["run", "--name", "s", "--message", "Hi.", "--", &agent]);
    assert!(place.expect(0, &["show", "s"]).out.contains("Hello."));
    place.expect(0, &["run", "--copy", "s", "--to-point", "1", "--", &agent]);
    place.expect(
        0,
        &["run", "--overwrite", "s", "--from-point", "1", "--", &agent],
    );
    let runs = place.expect(0, &["runs", "--json"]).json();
    let runs = runs[0]["items"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert!(
        runs.iter().all(|run| run["status"] == "completed"),
        "{runs:?}"
    );
}
