//! Runs whose messages are in the form of Amazon Bedrock's Converse, or have OpenAI's fields in camelCase.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson,
    blocking::{RunRecorder, Store},
    log::{Batch, Op, Position},
    runs::{Continuation, Dangling, ListToolCalls, ResumeOptions, ToolCallStatus, ToolOutcome},
};

both! {
    what_a_tool_gives_is_said_as_bedrock_takes_it_and_listed_as_it_was_given
    results_of_one_turn_stand_in_one_message_of_bedrocks
    what_was_cut_off_is_closed_and_told_to_continue_in_its_own_form
    bedrock_gets_no_second_message_of_the_user_where_the_model_was_not_asked_yet
    results_that_the_caller_writes_answer_their_calls
    what_is_malformed_is_refused_with_what_is_wrong
    a_result_without_an_id_answers_no_call_that_has_one
    results_recorded_together_are_one_batch_and_one_message_where_the_provider_wants_that
    results_of_calls_without_an_id_name_their_tool
    what_was_redacted_is_in_the_form_of_the_context_and_a_resume_goes_on_in_it
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

const BEDROCK: &str = r#"{"role":"assistant","content":[{"text":"I look."},{"toolUse":{"toolUseId":"c","name":"ls","input":{"p":"/"}}},{"toolUse":{"toolUseId":"d","name":"rm","input":{}}}]}"#;
const ONE_OF_BEDROCK: &str =
    r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"ls","input":{}}}]}"#;
const CAMEL: &str = r#"{"role":"assistant","content":"","toolCalls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#;

fn started(store: &Store) -> RunRecorder {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    run.record_message(NewMessage::user("list it")).unwrap();
    run
}

/// The messages of a run's context from one on.
fn messages(store: &Store, run: &RunRecorder, from: usize) -> Vec<String> {
    let context = store.context(run.run().instance_id).unwrap();
    let messages = context.get_messages().unwrap();
    messages[from..]
        .iter()
        .map(|message| message.json.as_str().to_owned())
        .collect()
}

/// What the history tells of a run's calls: tool, status, output.
fn told(store: &Store, run: &RunRecorder) -> Vec<(String, ToolCallStatus, Option<String>)> {
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .unwrap();
    let output = |output: RawJson| output.as_str().to_owned();
    calls
        .items
        .into_iter()
        .map(|call| (call.tool_name, call.status, call.output.map(output)))
        .collect()
}

fn what_a_tool_gives_is_said_as_bedrock_takes_it_and_listed_as_it_was_given(store: &Store) {
    let image = r#"[{"image":{"format":"png","source":{}}},{"text":"b"}]"#;
    for (given, said) in [
        (r#""text""#, r#"[{"text":"text"}]"#),
        (r#"{"n":1}"#, r#"[{"json":{"n":1}}]"#),
        (r#"[{"row":1}]"#, r#"[{"text":"[{\"row\":1}]"}]"#),
        ("5", r#"[{"text":"5"}]"#),
        ("null", r#"[{"text":"null"}]"#),
        (r#"[{"text":5}]"#, r#"[{"text":"[{\"text\":5}]"}]"#),
        ("[]", r#"[{"text":"[]"}]"#),
        (image, image),
    ] {
        let run = started(store);
        run.record_raw_message(raw(ONE_OF_BEDROCK)).unwrap();
        run.record_tool_result(&ToolOutcome::completed("c", raw(given)).took_ms(7))
            .unwrap();
        let answer = format!(
            r#"{{"role":"user","content":[{{"toolResult":{{"toolUseId":"c","content":{said},"status":"success"}}}}]}}"#
        );
        assert_eq!(messages(store, &run, 2), [answer]);
        let told = told(store, &run);
        let expected = (ToolCallStatus::Completed, Some(given.to_owned()));
        assert_eq!((told[0].1, told[0].2.clone()), expected);
    }
}

fn results_of_one_turn_stand_in_one_message_of_bedrocks(store: &Store) {
    let run = started(store);
    let outcomes = [
        ToolOutcome::completed("c", RawJson::string("a.txt")),
        ToolOutcome::error("d", raw("[1]")),
    ];
    run.record_tool_call(raw(BEDROCK), &outcomes).unwrap();
    assert_eq!(
        messages(store, &run, 2),
        [
            r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"a.txt"}],"status":"success"}},{"toolResult":{"toolUseId":"d","content":[{"text":"[1]"}],"status":"error"}}]}"#
        ]
    );
    assert_eq!(
        told(store, &run),
        [
            (
                "ls".to_owned(),
                ToolCallStatus::Completed,
                Some("\"a.txt\"".to_owned())
            ),
            (
                "rm".to_owned(),
                ToolCallStatus::Error,
                Some("[1]".to_owned())
            ),
        ]
    );
}

fn what_was_cut_off_is_closed_and_told_to_continue_in_its_own_form(store: &Store) {
    let close = || ResumeOptions {
        dangling: Dangling::CloseWith("cut off".to_owned()),
        ..ResumeOptions::default()
    };
    let run = started(store);
    run.record_raw_message(raw(BEDROCK)).unwrap();
    run.pause("stop").unwrap();
    let resumed = store.runs().resume(run.id(), &close()).unwrap();
    let written = messages(store, &resumed.recorder, 2);
    assert_eq!(
        written[0],
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"cut off"}],"status":"error"}},{"toolResult":{"toolUseId":"d","content":[{"text":"cut off"}],"status":"error"}}]}"#
    );
    // The provider takes no two messages of the user's in a row, and the model answers results without being asked to go on.
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(resumed.messages.len(), 3);

    // What the caller wants said is said, in the context's form.
    run_is_told(
        store,
        BEDROCK,
        r#"{"role":"user","content":[{"text":"Now the tests."}]}"#,
    );
    run_is_told(
        store,
        CAMEL,
        r#"{"role":"user","content":"Now the tests."}"#,
    );

    // One is answered, and the other closed beside it, in the same message.
    let run = started(store);
    run.record_raw_message(raw(BEDROCK)).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::Answer(vec![ToolOutcome::completed("d", raw(r#"{"ok":true}"#))]),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    let written = &messages(store, &resumed.recorder, 2)[0];
    assert!(
        written.contains("interrupted")
            && written.contains(
                r#"{"toolUseId":"d","content":[{"json":{"ok":true}}],"status":"success"}"#
            ),
        "{written}"
    );

    let run = started(store);
    run.record_raw_message(raw(CAMEL)).unwrap();
    run.pause("stop").unwrap();
    let resumed = store.runs().resume(run.id(), &close()).unwrap();
    assert_eq!(
        messages(store, &resumed.recorder, 2),
        [r#"{"role":"tool","toolCallId":"c","content":"cut off"}"#]
    );
    // Behind an answer the user goes on.
    resumed
        .recorder
        .record_raw_message(raw(r#"{"role":"assistant","content":"so far"}"#))
        .unwrap();
    resumed.recorder.pause("stop").unwrap();
    let options = ResumeOptions::default();
    let again = store.runs().resume(resumed.run.id, &options).unwrap();
    let told = &messages(store, &again.recorder, 4)[0];
    assert!(told.contains("Continue your work"), "{told}");
}

fn bedrock_gets_no_second_message_of_the_user_where_the_model_was_not_asked_yet(store: &Store) {
    let asked = raw(r#"{"role":"user","content":[{"text":"Will it rain?"}]}"#);
    let run = NewRun {
        messages: vec![asked.clone()],
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    let run = store.runs().start(run).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions::default();
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    assert_eq!(messages(store, &resumed.recorder, 0), [asked.as_str()]);
}

fn run_is_told(store: &Store, asks: &str, told: &str) {
    let run = started(store);
    run.record_raw_message(raw(asks)).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        message: Continuation::Message(NewMessage::user("Now the tests.")),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    assert_eq!(messages(store, &resumed.recorder, 2).last().unwrap(), told);
}

fn results_that_the_caller_writes_answer_their_calls(store: &Store) {
    let run = started(store);
    run.record_raw_message(raw(CAMEL)).unwrap();
    run.record_raw_message(raw(
        r#"{"role":"tool","name":"ls","content":"a","toolCallId":"c"}"#,
    ))
    .unwrap();
    run.record_raw_message(raw(BEDROCK)).unwrap();
    let early = raw(r#"{"role":"user","content":[{"text":"well?"}]}"#);
    assert!(run.record_raw_message(early).is_err());
    run.record_raw_message(raw(
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"d","content":[{"json":{"n":1}}],"status":"error"}},{"toolResult":{"toolUseId":"c","content":[{"text":"x"},{"text":"y"}]}}]}"#,
    ))
    .unwrap();
    let call =
        |name: &str, status, output: &str| (name.to_owned(), status, Some(output.to_owned()));
    assert_eq!(
        told(store, &run),
        [
            call("ls", ToolCallStatus::Completed, "\"a\""),
            call(
                "ls",
                ToolCallStatus::Completed,
                r#"[{"text":"x"},{"text":"y"}]"#
            ),
            call("rm", ToolCallStatus::Error, r#"{"n":1}"#),
        ]
    );
    // `run.record_tool_result` writes the result of such a call in its form, too.
    run.record_raw_message(raw(&CAMEL.replace("\"c\"", "\"e\"")))
        .unwrap();
    run.record_tool_result(&ToolOutcome::completed("e", raw("5")))
        .unwrap();
    assert_eq!(
        messages(store, &run, 6),
        [r#"{"role":"tool","toolCallId":"e","content":"5"}"#]
    );
    assert_eq!(told(store, &run)[3].2.as_deref(), Some("5"));
}

fn what_is_malformed_is_refused_with_what_is_wrong(store: &Store) {
    let run = started(store);
    for (message, why) in [
        (
            r#"{"role":"assistant","content":[{"toolUse":"f"}]}"#,
            "content[0].toolUse should be an object",
        ),
        (
            r#"{"role":"assistant","content":[{"toolUse":{"name":"f","input":{}}}]}"#,
            "has no toolUseId",
        ),
        (
            r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","input":{}}}]}"#,
            "has no name",
        ),
        (
            r#"{"role":"user","content":[{"toolResult":{"content":[]}}]}"#,
            "has no toolUseId",
        ),
        (
            r#"{"role":"user","content":[{"toolResult":{"toolUseId":"nobody","content":[]}}]}"#,
            "nobody",
        ),
        (
            r#"{"role":"assistant","content":"","toolCalls":[{"id":"c","function":{"name":""}}]}"#,
            "the name of a tool call is empty",
        ),
        (
            r#"{"role":"assistant","content":"","toolCalls":[],"tool_calls":[{"id":"c","function":{"name":"f"}}]}"#,
            "both \"tool_calls\" and \"toolCalls\"",
        ),
        (
            r#"{"role":"user","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]}"#,
            "in an assistant's message",
        ),
        (
            r#"{"role":"user","content":"x","tool_calls":[{"id":"c","function":{"name":"f"}}]}"#,
            "in an assistant's message",
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}"#,
            "a message of the user's behind it",
        ),
        (
            r#"{"role":"tool","content":"x","toolCallId":"nobody"}"#,
            "nobody",
        ),
    ] {
        let error = run.record_raw_message(raw(message)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{message}: {error}");
        assert!(error.to_string().contains(why), "{message}: {error}");
    }
    // A text that speaks of the name is no call.
    run.record_raw_message(raw(
        r#"{"role":"assistant","content":[{"type":"text","text":"toolUse","toolUse":7}]}"#,
    ))
    .unwrap();
    assert_eq!(told(store, &run), []);
}

fn a_result_without_an_id_answers_no_call_that_has_one(store: &Store) {
    let run = started(store);
    let refused = |answer: &str, why: &str| {
        let error = run.record_raw_message(raw(answer)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(r#"{"role":"tool","content":"a"}"#, "no tool call is open");
    run.record_raw_message(raw(CAMEL)).unwrap();
    for answer in [
        r#"{"role":"tool","content":"a"}"#,
        r#"{"role":"tool","content":"a","tool_call_id":null}"#,
        r#"{"role":"function","name":"ls","content":"a"}"#,
    ] {
        refused(answer, "these calls are open: c (ls); name the call");
    }
    run.record_tool_result(&ToolOutcome::completed("c", RawJson::string("a")))
        .unwrap();
    // Where a provider gives no ids, its results have none.
    let ask = r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"ls","arguments":{}}}]}"#;
    run.record_raw_message(raw(ask)).unwrap();
    run.record_raw_message(raw(r#"{"role":"tool","tool_name":"ls","content":"b"}"#))
        .unwrap();
    refused(r#"{"role":"tool","content":"c"}"#, "no tool call is open");
    // A text in front of Bedrock's results is refused, as it is in front of Anthropic's.
    run.record_raw_message(raw(ONE_OF_BEDROCK)).unwrap();
    refused(
        r#"{"role":"user","content":[{"text":"here"},{"toolResult":{"toolUseId":"c","content":[]}}]}"#,
        "put the results first",
    );
}

fn results_recorded_together_are_one_batch_and_one_message_where_the_provider_wants_that(
    store: &Store,
) {
    let openai = r#"{"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"d","type":"function","function":{"name":"rm","arguments":"{}"}}]}"#;
    let anthropic = r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{}},{"type":"tool_use","id":"d","name":"rm","input":{}}]}"#;
    let gemini = r#"{"role":"model","parts":[{"functionCall":{"id":"c","name":"ls","args":{}}},{"functionCall":{"id":"d","name":"rm","args":{}}}]}"#;
    for (asks, written) in [
        (
            openai,
            &[
                r#"{"role":"tool","tool_call_id":"d","content":"no"}"#,
                r#"{"role":"tool","tool_call_id":"c","content":"[5]"}"#,
            ][..],
        ),
        (
            anthropic,
            &[
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"d","is_error":true,"content":"no"}]}"#,
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"[5]"}]}"#,
            ],
        ),
        (
            gemini,
            &[
                r#"{"role":"user","parts":[{"functionResponse":{"id":"d","name":"rm","response":{"error":"no"}}},{"functionResponse":{"id":"c","name":"ls","response":{"output":[5]}}}]}"#,
            ],
        ),
        (
            BEDROCK,
            &[
                r#"{"role":"user","content":[{"toolResult":{"toolUseId":"d","content":[{"text":"no"}],"status":"error"}},{"toolResult":{"toolUseId":"c","content":[{"text":"[5]"}],"status":"success"}}]}"#,
            ],
        ),
    ] {
        let run = started(store);
        run.record_raw_message(raw(asks)).unwrap();
        let no = ToolOutcome::error("d", RawJson::string("no"));
        let rows = ToolOutcome::completed("c", raw("[5]")).took_ms(7);
        for (outcomes, kind) in [
            (vec![], ErrorKind::InvalidInput),
            (vec![rows.clone(), rows.clone()], ErrorKind::AlreadyExists),
            (
                vec![rows.clone(), ToolOutcome::completed("x", raw("1"))],
                ErrorKind::InvalidInput,
            ),
        ] {
            let error = run.record_tool_results(&outcomes).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        let recorded = run.record_tool_results(&[no, rows.clone()]).unwrap();
        assert_eq!(
            recorded.last_sequence + 1 - recorded.sequence_number,
            written.len() as u64
        );
        assert_eq!(messages(store, &run, 2), written);
        let again = run.record_tool_results(&[rows]).unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
        let calls = store
            .runs()
            .tool_calls(run.id(), &ListToolCalls::default())
            .unwrap();
        let told: Vec<_> = calls
            .items
            .iter()
            .map(|call| {
                let output = call.output.as_ref().map(RawJson::as_str);
                (call.status, output, call.duration_ms)
            })
            .collect();
        assert_eq!(
            told,
            [
                (ToolCallStatus::Completed, Some("[5]"), Some(7)),
                (ToolCallStatus::Error, Some("\"no\""), None),
            ],
            "{asks}"
        );
        run.record_message(NewMessage::user("and?")).unwrap();
    }
}

fn results_of_calls_without_an_id_name_their_tool(store: &Store) {
    let gemini = r#"{"role":"model","parts":[{"functionCall":{"name":"ls","args":{"p":1}}},{"functionCall":{"name":"rm","args":{}}},{"functionCall":{"name":"ls","args":{"p":2}}}]}"#;
    let ls = |text: &str| ToolOutcome::completed("ls", RawJson::string(text));
    let rm = ToolOutcome::completed("rm", RawJson::string("gone"));
    let together = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    together
        .record_tool_call(raw(gemini), &[ls("1"), rm.clone(), ls("2")])
        .unwrap();
    let later = started(store);
    later.record_raw_message(raw(gemini)).unwrap();
    let unknown = later.record_tool_results(&[ls("1"), ls("2"), ls("3")]);
    assert_eq!(unknown.unwrap_err().kind(), ErrorKind::InvalidInput);
    later
        .record_tool_results(&[ls("1"), rm.clone(), ls("2")])
        .unwrap();
    let parts = |text: &str| format!(r#"{{"functionResponse":{{"name":{text}}}}}"#);
    let written = format!(
        r#"{{"role":"user","parts":[{},{},{}]}}"#,
        parts(r#""ls","response":{"output":"1"}"#),
        parts(r#""rm","response":{"output":"gone"}"#),
        parts(r#""ls","response":{"output":"2"}"#)
    );
    assert_eq!(
        messages(store, &together, 1),
        std::slice::from_ref(&written)
    );
    assert_eq!(messages(store, &later, 2), [written]);
    // One at a time, as with OpenAI's form in local servers.
    let openai = r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"ls","arguments":{}}},{"function":{"name":"rm","arguments":{}}}]}"#;
    later.record_raw_message(raw(openai)).unwrap();
    let other = store.runs().recorder(later.id()).unwrap();
    other.record_tool_result(&rm).unwrap();
    assert_eq!(
        other.record_tool_result(&rm).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    later.record_tool_result(&ls("1")).unwrap();
    assert_eq!(
        messages(store, &later, 4),
        [
            r#"{"role":"tool","name":"rm","content":"gone"}"#,
            r#"{"role":"tool","name":"ls","content":"1"}"#
        ]
    );
    later.record_message(NewMessage::user("and?")).unwrap();
    let told_of = |run: &RunRecorder| -> Vec<(String, String)> {
        let of = |(tool, _, output): (String, _, Option<String>)| (tool, output.unwrap());
        told(store, run).into_iter().map(of).collect()
    };
    let pair = |tool: &str, output: &str| (tool.to_owned(), format!("{output:?}"));
    let of_gemini = [pair("ls", "1"), pair("rm", "gone"), pair("ls", "2")];
    assert_eq!(told_of(&together), of_gemini);
    assert_eq!(told_of(&later)[..3], of_gemini);
    assert_eq!(told_of(&later)[3..], [pair("ls", "1"), pair("rm", "gone")]);

    // What a caller writes is told apart by the names of the tools, too.
    let own = started(store);
    own.record_raw_message(raw(gemini)).unwrap();
    let parts = |text: &str| format!(r#"{{"functionResponse":{{"name":{text}}}}}"#);
    let answer = format!(
        r#"{{"role":"user","parts":[{},{},{}]}}"#,
        parts(r#""rm","response":{"output":"gone"}"#),
        parts(r#""ls","response":{"output":"1"}"#),
        parts(r#""ls","response":{"output":"2"}"#)
    );
    own.record_raw_message(raw(&answer)).unwrap();
    assert_eq!(told_of(&own), of_gemini);
    own.record_raw_message(raw(openai)).unwrap();
    own.record_raw_message(raw(r#"{"role":"tool","tool_name":"rm","content":"gone"}"#))
        .unwrap();
    own.pause("stop").unwrap();
    let resumed = store
        .runs()
        .resume(own.id(), &ResumeOptions::default())
        .unwrap();
    let dangling: Vec<&str> = resumed
        .dangling
        .iter()
        .map(|call| call.name.as_str())
        .collect();
    assert_eq!(dangling, ["ls"]);
}

fn what_was_redacted_is_in_the_form_of_the_context_and_a_resume_goes_on_in_it(store: &Store) {
    let ask = r#"{"role":"user","parts":[{"text":"u"}]}"#;
    let call = r#"{"role":"model","parts":[{"functionCall":{"id":"c","name":"ls","args":{}}}]}"#;
    let run = store
        .runs()
        .start(NewRun {
            messages: vec![raw(ask)],
            ..NewRun::in_new_session(NewSession::default(), "coder")
        })
        .unwrap();
    run.record_raw_message(raw(call)).unwrap();
    run.record_tool_result(&ToolOutcome::completed("c", RawJson::string("secret")))
        .unwrap();
    run.pause("stop").unwrap();
    let instance = run.run().instance_id;
    for event in store.contexts().get_events(instance, 1).unwrap() {
        if matches!(event.sequence_number, 1 | 4) {
            let position = Position(event.position);
            let ops = Op::redactions(&[position], "asked for");
            pollster::block_on(store.backend().commit(Batch::new(ops))).unwrap();
        }
    }
    let redacted = r#"{"role":"user","parts":[{"text":"[redacted]"}]}"#;
    let result = r#"{"role":"user","parts":[{"functionResponse":{"id":"c","name":"ls","response":{"output":"[redacted]"}}}]}"#;
    assert_eq!(messages(store, &run, 0), [redacted, call, result]);
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(resumed.dangling, []);
    let told: Vec<&str> = resumed
        .messages
        .iter()
        .map(|message| message.json.as_str())
        .collect();
    assert_eq!(told[..3], [redacted, call, result]);
    assert!(
        told[3].starts_with(r#"{"role":"user","parts":"#),
        "{told:?}"
    );
}
