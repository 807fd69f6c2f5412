//! Runs whose messages are in the form of OpenAI's Responses, or of Gemini's.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson,
    blocking::{RunRecorder, Store},
    contexts::AppendOptions,
    runs::{Continuation, Dangling, ListToolCalls, ResumeOptions, ToolCallStatus, ToolOutcome},
};
use runlog_model::ResultForm;

both! {
    items_of_one_answer_are_recorded_one_by_one_and_answered_behind
    what_a_tool_gives_is_said_as_providers_take_it_and_listed_as_it_was_given
    a_message_between_items_and_their_results_is_refused
    calls_of_responses_that_were_cut_off_are_closed_as_items
    what_responses_call_is_answered_in_their_form
    calls_of_gemini_that_were_cut_off_are_closed_in_one_content
    a_context_in_geminis_form_is_told_to_continue_in_it
    malformed_calls_are_refused_with_what_is_wrong_and_where
    what_gemini_calls_is_answered_in_one_content
    a_call_without_an_id_is_answered_by_the_name_of_its_tool
    a_recorder_that_comes_later_knows_the_calls_of_all_items
    custom_calls_are_answered_in_their_form_and_what_the_provider_did_is_kept
    a_result_in_another_form_than_its_call_is_refused
    results_in_two_forms_in_one_message_are_refused
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn started(store: &Store) -> RunRecorder {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    run.record_message(NewMessage::user("list it")).unwrap();
    run
}

fn call(id: &str) -> RawJson {
    raw(&format!(
        r#"{{"type":"function_call","id":"fc_{id}","call_id":"{id}","name":"ls","arguments":"{{}}"}}"#
    ))
}

const GEMINI: &str = r#"{"role":"model","parts":[{"functionCall":{"name":"ls","args":{}}},{"functionCall":{"id":"g2","name":"rm","args":{}}}]}"#;

/// The messages of a run's context from one on.
fn messages(store: &Store, run: &RunRecorder, from: usize) -> Vec<String> {
    let context = store.context(run.run().instance_id).unwrap();
    let messages = context.get_messages().unwrap();
    messages[from..]
        .iter()
        .map(|message| message.json.as_str().to_owned())
        .collect()
}

fn statuses(store: &Store, run: &RunRecorder) -> Vec<(ToolCallStatus, Option<String>)> {
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .unwrap();
    let told = |output: RawJson| output.as_str().to_owned();
    calls
        .items
        .into_iter()
        .map(|call| (call.status, call.output.map(told)))
        .collect()
}

fn items_of_one_answer_are_recorded_one_by_one_and_answered_behind(store: &Store) {
    let run = started(store);
    let items = [
        raw(r#"{"type":"reasoning","id":"rs_1","summary":[]}"#),
        call("a"),
        raw(r#"{"type":"reasoning","id":"rs_2","summary":[]}"#),
        call("b"),
    ];
    for item in &items {
        run.record_raw_message(item.clone()).unwrap();
    }
    run.record_tool_result(&ToolOutcome::completed("a", raw(r#"{"n":1}"#)).took_ms(7))
        .unwrap();
    run.record_tool_result(&ToolOutcome::error("b", RawJson::string("no")))
        .unwrap();
    assert_eq!(
        messages(store, &run, 5),
        [
            r#"{"type":"function_call_output","call_id":"a","output":"{\"n\":1}"}"#,
            r#"{"type":"function_call_output","call_id":"b","output":"no"}"#
        ]
    );
    assert_eq!(
        messages(store, &run, 1)[..4],
        items.map(|item| item.as_str().to_owned())
    );
    assert_eq!(
        statuses(store, &run),
        [
            (ToolCallStatus::Completed, Some(r#"{"n":1}"#.to_owned())),
            (ToolCallStatus::Error, Some("\"no\"".to_owned()))
        ]
    );
    run.record_raw_message(raw(r#"{"role":"assistant","content":"done"}"#))
        .unwrap();
}

fn custom_calls_are_answered_in_their_form_and_what_the_provider_did_is_kept(store: &Store) {
    let run = started(store);
    let items = [
        r#"{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"oslo"}}"#,
        r#"{"type":"custom_tool_call","id":"ct_1","call_id":"a","name":"sql","input":"select 1"}"#,
        r#"{"type":"mcp_call","id":"mcp_1","name":"roll","server_label":"dice","arguments":"{}","output":"4"}"#,
        r#"{"type":"custom_tool_call","id":"ct_2","call_id":"b","name":"sql","input":"{\"a\": 1}"}"#,
        r#"{"type":"code_interpreter_call","id":"ci_1","code":"1","container_id":"c","outputs":null}"#,
        r#"{"type":"function_call","id":"fc_1","call_id":"c","name":"ls","arguments":"{}"}"#,
        r#"{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I look."}]}"#,
        r#"{"type":"mcp_approval_request","id":"mcpr_1","name":"roll","server_label":"dice","arguments":"{}"}"#,
    ];
    // As one batch, whole or not at all.
    let refused = [items[0], items[1], r#"{"role":"user","content":"between"}"#];
    let options = AppendOptions::default();
    let batch = |items: &[&str]| items.iter().map(|item| raw(item)).collect::<Vec<_>>();
    run.record_raw_messages(batch(&refused), &options)
        .unwrap_err();
    run.record_raw_messages(Vec::new(), &options).unwrap_err();
    assert_eq!(messages(store, &run, 1), Vec::<String>::new());
    let recorded = run.record_raw_messages(batch(&items), &options).unwrap();
    // Three calls stand beside their items.
    assert_eq!((recorded.sequence_number, recorded.last_sequence), (2, 12));
    run.record_tool_result(&ToolOutcome::completed("a", raw(r#"{"n":1}"#)))
        .unwrap();
    let own = r#"{"type":"custom_tool_call_output","call_id":"b","output":"two"}"#;
    run.record_raw_message(raw(own)).unwrap();
    run.pause("later").unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    let all = messages(store, &run, 1);
    assert_eq!(all[..8], items);
    assert_eq!(
        all[8],
        r#"{"type":"custom_tool_call_output","call_id":"a","output":"{\"n\":1}"}"#
    );
    assert_eq!(all[9], own);
    assert!(
        all[10].starts_with(r#"{"type":"function_call_output","call_id":"c","#),
        "{}",
        all[10]
    );
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .unwrap();
    let told: Vec<_> = calls
        .items
        .iter()
        .map(|call| (call.tool_name.as_str(), call.input.as_str()))
        .collect();
    let wanted = [
        ("sql", r#""select 1""#),
        ("sql", r#""{\"a\": 1}""#),
        ("ls", "{}"),
    ];
    assert_eq!(told, wanted);
    assert_eq!(statuses(store, &run)[1].1.as_deref(), Some(r#""two""#));
    let approval =
        r#"{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}"#;
    resumed.recorder.record_raw_message(raw(approval)).unwrap();
    // A custom call that a crash left open is closed in its form, too.
    let open = r#"{"type":"custom_tool_call","call_id":"d","name":"sql","input":"select 3"}"#;
    resumed.recorder.record_raw_message(raw(open)).unwrap();
    resumed.recorder.pause("cut off").unwrap();
    let id = resumed.recorder.id();
    store.runs().resume(id, &ResumeOptions::default()).unwrap();
    let last = messages(store, &run, 1);
    let closed = last
        .iter()
        .find(|json| json.contains(r#""call_id":"d","output""#));
    let closed = closed.expect("the open call is closed");
    assert!(closed.contains("custom_tool_call_output"), "{closed}");
}

/// A call in each provider's form, and its result: what that is called, and the message.
const FORMS: [(&str, &str, &str); 9] = [
    (
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#,
        "a message of role tool",
        r#"{"role":"tool","tool_call_id":"c","content":"1"}"#,
    ),
    (
        r#"{"role":"assistant","toolCalls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#,
        "a message of role tool",
        r#"{"role":"tool","toolCallId":"c","content":"1"}"#,
    ),
    (
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{}}]}"#,
        "a tool_result block",
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"}]}"#,
    ),
    (
        r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"ls","input":{}}]}"#,
        "a tool-result part",
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"ls","output":{"type":"text","value":"1"}}]}"#,
    ),
    (
        r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"ls","args":{}}]}"#,
        "a tool-result part",
        r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"ls","result":"1"}]}"#,
    ),
    (
        r#"{"type":"function_call","call_id":"c","name":"ls","arguments":"{}"}"#,
        "an item function_call_output",
        r#"{"type":"function_call_output","call_id":"c","output":"1"}"#,
    ),
    (
        r#"{"type":"custom_tool_call","call_id":"c","name":"sql","input":"select 1"}"#,
        "an item custom_tool_call_output",
        r#"{"type":"custom_tool_call_output","call_id":"c","output":"1"}"#,
    ),
    (
        r#"{"role":"model","parts":[{"functionCall":{"id":"c","name":"ls","args":{}}}]}"#,
        "a functionResponse part",
        r#"{"role":"user","parts":[{"functionResponse":{"id":"c","name":"ls","response":{"output":"1"}}}]}"#,
    ),
    (
        r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"ls","input":{}}}]}"#,
        "a toolResult block",
        r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"1"}]}}]}"#,
    ),
];

fn a_result_in_another_form_than_its_call_is_refused(store: &Store) {
    for (call, right, result) in FORMS {
        let run = started(store);
        run.record_raw_message(raw(call)).unwrap();
        // Also by a recorder that has to look for the call.
        let later = store.runs().recorder(run.id()).unwrap();
        for (_, wrong, other) in FORMS.iter().filter(|(_, other, _)| *other != right) {
            for recorder in [&run, &later] {
                let error = recorder.record_raw_message(raw(other)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput, "{call} {other}");
                let told = error.to_string();
                let names =
                    told.contains(&format!("is {right}")) && told.contains(&format!("not {wrong}"));
                assert!(names && told.contains("\"c\""), "{told}");
            }
        }
        // Nothing of them was written: the call awaits its result, which is written in its form where it is given as such.
        let as_such = ToolOutcome::completed("c", raw("1"));
        run.record_tool_result(&as_such).unwrap();
        let written = raw(messages(store, &run, 2)[0].as_str());
        assert_eq!(
            ResultForm::all_in(&written),
            ResultForm::all_in(&raw(result)),
            "{written}"
        );
        let again = started(store);
        again.record_raw_message(raw(call)).unwrap();
        again.record_raw_message(raw(result)).unwrap();
    }
}

fn results_in_two_forms_in_one_message_are_refused(store: &Store) {
    for (calls, result) in [
        (
            r#"{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"ls","input":{}}},{"toolUse":{"toolUseId":"d","name":"ls","input":{}}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c"},{"toolResult":{"toolUseId":"d","content":[{"text":"1"}]}}]}"#,
        ),
        (
            r#"{"role":"assistant","content":[{"type":"tool-call","toolCallId":"c","toolName":"ls","input":{}},{"type":"tool-call","toolCallId":"d","toolName":"ls","input":{}}]}"#,
            r#"{"role":"tool","tool_call_id":"c","content":[{"type":"tool-result","toolCallId":"d","toolName":"ls","output":{"type":"text","value":"1"}}]}"#,
        ),
    ] {
        let run = started(store);
        run.record_raw_message(raw(calls)).unwrap();
        let error = run.record_raw_message(raw(result)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{result}");
        assert_eq!(messages(store, &run, 2), [] as [&str; 0]);
    }
}

fn what_a_tool_gives_is_said_as_providers_take_it_and_listed_as_it_was_given(store: &Store) {
    let parts = r#"[{"type":"text","text":"a.txt"}]"#;
    for (given, said) in [
        (r#"{"n":1}"#, r#""{\"n\":1}""#),
        (r#"[{"row":1}]"#, r#""[{\"row\":1}]""#),
        ("[]", r#""[]""#),
        ("5", r#""5""#),
        ("null", r#""null""#),
        (r#""text""#, r#""text""#),
        (parts, parts),
    ] {
        for (asks, answer) in [
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"ls","arguments":"{}"}}]}"#,
                format!(r#"{{"role":"tool","tool_call_id":"c","content":{said}}}"#),
            ),
            (
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{}}]}"#,
                format!(
                    r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"c","content":{said}}}]}}"#
                ),
            ),
        ] {
            let run = started(store);
            run.record_raw_message(raw(asks)).unwrap();
            run.record_tool_result(&ToolOutcome::completed("c", raw(given)).took_ms(7))
                .unwrap();
            assert_eq!(messages(store, &run, 2).join("\n"), answer);
            let told = [(ToolCallStatus::Completed, Some(given.to_owned()))];
            assert_eq!(statuses(store, &run), told, "{answer}");
        }
    }
}

fn a_message_between_items_and_their_results_is_refused(store: &Store) {
    let run = started(store);
    run.record_raw_message(call("a")).unwrap();
    for text in [
        r#"{"role":"user","content":"and?"}"#,
        r#"{"role":"assistant","content":"done"}"#,
    ] {
        let refused = run.record_raw_message(raw(text)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    }
    let twice = run.record_raw_message(call("a")).unwrap_err();
    assert!(twice.to_string().contains("a second time"), "{twice}");
    let stray = run
        .record_raw_message(raw(
            r#"{"type":"function_call_output","call_id":"z","output":"x"}"#,
        ))
        .unwrap_err();
    assert_eq!(stray.kind(), ErrorKind::InvalidInput);
}

fn calls_of_responses_that_were_cut_off_are_closed_as_items(store: &Store) {
    let run = started(store);
    run.record_raw_message(call("a")).unwrap();
    run.record_raw_message(call("b")).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::CloseWith("cut off".to_owned()),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    assert_eq!(
        messages(store, &resumed.recorder, 3)[..2],
        ["a", "b"].map(|id| format!(
            r#"{{"type":"function_call_output","call_id":"{id}","output":"cut off"}}"#
        ))
    );
}

fn what_responses_call_is_answered_in_their_form(store: &Store) {
    let run = started(store);
    run.record_raw_message(call("a")).unwrap();
    run.record_raw_message(call("b")).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::Answer(vec![ToolOutcome::completed("b", RawJson::string("yes"))]),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    let told = messages(store, &resumed.recorder, 3);
    assert!(
        told[0].contains("interrupted") && told[0].contains(r#""call_id":"a""#),
        "{told:?}"
    );
    assert_eq!(
        told[1],
        r#"{"type":"function_call_output","call_id":"b","output":"yes"}"#
    );
}

fn calls_of_gemini_that_were_cut_off_are_closed_in_one_content(store: &Store) {
    let run = started(store);
    run.record_raw_message(raw(GEMINI)).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::CloseWith("cut off".to_owned()),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    assert_eq!(
        messages(store, &resumed.recorder, 2)[0],
        r#"{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"error":"cut off"}}},{"functionResponse":{"id":"g2","name":"rm","response":{"error":"cut off"}}}]}"#
    );
    let told = statuses(store, &run);
    assert!(
        told.iter()
            .all(|(status, _)| *status == ToolCallStatus::Error),
        "{told:?}"
    );
}

fn a_context_in_geminis_form_is_told_to_continue_in_it(store: &Store) {
    let content = r#"{"role":"user","parts":[{"text":"List them."}]}"#;
    let texts = [
        (
            Continuation::Default,
            "Continue your work from where you left off.",
        ),
        (
            Continuation::Task("Now the tests.".to_owned()),
            "Continue your work from where you left off.\n\nNow the tests.",
        ),
        (Continuation::Message(NewMessage::user("Go on.")), "Go on."),
    ];
    for (message, text) in texts {
        let run = started(store);
        run.record_raw_message(raw(content)).unwrap();
        run.record_raw_message(raw(GEMINI)).unwrap();
        run.pause("stop").unwrap();
        let options = ResumeOptions {
            message,
            ..ResumeOptions::default()
        };
        let resumed = store.runs().resume(run.id(), &options).unwrap();
        let told = resumed.messages.last().unwrap().json.as_str();
        let text = RawJson::string(text);
        let expected = format!(r#"{{"role":"user","parts":[{{"text":{text}}}]}}"#);
        assert_eq!(told, expected);
    }
    // Others are told as they were.
    let run = started(store);
    run.record_raw_message(raw(r#"{"role":"assistant","content":"a"}"#))
        .unwrap();
    run.pause("stop").unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    let told = resumed.messages.last().unwrap().json.as_str();
    assert!(
        told.starts_with(r#"{"role":"user","content":"Continue"#),
        "{told}"
    );
}

fn malformed_calls_are_refused_with_what_is_wrong_and_where(store: &Store) {
    let run = started(store);
    let refused = [
        (
            r#"{"role":"model","parts":[{"text":"a"},{"functionCall":"f"}]}"#,
            "parts[1].functionCall should be an object, but is",
        ),
        (
            r#"{"role":"model","parts":[{"functionCall":{"name":"","args":{}}}]}"#,
            "the name of a tool call is empty",
        ),
        (
            r#"{"role":"model","parts":[{"functionCall":{"args":{}}}]}"#,
            "has no name",
        ),
        (
            r#"{"role":"model","parts":[{"functionCall":{"id":"","name":"f"}}]}"#,
            "the id of a functionCall part is empty",
        ),
        (
            r#"{"role":"user","parts":[{"functionResponse":7}]}"#,
            "parts[0].functionResponse should be an object",
        ),
        (
            r#"{"role":"user","parts":[{"functionResponse":{"id":"","name":"f","response":{}}}]}"#,
            "the id of a functionResponse part is empty",
        ),
        (
            r#"{"type":"function_call","call_id":"","name":"f","arguments":"{}"}"#,
            "the call_id of a function_call item is empty",
        ),
        (
            r#"{"type":"function_call","call_id":"c","name":"f","arguments":{}}"#,
            "the `arguments` of a function_call item must be text",
        ),
        (
            r#"{"type":"function_call","call_id":"c","name":"f"}"#,
            "the `arguments` of a function_call item must be text",
        ),
        (
            r#"{"type":"custom_tool_call","call_id":"c","name":"f","input":{"a":1}}"#,
            "the `input` of a custom_tool_call item must be text",
        ),
        (
            r#"{"type":"computer_call","call_id":"c","action":{}}"#,
            "by its type, \"computer_call\", it is none of the items",
        ),
        (
            r#"{"type":"custom_tool_call_output","call_id":"c"}"#,
            "a custom_tool_call_output item has no output",
        ),
        (
            r#"{"type":"function_call","call_id":"c","name":"","arguments":"{}"}"#,
            "the name of a tool call is empty",
        ),
        (
            r#"{"type":"function_call_output","call_id":"","output":"x"}"#,
            "the call_id of a function_call_output item is empty",
        ),
        (
            r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"","arguments":"{}"}}]}"#,
            "the name of a tool call is empty",
        ),
    ];
    for (message, why) in refused {
        let error = run.record_raw_message(raw(message)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{message}");
        assert!(error.to_string().contains(why), "{message}: {error}");
    }
    // The fields that a part hasn't may be null.
    let python = r#"{"role":"model","parts":[{"text":"a","function_call":null},{"text":null,"function_call":{"id":null,"name":"f","args":{}}}]}"#;
    run.record_raw_message(raw(python)).unwrap();
    assert_eq!(statuses(store, &run), [(ToolCallStatus::Pending, None)]);
}

fn what_gemini_calls_is_answered_in_one_content(store: &Store) {
    let run = started(store);
    let asked = GEMINI.replace(r#"{"name":"ls""#, r#"{"id":"g1","name":"ls""#);
    let outcomes = [
        ToolOutcome::completed("g1", RawJson::string("a.txt")).took_ms(3),
        ToolOutcome::error("g2", RawJson::string("denied")).took_ms(4),
    ];
    run.record_tool_call(raw(&asked), &outcomes).unwrap();
    assert_eq!(
        messages(store, &run, 2),
        [
            r#"{"role":"user","parts":[{"functionResponse":{"id":"g1","name":"ls","response":{"output":"a.txt"}}},{"functionResponse":{"id":"g2","name":"rm","response":{"error":"denied"}}}]}"#
        ]
    );
    let calls = store
        .runs()
        .tool_calls(run.id(), &ListToolCalls::default())
        .unwrap()
        .items;
    let told: Vec<_> = calls
        .iter()
        .map(|call| (call.status, call.duration_ms))
        .collect();
    assert_eq!(
        told,
        [
            (ToolCallStatus::Completed, Some(3)),
            (ToolCallStatus::Error, Some(4))
        ]
    );

    // One of two is answered when the run is resumed, and the other closed beside it.
    run.record_raw_message(raw(GEMINI)).unwrap();
    run.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::Answer(vec![ToolOutcome::completed("g2", raw(r#"{"ok":true}"#))]),
        ..ResumeOptions::default()
    };
    let resumed = store.runs().resume(run.id(), &options).unwrap();
    let told = &messages(store, &resumed.recorder, 4)[0];
    assert!(
        told.contains("interrupted")
            && told.contains(r#"{"id":"g2","name":"rm","response":{"ok":true}}"#),
        "{told}"
    );

    // One without an id is named by its tool.
    resumed.recorder.record_raw_message(raw(GEMINI)).unwrap();
    resumed.recorder.pause("stop").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::Answer(vec![
            ToolOutcome::completed("ls", RawJson::string("a.txt")),
            ToolOutcome::completed("g2", RawJson::string("gone")),
        ]),
        ..ResumeOptions::default()
    };
    let again = store.runs().resume(resumed.run.id, &options).unwrap();
    let told = messages(store, &again.recorder, 7);
    assert_eq!(
        told[0],
        r#"{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"output":"a.txt"}}},{"functionResponse":{"id":"g2","name":"rm","response":{"output":"gone"}}}]}"#
    );
}

fn a_call_without_an_id_is_answered_by_the_name_of_its_tool(store: &Store) {
    for (asks, answer) in [
        (
            r#"{"role":"assistant","content":"","tool_calls":[{"function":{"name":"ls","arguments":{}}}]}"#,
            r#"{"role":"tool","name":"ls","content":"a.txt"}"#,
        ),
        (
            r#"{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":"{}"}}"#,
            r#"{"role":"function","name":"ls","content":"a.txt"}"#,
        ),
    ] {
        let run = started(store);
        run.record_raw_message(raw(asks)).unwrap();
        run.pause("stop").unwrap();
        let outcome = ToolOutcome::completed("ls", RawJson::string("a.txt"));
        let options = ResumeOptions {
            dangling: Dangling::Answer(vec![outcome]),
            ..ResumeOptions::default()
        };
        let resumed = store.runs().resume(run.id(), &options).unwrap();
        assert_eq!(messages(store, &resumed.recorder, 2)[0], answer);
        let told = [(ToolCallStatus::Completed, Some("\"a.txt\"".to_owned()))];
        assert_eq!(statuses(store, &run), told);
    }
}

fn a_recorder_that_comes_later_knows_the_calls_of_all_items(store: &Store) {
    let run = started(store);
    run.record_raw_message(call("a")).unwrap();
    run.record_raw_message(call("b")).unwrap();
    let other = store.runs().recorder(run.id()).unwrap();
    other
        .record_tool_result(&ToolOutcome::completed("b", RawJson::string("1")))
        .unwrap();
    let between = other.record_raw_message_with(
        raw(r#"{"role":"user","content":"and?"}"#),
        &AppendOptions::default(),
    );
    assert_eq!(between.unwrap_err().kind(), ErrorKind::InvalidInput);
    other
        .record_tool_result(&ToolOutcome::completed("a", RawJson::string("2")))
        .unwrap();
    other.record_message(NewMessage::user("and?")).unwrap();
}

/// The same list stands in three places, of which two can't ask this one.
#[expect(
    clippy::disallowed_methods,
    reason = "sources are looked at, not stores"
)]
#[test]
fn the_items_without_a_role_are_those_that_javascript_and_the_viewer_know() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, begins, ends) in [
        (
            "sdk/src/context-types.ts",
            "export interface ResponseItem {",
            "[field: string]",
        ),
        (
            "viewer/src/worker/transcripts.ts",
            "const ITEMS = new Set([",
            "]);",
        ),
    ] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let list = text
            .split(begins)
            .nth(1)
            .unwrap()
            .split(ends)
            .next()
            .unwrap();
        let mut known: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        let mut own: Vec<&str> = runlog_model::response_item_types().collect();
        known.sort_unstable();
        own.sort_unstable();
        assert_eq!(known, own, "{file}");
    }
}
