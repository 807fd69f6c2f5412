//! `import`, of every format.

use std::fmt::Write as _;

use runlog::blocking::Store;
use serde_json::Value;

use super::{
    Again, State, Writes, assert_same,
    common::{Place, fixture},
    is_completed, killed_before_each_write,
    state::STORE,
};

/// What an import that was killed and run again is held to: it has completed the import, and says what it did.
fn is_imported(again: &Again<'_>) {
    let Again {
        at,
        said,
        before,
        after,
        ..
    } = again;
    assert_eq!(said.code, 0, "{at}");
    assert_same(again);
    let (reports, whole) = (said.json(), again.whole_said.json());
    let sum = |reports: &[Value], names: &[&str]| -> u64 {
        reports
            .iter()
            .flat_map(|report| names.iter().map(|name| report[*name].as_u64().unwrap()))
            .sum()
    };
    let added = |kind: &str| after.lines(kind) - before.lines(kind);
    assert_eq!(
        sum(&reports, &["messages", "tool_calls"]),
        added("event"),
        "{at}"
    );
    assert_eq!(sum(&reports, &["other"]), added("other"), "{at}");
    // A tool call is an entry of its own in Runlog's own lines; elsewhere it comes with its message.
    let is_own = whole[0]["format"] == "runlog";
    let entries: &[&str] = if is_own {
        &["messages", "tool_calls", "other", "skipped"]
    } else {
        &["messages", "other", "skipped"]
    };
    assert_eq!(sum(&reports, entries), sum(&whole, entries), "{at}");
    for session in reports
        .iter()
        .flat_map(|report| report["sessions"].as_array().unwrap())
    {
        let name = session["name"].as_str().unwrap();
        let expected = match before.session(name) {
            None => "created",
            Some(found) if text_of(found) == text_of(after.session(name).unwrap()) => "unchanged",
            Some(_) => "completed",
        };
        assert_eq!(session["outcome"], expected, "{name}: {at}");
    }
}

/// An export without the numbers that stand for ids: they are counted over the whole store.
fn text_of(export: &str) -> String {
    let words = export
        .split("\"id ")
        .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    words.collect::<Vec<_>>().join("id")
}

fn imported(arrange: impl Fn(&Place), files: &[&str]) {
    let mut arguments = vec!["import", "--json"];
    arguments.extend(files);
    killed_before_each_write(Writes::OfLog, arrange, &arguments, is_imported);
}

#[test]
fn runs_with_what_stood_around_their_messages_are_completed() {
    let arrange = |place: &Place| drop(place.write("runs.jsonl", runs(3, 4)));
    killed_before_each_write(
        Writes::All,
        arrange,
        &["import", "--json", "runs.jsonl"],
        is_imported,
    );
}

#[test]
fn messages_of_a_line_each_are_completed() {
    imported(|_| {}, &[&fixture("openai-messages.jsonl")]);
}

#[test]
fn sessions_with_sub_agents_are_completed() {
    imported(|_| {}, &[&fixture("claude-code.jsonl")]);
}

#[test]
fn a_trajectory_is_completed() {
    imported(|_| {}, &[&fixture("swe-agent.traj")]);
}

#[test]
fn a_run_of_several_batches_is_completed() {
    let messages = if std::env::var_os("RUNLOG_TORTURE").is_some() {
        7_700
    } else {
        1_100
    };
    imported(
        |place| drop(place.write("runs.jsonl", runs(1, messages))),
        &["runs.jsonl"],
    );
}

#[test]
fn interleaved_sessions_of_several_batches_are_completed() {
    imported(
        |place| drop(place.write("claude.jsonl", claude_code(1_250))),
        &["claude.jsonl"],
    );
}

#[test]
fn exported_sessions_are_completed_archived_ones_and_forks_among_them() {
    imported(|place| export(place, 4, "events"), &["export.jsonl"]);
}

#[test]
fn exported_sessions_of_several_batches_are_completed() {
    imported(|place| export(place, 1_100, "events"), &["export.jsonl"]);
}

#[test]
fn an_archive_is_completed() {
    let arrange = |place: &Place| export(place, 4, "runlog");
    killed_before_each_write(
        Writes::All,
        arrange,
        &["import", "--json", "export.jsonl"],
        |again| {
            is_completed(again);
            let outcomes = again.said.json()[0]["sessions"].as_array().unwrap().clone();
            let outcomes: Vec<&str> = outcomes
                .iter()
                .map(|session| session["outcome"].as_str().unwrap())
                .collect();
            // What is listed is whole, and all is listed at once.
            let is_listed = !again.before.sessions.is_empty();
            assert!(
                outcomes.iter().all(|it| (*it == "unchanged") == is_listed),
                "{outcomes:?}: {}",
                again.at
            );
            assert_eq!(outcomes.len(), 4);
        },
    );
}

#[test]
fn what_a_source_has_gained_is_completed() {
    let arrange = |place: &Place| {
        place.write("claude.jsonl", claude_code(100));
        place.expect(0, &["import", "claude.jsonl"]);
        place.write("claude.jsonl", claude_code(1_250));
    };
    killed_before_each_write(
        Writes::OfLog,
        arrange,
        &["import", "--json", "claude.jsonl"],
        is_completed,
    );
}

/// So many messages that those of a chat take two batches.
const ROWS: u64 = 1_100;

#[test]
fn the_old_tables_are_completed() {
    let arrange = |place: &Place| {
        let (mut chats, mut history) = (String::new(), String::new());
        for chat in 0..3 {
            writeln!(
                chats,
                r#"{{"id":{chat},"chat_id":"c{chat}","assistant_id":"neo","title":"Chat {chat}"}}"#
            )
            .unwrap();
        }
        for row in 0..ROWS {
            let (chat, role) = (
                u64::from(row % 20 == 0),
                if row % 4 < 2 { "user" } else { "assistant" },
            );
            writeln!(
                history,
                r#"{{"id":{row},"chat_id":"c{chat}","role":"{role}","content":"row {row}"}}"#
            )
            .unwrap();
        }
        place.write("chats.jsonl", chats);
        place.write("history.jsonl", history);
    };
    let arguments = ["import", "--json", "chats.jsonl", "history.jsonl"];
    killed_before_each_write(Writes::OfLog, arrange, &arguments, |again| {
        assert_eq!(again.said.code, 0, "{}", again.at);
        assert_same(again);
        let report = again.said.json();
        let rows = |of: usize, name: &str| report[of][name].as_u64().unwrap();
        let chats_before = again.before.chats.len() as u64;
        let messages_before = again
            .before
            .chats
            .iter()
            .map(|chat| chat.matches("\"row ").count() as u64)
            .sum::<u64>();
        assert_eq!(
            (rows(0, "chats"), rows(0, "skipped")),
            (3 - chats_before, chats_before),
            "{}",
            again.at
        );
        let expected = (ROWS - messages_before, messages_before);
        assert_eq!(
            (rows(1, "messages"), rows(1, "skipped")),
            expected,
            "{}",
            again.at
        );
    });
}

/// Runs of a benchmark: messages, with fields of the run's own around them.
fn runs(count: usize, messages: usize) -> String {
    let mut lines = String::new();
    for run in 0..count {
        let messages: Vec<String> = (0..messages)
            .map(|number| match number % 4 {
                0 => format!(r#"{{"role":"user","content":"question {number} of {run}"}}"#),
                1 => format!(
                    r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{number}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}]}}"#
                ),
                2 => format!(r#"{{"role":"tool","tool_call_id":"c{}","content":"ok"}}"#, number - 1),
                _ => format!(r#"{{"note":"no message, number {number}"}}"#),
            })
            .collect();
        let messages = messages.join(", ");
        writeln!(
            lines,
            r#"{{"task_id": {run}, "reward": 0.5, "traj": [{messages}], "trial": 1}}"#
        )
        .unwrap();
    }
    lines
}

/// Lines of two sessions of Claude Code, one with a tenth of them, with sub-agents and lines that are no message.
pub(crate) fn claude_code(count: usize) -> String {
    let mut lines = String::new();
    for number in 0..count {
        let session = usize::from(number % 10 == 3);
        let time = format!(
            "2025-07-01T09:{:02}:{:02}.000Z",
            number / 60 % 60,
            number % 60
        );
        let around =
            format!(r#""sessionId":"session-{session}","uuid":"u{number}","timestamp":"{time}""#);
        let line = match number % 7 {
            0 => format!(r#"{{"type":"progress",{around},"text":"{number}"}}"#),
            1 | 2 => format!(
                r#"{{"type":"user","isSidechain":true,"agentId":"a1",{around},"message":{{"role":"user","content":"sub {number}"}}}}"#
            ),
            _ => format!(
                r#"{{"type":"user",{around},"message":{{"role":"user","content":"said {number}"}}}}"#
            ),
        };
        lines += &line;
        lines.push('\n');
    }
    lines
}

/// Writes `export.jsonl`: a run in an archived session, a fork of it, and a session with a sub-agent.
fn export(place: &Place, messages: usize, format: &str) {
    let from = Place::in_memory();
    from.write("runs.jsonl", runs(1, messages));
    from.write("claude.jsonl", claude_code(20));
    from.expect(0, &["import", "runs.jsonl", "claude.jsonl"]);
    let run = State::of(&from).sessions[0].0.clone();
    from.expect(0, &["copy", &run, "--to-point", "3", "--name", "fork"]);
    let store = Store::open(from.path(STORE)).unwrap();
    let session = store.find_session(&run).unwrap();
    store.archive_session(session.id).unwrap();
    store.close().unwrap();
    let out = place.path("export.jsonl");
    let sessions = [run.as_str(), "fork", "session-0", "session-1"];
    from.expect(
        0,
        &[
            &["export", "--format", format, "-o", out.to_str().unwrap()],
            &sessions[..],
        ]
        .concat(),
    );
}
