//! The commands that look at runs, chats and flows, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::{Place, Said};
use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole, NewRequest, StepType},
    flows::{ListFlows, RuntimeEvent},
    runs::{ResumeOptions, ToolOutcome},
};
use serde_json::Value;

fn store(place: &Place) -> Store {
    // A process that another test is starting has the lock too, until it is the binary.
    for _ in 0..200 {
        match Store::open(place.path("runlog-data")) {
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(Duration::from_millis(10))
            }
            opened => return opened.unwrap(),
        }
    }
    panic!("the store stays locked");
}

/// A run that is paused with a tool call open, and one that it spawned and that is done; gives their ids.
fn record(place: &Place) -> (RunId, RunId) {
    let store = store(place);
    let run = store
        .runs()
        .start(NewRun::in_new_session(
            NewSession::titled("Fix it"),
            "coder",
        ))
        .unwrap();
    run.record_message(NewMessage::user(
        "The parser drops the last line.\u{1b}[31m",
    ))
    .unwrap();
    run.next_step().unwrap();
    let asked = NewMessage::assistant("Looking.").with_tool_calls([NewToolCall::new(
        "c1",
        "ls",
        "{\"path\":\".\"}",
    )]);
    let outcome = ToolOutcome::error("c1", RawJson::string("no such folder")).took_ms(1234);
    run.record_tool_call(asked.to_json().unwrap(), &[outcome])
        .unwrap();
    let open = NewMessage::assistant("").with_tool_calls([NewToolCall::new("c2", "grep", "{}")]);
    run.record_message(open).unwrap();
    let child = NewRun {
        parent_run_id: Some(run.id()),
        ..NewRun::in_new_session(NewSession::default(), "reviewer".repeat(12))
    };
    let child = store.runs().start(child).unwrap();
    child.complete(Some("fine")).unwrap();
    run.pause("lunch").unwrap();
    (run.id(), child.id())
}

#[track_caller]
fn narrow(said: &Said) {
    assert!(
        said.out.lines().all(|line| line.chars().count() <= 80),
        "{}",
        said.out
    );
    assert!(!said.out.contains('\u{1b}'), "{}", said.out);
}

/// The error that a command ended with, which has to end with this code.
#[track_caller]
fn error(place: &Place, code: i32, arguments: &[&str]) -> String {
    let said = place.expect(code, &[arguments, &["--json"]].concat());
    let told: Value = serde_json::from_str(said.err.trim()).unwrap();
    assert_eq!(told["error"]["exit"], code);
    told["error"]["kind"].as_str().unwrap().to_owned()
}

#[test]
fn runs_are_listed_shown_and_filtered() {
    let place = Place::new();
    let (run, child) = record(&place);
    let (run, child) = (run.to_string(), child.to_string());
    let listed = place.expect(0, &["runs"]);
    narrow(&listed);
    assert_eq!(listed.out.lines().count(), 3, "{}", listed.out);
    // What the table calls a run names it.
    let short = listed
        .out
        .lines()
        .nth(2)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(
        place.expect(0, &["run", "show", &short, "--json"]).json()[0]["id"],
        run.as_str()
    );
    let shown = place.expect(0, &["run", "show", &run]);
    narrow(&shown);
    assert!(
        shown.out.contains("paused") && shown.out.contains("lunch"),
        "{}",
        shown.out
    );

    let paused = place
        .expect(0, &["runs", "--status", "paused", "--json"])
        .json();
    assert_eq!(
        (
            paused[0]["items"].as_array().unwrap().len(),
            &paused[0]["items"][0]["agent_name"]
        ),
        (1, &"coder".into())
    );
    for filter in [
        ["--parent", &run],
        ["--status", "completed"],
        ["--agent", &"reviewer".repeat(12)],
    ] {
        let found = place
            .expect(0, &["runs", filter[0], filter[1], "--json"])
            .json();
        assert_eq!(found[0]["items"][0]["id"], child.as_str(), "{filter:?}");
        assert_eq!(found[0]["next"], Value::Null);
    }
    let first = place.expect(0, &["runs", "--limit", "1", "--json"]).json();
    let next = first[0]["next"].as_str().unwrap();
    let told = place.expect(0, &["runs", "--limit", "1"]);
    assert!(
        told.out.contains(&format!("--cursor {next}")),
        "{}",
        told.out
    );
    let second = place
        .expect(0, &["runs", "--limit", "1", "--cursor", next, "--json"])
        .json();
    assert_eq!(
        (&second[0]["items"][0]["id"], &second[0]["next"]),
        (&run.as_str().into(), &Value::Null)
    );

    assert_eq!(error(&place, 2, &["runs", "--status", "tired"]), "usage");
    assert_eq!(
        error(&place, 2, &["runs", "--cursor", "zzz"]),
        "invalid_input"
    );
    assert_eq!(
        error(&place, 2, &["runs", "--status", "paused", "--cursor", next]),
        "invalid_input"
    );
    assert_eq!(
        error(
            &place,
            3,
            &["run", "show", "0198c7e0-0000-7000-8000-000000000000"]
        ),
        "not_found"
    );
    assert_eq!(error(&place, 3, &["run", "show", "nonsense"]), "not_found");
    let of_session = place.expect(0, &["run", "show", &run, "--json"]).json()[0]["session_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let refused = place.expect(3, &["run", "show", &of_session[..35]]).err;
    assert!(
        refused.contains("a session is called so, and its newest run is"),
        "{refused}"
    );
    assert_eq!(
        error(
            &place,
            3,
            &["runs", "--parent", "0198c7e0-0000-7000-8000-000000000000"]
        ),
        "not_found"
    );
    assert_eq!(
        error(&place, 2, &["runs", "--status", "paused", "show", &run]),
        "usage"
    );
}

#[test]
fn messages_and_tool_calls_of_a_run_are_listed() {
    let place = Place::new();
    let (run, _) = record(&place);
    let run = run.to_string();
    let listed = place.expect(0, &["messages", &run]);
    narrow(&listed);
    assert!(listed.out.contains("The parser drops"), "{}", listed.out);
    let page = place
        .expect(0, &["messages", &run, "--limit", "3", "--json"])
        .json();
    assert_eq!(page[0]["items"].as_array().unwrap().len(), 3);
    let next = page[0]["next"].as_str().unwrap();
    let rest = place
        .expect(
            0,
            &["messages", &run, "--limit", "3", "--cursor", next, "--json"],
        )
        .json();
    assert_eq!(rest[0]["items"].as_array().unwrap().len(), 1);
    assert_eq!(
        place
            .expect(0, &["messages", &run, "--step", "0", "--json"])
            .json()[0]["items"][0]["role"],
        "user"
    );

    let calls = place.expect(0, &["tool-calls", &run]);
    narrow(&calls);
    assert!(
        calls.out.contains("1,234") && calls.out.contains("no such folder"),
        "{}",
        calls.out
    );
    place.expect(2, &["runs", "tool-calls", &run]);
    for (filter, tool) in [(["--status", "pending"], "grep"), (["--tool", "ls"], "ls")] {
        let found = place
            .expect(0, &["tool-calls", &run, filter[0], filter[1], "--json"])
            .json();
        assert_eq!(found[0]["items"][0]["tool_name"], tool);
        assert_eq!(found[0]["items"].as_array().unwrap().len(), 1);
    }
    // One alone is told whole.
    for (command, field, whole) in [
        ("messages", "content", "Looking."),
        ("tool-calls", "input", "path"),
    ] {
        let listed = place.expect(0, &[command, &run, "--json"]).json().remove(0);
        let items = listed["items"].as_array().unwrap();
        let item = items
            .iter()
            .find(|item| item[field].to_string().contains(whole))
            .unwrap();
        let id = item["id"].to_string();
        assert_eq!(
            &place.expect(0, &[command, &run, &id, "--json"]).json()[0],
            item
        );
        let shown = place.expect(0, &[command, &run, &id]);
        narrow(&shown);
        assert!(shown.out.contains(whole), "{}", shown.out);
        assert_eq!(error(&place, 3, &[command, &run, "999999"]), "not_found");
        assert_eq!(
            error(&place, 2, &[command, &run, &id, "--limit", "3"]),
            "usage"
        );
        assert_eq!(error(&place, 2, &[command, &run, "nonsense"]), "usage");
    }
    assert_eq!(
        error(&place, 2, &["tool-calls", &run, "--status", "paused"]),
        "usage"
    );
    assert_eq!(
        error(&place, 2, &["tool-calls", &run, "--cursor", next]),
        "invalid_input"
    );
    assert_eq!(
        error(
            &place,
            3,
            &["messages", "0198c7e0-0000-7000-8000-000000000000"]
        ),
        "not_found"
    );
}

#[test]
fn a_chat_is_shown_with_its_messages_deleted_and_had_back() {
    let place = Place::new();
    {
        let chats = store(&place).chats();
        for id in ["a", "b"] {
            let mut chat = Chat::new("travel");
            chat.chat_id = id.into();
            chat.created_by = Some("mia".into());
            chat.public = id == "b";
            chats.create_chat(chat).unwrap();
        }
        let message = |number: u32| ChatMessage {
            message_id: format!("m{number}"),
            ..ChatMessage::text(ChatRole::User, &format!("number {number} \u{1b}[31m"))
        };
        chats
            .save_messages("a", (1..=5).map(message).collect())
            .unwrap();
    }
    let ids = |args: &[&str]| {
        let page = place.expect(0, args).json().remove(0);
        let items = page["items"].as_array().unwrap();
        let ids = items.iter().map(|item| {
            let id = item.get("message_id").unwrap_or(&item["chat_id"]);
            id.as_str().unwrap().to_owned()
        });
        (
            ids.collect::<Vec<_>>().join(","),
            page["next"].as_str().map(str::to_owned),
        )
    };
    let messages = place.expect(0, &["chat", "messages", "a"]);
    narrow(&messages);
    assert!(messages.out.contains("number 5") && !messages.out.contains('\u{1b}'));
    let last = [
        "chat",
        "messages",
        "a",
        "--newest-first",
        "-n",
        "2",
        "--json",
    ];
    let (found, next) = ids(&last);
    assert_eq!(found, "m5,m4");
    let next = next.unwrap();
    assert_eq!(ids(&[&last[..], &["--cursor", &next]].concat()).0, "m3,m2");
    assert_eq!(ids(&[&last[..], &["--start-after", "m2"]].concat()).0, "m1");
    assert_eq!(ids(&[&last[..], &["--role", "assistant"]].concat()).0, "");
    let other = ["chat", "messages", "b", "--cursor", &next];
    assert_eq!(error(&place, 2, &other), "invalid_input");
    narrow(&place.expect(0, &["chat", "show", "a"]));

    assert_eq!(ids(&["chats", "--visible-to", "bob", "--json"]).0, "b");
    assert_eq!(
        ids(&[
            "chats",
            "--visible-to",
            "mia",
            "--order",
            "created",
            "--json"
        ])
        .0,
        "b,a"
    );
    assert_eq!(
        ids(&["chats", "--public", "false", "--share", "private", "--json"]).0,
        "a"
    );
    place.expect(0, &["chat", "delete", "a"]);
    assert_eq!(error(&place, 3, &["chat", "messages", "a"]), "not_found");
    assert_eq!(ids(&["chats", "--deleted", "--json"]).0, "a");
    place.expect(0, &["chat", "restore", "a"]);
    assert_eq!(
        error(&place, 4, &["chat", "restore", "a"]),
        "already_exists"
    );
    assert_eq!(ids(&["chat", "messages", "a", "-n", "1", "--json"]).0, "m1");

    let said = place.expect(0, &["copy", "a", "--to-message", "m2", "--name", "a2"]);
    assert!(said.out.contains("and its chat"), "{}", said.out);
    assert_eq!(
        ids(&["chat", "messages", "a2", "--json"])
            .0
            .split(',')
            .count(),
        2
    );
    let unknown = ["copy", "a", "--to-message", "m9"];
    assert_eq!(error(&place, 3, &unknown), "not_found");
    place.expect(2, &["copy", "a", "--to-message", "m2", "--to-point", "1"]);
}

#[test]
fn chats_and_their_steps_are_listed() {
    let place = Place::new();
    {
        let chats = store(&place).chats();
        for number in 1..=3 {
            let mut chat = Chat::new(if number == 3 { "weather" } else { "travel" });
            chat.chat_id = format!("chat_{number}");
            chat.title = Some(format!("Trip to Oslo {number} {}", "x".repeat(90)));
            chat.created_by = Some("mia".into());
            chats.create_chat(chat).unwrap();
        }
        let new = NewRequest::new("travel");
        let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
        let mut request = chats.begin_request("chat_1", new, asked).unwrap();
        let input = request
            .start_step(StepType::Input, RawJson::parse("{}").unwrap())
            .unwrap();
        request.complete_step(&input, None).unwrap();
        request
            .start_step(StepType::Llm, RawJson::parse(r#"{"messages":[]}"#).unwrap())
            .unwrap();
    }
    let listed = place.expect(0, &["chats"]);
    narrow(&listed);
    assert_eq!(listed.out.lines().count(), 4, "{}", listed.out);
    let found = place
        .expect(
            0,
            &["chats", "--assistant", "weather", "--user", "mia", "--json"],
        )
        .json();
    assert_eq!(
        (&found[0]["total"], &found[0]["items"][0]["chat_id"]),
        (&1.into(), &"chat_3".into())
    );
    let none = place
        .expect(
            0,
            &[
                "chats",
                "--keywords",
                "bergen",
                "--status",
                "active",
                "--team",
                "t",
                "--json",
            ],
        )
        .json();
    assert_eq!(none[0]["total"], 0);
    let second = place
        .expect(
            0,
            &[
                "chats",
                "--order",
                "created",
                "--page",
                "2",
                "--pagesize",
                "2",
                "--json",
            ],
        )
        .json();
    assert_eq!(second[0]["items"][0]["chat_id"], "chat_1");
    let hyphenated = ["chats", "--order", "created", "--page", "2"];
    let hyphenated = [&hyphenated[..], &["--page-size", "2", "--json"]].concat();
    assert_eq!(place.expect(0, &hyphenated).json(), second);
    let first = place
        .expect(
            0,
            &["chats", "--order", "created", "--limit", "2", "--json"],
        )
        .json();
    let next = first[0]["next"].as_str().unwrap();
    let rest = place
        .expect(
            0,
            &[
                "chats", "--order", "created", "--limit", "2", "--cursor", next, "--json",
            ],
        )
        .json();
    assert_eq!(
        error(&place, 2, &["chats", "--user", "mia", "--cursor", next]),
        "invalid_input"
    );
    assert_eq!(rest[0]["items"], second[0]["items"]);

    let open = place.expect(0, &["chat", "requests"]);
    narrow(&open);
    assert!(open.out.contains("interrupted"), "{}", open.out);
    let interrupted = [
        "chat",
        "requests",
        "--status",
        "interrupted",
        "chat_1",
        "--json",
    ];
    let told = place.expect(0, &interrupted).json();
    assert_eq!(told[0]["items"][0]["chat_id"], "chat_1");
    let failed = place.expect(0, &["chat", "requests", "--status", "failed", "--json"]);
    assert_eq!(failed.json()[0]["items"], serde_json::json!([]));
    let none = place.expect(0, &["chat", "requests", "--status", "failed"]);
    assert_eq!(none.out, "no unfinished requests\n");
    assert_eq!(
        error(&place, 2, &["chat", "requests", "--status", "odd"]),
        "usage"
    );

    let steps = place.expect(0, &["steps", "chat_1"]);
    narrow(&steps);
    assert!(steps.out.contains("interrupted"), "{}", steps.out);
    let told = place.expect(0, &["steps", "chat_1", "--json"]).json();
    let request = told[0]["items"][0]["request_id"].as_str().unwrap();
    assert_eq!(
        place
            .expect(0, &["steps", "chat_1", "--request", request, "--json"])
            .json(),
        told
    );
    assert_eq!(
        place.expect(0, &["steps", "chat_2", "--json"]).json()[0]["items"],
        serde_json::json!([])
    );

    for filter in [["--type", "llm"], ["--status", "interrupted"]] {
        let found = place
            .expect(0, &["steps", "chat_1", filter[0], filter[1], "--json"])
            .json()
            .remove(0);
        assert_eq!(
            found["items"],
            serde_json::json!([told[0]["items"][1]]),
            "{filter:?}"
        );
    }
    let stack = told[0]["items"][0]["stack_id"].as_str().unwrap();
    assert_eq!(
        place
            .expect(0, &["steps", "chat_1", "--stack", stack, "--json"])
            .json(),
        told
    );
    assert_eq!(
        place
            .expect(0, &["steps", "chat_1", "--stack", "nothing"])
            .out,
        "no steps\n"
    );
    assert_eq!(
        place
            .expect(
                0,
                &[
                    "steps",
                    "chat_1",
                    "--request",
                    request,
                    "--status",
                    "failed"
                ]
            )
            .out,
        "no steps\n"
    );
    let first = place
        .expect(0, &["steps", "chat_1", "--limit", "1", "--json"])
        .json()
        .remove(0);
    let next = first["next"].as_str().unwrap();
    assert!(
        place
            .expect(0, &["steps", "chat_1", "-n", "1"])
            .out
            .contains(&format!("--cursor {next}"))
    );
    let rest = place
        .expect(
            0,
            &[
                "steps", "chat_1", "--limit", "1", "--cursor", next, "--json",
            ],
        )
        .json()
        .remove(0);
    assert_eq!(
        (&rest["items"][0], &rest["next"]),
        (&told[0]["items"][1], &Value::Null)
    );
    for other in [
        &["steps", "chat_2"][..],
        &["steps", "chat_1", "--type", "llm"],
        &["chats"],
        &["runs"],
    ] {
        assert_eq!(
            error(&place, 2, &[other, &["--cursor", next]].concat()),
            "invalid_input",
            "{other:?}"
        );
    }
    assert_eq!(
        error(&place, 2, &["steps", "chat_1", "--type", "dance"]),
        "usage"
    );
    assert_eq!(error(&place, 2, &["chats", "--status", "tired"]), "usage");
    assert_eq!(
        error(&place, 2, &["chats", "--cursor", "zzz"]),
        "invalid_input"
    );
    assert_eq!(error(&place, 3, &["steps", "chat_9"]), "not_found");
    assert_eq!(
        error(&place, 3, &["steps", "chat_1", "--request", "nothing"]),
        "not_found"
    );
    assert_eq!(
        error(&place, 3, &["steps", "chat_2", "--request", request]),
        "not_found"
    );
}

#[test]
fn a_flow_is_shown() {
    let place = Place::new();
    let (run, flow) = {
        let (run, _) = record(&place);
        let store = store(&place);
        let mut flow = FlowRun::create(&store, None).unwrap();
        flow.start_agent("plan", "sess-123").unwrap();
        for _ in 0..2 {
            flow.record(&RuntimeEvent::parse(r#"{"type":"node:tick","nodeId":"plan"}"#).unwrap())
                .unwrap();
        }
        flow.command(
            &RawJson::parse(r#"{"type":"send","runId":"r1","message":"Hurry!"}"#).unwrap(),
        )
        .unwrap();
        flow.save_snapshot().unwrap();
        // It waits, and no snapshot has it yet.
        flow.command(
            &RawJson::parse(r#"{"type":"send","runId":"r1","message":"Later!"}"#).unwrap(),
        )
        .unwrap();
        (run.to_string(), flow.run_id().to_string())
    };
    let shown = place.expect(0, &["flow", "show", &flow]);
    narrow(&shown);
    for text in ["sess-123", "running", "Hurry!", "Later!", "node:tick"] {
        assert!(shown.out.contains(text), "{text}: {}", shown.out);
    }
    let told = place.expect(0, &["flow", "show", &flow, "--json"]).json();
    assert_eq!(told[0]["snapshot"]["agentSessions"]["plan"], "sess-123");
    assert_eq!(told[0]["snapshot"]["nodeStatus"]["plan"], "running");
    assert_eq!(told[0]["inbox"].as_array().unwrap().len(), 2);
    assert_eq!(
        (
            &told[0]["events"]["node:tick"],
            &told[0]["events"]["command:received"]
        ),
        (&2.into(), &2.into())
    );
    assert_eq!(
        error(
            &place,
            3,
            &["flow", "show", "0198c7e0-0000-7000-8000-000000000000"]
        ),
        "not_found"
    );
    // A run without a flow.
    assert_eq!(error(&place, 3, &["flow", "show", &run]), "not_found");
    assert_eq!(error(&place, 2, &["flow", "show"]), "usage");
}

#[test]
fn paused_runs_are_listed_with_what_to_do() {
    let place = Place::new();
    let (run, _) = record(&place);
    let listed = place.expect(0, &["resume", "--list"]);
    narrow(&listed);
    for text in ["lunch", "grep (c2)", "runlog run --resume"] {
        assert!(listed.out.contains(text), "{text}: {}", listed.out);
    }
    let told = place.expect(0, &["resume", "--list", "--json"]).json();
    let row = &told[0]["items"][0];
    assert_eq!(
        (&row["id"], &row["pause_reason"]),
        (&run.to_string().into(), &"lunch".into())
    );
    assert_eq!(
        (&row["dangling"][0]["name"], &row["can_resume"]),
        (&"grep".into(), &true.into())
    );
    assert_eq!(place.expect(0, &["resume"]).out, listed.out);
    assert_eq!(
        error(&place, 2, &["resume", "--list", "--cursor", "zzz"]),
        "invalid_input"
    );
    let store = store(&place);
    let resumed = store.runs().resume(run, &ResumeOptions::default()).unwrap();
    resumed.recorder.complete(None).unwrap();
    drop((resumed, store));
    assert_eq!(
        place.expect(0, &["resume", "--list"]).out,
        "no run to resume\n"
    );
}

#[test]
fn a_run_is_described_from_the_command_line_and_its_list_tells_it() {
    let place = Place::new();
    let (run, _) = record(&place);
    let id = run.to_string();
    let usage = r#"{"input_tokens":812,"cost":0.0041}"#;
    let told = place
        .expect(0, &["run", "describe", &id, "--usage", usage, "--json"])
        .json();
    assert_eq!(told[0]["usage"]["input_tokens"], 812);
    place.expect(
        0,
        &["run", "describe", &id, "--metadata", r#"{"user":"ann"}"#],
    );
    let shown = place.expect(0, &["run", "show", &id]);
    assert!(
        shown.out.contains(r#"{"user":"ann"}"#) && shown.out.contains(usage),
        "{shown:?}"
    );
    let listed = place.expect(0, &["runs", "--json"]).json();
    let listed = listed[0]["items"].as_array().unwrap();
    let of_run = listed.iter().find(|it| it["id"] == id).unwrap();
    assert_eq!(
        (&of_run["usage"]["cost"], &of_run["metadata"]["user"]),
        (&0.0041.into(), &"ann".into())
    );
    assert_eq!(listed.iter().filter(|it| it["usage"].is_null()).count(), 1);

    for wrong in ["{", "7"] {
        error(&place, 2, &["run", "describe", &id, "--usage", wrong]);
    }
    place.expect(2, &["run", "describe", &id]);
    error(
        &place,
        3,
        &["run", "describe", &"f".repeat(32), "--usage", "{}"],
    );
}

#[test]
fn last_means_the_same_run_to_every_command() {
    let place = Place::new();
    let store_of = store(&place);
    let root = store_of
        .runs()
        .start(NewRun::in_new_session(
            NewSession::titled("Fix it"),
            "planner",
        ))
        .unwrap();
    let (session, instance) = (root.run().session_id, root.run().instance_id);
    let helper = store_of
        .create_instance(session, "helper", Some(instance))
        .unwrap();
    let child = store_of
        .runs()
        .start(NewRun {
            parent_run_id: Some(root.id()),
            ..NewRun::new(helper.id)
        })
        .unwrap();
    let own = |store: &Store| {
        store
            .flows()
            .list(&ListFlows::default())
            .unwrap()
            .items
            .len()
    };
    FlowRun::create(&store_of, Some(root.id())).unwrap();
    FlowRun::create(&store_of, Some(child.id())).unwrap();
    assert_eq!(own(&store_of), 2);
    child.complete(None).unwrap();
    root.pause("lunch").unwrap();
    let first = root.id().to_string();
    drop((root, child, store_of));

    // The newest run of all is the one that it spawned, which no command takes for the last.
    let last = |place: &Place| {
        place.expect(0, &["run", "show", "@last", "--json"]).json()[0]["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(last(&place), first);
    let flow = place.expect(0, &["flow", "show", "@last", "--json"]).json();
    assert_eq!(flow[0]["run_id"], first.as_str());
    let said = place.script(&["--resume", "@last"], &["ready", "say:done"]);
    assert_eq!(said.code, 0, "{said:?}");
    let shown = place.expect(0, &["run", "show", "@last", "--json"]).json();
    assert_eq!(shown[0]["resumed_from"], first.as_str());
    let second = last(&place);

    // What came into the store later is the last, also to commands that want a run of it.
    place.write(
        "chat.jsonl",
        "{\"role\":\"user\",\"content\":\"imported\"}\n",
    );
    place.expect(0, &["import", "chat.jsonl"]);
    assert!(place.expect(0, &["show", "@last"]).out.contains("imported"));
    for command in [&["run", "show", "@last"][..], &["messages", "@last"]] {
        let said = place.expect(3, command);
        assert!(
            said.err.contains("@last is the session") && said.err.contains("runlog runs"),
            "{said:?}"
        );
    }
    // A run in a session that was there before makes that the last again.
    let session = session.to_string();
    let said = place.script(&["--overwrite", &session], &["ready", "say:again"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_ne!(last(&place), second);
    assert!(place.expect(0, &["show", "@last"]).out.contains("again"));
    assert!(
        place
            .expect(0, &["messages", "@last"])
            .out
            .contains("again")
    );
    for command in [
        &["--help"][..],
        &["run", "--help"],
        &["run", "show", "--help"],
    ] {
        let help = place.expect(0, command).out;
        assert!(help.contains("@last"), "{command:?}: {help}");
    }
}

#[test]
fn a_run_that_was_resumed_is_listed_with_the_one_that_goes_on() {
    let place = Place::new();
    let (run, _) = record(&place);
    let store_of = store(&place);
    let resumed = store_of
        .runs()
        .resume(run, &ResumeOptions::default())
        .unwrap();
    let next = resumed.recorder.id().to_string();
    resumed.recorder.pause("dinner").unwrap();
    drop((resumed, store_of));
    let listed = place.expect(0, &["runs", "--json"]).json();
    let items = listed[0]["items"].as_array().unwrap();
    let of = |id: &str| items.iter().find(|it| it["id"] == id).unwrap();
    let run = run.to_string();
    assert_eq!(
        (&of(&run)["status"], &of(&run)["resumed_by"]),
        (&"paused".into(), &next.as_str().into())
    );
    assert_eq!(of(&next).get("resumed_by"), None);
    let table = place.expect(0, &["runs"]);
    narrow(&table);
    let width = table.out.lines().nth(1).unwrap().find(' ').unwrap();
    let row = |id: &str| {
        table
            .out
            .lines()
            .find(|line| line.starts_with(&id[..width]))
            .unwrap()
    };
    assert!(row(&run).contains(&next[..width]), "{}", table.out);
    assert!(table.out.contains("resumed by"), "{}", table.out);
    // It isn't offered again.
    let open = place
        .expect(0, &["resume", "--list", "--limit", "1", "--json"])
        .json();
    assert_eq!(open[0]["items"][0]["id"], next.as_str());
    let after = open[0]["next"].as_str().unwrap();
    let after = place
        .expect(0, &["resume", "--list", "--cursor", after, "--json"])
        .json();
    assert_eq!(after[0]["items"], serde_json::json!([]));
    let shown = place.expect(0, &["resume", "--list"]).out;
    assert!(shown.contains(&next) && !shown.contains(&run), "{shown}");
}

#[test]
fn lists_leave_a_backup_as_it_is() {
    let place = Place::new();
    let store = store(&place);
    let new = NewRun::in_new_session(NewSession::titled("Fix it"), "coder");
    let run = store.runs().start(new).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.save_snapshot().unwrap();
    let backup = || store.backup(place.path("copy"));
    backup().unwrap();
    for command in [
        &["runs"][..],
        &["flows"],
        &["flows", "--resumable"],
        &["resume", "--list"],
    ] {
        let listed = place.runlog(&[&["--store", "copy"], command].concat());
        assert_eq!(listed.code, 0, "{listed:?}");
    }
    let listed = place.expect(0, &["--store", "copy", "runs"]);
    assert!(listed.out.contains("running"), "{listed:?}");
    assert!(listed.err.contains("may be a backup"), "{listed:?}");
    run.record_message(NewMessage::user("on")).unwrap();
    backup().unwrap();
}

#[test]
fn a_run_where_a_session_is_asked_for_is_told_as_one() {
    let place = Place::new();
    let store = store(&place);
    let new = NewRun::in_new_session(NewSession::titled("Fix it"), "coder");
    let run = store.runs().start(new).unwrap();
    let (id, session) = (run.id().to_string(), run.run().session_id.to_string());
    let said = place.expect(3, &["show", &id]);
    assert!(
        said.err.contains("is a run") && said.err.contains(&session),
        "{said:?}"
    );
    let nobody = place.expect(3, &["show", "nobody"]);
    assert!(
        nobody.err.contains("no session or agent instance"),
        "{nobody:?}"
    );
}
