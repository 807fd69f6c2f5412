//! The lines of agents, good ones and bad ones.

use super::*;

fn code(line: &str) -> &'static str {
    FromAgent::read(line.as_bytes(), 1).unwrap_err().code
}

#[test]
fn a_message_becomes_its_events_byte_for_byte() {
    let line = br#"{"type":"message", "id":{"n":1.0}, "message":{ "role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}}"#;
    let Ok(FromAgent::Record {
        id,
        key: None,
        events,
    }) = FromAgent::read(line, 1)
    else {
        panic!("it is a message")
    };
    assert_eq!(id.unwrap().as_str(), r#"{"n":1.0}"#);
    assert_eq!(events.len(), 2);
    assert!(
        events[0]
            .content
            .as_str()
            .starts_with(r#"{ "role":"assistant","#)
    );
    assert_eq!(events[1].kind, ContextEventKind::ToolCall);
}

#[test]
fn what_is_wrong_with_a_line_is_told_by_a_code() {
    for (line, expected) in [
        ("", "invalid_json"),
        ("{", "invalid_json"),
        ("null", "invalid_json"),
        ("[]", "invalid_json"),
        ("[1]", "invalid_json"),
        ("\"x\"", "invalid_json"),
        ("{}", "invalid_message"),
        (r#"{"type":5}"#, "invalid_message"),
        (r#"{"type":"dance"}"#, "unknown_type"),
        (r#"{"type":"hello","protocol":2}"#, "unsupported_protocol"),
        (r#"{"type":"message"}"#, "invalid_message"),
        (
            r#"{"type":"message","message":{"role":"king","content":""}}"#,
            "invalid_message",
        ),
        (r#"{"type":"message","message":"hi"}"#, "invalid_message"),
        (
            r#"{"type":"event","event_type":"tool_call","content":{}}"#,
            "invalid_message",
        ),
        (
            r#"{"type":"message","key":"","message":{"role":"user","content":""}}"#,
            "invalid_message",
        ),
        (r#"{"type":"spawn_agents"}"#, "invalid_message"),
        (
            r#"{"type":"spawn_agents","requests":[]}"#,
            "invalid_message",
        ),
        (r#"{"type":"done","summary":5}"#, "invalid_message"),
        (
            r#"{"type":"done","pause_reason":"a","error_message":"b"}"#,
            "invalid_message",
        ),
        (
            &format!(
                r#"{{"type":"done","summary":"{}"}}"#,
                "x".repeat(DONE_TEXT_BYTES_MAX + 1)
            ),
            "too_large",
        ),
    ] {
        assert_eq!(code(line), expected, "{line}");
    }
    let both = br#"{"type":"done","pause_reason":"a","error_message":"b"}"#;
    assert_eq!(
        FromAgent::read(both, 1).unwrap_err().message,
        "a run has paused or failed: give `pause_reason` or `error_message`, not both"
    );
    assert_eq!(
        FromAgent::read(b"null", 1).unwrap_err().message,
        "a line is a JSON object with a `type`"
    );
    assert_eq!(
        FromAgent::read(br#"{"type":"hello","protocol":1}"#, 1),
        Ok(FromAgent::Hello { commands: false })
    );
    assert_eq!(
        FromAgent::read(br#"{"type":"done"}"#, 1),
        Ok(FromAgent::Done(Done::default()))
    );
    let done = Done {
        summary: Some("fixed".to_owned()),
        ..Done::default()
    };
    assert_eq!(
        FromAgent::read(br#"{"type":"done","summary":"fixed"}"#, 1),
        Ok(FromAgent::Done(done))
    );
    assert_eq!(
        FromAgent::read(br#"{"type":"step"}"#, 1),
        Ok(FromAgent::Step { id: None })
    );
}

#[test]
fn a_refused_line_says_whether_it_would_have_ended_the_run() {
    for (line, is_done) in [
        (r#"{"type":"done","summary":5}"#, true),
        (
            r#"{"type":"done","pause_reason":"a","error_message":"b"}"#,
            true,
        ),
        (r#"{"type":"message","message":"done"}"#, false),
        (r#"{"type":"dance"}"#, false),
    ] {
        assert_eq!(
            FromAgent::read(line.as_bytes(), 1).unwrap_err().is_done,
            is_done,
            "{line}"
        );
    }
}

#[test]
fn too_many_tool_calls_are_too_large() {
    let call = r#"{"id":"c","function":{"name":"f","arguments":"{}"}}"#;
    let calls = vec![call; 2000].join(",");
    let line = format!(
        r#"{{"type":"message","id":7,"message":{{"role":"assistant","tool_calls":[{calls}]}}}}"#
    );
    let refusal = FromAgent::read(line.as_bytes(), 9).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.line, refusal.id.unwrap().as_str()),
        ("too_large", 9, "7")
    );
}

#[test]
fn a_line_to_the_agent_has_no_line_break_in_it() {
    let message = RawJson::parse("{\n \"role\": \"user\"}").unwrap();
    let line = ToAgent::Message {
        sequence: 1,
        message: &message,
    }
    .line();
    assert_eq!(
        line,
        b"{\"type\":\"message\",\"sequence\":1,\"message\":{  \"role\": \"user\"}}\n"
    );
}
