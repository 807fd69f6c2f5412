//! `runlog record-fixtures`, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, path::Path};

use common::Place;
use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId,
    blocking::{FlowRun, Store},
    flows::RuntimeEvent,
    runs::ToolOutcome,
};
use serde_json::{Value, json};

/// A flow of two agents, one of them called twice and the other once at the same time; gives its id.
fn flow(store: &Store) -> RunId {
    let mut flow = FlowRun::create(store, None).unwrap();
    let events = [
        json!({"type": "flow:started"}),
        json!({"type": "agent:start", "nodeId": "task-agent", "runId": "r1", "sessionId": "s1", "model": "m", "prompt": "Analyze it."}),
        json!({"type": "agent:start", "nodeId": "a/b", "runId": "r2", "sessionId": "s2", "prompt": [{"role": "user", "content": "Verify it."}]}),
        json!({"type": "agent:thinking:delta", "nodeId": "task-agent", "runId": "r1", "content": "Hm", "tokenCount": 1}),
        json!({"type": "agent:text:delta", "nodeId": "a/b", "runId": "r2", "content": "Half"}),
        json!({"type": "agent:tool", "nodeId": "task-agent", "runId": "r1", "toolName": "read", "toolInput": {"path": "a"}, "toolOutput": "A", "durationMs": 3.5}),
        json!({"type": "agent:error", "nodeId": "a/b", "runId": "r2", "errorType": "error_max_turns", "message": "too many"}),
        json!({"type": "agent:complete", "nodeId": "task-agent", "runId": "r1", "result": "Analyzed.", "usage": {"inputTokens": 15, "outputTokens": 20}, "durationMs": 1234.0, "numTurns": 2}),
        json!({"type": "agent:start", "nodeId": "task-agent", "runId": "r1", "sessionId": "s1", "prompt": "continue"}),
        json!({"type": "agent:text", "nodeId": "task-agent", "runId": "r1", "content": "Done."}),
    ];
    for (index, mut event) in events.into_iter().enumerate() {
        event["timestamp"] = (1000 + index).into();
        flow.record(&RuntimeEvent::parse(event.to_string()).unwrap())
            .unwrap();
    }
    flow.run_id()
}

fn read(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The fixtures that the tests of the npm package play.
fn played_from_javascript(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../sdk/test/testing/fixtures/from-cli")
        .join(name)
}

#[test]
fn a_flow_gives_a_file_for_each_node_that_javascript_plays() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let run = flow(&store).to_string();
    store.close().unwrap();
    let said = place.expect(
        0,
        &["record-fixtures", &run, "--output", "fixtures", "--json"],
    );
    let files = &said.json()[0]["files"];
    assert_eq!(files.as_array().unwrap().len(), 2, "{files}");
    assert_eq!(
        (&files[1]["node"], &files[1]["calls"]),
        (&"task-agent".into(), &2.into())
    );
    for name in ["task-agent.json", "a%2Fb.json"] {
        assert_eq!(
            read(place.path("fixtures").join(name)),
            read(played_from_javascript(name)),
            "{name}"
        );
    }
    // The same again is no conflict. Nothing else is written over unless that is asked for, and nothing is written
    // where something isn't right.
    place.expect(0, &["record-fixtures", &run, "--output", "fixtures"]);
    place.write("fixtures/task-agent.json", "{}");
    let refused = place.expect(4, &["record-fixtures", &run, "--output", "fixtures"]);
    assert!(refused.err.contains("--overwrite"), "{}", refused.err);
    place.expect(
        0,
        &[
            "record-fixtures",
            &run,
            "--output",
            "fixtures",
            "--overwrite",
        ],
    );
    let one = place.expect(0, &["record-fixtures", &run, "-o", "one", "--node", "a/b"]);
    assert!(one.out.contains("a%2Fb.json: 1 call"), "{}", one.out);
    assert_eq!(fs::read_dir(place.path("one")).unwrap().count(), 1);
    let unknown = place.expect(3, &["record-fixtures", &run, "-o", "none", "--node", "x"]);
    assert!(
        unknown.err.contains("\"task-agent\"") && !place.path("none").exists(),
        "{}",
        unknown.err
    );
}

#[test]
fn a_run_and_a_session_give_a_call_for_each_message_of_the_user() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(
            NewSession::titled("Fix it"),
            "coder",
        ))
        .unwrap();
    run.record_message(NewMessage::system("Be careful."))
        .unwrap();
    run.record_message(NewMessage::user("The parser drops the last line."))
        .unwrap();
    let asked = NewMessage::assistant("Looking.").with_tool_calls([NewToolCall::new(
        "c1",
        "ls",
        "{\"path\":\".\"}",
    )]);
    let outcome = ToolOutcome::error("c1", RawJson::string("no such folder")).took_ms(1234);
    run.record_tool_call(asked.to_json().unwrap(), &[outcome])
        .unwrap();
    let with_usage = r#"{"role":"assistant","content":"Found it.","usage":{"input_tokens":7,"output_tokens":9}}"#;
    run.record_raw_message(RawJson::parse(with_usage).unwrap())
        .unwrap();
    run.record_message(NewMessage::user("Go on.")).unwrap();
    run.record_message(NewMessage::user("Quickly.")).unwrap();
    let open = NewMessage::assistant("").with_tool_calls([NewToolCall::new("c2", "grep", "{}")]);
    run.record_message(open).unwrap();
    run.pause("lunch").unwrap();
    let id = run.id().to_string();
    drop(run);
    store.close().unwrap();

    place.expect(0, &["record-fixtures", &id, "--output", "of-run"]);
    place.expect(
        0,
        &["record-fixtures", "Fix it", "--output", "of-none"]
            .map(|it| if it == "Fix it" { "@last" } else { it }),
    );
    let session = place.expect(0, &["ls", "--json"]).json()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    place.expect(0, &["record-fixtures", &session, "--output", "of-session"]);
    let fixture = read(place.path("of-run").join("coder.json"));
    assert_eq!(fixture, read(place.path("of-session").join("coder.json")));

    let calls = fixture["calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    let expected = json!({"prompt": "The parser drops the last line.", "options": {"systemPrompt": "Be careful."}});
    assert_eq!(calls[0]["input"], expected);
    assert_eq!(calls[0]["output"]["text"], "Found it.");
    assert_eq!(
        calls[0]["output"]["usage"],
        json!({"inputTokens": 7, "outputTokens": 9})
    );
    assert_eq!(calls[0]["output"]["numTurns"], 2);
    let types: Vec<&str> = calls[0]["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        [
            "agent:start",
            "agent:text",
            "agent:tool",
            "agent:text",
            "agent:complete"
        ]
    );
    let tool = json!({
        "type": "agent:tool", "toolName": "ls", "toolInput": {"path": "."}, "toolOutput": "no such folder",
        "durationMs": 1234, "error": "no such folder",
    });
    assert_eq!(calls[0]["events"][2], tool);
    assert_eq!(calls[1]["input"]["prompt"][1]["content"], "Quickly.");
    assert_eq!(calls[1]["events"][1]["error"], "no result was recorded");
}

#[test]
fn a_program_that_is_run_is_told_the_folder_and_what_it_wrote_is_told() {
    let place = Place::new();
    let program = r#"printf '{"calls":[{}]}' > "$RUNLOG_RECORD_FIXTURES/a%2Fb.json"; echo "$RUNLOG_FLOW" > "$0"; exit "$1""#;
    let seen = place.path("seen").display().to_string();
    let run = |code: &str, arguments: &[&str]| {
        place.expect(
            code.parse().unwrap(),
            &[&["record-fixtures", "-o", "out", "--json"], arguments].concat(),
        )
    };
    let said = run(
        "0",
        &[
            "--flow",
            "flows/my.json",
            "--",
            "sh",
            "-c",
            program,
            &seen,
            "0",
        ],
    );
    assert_eq!(
        (
            &said.json()[0]["files"][0]["node"],
            &said.json()[0]["files"][0]["calls"]
        ),
        (&"a/b".into(), &1.into())
    );
    assert_eq!(fs::read_to_string(&seen).unwrap(), "flows/my.json\n");
    run("7", &["--", "sh", "-c", program, &seen, "3"]);
    assert!(run("1", &["--", "true"]).err.contains("createClaudeNode"));
    run("3", &["--", "no-such-program-anywhere"]);
    run("2", &[]);
}

#[test]
fn what_is_no_run_or_has_no_calls_is_told() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let empty = FlowRun::create(&store, None).unwrap().run_id().to_string();
    let session = store
        .create_session(NewSession::titled("Nothing"))
        .unwrap()
        .id
        .to_string();
    store.close().unwrap();
    for of in [
        &empty,
        &session,
        "nonsense",
        "0198c7e0-0000-7000-8000-000000000000",
    ] {
        let said = place.expect(3, &["record-fixtures", of, "--output", "out", "--json"]);
        assert_eq!(
            serde_json::from_str::<Value>(said.err.trim()).unwrap()["error"]["kind"],
            "not_found",
            "{of}"
        );
    }
    assert!(!place.path("out").exists());
}
