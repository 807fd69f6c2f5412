//! Fixtures of recorded flows, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, path::Path};

use common::Place;
use runlog::{FlowRun, RunId, RuntimeEvent, Store};
use serde_json::{Value, json};

fn flow(place: &Place) -> RunId {
    let store = Store::open(place.path("runlog-data")).unwrap();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let mut tell = |node: &str, run: &str, event: Value| {
        let mut event = event;
        for (name, value) in [("nodeId", json!(node)), ("runId", json!(run)), ("timestamp", json!(7))] {
            event[name] = value;
        }
        flow.record(&RuntimeEvent::parse(event.to_string()).unwrap()).unwrap();
    };
    let start = |session: &str, prompt: Value| json!({"type": "agent:start", "sessionId": session, "prompt": prompt});
    let usage = json!({"inputTokens": 1, "outputTokens": 2});
    let complete =
        |text: &str| json!({"type": "agent:complete", "result": text, "usage": usage, "durationMs": 5, "numTurns": 1});
    tell("task-agent", "r1", start("s1", json!("Analyze.")));
    tell("verifier", "r2", start("s2", json!([{"role": "user", "content": "Verify."}])));
    tell("task-agent", "r1", json!({"type": "agent:text:delta", "content": "I'll"}));
    tell("verifier", "r2", complete("It holds."));
    tell("task-agent", "r1", complete("Done."));
    tell("task-agent", "r3", start("s1", json!("continue")));
    tell("task-agent", "r3", complete("More."));
    tell("slow", "r4", start("s4", json!("Wait.")));
    let run = flow.run_id();
    store.close().unwrap();
    run
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_recorded_flow_becomes_fixtures() {
    let place = Place::new();
    let run = flow(&place).to_string();
    let said = place.expect(0, &["record-fixtures", "--run", &run, "--output", "fixtures", "--json"]);
    let told = &said.json()[0];
    assert_eq!(told["fixtures"], json!({"task-agent": 2, "verifier": 1}));
    assert_eq!(told["left_out"], 1);
    let fixture = read(&place.path("fixtures/task-agent.json"));
    assert_eq!(
        fixture["calls"][0],
        json!({
            "input": {"prompt": "Analyze."},
            "output": {
                "text": "Done.", "usage": {"inputTokens": 1, "outputTokens": 2}, "durationMs": 5, "numTurns": 1,
                "sessionId": "s1"
            },
            "events": [
                {"type": "agent:start", "sessionId": "s1"},
                {"type": "agent:text:delta", "content": "I'll"},
                {
                    "type": "agent:complete", "result": "Done.", "usage": {"inputTokens": 1, "outputTokens": 2},
                    "durationMs": 5, "numTurns": 1
                }
            ]
        })
    );
    assert_eq!(fixture["calls"][1]["input"]["prompt"], "continue");
    let verifier = read(&place.path("fixtures/verifier.json"));
    assert_eq!(verifier["calls"][0]["input"]["prompt"], json!([{"role": "user", "content": "Verify."}]));
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let place = Place::new();
    let run = flow(&place).to_string();
    place.expect(2, &["record-fixtures", "--output", "fixtures"]);
    place.expect(2, &["record-fixtures", "--run", &run]);
    let nobody = "0198c7e0-0000-7000-8000-000000000000";
    place.expect(3, &["record-fixtures", "--output", "fixtures", "--run", nobody]);
}

#[cfg(unix)]
#[test]
fn a_command_is_told_where_to_write() {
    let place = Place::new();
    let script = r#"printf '{"calls":[{"input":{"prompt":"%s"},"output":{"text":"x"},"events":[]}]}' "$RUNLOG_FLOW" \
        > "$RUNLOG_RECORD_FIXTURES/node.json""#;
    let call = ["record-fixtures", "--output", "out", "--flow", "my-flow.json", "--json", "--", "sh", "-c", script];
    assert_eq!(place.expect(0, &call).json()[0]["fixtures"], json!({"node": 1}));
    assert_eq!(read(&place.path("out/node.json"))["calls"][0]["input"]["prompt"], "my-flow.json");

    let said = place.expect(1, &["record-fixtures", "--output", "out", "--", "true"]);
    assert!(said.err.contains("wrote no fixture"), "{}", said.err);
    place.expect(7, &["record-fixtures", "--output", "out", "--", "sh", "-c", "exit 3"]);
    let wrong = "echo '{}' > \"$RUNLOG_RECORD_FIXTURES/wrong.json\"";
    let said = place.expect(1, &["record-fixtures", "--output", "out", "--", "sh", "-c", wrong]);
    assert!(said.err.contains("wrong.json is no fixture"), "{}", said.err);
    place.expect(3, &["record-fixtures", "--output", "out", "--", "no-such-program"]);
}
