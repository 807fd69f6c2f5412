use proptest::prelude::*;
use runlog_log::{Kind, Position, Record, Sequence, StreamId};
use runlog_model::{ContextEventKind, RawJson};

use super::*;

fn read(text: &str) -> Transcript {
    parse(text.as_bytes(), Options::default()).expect("the source is readable")
}

fn kinds(transcript: &Transcript) -> Vec<Option<ContextEventKind>> {
    transcript
        .entries
        .iter()
        .map(|entry| entry.events.first().map(|event| event.kind))
        .collect()
}

fn strict() -> Options {
    Options {
        strict: true,
        ..Options::default()
    }
}

const CLAUDE: &str = r#"{"type":"user","sessionId":"s","uuid":"1","timestamp":"2025-06-14T10:00:00Z","message":{"role":"user","content":"hi"}}"#;

#[test]
fn the_format_is_told_by_the_first_line_that_says_it() {
    for (text, expected) in [
        (r#"{"runlog":"session"}"#, Format::Runlog),
        (r#"{"messages":[]}"#, Format::OpenAi),
        (r#"{"role":"user","content":"hi"}"#, Format::OpenAi),
        (
            r#"{"time":1,"message":{"role":"user","content":"hi"}}"#,
            Format::OpenAi,
        ),
        (r#"[{"role":"user","content":"hi"}]"#, Format::OpenAi),
        (
            r#"[{"task_id":1,"traj":[{"role":"user","content":"hi"}]}]"#,
            Format::OpenAi,
        ),
        ("{\n \"messages\": [\n ]\n}", Format::OpenAi),
        ("\u{feff}{\"history\":[]}", Format::SweAgent),
        ("{\n  \"trajectory\": [],\n  \"broken", Format::SweAgent),
        (
            "\n\n42\n[1]\n{\"silly\":1}\n{\"type\":\"summary\",\"leafUuid\":\"x\"}\n",
            Format::ClaudeCode,
        ),
        (CLAUDE, Format::ClaudeCode),
    ] {
        assert_eq!(detect(text.as_bytes()).unwrap(), expected, "{text}");
        assert_eq!(
            parse(text.as_bytes(), Options::default()).unwrap().format,
            expected,
            "{text}"
        );
    }
}

#[test]
fn what_is_no_transcript_is_refused_by_name() {
    for (text, message) in [
        ("", "it is empty"),
        (" \n\n", "it is empty"),
        ("name,role\nann,user\n", "begins with `name,role`"),
        ("42\n", "begins with `42"),
        ("{\"a\":", "begins with `{\"a\":"),
        (
            "{\n  \"name\": \"x\",\n  \"version\": 1\n}\n",
            "begins with `{ \"name\": \"x\", \"version\": 1 }`",
        ),
        ("\u{0}\u{1}", "not text"),
        ("{\u{0}\"\u{0}r\u{0}", "not text"),
    ] {
        let error = detect(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(message), "{text:?}: {error}");
        let error = parse(text.as_bytes(), Options::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{text:?}: {error}");
    }
    let packed = detect(b"\x1f\x8b\x08\0\0\0\0\0\0\x03").unwrap_err();
    assert!(
        packed.to_string().contains("compressed by gzip"),
        "{packed}"
    );
    let latin = b"{\"role\":\"user\",\"content\":\"caf\xe9\"}\n";
    for error in [
        detect(latin).unwrap_err(),
        parse(latin, Options::default()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("byte 30"), "{error}");
    }
}

#[test]
fn an_array_may_have_an_element_a_line() {
    let (user, assistant) = (
        r#"{"role":"user","content":"hi"}"#,
        r#"{"role":"assistant","content":"yo"}"#,
    );
    for text in [
        format!("[\n{user},\n{assistant}\n]\n"),
        format!("[{user},\n{assistant}\n]\n"),
        format!("{{\"messages\":[\n{user},\n{assistant}\n]}}\n"),
        format!("{{\"messages\":[{user},\r\n{assistant}\r\n]}}\r\n"),
        format!("{{\"messages\":\n[{user},\n{assistant}]}}"),
    ] {
        let transcript = parse(text.as_bytes(), strict()).unwrap();
        assert_eq!(transcript.entries.len(), 2, "{text}");
        assert_eq!(detect(text.as_bytes()).unwrap(), Format::OpenAi, "{text}");
    }
    let one = read(&format!("[\n{user}\n]\n"));
    assert_eq!((one.entries.len(), one.issues.len()), (1, 0));
    // A line that breaks off in a string is damaged, whatever it ends with.
    let damaged = format!("{{\"role\":\"user\",\"content\":\"well,\n{assistant}\n");
    let damaged = read(&damaged);
    assert_eq!((damaged.entries.len(), damaged.issues.len()), (1, 1));
}

#[test]
fn a_malformed_line_is_told_with_its_place_and_the_rest_goes_on() {
    let text = format!("{CLAUDE}\n  {{\"type\":\"user\",\"sess\n{{\"a\":tru}}\n{CLAUDE}\n");
    let transcript = read(&text);
    assert_eq!(transcript.entries.len(), 2);
    let places: Vec<_> = transcript
        .issues
        .iter()
        .map(|issue| (issue.line, issue.column, issue.severity))
        .collect();
    assert_eq!(places, [(2, 22, Severity::Error), (3, 9, Severity::Error)]);
    assert!(
        transcript.issues[0].what.contains("breaks off"),
        "{:?}",
        transcript.issues[0]
    );
    assert!(!transcript.is_complete());

    let error = parse(text.as_bytes(), strict()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("line 2, column 22: the JSON breaks off"),
        "{error}"
    );
}

#[test]
fn text_that_is_not_utf8_is_a_malformed_line() {
    let mut text = format!("{CLAUDE}\n").into_bytes();
    text.extend_from_slice(b"{\"type\":\"\xff\"}\n");
    let transcript = parse(&text, Options::default()).unwrap();
    assert_eq!(transcript.entries.len(), 1);
    assert_eq!(
        (transcript.issues[0].line, transcript.issues[0].column),
        (2, 10)
    );
}

#[test]
fn a_line_that_is_no_message_is_kept_with_a_warning() {
    let lines = [
        CLAUDE,
        r#"{"type":"user","sessionId":"s","message":{"role":"user","contenst":[]}}"#,
        r#"{"type":"user","sessionId":"s","message":"error"}"#,
        "42",
        r#"{"silly":"this"}"#,
        r#"{"type":"user","sessionId":"s","message":{"role":"user","content":["text"]}}"#,
        r#"{"type":"assistant","sessionId":"s","message":{"role":"assistant","content":[{"type":"tool_use"}]}}"#,
    ];
    let transcript = read(&lines.join("\n"));
    let message = Some(ContextEventKind::UserMessage);
    assert_eq!(
        kinds(&transcript),
        [message, None, None, None, None, message, None]
    );
    assert_eq!(
        transcript
            .issues
            .iter()
            .map(|issue| issue.line)
            .collect::<Vec<_>>(),
        [2, 3, 4, 5, 6, 7]
    );
    assert!(transcript.is_complete());
    for (entry, line) in transcript.entries.iter().zip(lines) {
        assert_eq!(
            render::line(entry.envelope.as_ref(), &entry.raw),
            line.as_bytes()
        );
    }
    let error = parse(lines.join("\n").as_bytes(), strict())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("line 2, column 42: the message has no `content`"),
        "{error}"
    );
}

#[test]
fn lines_before_the_first_session_belong_to_it() {
    let transcript = read(&format!(
        "{{\"type\":\"summary\",\"leafUuid\":\"x\"}}\n{CLAUDE}"
    ));
    assert_eq!(transcript.sessions.len(), 1);
    assert_eq!(
        kinds(&transcript),
        [None, Some(ContextEventKind::UserMessage)]
    );
}

#[test]
fn a_file_without_any_session_is_called_after_its_source() {
    let options = Options {
        name: Some("notes".to_owned()),
        ..Options::default()
    };
    let transcript = parse(br#"{"type":"summary","leafUuid":"x"}"#, options).unwrap();
    assert_eq!(transcript.sessions[0].name.as_deref(), Some("notes"));
    assert_eq!(transcript.entries.len(), 1);
}

#[test]
fn sub_agents_are_told_apart_by_their_id_or_their_chain() {
    let line = |uuid: &str, extra: &str, text: &str| {
        format!(
            r#"{{"type":"user","sessionId":"s","uuid":"{uuid}",{extra},"message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    let task = r#"{"type":"assistant","sessionId":"s","uuid":"t","message":{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"Task","input":{"prompt":"find it","subagent_type":"finder"}}]}}"#;
    let text = [
        line("m", r#""isSidechain":false"#, "go"),
        task.to_owned(),
        line("a", r#""isSidechain":true,"parentUuid":null"#, "find it"),
        line("b", r#""isSidechain":true,"parentUuid":null"#, "other"),
        line("a2", r#""isSidechain":true,"parentUuid":"a""#, "more"),
        line("b2", r#""isSidechain":true,"parentUuid":"b""#, "more"),
        line(
            "c",
            r#""isSidechain":true,"parentUuid":null,"agentId":"7f""#,
            "by id",
        ),
        line(
            "c2",
            r#""isSidechain":true,"parentUuid":"zz","agentId":"7f""#,
            "by id",
        ),
    ]
    .join("\n");
    let transcript = read(&text);
    let agents: Vec<_> = transcript
        .instances
        .iter()
        .map(|it| (it.agent.as_str(), it.parent))
        .collect();
    assert_eq!(
        agents,
        [
            ("claude-code", None),
            ("finder", Some(0)),
            ("sub-agent", Some(0)),
            ("sub-agent 7f", Some(0))
        ]
    );
    let instances: Vec<_> = transcript
        .entries
        .iter()
        .map(|entry| entry.instance)
        .collect();
    assert_eq!(instances, [0, 0, 1, 2, 1, 2, 3, 3]);
}

#[test]
fn tool_calls_keep_id_name_and_argument_string() {
    let arguments = r#"{"b": 1.0,  "a":"\u00e9\n"}"#;
    let quoted = serde_json::to_string(arguments).unwrap();
    let python = format!(
        r"[{{'function': {{'arguments': '{}', 'name': 'f'}}, 'id': 'c'}}]",
        arguments.replace('\\', "\\\\")
    );
    let python = serde_json::to_string(&python).unwrap();
    for (text, expected) in [
        (
            format!(
                r#"{{"role":"assistant","tool_calls":[{{"id":"c","function":{{"name":"f","arguments":{quoted}}}}}]}}"#
            ),
            quoted.as_str(),
        ),
        (
            format!(
                r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"c","name":"f","input":{arguments}}}]}}"#
            ),
            arguments,
        ),
        (
            format!(
                r#"{{"history":[{{"role":"assistant","content":"x","tool_calls":{python}}}]}}"#
            ),
            quoted.as_str(),
        ),
    ] {
        let transcript = read(&text);
        let calls: Vec<_> = transcript.entries[0].tool_calls().collect();
        assert_eq!(calls.len(), 1, "{text}");
        assert_eq!(
            (calls[0].id.as_deref(), calls[0].name.as_str()),
            (Some("c"), "f")
        );
        assert_eq!(calls[0].arguments_text(), arguments, "{text}");
        if !text.contains("history") {
            assert_eq!(calls[0].arguments, expected);
        }
    }
}

#[test]
fn messages_are_read_in_the_form_of_every_provider() {
    use ContextEventKind::{AssistantMessage, ToolCall, ToolResult, UserMessage};
    let forms = [
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"ls","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[]}}]}]}"#,
        r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","toolPlan":"I look.","toolCalls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]},{"role":"tool","toolCallId":"c","content":"x"}]}"#,
        r#"{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{}}}]}]}"#,
        r#"{"messages":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}"#,
    ];
    for text in forms {
        let transcript = read(text);
        assert_eq!(transcript.issues, [], "{text}");
        let found: Vec<_> = transcript
            .entries
            .iter()
            .flat_map(|entry| entry.events.iter().map(|event| event.kind))
            .collect();
        assert_eq!(
            found,
            [UserMessage, AssistantMessage, ToolCall, ToolResult],
            "{text}"
        );
    }
    // Messages of an interface, which no provider takes, are kept as before.
    let of_interface = r#"{"messages":[{"role":"user","parts":[{"type":"text","text":"hi"}]}]}"#;
    let transcript = read(of_interface);
    assert!(transcript.entries[0].events.is_empty());
    assert!(transcript.issues[0].what.contains("no `content`"));
}

#[test]
fn several_results_in_one_message_are_all_read() {
    let text = r#"{"type":"user","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"},{"type":"tool_result","tool_use_id":"b","is_error":true},{"type":"text","text":"go on"}]}}"#;
    let transcript = read(text);
    assert_eq!(kinds(&transcript), [Some(ContextEventKind::ToolResult)]);
    let marks = &transcript.entries[0].events[0].meta.tools;
    assert_eq!(marks.len(), 2);
    assert_eq!(
        (marks[1].tool_call_id.as_deref(), marks[1].is_error),
        (Some("b"), true)
    );
}

#[test]
fn a_run_is_called_by_its_own_id_or_by_the_source_and_its_place() {
    let options = || Options {
        name: Some("base".to_owned()),
        ..Options::default()
    };
    let names = |text: &str| -> Vec<_> {
        parse(text.as_bytes(), options())
            .unwrap()
            .sessions
            .into_iter()
            .filter_map(|it| it.name)
            .collect()
    };
    assert_eq!(names(r#"{"messages":[]}"#), ["base"]);
    assert_eq!(
        names("{\"messages\":[]}\n{\"messages\":[]}"),
        ["base", "base/2"]
    );
    assert_eq!(
        names("{\"task_id\":4,\"messages\":[]}\n{\"task_id\":4,\"trial\":1,\"messages\":[]}"),
        ["base/4", "base/4.1"]
    );
    assert_eq!(names(r#"{"id":"run-9","messages":[]}"#), ["run-9"]);
    assert_eq!(names(r#"{"role":"user","content":""}"#), ["base"]);
}

#[test]
fn a_run_comes_back_byte_for_byte_with_what_stood_around_it() {
    for text in [
        r#"{"task_id": 0, "messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "reward": 0.50}"#,
        r#"{"messages":[ {"role":"user","content":"a"} ,42,{"role":"user","content":"b"}]}"#,
        r#"{"messages":[]}"#,
        r#"{"messages":[{"role":"user","content":"gone"}],"messages":[{"role":"user","content":"kept"}]}"#,
        r#"[{"role":"user","content":"a"}]"#,
    ] {
        let transcript = read(text);
        let messages: Vec<_> = transcript
            .entries
            .iter()
            .map(|entry| entry.raw.clone())
            .collect();
        let back = render::run(transcript.sessions[0].wrapper.as_ref(), &messages);
        assert_eq!(String::from_utf8(back).unwrap(), text);
    }
}

#[test]
fn a_run_that_grew_or_shrank_is_still_one_value() {
    let transcript = read(
        r#"{"messages": [{"role": "user", "content": "a"},  {"role": "user", "content": "b"}], "reward": 1}"#,
    );
    let wrapper = transcript.sessions[0].wrapper.as_ref();
    let message = |text: &str| RawJson::parse(text.to_owned()).unwrap();
    let run = |messages: &[RawJson]| String::from_utf8(render::run(wrapper, messages)).unwrap();
    assert_eq!(
        run(&[message("1"), message("2"), message("3")]),
        r#"{"messages": [1,  2,  3], "reward": 1}"#
    );
    assert_eq!(run(&[message("1")]), r#"{"messages": [1], "reward": 1}"#);
    assert_eq!(run(&[]), r#"{"messages": [], "reward": 1}"#);
    assert_eq!(
        render::run(None, &[message("1"), message("2")]),
        br#"{"messages": [1, 2]}"#
    );
}

#[test]
fn a_line_of_the_longest_length_is_read_and_a_longer_one_is_told() {
    let fits = r#"{"role":"user","content":"1"}"#;
    let options = Options {
        line_bytes_max: fits.len(),
        ..Options::default()
    };
    let text = format!("{fits}\n{fits} \n{fits}");
    for piece_bytes in [1, 7, 1000] {
        let mut parser = Parser::new(options.clone());
        let mut items = Vec::new();
        for piece in text.as_bytes().chunks(piece_bytes) {
            items.extend(parser.push(piece).unwrap());
        }
        items.extend(parser.finish().unwrap().1);
        assert_eq!(
            items
                .iter()
                .filter(|item| matches!(item, Item::Entry(_)))
                .count(),
            2
        );
        let issue = items.iter().find_map(|item| match item {
            Item::Issue(issue) => Some(issue),
            _ => None,
        });
        assert_eq!(
            issue.map(|issue| (issue.line, issue.column, issue.severity)),
            Some((2, 30, Severity::Error))
        );
    }
    let document = format!("{{\n\"messages\": [\n{}1]}}", "1,\n".repeat(20));
    let error = parse(document.as_bytes(), options).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::TooLarge);
}

#[test]
fn nesting_of_any_depth_is_no_crash() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for text in [
        format!(r#"{{"role":"user","content":{deep}}}"#),
        format!(r#"{{"messages":[{deep}]}}"#),
        format!(r#"[{{"messages":[]}},{deep}]"#),
        format!(r#"{{"history":{deep}}}"#),
        format!(r#"{{"runlog":"session","version":1,"session":{deep}}}"#),
        format!("{CLAUDE}\n{deep}"),
        "{\"role\":".repeat(200_000),
    ] {
        let _ = parse(text.as_bytes(), Options::default());
    }
}

/// What an own export of a transcript looks like, made as a store would.
fn own_export(transcript: &Transcript) -> Vec<u8> {
    let uuid = |class: u64, number: usize| uuid::Uuid::from_u64_pair(class, number as u64);
    let mut lines = Vec::new();
    for session in &transcript.sessions {
        let id = session.id.unwrap_or_else(|| uuid(1, session.number));
        let fields = session.record.clone().unwrap_or_else(|| {
            let json = serde_json::json!({"id": id, "name": session.name, "created_at_ms": 5, "updated_at_ms": 6});
            serde_json::from_value(json).unwrap()
        });
        lines.extend(runlog_lines::session_line(
            &fields,
            Some(session.format),
            session.wrapper.as_ref(),
        ));
        let mut last_of = std::collections::HashMap::<usize, u64>::new();
        for instance in transcript
            .instances
            .iter()
            .filter(|it| it.session == session.number)
        {
            let id_of = |number: usize| {
                transcript.instances[number]
                    .id
                    .unwrap_or_else(|| uuid(2, number))
            };
            let json = serde_json::json!({
                "id": id_of(instance.number), "session_id": id, "agent_name": instance.agent,
                "parent_instance_id": instance.parent.map(id_of), "created_at_ms": 5,
            });
            lines.extend(runlog_lines::instance_line(
                &serde_json::from_value(json).unwrap(),
            ));
        }
        let mut entries = 0;
        for entry in transcript.entries_of(session.number) {
            let instance = &transcript.instances[entry.instance];
            let instance_id =
                runlog_model::InstanceId(instance.id.unwrap_or_else(|| uuid(2, instance.number)));
            if entry.events.is_empty() {
                entries += 1;
                lines.extend(runlog_lines::other_line(instance_id, &entry.raw));
            }
            for event in &entry.events {
                entries += 1;
                let sequence = last_of.entry(instance.number).or_default();
                *sequence += 1;
                let meta = event.encode_meta().unwrap();
                let stored = Record {
                    stream: StreamId(instance_id.as_uuid()),
                    position: Position(1),
                    sequence: Sequence(*sequence),
                    time_ms: 7,
                    kind: Kind(event.kind.byte()),
                    redacted: false,
                    lost: false,
                    meta: meta.into(),
                    payload: event.content.clone().into_bytes(),
                };
                let envelope = entry.envelope.as_ref().filter(|_| event.kind.is_message());
                let event = runlog_model::ContextEvent::decode(instance_id, &stored).unwrap();
                lines.extend(runlog_lines::event_line(&event, envelope));
            }
        }
        lines.extend(runlog_lines::end_line(runlog_model::SessionId(id), entries));
    }
    lines
}

#[test]
fn an_own_export_read_and_written_again_is_equal() {
    let sources = [
        include_str!("../../../../cli/tests/fixtures/openai-runs.jsonl"),
        include_str!("../../../../cli/tests/fixtures/openai-messages.jsonl"),
        include_str!("../../../../cli/tests/fixtures/claude-code.jsonl"),
        include_str!("../../../../cli/tests/fixtures/claude-code-odd.jsonl"),
        include_str!("../../../../cli/tests/fixtures/swe-agent.traj"),
    ];
    for source in sources {
        let first = read(source);
        let export = own_export(&first);
        let second = parse(&export, strict()).unwrap();
        assert_eq!(second.format, Format::Runlog);
        assert_eq!(
            String::from_utf8(own_export(&second)).unwrap(),
            String::from_utf8(export).unwrap()
        );
        let events = |transcript: &Transcript| -> Vec<_> {
            transcript
                .entries
                .iter()
                .flat_map(|it| it.events.iter().map(|it| (it.kind, it.content.clone())))
                .collect()
        };
        assert_eq!(events(&first), events(&second));
    }
}

#[test]
fn an_own_export_that_broke_off_is_told() {
    let export = own_export(&read(CLAUDE));
    let lines: Vec<&[u8]> = export.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 4);
    let without_end = parse(&lines[..3].concat(), Options::default()).unwrap();
    assert!(
        without_end.issues[0].what.contains("has no end"),
        "{:?}",
        without_end.issues
    );
    let without_event =
        parse(&[lines[0], lines[1], lines[3]].concat(), Options::default()).unwrap();
    assert!(
        without_event.issues[0]
            .what
            .contains("should have 1 entries, but 0"),
        "{:?}",
        without_event.issues
    );
    let newer = String::from_utf8(export.clone())
        .unwrap()
        .replace("\"version\":1", "\"version\":2");
    assert!(
        parse(newer.as_bytes(), strict())
            .unwrap_err()
            .to_string()
            .contains("use a newer runlog")
    );
}

/// Text that gets past the first look: lines of pieces of real ones.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(r#"{"type":"user","sessionId":"s","uuid":"u","message":"#.to_owned()),
        Just(r#"{"messages":["#.to_owned()),
        Just(r#"{"history":["#.to_owned()),
        Just(r#"{"runlog":"event","instance_id":""#.to_owned()),
        Just(r#"{"role":"assistant","content":"#.to_owned()),
        Just(r#""tool_calls":[{"id":"x","function":{"name":"f","arguments":"{}"}}]"#.to_owned()),
        Just(r#"{"type":"tool_use","id":"x","name":"f","input":{}}"#.to_owned()),
        Just(r#""isSidechain":true,"parentUuid":"u""#.to_owned()),
        Just("[".to_owned()),
        Just("]".to_owned()),
        Just("}".to_owned()),
        Just("null".to_owned()),
        Just(",".to_owned()),
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\"\\ud800\"".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat().into_bytes())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = detect(&bytes);
        let _ = parse(&bytes, Options::default());
        for format in Format::ALL {
            let _ = parse(&bytes, Options { format: Some(format), ..Options::default() });
        }
    }

    #[test]
    fn no_text_makes_it_panic_and_pieces_change_nothing(bytes in plausible(), piece_bytes in 1_usize..64) {
        let whole = parse(&bytes, Options::default());
        let mut parser = Parser::new(Options::default());
        let mut items = Vec::new();
        let mut failed = None;
        for piece in bytes.chunks(piece_bytes) {
            match parser.push(piece) {
                Ok(more) => items.extend(more),
                Err(error) => { failed = Some(error); break; }
            }
        }
        match (whole, failed) {
            (Ok(whole), None) => {
                items.extend(parser.finish().expect("the whole was readable").1);
                let entries: Vec<_> = items.into_iter().filter_map(|item| match item {
                    Item::Entry(entry) => Some(entry),
                    _ => None,
                }).collect();
                prop_assert_eq!(entries, whole.entries);
            }
            (Err(whole), Some(error)) => prop_assert_eq!(whole.to_string(), error.to_string()),
            (Err(_), None) => prop_assert!(parser.finish().is_err()),
            (Ok(_), Some(error)) => prop_assert!(false, "in pieces: {}", error),
        }
        for format in Format::ALL {
            let _ = parse(&bytes, Options { format: Some(format), ..Options::default() });
        }
    }
}

#[test]
fn a_source_whose_lines_are_all_too_long_is_not_told_as_empty() {
    let options = Options {
        line_bytes_max: 8,
        ..Options::default()
    };
    let refused = parse(br#"{"role":"user","content":"hi"}"#, options).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::TooLarge);
    assert!(refused.to_string().contains("too long"), "{refused}");
}

#[test]
fn a_trajectory_without_messages_is_rendered_as_it_was() {
    let text = r#"{"trajectory": [{"action": "ls"}], "info": {"exit_status": "submitted"}}"#;
    let transcript = read(text);
    let wrapper = transcript.sessions[0].wrapper.as_ref();
    assert_eq!(render::run(wrapper, &[]), text.as_bytes());
    // What was said since is put where such files have it.
    let said = RawJson::parse(r#"{"role":"user","content":"go on"}"#).unwrap();
    let added = String::from_utf8(render::run(wrapper, std::slice::from_ref(&said))).unwrap();
    let history = format!(r#"{{"history": [{said}], "#);
    assert_eq!(added, text.replacen('{', &history, 1));
    assert_eq!(read(&added).entries.len(), 1);
    let empty = RawJson::parse("{}").unwrap();
    let added = render::run(Some(&empty), &[said]);
    assert_eq!(
        added,
        br#"{"messages": [{"role":"user","content":"go on"}]}"#
    );
}
