//! `runlog mcp`, as a client that writes its lines and then says no more sees it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::Place;
use serde_json::{Value, json};

/// What is answered to lines, in the order of the answers.
fn answers(lines: &str) -> Vec<Value> {
    let place = Place::new();
    place.write("agents.json", r#"{"agents": []}"#);
    let said = place.with_input(&["mcp", "--agents", "agents.json"], lines.as_bytes());
    assert_eq!((said.code, &*said.err), (0, ""), "{said:?}");
    said.json()
}

fn request(id: u64, method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method}).to_string()
}

fn initialize() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }})
    .to_string()
}

/// The answer to a request, among others.
#[track_caller]
fn to(id: u64, answers: &[Value]) -> &Value {
    let found: Vec<&Value> = answers.iter().filter(|it| it["id"] == id).collect();
    assert_eq!(found.len(), 1, "{id}: {answers:?}");
    found[0]
}

#[test]
fn a_request_before_initialize_is_told_to_send_that_first() {
    for method in ["tools/list", "no/such"] {
        let lines = [
            request(7, "ping"),
            request(8, method),
            initialize(),
            request(8, "tools/list"),
        ];
        let answers = answers(&(lines.join("\n") + "\n"));
        assert_eq!(to(7, &answers)["result"], json!({}));
        assert!(to(1, &answers)["result"].is_object(), "{answers:?}");
        let (refused, listed): (Vec<_>, Vec<_>) = answers
            .iter()
            .filter(|it| it["id"] == 8)
            .partition(|it| it["error"].is_object());
        assert_eq!((refused.len(), listed.len()), (1, 1), "{answers:?}");
        assert_eq!(refused[0]["error"]["code"], -32600);
        let says = format!("{method} came before initialize; send initialize first");
        assert_eq!(refused[0]["error"]["message"], says);
        assert!(listed[0]["result"]["tools"].is_array(), "{answers:?}");
    }
    // Also where nothing comes after it.
    let answers = answers(&(request(9, "tools/list") + "\n"));
    assert_eq!(to(9, &answers)["error"]["code"], -32600);
}

#[test]
fn a_client_that_sends_no_initialize_says_what_it_has_to_say_in_each_request() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let with = |id: u64, method: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"_meta": meta}}).to_string()
    };
    let lines = [
        with(1, "server/discover"),
        // After a mere look the conversation hasn't begun, and this is passed over.
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        with(2, "tools/list"),
    ];
    let answers = answers(&(lines.join("\n") + "\n"));
    assert!(to(1, &answers)["result"].is_object(), "{answers:?}");
    assert!(to(2, &answers)["result"]["tools"].is_array(), "{answers:?}");
}

#[test]
fn a_last_line_without_a_newline_is_answered() {
    let last = [
        (request(2, "ping"), json!(2)),
        // The refusal is written before the process ends.
        (r#"{"id":2,"#.to_owned(), json!(2)),
        ("{".to_owned(), Value::Null),
    ];
    for (line, id) in last {
        let answers = answers(&format!("{}\n{line}", initialize()));
        assert_eq!(answers.len(), 2, "{line}: {answers:?}");
        assert_eq!(answers[1]["id"], id, "{line}: {answers:?}");
    }
    let answers = answers(&initialize());
    assert_eq!(to(1, &answers)["result"]["serverInfo"]["name"], "runlog");
}

#[test]
fn a_method_that_is_not_there_is_named_with_what_is() {
    for method in ["foo/bar", "prompts/get", "logging/setLevel"] {
        let params = json!({"name": "x", "level": "info"});
        let asked = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        let answers = answers(&format!("{}\n{asked}\n", initialize()));
        let error = &to(2, &answers)["error"];
        assert_eq!(error["code"], -32601, "{error}");
        let says = format!(
            "this server has no method {method:?}; it has tools, which tools/list lists and tools/call calls"
        );
        assert_eq!(error["message"], says);
    }
}

#[test]
fn the_help_tells_of_a_run_for_each_of_several_calls() {
    let place = Place::new();
    let help = place.expect(0, &["mcp", "--help"]).out;
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Calls of spawn_agents at the same time have such a run each"),
        "{help}"
    );
}
