//! The six addresses of the history of agent runs.

use runlog::{
    NewMessage, NewRun, NewSession, RawJson,
    blocking::Store,
    retention::Erase,
    runs::{ResumeOptions, RunDetails},
};
use serde_json::{Value, json};

use crate::{
    common::Place,
    recorded::{PROJECT, Recorded, record},
    server::Server,
};

const RUNS: &str = "/api/projects/papers%20%26%20more/agent-runs";

fn served() -> (Server, Recorded, Place) {
    let place = Place::new();
    let recorded = record(&place);
    (Server::start(&place, &[]), recorded, place)
}

fn ids(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].to_string().trim_matches('"').to_owned())
        .collect()
}

#[test]
fn runs_of_a_project_are_listed_with_their_fields() {
    let (server, recorded, _place) = served();
    let page = server.json(RUNS);
    assert_eq!(
        ids(&page),
        [recorded.paused.to_string(), recorded.done.to_string()]
    );
    assert_eq!(page["next"], Value::Null);
    for run in page["items"].as_array().unwrap() {
        for field in [
            "id",
            "agent_id",
            "status",
            "step_count",
            "duration",
            "created_at",
            "completed_at",
        ] {
            assert!(run.get(field).is_some(), "{field} is missing: {run}");
        }
    }
    let done = &page["items"][1];
    assert_eq!(
        (&done["status"], &done["step_count"]),
        (&json!("completed"), &json!(3))
    );
    assert!(
        done["completed_at"].is_u64() && done["duration"].is_u64(),
        "{done}"
    );
    assert_eq!(
        page["items"][0]["completed_at"],
        Value::Null,
        "it is paused"
    );
}

#[test]
fn runs_are_filtered() {
    let (server, recorded, _place) = served();
    let (paused, done) = (recorded.paused.to_string(), recorded.done.to_string());
    for (query, wanted) in [
        ("status=paused".to_owned(), vec![&paused]),
        ("status=failed".to_owned(), vec![]),
        ("agent_id=finder".to_owned(), vec![&done]),
        ("agent_name=finder".to_owned(), vec![&done]),
        (format!("parent_run_id={done}"), vec![&paused]),
        (format!("parent_run_id={done}&status=completed"), vec![]),
        (format!("session_id={}", recorded.session), vec![&done]),
    ] {
        let page = server.json(&format!("{RUNS}?{query}"));
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), wanted, "{query}");
    }
    assert!(ids(&server.json("/api/projects/nobody/agent-runs")).is_empty());
    server
        .get(&format!("{RUNS}?status=odd"))
        .problem(400, "invalid_input");
    for query in [
        "project=other",
        "agent_id=finder&agent_name=coder",
        "agent=finder",
    ] {
        let refused = server.get(&format!("{RUNS}?{query}"));
        refused.problem(400, "invalid_input");
    }
}

#[test]
fn pages_have_cursors_that_fit_one_list_only() {
    let (server, recorded, _place) = served();
    let first = server.json(&format!("{RUNS}?limit=1"));
    assert_eq!(ids(&first), [recorded.paused.to_string()]);
    let cursor = first["next"].as_str().unwrap();
    let second = server.json(&format!("{RUNS}?limit=1&cursor={cursor}"));
    assert_eq!(ids(&second), [recorded.done.to_string()]);
    assert_eq!(second["next"], Value::Null);
    let of_another = server.get(&format!("{RUNS}?limit=1&status=paused&cursor={cursor}"));
    of_another.problem(400, "invalid_input");
    let of_messages = server.get(&format!(
        "{RUNS}/{}/messages?cursor={cursor}",
        recorded.done
    ));
    of_messages.problem(400, "invalid_input");
}

#[test]
fn a_run_is_given_whole() {
    let (server, recorded, _place) = served();
    let run = server.json(&format!("{RUNS}/{}", recorded.done));
    for field in [
        "summary",
        "error_message",
        "max_steps",
        "parent_run_id",
        "resumed_from",
    ] {
        assert!(run.get(field).is_some(), "{field} is missing: {run}");
    }
    assert_eq!(run["project"], PROJECT);
    assert_eq!(run["summary"], "42 papers found");
    let paused = server.json(&format!("{RUNS}/{}", recorded.paused));
    assert_eq!(paused["parent_run_id"], recorded.done.to_string());
    assert_eq!(paused["pause_reason"], "lunch");
}

#[test]
fn what_is_of_another_project_is_not_there() {
    let (server, recorded, _place) = served();
    let other = recorded.other;
    for path in [
        "",
        "/messages",
        "/messages/1",
        "/tool-calls",
        "/tool-calls/1",
    ] {
        server
            .get(&format!("{RUNS}/{other}{path}"))
            .problem(404, "not_found");
    }
    let run = server.json(&format!("/api/projects/other/agent-runs/{other}"));
    assert_eq!(run["error_message"], "no network");
}

#[test]
fn messages_come_by_step_and_one_by_one() {
    let (server, recorded, _place) = served();
    let messages = format!("{RUNS}/{}/messages", recorded.done);
    let page = server.json(&messages);
    let items = page["items"].as_array().unwrap();
    let roles = items.iter().map(|item| item["role"].as_str().unwrap());
    assert_eq!(
        roles.collect::<Vec<_>>(),
        ["user", "assistant", "tool", "assistant", "tool"]
    );
    let steps = items
        .iter()
        .map(|item| item["step_number"].as_u64().unwrap());
    assert!(steps.is_sorted(), "{page}");
    for item in items {
        for field in ["run_id", "role", "content", "step_number", "created_at"] {
            assert!(item.get(field).is_some(), "{field} is missing: {item}");
        }
        assert_eq!(&server.json(&format!("{messages}/{}", item["id"])), item);
    }
    let two = server.json(&format!("{messages}?limit=2"));
    let rest = server.json(&format!(
        "{messages}?cursor={}",
        two["next"].as_str().unwrap()
    ));
    assert_eq!([ids(&two), ids(&rest)].concat(), ids(&page));
    let second = server.json(&format!("{messages}?step_number=2"));
    assert_eq!(second["items"].as_array().unwrap().len(), 2);
    server
        .get(&format!("{messages}/999999"))
        .problem(404, "not_found");
    server
        .get(&format!("{messages}/x"))
        .problem(400, "invalid_input");
}

#[test]
fn content_is_given_byte_for_byte() {
    let (server, recorded, _place) = served();
    let answer = server
        .get(&format!("{RUNS}/{}/messages", recorded.done))
        .text();
    assert!(
        answer.contains(r#""arguments":"{\"query\": \"append-only  logs\"}""#),
        "{answer}"
    );
    let answer = server
        .get(&format!("{RUNS}/{}/tool-calls", recorded.done))
        .text();
    assert!(
        answer.contains(r#"{"query": "append-only  logs"}"#),
        "{answer}"
    );
}

#[test]
fn tool_calls_come_by_step_filtered_and_one_by_one() {
    let (server, recorded, _place) = served();
    let calls = format!("{RUNS}/{}/tool-calls", recorded.done);
    let page = server.json(&calls);
    let tools = page["items"].as_array().unwrap().iter();
    let tools: Vec<_> = tools
        .map(|call| {
            (
                call["tool_name"].as_str().unwrap(),
                call["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(tools, [("search", "completed"), ("read_file", "error")]);
    for call in page["items"].as_array().unwrap() {
        for field in [
            "run_id",
            "message_id",
            "tool_name",
            "input",
            "output",
            "status",
            "step_number",
            "created_at",
        ] {
            assert!(call.get(field).is_some(), "{field} is missing: {call}");
        }
        assert_eq!(call["duration"], 7);
        assert_eq!(&server.json(&format!("{calls}/{}", call["id"])), call);
    }
    for (query, wanted) in [
        ("status=error", "read_file"),
        ("tool_name=search", "search"),
    ] {
        let found = server.json(&format!("{calls}?{query}"));
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "{query}");
        assert_eq!(found["items"][0]["tool_name"], wanted);
    }
    let first = server.json(&format!("{calls}?limit=1"));
    let second = server.json(&format!(
        "{calls}?limit=1&cursor={}",
        first["next"].as_str().unwrap()
    ));
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&page));
    server.get(&format!("{calls}/1")).problem(404, "not_found");
}

#[test]
fn a_request_sees_all_that_was_acknowledged_before_it_came() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let new = || NewRun {
        project: Some("p".into()),
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    let run = store.runs().start(new()).unwrap();
    let server = Server::start(&place, &[]);
    let at = format!("/api/projects/p/agent-runs/{}", run.id());
    for number in 1..=60_usize {
        let recorded = run
            .record_message(NewMessage::user(format!("Part {number}")))
            .unwrap();
        let page = server.json(&format!("{at}/messages?limit=100"));
        assert_eq!(ids(&page).len(), number);
        let id = recorded.id;
        assert_eq!(server.json(&format!("{at}/messages/{id}"))["id"], json!(id));
        if number % 20 == 0 {
            let another = store.runs().start(new()).unwrap();
            let listed = server.json("/api/projects/p/agent-runs?limit=1");
            assert_eq!(ids(&listed), [another.id().to_string()]);
        }
    }
    let other = format!("/api/projects/q/agent-runs/{}", run.id());
    for rest in [
        "",
        "/messages",
        "/messages/1",
        "/tool-calls",
        "/tool-calls/1",
    ] {
        let refused = server.get(&format!("{other}{rest}"));
        assert_eq!(refused.status, 404, "{rest}");
    }
}

/// An answer that the server gave before is given again only while nothing has changed it: whatever is done, all answers are
/// those of a server that was never asked.
#[test]
fn answers_that_were_given_before_are_those_of_a_server_that_is_asked_first() {
    let (server, recorded, place) = served();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let done = format!("{RUNS}/{}", recorded.done);
    let paused = format!("{RUNS}/{}", recorded.paused);
    let first_of = |list: &str| ids(&server.json(&format!("{done}/{list}")))[0].clone();
    let (message, call) = (first_of("messages"), first_of("tool-calls"));
    let mut addresses = vec![
        RUNS.to_owned(),
        format!("{RUNS}?status=paused"),
        format!("{done}/messages/{message}"),
        format!("{done}/tool-calls/{call}"),
        "/v1/runs".into(),
        "/v1/chats".into(),
        "/v1/flows".into(),
        format!("/v1/sessions/{}", recorded.session),
    ];
    for run in [&done, &paused] {
        addresses.extend(
            ["", "/messages", "/tool-calls", "/tool-calls?status=error"]
                .map(|rest| format!("{run}{rest}")),
        );
    }
    let answers = |server: &Server| -> Vec<(u16, String)> {
        let answers = addresses.iter().map(|address| server.get(address));
        answers
            .map(|answer| (answer.status, answer.text()))
            .collect()
    };
    let mut before = answers(&server);
    let context = store.context(recorded.instance).unwrap();
    let runs = store.runs();
    type Change<'a> = (&'a str, &'a dyn Fn());
    let changes: [Change<'_>; 6] = [
        ("resumed", &|| {
            drop(
                runs.resume(recorded.paused, &ResumeOptions::default())
                    .unwrap(),
            )
        }),
        ("spawned", &|| {
            let child = NewRun {
                parent_run_id: Some(recorded.done),
                project: Some(PROJECT.into()),
                ..NewRun::in_new_session(NewSession::default(), "reader")
            };
            drop(runs.start(child).unwrap());
        }),
        ("described", &|| {
            let details = RunDetails {
                metadata: Some(RawJson::string("new")),
                ..RunDetails::default()
            };
            drop(
                runs.recorder(recorded.done)
                    .unwrap()
                    .describe(details)
                    .unwrap(),
            );
        }),
        ("truncated", &|| {
            context.truncate_after_sequence(5).unwrap();
        }),
        ("erased", &|| {
            let erase = Erase {
                positions: vec![message.parse().unwrap()],
                reason: "private".into(),
                ..Erase::default()
            };
            store.erase(&erase).unwrap();
        }),
        ("deleted", &|| {
            store.delete_session(recorded.session).unwrap()
        }),
    ];
    for (what, change) in changes {
        change();
        let now = answers(&server);
        let fresh = answers(&Server::start(&place, &[]));
        for (address, (now, fresh)) in addresses.iter().zip(now.iter().zip(&fresh)) {
            assert_eq!(now, fresh, "{what}: {address}");
        }
        assert!(now != before, "no answer tells that something was {what}");
        before = now;
    }
}
