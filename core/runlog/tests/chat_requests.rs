//! S4's write strategy and resume flow, row by row; on memory and on disk.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;
mod watched;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use runlog::{
    ErrorKind, RawJson,
    backend::Backend,
    blocking::{RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ImportOptions, ListRequests, MessageFilter, NewRequest,
        RequestEnd, ResumeAction, Step, StepStatus, StepType, Table, Updates,
    },
    engine::StreamId,
};
use watched::Watched;

both! {
    a_typical_request_of_11_records_takes_2_writes
    at_entry_the_users_message_is_written
    during_execution_everything_is_in_memory
    at_exit_everything_is_written_with_completed_steps
    on_interrupt_the_step_under_way_is_interrupted
    on_error_the_step_under_way_failed
    user_clicks_stop_and_nothing_is_lost
    llm_timeout_and_nothing_is_lost
    tool_failure_and_nothing_is_lost
    network_disconnect_and_nothing_is_lost
    a_panic_unwinds_and_nothing_is_lost
    process_crash_loses_only_what_was_in_memory
    a_finished_request_is_not_written_again
    append_and_replace_change_what_is_sent
    a_message_is_saved_with_its_final_content_only
    a_request_in_a_deleted_chat_is_refused
    what_could_not_be_written_is_refused_at_once
    the_example_of_nested_delegation_row_by_row
    a_resumed_request_goes_on_in_its_stack_and_space
    a_step_that_was_cut_off_twice_is_completed_once_for_all
    a_chain_of_three_returns_level_by_level
    each_step_type_is_resumed_with_its_input
    the_status_says_what_can_be_resumed
    a_completed_chat_has_nothing_to_resume
    an_exclusive_request_is_the_only_one_of_its_chat_when_it_begins
    the_old_tables_are_imported
    rows_of_the_old_table_are_ordered_by_time_and_id
    bad_lines_of_the_old_tables_are_reported_and_the_others_imported
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn kind<T: std::fmt::Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn new_request() -> NewRequest {
    NewRequest {
        request_id: Some("req".into()),
        ..NewRequest::new("analyzer")
    }
}

/// A chat `c` and a request in it with a message, a completed step, and a step under way.
fn begun(store: &Store) -> RequestBuffer {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "c".into(),
            ..Chat::new("analyzer")
        })
        .unwrap();
    let mut request = chats
        .begin_request("c", new_request(), ChatMessage::text(ChatRole::User, "go"))
        .unwrap();
    request
        .send(ChatMessage::text(ChatRole::Assistant, "working"))
        .unwrap();
    let first = request
        .start_step(StepType::Input, json(r#"{"messages":[]}"#))
        .unwrap();
    request.complete_step(&first, None).unwrap();
    request
        .start_step(StepType::Llm, json(r#"{"messages":["x"]}"#))
        .unwrap();
    request
}

fn statuses(store: &Store) -> Vec<StepStatus> {
    store
        .chats()
        .get_steps("req")
        .unwrap()
        .iter()
        .map(|step| step.status)
        .collect()
}

fn messages(store: &Store) -> Vec<ChatMessage> {
    store
        .chats()
        .get_messages("c", &MessageFilter::default())
        .unwrap()
}

/// Everything is there, and the step under way has this status.
fn is_whole(store: &Store, status: StepStatus) {
    assert_eq!(messages(store).len(), 2);
    assert_eq!(statuses(store), [StepStatus::Completed, status]);
}

fn a_typical_request_of_11_records_takes_2_writes(store: &Store) {
    let watched = Watched::new(Arc::clone(store.backend()));
    let store = Store::with_backend(Arc::clone(&watched) as Arc<dyn Backend>);
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("weather")).unwrap();
    watched.batches();
    let asked = ChatMessage::text(ChatRole::User, "Will it rain?");
    let mut request = chats
        .begin_request(&chat.chat_id, NewRequest::new("weather"), asked)
        .unwrap();
    let expected = [
        StepType::HookCreate,
        StepType::Llm,
        StepType::Tool,
        StepType::Llm,
        StepType::HookNext,
    ];
    for step_type in expected {
        let step = request
            .start_step(step_type, json(r#"{"messages":[]}"#))
            .unwrap();
        request
            .send(ChatMessage::text(ChatRole::Assistant, "Yes."))
            .unwrap();
        request
            .complete_step(&step, Some(json(r#"{"content":"Yes."}"#)))
            .unwrap();
    }
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(watched.batches(), 2);
    let found = chats
        .get_messages(&chat.chat_id, &MessageFilter::default())
        .unwrap();
    let steps = chats
        .get_steps(found[0].request_id.as_deref().unwrap())
        .unwrap();
    assert_eq!(found.len() + steps.len(), 11);
    let types: Vec<_> = steps.iter().map(|step| step.step_type).collect();
    assert_eq!(types, expected);
}

fn at_entry_the_users_message_is_written(store: &Store) {
    let request = begun(store);
    assert_eq!(messages(store).len(), 1);
    assert_eq!(
        (
            messages(store)[0].role,
            messages(store)[0].request_id.as_deref()
        ),
        (ChatRole::User, Some("req"))
    );
    drop(request);
    let not_the_users = ChatMessage::text(ChatRole::Assistant, "x");
    assert_eq!(
        kind(
            store
                .chats()
                .begin_request("c", new_request(), not_the_users)
        ),
        ErrorKind::InvalidInput
    );
}

fn during_execution_everything_is_in_memory(store: &Store) {
    let request = begun(store);
    assert_eq!(messages(store).len(), 1);
    assert_eq!(store.chats().get_steps("req").unwrap(), []);
    drop(request);
}

fn at_exit_everything_is_written_with_completed_steps(store: &Store) {
    begun(store).finish(RequestEnd::Completed).unwrap();
    is_whole(store, StepStatus::Completed);
    assert_eq!(messages(store)[1].assistant_id.as_deref(), Some("analyzer"));
    assert_eq!(
        messages(store)
            .iter()
            .map(|message| message.sequence)
            .collect::<Vec<_>>(),
        [1, 2]
    );
}

fn on_interrupt_the_step_under_way_is_interrupted(store: &Store) {
    begun(store).finish(RequestEnd::Interrupted).unwrap();
    is_whole(store, StepStatus::Interrupted);
}

fn on_error_the_step_under_way_failed(store: &Store) {
    begun(store)
        .finish(RequestEnd::Failed("no network".into()))
        .unwrap();
    is_whole(store, StepStatus::Failed);
    let step = store
        .chats()
        .get_last_incomplete_step("c")
        .unwrap()
        .unwrap();
    assert_eq!(step.error.as_deref(), Some("no network"));
}

fn user_clicks_stop_and_nothing_is_lost(store: &Store) {
    drop(begun(store));
    is_whole(store, StepStatus::Interrupted);
}

fn llm_timeout_and_nothing_is_lost(store: &Store) {
    let mut request = begun(store);
    let called: Result<(), _> = Err("the model timed out");
    request.finish(RequestEnd::of(&called)).unwrap();
    is_whole(store, StepStatus::Failed);
}

fn tool_failure_and_nothing_is_lost(store: &Store) {
    let mut request = begun(store);
    let tool = request
        .start_step(
            StepType::Tool,
            json(r#"{"server":"s","tool":"t","args":{}}"#),
        )
        .unwrap();
    request.fail_step(&tool, "exit code 1").unwrap();
    assert_eq!(
        kind(request.complete_step(&tool, None)),
        ErrorKind::InvalidInput
    );
    request
        .finish(RequestEnd::Failed("the tool failed".into()))
        .unwrap();
    assert_eq!(
        statuses(store),
        [
            StepStatus::Completed,
            StepStatus::Failed,
            StepStatus::Failed
        ]
    );
    assert_eq!(
        store.chats().get_steps("req").unwrap()[2].error.as_deref(),
        Some("exit code 1")
    );
}

fn network_disconnect_and_nothing_is_lost(store: &Store) {
    // The task of the request is dropped where it waits, with what it owns.
    let request = begun(store);
    let task = async move {
        let _request = request;
        std::future::pending::<()>().await;
    };
    let mut task = Box::pin(task);
    let poll = task
        .as_mut()
        .poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(poll.is_pending());
    drop(task);
    is_whole(store, StepStatus::Interrupted);
}

fn a_panic_unwinds_and_nothing_is_lost(store: &Store) {
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _request = begun(store);
        std::panic::resume_unwind(Box::new("a hook panicked"));
    }));
    assert!(unwound.is_err());
    is_whole(store, StepStatus::Failed);
}

fn process_crash_loses_only_what_was_in_memory(store: &Store) {
    std::mem::forget(begun(store));
    assert_eq!(messages(store).len(), 1);
    assert_eq!(store.chats().resume("c").unwrap(), None);
}

fn a_finished_request_is_not_written_again(store: &Store) {
    let mut request = begun(store);
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(
        kind(request.finish(RequestEnd::Interrupted)),
        ErrorKind::InvalidInput
    );
    drop(request);
    is_whole(store, StepStatus::Completed);
}

fn append_and_replace_change_what_is_sent(store: &Store) {
    let mut request = begun(store);
    let id = request
        .send(ChatMessage::text(ChatRole::Assistant, "a"))
        .unwrap();
    request.append(&id, "b\"").unwrap();
    request.append(&id, "é").unwrap();
    let loading = ChatMessage::new(ChatRole::Assistant, "loading", json(r#"{"done":false}"#));
    let loading = request
        .send(ChatMessage {
            message_id: "l".into(),
            ..loading
        })
        .unwrap();
    request
        .replace(&loading, json(r#"{ "done": true }"#))
        .unwrap();
    assert_eq!(kind(request.append("nobody", "x")), ErrorKind::NotFound);
    assert_eq!(
        kind(request.replace(&loading, json("[]"))),
        ErrorKind::InvalidInput
    );
    let numbers = request
        .send(ChatMessage::new(
            ChatRole::Assistant,
            "n",
            json(r#"{"content":1}"#),
        ))
        .unwrap();
    assert_eq!(kind(request.append(&numbers, "x")), ErrorKind::InvalidInput);
    let twice = ChatMessage {
        message_id: "l".into(),
        ..ChatMessage::text(ChatRole::Assistant, "x")
    };
    assert_eq!(kind(request.send(twice)), ErrorKind::AlreadyExists);
    request.finish(RequestEnd::Completed).unwrap();
    let props: Vec<_> = messages(store)
        .iter()
        .skip(2)
        .map(|message| message.props.to_string())
        .collect();
    assert_eq!(
        props,
        [
            r#"{"content":"ab\"é"}"#,
            r#"{ "done": true }"#,
            r#"{"content":1}"#
        ]
    );
}

fn a_message_is_saved_with_its_final_content_only(store: &Store) {
    let mut request = begun(store);
    let id = request
        .send(ChatMessage::text(ChatRole::Assistant, ""))
        .unwrap();
    for _ in 0..1_000 {
        request.append(&id, "x").unwrap();
    }
    request.finish(RequestEnd::Completed).unwrap();
    let session = store.find_session("c").unwrap().id;
    let info = pollster::block_on(store.backend().stream(StreamId(session.as_uuid())))
        .unwrap()
        .unwrap();
    let told = "3 messages, 2 steps, and the request as it was begun and as it ended";
    assert_eq!(info.last_sequence.0, 7, "{told}");
}

fn a_request_in_a_deleted_chat_is_refused(store: &Store) {
    let mut request = begun(store);
    store.chats().delete_chat("c").unwrap();
    assert_eq!(
        kind(request.finish(RequestEnd::Completed)),
        ErrorKind::NotFound
    );
    drop(request);
    let again = ChatMessage::text(ChatRole::User, "x");
    assert_eq!(
        kind(store.chats().begin_request("c", new_request(), again)),
        ErrorKind::NotFound
    );
}

fn an_exclusive_request_is_the_only_one_of_its_chat_when_it_begins(store: &Store) {
    let mut first = begun(store);
    let chats = store.chats();
    let exclusive = || NewRequest {
        exclusive: true,
        ..NewRequest::new("analyzer")
    };
    let ask = |chat: &str, new| {
        let asked = ChatMessage::text(ChatRole::User, "and this?");
        chats.begin_request(chat, new, asked)
    };
    let count = || {
        chats
            .get_messages("c", &MessageFilter::default())
            .unwrap()
            .len()
    };
    let before = count();
    let refused = ask("c", exclusive()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(
        refused.to_string(),
        "request \"req\" is under way, and somebody is at work on it; wait until it ends"
    );
    assert_eq!(count(), before);
    // Another chat has nothing to do with it, and who doesn't mind isn't kept from asking.
    let other = chats.create_chat(Chat::new("analyzer")).unwrap().chat_id;
    drop(ask(&other, exclusive()).unwrap());
    let beside = ask("c", NewRequest::new("analyzer")).unwrap();
    first.finish(RequestEnd::Completed).unwrap();
    assert_eq!(kind(ask("c", exclusive())), ErrorKind::Conflict);
    drop(beside);
    let last = ask("c", exclusive()).unwrap();
    assert_eq!(kind(ask("c", exclusive())), ErrorKind::Conflict);
    drop(last);
}

fn what_could_not_be_written_is_refused_at_once(store: &Store) {
    let mut request = begun(store);
    let empty = || Some(String::new());
    for (name, new) in [
        (
            "request_id",
            NewRequest {
                request_id: empty(),
                ..NewRequest::new("a")
            },
        ),
        (
            "stack_id",
            NewRequest {
                stack_id: empty(),
                ..NewRequest::new("a")
            },
        ),
    ] {
        let asked = ChatMessage::text(ChatRole::User, "?");
        let refused = store.chats().begin_request(request.chat_id(), new, asked);
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert_eq!(
            refused.to_string(),
            format!("`{name}` is empty; leave it out for a fresh one")
        );
    }
    let huge = "x".repeat(15 << 20);
    assert_eq!(
        kind(request.send(ChatMessage::text(ChatRole::Assistant, &huge))),
        ErrorKind::TooLarge
    );
    let id = request
        .send(ChatMessage::text(ChatRole::Assistant, ""))
        .unwrap();
    assert_eq!(kind(request.append(&id, &huge)), ErrorKind::TooLarge);
    assert_eq!(
        kind(request.start_step(StepType::Llm, json(&format!("[\"{huge}\"]")))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(request.start_step(StepType::Llm, json(&format!(r#"{{"x":"{huge}"}}"#)))),
        ErrorKind::TooLarge
    );
    assert_eq!(kind(request.leave()), ErrorKind::InvalidInput);
    request.finish(RequestEnd::Completed).unwrap();
    is_whole_with(store, 3);
}

fn is_whole_with(store: &Store, count: usize) {
    assert_eq!(messages(store).len(), count);
}

/// The request of S4's example: analyzer delegates to visualizer, which is interrupted.
fn delegated(store: &Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "c".into(),
            ..Chat::new("analyzer")
        })
        .unwrap();
    let new = NewRequest {
        stack_id: Some("stk_001".into()),
        ..new_request()
    };
    let asked = ChatMessage::text(ChatRole::User, "analyze this data and visualize it");
    let mut request = chats.begin_request("c", new, asked).unwrap();
    for step_type in [StepType::Input, StepType::Llm] {
        let step = request
            .start_step(step_type, json(r#"{"messages":["analyze"]}"#))
            .unwrap();
        request
            .complete_step(&step, Some(json(r#"{"content":"ok"}"#)))
            .unwrap();
    }
    request
        .space_mut()
        .set("choose_prompt", RawJson::string("query"));
    request
        .start_step(
            StepType::Delegate,
            json(r#"{"agent_id":"visualizer","messages":["draw"]}"#),
        )
        .unwrap();
    request.enter_as("visualizer", "stk_002").unwrap();
    let input = request
        .start_step(StepType::Input, json(r#"{"messages":["draw"]}"#))
        .unwrap();
    request.complete_step(&input, None).unwrap();
    request
        .start_step(StepType::Llm, json(r#"{"messages":["draw now"]}"#))
        .unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
}

fn the_example_of_nested_delegation_row_by_row(store: &Store) {
    delegated(store);
    let chats = store.chats();
    let row = |step: &Step| {
        let step = serde_json::to_value(step).unwrap();
        let columns = [
            "sequence",
            "assistant_id",
            "stack_id",
            "stack_parent_id",
            "stack_depth",
            "type",
            "status",
            "space_snapshot",
        ];
        columns
            .map(|column| {
                step.get(column)
                    .map_or("null".into(), |value| value.to_string().replace('"', ""))
            })
            .join(" ")
    };
    let rows: Vec<_> = chats.get_steps("req").unwrap().iter().map(row).collect();
    assert_eq!(
        rows,
        [
            "1 analyzer stk_001 null 0 input completed {}",
            "2 analyzer stk_001 null 0 llm completed {}",
            "3 analyzer stk_001 null 0 delegate running {choose_prompt:query}",
            "4 visualizer stk_002 stk_001 1 input completed {choose_prompt:query}",
            "5 visualizer stk_002 stk_001 1 llm interrupted {choose_prompt:query}",
        ]
    );

    // 1. The step that was interrupted is the 5th.
    let last = chats.get_last_incomplete_step("c").unwrap().unwrap();
    assert_eq!(last.sequence, 5);
    let mut resumption = chats.resume("c").unwrap().unwrap();
    assert_eq!(resumption.step, last);
    // 2. The space is restored.
    assert_eq!(
        resumption.space.get_and_delete("choose_prompt"),
        Some(RawJson::string("query"))
    );
    // 3. It is a nested call.
    assert!(resumption.is_nested());
    // 4. The stack goes from the root to it.
    assert_eq!(resumption.stack_path(), ["stk_001", "stk_002"]);
    assert_eq!(
        chats.get_stack_path("stk_002").unwrap(),
        ["stk_001", "stk_002"]
    );
    assert_eq!(resumption.stack[0].waiting.as_ref().unwrap().sequence, 3);
    assert_eq!(resumption.stack[0].steps.len(), 3);
    assert_eq!(resumption.stack[1].waiting, None);
    // 5. The visualizer goes on, with the 5th step's input.
    assert_eq!(resumption.assistant_id(), "visualizer");
    assert_eq!(
        resumption.input().unwrap().as_str(),
        r#"{"messages":["draw now"]}"#
    );
    assert_eq!(resumption.action(), ResumeAction::Continue);
    // 6. When it has returned, the 3rd step is completed.
    let changed = chats
        .complete_resumed(&resumption, &json(r#"{"content":"a chart"}"#))
        .unwrap();
    assert_eq!(
        changed
            .iter()
            .map(|step| (step.sequence, step.status))
            .collect::<Vec<_>>(),
        [(5, StepStatus::Completed), (3, StepStatus::Completed)]
    );
    let output = chats.get_steps("req").unwrap()[2].output.clone().unwrap();
    assert_eq!(output.as_str(), r#"{"response":{"content":"a chart"}}"#);
    assert_eq!(chats.resume("c").unwrap(), None);
    let late = chats.complete_resumed(&resumption, &json(r#"{}"#));
    assert_eq!(kind(late), ErrorKind::Conflict);
}

fn a_resumed_request_goes_on_in_its_stack_and_space(store: &Store) {
    delegated(store);
    let chats = store.chats();
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&resumption).unwrap();
    assert_eq!(
        (request.assistant_id(), request.stack_id()),
        ("visualizer", "stk_002")
    );
    assert_eq!(
        request.space().get("choose_prompt"),
        Some(&RawJson::string("query"))
    );
    let step = request
        .start_step(StepType::Llm, resumption.input().unwrap().clone())
        .unwrap();
    request.complete_step(&step, None).unwrap();
    request.leave().unwrap();
    assert_eq!(request.assistant_id(), "analyzer");
    request
        .send(ChatMessage::text(ChatRole::Assistant, "here it is"))
        .unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let steps = chats.get_steps("req").unwrap();
    let last = steps.last().unwrap();
    assert_eq!(
        (
            last.sequence,
            last.stack_id.as_str(),
            last.stack_parent_id.as_deref()
        ),
        (6, "stk_002", Some("stk_001"))
    );
    assert_eq!(
        messages(store).last().unwrap().request_id.as_deref(),
        Some("req")
    );
}

fn a_step_that_was_cut_off_twice_is_completed_once_for_all(store: &Store) {
    delegated(store);
    let chats = store.chats();
    let first = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&first).unwrap();
    request
        .start_step(StepType::Llm, first.input().unwrap().clone())
        .unwrap();
    drop(request);
    let second = chats.resume("c").unwrap().unwrap();
    assert_eq!((second.step.sequence, second.input()), (6, first.input()));
    chats.complete_resumed(&second, &json("{}")).unwrap();
    assert_eq!(chats.resume("c").unwrap(), None);
}

fn a_chain_of_three_returns_level_by_level(store: &Store) {
    let mut request = begun(store);
    let first = store.chats();
    for (depth, agent) in ["b", "c"].into_iter().enumerate() {
        request
            .start_step(
                StepType::Delegate,
                json(r#"{"agent_id":"x","messages":[]}"#),
            )
            .unwrap();
        request.enter_as(agent, format!("s{depth}")).unwrap();
    }
    request
        .start_step(StepType::Tool, json(r#"{"tool":"t"}"#))
        .unwrap();
    let error = RequestEnd::Failed("boom".into());
    request.finish(error).unwrap();
    use StepStatus::{Completed, Failed, Running};
    // The llm step that never ended isn't a delegate: it failed too. The delegates wait.
    assert_eq!(
        statuses(store),
        [Completed, Failed, Running, Running, Failed]
    );
    let resumption = first.resume("c").unwrap().unwrap();
    assert_eq!(resumption.stack.len(), 3);
    assert_eq!(resumption.action(), ResumeAction::Retry);
    first.complete_resumed(&resumption, &json("{}")).unwrap();
    assert_eq!(
        statuses(store),
        [Completed, Failed, Running, Completed, Completed]
    );
    let returned = first
        .complete_delegate("c", "s0", &json(r#"{"x":1}"#))
        .unwrap();
    assert_eq!((returned.status, returned.stack_depth), (Completed, 0));
    assert_eq!(
        kind(first.complete_delegate("c", "s0", &json("{}"))),
        ErrorKind::NotFound
    );
}

fn each_step_type_is_resumed_with_its_input(store: &Store) {
    let chats = store.chats();
    for step_type in StepType::ALL {
        let chat = chats.create_chat(Chat::new("a")).unwrap().chat_id;
        let mut request = chats
            .begin_request(
                &chat,
                NewRequest::new("a"),
                ChatMessage::text(ChatRole::User, "x"),
            )
            .unwrap();
        request
            .start_step(step_type, json(r#"{ "mine": true }"#))
            .unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
        let resumption = chats.resume(&chat).unwrap().unwrap();
        assert_eq!(
            (
                resumption.step.step_type,
                resumption.input().unwrap().as_str()
            ),
            (step_type, r#"{ "mine": true }"#)
        );
        assert!(!resumption.is_nested());
    }
}

fn the_status_says_what_can_be_resumed(store: &Store) {
    let chats = store.chats();
    for (status, action) in [
        (StepStatus::Pending, Some(ResumeAction::Start)),
        (StepStatus::Running, Some(ResumeAction::Restart)),
        (StepStatus::Completed, None),
        (StepStatus::Failed, Some(ResumeAction::Retry)),
        (StepStatus::Interrupted, Some(ResumeAction::Continue)),
    ] {
        let chat_id = chats.create_chat(Chat::new("a")).unwrap().chat_id;
        let step = Step {
            chat_id: chat_id.clone(),
            status,
            ..Step::new(
                format!("r of {status}"),
                "a",
                format!("s of {status}"),
                StepType::Llm,
            )
        };
        chats.save_steps(vec![step]).unwrap();
        assert_eq!(
            chats
                .resume(&chat_id)
                .unwrap()
                .map(|resumption| resumption.action()),
            action,
            "{status}"
        );
    }
}

fn a_completed_chat_has_nothing_to_resume(store: &Store) {
    begun(store).finish(RequestEnd::Completed).unwrap();
    assert_eq!(store.chats().resume("c").unwrap(), None);
}

fn the_old_tables_are_imported(store: &Store) {
    let chats = store.chats();
    let old_chats = concat!(
        r#"{"id":1,"chat_id":"c","title":"Old","assistant_id":"neo","silent":false,"created_at":"2024-02-29 00:00:00","__yao_created_by":"ann","__yao_team_id":"t"}"#,
        "\n\n",
        r#"{"id":2,"chat_id":"d","title":null,"assistant_id":"neo","public":1,"updated_at":null}"#,
    );
    let history = concat!(
        r#"{"id":7,"chat_id":"c","role":"user","content":"hi \"you\"","sid":"s1","created_at":"2024-02-29T00:00:01Z"}"#,
        "\n",
        r#"{"id":8,"chat_id":"c","role":"assistant","content":"hello","assistant_id":"neo","name":"Neo"}"#,
        "\n",
    );
    let report = chats
        .import_table(Table::Chat, old_chats, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.skipped, report.issues.len()),
        (2, 0, 0),
        "{report:?}"
    );
    let report = chats
        .import_table(Table::History, history, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.skipped, report.issues.len()),
        (2, 0, 0),
        "{report:?}"
    );
    let chat = chats.get_chat("c").unwrap().unwrap();
    assert_eq!(
        (
            chat.title.as_deref(),
            chat.mode.as_str(),
            chat.created_at_ms
        ),
        (Some("Old"), "chat", 1_709_164_800_000)
    );
    assert_eq!(
        (&chat.extra["old_id"], &chat.extra["silent"]),
        (&1.into(), &false.into())
    );
    assert_eq!(
        (chat.created_by.as_deref(), chat.team_id.as_deref()),
        (Some("ann"), Some("t"))
    );
    assert!(chats.get_chat("d").unwrap().unwrap().public);
    let found = messages(store);
    assert_eq!(
        (
            found[0].message_id.as_str(),
            found[0].role,
            found[0].message_type.as_str()
        ),
        ("7", ChatRole::User, "text")
    );
    assert_eq!(found[0].props.as_str(), r#"{"content":"hi \"you\""}"#);
    assert_eq!(
        (found[0].created_at_ms, &found[0].extra["sid"]),
        (1_709_164_801_000, &"s1".into())
    );
    assert_eq!(found[1].assistant_id.as_deref(), Some("neo"));
    let again = chats
        .import_table(Table::History, history, ImportOptions::default())
        .unwrap();
    assert_eq!((again.imported, again.skipped), (0, 2));
    assert_eq!(
        chats
            .import_table(Table::Chat, old_chats, ImportOptions::default())
            .unwrap()
            .skipped,
        2
    );
}

/// An export without an order gives the rows as they lie.
fn rows_of_the_old_table_are_ordered_by_time_and_id(store: &Store) {
    let chats = store.chats();
    for chat_id in ["c", "d"] {
        let chat = Chat {
            chat_id: chat_id.into(),
            ..Chat::new("neo")
        };
        chats.create_chat(chat).unwrap();
    }
    let row = |chat: &str, id: &str, at: &str, content: &str| {
        format!(r#"{{"id":{id},"chat_id":"{chat}","role":"user","content":"{content}"{at}}}"#)
    };
    let at = |second: u32| format!(r#","created_at":"2024-02-29 00:00:0{second}""#);
    let rows = [
        row("c", "12", &at(3), "fourth"),
        // By number, not by text.
        row("c", "10", &at(2), "third"),
        row("d", "11", "", "second"),
        row("c", "9", &at(2), "second"),
        // Without a time it stays behind the row before it.
        row("c", "20", "", "after second"),
        row("c", "\"x\"", &at(1), "first"),
        row("d", "2", "", "first"),
    ];
    let report = chats
        .import_table(Table::History, &rows.join("\n"), ImportOptions::default())
        .unwrap();
    assert_eq!(report.imported, 7, "{report:?}");
    let contents = |chat: &str| -> Vec<String> {
        let all = chats.get_messages(chat, &MessageFilter::default()).unwrap();
        let content = |it: &ChatMessage| it.props.as_str().replace(['"', '{', '}'], "");
        all.iter().map(content).collect()
    };
    let of_c = ["first", "second", "third", "after second", "fourth"];
    assert_eq!(contents("c"), of_c.map(|text| format!("content:{text}")));
    assert_eq!(contents("d"), ["content:first", "content:second"]);
}

fn bad_lines_of_the_old_tables_are_reported_and_the_others_imported(store: &Store) {
    let chats = store.chats();
    let lines = "not json\n[]\n{\"chat_id\":\"c\",\"assistant_id\":\"a\"}\n{\"chat_id\":\"\"}\n";
    // Told to stop there, it takes nothing from the first bad line on.
    let stop = ImportOptions {
        stop_at_issue: true,
    };
    let good = "{\"chat_id\":\"early\",\"assistant_id\":\"a\"}\n";
    let report = chats
        .import_table(Table::Chat, &format!("{good}{lines}"), stop)
        .unwrap();
    assert_eq!(
        (
            report.imported,
            report
                .issues
                .iter()
                .map(|issue| issue.line)
                .collect::<Vec<_>>()
        ),
        (1, vec![2])
    );
    let report = chats
        .import_table(Table::Chat, lines, ImportOptions::default())
        .unwrap();
    assert_eq!(report.imported, 1);
    assert_eq!(
        report
            .issues
            .iter()
            .map(|issue| issue.line)
            .collect::<Vec<_>>(),
        [1, 2, 4]
    );
    let lines = [
        r#"{"id":1,"chat_id":"c","role":"system","content":"x"}"#,
        r#"{"id":2,"chat_id":"nobody","role":"user","content":"x"}"#,
        r#"{"chat_id":"c","role":"user","content":"x"}"#,
        r#"{"id":3,"chat_id":"c","role":"user"}"#,
        r#"{"id":4,"chat_id":"c","role":"user","content":"x","created_at":"soon"}"#,
        r#"{"id":5,"chat_id":"c","role":"user","content":"fine","type":3,"sequence":"x"}"#,
    ];
    let report = chats
        .import_table(Table::History, &lines.join("\n"), stop)
        .unwrap();
    assert_eq!(
        (report.imported, report.issues.len(), report.issues[0].line),
        (0, 1, 1)
    );
    let report = chats
        .import_table(Table::History, &lines.join("\n"), ImportOptions::default())
        .unwrap();
    assert_eq!(report.imported, 1, "{report:?}");
    assert_eq!(
        report
            .issues
            .iter()
            .map(|issue| issue.line)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(
        chats
            .update_message("5", &Updates::new())
            .unwrap()
            .props
            .as_str(),
        r#"{"content":"fine"}"#
    );
}

#[test]
fn a_request_outlives_the_process_that_recorded_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    delegated(&store);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    let resumption = store.chats().resume("c").unwrap().unwrap();
    assert_eq!(
        (resumption.assistant_id(), resumption.stack_path()),
        ("visualizer", vec!["stk_001", "stk_002"])
    );
    assert_eq!(
        resumption.space.get("choose_prompt"),
        Some(&RawJson::string("query"))
    );
    assert_eq!(
        store
            .chats()
            .list_chats(&runlog::chats::ChatFilter::default())
            .unwrap()
            .total,
        1
    );
}

#[test]
fn an_aborted_task_saves_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = runlog::Store::open(folder.path().join("store")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let steps = runtime.block_on(async {
        let chats = store.chats();
        chats
            .create_chat(Chat {
                chat_id: "c".into(),
                ..Chat::new("a")
            })
            .await
            .unwrap();
        let asked = ChatMessage::text(ChatRole::User, "go");
        let mut request = chats
            .begin_request("c", new_request(), asked)
            .await
            .unwrap();
        let (begun, is_begun) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            request.start_step(StepType::Llm, json("{}")).unwrap();
            begun.send(()).unwrap();
            std::future::pending::<()>().await;
        });
        is_begun.await.unwrap();
        while !task.is_finished() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            task.abort();
        }
        chats.get_steps("req").await.unwrap()
    });
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].status, StepStatus::Interrupted);
}

#[test]
fn a_buffer_dropped_in_an_executor_of_one_thread_is_written_before_the_drop_returns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = runlog::Store::open(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let chats = store.chats();
        chats
            .create_chat(Chat {
                chat_id: "c".into(),
                ..Chat::new("a")
            })
            .await
            .unwrap();
        let asked = ChatMessage::text(ChatRole::User, "go");
        let mut request = chats
            .begin_request("c", new_request(), asked)
            .await
            .unwrap();
        request.start_step(StepType::Llm, json("{}")).unwrap();
        drop(request);
        // Nothing is awaited in between: another process has it.
        let reader = Store::open_read_only(&path).unwrap();
        assert_eq!(
            reader.chats().get_steps("req").unwrap()[0].status,
            StepStatus::Interrupted
        );

        // What a runtime drops that is shut down is written, too.
        let asked = ChatMessage::text(ChatRole::User, "again");
        let mut request = chats
            .begin_request("c", NewRequest::new("a"), asked)
            .await
            .unwrap();
        request.start_step(StepType::Tool, json("{}")).unwrap();
        tokio::spawn(async move {
            let _request = request;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
    });
    drop(runtime);
    let reader = Store::open_read_only(&path).unwrap();
    let last = reader
        .chats()
        .get_last_incomplete_step("c")
        .unwrap()
        .unwrap();
    assert_eq!(
        (last.step_type, last.status),
        (StepType::Tool, StepStatus::Interrupted)
    );
}

#[test]
fn a_reader_knows_that_nobody_is_at_work_where_nobody_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let chat = Chat {
        chat_id: "c".into(),
        ..Chat::new("a")
    };
    store.chats().create_chat(chat).unwrap();
    let asked = ChatMessage::text(ChatRole::User, "go");
    let request = store.chats().begin_request("c", new_request(), asked);
    let request = request.unwrap();
    let reader = Store::open_read_only(&path).unwrap();
    let listed = |unattended: bool| {
        let options = ListRequests {
            unattended,
            ..ListRequests::default()
        };
        let page = reader.chats().list_requests(&options).unwrap();
        page.items
            .into_iter()
            .map(|it| it.is_live)
            .collect::<Vec<_>>()
    };
    assert_eq!([listed(false), listed(true)], [[None], [None]]);
    drop(request);
    drop(store);
    assert_eq!(
        [listed(false), listed(true)],
        [[Some(false)], [Some(false)]]
    );
}
