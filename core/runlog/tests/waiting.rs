//! The calls for waiting callers do what their awaiting twins do: one agent's life, from start to overwrite.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

use std::sync::Arc;

use runlog::{
    ErrorKind, InstanceId, NewMessage, NewRun, NewSession, NewToolCall, RawJson, StoreOptions,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole, Updates},
    contexts::{AppendOptions, ContextEventKind, RawMessage},
    engine::storage::MemoryStorage,
    flows::RuntimeEvent,
    sessions::{CopySession, ListSessions, SessionChanges},
    watch::{Mark, Watched},
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
    let told = format!(
        "context of instance {}: expected last sequence 3, but it",
        agent.id
    );
    assert!(error.to_string().starts_with(&told), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn who_watches_a_context_or_a_flow_goes_on_waiting_for_all_else() {
    let blocking = Store::in_memory();
    let (session, agent) = blocking
        .start_session(NewSession::default(), "planner")
        .unwrap();
    let other = blocking
        .create_instance(session.id, "another", None)
        .unwrap();
    let run = blocking.runs().start(NewRun::new(agent.id)).unwrap();
    let mut flow = FlowRun::create(&blocking, Some(run.id())).unwrap();
    let store = blocking.to_async();
    let say = |to: InstanceId| {
        let context = blocking.context(to).unwrap();
        context.append_message(NewMessage::user("hello")).unwrap();
    };
    let pending = |mark: &Mark| {
        let mut waiting = Box::pin(store.changed(mark));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.as_mut().poll(&mut context).is_pending()
    };
    let mark = |of: Watched| -> Mark { blocking.mark(of).unwrap() };

    let (context, of_flow) = (Watched::Context(agent.id), Watched::Flow(run.id()));
    let marks = [mark(context), mark(of_flow)];
    assert!(marks.iter().all(pending), "nothing was written");
    say(other.id);
    assert!(
        marks.iter().all(pending),
        "only what isn't theirs was written"
    );
    let all = mark(Watched::Store);
    assert!(pending(&all));
    say(other.id);
    assert!(!pending(&all), "everything is its own");

    say(agent.id);
    assert!(!pending(&marks[0]) && pending(&marks[1]), "their own was");
    let marks = [mark(context), mark(of_flow)];
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:tick"}"#).unwrap())
        .unwrap();
    assert!(pending(&marks[0]) && !pending(&marks[1]));

    // What was truncated and written again is another event at the same sequence.
    let marks = [mark(context), mark(of_flow)];
    blocking
        .contexts()
        .delete_events_after(agent.id, 0)
        .unwrap();
    say(agent.id);
    assert!(!pending(&marks[0]) && pending(&marks[1]));
    let of_flow = mark(of_flow);
    run.complete(Some("done")).unwrap();
    assert!(!pending(&of_flow), "its run has ended");
    let of_context = mark(context);
    blocking.delete_session(session.id).unwrap();
    assert!(!pending(&of_context), "its session is gone");
    blocking.close().unwrap();
    assert!(pollster::block_on(store.changed(&mark(Watched::Store))).is_err());
}

#[test]
fn a_copy_has_whoever_was_there_before_its_end() {
    let store = Store::in_memory();
    let (session, lead) = store.start_session(NewSession::default(), "lead").unwrap();
    let say = |to: InstanceId, text: &str| {
        let context = store.context(to).unwrap();
        context.append_message(NewMessage::user(text)).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(3));
    };
    let copied = |up_to| {
        let options = CopySession {
            up_to_sequence: Some(up_to),
            ..CopySession::default()
        };
        let copy = store.copy_session(session.id, &options).unwrap();
        let names = copy.instances.iter().map(|it| {
            let last = store.contexts().last_sequence(it.instance.id).unwrap();
            format!("{} {last}", it.instance.agent_name)
        });
        names.collect::<Vec<_>>().join(", ")
    };
    say(lead.id, "first");
    let below = |parent: InstanceId, name: &str| {
        store
            .create_instance(session.id, name, Some(parent))
            .unwrap()
            .id
    };
    // It says nothing itself.
    let manager = below(lead.id, "manager");
    let worker = below(manager, "worker");
    say(worker, "worked before the second");
    say(lead.id, "second");
    below(lead.id, "later");
    std::thread::sleep(std::time::Duration::from_millis(3));
    say(lead.id, "third");
    assert_eq!(copied(1), "lead 1, manager 0, worker 1");
    assert_eq!(copied(2), "lead 2, manager 0, worker 1");
    assert_eq!(copied(3), "lead 3, manager 0, worker 1, later 0");
}

#[test]
fn a_session_is_copied_while_it_is_truncated() {
    let store = Store::in_memory();
    let (session, agent) = store.start_session(NewSession::default(), "lead").unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let context = store.context(agent.id).unwrap();
            while !is_over.load(std::sync::atomic::Ordering::SeqCst) {
                for _ in 0..3 {
                    context.append_message(NewMessage::user("x")).unwrap();
                }
                store.truncate_session(session.id, 0).unwrap();
            }
        });
        let mut copies = Vec::new();
        for _ in 0..500 {
            copies.push(store.copy_session(session.id, &CopySession::default()));
        }
        is_over.store(true, std::sync::atomic::Ordering::SeqCst);
        // One that is outrun for ever is told that it is a conflict.
        for refused in copies.iter().filter_map(|copied| copied.as_ref().err()) {
            assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        }
        assert!(copies.iter().any(Result::is_ok));
    });
}

#[test]
fn who_watches_a_chat_goes_on_waiting_for_all_else_and_readers_see_its_changes() {
    let storage = MemoryStorage::new();
    let open = |options| Store::open_on(Arc::new(storage.clone()), options).unwrap();
    let store = open(StoreOptions::default());
    let chats = store.chats();
    let new = || chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let (chat, other) = (new(), new());
    let reader = open(StoreOptions::default().read_only());
    let session = chats.session_id(&chat).unwrap();
    let pending = |store: &Store, mark: &Mark| {
        let store = store.to_async();
        let mut waiting = Box::pin(store.changed(mark));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.as_mut().poll(&mut context).is_pending()
    };
    let say = |chat: &str| {
        let message = ChatMessage::text(ChatRole::User, "x");
        let saved = chats.save_messages(chat, vec![message]).unwrap();
        saved[0].message_id.clone()
    };
    let mark = |store: &Store| store.mark(Watched::Chat(session)).unwrap();
    let before = mark(&store);
    say(&other);
    chats.delete_chat(&other).unwrap();
    assert!(
        pending(&store, &before),
        "only what isn't its own was written"
    );
    let said = say(&chat);
    assert!(!pending(&store, &before));
    let updates = Updates::new().with("title", RawJson::string("Oslo"));
    let changes: [&dyn Fn(); 5] = [
        &|| drop(chats.update_chat(&chat, &updates).unwrap()),
        &|| {
            drop(
                chats
                    .update_message(&said, &Updates::parse(r#"{"sort":1}"#).unwrap())
                    .unwrap(),
            )
        },
        &|| chats.delete_messages(&chat, &[&said]).unwrap(),
        &|| chats.delete_chat(&chat).unwrap(),
        &|| drop(chats.restore_chat(&chat).unwrap()),
    ];
    for (what, change) in changes.into_iter().enumerate() {
        let marks = [&store, &reader].map(mark);
        assert!(pending(&store, &marks[0]), "before {what}");
        change();
        assert!(!pending(&store, &marks[0]), "after {what}");
        let told = |mark: &Mark| serde_json::to_value(mark).unwrap()["streams"].clone();
        assert_ne!(told(&mark(&reader)), told(&marks[1]), "read after {what}");
    }
}
