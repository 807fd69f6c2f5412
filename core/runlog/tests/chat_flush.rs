//! A request that is flushed while it goes on: what was flushed is there, whatever becomes of the rest.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, RawJson,
    blocking::{self, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ListRequests, MessageFilter, NewRequest, RequestDetails,
        RequestEnd, RequestStatus, ResumeAction, StepStatus, StepType,
    },
    log::Position,
    scan::TextQuery,
};

both! {
    what_was_flushed_is_there_after_a_crash_and_is_resumed
    an_answer_that_was_cut_off_is_gone_on_with
    what_a_request_said_before_it_was_cut_off_is_replaced_or_stays
    a_step_says_how_it_was_cut_off_after_its_request_was_gone_on_with
    what_is_changed_after_a_flush_is_written_by_the_next_one
    a_request_that_was_flushed_and_dropped_is_interrupted
    a_request_larger_than_a_batch_is_written_in_parts
    a_request_that_is_cut_off_between_its_parts_is_resumed
    a_given_id_that_is_taken_by_now_is_refused_and_nothing_is_lost
    a_message_that_was_refused_has_no_id_to_be_taken
    an_id_that_another_chat_has_is_refused_when_it_is_sent
    a_request_is_finished_when_another_chat_has_its_id_by_now
    what_is_behind_a_given_sequence_keeps_its_own
    a_message_is_replaced_by_one_of_another_type
}

fn begin(store: &Store) -> blocking::RequestBuffer {
    let chats = store.chats();
    let named = Chat {
        chat_id: "c".into(),
        ..Chat::new("agent")
    };
    chats.create_chat(named).unwrap();
    let request = NewRequest {
        request_id: Some("r".into()),
        ..NewRequest::new("agent")
    };
    let asked = ChatMessage::text(ChatRole::User, "question");
    chats.begin_request("c", request, asked).unwrap()
}

fn answer(text: &str) -> ChatMessage {
    ChatMessage::text(ChatRole::Assistant, text)
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// What another process would find.
fn next_process(store: &Store) -> blocking::Chats {
    Store::with_backend(store.backend().clone()).chats()
}

fn told(chats: &blocking::Chats) -> Vec<(String, String, u64)> {
    let all = chats.get_messages("c", &MessageFilter::default()).unwrap();
    let told = |it: ChatMessage| (it.message_type, it.props.as_str().to_owned(), it.sequence);
    all.into_iter().map(told).collect()
}

fn steps(chats: &blocking::Chats) -> Vec<(StepStatus, u64)> {
    let steps = chats.get_steps("r").unwrap();
    steps.iter().map(|it| (it.status, it.sequence)).collect()
}

fn text(content: &str, sequence: u64) -> (String, String, u64) {
    (
        "text".into(),
        format!(r#"{{"content":"{content}"}}"#),
        sequence,
    )
}

fn what_was_flushed_is_there_after_a_crash_and_is_resumed(store: &Store) {
    let mut request = begin(store);
    let first = request
        .start_step(StepType::Llm, json(r#"{"n":1}"#))
        .unwrap();
    request.send(answer("one")).unwrap();
    request
        .complete_step(&first, Some(json(r#"{"of":1}"#)))
        .unwrap();
    request.space_mut().set("key", json("7"));
    request
        .start_step(StepType::Tool, json(r#"{"n":2}"#))
        .unwrap();
    request.flush().unwrap();
    request.send(answer("lost")).unwrap();
    std::mem::forget(request); // The process was killed.

    let chats = next_process(store);
    assert_eq!(told(&chats), [text("question", 1), text("one", 2)]);
    assert_eq!(
        steps(&chats),
        [(StepStatus::Completed, 1), (StepStatus::Running, 2)]
    );
    let unattended = ListRequests {
        unattended: true,
        ..ListRequests::default()
    };
    let open = chats.list_requests(&unattended).unwrap().items;
    assert_eq!((open.len(), open[0].status), (1, RequestStatus::Running));
    let resumption = chats.resume("c").unwrap().unwrap();
    assert_eq!(resumption.action(), ResumeAction::Restart);
    assert_eq!(resumption.input(), Some(&json(r#"{"n":2}"#)));
    assert_eq!(resumption.space.get("key"), Some(&json("7")));
    let mut request = chats.go_on(&resumption).unwrap();
    request.send(answer("two")).unwrap();
    request.flush().unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(told(&chats)[2], text("two", 3));
    // It began no other, so that its work was that step's.
    assert_eq!(
        steps(&chats),
        [(StepStatus::Completed, 1), (StepStatus::Completed, 2)]
    );
    assert_eq!(chats.resume("c").unwrap(), None);
    assert_eq!(chats.get_last_incomplete_step("c").unwrap(), None);
}

fn an_answer_that_was_cut_off_is_gone_on_with(store: &Store) {
    let mut request = begin(store);
    request.start_step(StepType::Llm, json("{}")).unwrap();
    let said = request.send(answer("By ")).unwrap();
    request.flush().unwrap();
    request.append(&said, "nightbus ").unwrap();
    request.flush().unwrap();
    request.append(&said, "lost").unwrap();
    std::mem::forget(request); // The process was killed.

    let chats = next_process(store);
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&resumption).unwrap();
    request.append(&said, "to ").unwrap();
    request.flush().unwrap();
    std::mem::forget(request); // Once more.

    let chats = next_process(store);
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&resumption).unwrap();
    request.append(&said, "Oslo").unwrap();
    request.send(answer("Anything else?")).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let all = [
        text("question", 1),
        text("By nightbus to Oslo", 2),
        text("Anything else?", 3),
    ];
    assert_eq!(told(&chats), all);
    assert_eq!(told(&next_process(store)), all);
    // As it was written in pieces, the end has written it whole: a search of the log looks at records.
    let query = TextQuery::new("By nightbus to Oslo").unwrap();
    let found = store.search(&query, Position(1)).unwrap().found;
    assert_eq!(found.len(), 1);
}

fn what_a_request_said_before_it_was_cut_off_is_replaced_or_stays(store: &Store) {
    let mut request = begin(store);
    request.start_step(StepType::Llm, json("{}")).unwrap();
    let first = request.send(answer("first")).unwrap();
    let second = request.send(answer("half")).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let chats = next_process(store);
    let mut request = chats.go_on(&chats.resume("c").unwrap().unwrap()).unwrap();
    request
        .replace(&second, json(r#"{"content":"second"}"#))
        .unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(
        told(&chats),
        [text("question", 1), text("first", 2), text("second", 3)]
    );
    let positions = |chats: &blocking::Chats| {
        let all = chats.get_messages("c", &MessageFilter::default()).unwrap();
        all.into_iter().map(|it| it.message_id).collect::<Vec<_>>()
    };
    assert_eq!(positions(&chats)[1..], [first, second]);
}

fn a_step_says_how_it_was_cut_off_after_its_request_was_gone_on_with(store: &Store) {
    let mut request = begin(store);
    let pay = json(r#"{"tool":"pay"}"#);
    request.start_step(StepType::Tool, pay.clone()).unwrap();
    request.flush().unwrap();
    std::mem::forget(request); // The process was killed.

    // It fails before it has begun anything: that is how the step went that it goes on from, which is offered again.
    let chats = next_process(store);
    let cut_off = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&cut_off).unwrap();
    request
        .finish(RequestEnd::Failed("no network".into()))
        .unwrap();
    let of = |chats: &blocking::Chats| -> Vec<(StepStatus, Option<String>)> {
        let steps = chats.get_steps("r").unwrap();
        steps.into_iter().map(|it| (it.status, it.error)).collect()
    };
    let failed = |why: &str| (StepStatus::Failed, Some(why.to_owned()));
    assert_eq!(of(&chats), [failed("no network")]);
    let again = chats.resume("c").unwrap().unwrap();
    assert_eq!(
        (again.action(), again.input()),
        (ResumeAction::Retry, Some(&pay))
    );

    // It is stopped: the attempt was interrupted, and what failed before failed.
    let mut request = chats.go_on(&again).unwrap();
    request.start_step(StepType::Tool, pay.clone()).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let interrupted = (StepStatus::Interrupted, None);
    assert_eq!(of(&chats), [failed("no network"), interrupted.clone()]);

    let last = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&last).unwrap();
    let paid = request.start_step(StepType::Tool, pay).unwrap();
    request.complete_step(&paid, Some(json("{}"))).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    for chats in [&chats, &next_process(store)] {
        assert_eq!(
            of(chats),
            [
                failed("no network"),
                interrupted.clone(),
                (StepStatus::Completed, None)
            ]
        );
        assert_eq!(chats.resume("c").unwrap(), None);
        assert_eq!(chats.get_last_incomplete_step("c").unwrap(), None);
    }
    // Its output may be told after the request has ended.
    let told = chats.complete_resumed(&last, &json(r#"{"paid":true}"#));
    assert_eq!(told.unwrap()[0].status, StepStatus::Completed);
}

fn what_is_changed_after_a_flush_is_written_by_the_next_one(store: &Store) {
    let mut request = begin(store);
    let message = request.send(answer("a")).unwrap();
    let step = request
        .start_step(StepType::Llm, json(r#"{"n":1}"#))
        .unwrap();
    let usage = |tokens: &str| RequestDetails {
        usage: Some(json(tokens)),
        ..RequestDetails::default()
    };
    for (index, text) in ["b", "c", "d"].into_iter().enumerate() {
        request.flush().unwrap();
        request.append(&message, text).unwrap();
        let tokens = format!(r#"{{"tokens":{index}}}"#);
        request.describe(usage(&tokens)).unwrap();
    }
    request.flush().unwrap();
    request.flush().unwrap();
    let chats = next_process(store);
    assert_eq!(told(&chats)[1], text("abcd", 2));
    let kept = chats.get_request("r").unwrap().unwrap();
    assert_eq!(kept.usage, Some(json(r#"{"tokens":2}"#)));
    assert_eq!(kept.status, RequestStatus::Running);
    request.fail_step(&step, "no").unwrap();
    request.flush().unwrap();
    let step = chats.get_steps("r").unwrap().remove(0);
    assert_eq!(
        (step.status, step.error.as_deref()),
        (StepStatus::Failed, Some("no"))
    );
    assert_eq!(step.input, Some(json(r#"{"n":1}"#)));
}

#[test]
fn a_flushed_request_ends_as_one_that_was_not() {
    for end in [
        RequestEnd::Completed,
        RequestEnd::Interrupted,
        RequestEnd::Failed("no".into()),
    ] {
        let outcomes = [false, true].map(|flushes| {
            let store = Store::in_memory();
            let mut request = begin(&store);
            let flush = |request: &mut blocking::RequestBuffer| {
                if flushes {
                    request.flush().unwrap();
                }
            };
            request.start_step(StepType::Delegate, json("{}")).unwrap();
            flush(&mut request);
            request.enter_as("other", "below").unwrap();
            let step = request.start_step(StepType::Llm, json("{}")).unwrap();
            let message = request.send(answer("x")).unwrap();
            flush(&mut request);
            request
                .complete_step(&step, Some(json(r#"{"of":1}"#)))
                .unwrap();
            request.append(&message, "y").unwrap();
            request.start_step(StepType::Tool, json("{}")).unwrap();
            flush(&mut request);
            request.send(answer("z")).unwrap();
            request.finish(end.clone()).unwrap();
            let chats = store.chats();
            let outputs = chats
                .get_steps("r")
                .unwrap()
                .into_iter()
                .map(|it| (it.output, it.error));
            let outputs: Vec<_> = outputs.collect();
            let status = chats.get_request("r").unwrap().unwrap().status;
            (told(&chats), steps(&chats), outputs, status)
        });
        assert_eq!(outcomes[0], outcomes[1], "{end:?}");
    }
}

fn a_request_that_was_flushed_and_dropped_is_interrupted(store: &Store) {
    let mut request = begin(store);
    request.start_step(StepType::Llm, json("{}")).unwrap();
    request.flush().unwrap();
    drop(request);
    assert_eq!(steps(&store.chats()), [(StepStatus::Interrupted, 1)]);
    let error = {
        let resumption = store.chats().resume("c").unwrap().unwrap();
        let mut request = store.chats().go_on(&resumption).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        request.flush().unwrap_err()
    };
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

fn a_request_larger_than_a_batch_is_written_in_parts(store: &Store) {
    let large = json(&format!(r#"{{"x":"{}"}}"#, "x".repeat(14 << 20)));
    let mut request = begin(store);
    // Twelve inputs of 14 MiB share their bytes here, and don't in the store.
    for number in 0..12 {
        let step = request.start_step(StepType::Llm, large.clone()).unwrap();
        if number < 11 {
            request.complete_step(&step, None).unwrap();
        }
    }
    let placed = ChatMessage {
        sequence: 7,
        ..answer("in its place")
    };
    request.send(placed).unwrap();
    request.send(answer("behind")).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let chats = next_process(store);
    let steps = chats.get_steps("r").unwrap();
    assert_eq!(steps.len(), 12);
    assert!(steps.iter().all(|step| step.input.as_ref() == Some(&large)));
    let last = (steps[10].status, steps[11].status);
    assert_eq!(last, (StepStatus::Completed, StepStatus::Interrupted));
    assert_eq!(
        told(&chats)[1..],
        [text("in its place", 7), text("behind", 8)]
    );
}

fn a_request_that_is_cut_off_between_its_parts_is_resumed(store: &Store) {
    drop(begin(store));
    pollster::block_on(async {
        let chats = runlog::Store::with_backend(store.backend().clone()).chats();
        let new = NewRequest {
            request_id: Some("large".into()),
            ..NewRequest::new("agent")
        };
        let mut request = chats
            .begin_request("c", new, answer_of_user())
            .await
            .unwrap();
        request.start_step(StepType::Llm, json("{}")).unwrap();
        for _ in 0..6 {
            request.send(answer(&"x".repeat(14 << 20))).unwrap();
        }
        let part = request.start_flush().unwrap().unwrap();
        part.write().await.unwrap();
        std::mem::forget(request); // The process was killed.
    });

    let chats = next_process(store);
    assert!((3..8).contains(&told(&chats).len()));
    let resumption = chats.resume("c").unwrap().unwrap();
    assert_eq!(resumption.step.request_id, "large");
    assert_eq!(resumption.action(), ResumeAction::Restart);
}

fn own() -> ChatMessage {
    ChatMessage {
        message_id: "m".into(),
        ..answer("own")
    }
}

/// Another chat, with these messages.
fn with_another_chat(store: &Store, messages: Vec<ChatMessage>) -> String {
    let chats = store.chats();
    let other = chats.create_chat(Chat::new("agent")).unwrap().chat_id;
    chats.save_messages(&other, messages).unwrap();
    other
}

fn is_completed(store: &Store) {
    let request = next_process(store).get_request("r").unwrap().unwrap();
    assert_eq!(request.status, RequestStatus::Completed);
}

fn a_given_id_that_is_taken_by_now_is_refused_and_nothing_is_lost(store: &Store) {
    let mut request = begin(store);
    request.send(own()).unwrap();
    store
        .chats()
        .save_messages("c", vec![answer("before")])
        .unwrap();
    store.chats().save_messages("c", vec![own()]).unwrap();
    let error = request.flush().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let all = next_process(store);
    assert_eq!(told(&all).len(), 3, "nothing was written");
    // It is still called what it was sent as.
    request.append("m", "!").unwrap();
    request.flush().unwrap();
    request.append("m", "?").unwrap();
    request.send(answer("after")).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let all = told(&next_process(store));
    let ours = [text("own!?", 4), text("after", 5)];
    assert_eq!(
        all[..3],
        [text("question", 1), text("before", 2), text("own", 3)]
    );
    assert_eq!(all[3..], ours);
    is_completed(store);
}

fn an_id_that_another_chat_has_is_refused_when_it_is_sent(store: &Store) {
    let mut request = begin(store);
    let other = with_another_chat(store, vec![own()]);
    let error = request.send(own()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains(&other), "{error}");
    // What was sent is the request's from then on.
    let sent = ChatMessage {
        message_id: "n".into(),
        ..answer("sent")
    };
    request.send(sent.clone()).unwrap();
    let taken = store.chats().save_messages(&other, vec![sent.clone()]);
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(told(&next_process(store))[1..], [text("sent", 2)]);
    is_completed(store);
}

/// The ids of a deleted chat are free until it is restored.
fn a_request_is_finished_when_another_chat_has_its_id_by_now(store: &Store) {
    for flushes in [false, true] {
        let mut request = match flushes {
            false => begin(store),
            true => {
                let new = NewRequest {
                    request_id: Some("r2".into()),
                    ..NewRequest::new("agent")
                };
                let chats = store.chats();
                chats.begin_request("c", new, answer_of_user()).unwrap()
            }
        };
        let own = ChatMessage {
            message_id: format!("m{flushes}"),
            ..answer("own")
        };
        let other = with_another_chat(store, vec![own.clone()]);
        store.chats().delete_chat(&other).unwrap();
        request.send(own.clone()).unwrap();
        store.chats().restore_chat(&other).unwrap();
        let refused = match flushes {
            false => request.finish(RequestEnd::Completed).unwrap_err(),
            true => request.flush().unwrap_err(),
        };
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        request.finish(RequestEnd::Completed).unwrap();
        let all = next_process(store);
        let all = all.get_messages("c", &MessageFilter::default()).unwrap();
        let ours = all.last().unwrap();
        assert_eq!(ours.props.as_str(), r#"{"content":"own"}"#);
        assert_ne!(ours.message_id, own.message_id);
        assert!(refused.to_string().contains(&ours.message_id), "{refused}");
        let requests = next_process(store);
        let request = requests.get_request(ours.request_id.as_deref().unwrap());
        assert_eq!(request.unwrap().unwrap().status, RequestStatus::Completed);
    }
}

fn a_message_is_replaced_by_one_of_another_type(store: &Store) {
    let mut request = begin(store);
    let loading = ChatMessage::new(ChatRole::Assistant, "loading", json("{}"));
    let (first, second) = (
        request.send(loading.clone()).unwrap(),
        request.send(loading).unwrap(),
    );
    request
        .replace_as(&first, "text", json(r#"{"content":"a"}"#))
        .unwrap();
    request.append(&first, "b").unwrap();
    request.flush().unwrap();
    request
        .replace_as(&second, "text", json(r#"{"content":"c"}"#))
        .unwrap();
    let error = request.replace_as(&second, "", json("{}")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(told(&store.chats())[1..], [text("ab", 2), text("c", 3)]);
}

/// Of messages behind one with a sequence of its own, what they are numbered doesn't hang on it any more once it is redacted.
fn what_is_behind_a_given_sequence_keeps_its_own(store: &Store) {
    for ends in [false, true] {
        let mut request = if ends {
            let new = NewRequest::new("agent");
            let chats = store.chats();
            chats.begin_request("c", new, answer_of_user()).unwrap()
        } else {
            begin(store)
        };
        let given = ChatMessage {
            sequence: if ends { 200 } else { 100 },
            ..answer("given")
        };
        let given = request.send(given).unwrap();
        let behind = request.send(answer("behind")).unwrap();
        if !ends {
            request.flush().unwrap();
        }
        request.finish(RequestEnd::Completed).unwrap();
        store.chats().redact_message(&given, "a secret").unwrap();
        let all = next_process(store);
        let all = all.get_messages("c", &MessageFilter::default()).unwrap();
        let found = all.iter().find(|it| it.message_id == behind).unwrap();
        assert_eq!(found.sequence, if ends { 201 } else { 101 });
    }
}

fn answer_of_user() -> ChatMessage {
    ChatMessage::text(ChatRole::User, "again")
}

fn a_message_that_was_refused_has_no_id_to_be_taken(store: &Store) {
    let mut request = begin(store);
    let chat = request.chat_id().to_owned();
    let named = |text: &str| ChatMessage {
        message_id: "m".into(),
        ..ChatMessage::text(ChatRole::Assistant, text)
    };
    let refused = request.send(named(&"x".repeat(17 << 20))).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TooLarge);
    store
        .chats()
        .save_messages(&chat, vec![named("short")])
        .unwrap();
    request.finish(RequestEnd::Completed).unwrap();
}
