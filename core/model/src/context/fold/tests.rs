use bytes::Bytes;
use uuid::Uuid;

use super::*;
use runlog_log::{Kind, Position, Record, Sequence, StreamId};

use crate::{EventOptions, InstanceId, NewContextEvent, dangling_tool_calls, error_results};

/// Events as they come back from a store, for messages appended one after the other.
fn stored(messages: &[&str]) -> Vec<ContextEvent> {
    let new = messages.iter().flat_map(|text| {
        NewContextEvent::of_message(
            RawJson::parse((*text).to_owned()).unwrap(),
            &EventOptions::default(),
        )
        .unwrap()
    });
    new.zip(1..)
        .map(|(event, sequence)| decode(&event, sequence, false))
        .collect()
}

fn decode(event: &NewContextEvent, sequence: u64, redacted: bool) -> ContextEvent {
    let meta = if redacted {
        Vec::new()
    } else {
        event.encode_meta().unwrap()
    };
    let payload = if redacted {
        Bytes::new()
    } else {
        event.content.clone().into_bytes()
    };
    let record = Record {
        stream: StreamId(Uuid::nil()),
        position: Position(sequence + 100),
        sequence: Sequence(sequence),
        time_ms: 5,
        kind: Kind(event.kind.byte()),
        redacted,
        lost: false,
        meta: meta.into(),
        payload,
    };
    ContextEvent::decode(InstanceId(Uuid::nil()), &record).unwrap()
}

fn redact(events: &mut [ContextEvent], sequence: u64) {
    let event = events
        .iter_mut()
        .find(|event| event.sequence_number == sequence)
        .unwrap();
    *event = decode(&event.to_new(), sequence, true);
}

fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message.json.as_str())
        .collect()
}

fn names(calls: &[DanglingToolCall]) -> Vec<(&str, u64)> {
    calls
        .iter()
        .map(|call| (call.name.as_str(), call.sequence_number))
        .collect()
}

const SYSTEM: &str = r#"{"role":"system","content":"be brief"}"#;
const ASKED: &str = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","function":{"name":"ls","arguments":"{}"}},{"id":"c2","function":{"name":"cat","arguments":"{ }"}}]}"#;
const FIRST: &str = r#"{"role":"tool","tool_call_id":"c1","content":"a b"}"#;
const SECOND: &str = r#"{"role":"tool","tool_call_id":"c2","content":"…"}"#;
const BLOCKS: &str = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{}},{"type":"tool_use","id":"t2","name":"Edit","input":{}}]}"#;
const BLOCK_RESULTS: &str = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":"2"},{"type":"tool_result","tool_use_id":"t1","content":"1"}]}"#;

#[test]
fn messages_are_what_was_appended_and_tool_calls_are_not_messages() {
    let appended = [SYSTEM, ASKED, FIRST, SECOND, BLOCKS, BLOCK_RESULTS];
    let events = stored(&appended);
    assert_eq!(events.len(), 10, "six messages, four tool calls");
    let folded = messages(&events).unwrap();
    assert_eq!(texts(&folded), appended);
    assert_eq!(
        folded
            .iter()
            .map(|message| message.sequence_number)
            .collect::<Vec<_>>(),
        [1, 2, 5, 6, 7, 10]
    );
    assert_eq!(folded[5].role, Role::Tool);
}

#[test]
fn several_results_in_one_message_answer_all_their_calls() {
    assert_eq!(
        dangling_tool_calls(&stored(&[BLOCKS, BLOCK_RESULTS])).unwrap(),
        []
    );
}

#[test]
fn a_call_without_a_result_is_found_at_every_cut() {
    let events = stored(&[SYSTEM, ASKED, FIRST, SECOND]);
    let dangling = |count: usize| dangling_tool_calls(&events[..count]).unwrap();
    assert_eq!(names(&dangling(1)), []);
    assert_eq!(
        names(&dangling(2)),
        [("ls", 2), ("cat", 2)],
        "cut between a message and its tool_call records"
    );
    assert_eq!(names(&dangling(3)), [("ls", 3), ("cat", 2)]);
    assert_eq!(names(&dangling(4)), [("ls", 3), ("cat", 4)]);
    assert_eq!(names(&dangling(5)), [("cat", 4)]);
    assert_eq!(names(&dangling(6)), []);
    assert_eq!(dangling(4)[1].arguments.as_str(), r#""{ }""#);
}

#[test]
fn calls_without_ids_are_answered_in_order() {
    let asked = r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]}"#;
    let answer = r#"{"role":"tool","content":"1"}"#;
    assert_eq!(
        names(&dangling_tool_calls(&stored(&[asked])).unwrap()),
        [("f", 2), ("g", 3)]
    );
    assert_eq!(
        names(&dangling_tool_calls(&stored(&[asked, answer])).unwrap()),
        [("g", 3)]
    );
    assert_eq!(
        dangling_tool_calls(&stored(&[asked, answer, answer])).unwrap(),
        []
    );
}

#[test]
fn a_second_record_of_one_id_is_a_second_call() {
    let mut events = stored(&[r#"{"role":"assistant","tool_calls":[{"id":"c1","name":"ls"}]}"#]);
    events.push(decode(&events[1].to_new(), 3, false));
    assert_eq!(
        names(&dangling_tool_calls(&events).unwrap()),
        [("ls", 2), ("ls", 3)]
    );
}

#[test]
fn a_tool_call_appended_alone_dangles_until_it_is_answered() {
    let call = NewContextEvent::new(
        ContextEventKind::ToolCall,
        RawJson::parse(r#"{"id":"x","name":"f","arguments":{"a":1}}"#).unwrap(),
        None,
        &EventOptions::default(),
    )
    .unwrap();
    let result = NewContextEvent::new(
        ContextEventKind::ToolResult,
        RawJson::parse(r#"{"content":"y"}"#).unwrap(),
        Some("x"),
        &EventOptions::default(),
    )
    .unwrap();
    let events = [decode(&call, 1, false), decode(&result, 2, false)];
    assert_eq!(
        names(&dangling_tool_calls(&events[..1]).unwrap()),
        [("f", 1)]
    );
    assert_eq!(dangling_tool_calls(&events).unwrap(), []);
    assert_eq!(
        texts(&messages(&events).unwrap()),
        [r#"{"role":"tool","tool_call_id":"x","content":"y"}"#]
    );
}

#[test]
fn error_results_close_every_call_in_its_providers_form() {
    for asked in [
        ASKED,
        BLOCKS,
        r#"{"role":"assistant","function_call":{"name":"f","arguments":""}}"#,
    ] {
        let dangling = dangling_tool_calls(&stored(&[asked])).unwrap();
        let results = error_results(&dangling, "it \"stopped\"");
        let mut all = vec![asked];
        all.extend(results.iter().map(RawJson::as_str));
        assert_eq!(dangling_tool_calls(&stored(&all)).unwrap(), [], "{all:?}");
    }
    let openai = error_results(&dangling_tool_calls(&stored(&[ASKED])).unwrap(), "stopped");
    assert_eq!(
        openai[1].as_str(),
        r#"{"role":"tool","tool_call_id":"c2","content":"stopped"}"#
    );
    let anthropic = error_results(&dangling_tool_calls(&stored(&[BLOCKS])).unwrap(), "stopped");
    assert_eq!(
        anthropic.len(),
        1,
        "Anthropic wants all results in one message"
    );
    assert!(
        anthropic[0]
            .as_str()
            .contains(r#""tool_use_id":"t2","is_error":true,"content":"stopped""#)
    );
    assert!(stored(&[anthropic[0].as_str()])[0].tool_results[1].is_error);
}

#[test]
fn a_redacted_message_leaves_its_place_and_not_its_content() {
    let mut events = stored(&[SYSTEM, ASKED, FIRST, SECOND]);
    redact(&mut events, 1);
    redact(&mut events, 5);
    let folded = messages(&events).unwrap();
    assert_eq!(
        folded[0].json.as_str(),
        r#"{"role":"system","content":"[redacted]"}"#
    );
    assert_eq!(
        folded[2].json.as_str(),
        r#"{"role":"tool","tool_call_id":"c1","content":"[redacted]"}"#
    );
    assert_eq!(folded[3].json.as_str(), SECOND);
    assert_eq!(
        dangling_tool_calls(&events).unwrap(),
        [],
        "a redacted result still answers its call"
    );
}

#[test]
fn an_event_copied_elsewhere_is_the_same_event() {
    let events = stored(&[SYSTEM, ASKED, FIRST, BLOCKS, BLOCK_RESULTS]);
    for event in &events {
        let mut copy = decode(&event.to_new(), event.sequence_number, false);
        copy.position = event.position;
        assert_eq!(&copy, event);
    }
}

#[test]
fn a_record_that_is_no_context_event_is_damage_that_names_its_place() {
    let event = &stored(&[SYSTEM])[0].to_new();
    let good = event.encode_meta().unwrap();
    let decode = |kind: u8, meta: &[u8], payload: &'static [u8]| {
        let record = Record {
            stream: StreamId(Uuid::nil()),
            position: Position(1),
            sequence: Sequence(9),
            time_ms: 1,
            kind: Kind(kind),
            redacted: false,
            lost: false,
            meta: Bytes::copy_from_slice(meta),
            payload: Bytes::from_static(payload),
        };
        ContextEvent::decode(InstanceId(Uuid::nil()), &record)
    };
    for error in [
        decode(0, &good, b"{}").unwrap_err(),
        decode(1, b"", b"{}").unwrap_err(),
        decode(1, &good, b"\xff").unwrap_err(),
    ] {
        assert_eq!(error.kind(), crate::ErrorKind::Damaged);
        assert!(
            error
                .to_string()
                .starts_with("event 9 of instance 00000000-"),
            "{error}"
        );
    }
    let mut implied = decode(1, &good, b"not json").unwrap();
    implied.role_implied = true;
    assert_eq!(
        implied.message_json().unwrap_err().kind(),
        crate::ErrorKind::Damaged
    );
}

/// Contexts of two calls and their results, in each form: the messages of one answer, and of its results.
fn answered_in_each_form() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        (
            "openai",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"role":"tool","tool_call_id":"c","content":"1"}"#,
                r#"{"role":"tool","tool_call_id":"d","content":"2"}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "anthropic, results apart",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_use","id":"d","name":"f","input":{}}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"d","content":"2"}]}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "anthropic, results together, and what the user says",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}},{"type":"tool_use","id":"d","name":"f","input":{}}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"},{"type":"tool_result","tool_use_id":"d","content":"2"},{"type":"text","text":"and this"}]}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "openai, in another order",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"role":"tool","tool_call_id":"d","content":"2"}"#,
                r#"{"role":"tool","tool_call_id":"c","content":"1"}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "openai, without ids",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}},{"function":{"name":"g","arguments":{}}}]}"#,
                r#"{"role":"tool","name":"g","content":"2"}"#,
                r#"{"role":"tool","name":"f","content":"1"}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "ai sdk, results together",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"f","input":{}},{"type":"tool-call","toolCallId":"d","toolName":"f","input":{}}]}"#,
                r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"f","output":{"type":"text","value":"1"}},{"type":"tool-result","toolCallId":"d","toolName":"f","output":{"type":"text","value":"2"}}]}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "gemini",
            vec![
                r#"{"role":"user","parts":[{"text":"u"}]}"#,
                r#"{"role":"model","parts":[{"functionCall":{"id":"c","name":"f","args":{}}},{"functionCall":{"id":"d","name":"f","args":{}}}]}"#,
                r#"{"role":"user","parts":[{"functionResponse":{"id":"c","name":"f","response":{}}},{"functionResponse":{"id":"d","name":"f","response":{}}}]}"#,
                r#"{"role":"model","parts":[{"text":"done"}]}"#,
            ],
        ),
        (
            "bedrock",
            vec![
                r#"{"role":"user","content":[{"text":"u"}]}"#,
                r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}},{"toolUse":{"toolUseId":"d","name":"f","input":{}}}]}"#,
                r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"1"}]}},{"toolResult":{"toolUseId":"d","content":[{"text":"2"}]}}]}"#,
                r#"{"role":"assistant","content":[{"text":"done"}]}"#,
            ],
        ),
        (
            "ai sdk",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"f","input":{}},{"type":"tool-call","toolCallId":"d","toolName":"f","input":{}}]}"#,
                r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"f","output":{"type":"text","value":"1"}}]}"#,
                r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"d","toolName":"f","output":{"type":"text","value":"2"}}]}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
        (
            "openai responses",
            vec![
                r#"{"role":"user","content":"u"}"#,
                r#"{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#,
                r#"{"type":"function_call","call_id":"d","name":"f","arguments":"{}"}"#,
                r#"{"type":"function_call_output","call_id":"c","output":"1"}"#,
                r#"{"type":"function_call_output","call_id":"d","output":"2"}"#,
                r#"{"role":"assistant","content":"done"}"#,
            ],
        ),
    ]
}

/// Every result answers a call that is shown, each call once, and nothing stands between them.
fn check_as_a_provider(messages: &[Message], what: &str) {
    let mut open: Vec<Option<String>> = Vec::new();
    for message in messages {
        let json = &message.json;
        let events = NewContextEvent::of_message(json.clone(), &EventOptions::default()).unwrap();
        let is_item = json.as_str().contains("\"function_call\"");
        match events[0].kind {
            ContextEventKind::ToolResult => {
                for mark in &events[0].meta.tools {
                    let place = open.iter().position(|id| *id == mark.tool_call_id);
                    let place = place.unwrap_or_else(|| panic!("{what}: no call for {json:?}"));
                    open.remove(place);
                }
            }
            _ => assert!(
                // Items of one answer may stand between its calls and their results, also one that is redacted.
                open.is_empty()
                    || is_item
                    || (what.starts_with("openai responses")
                        && json.as_str().contains("assistant")),
                "{what}: {json:?} stands before the results of {open:?}"
            ),
        }
        let calls = message::tool_calls_of(json).unwrap();
        open.extend(calls.into_iter().map(|call| call.id));
    }
    assert!(open.is_empty(), "{what}: {open:?} have no result");
}

#[test]
fn a_provider_takes_a_context_whatever_of_it_is_redacted() {
    for (form, context) in answered_in_each_form() {
        let whole = stored(&context);
        for mask in 1_u32..1 << whole.len() {
            let mut events = whole.clone();
            let places: Vec<usize> = (0..whole.len())
                .filter(|place| mask & (1 << place) != 0)
                .collect();
            let redacted: Vec<u64> = places
                .iter()
                .map(|place| whole[*place].sequence_number)
                .collect();
            redacted.iter().for_each(|at| redact(&mut events, *at));
            let what = format!("{form}, {redacted:?} redacted");
            let folded = messages(&events).unwrap();
            check_as_a_provider(&folded, &what);
            assert_eq!(dangling_tool_calls(&events).unwrap(), [], "{what}");
            let text = format!("{:?}", texts(&folded[1..]));
            match form {
                "gemini" if !redacted.contains(&1) => {
                    assert!(!text.contains("content"), "{what}: {text}");
                }
                "bedrock" if !redacted.contains(&1) => {
                    assert!(
                        !text.contains(r#"\"content\":\"[redacted]"#),
                        "{what}: {text}"
                    );
                }
                "anthropic, results apart" => {
                    assert!(!text.contains("tool_call_id"), "{what}: {text}");
                }
                _ if form.contains("what the user says") && !redacted.contains(&5) => {
                    assert!(text.contains("and this"), "{what}: {text}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_call_whose_message_is_redacted_does_not_dangle() {
    for (form, context) in answered_in_each_form() {
        let mut events = stored(&context[..2]);
        let at = events
            .iter()
            .find(|event| event.event_type == ContextEventKind::AssistantMessage)
            .unwrap()
            .sequence_number;
        redact(&mut events, at);
        assert_eq!(dangling_tool_calls(&events).unwrap(), [], "{form}");
        check_as_a_provider(&messages(&events).unwrap(), form);
    }
}
