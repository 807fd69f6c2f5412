//! The writing commands beside `import`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    thread,
    time::Duration,
};

use runlog::{
    NewRun, NewSession,
    blocking::{FlowRun, Store},
    flows::RuntimeEvent,
};

use super::{
    Again, State, Writes, assert_same,
    common::{Place, fixture},
    imports::claude_code,
    is_completed, killed_before_each_write,
    state::STORE,
};

/// A store with imported sessions in it; one is called `swe-agent`, and has a wrapper and two agents.
fn sessions(place: &Place) {
    place.expect(
        0,
        &[
            "import",
            &fixture("swe-agent.traj"),
            &fixture("claude-code.jsonl"),
        ],
    );
}

const CLAUDE: &str = "5b0f2c9e-0000-4000-8000-000000000001";

#[test]
fn a_copy_with_a_name_is_made_or_refused_as_there() {
    for arguments in [
        &["copy", "swe-agent", "--name", "copied"][..],
        &["copy", CLAUDE, "--to-point", "4", "--name", "copied"],
    ] {
        killed_before_each_write(Writes::OfLog, sessions, arguments, |again| {
            assert_same(again);
            if again.before.session("copied").is_none() {
                assert_eq!(again.said.code, 0, "{}", again.at);
            } else {
                assert_eq!(again.said.code, 4, "{}", again.at);
                assert!(
                    again.said.err.contains("is a copy of this session already"),
                    "{}",
                    again.at
                );
            }
        });
    }
}

#[test]
fn a_copy_without_a_name_is_made_again_but_not_unsaid() {
    killed_before_each_write(Writes::OfLog, sessions, &["copy", "swe-agent"], |again| {
        assert_eq!(again.said.code, 0, "{}", again.at);
        let copies = |state: &State| {
            state
                .sessions
                .iter()
                .filter(|(_, it)| it.contains("\"copied_from\""))
                .count()
        };
        let before = copies(&again.before);
        assert_eq!(copies(&again.after), before + 1, "{}", again.at);
        assert_eq!(
            again.said.err.contains("nothing was added to it"),
            before == 1,
            "{}",
            again.at
        );
        // None of them is half a copy.
        let lines = |state: &State| {
            let copies = state
                .sessions
                .iter()
                .filter(|(_, it)| it.contains("\"copied_from\""));
            copies
                .map(|(_, it)| it.lines().count())
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(lines(&again.after), lines(again.whole), "{}", again.at);
    });
}

#[test]
fn a_truncation_is_completed() {
    let arrange = |place: &Place| {
        place.write("claude.jsonl", claude_code(60));
        place.expect(0, &["import", "claude.jsonl"]);
    };
    for (session, after) in [("session-0", "3"), ("session-1", "0")] {
        let arguments = ["truncate", "--json", session, "--after", after];
        killed_before_each_write(Writes::OfLog, arrange, &arguments, |again| {
            is_completed(again);
            let deleted = again.said.json()[0]["deleted"].as_u64().unwrap();
            assert_eq!(
                deleted,
                again.before.lines("event") - again.after.lines("event"),
                "{}",
                again.at
            );
        });
    }
}

/// `runlog run`, with these arguments and an agent that takes three steps.
fn run<'a>(with: &[&'a str], arguments: &mut Vec<&'a str>) {
    arguments.extend(["run", "--json"]);
    arguments.extend(with);
    arguments.extend(["--", env!("CARGO_BIN_EXE_scripted-agent"), "--"]);
    arguments.extend([
        "ready",
        "say:one",
        "ack",
        "call:c1",
        "ack",
        "result:c1",
        "ack",
        "say:two",
        "ack",
    ]);
}

fn run_here(place: &Place, code: i32, with: &[&str]) -> super::Said {
    let mut arguments = Vec::new();
    run(with, &mut arguments);
    place.expect(code, &arguments)
}

/// A store with a paused run in the session `r`.
fn paused(place: &Place) {
    run_here(
        place,
        8,
        &["--name", "r", "--message", "begin", "--max-steps", "2"],
    );
}

/// The status of a run.
fn status(run: &str) -> &str {
    let status = run
        .lines()
        .next()
        .unwrap()
        .split("\"status\":\"")
        .nth(1)
        .unwrap();
    status.split('"').next().unwrap()
}

/// The status of each run of a store.
fn runs(state: &State) -> Vec<&str> {
    state.runs.iter().map(|run| status(run)).collect()
}

/// Whether what the agent was told to be durable by a process that was killed is there.
fn has_acknowledged(again: &Again<'_>, session: &str) {
    let acknowledged = again.killed_said.out.matches("{\"ack\":").count();
    let state = again.before.session(session).unwrap_or_default();
    let said = ["one", "c1\",\"type", "ok", "two"]
        .iter()
        .filter(|it| state.contains(*it))
        .count();
    assert!(
        said >= acknowledged.min(4),
        "{acknowledged} acknowledged, {said} found: {}",
        again.at
    );
}

#[test]
fn a_run_in_a_new_session_is_made_or_refused_and_then_resumed() {
    let mut arguments = Vec::new();
    run(&["--name", "r", "--message", "begin"], &mut arguments);
    killed_before_each_write(
        Writes::OfLog,
        |_| {},
        &arguments,
        |again| {
            has_acknowledged(again, "r");
            if again.before.session("r").is_none() {
                return is_completed(again);
            }
            assert_eq!(again.said.code, 4, "{}", again.at);
            assert_eq!(again.after, again.before, "{}", again.at);
            // It goes on as the refusal says, unless it had come to its end.
            let status = status(again.after.runs.last().unwrap());
            let is_told = if status == "paused" {
                "--resume r -- CMD` goes on"
            } else {
                "is completed"
            };
            assert!(again.said.err.contains(is_told), "{}", again.at);
            if status == "paused" {
                run_here(again.place, 0, &["--resume", "r", "--max-steps", "9"]);
                assert_eq!(
                    runs(&State::of(again.place)),
                    ["paused", "completed"],
                    "{}",
                    again.at
                );
            }
        },
    );
}

#[test]
fn a_resume_goes_on_or_is_refused() {
    let mut arguments = Vec::new();
    run(
        &["--resume", "r", "--message", "go on", "--max-steps", "9"],
        &mut arguments,
    );
    killed_before_each_write(Writes::OfLog, paused, &arguments, |again| {
        if again.before.runs.len() == 1 {
            return is_completed(again);
        }
        let is_over = runs(&again.before) == ["paused", "completed"];
        assert_eq!(again.said.code, if is_over { 4 } else { 0 }, "{}", again.at);
        if is_over {
            assert!(
                again.said.err.contains("only paused runs can be resumed"),
                "{}",
                again.at
            );
            return;
        }
        // The run that was killed is there, and the one that goes on from it says so.
        assert_eq!(
            runs(&again.after),
            ["paused", "paused", "completed"],
            "{}",
            again.at
        );
        let export = again.after.session("r").unwrap();
        let found: Vec<&str> = again
            .before
            .session("r")
            .unwrap()
            .lines()
            .filter(|it| it.contains("\"event\""))
            .collect();
        assert!(
            found.iter().all(|event| export.contains(event)),
            "{}",
            again.at
        );
    });
}

#[test]
fn a_run_in_a_copy_is_made_or_refused_and_then_resumed() {
    let mut arguments = Vec::new();
    run(
        &["--copy", "r", "--to-point", "2", "--name", "c"],
        &mut arguments,
    );
    killed_before_each_write(Writes::OfLog, paused, &arguments, |again| {
        if again.before.session("c").is_none() {
            return is_completed(again);
        }
        assert_eq!(again.said.code, 4, "{}", again.at);
        // The first run is that of the session that was copied.
        let is_over = runs(&again.after).get(1) == Some(&"completed");
        assert_eq!(
            again.said.err.contains("--resume c -- CMD`"),
            !is_over,
            "{}",
            again.at
        );
        if !is_over {
            run_here(again.place, 0, &["--resume", "c", "--max-steps", "9"]);
        }
    });
}

#[test]
fn a_run_that_overwrites_leaves_nothing_twice() {
    let mut arguments = Vec::new();
    run(
        &[
            "--overwrite",
            "r",
            "--from-point",
            "1",
            "--message",
            "again",
        ],
        &mut arguments,
    );
    killed_before_each_write(Writes::OfLog, paused, &arguments, |again| {
        assert_eq!(again.said.code, 0, "{}", again.at);
        let events = |state: &State| {
            let export = state.session("r").unwrap();
            let events = export
                .lines()
                .filter(|line| line.starts_with("{\"runlog\":\"event\""));
            // Of which run an event is differs: a run that was killed has a number of its own.
            events
                .map(|it| {
                    it.split("\"run_id\"").next().unwrap().to_owned()
                        + it.split("\"content").last().unwrap()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(events(&again.after), events(again.whole), "{}", again.at);
    });
}

/// The files of a folder, with how long they are.
fn files(folder: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().unwrap().is_file());
    files
        .map(|file| {
            (
                file.file_name().to_string_lossy().into_owned(),
                file.metadata().unwrap().len(),
            )
        })
        .collect()
}

#[test]
fn fixtures_are_completed() {
    let arguments = ["record-fixtures", "swe-agent", "-o", "fixtures"];
    let whole = Place::in_memory();
    sessions(&whole);
    whole.expect(0, &arguments);
    killed_before_each_write(Writes::All, sessions, &arguments, |again| {
        assert_eq!(again.said.code, 0, "{}", again.at);
        assert_eq!(
            files(&again.place.path("fixtures")),
            files(&whole.path("fixtures")),
            "{}",
            again.at
        );
    });
}

#[test]
fn an_export_is_there_whole_or_not_at_all() {
    let arguments = ["export", "swe-agent", CLAUDE, "-o", "out.jsonl"];
    killed_before_each_write(Writes::All, sessions, &arguments, |again| {
        let whole = again.place.expect(0, &["export", "swe-agent", CLAUDE]).out;
        assert_eq!(
            fs::read_to_string(again.place.path("out.jsonl")).unwrap(),
            whole,
            "{}",
            again.at
        );
        assert!(matches!(again.said.code, 0 | 4), "{}", again.at);
        // The one that was killed may have left what was to become it, under a name that no other export takes.
        let mut left = files(&again.place.path(""));
        left.retain(|name, _| !(name.starts_with(".runlog-") && name.ends_with(".partial")));
        assert_eq!(
            left.keys().collect::<Vec<_>>(),
            ["out.jsonl"],
            "{}",
            again.at
        );
        assert!(files(&again.place.path("")).len() <= 2, "{}", again.at);
    });
}

/// The sessions of [`sessions`], and a run whose text was streamed: 40 deltas, and their whole text.
fn streamed(place: &Place) {
    sessions(place);
    let store = Store::open(place.path(STORE)).unwrap();
    let new = NewRun::in_new_session(NewSession::titled("streamed"), "coder");
    let run = store.runs().start(new).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    let mut whole = String::new();
    for place in 0..40 {
        whole.push_str(&format!("piece {place}, "));
        let event = format!(
            r#"{{"type":"agent:text:delta","timestamp":{place},"runId":"r","nodeId":"answer","content":"piece {place}, "}}"#
        );
        flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
    }
    let event = format!(
        r#"{{"type":"agent:text","timestamp":40,"runId":"r","nodeId":"answer","content":"{whole}"}}"#
    );
    flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
    run.complete(None).unwrap();
    store.close().unwrap();
}

#[test]
fn a_retention_and_the_compaction_after_it_are_completed() {
    let arguments = ["retain", "--json", "--keep-last", "1", "--compact"];
    killed_before_each_write(Writes::OfLog, streamed, &arguments, |again| {
        is_completed(again);
        assert!(again.whole.session("streamed").is_some(), "{}", again.at);
        assert!(again.whole.session("swe-agent").is_none(), "{}", again.at);
    });
}

/// How many deltas the flows of a store have.
fn deltas(state: &State) -> usize {
    let of_flow = |flow: &String| flow.matches("agent:text:delta").count();
    state.flows.iter().map(of_flow).sum()
}

#[test]
fn deltas_are_dropped_and_their_whole_text_stays_wherever_it_was_killed() {
    let arrange = |place: &Place| {
        streamed(place);
        // The least age that can be asked for.
        thread::sleep(Duration::from_millis(1100));
    };
    let arguments = ["retain", "--json", "--deltas", "1s", "--compact"];
    killed_before_each_write(Writes::OfLog, arrange, &arguments, |again| {
        is_completed(again);
        assert!(matches!(deltas(&again.before), 0 | 40), "{}", again.at);
        assert_eq!(deltas(again.whole), 0, "{}", again.at);
        assert!(
            again.before.flows[0].contains("piece 0, piece 1, "),
            "{}",
            again.at
        );
    });
}

#[test]
fn a_compaction_changes_no_answer_wherever_it_was_killed() {
    for scope in ["sealed", "all"] {
        killed_before_each_write(
            Writes::All,
            streamed,
            &["compact", "--scope", scope],
            |again| {
                is_completed(again);
                assert_eq!(&again.before, again.whole, "{}", again.at);
            },
        );
    }
}

#[test]
fn a_repair_is_completed() {
    // What each of these holds stands somewhere else, too.
    let damaged = |place: &Place| {
        sessions(place);
        for (file, byte) in [("RUNLOG", 20), ("00000001.seg", 20), ("CHECKPOINT", 40)] {
            let path = place.path(STORE).join(file);
            let mut bytes = fs::read(&path).unwrap();
            bytes[byte] ^= 0xff;
            fs::write(&path, bytes).unwrap();
        }
        place.expect(5, &["verify"]);
    };
    killed_before_each_write(Writes::All, damaged, &["verify", "--repair"], |again| {
        is_completed(again);
    });
}

#[test]
fn a_demo_that_was_killed_is_not_mixed_with_another() {
    killed_before_each_write(
        Writes::Few,
        |_| {},
        &["demo", "--keep", STORE],
        |again| {
            if again.place.path(STORE).exists() && again.said.code != 0 {
                assert_eq!(again.said.code, 4, "{}", again.at);
                assert!(
                    again.said.err.contains("is not empty; give a new folder"),
                    "{}",
                    again.at
                );
            }
        },
    );
}
