//! The commands about flows and the definitions of agents, and the end of runs, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use common::Place;
use runlog::{
    ErrorKind, NewRun, NewSession, RunId,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole},
    flows::RuntimeEvent,
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

fn ids(place: &Place, arguments: &[&str]) -> Vec<String> {
    let listed = place.expect(0, &[arguments, &["--json"]].concat()).json();
    let items = listed[0]["items"].as_array().unwrap().clone();
    items
        .iter()
        .map(|item| item["run_id"].as_str().unwrap().to_owned())
        .collect()
}

/// The error that a command ended with, which has to end with this code.
#[track_caller]
fn error(place: &Place, code: i32, arguments: &[&str]) -> (String, String) {
    let said = place.expect(code, &[arguments, &["--json"]].concat());
    let told: Value = serde_json::from_str(said.err.lines().last().unwrap()).unwrap();
    let text = |name: &str| told["error"][name].as_str().unwrap().to_owned();
    (text("kind"), text("message"))
}

/// A flow by itself with some events, one of a run that is left running, and one that is done; gives their ids.
fn record(place: &Place) -> [String; 3] {
    let store = store(place);
    let mut by_itself = FlowRun::create(&store, None).unwrap();
    by_itself.start_agent("plan", "sess-123").unwrap();
    for (time, node) in [(1_000, "plan"), (1_200, "build"), (9_000_000, "plan")] {
        let event = format!(r#"{{"type":"node:tick","nodeId":"{node}","timestamp":{time}}}"#);
        by_itself
            .record(&RuntimeEvent::parse(event).unwrap())
            .unwrap();
    }
    let run = store
        .runs()
        .start(NewRun::in_new_session(
            NewSession::titled("Fix it"),
            "coder",
        ))
        .unwrap();
    let of_run = FlowRun::create(&store, Some(run.id())).unwrap();
    let mut done = FlowRun::create(&store, None).unwrap();
    done.state_mut().status = "completed".to_owned();
    done.save_snapshot().unwrap();
    [by_itself.run_id(), of_run.run_id(), done.run_id()].map(|id: RunId| id.to_string())
}

#[test]
fn flows_are_listed_and_what_is_to_be_resumed_is_found() {
    let place = Place::new();
    let [by_itself, of_run, done] = record(&place);
    assert_eq!(ids(&place, &["flows", "--status", "completed"]), [&*done]);
    assert!(ids(&place, &["flows", "--parent", &of_run]).is_empty());
    // Nobody is at work on what wasn't ended: its run is paused, and the list says so.
    let first = place.expect(0, &["flows"]);
    assert!(first.err.contains("paused run"), "{}", first.err);
    let statuses: Vec<Vec<&str>> = (first.out.lines().skip(1))
        .map(|line| line.split_whitespace().skip(1).take(2).collect())
        .collect();
    assert_eq!(
        statuses,
        [
            ["completed", "none"],
            ["interrupted", "paused"],
            ["interrupted", "none"]
        ]
    );
    assert_eq!(ids(&place, &["flows"]), [&*done, &of_run, &by_itself]);
    let resumable = place.expect(0, &["flows", "--resumable", "--json"]);
    let items = resumable.json()[0]["items"].clone();
    assert_eq!(
        (&items[0]["run_id"], &items[0]["run_status"]),
        (&of_run.as_str().into(), &"paused".into())
    );
    assert_eq!(
        (&items[1]["run_id"], &items[1]["run_status"]),
        (&by_itself.as_str().into(), &Value::Null)
    );
    assert_eq!(items.as_array().unwrap().len(), 2);
    let listed = place.expect(0, &["flows"]).out;
    assert!(
        listed.lines().all(|line| line.chars().count() <= 80),
        "{listed}"
    );
    // One flow is told as the list tells it.
    let shown = place.expect(0, &["flow", "show", &by_itself]).out;
    let fields: Vec<Vec<&str>> = (shown.lines().take(2))
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        fields,
        [["flow", &*by_itself], ["status", "interrupted"]],
        "{shown}"
    );
    let json = place.expect(0, &["flow", "show", &by_itself, "--json"]);
    assert_eq!(json.json()[0]["is_live"], false);
    // Beside a process that writes, nothing is paused, and nobody says that nobody is at work.
    let writer = store(&place);
    let _at_work = FlowRun::attach(&writer, by_itself.parse().unwrap()).unwrap();
    let beside = place.expect(0, &["flows", "--resumable", "--json"]).json();
    assert_eq!(beside[0]["items"][1]["is_live"], Value::Null);
    let beside = place.expect(0, &["flow", "show", &by_itself]).out;
    let second: Vec<&str> = beside.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(second, ["status", "running"], "{beside}");
    // The newest flow was made without a run.
    assert_eq!(
        place.expect(0, &["flow", "show", "@last", "--json"]).json()[0]["run_id"],
        done.as_str()
    );
    assert_eq!(
        place
            .expect(0, &["flow", "show", &by_itself[..35], "--json"])
            .json()[0]["run_id"],
        by_itself.as_str()
    );
}

#[test]
fn a_flow_is_played_back() {
    let place = Place::new();
    let [flow, ..] = record(&place);
    let sequences = |arguments: &[&str]| {
        let played = place
            .expect(
                0,
                &[&["flow", "replay", &flow], arguments, &["--json"]].concat(),
            )
            .json();
        played
            .iter()
            .map(|event| event["sequence"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(sequences(&[]), [1, 2, 3]);
    assert_eq!(sequences(&["--from", "2", "--to", "2"]), [2]);
    assert_eq!(sequences(&["--node", "plan"]), [1, 3]);
    assert_eq!(sequences(&["--type", "agent:*"]), [0; 0]);
    assert_eq!(
        sequences(&["--speed", "1000", "--wait-max", "0.01"]),
        [1, 2, 3]
    );
    let shown = place.expect(0, &["flow", "events", &flow]).out;
    assert!(
        shown.contains("node:tick") && shown.contains("+0.2 s"),
        "{shown}"
    );
    // Backward from an event, those before it are earlier.
    let backward = place.expect(0, &["flow", "replay", &flow, "--backward", "--to", "2"]);
    let offsets: Vec<&str> = (backward.out.lines())
        .map(|line| line.split_whitespace().nth(1).unwrap())
        .collect();
    assert_eq!(offsets, ["+0.0", "-0.2"], "{}", backward.out);
    assert_eq!(
        error(
            &place,
            2,
            &["flow", "replay", &flow, "--from", "3", "--to", "2"]
        )
        .0,
        "usage"
    );
    assert_eq!(
        error(&place, 2, &["flow", "replay", &flow, "--speed", "0"]).0,
        "usage"
    );
    assert_eq!(
        error(
            &place,
            3,
            &["flow", "replay", "0198c7e0-0000-7000-8000-000000000000"]
        )
        .0,
        "not_found"
    );
}

#[test]
fn commands_wait_for_a_flow_and_are_refused_where_nobody_would_take_them() {
    let place = Place::new();
    let [by_itself, of_run, done] = record(&place);
    place.expect(0, &["flow", "send", &by_itself, "--to", "r1", "Hurry!"]);
    place.expect(0, &["flow", "reply", &by_itself, "--to", "r1", "Yes."]);
    place.expect(0, &["flow", "resume", &by_itself, "Now the tests."]);
    let left = place
        .expect(
            0,
            &[
                "flow",
                "command",
                &by_itself,
                r#"{"type":"pause"}"#,
                "--json",
            ],
        )
        .json();
    assert_eq!(left[0]["waiting"].as_array().unwrap().len(), 4);
    // Who runs the flow gets them.
    {
        let store = store(&place);
        let (mut flow, resumed) =
            FlowRun::resume(&store, by_itself.parse().unwrap(), None).unwrap();
        assert_eq!(resumed.running[0].prompt, "Now the tests.");
        let words = flow
            .take_inbox("r1")
            .iter()
            .map(|it| it.message().unwrap().to_owned())
            .collect::<Vec<_>>();
        assert_eq!(words, ["Hurry!", "Yes."]);
    }
    let (kind, why) = error(&place, 4, &["flow", "send", &of_run, "--to", "r1", "x"]);
    assert!(
        kind == "wrong_status" && why.contains("resume the run, which carries its flow over"),
        "{why}"
    );
    let (kind, why) = error(&place, 4, &["flow", "resume", &done, "x"]);
    assert!(
        kind == "wrong_status" && why.contains("is over (completed)"),
        "{why}"
    );
    assert_eq!(
        error(
            &place,
            2,
            &[
                "flow",
                "command",
                &by_itself,
                r#"{"type":"send","message":"x"}"#
            ]
        )
        .0,
        "invalid_input"
    );
    assert_eq!(
        error(&place, 2, &["flow", "command", &by_itself, "{"]).0,
        "invalid_input"
    );
    let _writer = store(&place);
    assert_eq!(
        error(&place, 4, &["flow", "send", &by_itself, "--to", "r1", "x"]).0,
        "locked"
    );
    assert_eq!(error(&place, 4, &["compact"]).0, "locked");
    place.expect(0, &["compact", "--dry-run"]);
}

#[test]
fn agents_are_put_listed_shown_and_deleted() {
    let place = Place::new();
    let file = place.write(
        "a.json",
        r#"{"name":"coder","description":"Writes code.","tools":["sed"],"max_steps":50}"#,
    );
    let file = file.to_str().unwrap();
    let put = place.expect(0, &["agents", "put", file, "--json"]).json();
    assert_eq!(
        (&put[0]["name"], &put[0]["max_steps"]),
        (&"coder".into(), &50.into())
    );
    let other = place.with_input(
        &["agents", "put", "-", "--project", "p"],
        br#"{"name":"tester"}"#,
    );
    assert_eq!(other.code, 0, "{other:?}");
    for list in [&["agents"][..], &["agents", "list"]] {
        let listed = place.expect(0, list).out;
        assert!(
            listed.contains("coder") && !listed.contains("tester"),
            "{listed}"
        );
    }
    assert_eq!(
        place
            .expect(0, &["agents", "--project", "p", "--json"])
            .json()[0]["agents"][0]["name"],
        "tester"
    );
    assert!(
        place
            .expect(0, &["agents", "show", "coder"])
            .out
            .contains("Writes code.")
    );
    place.expect(0, &["agents", "delete", "coder"]);
    assert_eq!(
        place.expect(0, &["agents"]).out.trim(),
        "no agents\nagents of projects aren't listed here: --project p (1)"
    );
    let of_one = place.expect(0, &["agents", "--project", "p"]).out;
    assert!(!of_one.contains("aren't listed"), "{of_one}");
    assert_eq!(
        error(&place, 3, &["agents", "delete", "coder"]),
        (
            "not_found".to_owned(),
            "no agent \"coder\" is defined; the list of available agents tells which are"
                .to_owned()
        )
    );
    assert_eq!(
        error(&place, 3, &["agents", "show", "coder"]).0,
        "not_found"
    );
    let misspelt = place.write("b.json", r#"{"name":"coder","max_step":3}"#);
    let (_, why) = error(&place, 2, &["agents", "put", misspelt.to_str().unwrap()]);
    assert!(why.contains("max_step"), "{why}");
    let no_json = place.write("c.json", "coder");
    assert_eq!(
        error(&place, 2, &["agents", "put", no_json.to_str().unwrap()]).0,
        "usage"
    );
    assert_ne!(place.runlog(&["agents", "put", "no such file"]).code, 0);
}

#[test]
fn a_run_is_cancelled_with_what_is_below_it() {
    let place = Place::new();
    let (lead, child) = {
        let store = store(&place);
        let lead = store
            .runs()
            .start(NewRun::in_new_session(NewSession::default(), "lead"))
            .unwrap();
        let child = NewRun {
            parent_run_id: Some(lead.id()),
            ..NewRun::in_new_session(NewSession::default(), "w")
        };
        let child = store.runs().start(child).unwrap();
        child.pause("asks").unwrap();
        (lead.id().to_string(), child.id().to_string())
    };
    {
        let _writer = store(&place);
        assert_eq!(error(&place, 4, &["cancel", &lead]).0, "locked");
    }
    let told = place.expect(0, &["cancel", &lead, "--json"]).json();
    assert_eq!(told[0]["cancelled"], serde_json::json!([lead, child]));
    for run in [&lead, &child] {
        assert_eq!(
            place.expect(0, &["run", "show", run, "--json"]).json()[0]["status"],
            "cancelled"
        );
    }
    let (kind, why) = error(&place, 4, &["cancel", &lead]);
    assert!(
        kind == "wrong_status" && why.contains("cancelled already"),
        "{why}"
    );
    assert_eq!(
        error(
            &place,
            3,
            &["cancel", "0198c7e0-0000-7000-8000-000000000000"]
        )
        .0,
        "not_found"
    );
}

#[test]
fn a_short_beginning_of_several_ids_is_told_as_such() {
    let place = Place::new();
    record(&place);
    let store = store(&place);
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::titled("Two"), "coder"))
        .unwrap();
    let id = run.id().to_string();
    run.complete(None).unwrap();
    store.close().unwrap();
    // The ids of one day begin alike.
    for prefix in ["0", &id[..2], &id[..3], &id[..4]] {
        for (what, command) in [
            ("sessions", &["show"][..]),
            ("runs", &["run", "show"]),
            ("flows", &["flow", "show"]),
        ] {
            let (kind, message) = error(&place, 3, &[command, &[prefix]].concat());
            assert_eq!(kind, "ambiguous", "{what} {prefix}: {message}");
            let expected = format!("several {what} have an id that begins {prefix:?}, among them ");
            assert!(
                message.starts_with(&expected) && message.ends_with("; give more of it"),
                "{message}"
            );
        }
    }
    for none in ["", "zz", "f", "0-"] {
        for command in [&["run", "show"][..], &["flow", "show"]] {
            assert_eq!(
                error(&place, 3, &[command, &[none]].concat()).0,
                "not_found",
                "{none:?}"
            );
        }
    }
}

#[test]
fn the_tail_has_the_events_of_flows_and_of_chats() {
    let place = Place::new();
    let [by_itself, ..] = record(&place);
    let store = store(&place);
    let chat = store.chats().create_chat(Chat::new("helper")).unwrap();
    let messages = ["Where is Oslo?", "In Norway."];
    let messages = [ChatRole::User, ChatRole::Assistant]
        .into_iter()
        .zip(messages)
        .map(|(role, text)| ChatMessage::text(role, text))
        .collect();
    let saved = store.chats().save_messages(&chat.chat_id, messages);
    saved.unwrap();
    store.close().unwrap();

    let said = place.expect(0, &["tail"]).out;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].contains("flow "), "{said}");
    assert!(said.contains("node:tick plan {"), "{said}");
    let [.., asked, answered] = lines[..] else {
        panic!("{said}");
    };
    assert!(asked.contains("user ") && asked.ends_with("Where is Oslo?"));
    assert!(answered.contains("assistant ") && answered.ends_with("In Norway."));

    let lines = place.expect(0, &["tail", "--json"]).json();
    assert_eq!(lines[0]["topic"], "flow");
    assert_eq!(lines[0]["run_id"], by_itself);
    let last = lines.last().unwrap();
    assert_eq!(last["topic"], "chat");
    assert_eq!(last["payload"]["props"]["content"], "In Norway.");
    assert_eq!(place.expect(0, &["tail", "-n", "1"]).out.lines().count(), 1);
}

#[test]
fn a_flow_of_no_run_is_exported_with_the_whole_store_and_that_is_said() {
    let place = Place::new();
    let flow = FlowRun::create(&store(&place), None).unwrap().run_id();
    let flow = flow.to_string();
    for name in [&flow[..], &flow[..13], "@last"] {
        let said = error(&place, 3, &["export", name]);
        assert!(said.1.contains("`runlog export --all` has it"), "{said:?}");
        assert!(said.1.contains(&flow), "{said:?}");
    }
    let unknown = error(&place, 3, &["export", "none"]);
    assert!(unknown.1.contains("no session \"none\""), "{unknown:?}");
    let listed = place.expect(0, &["ls"]).out;
    assert!(listed.contains("`runlog flows`"), "{listed}");
    let written = place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    let words = "wrote 0 sessions and 1 flow of no run to ";
    assert!(written.err.starts_with(words), "{written:?}");
    place.expect(0, &["--store", "other", "import", "all.jsonl"]);
    let there = place.expect(0, &["--store", "other", "flows", "--json"]);
    assert!(there.out.contains(&flow), "{there:?}");
}
