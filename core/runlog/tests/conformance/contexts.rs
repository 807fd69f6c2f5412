//! Claims about contexts: repository and service, on any backend.

use std::sync::Arc;

use runlog::{
    ErrorKind, InstanceId, Message, NewMessage, NewSession, NewToolCall, RawJson, RunId, Store,
    backend::Backend,
    contexts::{
        AppendOptions, Context, ContextEvent, ContextEventKind as Kind, EventOptions, RawMessage,
    },
};
use runlog_engine::{Batch, Op, Position};
use uuid::Uuid;

type Shared = Arc<dyn Backend>;

pub fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

pub fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .map(|message| message.json.as_str())
        .collect()
}

async fn new_context(backend: Shared) -> (Store, Context) {
    let store = Store::with_backend(backend);
    let (_, agent) = store
        .start_session(NewSession::default(), "planner")
        .await
        .unwrap();
    let context = store.context(agent.id).await.unwrap();
    (store, context)
}

async fn another(store: &Store, context: &Context) -> InstanceId {
    let first = store
        .get_instance(context.instance_id())
        .await
        .unwrap()
        .unwrap();
    store
        .create_instance(first.session_id, "helper", Some(first.id))
        .await
        .unwrap()
        .id
}

async fn say(context: &Context, words: &[&str]) {
    for word in words {
        context
            .append_message(NewMessage::user(word))
            .await
            .unwrap();
    }
}

fn numbers(events: &[ContextEvent]) -> Vec<u64> {
    events.iter().map(|event| event.sequence_number).collect()
}

pub async fn events_are_created_read_and_deleted(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let (contexts, agent) = (store.contexts(), context.instance_id());
    assert_eq!(
        contexts
            .get_instance(agent)
            .await
            .unwrap()
            .unwrap()
            .agent_name,
        "planner"
    );
    assert_eq!(contexts.get_events(agent, 0).await.unwrap(), []);
    assert_eq!(contexts.last_sequence(agent).await.unwrap(), 0);

    let given = [
        (
            Kind::SystemMessage,
            r#"{"role":"system","content":"be brief"}"#,
            None,
        ),
        (Kind::UserMessage, r#"{"role":"user","content":"go"}"#, None),
        (
            Kind::AssistantMessage,
            r#"{"role":"assistant","content":null}"#,
            None,
        ),
        (
            Kind::ToolCall,
            r#"{"id":"c1","name":"ls","arguments":{}}"#,
            Some("c1"),
        ),
        (
            Kind::ToolResult,
            r#"{"tool_call_id":"c1","content":"a b"}"#,
            Some("c1"),
        ),
    ];
    let mut appended = Vec::new();
    for (kind, content, id) in given {
        appended.push(
            contexts
                .append_event(agent, kind, raw(content), id)
                .await
                .unwrap(),
        );
    }
    assert_eq!(numbers(&appended), [1, 2, 3, 4, 5]);
    let read = contexts.get_events(agent, 0).await.unwrap();
    assert_eq!(read, appended);
    for (event, (kind, content, id)) in read.iter().zip(given) {
        assert_eq!(
            (
                event.event_type,
                event.content.as_str(),
                event.tool_call_id.as_deref()
            ),
            (kind, content, id)
        );
        assert_eq!(event.instance_id, agent);
        assert!(event.position > 0 && event.created_at_ms > 0);
    }
    assert_eq!(
        numbers(&contexts.get_events(agent, 4).await.unwrap()),
        [4, 5]
    );
    assert_eq!(contexts.get_events(agent, 6).await.unwrap(), []);
    assert_eq!(contexts.event(agent, 2).await.unwrap().unwrap(), read[1]);
    assert_eq!(contexts.delete_events_after(agent, 3).await.unwrap(), 2);
    assert_eq!(
        numbers(&contexts.get_events(agent, 0).await.unwrap()),
        [1, 2, 3]
    );
}

pub async fn events_keep_their_order_over_many_pages(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let filler = "x".repeat(100 << 10);
    let messages = (0..50).map(|number| {
        RawMessage::from(raw(&format!(
            r#"{{"role":"user","n":{number},"content":"{filler}"}}"#
        )))
    });
    context
        .append_raw_messages(messages, &AppendOptions::default())
        .await
        .unwrap();
    let mut pages = store
        .contexts()
        .events(context.instance_id(), 0)
        .await
        .unwrap();
    let (mut seen, mut count) = (Vec::new(), 0);
    while let Some(page) = pages.next_page().await.unwrap() {
        seen.extend(numbers(&page));
        count += 1;
    }
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(count >= 4, "5 MB came in {count} pages");
    assert!(pages.next_page().await.unwrap().is_none());
    let all = store
        .contexts()
        .get_events(context.instance_id(), 0)
        .await
        .unwrap();
    assert!(
        all.iter()
            .zip(0..)
            .all(|(event, number)| event.content.as_str().contains(&format!("\"n\":{number},")))
    );
}

pub async fn every_event_tells_what_was_said_of_it(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let run_id = RunId(Uuid::from_u128(7));
    let event = EventOptions {
        run_id: Some(run_id),
        step_number: Some(46),
        created_at_ms: Some(1_234),
        tool_is_error: Some(true),
        tool_duration_ms: Some(9),
    };
    let options = AppendOptions {
        event,
        ..AppendOptions::default()
    };
    context
        .append_message_with(NewMessage::tool("c1", "no"), &options)
        .await
        .unwrap();
    let event = store
        .contexts()
        .event(context.instance_id(), 1)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (event.run_id, event.step_number, event.created_at_ms),
        (Some(run_id), Some(46), 1_234)
    );
    let result = &event.tool_results[0];
    assert_eq!(
        (
            result.tool_call_id.as_deref(),
            result.is_error,
            result.duration_ms
        ),
        (Some("c1"), true, Some(9))
    );
}

pub async fn a_message_and_its_tool_calls_are_one_append(backend: Shared) {
    let (store, context) = new_context(backend).await;
    say(&context, &["go"]).await;
    let calls = [
        NewToolCall::new("c1", "ls", "{ }"),
        NewToolCall::new("c2", "cat", r#"{"path":"é"}"#),
    ];
    let result = context
        .append_message(NewMessage::assistant("ok").with_tool_calls(calls))
        .await
        .unwrap();
    assert_eq!(
        (result.first_sequence, result.last_sequence, result.repeated),
        (2, 4, false)
    );
    context
        .append_message(NewMessage::tool("c1", "a b"))
        .await
        .unwrap();
    let events = store
        .contexts()
        .get_events(context.instance_id(), 2)
        .await
        .unwrap();
    let kinds: Vec<Kind> = events.iter().map(|event| event.event_type).collect();
    assert_eq!(
        kinds,
        [
            Kind::AssistantMessage,
            Kind::ToolCall,
            Kind::ToolCall,
            Kind::ToolResult
        ]
    );
    assert_eq!(events[0].position, result.position);
    assert_eq!(
        events[2].content.as_str(),
        r#"{"id":"c2","name":"cat","arguments":"{\"path\":\"é\"}"}"#
    );
    assert_eq!(events[2].tool_call_id.as_deref(), Some("c2"));
    assert_eq!(
        context.get_messages().await.unwrap().len(),
        3,
        "tool_call events are no messages"
    );
}

pub async fn messages_come_back_byte_for_byte(backend: Shared) {
    let (_, context) = new_context(backend).await;
    let given = [
        " {\"content\" : \"\\u00e9\\/ \\ud800\", \"role\":\"user\" }\n",
        r#"{"role":"assistant","n":1.50e+2,"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\": 1.0}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"  "}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"g","input":{}},{"type":"tool_use","id":"t2","name":"g","input":{}}]}"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t2"}]}"#,
    ];
    for text in given {
        context.append_raw_message(raw(text)).await.unwrap();
    }
    let messages = context.get_messages().await.unwrap();
    assert_eq!(texts(&messages), given);
    assert_eq!(context.dangling_tool_calls().await.unwrap(), []);
}

pub async fn replay_starts_where_it_is_asked_to(backend: Shared) {
    let (_, context) = new_context(backend).await;
    say(&context, &["a", "b", "c"]).await;
    let from = async |sequence| context.replay_from_sequence(sequence).await.unwrap();
    assert_eq!(from(0).await, from(1).await);
    assert_eq!(
        texts(&from(2).await),
        [
            r#"{"role":"user","content":"b"}"#,
            r#"{"role":"user","content":"c"}"#
        ]
    );
    assert_eq!(from(4).await, []);
    assert_eq!(from(u64::MAX).await, []);
    assert_eq!(context.get_last_sequence().await.unwrap(), 3);
}

pub async fn truncation_counts_what_it_deletes(backend: Shared) {
    let (_, context) = new_context(backend).await;
    assert_eq!(
        context.truncate_after_sequence(0).await.unwrap(),
        0,
        "an empty context has nothing to delete"
    );
    say(&context, &["a", "b", "c", "d"]).await;
    assert_eq!(context.truncate_after_sequence(4).await.unwrap(), 0);
    assert_eq!(context.truncate_after_sequence(1).await.unwrap(), 3);
    say(&context, &["e"]).await;
    assert_eq!(context.get_last_sequence().await.unwrap(), 2);
    let messages = context.get_messages().await.unwrap();
    assert_eq!(texts(&messages)[1], r#"{"role":"user","content":"e"}"#);
    let error = context.truncate_after_sequence(3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error.to_string().contains("ends at sequence 2, before 3"),
        "{error}"
    );
    assert_eq!(context.truncate_after_sequence(0).await.unwrap(), 2);
    assert_eq!(context.get_messages().await.unwrap(), []);
}

pub async fn a_copy_is_independent_of_its_source(backend: Shared) {
    let (store, context) = new_context(backend).await;
    say(&context, &["a", "b", "c"]).await;
    let target = another(&store, &context).await;
    assert_eq!(
        context.copy_to_new_instance(target, Some(2)).await.unwrap(),
        2
    );
    let copy = store.context(target).await.unwrap();
    let before = context.get_messages().await.unwrap();
    assert_eq!(copy.get_messages().await.unwrap(), before[..2]);
    let events = store.contexts().get_events(target, 0).await.unwrap();
    assert!(events.iter().all(|event| event.instance_id == target));

    context.truncate_after_sequence(1).await.unwrap();
    say(&copy, &["d"]).await;
    assert_eq!(copy.get_messages().await.unwrap()[..2], before[..2]);
    assert_eq!(copy.get_last_sequence().await.unwrap(), 3);
    assert_eq!(context.get_last_sequence().await.unwrap(), 1);
    let whole = another(&store, &context).await;
    assert_eq!(copy.copy_to_new_instance(whole, None).await.unwrap(), 3);
}

pub async fn a_copy_into_an_emptied_context_is_the_same_copy(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let calls = [NewToolCall::new("c1", "ls", "{}")];
    context
        .append_message(NewMessage::assistant("ok").with_tool_calls(calls))
        .await
        .unwrap();
    context
        .append_message(NewMessage::tool("c1", "x"))
        .await
        .unwrap();
    say(&context, &["b"]).await;
    let target = store
        .context(another(&store, &context).await)
        .await
        .unwrap();
    say(&target, &["soon forgotten"]).await;
    target.truncate_after_sequence(0).await.unwrap();
    assert_eq!(
        context
            .copy_to_new_instance(target.instance_id(), Some(3))
            .await
            .unwrap(),
        3
    );
    let source = store
        .contexts()
        .get_events(context.instance_id(), 0)
        .await
        .unwrap();
    let copied = store
        .contexts()
        .get_events(target.instance_id(), 0)
        .await
        .unwrap();
    assert_eq!(copied.len(), 3);
    for (copy, original) in copied.iter().zip(&source) {
        assert_eq!(copy.content, original.content);
        assert_eq!(
            (copy.created_at_ms, copy.sequence_number),
            (original.created_at_ms, original.sequence_number)
        );
        assert_eq!(
            (&copy.tool_call_id, &copy.tool_results),
            (&original.tool_call_id, &original.tool_results)
        );
        assert!(copy.position > original.position);
    }
}

pub async fn a_refused_copy_copies_nothing(backend: Shared) {
    let (store, context) = new_context(backend).await;
    say(&context, &["a", "b"]).await;
    let target = another(&store, &context).await;
    let copy = async |source, target, up_to| {
        store
            .contexts()
            .copy_events(source, target, up_to)
            .await
            .unwrap_err()
    };
    let nobody = InstanceId(Uuid::from_u128(1));
    let source = context.instance_id();
    assert_eq!(
        copy(source, target, Some(3)).await.kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        copy(source, source, None).await.kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(copy(nobody, target, None).await.kind(), ErrorKind::NotFound);
    assert_eq!(copy(source, nobody, None).await.kind(), ErrorKind::NotFound);
    assert_eq!(store.contexts().last_sequence(target).await.unwrap(), 0);
    let empty = another(&store, &context).await;
    assert_eq!(
        store
            .contexts()
            .copy_events(empty, target, None)
            .await
            .unwrap(),
        0
    );
    say(&store.context(target).await.unwrap(), &["x"]).await;
    let error = copy(source, target, None).await;
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(
        error
            .to_string()
            .contains("has 1 events already; copy to an instance that has none"),
        "{error}"
    );
    assert_eq!(store.contexts().last_sequence(target).await.unwrap(), 1);
}

pub async fn an_expected_sequence_guards_a_context(backend: Shared) {
    let (_, context) = new_context(backend).await;
    let expecting = |last| AppendOptions {
        expected_last_sequence: Some(last),
        ..AppendOptions::default()
    };
    context
        .append_message_with(NewMessage::user("a"), &expecting(0))
        .await
        .unwrap();
    let error = context
        .append_message_with(NewMessage::user("b"), &expecting(0))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error
            .to_string()
            .contains(&context.instance_id().to_string()),
        "{error}"
    );
    assert_eq!(context.get_last_sequence().await.unwrap(), 1);
    context
        .append_message_with(NewMessage::user("b"), &expecting(1))
        .await
        .unwrap();
}

pub async fn an_idempotency_key_appends_once(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let keyed = AppendOptions {
        idempotency_key: Some("message-1".into()),
        ..AppendOptions::default()
    };
    let first = context
        .append_message_with(NewMessage::user("a"), &keyed)
        .await
        .unwrap();
    say(&context, &["b"]).await;
    let again = context
        .append_message_with(NewMessage::user("a"), &keyed)
        .await
        .unwrap();
    assert_eq!(
        (again.repeated, again.first_sequence, again.position),
        (true, 1, first.position)
    );
    let content = raw(r#"{"content":"other"}"#);
    let event = store
        .contexts()
        .append_event_with(
            context.instance_id(),
            Kind::UserMessage,
            content,
            None,
            &keyed,
        )
        .await;
    assert_eq!(
        event.unwrap().content.as_str(),
        r#"{"role":"user","content":"a"}"#,
        "the first event is given back"
    );
    assert_eq!(context.get_last_sequence().await.unwrap(), 2);
}

pub async fn bad_input_is_refused_and_writes_nothing(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let (contexts, agent) = (store.contexts(), context.instance_id());
    let nobody = InstanceId(Uuid::from_u128(9));
    let good = || raw(r#"{"role":"user","content":"x"}"#);
    let error = contexts
        .append_event(nobody, Kind::UserMessage, good(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("create it first"), "{error}");
    for result in [
        contexts.get_events(nobody, 0).await.map(|_| ()),
        contexts.delete_events_after(nobody, 0).await.map(|_| ()),
        contexts.last_sequence(nobody).await.map(|_| ()),
        store.context(nobody).await.map(|_| ()),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert_eq!(contexts.get_instance(nobody).await.unwrap(), None);

    for (kind, content, id) in [
        (Kind::AssistantMessage, r#"{"role":"user"}"#, None),
        (Kind::UserMessage, "[1]", None),
        (Kind::ToolResult, r#"{"content":"x"}"#, None),
    ] {
        let error = contexts
            .append_event(agent, kind, raw(content), id)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    let messages = [good(), raw(r#"{"role":"robot"}"#)].map(RawMessage::from);
    let error = context
        .append_raw_messages(messages, &AppendOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error
            .to_string()
            .starts_with("message 2 of the batch: unknown role \"robot\""),
        "{error}"
    );
    assert_eq!(
        context
            .append_raw_message(raw("{}"))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let no_id = NewMessage {
        tool_call_id: None,
        ..NewMessage::tool("", "x")
    };
    assert_eq!(
        context.append_message(no_id).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(context.get_last_sequence().await.unwrap(), 0);
}

pub async fn a_redacted_event_keeps_its_place(backend: Shared) {
    let (store, context) = new_context(Arc::clone(&backend)).await;
    say(&context, &["a", "secret", "c"]).await;
    let event = store
        .contexts()
        .event(context.instance_id(), 2)
        .await
        .unwrap()
        .unwrap();
    let redact = Op::Redact {
        position: Position(event.position),
        reason: "asked for",
    };
    backend.commit(Batch::new(vec![redact])).await.unwrap();
    let messages = context.get_messages().await.unwrap();
    assert_eq!(
        texts(&messages)[1],
        r#"{"role":"user","content":"[redacted]"}"#
    );
    let event = store
        .contexts()
        .event(context.instance_id(), 2)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (event.redacted, event.event_type, event.content.as_str()),
        (true, Kind::UserMessage, "null")
    );
}

pub async fn dangling_calls_are_found_and_closed(backend: Shared) {
    let (store, context) = new_context(backend).await;
    let calls = ["c1", "c2", "c3"].map(|id| NewToolCall::new(id, "ls", "{}"));
    context
        .append_message(NewMessage::assistant("ok").with_tool_calls(calls))
        .await
        .unwrap();
    context
        .append_message(NewMessage::tool("c2", "done"))
        .await
        .unwrap();
    let open = context.dangling_tool_calls().await.unwrap();
    assert_eq!(
        open.iter()
            .map(|call| call.id.as_deref())
            .collect::<Vec<_>>(),
        [Some("c1"), Some("c3")]
    );
    let closed = context
        .close_dangling_tool_calls("the process stopped")
        .await
        .unwrap();
    assert_eq!(closed, open);
    assert_eq!(context.dangling_tool_calls().await.unwrap(), []);
    assert_eq!(
        context.close_dangling_tool_calls("again").await.unwrap(),
        []
    );
    let messages = context.get_messages().await.unwrap();
    assert_eq!(
        texts(&messages)[2],
        r#"{"role":"tool","tool_call_id":"c1","content":"the process stopped"}"#
    );
    assert_eq!(messages.len(), 4);
    let last = store
        .contexts()
        .event(context.instance_id(), 7)
        .await
        .unwrap()
        .unwrap();
    assert!(last.tool_results[0].is_error);
}

pub async fn an_agent_run_is_persisted_as_it_happens(backend: Shared) {
    let (store, context) = new_context(Arc::clone(&backend)).await;
    let mut sent: Vec<String> = Vec::new();
    context
        .append_message(NewMessage::system("You plan trips."))
        .await
        .unwrap();
    context
        .append_message(NewMessage::user("Oslo, please."))
        .await
        .unwrap();
    for step in 0..10 {
        let id = format!("call_{step}");
        let call = NewToolCall::new(&id, "search", format!(r#"{{"page":{step}}}"#));
        context
            .append_message(NewMessage::assistant("").with_tool_calls([call]))
            .await
            .unwrap();
        // After every write, a store that was just opened sees the same context.
        let fresh = Store::with_backend(Arc::clone(&backend))
            .context(context.instance_id())
            .await
            .unwrap();
        assert_eq!(fresh.dangling_tool_calls().await.unwrap().len(), 1);
        context
            .append_message(NewMessage::tool(&id, "found"))
            .await
            .unwrap();
        let messages = fresh.get_messages().await.unwrap();
        assert_eq!(texts(&messages)[..sent.len()], sent);
        sent = texts(&messages).into_iter().map(str::to_owned).collect();
    }
    assert_eq!(sent.len(), 22);
    assert_eq!(
        store
            .contexts()
            .last_sequence(context.instance_id())
            .await
            .unwrap(),
        32
    );
}
