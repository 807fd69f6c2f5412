//! What is written, and by whom.

use serde_json::{Value, json};

use crate::{
    common::Place,
    recorded::{Recorded, record},
    server::{Answer, Server},
};

const READ: &str = "a-token-that-reads-0123456789";
const WRITE: &str = "a-token-that-writes-0123456789";

struct Writing {
    server: Server,
    recorded: Recorded,
    place: Place,
}

impl Writing {
    fn start() -> Self {
        let place = Place::new();
        let recorded = record(&place);
        let env = [("RUNLOG_READ_TOKEN", READ), ("RUNLOG_WRITE_TOKEN", WRITE)];
        let server = Server::start_with(&place, &[], &env);
        Self {
            server,
            recorded,
            place,
        }
    }

    fn post(&self, path: &str, body: &str) -> Answer {
        let token = format!("Bearer {WRITE}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        self.server.post(path, &headers, body)
    }

    #[track_caller]
    fn made(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, &body.to_string());
        assert!(matches!(answer.status, 201 | 202), "{}", answer.text());
        answer.json()
    }

    fn messages(&self) -> String {
        format!("/v1/instances/{}/messages", self.recorded.instance)
    }

    fn last_sequence(&self) -> u64 {
        let path = format!("/v1/instances/{}/events", self.recorded.instance);
        let token = format!("Bearer {READ}");
        let page = self
            .server
            .get_with(&path, &[("authorization", &token)])
            .json();
        page["items"].as_array().unwrap().last().unwrap()["sequence_number"]
            .as_u64()
            .unwrap()
    }
}

#[test]
fn what_is_written_is_there_when_it_is_answered_byte_for_byte() {
    let mut writing = Writing::start();
    let session = writing.made(
        "/v1/sessions",
        &json!({"title": "by HTTP", "project": "p", "created_at_ms": 7}),
    );
    assert_eq!(
        (&session["title"], &session["created_at_ms"]),
        (&json!("by HTTP"), &json!(7))
    );
    let id = session["id"].as_str().unwrap();
    let instance = writing.made(
        &format!("/v1/sessions/{id}/instances"),
        &json!({"agent_name": "coder"}),
    );
    let instance = instance["id"].as_str().unwrap();
    let odd = r#"{"role":"user", "content":"a","n":12345678901234567890123,"x":1.50}"#;
    let appended = writing.post(
        &format!("/v1/instances/{instance}/messages"),
        &format!("{{\"messages\":[{odd}]}}"),
    );
    assert_eq!(appended.json()["last_sequence"], 1);
    let event = json!({"event_type": "tool_result", "content": {"content": "42"}, "tool_call_id": "c1", "options": {"event": {"tool_duration_ms": 3}}});
    let event = writing.made(&format!("/v1/instances/{instance}/events"), &event);
    assert_eq!(
        (
            &event["sequence_number"],
            &event["tool_results"][0]["duration_ms"]
        ),
        (&json!(2), &json!(3))
    );
    // Killed, so that only what is durable is there.
    writing.server.child().kill().unwrap();
    writing.server.child().wait().unwrap();
    let shown = writing.place.expect(0, &["export", id]).out;
    assert!(shown.contains(odd), "{shown}");
}

#[test]
fn metadata_that_no_value_can_hold_is_shown_as_it_is() {
    let writing = Writing::start();
    let odd = r#""metadata":{"n":1e400}"#;
    let made = writing.post("/v1/sessions", &format!("{{{odd}}}"));
    assert_eq!(made.status, 201, "{}", made.text());
    for command in [["show", "@last", "--json"], ["ls", "-n1", "--json"]] {
        let shown = writing.place.expect(0, &command).out;
        assert!(shown.contains(odd), "{shown}");
    }
}

#[test]
fn a_batch_is_there_whole_or_not_at_all_and_once() {
    let writing = Writing::start();
    let before = writing.last_sequence();
    let batch = |messages: Value, options: Value| {
        writing.post(
            &writing.messages(),
            &json!({"messages": messages, "options": options}).to_string(),
        )
    };
    let user = |text: &str| json!({"role": "user", "content": text});
    let detail =
        batch(json!([user("a"), {"role": "odd"}]), json!({})).problem(400, "invalid_input");
    assert!(detail.contains("message 2"), "{detail}");
    assert_eq!(writing.last_sequence(), before);
    let once = json!({"idempotency_key": "k1", "expected_last_sequence": before});
    let first = batch(json!([user("a"), user("b")]), once.clone());
    assert_eq!(
        (first.status, first.json()["repeated"].clone()),
        (201, json!(false))
    );
    let again = batch(json!([user("a"), user("b")]), once);
    assert_eq!(again.json()["repeated"], true);
    assert_eq!(writing.last_sequence(), before + 2);
    batch(
        json!([user("c")]),
        json!({"expected_last_sequence": before}),
    )
    .problem(409, "conflict");
    batch(json!([]), json!({})).problem(400, "invalid_input");
    let detail =
        batch(json!([user("c")]), json!({"expectedLastSequence": 1})).problem(400, "invalid_input");
    assert!(detail.contains("`expected_last_sequence`"), "{detail}");
}

#[test]
fn flows_are_left_commands() {
    let writing = Writing::start();
    let commands = format!("/v1/flows/{}/commands", writing.recorded.flow);
    let left = writing.made(&commands, &json!({"type": "resume", "message": "go on"}));
    assert_eq!(left["waiting"][0]["message"], "go on");
    let sent = writing.made(
        &commands,
        &json!({"type": "send", "runId": "node-1", "message": "hello"}),
    );
    assert_eq!(sent["waiting"].as_array().unwrap().len(), 2);
    let detail = writing
        .post(&commands, r#"{"type":"reply","message":"x"}"#)
        .problem(400, "invalid_input");
    assert!(detail.contains("runId"), "{detail}");
    writing.post(&commands, "7").problem(400, "invalid_input");
    let of_none = "/v1/flows/0198c7e0-0000-7000-8000-000000000001/commands";
    writing
        .post(of_none, r#"{"type":"resume"}"#)
        .problem(404, "not_found");
}

#[test]
fn nobody_writes_without_the_token_for_it() {
    let writing = Writing::start();
    let json_type = ("content-type", "application/json");
    let body = r#"{"title":"x"}"#;
    let ask = |headers: &[(&str, &str)]| writing.server.post("/v1/sessions", headers, body);
    ask(&[json_type]).problem(401, "unauthorized");
    ask(&[
        json_type,
        ("authorization", "Bearer wrong-token-0123456789"),
    ])
    .problem(401, "unauthorized");
    let reads = format!("Bearer {READ}");
    let detail = ask(&[json_type, ("authorization", &reads)]).problem(403, "forbidden");
    assert!(detail.contains("only reads"), "{detail}");
    let writes = format!("Bearer {WRITE}");
    ask(&[("authorization", &writes)]).problem(415, "unsupported_media_type");
    ask(&[("content-type", "text/plain"), ("authorization", &writes)])
        .problem(415, "unsupported_media_type");
    let of_a_page = [
        json_type,
        ("authorization", &writes),
        ("origin", "http://evil.example"),
    ];
    ask(&of_a_page).problem(403, "other_site");
    assert_eq!(
        ask(&[
            ("content-type", "application/json; charset=utf-8"),
            ("authorization", &writes)
        ])
        .status,
        201
    );
}

#[test]
fn a_server_that_only_reads_says_how_to_write() {
    let place = Place::new();
    record(&place);
    let server = Server::start(&place, &[]);
    let answer = server.post(
        "/v1/sessions",
        &[("content-type", "application/json")],
        "{}",
    );
    let detail = answer.problem(403, "forbidden");
    assert!(detail.contains("--write"), "{detail}");
    // The store is free for another writer.
    place.expect(0, &["import", &crate::common::fixture("claude-code.jsonl")]);
}

#[test]
fn what_is_wrong_in_options_is_told_of_them() {
    let writing = Writing::start();
    let message = r#"{"role":"user","content":"x"}"#;
    let bodies = [
        (writing.messages(), format!(r#""messages":[{message}]"#)),
        (
            format!("/v1/instances/{}/events", writing.recorded.instance),
            format!(r#""event_type":"user_message","content":{message}"#),
        ),
    ];
    for (path, body) in bodies {
        for (options, told) in [
            ("null", "`options`: null is not an object"),
            ("7", "`options`: 7 is not an object"),
            ("[]", "`options`: a list stands where an object has to be"),
            (
                r#"{"idempotency_key":7}"#,
                "`options.idempotency_key`: 7 is not a text",
            ),
            (
                r#"{"event":{"step_number":"x"}}"#,
                r#"`options.event.step_number`: "x" is not a whole number"#,
            ),
            (
                r#"{"key":"a"}"#,
                "`options`: there is no field `key`; those that are taken are",
            ),
        ] {
            let refused = writing.post(&path, &format!(r#"{{{body},"options":{options}}}"#));
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert_eq!(refused.status, 400, "{detail}");
            assert!(detail.starts_with(&format!("the body: {told}")), "{detail}");
        }
    }
}

#[test]
fn bodies_without_measure_or_sense_are_refused() {
    let writing = Writing::start();
    let messages = writing.messages();
    let large = format!(
        "{{\"messages\":[{{\"role\":\"user\",\"content\":\"{}\"}}]}}",
        "x".repeat(33 << 20)
    );
    let refused = writing.server.raw(&format!(
        "POST {messages} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {WRITE}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        large.len()
    ));
    assert!(refused.starts_with("HTTP/1.1 413"), "{refused}");
    let mut chunked = format!(
        "POST {messages} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {WRITE}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for piece in large.as_bytes().chunks(1 << 20) {
        chunked += &format!(
            "{:x}\r\n{}\r\n",
            piece.len(),
            std::str::from_utf8(piece).unwrap()
        );
    }
    let refused = writing.server.raw(&chunked);
    assert!(
        refused.is_empty() || refused.starts_with("HTTP/1.1 413"),
        "{refused}"
    );
    for (body, wanted) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "object"),
        (r#"[[{"role":"user","content":"x"}]]"#, "object"),
        (r#"{"messages":{}}"#, ""),
        (r#"{"messages":[],"odd":1}"#, "odd"),
        (
            &format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
            "object",
        ),
        (
            &format!(
                "{{\"messages\":{}{}}}",
                "[".repeat(100_000),
                "]".repeat(100_000)
            ),
            "",
        ),
        ("{\"messages\":[\"\\ud800\"]}", ""),
    ] {
        let detail = writing.post(&messages, body).problem(400, "invalid_input");
        assert!(detail.contains(wanted), "{detail}");
    }
    for (path, body, wanted) in [
        (
            "/v1/sessions",
            r#"{"nam":"a"}"#,
            "the body: there is no field `nam`;",
        ),
        (
            &format!("/v1/sessions/{}/instances", writing.recorded.session),
            r#"{"agent":"a"}"#,
            "the body: `agent` is not a field that is known here;",
        ),
        (
            &format!("/v1/sessions/{}/instances", writing.recorded.session),
            r#"{"agent_name":7}"#,
            "the body: `agent_name`: 7 is not a text",
        ),
        (
            &messages,
            r#"{"messages":[],"options":{"durability":"never"}}"#,
            "the body: `options.durability`: \"never\" is not ",
        ),
    ] {
        let detail = writing.post(path, body).problem(400, "invalid_input");
        assert!(detail.starts_with(wanted), "{detail}");
        assert!(!detail.contains(" column "), "{detail}");
    }
    let answer = writing.post("/v1/sessions?x=1", "{}");
    answer.problem(400, "invalid_input");
    assert_eq!(writing.post("/v1/sessions", "{}").status, 201);
}

#[test]
fn a_token_for_writing_is_made_where_none_is_given() {
    use std::io::{BufRead, BufReader};
    let place = Place::new();
    record(&place);
    let mut server = Server::start(&place, &["--write"]);
    let mut told = String::new();
    BufReader::new(server.stderr())
        .read_line(&mut told)
        .unwrap();
    let token = told.trim().strip_prefix("the token for writing: ").unwrap();
    assert!(token.len() > 40, "{token}");
    let headers = [
        ("content-type", "application/json"),
        ("authorization", &format!("Bearer {token}")),
    ];
    assert_eq!(server.post("/v1/sessions", &headers, "{}").status, 201);
    server.get("/v1/store").problem(401, "unauthorized");
}

#[test]
fn a_token_is_told_by_a_server_that_listens_alone() {
    let place = Place::new();
    record(&place);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = place.expect(1, &["serve", "--write", "--listen", &address]);
    assert!(said.err.contains("can't listen at"), "{said:?}");
    assert!(!said.err.contains("token"), "{said:?}");
    drop(taken);
    let said = place.expect(2, &["serve", "--listen", "localhost:7710"]);
    assert!(said.err.contains("such as 127.0.0.1:7710"), "{said:?}");
    place.write("x", "no folder");
    let elsewhere = [
        "serve",
        "--write",
        "--listen",
        "127.0.0.1:0",
        "--store",
        "x",
    ];
    let elsewhere = place.expect(3, &elsewhere);
    assert!(!elsewhere.err.contains("token"), "{elsewhere:?}");
}

#[test]
fn a_field_that_is_given_twice_is_refused_at_any_depth() {
    let writing = Writing::start();
    let message = r#"{"role":"user","content":"x"}"#;
    let last = writing.last_sequence();
    for (path, body) in [
        (
            "/v1/sessions".to_owned(),
            r#"{"title":"a","title":"b"}"#.to_owned(),
        ),
        (
            writing.messages(),
            format!(
                r#"{{"messages":[{message}],"options":{{"idempotency_key":"a","idempotency_key":"b"}}}}"#
            ),
        ),
        (
            writing.messages(),
            format!(
                r#"{{"messages":[{message}],"options":{{"event":{{"step_number":1,"step_\u006eumber":2}}}}}}"#
            ),
        ),
        (
            writing.messages(),
            format!(r#"{{"messages":[],"messages":[{message}]}}"#),
        ),
    ] {
        let detail = writing.post(&path, &body).problem(400, "invalid_input");
        assert!(detail.contains("twice"), "{detail}");
    }
    assert_eq!(writing.last_sequence(), last);
    // What is the user's own is kept as it is.
    let session = writing.made("/v1/sessions", &json!({"metadata": {"a": 1}}));
    assert_eq!(session["metadata"]["a"], 1);
    let answer = writing.post("/v1/sessions", r#"{"metadata":{"a":1,"a":2}}"#);
    assert!(
        answer.text().contains(r#"{"a":1,"a":2}"#),
        "{}",
        answer.text()
    );
}

#[test]
fn a_run_is_described_over_http_and_its_list_tells_it() {
    let writing = Writing::start();
    let path = format!("/v1/runs/{}/details", writing.recorded.done);
    let answer = writing.post(&path, r#"{"usage":{"cost":0.5},"metadata":{"user":"ann"}}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["usage"]["cost"], 0.5);
    let token = format!("Bearer {READ}");
    let headers = [("authorization", token.as_str())];
    let page = writing.server.get_with("/v1/runs", &headers).json();
    let runs = page["items"].as_array().unwrap().clone();
    assert!(
        runs.iter().any(|run| run["metadata"]["user"] == "ann"),
        "{page}"
    );
    let cleared = writing.post(&path, r#"{"metadata":null}"#).json();
    assert_eq!(cleared.get("metadata"), None, "{cleared}");
    assert_eq!(cleared["usage"]["cost"], 0.5);
    assert_eq!(writing.post(&path, r#"{"usage":7}"#).status, 400);
    assert_eq!(writing.post(&path, r#"{"tokens":7}"#).status, 400);
    let read_only = writing.server.post(&path, &headers, "{}");
    assert_eq!(read_only.status, 403);
}

#[test]
fn a_server_that_writes_makes_its_store_in_which_a_chat_is_held_copied_and_cut() {
    let place = Place::new();
    let server = Server::start_with(&place, &[], &[("RUNLOG_WRITE_TOKEN", WRITE)]);
    let token = format!("Bearer {WRITE}");
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
    ];
    let post = |path: &str, body: Value| {
        let answer = server.post(path, &headers, &body.to_string());
        assert!(answer.status < 300, "{}", answer.text());
        answer.json()
    };
    let get = |path: &str| server.get_with(path, &headers[..1]).json();
    let chat = post(
        "/v1/chats",
        json!({"assistant_id": "travel", "title": "Oslo"}),
    );
    let id = chat["chat_id"].as_str().unwrap();
    let messages = format!("/v1/chats/{id}/messages");
    let said = |id: &str| json!({"message_id": id, "role": "user", "type": "text", "props": {"content": id}});
    let saved = post(
        &messages,
        json!({"messages": [said("a"), said("b"), said("c")]}),
    );
    assert_eq!(saved["messages"][2]["sequence"], 3);
    let again = json!({"messages": [said("c")]}).to_string();
    server
        .post(&messages, &headers, &again)
        .problem(409, "already_exists");
    server
        .post(&messages, &headers, r#"{"messages":[]}"#)
        .problem(400, "invalid_input");
    let stale = json!({"messages": [said("d")], "after": "b"}).to_string();
    let refused = server.post(&messages, &headers, &stale);
    refused.problem(409, "conflict");
    // Told that there is none, which isn't to be told nothing.
    for none in [json!(null), json!("")] {
        let first = json!({"messages": [said("d")], "after": none}).to_string();
        let refused = server.post(&messages, &headers, &first);
        refused.problem(409, "conflict");
    }
    // A chat with an id of its own is copied by that.
    post(
        "/v1/chats",
        json!({"chat_id": "trip", "assistant_id": "travel"}),
    );
    let first = json!({"messages": [said("t")], "after": null});
    post("/v1/chats/trip/messages", first);
    let copy = post("/v1/chats/trip/copies", json!({"name": "another"}));
    assert_eq!(copy["session"]["name"], "another");
    let of_copy = get("/v1/chats/another/messages");
    assert_eq!(of_copy["items"].as_array().unwrap().len(), 1);
    // An id that is given and empty is none that what is made could be found by.
    for (path, body) in [
        (
            "/v1/chats",
            json!({"chat_id": "", "assistant_id": "travel"}),
        ),
        ("/v1/chats/trip/messages", json!({"messages": [said("")]})),
    ] {
        let refused = server.post(path, &headers, &body.to_string());
        let detail = refused.problem(400, "invalid_input");
        assert!(
            detail.contains("_id` is empty; leave it out for a fresh one"),
            "{detail}"
        );
    }
    // With what isn't there, more would be copied, or for somebody else.
    for none in ["up_to_message", "up_to_sequence", "created_by"] {
        let body = json!({none: null}).to_string();
        let refused = server.post("/v1/chats/trip/copies", &headers, &body);
        let detail = refused.problem(400, "invalid_input");
        assert!(detail.contains(none), "{detail}");
    }
    let refused = server.post("/v1/sessions/trip/copies", &headers, "{}");
    let detail = refused.problem(400, "invalid_input");
    assert!(detail.contains("/v1/chats/{chat_id}"), "{detail}");
    let copies = format!("/v1/sessions/{id}/copies");
    let copy = post(&copies, json!({"up_to_message": "b", "title": "Bergen"}));
    assert_eq!(copy["session"]["title"], "Bergen");
    let copied = copy["session"]["id"].as_str().unwrap();
    let of_copy = get(&format!("/v1/chats/{copied}/messages"));
    assert_eq!(of_copy["items"].as_array().unwrap().len(), 2);
    server
        .post(&copies, &headers, r#"{"up_to_message":"x"}"#)
        .problem(404, "not_found");

    let instances = format!("/v1/sessions/{id}/instances");
    let instance = post(&instances, json!({"agent_name": "lead"}));
    let instance = format!("/v1/instances/{}", instance["id"].as_str().unwrap());
    assert_eq!(get(&instance)["last_sequence"], 0);
    let two =
        json!({"messages": [{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]});
    post(&format!("{instance}/messages"), two);
    assert_eq!(get(&instance)["last_sequence"], 2);
    let whole = get(&format!("{instance}/messages"));
    let wanted = json!([{"role": "user", "content": "x"}, {"role": "user", "content": "y"}]);
    assert_eq!(
        (&whole["messages"], &whole["last_sequence"]),
        (&wanted, &json!(2))
    );
    let truncated = post(
        &format!("/v1/sessions/{id}/truncations"),
        json!({"after_sequence": 1}),
    );
    assert_eq!(
        (&truncated["deleted"], &get(&instance)["last_sequence"]),
        (&json!(1), &json!(1))
    );

    let defined = post(
        "/v1/agents",
        json!({"name": "lead", "system_prompt": "You lead."}),
    );
    assert_eq!(defined["system_prompt"], "You lead.");
    assert_eq!(get("/v1/agents/lead")["name"], "lead");
}

#[test]
fn an_event_is_of_no_run_of_another_session() {
    let writing = Writing::start();
    let other = writing.made("/v1/sessions", &json!({}));
    let other = other["id"].as_str().unwrap();
    let other = writing.made(
        &format!("/v1/sessions/{other}/instances"),
        &json!({"agent_name": "x"}),
    );
    let other = format!("/v1/instances/{}", other["id"].as_str().unwrap());
    let run = writing.recorded.done;
    let of = |run: &str| json!({"event": {"run_id": run}});
    let message = json!({"role": "user", "content": "x"});
    for (path, body) in [
        (
            format!("{other}/messages"),
            json!({"messages": [message], "options": of(&run.to_string())}),
        ),
        (
            format!("{other}/events"),
            json!({"event_type": "user_message", "content": message, "options": of(&run.to_string())}),
        ),
        (
            writing.messages(),
            json!({"messages": [message], "options": of("019a0000-0000-7000-8000-000000000000")}),
        ),
    ] {
        let detail = writing
            .post(&path, &body.to_string())
            .problem(404, "not_found");
        assert!(detail.contains("`options.event.run_id`"), "{detail}");
    }
    let body = json!({"messages": [message], "options": of(&run.to_string())});
    writing.made(&writing.messages(), &body);
}

#[test]
fn what_headers_say_of_a_body_is_heeded_or_refused() {
    let writing = Writing::start();
    let token = format!("Bearer {WRITE}");
    let with = |name: &str, value: &str, body: &str| {
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
            (name, value),
        ];
        writing.server.post("/v1/sessions", &headers, body)
    };
    with("content-encoding", "gzip", "x").problem(415, "unsupported_media_type");
    assert_eq!(with("content-encoding", "identity", "{}").status, 201);
    for (charset, status) in [
        ("utf-16", 415),
        ("latin1", 415),
        ("UTF-8", 201),
        ("\"utf-8\"", 201),
    ] {
        let content_type = format!("application/json; charset={charset}");
        let headers = [
            ("authorization", token.as_str()),
            ("content-type", &content_type),
        ];
        let answer = writing.server.post("/v1/sessions", &headers, "{}");
        assert_eq!(answer.status, status, "{charset}");
    }
    let detail = with("idempotency-key", "k", "{}").problem(400, "invalid_input");
    assert!(detail.contains("`options.idempotency_key`"), "{detail}");
    assert_eq!(
        with("x-other", "k", "\u{feff}{}").status,
        201,
        "a byte order mark"
    );
}
