use super::*;
use crate::{
    ErrorKind, NewMessage, NewToolCall, ToolStyle,
    context::{message::outputs_of, placeholder::with_role},
    limits::{MESSAGE_TOOLS_MAX, TOOL_CALL_ID_BYTES_MAX},
    tool_calls_of,
};

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn events(text: &str) -> Vec<NewContextEvent> {
    NewContextEvent::of_message(raw(text), &EventOptions::default()).unwrap()
}

fn refused(text: &str) -> String {
    let error = NewContextEvent::of_message(raw(text), &EventOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    error.to_string()
}

fn ids(event: &NewContextEvent) -> Vec<Option<&str>> {
    event
        .meta
        .tools
        .iter()
        .map(|mark| mark.tool_call_id.as_deref())
        .collect()
}

#[test]
fn an_openai_message_becomes_itself_and_its_tool_calls() {
    let text = r#" {"tool_calls":[ {"function": {"arguments":"{\"path\": \"a\\u00e9\"}", "name":"open"},"id":"c1","type":"function"},
        {"id":"c2","type":"function","function":{"name":"ls","arguments":""}}],"role":"assistant","content":null} "#;
    let events = events(text);
    assert_eq!(events[0].kind, ContextEventKind::AssistantMessage);
    assert_eq!(events[0].content.as_str(), text);
    assert_eq!(events[1].kind, ContextEventKind::ToolCall);
    assert_eq!(
        events[1].content.as_str(),
        r#"{"id":"c1","name":"open","arguments":"{\"path\": \"a\\u00e9\"}"}"#,
        "the argument string stays byte for byte"
    );
    assert_eq!(
        events[2].content.as_str(),
        r#"{"id":"c2","name":"ls","arguments":""}"#
    );
    assert_eq!(ids(&events[2]), [Some("c2")]);
    assert_eq!(events.len(), 3);
}

#[test]
fn anthropic_tool_use_blocks_become_tool_calls() {
    let events = events(
        r#"{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool_use","id":"t1","name":"Edit","input":{ "a" : 1.0 }},{"type":"thinking","thinking":"…"}]}"#,
    );
    assert_eq!(events.len(), 2);
    assert_eq!(
        events[1].content.as_str(),
        r#"{"id":"t1","name":"Edit","arguments":{ "a" : 1.0 }}"#
    );
}

#[test]
fn anthropic_tool_results_are_one_message_that_answers_every_call() {
    let text = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[]},{"type":"text","text":"go on"}]}"#;
    let events = events(text);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind, ContextEventKind::ToolResult);
    assert_eq!(events[0].content.as_str(), text);
    assert_eq!(ids(&events[0]), [Some("t1"), Some("t2")]);
    assert_eq!(
        events[0]
            .meta
            .tools
            .iter()
            .map(|mark| mark.is_error)
            .collect::<Vec<_>>(),
        [false, true]
    );
}

#[test]
fn other_forms_of_calls_and_results_are_read() {
    let flat = events(
        r#"{"role":"assistant","content":"x","tool_calls":[{"id":"a","name":"f","arguments":{"x":1}}]}"#,
    );
    assert_eq!(
        flat[1].content.as_str(),
        r#"{"id":"a","name":"f","arguments":{"x":1}}"#
    );
    let without_id =
        events(r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]}"#);
    assert_eq!(
        without_id[1].content.as_str(),
        r#"{"id":null,"name":"f","arguments":{}}"#
    );
    let old = events(
        r#"{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}"#,
    );
    assert_eq!(
        old[1].content.as_str(),
        r#"{"id":null,"name":"f","arguments":"{}"}"#
    );
    let custom = events(
        r#"{"role":"assistant","tool_calls":[{"id":"a","type":"custom","custom":{"name":"g","input":"raw"}}]}"#,
    );
    assert_eq!(
        custom[1].content.as_str(),
        r#"{"id":"a","name":"g","input":"raw"}"#
    );
    let several = events(r#"{"role":"tool","content":"x","tool_call_ids":["a","b"]}"#);
    assert_eq!(ids(&several[0]), [Some("a"), Some("b")]);
    let nameless = events(r#"{"role":"function","name":"f","content":"x"}"#);
    assert_eq!(
        (nameless[0].kind, ids(&nameless[0])),
        (ContextEventKind::ToolResult, vec![None])
    );
    let developer = events(r#"{"role":"developer","content":"x"}"#);
    assert_eq!(developer[0].kind, ContextEventKind::SystemMessage);
    let nulls = events(
        r#"{"role":"assistant","content":"x","tool_calls":null,"function_call":null,"tool_call_id":null}"#,
    );
    assert_eq!(nulls.len(), 1);
}

#[test]
fn what_is_not_understood_is_kept_and_not_refused() {
    for text in [
        r#"{"role":"user","content":{"odd":true}}"#,
        r#"{"role":"user","content":["text",1,null,{"type":7},{"kind":"x"}]}"#,
        r#"{"role":"user","content":"\ud800"}"#,
        r#"{"\ud800":1,"role":"user","content":[{"\ud801":2}]}"#,
        r#"{"role":"system","content":"x","tool_calls":"ignored outside an assistant's"}"#,
    ] {
        let events = events(text);
        assert_eq!((events.len(), events[0].content.as_str()), (1, text));
    }
}

#[test]
fn a_message_that_cannot_be_placed_is_refused_with_the_reason() {
    for (text, reason) in [
        ("[]", "should be a JSON object, but begins \"[]\""),
        ("\"x\"", "should be a JSON object"),
        ("null", "should be a JSON object"),
        (r#"{"content":"x"}"#, "has no role"),
        (r#"{"role":null,"content":"x"}"#, "has no role"),
        (
            r#"{"role":"robot"}"#,
            "unknown role \"robot\"; it is one of system",
        ),
        (r#"{"role":1}"#, "role should be a string"),
        (
            r#"{"role":"user","role":"assistant"}"#,
            "duplicate field `role`",
        ),
        (
            r#"{"role":"assistant","tool_calls":{}}"#,
            "tool_calls should be an array",
        ),
        (
            r#"{"role":"assistant","tool_calls":["x"]}"#,
            "a tool call should be a JSON object",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"a","function":{"arguments":"{}"}}]}"#,
            "has no name",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":7,"name":"f"}]}"#,
            "the id of a tool call should be a string",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
            "the id of a tool call is empty",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"","name":"f","input":{}}]}"#,
            "the id of a tool call is empty",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"","toolName":"f","input":{}}]}"#,
            "the id of a tool call is empty",
        ),
        (
            r#"{"role":"tool","tool_call_id":7,"content":""}"#,
            "tool_call_id should be a string",
        ),
        (
            r#"{"role":"user","content":[{"type":"tool_result"}]}"#,
            "has no tool_use_id",
        ),
    ] {
        let message = refused(text);
        assert!(message.contains(reason), "{text}: {message}");
    }
}

#[test]
fn too_many_tool_calls_and_too_long_ids_are_refused() {
    let call = r#"{"id":"a","name":"f"}"#;
    let many = format!(
        r#"{{"role":"assistant","tool_calls":[{}]}}"#,
        vec![call; MESSAGE_TOOLS_MAX + 1].join(",")
    );
    let long = format!(
        r#"{{"role":"tool","content":"","tool_call_id":"{}"}}"#,
        "x".repeat(TOOL_CALL_ID_BYTES_MAX + 1)
    );
    for text in [many, long] {
        let error = NewContextEvent::of_message(raw(&text), &EventOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }
}

fn check(kind: ContextEventKind, content: &str, id: Option<&str>) -> Result<NewContextEvent> {
    NewContextEvent::new(kind, raw(content), id, &EventOptions::default())
}

#[test]
fn an_event_without_a_role_gets_it_from_its_kind() {
    let event = check(
        ContextEventKind::ToolResult,
        r#"{"tool_call_id":"c1","content":"x"}"#,
        None,
    )
    .unwrap();
    assert!(event.meta.role_implied);
    assert_eq!(ids(&event), [Some("c1")]);
    let message = with_role(&event.content, Role::Tool, Some("c1")).unwrap();
    assert_eq!(
        message.as_str(),
        r#"{"role":"tool","tool_call_id":"c1","content":"x"}"#
    );
    assert_eq!(
        with_role(&raw(" { } "), Role::User, None).unwrap().as_str(),
        r#"{"role":"user" } "#
    );
    let parts = r#"{"content":[{"type":"tool-result","toolCallId":"c1"}]}"#;
    let message = with_role(&raw(parts), Role::Tool, Some("c1")).unwrap();
    assert!(!message.as_str().contains("tool_call_id"));
    // An event that says beside its content which call it answers.
    let message = with_role(&raw(r#"{"content":"x"}"#), Role::Tool, Some("c1")).unwrap();
    assert_eq!(
        message.as_str(),
        r#"{"role":"tool","tool_call_id":"c1","content":"x"}"#
    );
}

#[test]
fn an_event_that_contradicts_its_kind_is_refused() {
    use ContextEventKind as Kind;
    for (kind, content, id, reason) in [
        (
            Kind::UserMessage,
            r#"{"role":"assistant"}"#,
            None,
            "needs a message of role \"user\"",
        ),
        (
            Kind::ToolResult,
            r#"{"role":"user","content":"no result"}"#,
            None,
            "needs a message of role \"tool\"",
        ),
        (
            Kind::ToolResult,
            r#"{"content":"x"}"#,
            None,
            "needs the id of the tool call it answers",
        ),
        (
            Kind::ToolResult,
            r#"{"tool_call_id":"a"}"#,
            Some("b"),
            "but its content answers [\"a\"]",
        ),
        (
            Kind::UserMessage,
            r#"{"content":"x"}"#,
            Some("b"),
            "answers no tool call",
        ),
        (
            Kind::ToolCall,
            r#"{"id":"a"}"#,
            None,
            "needs the tool's name",
        ),
        (
            Kind::ToolCall,
            r#"{"id":"a","name":"f"}"#,
            Some("b"),
            "its content has \"a\"",
        ),
        (Kind::ToolCall, "[]", None, "should be a JSON object"),
    ] {
        let error = check(kind, content, id).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(
            error.to_string().contains(reason),
            "{kind} {content}: {error}"
        );
    }
}

#[test]
fn a_result_event_takes_the_id_beside_its_content() {
    let event = check(
        ContextEventKind::ToolResult,
        r#"{"content":"x"}"#,
        Some("c1"),
    )
    .unwrap();
    assert_eq!(ids(&event), [Some("c1")]);
    let blocks = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"}]}"#;
    assert_eq!(
        ids(&check(ContextEventKind::ToolResult, blocks, Some("t1")).unwrap()),
        [Some("t1")]
    );
}

#[test]
fn options_mark_tool_results_only() {
    let options = EventOptions {
        tool_is_error: Some(true),
        tool_duration_ms: Some(7),
        ..EventOptions::default()
    };
    let text = r#"{"role":"assistant","tool_calls":[{"id":"a","name":"f"}]}"#;
    let asked = NewContextEvent::of_message(raw(text), &options).unwrap();
    assert!(!asked[1].meta.tools[0].is_error);
    let answer = NewContextEvent::of_message(
        raw(r#"{"role":"tool","tool_call_id":"a","content":""}"#),
        &options,
    )
    .unwrap();
    assert_eq!(
        (
            answer[0].meta.tools[0].is_error,
            answer[0].meta.tools[0].duration_ms
        ),
        (true, Some(7))
    );
}

#[test]
fn a_message_in_parts_must_fit_its_role() {
    let call = || NewToolCall::new("a", "f", "{}");
    let tool = NewMessage {
        tool_call_id: None,
        ..NewMessage::tool("a", "x")
    };
    let user = NewMessage::user("x").with_tool_calls([call()]);
    let assistant = NewMessage {
        tool_call_id: Some("a".into()),
        ..NewMessage::assistant("x")
    };
    for message in [tool, user, assistant] {
        assert_eq!(
            message.to_json().unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    let made = NewMessage::tool("a\"b", "x").to_json().unwrap();
    assert_eq!(
        made.as_str(),
        r#"{"role":"tool","tool_call_id":"a\"b","content":"x"}"#
    );
}

#[test]
fn content_that_no_provider_takes_is_refused() {
    for (text, reason) in [
        (r#"{"role":"user"}"#, "the user message has no content"),
        (
            r#"{"role":"user","content":null}"#,
            "the user message has no content",
        ),
        (
            r#"{"role":"user","content":3}"#,
            "the content of the user message is 3",
        ),
        (
            r#"{"role":"system","content":true}"#,
            "the content of the system message is true",
        ),
        (
            r#"{"role":"assistant"}"#,
            "give a string, an array of content parts, or tool calls",
        ),
        (
            r#"{"role":"assistant","content":null,"tool_calls":[]}"#,
            "the assistant message has no content",
        ),
        (
            r#"{"role":"assistant","content":1.5}"#,
            "the content of the assistant message is 1.5",
        ),
        (
            r#"{"role":"tool","tool_call_id":"a"}"#,
            "the tool message has no content",
        ),
        (
            r#"{"id":"m","role":"user","parts":[{"type":"text","text":"hi"}]}"#,
            "convertToModelMessages",
        ),
    ] {
        let message = refused(text);
        assert!(message.contains(reason), "{text}: {message}");
        let kept = NewContextEvent::of_transcript(raw(text), &EventOptions::default()).unwrap();
        assert_eq!(
            kept[0].content.as_str(),
            text,
            "a transcript is kept as it is"
        );
    }
    for text in [
        r#"{"role":"user","content":""}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a","name":"f"}]}"#,
        r#"{"role":"assistant","content":null,"refusal":"no"}"#,
        r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#,
        r#"{"role":"assistant","content":[]}"#,
    ] {
        assert_eq!(events(text)[0].content.as_str(), text);
    }
}

#[test]
fn tool_calls_and_results_of_the_ai_sdk_are_read() {
    let text = r#"{"role":"assistant","content":[{"type":"text","text":"hm"},{"type":"tool-call","toolCallId":"t1","toolName":"ls","input":{ "path": "/" }},{"type":"tool-call","toolCallId":"t2","toolName":"rm","args":{}}]}"#;
    let asked = events(text);
    assert_eq!(asked[0].content.as_str(), text);
    assert_eq!(
        asked[1].content.as_str(),
        r#"{"id":"t1","name":"ls","arguments":{ "path": "/" }}"#
    );
    let styles: Vec<ToolStyle> = tool_calls_of(&raw(text))
        .unwrap()
        .iter()
        .map(|call| call.style)
        .collect();
    assert_eq!(styles, [ToolStyle::AiSdk, ToolStyle::AiSdk4]);

    let by_provider = r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"p","toolName":"search","input":{},"providerExecuted":true},{"type":"tool-result","toolCallId":"p","toolName":"search","output":{"type":"json","value":1}}]}"#;
    assert_eq!(
        events(by_provider).len(),
        1,
        "a call that the provider answers itself is not open"
    );

    let text = r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"t1","toolName":"ls","output":{"type":"json","value":[1]}},{"type":"tool-result","toolCallId":"t2","toolName":"rm","output":{"type":"error-text","value":"no"}},{"type":"tool-result","toolCallId":"t3","toolName":"rm","result":"gone","isError":true}]}"#;
    let answered = events(text);
    assert_eq!(
        (answered.len(), answered[0].kind),
        (1, ContextEventKind::ToolResult)
    );
    assert_eq!(ids(&answered[0]), [Some("t1"), Some("t2"), Some("t3")]);
    assert_eq!(
        answered[0]
            .meta
            .tools
            .iter()
            .map(|mark| mark.is_error)
            .collect::<Vec<_>>(),
        [false, true, true]
    );
    let message = raw(text);
    let mut found = outputs_of(&message);
    let outputs =
        ["t1", "t2", "t3"].map(|id| found.take(Some(&id.to_owned())).0.as_str().to_owned());
    assert_eq!(outputs, ["[1]", "\"no\"", "\"gone\""]);
    assert!(
        refused(r#"{"role":"tool","content":[{"type":"tool-result","toolName":"ls"}]}"#)
            .contains("no toolCallId")
    );
}

#[test]
fn items_of_openais_responses_are_read_without_a_role() {
    let call = r#"{"type":"function_call","id":"fc_1","call_id":"call_1","name":"ls","arguments":"{\"path\":\"/\"}","status":"completed"}"#;
    let asked = events(call);
    assert_eq!(asked.len(), 2);
    assert_eq!(
        (asked[0].kind, asked[0].content.as_str()),
        (ContextEventKind::AssistantMessage, call)
    );
    assert_eq!(
        asked[1].content.as_str(),
        r#"{"id":"call_1","name":"ls","arguments":"{\"path\":\"/\"}"}"#
    );
    assert_eq!(
        tool_calls_of(&raw(call)).unwrap()[0].style,
        ToolStyle::OpenAiResponses
    );
    let answered =
        events(r#"{"type":"function_call_output","call_id":"call_1","output":"Cargo.toml"}"#);
    assert_eq!(
        (answered.len(), answered[0].kind),
        (1, ContextEventKind::ToolResult)
    );
    assert_eq!(ids(&answered[0]), [Some("call_1")]);
    assert_eq!(
        outputs_of(&answered[0].content)
            .take(Some(&"call_1".to_owned()))
            .0
            .as_str(),
        "\"Cargo.toml\""
    );
    let thought = events(r#"{"type":"reasoning","id":"rs_1","summary":[]}"#);
    assert_eq!(
        (thought.len(), thought[0].kind),
        (1, ContextEventKind::AssistantMessage)
    );
    for (text, why) in [
        (
            r#"{"type":"function_call","name":"ls","arguments":"{}"}"#,
            "no call_id",
        ),
        (r#"{"type":"function_call","call_id":"c"}"#, "no name"),
        (
            r#"{"type":"function_call","call_id":7,"name":"ls"}"#,
            "should be a string",
        ),
        (
            r#"{"type":"function_call_output","output":"x"}"#,
            "no call_id",
        ),
        (
            r#"{"type":"function_call_output","call_id":"c"}"#,
            "no output",
        ),
        (r#"{"type":"computer_call","id":"w"}"#, "no role"),
        (r#"{"type":"message","content":"x"}"#, "no role"),
        (r#"{"type":7,"call_id":"c","name":"ls"}"#, "no role"),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
}

#[test]
fn calls_and_responses_of_gemini_are_read() {
    let text = r#"{"role":"model","parts":[{"text":"hm"},{"functionCall":{"name":"ls","args":{ "path": "/" }}},{"function_call":{"id":"g2","name":"rm","args":{}}}]}"#;
    let asked = events(text);
    assert_eq!(
        (asked.len(), asked[0].kind, asked[0].content.as_str()),
        (3, ContextEventKind::AssistantMessage, text)
    );
    assert_eq!(
        [asked[1].content.as_str(), asked[2].content.as_str()],
        [
            r#"{"id":null,"name":"ls","arguments":{ "path": "/" }}"#,
            r#"{"id":"g2","name":"rm","arguments":{}}"#
        ]
    );
    let text = r#"{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"a"}}},{"functionResponse":{"name":"cat","response":{"error":"no","path":"x"}}},{"functionResponse":{"id":"g2","name":"rm","response":{"error":"denied"}}}]}"#;
    let answered = events(text);
    assert_eq!(
        (answered.len(), answered[0].kind),
        (1, ContextEventKind::ToolResult)
    );
    assert_eq!(ids(&answered[0]), [None, None, Some("g2")]);
    let errors: Vec<bool> = answered[0]
        .meta
        .tools
        .iter()
        .map(|mark| mark.is_error)
        .collect();
    assert_eq!(errors, [false, false, true]);
    let message = raw(text);
    let mut found = outputs_of(&message);
    let mut output = |id: Option<&str>| {
        let id = id.map(str::to_owned);
        found.take(id.as_ref()).0.as_str().to_owned()
    };
    // What stands alone as the output or the error is what the tool gave.
    assert_eq!(
        [output(None), output(None), output(Some("g2"))],
        ["\"a\"", r#"{"error":"no","path":"x"}"#, "\"denied\""]
    );
    let plain = events(r#"{"role":"user","parts":[{"text":"hi"}]}"#);
    assert_eq!(plain[0].kind, ContextEventKind::UserMessage);
    for (text, why) in [
        (r#"{"role":"model","content":"hi"}"#, "unknown role"),
        (r#"{"role":"model","parts":[]}"#, "unknown role"),
        (r#"{"role":"model","parts":["hi"]}"#, "unknown role"),
        (
            r#"{"role":"model","parts":[{"type":"text","text":"hi"}]}"#,
            "unknown role",
        ),
        (
            r#"{"role":"user","parts":[{"type":"text","text":"hi"}]}"#,
            "Vercel",
        ),
        (r#"{"parts":[{"text":"hi"}]}"#, "no role"),
        (
            r#"{"role":"model","parts":[{"functionCall":{"args":{}}}]}"#,
            "no name",
        ),
    ] {
        assert!(refused(text).contains(why), "{text}: {}", refused(text));
    }
}
