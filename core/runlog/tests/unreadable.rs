//! What is accepted can be read again: whatever a caller gives, no chat, flow or catalog becomes unreadable by it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use std::fmt::Debug;

use runlog::{
    AgentDefinition, ErrorKind, NewSession, RawJson,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole, MessageFilter, Step, StepType, Updates},
    contexts::ContextEventKind,
    sessions::CopySession,
};
use serde_json::Value;

both! {
    a_known_name_among_the_unknown_fields_is_refused
    deeply_nested_fields_are_refused_or_read_back
    deep_json_that_is_kept_byte_for_byte_is_read_back
    a_sequence_at_the_edge_is_kept_and_one_beyond_is_refused
    a_flow_state_that_is_saved_can_be_resumed
    a_null_role_is_no_role_that_was_left_out
    a_chats_unknown_fields_are_bounded
    a_message_of_as_many_results_as_are_allowed_is_read_back
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |value, _| Value::Array(vec![value]))
}

fn nested_text(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn kind<T: Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn names(value: &impl serde::Serialize) -> Vec<String> {
    serde_json::to_value(value)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

fn full_message() -> ChatMessage {
    let text = |text: &str| Some(text.to_owned());
    ChatMessage {
        id: Some(1),
        message_id: "m".into(),
        chat_id: "c".into(),
        request_id: text("r"),
        block_id: text("b"),
        thread_id: text("t"),
        assistant_id: text("a"),
        sequence: 1,
        metadata: Some(json("{}")),
        ..ChatMessage::text(ChatRole::User, "x")
    }
}

fn full_step() -> Step {
    Step {
        id: Some(1),
        step_id: "s".into(),
        chat_id: "c".into(),
        stack_parent_id: Some("p".into()),
        input: Some(json("{}")),
        output: Some(json("{}")),
        space_snapshot: Some(json("{}")),
        error: Some("e".into()),
        metadata: Some(json("{}")),
        ..Step::new("r", "a", "s", StepType::Llm)
    }
}

fn full_chat() -> Chat {
    let text = |text: &str| Some(text.to_owned());
    Chat {
        id: Some(1),
        title: text("t"),
        last_message_at_ms: Some(1),
        metadata: Some(json("{}")),
        created_by: text("u"),
        updated_by: text("u"),
        team_id: text("t"),
        tenant_id: text("t"),
        ..Chat::new("a")
    }
}

fn full_agent() -> AgentDefinition {
    AgentDefinition {
        project: Some("p".into()),
        system_prompt: Some("s".into()),
        default_timeout_ms: Some(1),
        max_steps: Some(1),
        metadata: Some(json("{}")),
        ..AgentDefinition::new("a", "d")
    }
}

fn a_known_name_among_the_unknown_fields_is_refused(store: &Store) {
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("a")).unwrap();
    let known = |name: &str| serde_json::Map::from_iter([(name.to_owned(), Value::from("x"))]);
    for name in names(&full_message()) {
        let message = ChatMessage {
            extra: known(&name),
            ..ChatMessage::text(ChatRole::User, "x")
        };
        assert_eq!(
            kind(chats.save_messages(&chat.chat_id, vec![message])),
            ErrorKind::InvalidInput,
            "{name}"
        );
    }
    for name in names(&full_step()) {
        let extra = known(&name);
        let step = Step {
            chat_id: chat.chat_id.clone(),
            extra,
            ..Step::new("r", "a", "s", StepType::Llm)
        };
        assert_eq!(
            kind(chats.save_steps(vec![step])),
            ErrorKind::InvalidInput,
            "{name}"
        );
    }
    for name in names(&full_chat()) {
        let chat = Chat {
            extra: known(&name),
            ..Chat::new("a")
        };
        assert_eq!(
            kind(chats.create_chat(chat)),
            ErrorKind::InvalidInput,
            "{name}"
        );
    }
    for name in names(&full_agent()) {
        let agent = AgentDefinition {
            extra: known(&name),
            ..AgentDefinition::new("a", "d")
        };
        assert_eq!(
            kind(store.agents().define(agent)),
            ErrorKind::InvalidInput,
            "{name}"
        );
    }
    let mut flow = FlowRun::create(store, None).unwrap();
    for name in names(flow.state()) {
        flow.state_mut().extra = known(&name);
        assert_eq!(
            kind(flow.save_snapshot()),
            ErrorKind::InvalidInput,
            "{name}"
        );
    }
    FlowRun::resume(store, flow.run_id(), None).unwrap();
    assert!(
        chats
            .get_messages(&chat.chat_id, &MessageFilter::default())
            .unwrap()
            .is_empty()
    );
    store.create_session(NewSession::default()).unwrap();
}

fn deeply_nested_fields_are_refused_or_read_back(store: &Store) {
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("a")).unwrap();
    let mut kept = 0;
    for depth in [
        1, 99, 100, 101, 120, 122, 123, 124, 125, 126, 127, 128, 129, 500,
    ] {
        let extra = serde_json::Map::from_iter([("x".to_owned(), nested(depth))]);
        let message = ChatMessage {
            extra: extra.clone(),
            ..ChatMessage::text(ChatRole::User, "x")
        };
        let saved = chats.save_messages(&chat.chat_id, vec![message]);
        assert_eq!(saved.is_ok(), depth <= 100, "{depth}");
        let step = Step {
            chat_id: chat.chat_id.clone(),
            extra: extra.clone(),
            ..Step::new(format!("r{depth}"), "a", "s", StepType::Llm)
        };
        assert_eq!(
            chats.save_steps(vec![step]).is_ok(),
            depth <= 100,
            "{depth}"
        );
        let made = chats.create_chat(Chat {
            extra: extra.clone(),
            ..Chat::new("a")
        });
        assert_eq!(made.is_ok(), depth <= 100, "{depth}");
        let updates = Updates::new().with("x", json(&nested_text(depth)));
        assert_eq!(
            chats.update_chat(&chat.chat_id, &updates).is_ok(),
            depth <= 100,
            "{depth}"
        );
        // Of definitions, no field is kept that nobody reads, however deep.
        let agent = AgentDefinition {
            extra,
            ..AgentDefinition::new(format!("a{depth}"), "d")
        };
        assert_eq!(
            kind(store.agents().define(agent)),
            ErrorKind::InvalidInput,
            "{depth}"
        );
        kept += usize::from(depth <= 100);
        // A copy has its chat's fields, deeper inside of another record.
        store
            .copy_session(chat.chat_id.parse().unwrap(), &CopySession::default())
            .unwrap();
    }
    assert_eq!(
        chats
            .get_messages(&chat.chat_id, &MessageFilter::default())
            .unwrap()
            .len(),
        kept
    );
    assert!(chats.get_chat(&chat.chat_id).unwrap().unwrap().extra["x"].is_array());
    store.create_session(NewSession::default()).unwrap();
}

fn deep_json_that_is_kept_byte_for_byte_is_read_back(store: &Store) {
    let chats = store.chats();
    let deep = nested_text(100_000);
    let object = json(&format!(
        r#"{{"x":{deep},"n":1e999999,"big":{},"lone":"\ud800"}}"#,
        "9".repeat(400)
    ));
    let chat = chats
        .create_chat(Chat {
            metadata: Some(object.clone()),
            ..Chat::new("a")
        })
        .unwrap();
    assert_eq!(chat.metadata.as_ref(), Some(&object));
    let message = ChatMessage {
        metadata: Some(object.clone()),
        ..ChatMessage::new(ChatRole::User, "x", object.clone())
    };
    let saved = chats.save_messages(&chat.chat_id, vec![message]).unwrap();
    assert_eq!(
        (&saved[0].props, saved[0].metadata.as_ref()),
        (&object, Some(&object))
    );
    let updated = chats
        .update_message(
            &saved[0].message_id,
            &Updates::new().with("block_id", RawJson::string("b")),
        )
        .unwrap();
    assert_eq!(updated.props, object);

    let (_, instance) = store.start_session(NewSession::default(), "a").unwrap();
    let context = store.context(instance.id).unwrap();
    let text = format!(
        r#"{{"role":"assistant","content":[{deep},{{"x":{deep}}}],"tool_calls":[{{"id":"c","function":{{"name":"f","arguments":{deep}}}}}]}}"#
    );
    context.append_raw_message(json(&text)).unwrap();
    assert_eq!(context.get_messages().unwrap()[0].json.as_str(), text);
    assert_eq!(
        context.dangling_tool_calls().unwrap()[0].arguments.as_str(),
        deep
    );
}

fn a_sequence_at_the_edge_is_kept_and_one_beyond_is_refused(store: &Store) {
    // Those after it are still such that JavaScript tells them apart.
    const MAX: u64 = 1 << 52;
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("a")).unwrap();
    let message = |sequence| ChatMessage {
        sequence,
        ..ChatMessage::text(ChatRole::User, "x")
    };
    let step = |sequence| Step {
        chat_id: chat.chat_id.clone(),
        sequence,
        ..Step::new("r", "a", "s", StepType::Llm)
    };
    for beyond in [MAX + 1, u64::MAX] {
        assert_eq!(
            kind(chats.save_messages(&chat.chat_id, vec![message(beyond)])),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(chats.save_steps(vec![step(beyond)])),
            ErrorKind::InvalidInput
        );
    }
    for sequence in [MAX, 0, 0] {
        chats
            .save_messages(&chat.chat_id, vec![message(sequence)])
            .unwrap();
        chats.save_steps(vec![step(sequence)]).unwrap();
    }
    let sequences =
        |messages: Vec<ChatMessage>| messages.iter().map(|it| it.sequence).collect::<Vec<_>>();
    let messages = chats
        .get_messages(&chat.chat_id, &MessageFilter::default())
        .unwrap();
    let beyond = Updates::new().with("sequence", json("18446744073709551615"));
    assert_eq!(
        kind(chats.update_message(&messages[0].message_id, &beyond)),
        ErrorKind::InvalidInput
    );
    assert_eq!(sequences(messages), [MAX, MAX + 1, MAX + 2]);
    assert_eq!(chats.get_steps("r").unwrap().len(), 3);
}

fn a_flow_state_that_is_saved_can_be_resumed(store: &Store) {
    for depth in [1, 100, 101, 124, 125, 126, 127, 128, 200] {
        let mut flow = FlowRun::create(store, None).unwrap();
        let finished = flow.finish_node("node", nested(depth));
        assert_eq!(finished.is_ok(), depth <= 100, "{depth}");
        let command = json(&format!(
            r#"{{"type":"send","runId":"r","x":{}}}"#,
            nested_text(depth)
        ));
        assert_eq!(flow.command(&command).is_ok(), depth <= 100, "{depth}");
        flow.state_mut().state.insert("x".into(), nested(depth));
        assert_eq!(flow.save_snapshot().is_ok(), depth <= 100, "{depth}");
        let (resumed, _) = FlowRun::resume(store, flow.run_id(), None).unwrap();
        assert_eq!(resumed.state().outputs.contains_key("node"), depth <= 100);
        assert_eq!(resumed.state().inbox.len(), usize::from(depth <= 100));
    }
}

fn a_null_role_is_no_role_that_was_left_out(store: &Store) {
    let (_, instance) = store.start_session(NewSession::default(), "a").unwrap();
    let append = |text: &str| {
        store
            .contexts()
            .append_event(instance.id, ContextEventKind::UserMessage, json(text), None)
    };
    for refused in [
        r#"{"role":null,"content":"x"}"#,
        r#"{"content":"x","r\u006fle" : null}"#,
    ] {
        assert_eq!(kind(append(refused)), ErrorKind::InvalidInput, "{refused}");
    }
    append(r#"{"content":{"role":null}}"#).unwrap();
    let messages = store.context(instance.id).unwrap().get_messages().unwrap();
    assert_eq!(
        messages[0].json.as_str(),
        r#"{"role":"user","content":{"role":null}}"#
    );
}

fn a_chats_unknown_fields_are_bounded(store: &Store) {
    let chats = store.chats();
    let extra =
        |bytes| serde_json::Map::from_iter([("x".to_owned(), Value::from("x".repeat(bytes)))]);
    let chat = chats
        .create_chat(Chat {
            extra: extra(1 << 19),
            ..Chat::new("a")
        })
        .unwrap();
    assert_eq!(
        kind(chats.create_chat(Chat {
            extra: extra(1 << 20),
            ..Chat::new("a")
        })),
        ErrorKind::TooLarge
    );
    let more = Updates::new().with("y", RawJson::string(&"y".repeat(1 << 19)));
    assert_eq!(
        kind(chats.update_chat(&chat.chat_id, &more)),
        ErrorKind::TooLarge
    );
}

fn a_message_of_as_many_results_as_are_allowed_is_read_back(store: &Store) {
    let (_, instance) = store.start_session(NewSession::default(), "a").unwrap();
    let context = store.context(instance.id).unwrap();
    let of = |count: usize| {
        let block =
            |n| format!(r#"{{"type":"tool_result","tool_use_id":"toolu_{n}","content":"x"}}"#);
        let blocks: Vec<String> = (0..count).map(block).collect();
        json(&format!(
            r#"{{"role":"user","content":[{}]}}"#,
            blocks.join(",")
        ))
    };
    for count in [500, 586, 1_000, 1_024] {
        context.append_raw_message(of(count)).unwrap();
    }
    assert_eq!(
        kind(context.append_raw_message(of(1_025))),
        ErrorKind::TooLarge
    );
    assert_eq!(context.get_messages().unwrap().len(), 4);
    assert_eq!(
        store.contexts().get_events(instance.id, 4).unwrap()[0]
            .tool_results
            .len(),
        1_024
    );
}
