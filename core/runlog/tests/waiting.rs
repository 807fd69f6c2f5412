//! The calls for waiting callers do what their awaiting twins do: one agent's life, from start to overwrite.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use runlog::{
    ErrorKind, NewMessage, NewSession, NewToolCall, RawJson,
    blocking::Store,
    contexts::{AppendOptions, ContextEventKind, RawMessage},
    sessions::{CopySession, ListSessions, SessionChanges},
};

#[test]
fn an_agent_is_recorded_resumed_copied_and_overwritten() {
    let store = Store::in_memory();
    let session = store.create_session(NewSession::named("trip")).unwrap();
    let contexts = store.contexts();
    let agent = contexts
        .create_instance(session.id, "planner", None)
        .unwrap();
    assert_eq!(
        contexts.get_instance(agent.id).unwrap(),
        Some(agent.clone())
    );

    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::system("Plan.")).unwrap();
    context
        .append_raw_message(RawJson::parse(r#"{ "role":"user","content":"Oslo" }"#).unwrap())
        .unwrap();
    let call = NewToolCall::new("c1", "search", "{}");
    context
        .append_message(NewMessage::assistant("").with_tool_calls([call]))
        .unwrap();
    assert_eq!(context.get_last_sequence().unwrap(), 4);

    let root = store
        .root_instance(store.find_session("trip").unwrap().id)
        .unwrap();
    let context = store.context(root.id).unwrap();
    assert_eq!(context.instance_id(), agent.id);
    assert_eq!(context.dangling_tool_calls().unwrap().len(), 1);
    assert_eq!(
        context.close_dangling_tool_calls("stopped").unwrap().len(),
        1
    );
    assert_eq!(context.replay_from_sequence(5).unwrap().len(), 1);

    let copy = store
        .copy_session(
            session.id,
            &CopySession {
                up_to_sequence: Some(2),
                ..CopySession::default()
            },
        )
        .unwrap();
    let copied = copy.instances[0].instance.id;
    assert_eq!(store.instances(copy.session.id).unwrap().len(), 1);
    assert_eq!(contexts.last_sequence(copied).unwrap(), 2);
    assert_eq!(store.truncate_session(session.id, 2).unwrap(), 3);
    assert_eq!(
        contexts
            .event(agent.id, 2)
            .unwrap()
            .unwrap()
            .content
            .as_str(),
        r#"{ "role":"user","content":"Oslo" }"#
    );
    assert_eq!(context.truncate_after_sequence(1).unwrap(), 1);
    assert_eq!(contexts.delete_events_after(agent.id, 0).unwrap(), 1);

    let other = store
        .create_instance(session.id, "helper", Some(agent.id))
        .unwrap();
    assert_eq!(
        store
            .context(copied)
            .unwrap()
            .copy_to_new_instance(other.id, None)
            .unwrap(),
        2
    );
    let content = RawJson::parse(r#"{"content":"x"}"#).unwrap();
    contexts
        .append_event(other.id, ContextEventKind::UserMessage, content, None)
        .unwrap();
    let sequences: Vec<u64> = contexts
        .events(other.id, 2)
        .unwrap()
        .map(|event| event.unwrap().sequence_number)
        .collect();
    assert_eq!(sequences, [2, 3]);
    assert_eq!(contexts.copy_events(other.id, agent.id, None).unwrap(), 3);

    store
        .update_session(
            session.id,
            SessionChanges {
                title: Some("Oslo".into()),
                ..SessionChanges::default()
            },
        )
        .unwrap();
    store.archive_session(session.id).unwrap();
    store.unarchive_session(session.id).unwrap();
    assert_eq!(
        store
            .get_session(session.id)
            .unwrap()
            .unwrap()
            .title
            .as_deref(),
        Some("Oslo")
    );
    store.delete_session(session.id).unwrap();
    assert_eq!(
        store.list_sessions(&ListSessions::default()).unwrap().items,
        [copy.session]
    );
}

#[test]
fn a_batch_of_messages_is_refused_whole() {
    let store = Store::in_memory();
    let (_, agent) = store
        .start_session(NewSession::default(), "planner")
        .unwrap();
    let context = store.context(agent.id).unwrap();
    let messages =
        [r#"{"role":"user"}"#, "[]"].map(|text| RawMessage::from(RawJson::parse(text).unwrap()));
    let error = context
        .append_raw_messages(messages, &AppendOptions::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(context.get_messages().unwrap(), []);
}

#[test]
fn errors_name_what_was_wrong_and_keep_their_source() {
    let store = Store::in_memory();
    let (_, agent) = store
        .start_session(NewSession::default(), "planner")
        .unwrap();
    let expecting = AppendOptions {
        expected_last_sequence: Some(3),
        ..AppendOptions::default()
    };
    let error = store
        .context(agent.id)
        .unwrap()
        .append_message_with(NewMessage::user("x"), &expecting)
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.kind().name()),
        (ErrorKind::Conflict, "conflict")
    );
    assert!(
        error.to_string().contains("expected last sequence 3"),
        "{error}"
    );
    assert!(std::error::Error::source(&error).is_some());
}
