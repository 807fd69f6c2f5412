//! Contexts stay such that providers take them: results answer calls, once, and nothing stands between the two.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use runlog::{
    ErrorKind, Message, NewMessage, NewRun, NewSession, NewToolCall, RawJson, Role,
    blocking::{RunRecorder, Store},
    contexts::ContextEventKind,
    runs::{Continuation, Dangling, ResumeOptions, ToolCallStatus, ToolOutcome},
};

fn start(store: &Store) -> RunRecorder {
    store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap()
}

fn asks(ids: &[&str]) -> NewMessage {
    NewMessage::assistant("")
        .with_tool_calls(ids.iter().map(|id| NewToolCall::new(*id, "test", "{}")))
}

fn done(id: &str) -> ToolOutcome {
    ToolOutcome::completed(id, RawJson::string("done"))
}

fn roles(messages: &[Message]) -> Vec<Role> {
    messages.iter().map(|message| message.role).collect()
}

#[test]
fn a_result_of_no_call_is_refused_and_so_is_a_second_one() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(asks(&["a", "b"])).unwrap();
    let told = |error: runlog::Error| (error.kind(), error.to_string());

    let (kind, message) = told(run.record_tool_result(&done("nope")).unwrap_err());
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(message.contains("no tool call \"nope\""), "{message}");
    let as_message =
        RawJson::parse(r#"{"role":"tool","tool_call_id":"nope","content":"x"}"#).unwrap();
    assert_eq!(
        run.record_raw_message(as_message).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );

    run.record_tool_result(&done("a")).unwrap();
    let (kind, message) = told(run.record_tool_result(&done("a")).unwrap_err());
    assert_eq!(kind, ErrorKind::AlreadyExists);
    assert!(
        message.contains("\"a\" has its result already"),
        "{message}"
    );
    // A recorder that didn't record the call looks into the context.
    let other = store.runs().recorder(run.id()).unwrap();
    assert_eq!(
        other.record_tool_result(&done("a")).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    other.record_tool_result(&done("b")).unwrap();
    let twice = run.record_tool_call(asks(&["c"]).to_json().unwrap(), &[done("c"), done("c")]);
    assert_eq!(twice.unwrap_err().kind(), ErrorKind::AlreadyExists);
    run.record_tool_call(asks(&["c"]).to_json().unwrap(), &[done("c")])
        .unwrap();
    let context = store.context(run.run().instance_id).unwrap();
    use Role::{Assistant, Tool};
    assert_eq!(
        roles(&context.get_messages().unwrap()),
        [Assistant, Tool, Tool, Assistant, Tool]
    );
}

#[test]
fn an_id_that_is_used_again_in_each_turn_is_answered_in_each_turn() {
    let store = Store::in_memory();
    let run = start(&store);
    for _ in 0..3 {
        run.record_message(asks(&["call_0"])).unwrap();
        run.record_tool_result(&done("call_0")).unwrap();
        assert_eq!(
            run.record_tool_result(&done("call_0")).unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
    }
    let other = store.runs().recorder(run.id()).unwrap();
    assert_eq!(
        other
            .record_tool_result(&done("call_0"))
            .unwrap_err()
            .kind(),
        ErrorKind::AlreadyExists
    );
}

#[test]
fn results_are_written_as_the_ai_sdk_writes_them() {
    let store = Store::in_memory();
    let run = start(&store);
    let part = |fields: &str| {
        let message = format!(
            r#"{{"role":"assistant","content":[{{"type":"tool-call","toolName":"ls",{fields}}}]}}"#
        );
        RawJson::parse(message).unwrap()
    };
    run.record_raw_message(part(r#""toolCallId":"a","input":{}"#))
        .unwrap();
    run.record_tool_result(&ToolOutcome::completed("a", RawJson::parse("[1]").unwrap()))
        .unwrap();
    run.record_raw_message(part(r#""toolCallId":"b","args":{}"#))
        .unwrap();
    run.record_tool_result(&ToolOutcome::error("b", RawJson::string("no")))
        .unwrap();
    run.record_raw_message(part(r#""toolCallId":"c","input":{}"#))
        .unwrap();
    run.pause("stop").unwrap();
    let resumed = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    assert_eq!(resumed.dangling[0].id.as_deref(), Some("c"));
    let written: Vec<&str> = resumed
        .messages
        .iter()
        .map(|message| message.json.as_str())
        .collect();
    assert_eq!(
        [written[1], written[3]],
        [
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"ls","output":{"type":"json","value":[1]}}]}"#,
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"b","toolName":"ls","result":"no","isError":true}]}"#,
        ]
    );
    assert!(written[5].contains(
        r#""toolCallId":"c","toolName":"ls","output":{"type":"error-text","value":"The tool"#
    ));
    let calls = store
        .runs()
        .tool_calls(run.id(), &runlog::runs::ListToolCalls::default())
        .unwrap()
        .items;
    let ended: Vec<_> = calls
        .iter()
        .map(|call| (call.status, call.output.as_ref().map(RawJson::as_str)))
        .collect();
    assert_eq!(
        ended[..2],
        [
            (ToolCallStatus::Completed, Some("[1]")),
            (ToolCallStatus::Error, Some("\"no\""))
        ]
    );
}

#[test]
fn a_resume_that_leaves_calls_open_puts_no_message_behind_them() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(NewMessage::user("go")).unwrap();
    run.record_message(asks(&["a"])).unwrap();
    run.pause("stop").unwrap();
    let leave = ResumeOptions {
        dangling: Dangling::Report,
        ..ResumeOptions::default()
    };
    let saying = ResumeOptions {
        message: Continuation::Message(NewMessage::user("Go on.")),
        ..leave.clone()
    };
    let error = store.runs().resume(run.id(), &saying).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("these have none: a"), "{error}");
    let resumed = store.runs().resume(run.id(), &leave).unwrap();
    resumed.recorder.record_tool_result(&done("a")).unwrap();
    resumed
        .recorder
        .record_message(NewMessage::user("Go on."))
        .unwrap();
    let messages = store
        .context(run.run().instance_id)
        .unwrap()
        .get_messages()
        .unwrap();
    assert_eq!(
        roles(&messages),
        [Role::User, Role::Assistant, Role::Tool, Role::User]
    );
}

#[test]
fn what_a_resume_says_by_itself_is_marked_and_can_be_left_out() {
    let store = Store::in_memory();
    let mut run = start(&store);
    run.record_message(NewMessage::user("go")).unwrap();
    let said = Continuation::Message(NewMessage::user("Now the tests."));
    for message in [
        Continuation::Default,
        said,
        Continuation::Nothing,
        Continuation::Task("The rest.".into()),
    ] {
        run.pause("stop").unwrap();
        let options = ResumeOptions {
            message,
            ..ResumeOptions::default()
        };
        run = store.runs().resume(run.id(), &options).unwrap().recorder;
    }
    let events = store
        .contexts()
        .get_events(run.run().instance_id, 0)
        .unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.is_continuation, event.content.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (false, r#"{"role":"user","content":"go"}"#),
            (
                true,
                r#"{"role":"user","content":"Continue your work from where you left off."}"#
            ),
            (false, r#"{"role":"user","content":"Now the tests."}"#),
            (
                true,
                r#"{"role":"user","content":"Continue your work from where you left off.\n\nThe rest."}"#
            ),
        ]
    );
    let copy = store
        .copy_session(
            run.run().session_id,
            &runlog::sessions::CopySession::default(),
        )
        .unwrap();
    let copied = store.root_instance(copy.session.id).unwrap();
    assert!(
        store.contexts().get_events(copied.id, 0).unwrap()[1].is_continuation,
        "a copy keeps it"
    );
}

#[test]
fn a_run_that_begins_with_a_message_closes_the_calls_before_it() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(asks(&["a"])).unwrap();
    run.fail("boom").unwrap();
    let instance = run.run().instance_id;
    let message = NewMessage::user("Another way.").to_json().unwrap();
    let new = NewRun {
        messages: vec![message],
        ..NewRun::new(instance)
    };
    let left = NewRun {
        dangling: Some(Dangling::Report),
        ..new.clone()
    };
    assert_eq!(
        store.runs().start(left).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let next = store.runs().start(new).unwrap();
    let context = store.context(instance).unwrap();
    assert_eq!(
        roles(&context.get_messages().unwrap()),
        [Role::Assistant, Role::Tool, Role::User]
    );
    next.record_message(asks(&["b"])).unwrap();
    next.fail("boom").unwrap();

    let result = RawJson::parse(r#"{"role":"tool","tool_call_id":"b","content":"x"}"#).unwrap();
    store
        .runs()
        .start(NewRun {
            messages: vec![result],
            ..NewRun::new(instance)
        })
        .unwrap();
    assert!(
        context.dangling_tool_calls().unwrap().is_empty(),
        "the results of the calls are no message between"
    );
    assert_eq!(context.get_last_sequence().unwrap(), 7);
}

#[test]
fn two_runs_write_one_context_only_when_asked_to() {
    let store = Store::in_memory();
    let run = start(&store);
    let instance = run.run().instance_id;
    let error = store.runs().start(NewRun::new(instance)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongStatus);
    assert!(
        error
            .to_string()
            .contains(&format!("run {} is at work", run.id())),
        "{error}"
    );
    let both = store
        .runs()
        .start(NewRun {
            concurrent: true,
            ..NewRun::new(instance)
        })
        .unwrap();
    run.complete(None).unwrap();
    assert_eq!(
        store
            .runs()
            .start(NewRun::new(instance))
            .unwrap_err()
            .kind(),
        ErrorKind::WrongStatus
    );
    both.complete(None).unwrap();

    let started = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| store.runs().start(NewRun::new(instance))))
            .collect();
        starting
            .into_iter()
            .filter_map(|starting| starting.join().unwrap().ok())
            .count()
    });
    assert_eq!(started, 1, "of eight at once");
}

/// What others did to the context counts, not what the recorder remembers.
#[test]
fn a_recorder_knows_of_what_others_wrote() {
    let store = Store::in_memory();
    let run = start(&store);
    let other = store.runs().recorder(run.id()).unwrap();
    let context = store.context(run.run().instance_id).unwrap();
    let kind = |recorded: runlog::Result<runlog::runs::Recorded>| recorded.unwrap_err().kind();
    run.record_message(asks(&["a", "b", "c"])).unwrap();
    other.record_tool_result(&done("a")).unwrap();
    assert_eq!(
        kind(run.record_tool_result(&done("a"))),
        ErrorKind::AlreadyExists
    );
    context
        .append_message(NewMessage::tool("b", "by hand"))
        .unwrap();
    assert_eq!(
        kind(run.record_tool_result(&done("b"))),
        ErrorKind::AlreadyExists
    );
    // A result that was truncated away is recorded again, and one whose call was isn't.
    let before = context.get_last_sequence().unwrap();
    run.record_tool_result(&done("c")).unwrap();
    context.truncate_after_sequence(before).unwrap();
    run.record_tool_result(&done("c")).unwrap();
    run.record_message(asks(&["d"])).unwrap();
    context.truncate_after_sequence(before + 1).unwrap();
    assert_eq!(
        kind(run.record_tool_result(&done("d"))),
        ErrorKind::InvalidInput
    );
    assert!(context.dangling_tool_calls().unwrap().is_empty());
}

#[test]
fn the_messages_of_a_run_that_starts_answer_open_calls_and_no_others() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(asks(&["a", "b"])).unwrap();
    run.fail("boom").unwrap();
    let instance = run.run().instance_id;
    let result = |id: &str| NewMessage::tool(id, "x").to_json().unwrap();
    let user = || NewMessage::user("go on").to_json().unwrap();
    for messages in [
        vec![result("nope")],
        vec![result("a"), result("a")],
        vec![user(), result("a")],
    ] {
        let new = NewRun {
            messages,
            ..NewRun::new(instance)
        };
        assert_eq!(
            store.runs().start(new).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    let fresh = NewRun {
        messages: vec![result("a")],
        ..NewRun::in_new_session(NewSession::default(), "coder")
    };
    assert_eq!(
        store.runs().start(fresh).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    // Answers without a message are written too.
    let new = NewRun {
        dangling: Some(Dangling::Answer(vec![done("a"), done("b")])),
        ..NewRun::new(instance)
    };
    store.runs().start(new).unwrap();
    let messages = store.context(instance).unwrap().get_messages().unwrap();
    assert_eq!(roles(&messages), [Role::Assistant, Role::Tool, Role::Tool]);
}

#[test]
fn a_run_that_begins_without_messages_closes_open_calls_where_it_is_asked_to() {
    for (dangling, left_open) in [
        (None, 1),
        (Some(Dangling::Report), 1),
        (Some(Dangling::Close), 0),
        (Some(Dangling::CloseWith("given up".into())), 0),
    ] {
        let store = Store::in_memory();
        let run = start(&store);
        run.record_raw_message(asks(&["a"]).to_json().unwrap())
            .unwrap();
        run.fail("cut off").unwrap();
        let instance = run.run().instance_id;
        let new = NewRun {
            dangling: dangling.clone(),
            ..NewRun::new(instance)
        };
        store.runs().start(new).unwrap();
        let context = store.context(instance).unwrap();
        let open = context.dangling_tool_calls().unwrap();
        assert_eq!(open.len(), left_open, "{dangling:?}");
    }
}

#[test]
fn a_repeat_with_other_calls_is_told_where_the_first_one_is() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(NewMessage::user("go")).unwrap();
    let keyed = runlog::contexts::AppendOptions {
        idempotency_key: Some("turn-1".into()),
        ..Default::default()
    };
    let first = run
        .record_raw_message_with(asks(&["a"]).to_json().unwrap(), &keyed)
        .unwrap();
    let again = run
        .record_raw_message_with(asks(&["a", "b", "c"]).to_json().unwrap(), &keyed)
        .unwrap();
    assert_eq!(
        (again.sequence_number, again.id, again.repeated),
        (first.sequence_number, first.id, true)
    );
}

#[test]
fn a_message_between_calls_and_their_results_is_refused() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(NewMessage::user("go")).unwrap();
    run.record_message(asks(&["a", "b"])).unwrap();
    run.record_tool_result(&done("b")).unwrap();
    let context = store.context(run.run().instance_id).unwrap();
    let before = context.get_messages().unwrap();
    // A recorder that didn't record the calls looks into the context.
    let other = store.runs().recorder(run.id()).unwrap();
    for recorder in [&run, &other] {
        for message in [
            NewMessage::user("and?"),
            NewMessage::system("be brief"),
            NewMessage::assistant("hm"),
            asks(&["c"]),
        ] {
            let error = recorder.record_message(message).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let told = error.to_string();
            assert!(
                told.contains("a (test)") && !told.contains("b (test)"),
                "{told}"
            );
            assert!(told.contains("record their results first"), "{told}");
        }
        let asked = asks(&["c"]).to_json().unwrap();
        assert_eq!(
            recorder
                .record_tool_call(asked, &[done("c")])
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
    }
    assert_eq!(context.get_messages().unwrap(), before);
    run.record_tool_result(&done("a")).unwrap();
    other.record_message(NewMessage::user("and?")).unwrap();
    run.record_message(NewMessage::assistant("done")).unwrap();
}

#[test]
fn a_message_is_taken_once_the_open_calls_are_closed_by_hand() {
    let store = Store::in_memory();
    let run = start(&store);
    run.record_message(asks(&["a", "b"])).unwrap();
    assert_eq!(
        run.record_message(NewMessage::user("and?"))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    store
        .context(run.run().instance_id)
        .unwrap()
        .close_dangling_tool_calls("stopped")
        .unwrap();
    run.record_message(NewMessage::user("and?")).unwrap();
}

#[test]
fn calls_without_an_id_are_open_until_their_result_comes() {
    let store = Store::in_memory();
    let run = start(&store);
    let call =
        r#"{"role":"assistant","content":null,"function_call":{"name":"ls","arguments":"{}"}}"#;
    run.record_raw_message(RawJson::parse(call).unwrap())
        .unwrap();
    let error = run.record_message(NewMessage::user("and?")).unwrap_err();
    assert!(error.to_string().contains("ls"), "{error}");
    run.record_raw_message(
        RawJson::parse(r#"{"role":"function","name":"ls","content":"x"}"#).unwrap(),
    )
    .unwrap();
    run.record_message(NewMessage::user("and?")).unwrap();
}

/// What is written at the same time stands in an order that providers take, whoever comes first.
#[test]
fn messages_and_results_of_many_threads_stand_in_order() {
    let store = Store::in_memory();
    let run = start(&store);
    let recorders = [run.clone(), store.runs().recorder(run.id()).unwrap()];
    for round in 0..50 {
        let ids = ["a", "b", "c"].map(|id| format!("{id}{round}"));
        std::thread::scope(|scope| {
            for (place, id) in ids.iter().enumerate() {
                let recorder = &recorders[place % 2];
                scope.spawn(move || {
                    if recorder.record_message(asks(&[id])).is_ok() {
                        recorder.record_tool_result(&done(id)).unwrap();
                    }
                });
                scope.spawn(move || drop(recorder.record_message(NewMessage::user("and?"))));
            }
        });
    }
    let mut open = std::collections::HashSet::new();
    for event in store
        .contexts()
        .get_events(run.run().instance_id, 0)
        .unwrap()
    {
        match event.event_type {
            ContextEventKind::ToolCall => assert!(open.insert(event.tool_call_id)),
            ContextEventKind::ToolResult => {
                event
                    .tool_results
                    .iter()
                    .for_each(|mark| assert!(open.remove(&mark.tool_call_id)));
            }
            _ => assert!(
                open.is_empty(),
                "event {} stands between {open:?} and their results",
                event.sequence_number
            ),
        }
    }
}

#[test]
fn content_beside_results_stands_behind_all_of_them() {
    let store = Store::in_memory();
    let run = start(&store);
    let json = |text: &str| RawJson::parse(text.to_owned()).unwrap();
    let call = |id: &str| format!(r#"{{"type":"tool_use","id":"{id}","name":"t","input":{{}}}}"#);
    let result =
        |id: &str| format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}"#);
    let user = |parts: &[&str]| {
        json(&format!(
            r#"{{"role":"user","content":[{}]}}"#,
            parts.join(",")
        ))
    };
    let text = r#"{"type":"text","text":"and now?"}"#;
    run.record_raw_message(json(&format!(
        r#"{{"role":"assistant","content":[{},{}]}}"#,
        call("a"),
        call("b")
    )))
    .unwrap();

    for refused in [
        user(&[&result("a"), text]),
        user(&[text, &result("a"), &result("b")]),
        user(&[&result("a"), text, &result("b")]),
    ] {
        let error = run.record_raw_message(refused.clone()).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "{refused:?}: {error}"
        );
    }
    run.record_raw_message(user(&[&result("b")])).unwrap();
    run.record_raw_message(user(&[&result("a"), text])).unwrap();
    run.record_message(NewMessage::assistant("that was all"))
        .unwrap();
}

#[test]
fn a_message_makes_no_two_calls_of_one_id() {
    let store = Store::in_memory();
    let run = start(&store);
    let error = run.record_message(asks(&["a", "a"])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error
            .to_string()
            .contains("two tool calls with the id \"a\""),
        "{error}"
    );
    run.record_message(asks(&["a", "b"])).unwrap();
}

#[test]
fn the_messages_of_a_run_that_starts_stand_in_order() {
    let store = Store::in_memory();
    let messages = |messages: &[NewMessage]| {
        messages
            .iter()
            .map(|message| message.to_json().unwrap())
            .collect()
    };
    let new = NewRun::in_new_session(NewSession::default(), "coder");
    let between = NewRun {
        messages: messages(&[asks(&["x"]), NewMessage::user("and?")]),
        ..new.clone()
    };
    let error = store.runs().start(between).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error
            .to_string()
            .contains("between tool calls and their results"),
        "{error}"
    );
    let run = store
        .runs()
        .start(NewRun {
            messages: messages(&[NewMessage::user("go"), asks(&["x"])]),
            ..new
        })
        .unwrap();
    run.record_tool_result(&done("x")).unwrap();
}

/// A truncation to a message that makes calls leaves them open, without the records by which they are listed.
#[test]
fn calls_that_are_done_again_after_a_truncation_to_their_message_are_listed() {
    let store = Store::in_memory();
    for kept in 0..3 {
        let run = start(&store);
        let asked = run.record_message(asks(&["a", "b", "c"])).unwrap();
        for id in ["a", "b", "c"] {
            run.record_tool_result(&done(id)).unwrap();
        }
        let context = store.context(run.run().instance_id).unwrap();
        context
            .truncate_after_sequence(asked.sequence_number + kept)
            .unwrap();
        let open = context.dangling_tool_calls().unwrap();
        assert_eq!(open.len(), 3);
        let again = |id| ToolOutcome::completed(id, RawJson::string("again"));
        run.record_tool_result(&again("b")).unwrap();
        let other = store.runs().recorder(run.id()).unwrap();
        other
            .record_tool_results(&[again("c"), again("a")])
            .unwrap();
        let calls = store
            .runs()
            .tool_calls(run.id(), &runlog::runs::ListToolCalls::default())
            .unwrap();
        let mut told: Vec<_> = calls
            .items
            .iter()
            .map(|call| {
                let output = call.output.as_ref().map(RawJson::as_str);
                (call.tool_call_id.as_deref().unwrap(), output)
            })
            .collect();
        told.sort_unstable();
        let output = Some("\"again\"");
        assert_eq!(
            told,
            [("a", output), ("b", output), ("c", output)],
            "{kept}"
        );
        assert_eq!(context.dangling_tool_calls().unwrap(), []);
        run.record_message(NewMessage::user("and?")).unwrap();
        assert_eq!(context.get_messages().unwrap().len(), 5);
    }
}

/// A recorder isn't misled by a context that is as long as it left it.
#[test]
fn a_truncation_behind_which_as_much_was_written_is_noticed() {
    let store = Store::in_memory();
    let run = start(&store);
    let asked = run.record_message(asks(&["a", "b", "c"])).unwrap();
    let context = store.context(run.run().instance_id).unwrap();
    context
        .truncate_after_sequence(asked.sequence_number + 2)
        .unwrap();
    let other = store.runs().recorder(run.id()).unwrap();
    other.record_tool_result(&done("a")).unwrap();
    let again = run.record_tool_result(&done("a")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{again}");
    run.record_tool_results(&[done("b"), done("c")]).unwrap();
    let calls = store
        .runs()
        .tool_calls(run.id(), &runlog::runs::ListToolCalls::default())
        .unwrap();
    assert_eq!(calls.items.len(), 3);
    run.record_message(NewMessage::user("and?")).unwrap();
}
