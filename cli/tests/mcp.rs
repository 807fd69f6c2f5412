//! `runlog mcp`: a client of the Model Context Protocol starts it, lists its tools, and calls them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use common::Place;
use serde_json::{Value, json};

/// A client that has a server of its own.
struct Client {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
    /// What was read while something else was waited for.
    passed: Vec<Value>,
}

impl Client {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut process = place
            .command(arguments)
            .stdin(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let mut client = Self {
            stdin: process.stdin.take(),
            process,
            stdout,
            last_id: 0,
            passed: Vec::new(),
        };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
        });
        let answer = client.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "runlog", "{answer}");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The first message that is wanted; what comes before it is kept for who wants that.
    fn first(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.passed.iter().position(&is_wanted) {
            return self.passed.remove(place);
        }
        loop {
            let mut line = String::new();
            assert!(
                self.stdout.read_line(&mut line).unwrap() > 0,
                "the server goes on talking"
            );
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_wanted(&message) {
                return message;
            }
            self.passed.push(message);
        }
    }

    /// The answer to a request, whatever the server says beside it.
    fn answer_to(&mut self, id: u64) -> Value {
        self.first(|message| message["id"] == id)
    }

    /// The params of the next notification of a method.
    fn notified(&mut self, method: &str) -> Value {
        self.first(|message| message["method"] == method)["params"].take()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer_to(id)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        answer["result"]["structuredContent"].clone()
    }

    /// Says no more, and waits for the server's end.
    fn end(mut self) -> i32 {
        drop(self.stdin.take());
        self.process.wait().unwrap().code().unwrap()
    }
}

/// Agents that are the agent of the tests, with what each does.
fn agents(place: &Place, agents: &[(&str, &[&str])]) {
    let entry = |(name, steps): &(&str, &[&str])| {
        let command: Vec<&str> = [env!("CARGO_BIN_EXE_scripted-agent")]
            .into_iter()
            .chain(steps.iter().copied())
            .collect();
        json!({
            "name": name, "description": format!("is {name}"), "system_prompt": "SECRET", "tools": ["f"],
            "max_steps": 3, "command": command
        })
    };
    let agents: Vec<Value> = agents.iter().map(entry).collect();
    place.write(
        "agents.json",
        json!({"project": "papers", "agents": agents}).to_string(),
    );
}

const MCP: [&str; 3] = ["mcp", "--agents", "agents.json"];

#[test]
fn a_client_lists_the_tools_and_the_agents() {
    let place = Place::new();
    agents(&place, &[("talker", &["ready"]), ("worker", &["ready"])]);
    let mut client = Client::start(&place, &MCP);
    let tools = client.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap().clone();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "list_available_agents",
            "spawn_agents",
            "send_to_run",
            "list_runs",
            "get_run",
            "list_run_messages",
            "get_run_message",
            "list_tool_calls",
            "get_tool_call",
            "list_flows"
        ]
    );
    let help = place.expect(0, &["mcp", "--help"]).out;
    let told: Vec<&str> = help.split([' ', ',', ';', '.', '\n']).collect();
    assert!(names.iter().all(|name| told.contains(name)), "{help}");
    assert!(
        tools
            .iter()
            .all(|tool| tool["inputSchema"]["type"] == "object")
    );
    let list_runs = &tools[3]["inputSchema"];
    let filters: Vec<&String> = list_runs["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        filters,
        [
            "agent_name",
            "cursor",
            "limit",
            "parent_run_id",
            "project",
            "session_id",
            "status"
        ]
    );
    assert_eq!(
        list_runs["properties"]["project"]["description"],
        "Only runs of this project"
    );
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["run_id"]));
    let listed = client.call("list_available_agents", json!({}));
    assert_eq!(
        (&listed["agents"][0]["name"], &listed["agents"][1]["tools"]),
        (&json!("talker"), &json!(["f"]))
    );
    assert!(!listed.to_string().contains("SECRET"), "{listed}");
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_spawns_programs_and_looks_at_what_they_did() {
    let place = Place::new();
    agents(
        &place,
        &[
            (
                "talker",
                &[
                    "ready",
                    "context",
                    "ack",
                    "done:{\"summary\":\"all is said\"}",
                ],
            ),
            (
                "caller",
                &[
                    "ready",
                    "call:c1",
                    "ack",
                    "result:c1",
                    "ack",
                    "say:The last words.",
                    "ack",
                ],
            ),
            ("broken", &["ready", "say:Half.", "ack", "exit:3"]),
            (
                "endless",
                &[
                    "ready", "say:1", "say:2", "say:3", "say:4", "ack", "ack", "ack", "ack", "stop",
                ],
            ),
        ],
    );
    let mut client = Client::start(&place, &MCP);
    let names = ["talker", "caller", "nobody", "broken", "endless"];
    let requests: Vec<Value> = names
        .iter()
        .map(|name| json!({"agent_name": name, "task": "Go."}))
        .collect();
    let spawned = client.call("spawn_agents", json!({"requests": requests}));
    let results = spawned["results"].as_array().unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|result| (result["status"].as_str().unwrap(), &result["steps"]))
        .collect();
    assert_eq!(
        told,
        [
            ("completed", &json!(1)),
            ("completed", &json!(2)),
            ("failed", &json!(0)),
            ("failed", &json!(1)),
            ("paused", &json!(3))
        ]
    );
    assert_eq!(results[0]["summary"], "all is said");
    assert_eq!(
        results[1]["summary"], "The last words.",
        "an agent that gives no summary has said it"
    );
    assert!(
        results[3]["error"]
            .as_str()
            .unwrap()
            .contains("exit code 3"),
        "{spawned}"
    );
    assert_eq!(results[4]["pause_reason"], "step budget spent");

    let parent = &spawned["parent_run_id"];
    let listed = client.call("list_runs", json!({"parent_run_id": parent, "limit": 3}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let next = client.call(
        "list_runs",
        json!({"parent_run_id": parent, "limit": 3, "cursor": listed["next"]}),
    );
    assert_eq!(next["items"].as_array().unwrap().len(), 1);
    for (project, count) in [("papers", 4), ("other", 0)] {
        let of_project = json!({"parent_run_id": parent, "project": project});
        let listed = client.call("list_runs", of_project);
        assert_eq!(
            listed["items"].as_array().unwrap().len(),
            count,
            "{project}"
        );
    }
    let run = &results[1]["run_id"];
    assert_eq!(
        client.call("get_run", json!({"run_id": run}))["agent_name"],
        "caller"
    );
    let messages = client.call("list_run_messages", json!({"run_id": run}));
    assert_eq!(messages["items"].as_array().unwrap().len(), 5, "{messages}");
    let message = client.call(
        "get_run_message",
        json!({"run_id": run, "message_id": messages["items"][0]["id"]}),
    );
    assert_eq!(message["role"], "system");
    let calls = client.call("list_tool_calls", json!({"run_id": run, "tool_name": "f"}));
    assert_eq!(calls["items"][0]["status"], "completed", "{calls}");
    let call = client.call(
        "get_tool_call",
        json!({"run_id": run, "tool_call_id": calls["items"][0]["id"]}),
    );
    assert_eq!(call["duration_ms"], 12);
    assert_eq!(client.end(), 0);

    // The client's own run has ended, with the calls that it made.
    let runs = place.expect(0, &["--json", "runs"]).out;
    assert!(
        runs.contains("mcp-client") && !runs.contains("\"running\""),
        "{runs}"
    );
}

#[test]
fn a_paused_run_is_resumed_by_the_client() {
    let place = Place::new();
    agents(
        &place,
        &[(
            "worker",
            &[
                "ready",
                "context",
                "ack",
                "done:{\"pause_reason\":\"asks\"}",
            ],
        )],
    );
    let mut client = Client::start(&place, &MCP);
    let request = json!({"agent_name": "worker", "task": "Go."});
    let first = client.call("spawn_agents", json!({"requests": [request]}));
    let (run, status) = (
        &first["results"][0]["run_id"],
        &first["results"][0]["status"],
    );
    assert_eq!(status, "paused");
    let request = json!({"agent_name": "worker", "task": "", "resume_run_id": run});
    // What can't be read is refused alone.
    let wrong = json!({"agent_name": "worker", "resume_run_id": "run_7"});
    let late = json!({"agent_name": "worker", "task": "x", "timeout": "30s"});
    let second = client.call("spawn_agents", json!({"requests": [request, wrong, late]}));
    assert_eq!(second["results"][0]["steps"], 2, "{second}");
    for (index, name) in [(1, "resume_run_id"), (2, "timeout")] {
        let refused = &second["results"][index];
        assert_eq!(
            (&refused["status"], &refused["run_id"]),
            (&json!("failed"), &json!(null))
        );
        assert!(
            refused["error"].as_str().unwrap().contains(name),
            "{second}"
        );
    }
    let messages = client.call(
        "list_run_messages",
        json!({"run_id": second["results"][0]["run_id"]}),
    );
    assert!(
        messages.to_string().contains("4 messages, the last"),
        "it got the context as it was: {messages}"
    );
    assert_eq!(client.end(), 0);
}

#[test]
fn what_is_wrong_with_a_call_is_told() {
    let place = Place::new();
    agents(&place, &[("worker", &["ready"])]);
    let mut client = Client::start(&place, &MCP);
    for (tool, arguments, says) in [
        ("spawn_agents", json!({"requests": []}), "at least one"),
        (
            "get_run",
            json!({"run_id": "x"}),
            r#"the arguments of get_run: `run_id`: \"x\" is not an id (a UUID)"#,
        ),
        ("get_run", json!({}), "`run_id` is missing"),
        (
            "list_runs",
            json!({"limit": -1}),
            "`limit`: -1 is not a whole number, 0 or more",
        ),
        (
            "list_tool_calls",
            json!({"run_id": "x", "limit": 5}),
            r#"`run_id`: \"x\" is not an id (a UUID)"#,
        ),
        (
            "list_tool_calls",
            json!({"run_id": "0198c7e0-0000-7000-8000-000000000000", "limit": "5"}),
            r#"`limit`: \"5\" is not a whole number, 0 or more"#,
        ),
        (
            "list_runs",
            json!({"status": "dancing"}),
            r#"`status`: \"dancing\" is not known here; expected one of"#,
        ),
        (
            "get_run",
            json!({"run_id": "0198c7e0-0000-7000-8000-000000000000"}),
            "no run",
        ),
        (
            "list_runs",
            json!({"stat": "paused"}),
            "`stat` is not a field that is known here; known are `",
        ),
        ("list_flows", json!({"stat": "paused"}), "`stat` is not"),
        (
            "list_available_agents",
            json!({"project": "papers"}),
            "there is no field `project`: none is taken here",
        ),
        (
            "list_tool_calls",
            json!({"run_id": "0198c7e0-0000-7000-8000-000000000000", "tool": "f"}),
            "`tool`",
        ),
    ] {
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(
            answer["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains(says),
            "{answer}"
        );
    }
    let answer = client.ask("tools/call", json!({"name": "dance", "arguments": {}}));
    assert!(
        answer["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no tool"),
        "{answer}"
    );
    assert_eq!(client.end(), 0);
}

#[test]
fn a_call_that_the_client_gives_up_is_cancelled_with_its_programs() {
    let place = Place::new();
    agents(
        &place,
        &[("slow", &["ready", "say:Begun.", "ack", "sleep:60000"])],
    );
    let mut client = Client::start(&place, &MCP);
    let request = json!({"agent_name": "slow", "task": "Go."});
    let params = json!({"name": "spawn_agents", "arguments": {"requests": [request]}});
    let id = client.begin("tools/call", params);
    until(&mut client, "running", 1);
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    until(&mut client, "cancelled", 0);
    let begun = Instant::now();
    assert_eq!(client.end(), 0);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "its program is not waited for"
    );
}

#[test]
fn calls_at_once_spawn_each_their_own() {
    let place = Place::new();
    agents(
        &place,
        &[
            ("slow", &["ready", "say:Begun.", "ack", "sleep:60000"]),
            ("worker", &["ready", "say:Done.", "ack"]),
        ],
    );
    let mut client = Client::start(&place, &MCP);
    let spawn = |client: &mut Client, agent: &str| {
        let request = json!({"agent_name": agent, "task": "Go."});
        client.begin(
            "tools/call",
            json!({"name": "spawn_agents", "arguments": {"requests": [request]}}),
        )
    };
    let slow = spawn(&mut client, "slow");
    until(&mut client, "running", 1);
    let ids: Vec<u64> = (0..6).map(|_| spawn(&mut client, "worker")).collect();
    for id in ids {
        let answer = client.answer_to(id);
        let result = &answer["result"]["structuredContent"]["results"][0];
        assert_eq!(result["status"], "completed", "{answer}");
    }
    // One that is given up leaves nothing in the way of the next.
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}}));
    let next = spawn(&mut client, "worker");
    let answer = client.answer_to(next);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    until(&mut client, "cancelled", 0);
    // One at a time takes one of the client's runs again and again.
    let of_client = |client: &mut Client| {
        let listed = client.call(
            "list_runs",
            json!({"agent_name": "mcp-client", "limit": 100}),
        );
        let runs = listed["items"].as_array().unwrap();
        assert!(
            runs.iter()
                .all(|run| run["session_id"] == runs[0]["session_id"]),
            "{listed}"
        );
        runs.len()
    };
    let count = of_client(&mut client);
    assert!((2..=7).contains(&count), "{count}");
    for _ in 0..3 {
        client.call(
            "spawn_agents",
            json!({"requests": [{"agent_name": "worker", "task": "Go."}]}),
        );
    }
    assert_eq!(of_client(&mut client), count);
    assert_eq!(client.end(), 0);
    let runs = place.expect(0, &["--json", "runs", "--limit", "100"]).out;
    assert!(
        !runs.contains("\"running\"") && !runs.contains("\"paused\""),
        "{runs}"
    );
}

/// Waits until the program's run has this status, and so many steps at least.
fn until(client: &mut Client, status: &str, steps: u64) {
    loop {
        let listed = client.call("list_runs", json!({"agent_name": "slow", "status": status}));
        if listed["items"][0]["step_count"]
            .as_u64()
            .is_some_and(|count| count >= steps)
        {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_agents_the_store_is_only_read_also_beside_a_writer() {
    let place = Place::new();
    agents(&place, &[("talker", &["ready", "say:Hello.", "ack"])]);
    let mut writer = Client::start(&place, &MCP);
    let request = json!({"agent_name": "talker", "task": "Go."});
    writer.call("spawn_agents", json!({"requests": [request]}));
    let mut reader = Client::start(&place, &["mcp", "--project", "papers"]);
    let tools = reader.ask("tools/list", json!({})).to_string();
    assert!(
        !tools.contains("\"spawn_agents\"") && tools.contains("list_runs"),
        "{tools}"
    );
    assert_eq!(
        reader.call("list_available_agents", json!({}))["agents"][0]["name"],
        "talker"
    );
    assert_eq!(
        reader.call("list_runs", json!({"agent_name": "talker"}))["items"][0]["status"],
        "completed"
    );
    assert_eq!((reader.end(), writer.end()), (0, 0));
}

#[test]
fn runs_that_a_crash_cut_off_go_on() {
    let place = Place::new();
    agents(
        &place,
        &[("slow", &["ready", "say:Begun.", "ack", "sleep:60000"])],
    );
    let mut client = Client::start(&place, &MCP);
    let request = json!({"agent_name": "slow", "task": "Go."});
    client.begin(
        "tools/call",
        json!({"name": "spawn_agents", "arguments": {"requests": [request]}}),
    );
    until(&mut client, "running", 1);
    client.process.kill().unwrap();
    client.process.wait().unwrap();

    agents(&place, &[("slow", &["ready", "context", "ack"])]);
    let mut client = Client::start(&place, &["mcp", "--agents", "agents.json", "--resume"]);
    until(&mut client, "completed", 2);
    let listed = client.call("list_runs", json!({"agent_name": "slow"}));
    assert_eq!(
        listed["items"][0]["resumed_from"], listed["items"][1]["id"],
        "{listed}"
    );
    assert_eq!(client.end(), 0);
}

#[test]
fn a_file_of_agents_that_is_wrong_is_told_before_anything_is_made() {
    let place = Place::new();
    place.write(
        "agents.json",
        "{\"agents\":[{\"name\":\"a\",\"command\":[]}]}",
    );
    let said = place.expect(2, &MCP);
    assert!(said.err.contains("empty command"), "{said:?}");
    place.write(
        "twice.json",
        r#"{"agents":[{"name":"a","command":["x"]},{"name":"a","command":["y"]}]}"#,
    );
    for command in [
        &["mcp", "--agents", "twice.json"][..],
        &["run", "--agents", "twice.json", "--", "true"],
    ] {
        let said = place.expect(2, command);
        assert!(said.err.contains("agent \"a\" is there twice"), "{said:?}");
    }
    place.expect(3, &["mcp", "--agents", "nowhere.json"]);
    place.expect(3, &["mcp"]);
    assert!(!place.path("runlog-data").exists());
}

#[test]
fn every_line_gets_an_answer() {
    let place = Place::new();
    agents(&place, &[("worker", &["ready"])]);
    let mut client = Client::start(&place, &MCP);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":3,"method":"ping","params":{}1{}}}"#,
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let huge = format!(
        r#"{{"jsonrpc":"2.0","id":"huge","method":"ping","params":"{}"}}"#,
        "x".repeat(17 << 20)
    );
    let large = r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#;
    let many = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{{"name":"list_runs","arguments":{{"a":{text}}}}}}}"#
        )
    };
    let zeros = many(&format!("[{}0]", "0,".repeat(8_000_000)));
    let objects = many(&format!("[{}0]", r#"{"a":0},"#.repeat(2_000_000)));
    let lines: [(&[u8], Value, i64); 11] = [
        (zeros.as_bytes(), json!(6), -32600),
        (objects.as_bytes(), json!(6), -32600),
        (large.as_bytes(), json!(1_u64 << 63), -32600),
        (b"{ not json", Value::Null, -32700),
        (b"{\"id\":1,\xff}", json!(1), -32700),
        (deep.as_bytes(), json!(3), -32700),
        (huge.as_bytes(), json!("huge"), -32600),
        (br#"[1,2]"#, Value::Null, -32600),
        (br#"{"jsonrpc":"2.0","id":4}"#, json!(4), -32600),
        (
            br#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":7}}"#,
            json!(5),
            -32602,
        ),
        (
            br#"{"jsonrpc":"2.0","id":6,"method":"no/such"}"#,
            json!(6),
            -32601,
        ),
    ];
    for (line, id, code) in lines {
        let stdin = client.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
        let mut answer = String::new();
        assert!(
            client.stdout.read_line(&mut answer).unwrap() > 0,
            "the server goes on talking"
        );
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!(
            (&answer["id"], answer["error"]["code"].as_i64()),
            (&id, Some(code)),
            "{shown}: {answer}"
        );
    }
    assert_eq!(
        client.ask("ping", json!({}))["result"],
        json!({}),
        "it goes on"
    );
    #[cfg(target_os = "linux")]
    {
        let status = std::fs::read_to_string(format!("/proc/{}/status", client.process.id()));
        let status = status.unwrap();
        let peak = status.split_once("VmHWM:").unwrap().1;
        let peak: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
        assert!(peak < 300 << 10, "{peak} KiB");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_client_that_comes_back_goes_on_with_what_was_at_work() {
    let place = Place::new();
    agents(
        &place,
        &[
            ("slow", &["ready", "say:Begun.", "ack", "sleep:60000"]),
            ("timed", &["ready", "sleep:60000"]),
        ],
    );
    let mut client = Client::start(&place, &MCP);
    let timed = json!({"agent_name": "timed", "task": "Go.", "timeout": 0.2});
    let result = &client.call("spawn_agents", json!({"requests": [timed]}))["results"][0];
    assert_eq!(result["status"], "paused", "{result}");
    let timed = result["run_id"].clone();
    client.begin(
        "tools/call",
        json!({"name": "spawn_agents", "arguments": {"requests": [{"agent_name": "slow", "task": "Go."}]}}),
    );
    until(&mut client, "running", 1);
    let begun = Instant::now();
    assert_eq!(client.end(), 0);
    assert!(begun.elapsed() < Duration::from_secs(20));

    let mut client = Client::start(&place, &MCP);
    let paused = client.call("list_runs", json!({"status": "paused"}));
    let of = |agent: &str| {
        paused["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|run| run["agent_name"] == agent)
            .cloned()
    };
    assert_eq!(
        of("timed").unwrap()["id"],
        timed,
        "it stays as it was: {paused}"
    );
    assert!(
        of("slow").is_some() && of("mcp-client").is_some(),
        "{paused}"
    );
    let again = json!({"agent_name": "timed", "task": "", "resume_run_id": timed, "timeout": 0.2});
    let result = &client.call("spawn_agents", json!({"requests": [again]}))["results"][0];
    assert_eq!(result["error"], Value::Null, "{result}");
    assert_eq!(client.end(), 0);
}

#[test]
fn agents_that_were_taken_out_of_the_file_are_not_listed() {
    let place = Place::new();
    agents(&place, &[("old", &["ready"]), ("new", &["ready"])]);
    assert_eq!(Client::start(&place, &MCP).end(), 0);
    agents(&place, &[("new", &["ready"])]);
    let mut client = Client::start(&place, &MCP);
    let listed = client.call("list_available_agents", json!({}));
    let names: Vec<_> = listed["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["name"].clone())
        .collect();
    assert_eq!(names, ["new"]);
    assert_eq!(client.end(), 0);
}

#[test]
#[cfg(unix)]
fn a_signal_pauses_what_is_at_work() {
    let place = Place::new();
    agents(
        &place,
        &[("slow", &["ready", "say:Begun.", "ack", "sleep:60000"])],
    );
    let mut client = Client::start(&place, &MCP);
    let spawn = json!({"name": "spawn_agents", "arguments": {"requests": [{"agent_name": "slow", "task": "Go."}]}});
    client.begin("tools/call", spawn);
    until(&mut client, "running", 1);
    let process = client.process.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &process])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(client.process.wait().unwrap().code(), Some(0));
    let paused = place
        .expect(0, &["runs", "--status", "paused", "--json"])
        .out;
    assert!(
        paused.contains("\"slow\"") && paused.contains("mcp-client"),
        "{paused}"
    );
}

#[test]
fn a_client_is_told_how_a_spawn_goes_and_sends_messages_to_its_runs() {
    let place = Place::new();
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/runlog_agent.py")
        .canonicalize()
        .unwrap();
    let command = ["python3", "-I", program.to_str().unwrap()];
    let agent =
        json!({"name": "listener", "description": "d", "system_prompt": "s", "command": command});
    place.write(
        "agents.json",
        json!({"project": "papers", "agents": [agent]}).to_string(),
    );
    let mut client = Client::start(&place, &MCP);
    let requests = [
        json!({"agent_name": "listener", "task": "listen"}),
        json!({"agent_name": "nobody", "task": "listen"}),
    ];
    let id = client.begin(
        "tools/call",
        json!({
            "name": "spawn_agents", "arguments": {"requests": requests}, "_meta": {"progressToken": "p"}
        }),
    );
    let begun = client.notified("notifications/progress");
    assert_eq!(
        (&begun["progressToken"], &begun["progress"], &begun["total"]),
        (&json!("p"), &json!(1.0), &json!(2.0))
    );
    // Of two requests with one id, each gets its own answer.
    client.say(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    let refused = client.answer_to(id);
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let message = begun["message"].as_str().unwrap();
    let run = message.split("is run ").nth(1).unwrap().to_owned();
    for text in ["one", "two"] {
        let sent = client.call("send_to_run", json!({"run_id": run, "message": text}));
        assert_eq!(sent["sent"], true);
    }
    client.call("send_to_run", json!({"run_id": run, "message": "enough"}));
    let ended = client.notified("notifications/progress");
    assert_eq!(
        (&ended["progress"], &ended["message"]),
        (&json!(2.0), &json!("listener is completed"))
    );
    let answer = client.answer_to(id);
    let results = &answer["result"]["structuredContent"]["results"];
    assert_eq!(results[0]["summary"], "heard: one, two", "{answer}");
    client.say(&json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    assert_eq!(client.answer_to(id)["result"], json!({}), "it is free");
    let late = client.ask(
        "tools/call",
        json!({"name": "send_to_run", "arguments": {"run_id": run, "message": "late"}}),
    );
    assert_eq!(late["result"]["isError"], true, "{late}");
    let why = late["result"]["content"][0]["text"].as_str().unwrap();
    assert!(why.contains("only paused runs can be resumed"), "{late}");
    assert_eq!(client.end(), 0);
}

#[test]
fn what_was_recorded_is_told_as_it_was_even_where_no_value_can_hold_it() {
    let place = Place::new();
    let contents = [
        r#"[1e400]"#,
        r#""\ud800""#,
        r#"[18446744073709551617,0.30000000000000000001]"#,
        &format!("{}{}", "[".repeat(500), "]".repeat(500)),
    ];
    let mut steps = vec!["ready".to_owned()];
    steps.extend(contents.iter().map(|content| {
        format!(r#"raw:{{"type":"message","message":{{"role":"user","content":{content}}}}}"#)
    }));
    steps.push(r#"raw:{"type":"describe","usage":{"cost":1e400}}"#.to_owned());
    steps.push(
        r#"raw:{"type":"message","message":{"role":"assistant","content":"Found.","cost":1e400}}"#
            .to_owned(),
    );
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    agents(&place, &[("worker", &steps)]);
    let mut client = Client::start(&place, &MCP);
    let request = json!({"agent_name": "worker", "task": "Find it."});
    let result = client.call("spawn_agents", json!({"requests": [request]}))["results"][0].take();
    assert_eq!(
        (&result["status"], &result["summary"]),
        (&json!("completed"), &json!("Found.")),
        "{result}"
    );
    let run = json!({"run_id": result["run_id"]});
    let mut text_of = |tool: &str, arguments: &Value| {
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap().to_owned()
    };
    let messages = text_of("list_run_messages", &run);
    for content in contents {
        assert!(messages.contains(content), "{content} in {messages}");
    }
    for (tool, arguments) in [("get_run", run), ("list_runs", json!({}))] {
        let text = text_of(tool, &arguments);
        assert!(text.contains(r#""cost":1e400"#), "{text}");
    }
    assert_eq!(client.end(), 0);
}

#[test]
fn a_run_whose_task_is_beside_what_no_value_can_hold_is_resumed() {
    let place = Place::new();
    let command = [env!("CARGO_BIN_EXE_scripted-agent"), "await:hello"];
    let worker = json!({"name": "worker", "command": command});
    place.write("agents.json", json!({"agents": [worker]}).to_string());
    let task =
        r#"raw:{"type":"message","message":{"role":"user","content":"Find it.","cost":1e400}}"#;
    let steps = ["ready", task, r#"done:{"pause_reason":"asks"}"#];
    let paused = place.script(&["--agent", "worker"], &steps);
    assert_eq!(paused.code, 0, "{paused:?}");
    let run = place.expect(0, &["runs", "--json"]).json()[0]["items"][0]["id"].clone();
    let mut client = Client::start(&place, &MCP);
    let request = json!({"agent_name": "worker", "task": "", "resume_run_id": run});
    let result = client.call("spawn_agents", json!({"requests": [request]}))["results"][0].take();
    assert_eq!(result["status"], "completed", "{result}");
    let hello = result["summary"].as_str().unwrap();
    assert!(hello.contains(r#""task":"Find it.""#), "{result}");
    assert_eq!(client.end(), 0);
}

#[test]
fn what_a_client_says_before_it_begins_is_passed_over() {
    let place = Place::new();
    agents(&place, &[("worker", &["ready"])]);
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}
    }});
    let lines = [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}),
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
        begin,
    ];
    place.write(
        "lines",
        lines.map(|line| line.to_string()).join("\n") + "\n",
    );
    let mut server = place.command(&MCP);
    server.stdin(std::fs::File::open(place.path("lines")).unwrap());
    let said = server.output().unwrap();
    assert_eq!(said.status.code(), Some(0), "{said:?}");
    let answer: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(answer["id"], 1, "{answer}");
}

#[test]
fn a_client_that_says_nothing_has_disconnected() {
    let place = Place::new();
    place.write("agents.json", r#"{"agents": []}"#);
    place.write("one.jsonl", "{\"role\":\"user\",\"content\":\"x\"}\n");
    place.expect(0, &["import", "one.jsonl"]);
    for arguments in [&["mcp"][..], &["mcp", "--agents", "agents.json"]] {
        let said = place.expect(0, arguments);
        assert_eq!((&*said.out, &*said.err), ("", ""));
    }
}
