//! What the steps of a request take: their inputs and spaces have most of what those before them had, which is saved once.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::Arc;

use pollster::block_on;
use runlog::{
    ErrorKind, RawJson,
    backend::Backend,
    blocking,
    chats::{
        Chat, ChatMessage, ChatRole, ImportOptions, ListSteps, NewRequest, RequestEnd, Step,
        StepStatus, StepType, Table, Updates,
    },
    log::{Batch, Op, Position},
    scan::TextQuery,
    sessions::CopySession,
};

/// A context of so many messages.
fn context(messages: usize) -> RawJson {
    let message = |it| {
        format!(
            r#"{{"role":"user","content":"message {it}: \"é\" and some more words, {it:0>100}"}}"#
        )
    };
    let all: Vec<String> = (0..messages).map(message).collect();
    RawJson::parse(format!(r#"{{"model":"m","messages":[{}]}}"#, all.join(","))).unwrap()
}

fn named(chat_id: &str) -> Chat {
    Chat {
        chat_id: chat_id.into(),
        ..Chat::new("a")
    }
}

/// A chat with an interrupted request, which was flushed after every `flushed`th of its steps; and its steps.
fn recorded(store: &blocking::Store, count: usize, flushed: usize) -> Vec<Step> {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let new = NewRequest {
        request_id: Some("r".into()),
        ..NewRequest::new("a")
    };
    let asked = ChatMessage::text(ChatRole::User, "?");
    let mut request = chats.begin_request("c", new, asked).unwrap();
    request.space_mut().set("document", context(80));
    let mut steps = Vec::new();
    for number in 0..count {
        request
            .space_mut()
            .set("a", RawJson::string(&number.to_string()));
        request
            .space_mut()
            .set("z", RawJson::string(&format!("z {number}")));
        let input = context(20 + number);
        let id = request.start_step(StepType::Llm, input.clone()).unwrap();
        steps.push(Step {
            step_id: id.clone(),
            input: Some(input),
            space_snapshot: Some(request.space().snapshot()),
            ..Step::new("r", "a", request.stack_id(), StepType::Llm)
        });
        let tool = RawJson::parse(format!(r#"{{"tool":"t","args":{{"n":{number}}}}}"#)).unwrap();
        let done = request.start_step(StepType::Tool, tool.clone()).unwrap();
        request.complete_step(&done, None).unwrap();
        steps.push(Step {
            step_id: done,
            input: Some(tool),
            space_snapshot: Some(request.space().snapshot()),
            ..Step::new("r", "a", request.stack_id(), StepType::Tool)
        });
        if number + 1 < count {
            request
                .complete_step(&id, Some(RawJson::parse("{}").unwrap()))
                .unwrap();
        }
        if number % flushed == flushed - 1 {
            request.flush().unwrap();
        }
    }
    request.finish(RequestEnd::Interrupted).unwrap();
    steps
}

/// How many bytes the records of a store have.
fn bytes(store: &blocking::Store) -> usize {
    let (mut sum, mut next) = (0, Some(Position(1)));
    while let Some(first) = next {
        let page = block_on(store.backend().scan(first, 1_000)).unwrap();
        sum += page
            .records
            .iter()
            .map(|record| record.payload.len())
            .sum::<usize>();
        next = page.next;
    }
    sum
}

/// A handle of the same log that has nothing in memory.
fn cold(store: &blocking::Store) -> blocking::Store {
    let backend: Arc<dyn Backend> = store.backend().clone();
    blocking::Store::with_backend(backend)
}

fn texts(steps: &[Step]) -> Vec<(Option<&RawJson>, Option<&RawJson>)> {
    steps
        .iter()
        .map(|step| (step.input.as_ref(), step.space_snapshot.as_ref()))
        .collect()
}

fn all_listed(store: &blocking::Store, options: &ListSteps) -> Vec<Step> {
    let (mut found, mut options) = (Vec::new(), options.clone());
    loop {
        let page = store.chats().list_steps(&options).unwrap();
        found.extend(page.items);
        options.cursor = page.next;
        if options.cursor.is_none() {
            return found;
        }
    }
}

#[test]
fn what_a_request_takes_grows_with_what_its_steps_add() {
    let took = |count| {
        let store = blocking::Store::in_memory();
        recorded(&store, count, 7);
        bytes(&store)
    };
    let (few, many) = (took(40), took(160));
    // Whole, it would be 9 MB.
    assert!(many < few * 5, "{few} bytes for 40, {many} for 160");
    assert!(many < 1 << 20, "{many} bytes");
}

#[test]
fn every_way_to_read_steps_gives_their_whole_texts() {
    for flushed in [1, 5, 1_000] {
        let store = blocking::Store::in_memory();
        let saved = recorded(&store, 40, flushed);
        let stack = saved[0].stack_id.clone();
        for store in [&store, &cold(&store)] {
            let of_request = || store.chats().get_steps("r").unwrap();
            assert_eq!(texts(&of_request()), texts(&saved));
            for chat_id in [None, Some("c".to_owned())] {
                let options = ListSteps {
                    chat_id,
                    limit: 7,
                    ..ListSteps::default()
                };
                let listed = all_listed(&cold(store), &options);
                assert_eq!(texts(&listed), texts(&saved));
            }
            let of_stack = cold(store).chats().get_steps_by_stack_id(&stack).unwrap();
            assert_eq!(texts(&of_stack), texts(&saved));
            let last = cold(store)
                .chats()
                .get_last_incomplete_step("c")
                .unwrap()
                .unwrap();
            assert_eq!(last.space_snapshot, saved[78].space_snapshot);
            let resumption = cold(store).chats().resume("c").unwrap().unwrap();
            assert_eq!(resumption.step.step_id, saved[78].step_id);
            assert_eq!(resumption.input(), saved[78].input.as_ref());
            assert_eq!(Some(resumption.space.snapshot()), saved[78].space_snapshot);
            assert_eq!(texts(&resumption.stack[0].steps), texts(&saved));
        }
    }
}

#[test]
fn what_is_gone_on_with_differs_from_nothing_before_it() {
    let store = blocking::Store::in_memory();
    let saved = recorded(&store, 30, 1_000);
    let store = cold(&store);
    let chats = store.chats();
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&resumption).unwrap();
    let input = context(60);
    request.start_step(StepType::Llm, input.clone()).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let steps = cold(&store).chats().get_steps("r").unwrap();
    assert_eq!(texts(&steps[..60]), texts(&saved));
    assert_eq!(
        (steps[60].input.as_ref(), &steps[60].space_snapshot),
        (Some(&input), &saved[59].space_snapshot)
    );
}

#[test]
fn a_step_that_is_changed_leaves_the_texts_of_the_others() {
    let store = blocking::Store::in_memory();
    let saved = recorded(&store, 40, 3);
    for store in [&cold(&store), &store] {
        let updates =
            Updates::parse(r#"{"input":{"messages":[]},"status":"failed","space_snapshot":{}}"#)
                .unwrap();
        let changed = store
            .chats()
            .update_step(&saved[30].step_id, &updates)
            .unwrap();
        assert_eq!(changed.input.unwrap().as_str(), r#"{"messages":[]}"#);
        let status = Updates::parse(r#"{"status":"failed"}"#).unwrap();
        let changed = store
            .chats()
            .update_step(&saved[34].step_id, &status)
            .unwrap();
        assert_eq!(
            (&changed.input, changed.status),
            (&saved[34].input, StepStatus::Failed)
        );
        let steps = cold(store).chats().get_steps("r").unwrap();
        assert_eq!(texts(&steps[..30]), texts(&saved[..30]));
        assert_eq!(texts(&steps[31..]), texts(&saved[31..]));
    }
}

#[test]
fn steps_that_are_saved_or_imported_together_are_saved_as_differences_too() {
    let steps: Vec<Step> = (0..60)
        .map(|number| Step {
            step_id: format!("s{number}"),
            chat_id: "c".into(),
            input: Some(context(100 + number)),
            ..Step::new(format!("r{}", number % 2), "a", "stk", StepType::Llm)
        })
        .collect();
    let whole: usize = steps
        .iter()
        .map(|step| step.input.as_ref().unwrap().as_bytes().len())
        .sum();
    let saved = blocking::Store::in_memory();
    saved.chats().create_chat(named("c")).unwrap();
    let told = saved.chats().save_steps(steps.clone()).unwrap();
    assert_eq!(texts(&told), texts(&steps));

    let imported = blocking::Store::in_memory();
    let rows: Vec<String> = steps
        .iter()
        .map(|step| serde_json::to_string(step).unwrap())
        .collect();
    let options = ImportOptions::default();
    for again in 0..2 {
        let report = imported
            .chats()
            .import_table(Table::Step, &rows.join("\n"), options)
            .unwrap();
        assert_eq!(
            (report.imported, report.issues.len()),
            (if again == 0 { 60 } else { 0 }, 0)
        );
    }
    for store in [saved, imported] {
        assert!(
            bytes(&store) < whole / 10,
            "{} of {whole} bytes",
            bytes(&store)
        );
        for request in ["r0", "r1"] {
            let found = cold(&store).chats().get_steps(request).unwrap();
            let of_request: Vec<Step> = steps
                .iter()
                .filter(|step| step.request_id == request)
                .cloned()
                .collect();
            assert_eq!(texts(&found), texts(&of_request));
        }
    }
}

#[test]
fn a_copy_has_the_texts_of_its_original() {
    let store = blocking::Store::in_memory();
    let saved = recorded(&store, 30, 4);
    let session = store.find_session("c").unwrap().id;
    let copy = store
        .copy_session(session, &CopySession::default())
        .unwrap();
    let chat_id = copy.session.id.to_string();
    let options = ListSteps {
        chat_id: Some(chat_id),
        limit: 1_000,
        ..ListSteps::default()
    };
    let listed = cold(&store).chats().list_steps(&options).unwrap();
    assert_eq!(texts(&listed.items), texts(&saved));
}

#[test]
fn a_text_in_a_difference_is_found_and_what_shares_it_is_redacted_with_it() {
    let store = blocking::Store::in_memory();
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let asked = ChatMessage::text(ChatRole::User, "?");
    let mut request = chats
        .begin_request("c", NewRequest::new("a"), asked)
        .unwrap();
    let with = |secret: &str| {
        let args = RawJson::string(&format!(r#"{{"say":"the \"{secret}\" key"}}"#));
        RawJson::parse(context(50).as_str().replace(
            r#""model":"m""#,
            &format!(r#""arguments":{args},"key":"{secret}","model":"m""#),
        ))
        .unwrap()
    };
    for secret in ["sk-one-1", "sk-one-2", "sk-one-2", "sk-one-3"] {
        request.start_step(StepType::Llm, with(secret)).unwrap();
    }
    let id = request.request_id().to_owned();
    request.finish(RequestEnd::Completed).unwrap();
    let found = |text: &str| {
        let query = TextQuery::new(text).unwrap();
        store.search(&query, Position(1)).unwrap().found
    };
    for text in ["sk-one-2", r#"the "sk-one-2" key"#, r#""key":"sk-one-2""#] {
        assert_eq!(found(text).len(), 1, "{text}");
    }
    let redact = Op::Redact {
        position: found("sk-one-2")[0],
        reason: "a key",
    };
    block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
    for store in [&store, &cold(&store)] {
        let steps = store.chats().get_steps(&id).unwrap();
        let inputs: Vec<Option<&str>> = steps
            .iter()
            .map(|step| step.input.as_ref().map(RawJson::as_str))
            .collect();
        assert_eq!(inputs, [Some(with("sk-one-1").as_str()), None, None]);
        assert!(!format!("{steps:?}").contains("sk-one-2"));
    }
}

#[test]
fn a_step_that_is_too_large_whole_is_refused_also_where_its_difference_is_small() {
    let long = |count: usize| {
        let all: Vec<String> = (0..count)
            .map(|it| format!("{:?}", "x".repeat(1 << 20) + &it.to_string()))
            .collect();
        RawJson::parse(format!(r#"{{"all":[{}]}}"#, all.join(","))).unwrap()
    };
    let step = |id: &str, megabytes, of_space| Step {
        step_id: id.into(),
        chat_id: "c".into(),
        input: Some(long(megabytes)),
        space_snapshot: Some(long(of_space)),
        ..Step::new("r", "a", "stk", StepType::Llm)
    };
    // A text by itself, and two that are only together too large.
    for (first, second) in [((15, 0), (17, 0)), ((7, 7), (9, 8))] {
        let store = blocking::Store::in_memory();
        let chats = store.chats();
        chats.create_chat(named("c")).unwrap();
        let steps = vec![step("1", first.0, first.1), step("2", second.0, second.1)];
        let rows: Vec<String> = steps
            .iter()
            .map(|step| serde_json::to_string(step).unwrap())
            .collect();
        let refused = chats.save_steps(steps).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let options = ImportOptions::default();
        // The first is a batch of its own.
        let refused = chats.import_table(Table::Step, &rows.join("\n"), options);
        assert!(refused.is_err_and(|error| error.kind() == ErrorKind::TooLarge));
        for store in [&store, &cold(&store)] {
            let options = ListSteps::default();
            assert!(store.chats().list_steps(&options).unwrap().items.len() <= 1);
            assert!(store.chats().resume("c").unwrap().is_some());
        }
    }
}

#[test]
fn steps_whose_inputs_are_lost_are_no_attempts_of_each_other() {
    let store = blocking::Store::in_memory();
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let step = |id: &str, number, status| Step {
        step_id: id.into(),
        chat_id: "c".into(),
        input: Some(context(number)),
        status,
        ..Step::new("r", "a", "stk", StepType::Llm)
    };
    let saved = chats.save_steps(vec![
        step("first", 50, StepStatus::Completed),
        step("other", 51, StepStatus::Failed),
        step("last", 52, StepStatus::Failed),
    ]);
    let redact = Op::Redact {
        position: Position(saved.unwrap()[0].id.unwrap()),
        reason: "a key",
    };
    block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
    let resumption = chats.resume("c").unwrap().unwrap();
    assert_eq!(
        (resumption.step.step_id.as_str(), resumption.input()),
        ("last", None)
    );
    let output = RawJson::parse("{}").unwrap();
    let completed = chats.complete_resumed(&resumption, &output).unwrap();
    let ids: Vec<&str> = completed.iter().map(|step| step.step_id.as_str()).collect();
    assert_eq!(ids, ["last"], "what the other was to do isn't known");
}

#[test]
fn a_page_ends_where_its_texts_are_many() {
    let store = blocking::Store::in_memory();
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let asked = ChatMessage::text(ChatRole::User, "?");
    let mut request = chats
        .begin_request("c", NewRequest::new("a"), asked)
        .unwrap();
    request
        .space_mut()
        .set("large", RawJson::string(&"x".repeat(10 << 20)));
    for _ in 0..20 {
        request
            .start_step(StepType::Tool, RawJson::parse("{}").unwrap())
            .unwrap();
    }
    request.finish(RequestEnd::Completed).unwrap();
    assert!(bytes(&store) < 11 << 20);
    for chat_id in [None, Some("c".to_owned())] {
        let options = ListSteps {
            chat_id,
            ..ListSteps::default()
        };
        let first = store.chats().list_steps(&options).unwrap();
        assert_eq!((first.items.len(), first.next.is_some()), (6, true));
        assert_eq!(all_listed(&store, &options).len(), 20);
    }
}
