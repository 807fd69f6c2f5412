//! Questions that are asked again, and answers that are wanted anew, on memory and on disk; by two at the same time, too.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use runlog::{
    ErrorKind, NewMessage, RawJson,
    blocking::{RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ListRequests, MessageFilter, NewRequest, RequestDetails,
        RequestEnd, RequestStatus, StepStatus, StepType, Updates,
    },
    sessions::CopySession,
};

both! {
    a_question_is_answered_anew_and_the_old_answer_is_gone
    an_answer_that_fails_before_it_says_anything_leaves_the_old_one
    a_flushed_or_stopped_answer_replaces_the_old_one_and_one_that_is_resumed_too
    a_question_is_asked_in_other_words_and_what_followed_is_gone
    a_question_that_was_never_answered_is_answered
    of_two_that_answer_the_last_message_one_saves
    a_request_for_what_is_not_last_any_more_is_refused_and_nothing_is_written
    nobody_replaces_what_is_being_answered
    what_cannot_be_answered_or_replaced_is_refused_and_nothing_is_written
    the_requests_of_a_chat_tell_what_they_took_also_of_a_replaced_answer
    a_copy_has_what_was_answered_anew_with_ids_of_its_own
    a_copy_up_to_a_point_before_has_the_old_answer
    what_comes_next_stands_behind_a_message_that_was_moved_to_the_end
    requests_are_told_in_the_order_in_which_they_were_begun
    what_was_dismissed_is_not_completed
    what_is_being_answered_is_interrupted_in_a_copy
    what_is_replaced_is_what_was_there_when_it_began_whatever_happens_meanwhile
    an_answer_that_is_being_replaced_is_nobody_elses_to_replace
    many_messages_are_replaced_at_once
}

fn named(role: ChatRole, id: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(role, id)
    }
}

fn ids(store: &Store, chat: &str) -> Vec<String> {
    let all = MessageFilter::default();
    let messages = store.chats().get_messages(chat, &all).unwrap();
    messages.into_iter().map(|it| it.message_id).collect()
}

fn request(id: &str) -> NewRequest {
    NewRequest {
        request_id: Some(id.into()),
        ..NewRequest::new("travel")
    }
}

fn answered(mut request: RequestBuffer, answer: &str) {
    let input = RawJson::parse("{}").unwrap();
    let step = request.start_step(StepType::Llm, input).unwrap();
    request.send(named(ChatRole::Assistant, answer)).unwrap();
    request.complete_step(&step, None).unwrap();
    let usage = RequestDetails {
        usage: Some(RawJson::parse(r#"{"tokens":7}"#).unwrap()),
        ..RequestDetails::default()
    };
    request.describe(usage).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
}

/// A chat "c" with two questions and their answers: q1, a1, q2, a2 of r1 and r2.
fn talked(store: &Store) {
    let chats = store.chats();
    let chat = Chat {
        chat_id: "c".into(),
        ..Chat::new("travel")
    };
    chats.create_chat(chat).unwrap();
    for (id, question, answer) in [("r1", "q1", "a1"), ("r2", "q2", "a2")] {
        let asked = named(ChatRole::User, question);
        answered(
            chats.begin_request("c", request(id), asked).unwrap(),
            answer,
        );
    }
}

fn is_refused(begun: runlog::Result<RequestBuffer>, kind: ErrorKind, says: &str) {
    let error = begun.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

fn a_question_is_answered_anew_and_the_old_answer_is_gone(store: &Store) {
    talked(store);
    let again = NewRequest {
        replaces: Some("a2".into()),
        after: Some("a2".into()),
        ..request("r3")
    };
    let begun = store.chats().answer_again("c", again, "q2").unwrap();
    assert_eq!(
        ids(store, "c"),
        ["q1", "a1", "q2", "a2"],
        "until there is another"
    );
    answered(begun, "a3");
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a3"]);
    let record = store.chats().get_request("r3").unwrap().unwrap();
    assert_eq!(record.answers.as_deref(), Some("q2"));
    assert_eq!(record.status, RequestStatus::Completed);
    let old = store.chats().get_request("r2").unwrap().unwrap();
    assert_eq!(old.status, RequestStatus::Completed);
    // Of the second answer a third one is wanted: what the question is answered by is found by its requests.
    let third = NewRequest {
        replaces: Some("a3".into()),
        ..request("r4")
    };
    answered(store.chats().answer_again("c", third, "q2").unwrap(), "a4");
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a4"]);
}

fn an_answer_that_fails_before_it_says_anything_leaves_the_old_one(store: &Store) {
    talked(store);
    let chats = store.chats();
    let again = |id: &str| NewRequest {
        replaces: Some("a2".into()),
        ..request(id)
    };
    let mut failed = chats.answer_again("c", again("r3"), "q2").unwrap();
    let input = RawJson::parse("{}").unwrap();
    failed.start_step(StepType::Llm, input).unwrap();
    failed.flush().unwrap();
    failed
        .finish(RequestEnd::Failed("overloaded".into()))
        .unwrap();
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a2"]);
    drop(chats.answer_again("c", again("r4"), "q2").unwrap());
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a2"]);
    answered(chats.answer_again("c", again("r5"), "q2").unwrap(), "a3");
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a3"]);
}

fn a_flushed_or_stopped_answer_replaces_the_old_one_and_one_that_is_resumed_too(store: &Store) {
    talked(store);
    let chats = store.chats();
    let again = |id: &str, replaced: &str| NewRequest {
        replaces: Some(replaced.into()),
        ..request(id)
    };
    let mut stopped = chats.answer_again("c", again("r3", "a2"), "q2").unwrap();
    stopped.send(named(ChatRole::Assistant, "a3")).unwrap();
    stopped.flush().unwrap();
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a3"]);
    drop(stopped);
    let mut dropped = chats.answer_again("c", again("r4", "a3"), "q2").unwrap();
    dropped.send(named(ChatRole::Assistant, "a4")).unwrap();
    drop(dropped);
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a4"]);

    // Cut off before it has said anything, with others behind what it replaces by then.
    let mut cut_off = chats.answer_again("c", again("r5", "a1"), "q1").unwrap();
    let input = RawJson::parse("{}").unwrap();
    cut_off.start_step(StepType::Llm, input).unwrap();
    drop(cut_off);
    let later = named(ChatRole::User, "later");
    chats.save_messages("c", vec![later]).unwrap();
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a4", "later"]);
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut resumed = chats.go_on(&resumption).unwrap();
    resumed.send(named(ChatRole::Assistant, "a5")).unwrap();
    resumed.finish(RequestEnd::Completed).unwrap();
    assert_eq!(ids(store, "c"), ["q1", "later", "a5"]);
}

fn a_question_is_asked_in_other_words_and_what_followed_is_gone(store: &Store) {
    talked(store);
    let other = NewRequest {
        replaces: Some("q1".into()),
        ..request("r3")
    };
    let asked = named(ChatRole::User, "q3");
    let begun = store.chats().begin_request("c", other, asked).unwrap();
    assert_eq!(ids(store, "c"), ["q3"]);
    answered(begun, "a3");
    let all = MessageFilter::default();
    let messages = store.chats().get_messages("c", &all).unwrap();
    let sequences: Vec<u64> = messages.iter().map(|it| it.sequence).collect();
    assert_eq!(sequences, [5, 6], "a sequence is never given twice");
    assert_eq!(ids(store, "c"), ["q3", "a3"]);
}

fn a_question_that_was_never_answered_is_answered(store: &Store) {
    talked(store);
    let chats = store.chats();
    let asked = named(ChatRole::User, "q3");
    let mut cut_off = chats.begin_request("c", request("r3"), asked).unwrap();
    let input = RawJson::parse("{}").unwrap();
    let step = cut_off.start_step(StepType::Llm, input).unwrap();
    cut_off.finish(RequestEnd::Interrupted).unwrap();
    assert!(chats.resume("c").unwrap().is_some());
    let begun = chats.answer_again("c", request("r4"), "q3").unwrap();
    // Nobody goes on with the first one now.
    assert!(chats.resume("c").unwrap().is_none());
    let old = chats.get_request("r3").unwrap().unwrap();
    assert_eq!(old.status, RequestStatus::Dismissed);
    let steps = chats.get_steps("r3").unwrap();
    assert_eq!(
        (&steps[0].step_id, steps[0].status),
        (&step, StepStatus::Interrupted)
    );
    assert!(steps[0].dismissed_at_ms.is_some());
    let running = chats.list_requests(&ListRequests::default()).unwrap().items;
    let running: Vec<&str> = running.iter().map(|it| it.request_id.as_str()).collect();
    assert_eq!(running, ["r4"]);
    answered(begun, "a3");
    assert_eq!(ids(store, "c")[4..], ["q3", "a3"]);
}

fn of_two_that_answer_the_last_message_one_saves(store: &Store) {
    talked(store);
    let save = |id: String| {
        let message = named(ChatRole::User, &id);
        store.chats().save_messages_after("c", vec![message], "a2")
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let save = &save;
        let running: Vec<_> = (0..8)
            .map(|tab| scope.spawn(move || save(format!("tab{tab}"))))
            .collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let refused = outcomes.iter().filter_map(|it| it.as_ref().err());
    let refused: Vec<_> = refused.map(runlog::Error::kind).collect();
    assert_eq!(refused, [ErrorKind::Conflict; 7]);
    assert_eq!(ids(store, "c").len(), 5);
}

fn a_request_for_what_is_not_last_any_more_is_refused_and_nothing_is_written(store: &Store) {
    talked(store);
    let chats = store.chats();
    let before = ids(store, "c");
    let stale = NewRequest {
        after: Some("a1".into()),
        replaces: Some("a1".into()),
        ..request("r3")
    };
    let asked = || named(ChatRole::User, "q3");
    let refused = chats.begin_request("c", stale.clone(), asked());
    is_refused(
        refused,
        ErrorKind::Conflict,
        "the chat's last message is \"a2\", not \"a1\"",
    );
    is_refused(
        chats.answer_again("c", stale, "q1"),
        ErrorKind::Conflict,
        "not \"a1\"",
    );
    assert_eq!(ids(store, "c"), before);
    // The id of the request is still free.
    drop(chats.begin_request("c", request("r3"), asked()).unwrap());
    let empty = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let first = NewRequest {
        after: Some("a2".into()),
        ..request("r4")
    };
    let refused = chats.begin_request(&empty, first, named(ChatRole::User, "q4"));
    is_refused(refused, ErrorKind::Conflict, "the chat has no message");
}

fn nobody_replaces_what_is_being_answered(store: &Store) {
    talked(store);
    let chats = store.chats();
    let asked = named(ChatRole::User, "q3");
    let running = chats.begin_request("c", request("r3"), asked).unwrap();
    for replaced in ["q1", "q3"] {
        let other = NewRequest {
            replaces: Some(replaced.into()),
            ..request("r4")
        };
        let begun = chats.begin_request("c", other, named(ChatRole::User, "q4"));
        is_refused(begun, ErrorKind::Conflict, "\"r3\" is under way");
    }
    let begun = chats.answer_again("c", request("r4"), "q3");
    is_refused(begun, ErrorKind::Conflict, "\"r3\" is under way");
    answered(running, "a3");
    let again = NewRequest {
        replaces: Some("a3".into()),
        ..request("r4")
    };
    let first = chats.answer_again("c", again, "q3").unwrap();
    // And by two at the same time: the first one answers.
    let begun = chats.answer_again("c", request("r5"), "q3");
    is_refused(begun, ErrorKind::Conflict, "\"r4\" is under way");
    answered(first, "a4");
    answered(chats.answer_again("c", request("r5"), "q3").unwrap(), "a5");
    assert_eq!(ids(store, "c")[4..], ["q3", "a4", "a5"]);
}

fn what_cannot_be_answered_or_replaced_is_refused_and_nothing_is_written(store: &Store) {
    talked(store);
    let chats = store.chats();
    let before = ids(store, "c");
    let replacing = |id: &str| NewRequest {
        replaces: Some(id.into()),
        ..request("r3")
    };
    let asked = || named(ChatRole::User, "q3");
    let refused = [
        (
            chats.answer_again("c", request("r3"), "a1"),
            ErrorKind::InvalidInput,
            "is an answer",
        ),
        (
            chats.answer_again("c", request("r3"), "else"),
            ErrorKind::NotFound,
            "\"else\"",
        ),
        (
            chats.answer_again("c", request("r2"), "q2"),
            ErrorKind::AlreadyExists,
            "\"r2\"",
        ),
        (
            chats.answer_again("c", replacing("q2"), "q2"),
            ErrorKind::InvalidInput,
            "both answered and replaced",
        ),
        (
            chats.answer_again("c", replacing("a1"), "q2"),
            ErrorKind::InvalidInput,
            "both answered and replaced",
        ),
        (
            chats.begin_request("c", replacing("else"), asked()),
            ErrorKind::NotFound,
            "\"else\"",
        ),
        (
            chats.begin_request("c", replacing(""), asked()),
            ErrorKind::NotFound,
            "\"\"",
        ),
        (
            chats.begin_request("c", replacing("a2"), named(ChatRole::User, "q1")),
            ErrorKind::AlreadyExists,
            "\"q1\"",
        ),
        (
            chats.begin_request("c", replacing("a2"), named(ChatRole::User, "a2")),
            ErrorKind::AlreadyExists,
            "\"a2\"",
        ),
    ];
    for (begun, kind, says) in refused {
        is_refused(begun, kind, says);
    }
    let deleted = store.chats().delete_messages("c", &["q2"]);
    deleted.unwrap();
    is_refused(
        chats.answer_again("c", request("r3"), "q2"),
        ErrorKind::NotFound,
        "\"q2\"",
    );
    assert_eq!(ids(store, "c"), [&before[..2], &before[3..]].concat());
    assert_eq!(chats.get_requests("c").unwrap().len(), 2);
}

fn the_requests_of_a_chat_tell_what_they_took_also_of_a_replaced_answer(store: &Store) {
    talked(store);
    let again = NewRequest {
        replaces: Some("a2".into()),
        ..request("r3")
    };
    answered(store.chats().answer_again("c", again, "q2").unwrap(), "a3");
    let requests = store.chats().get_requests("c").unwrap();
    let told: Vec<_> = requests
        .iter()
        .map(|it| (it.request_id.as_str(), it.usage.as_ref().unwrap().as_str()))
        .collect();
    let took = r#"{"tokens":7}"#;
    assert_eq!(told, [("r1", took), ("r2", took), ("r3", took)]);
    let error = store.chats().get_requests("else").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

fn a_copy_has_what_was_answered_anew_with_ids_of_its_own(store: &Store) {
    talked(store);
    let chats = store.chats();
    let again = NewRequest {
        replaces: Some("a2".into()),
        ..request("r3")
    };
    answered(chats.answer_again("c", again, "q2").unwrap(), "a3");
    let session = store.find_session("c").unwrap().id;
    for up_to in [None, Some("a3".to_owned())] {
        let options = CopySession {
            up_to_message: up_to,
            ..CopySession::default()
        };
        let copied = store.copy_session(session, &options).unwrap();
        let copy = copied.session.id.to_string();
        let of_copy = ids(store, &copy);
        assert_eq!(of_copy.len(), 4);
        let requests = chats.get_requests(&copy).unwrap();
        let answers: Vec<_> = requests
            .iter()
            .filter_map(|it| it.answers.as_ref())
            .collect();
        assert_eq!(answers, [&of_copy[2]]);
        let next = NewRequest {
            after: Some(of_copy[3].clone()),
            replaces: Some(of_copy[3].clone()),
            ..NewRequest::new("travel")
        };
        let mut begun = chats.answer_again(&copy, next, &of_copy[2]).unwrap();
        begun
            .send(named(ChatRole::Assistant, &format!("in {copy}")))
            .unwrap();
        begun.finish(RequestEnd::Completed).unwrap();
        assert_eq!(ids(store, &copy)[..3], of_copy[..3]);
        assert_eq!(ids(store, &copy)[3..], [format!("in {copy}")]);
        let requests = chats.get_requests(&copy).unwrap();
        assert_eq!(requests.iter().filter(|it| !it.is_copied).count(), 1);
    }
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a3"]);
}

fn a_copy_up_to_a_point_before_has_the_old_answer(store: &Store) {
    talked(store);
    let session = store.find_session("c").unwrap().id;
    let agent = store.create_instance(session, "lead", None).unwrap();
    let context = store.context(agent.id).unwrap();
    let said = || context.append_message(NewMessage::user("x")).unwrap();
    said();
    let point = context.get_last_sequence().unwrap();
    let replacing = |id: &str, begun: &str| NewRequest {
        replaces: Some(id.into()),
        ..request(begun)
    };
    let begun = store.chats().answer_again("c", replacing("a2", "r3"), "q2");
    answered(begun.unwrap(), "a3");
    said();
    let asked = named(ChatRole::User, "q4");
    let begun = store
        .chats()
        .begin_request("c", replacing("q2", "r4"), asked);
    answered(begun.unwrap(), "a4");
    said();
    let last = context.get_last_sequence().unwrap();
    let texts = |up_to: u64| {
        let options = CopySession {
            up_to_sequence: Some(up_to),
            ..CopySession::default()
        };
        let copied = store.copy_session(session, &options).unwrap();
        let all = MessageFilter::default();
        let copy = copied.session.id.to_string();
        let messages = store.chats().get_messages(&copy, &all).unwrap();
        let content = |message: ChatMessage| {
            let props: serde_json::Value = message.props.to_value().unwrap();
            props["content"].as_str().unwrap().to_owned()
        };
        messages.into_iter().map(content).collect::<Vec<_>>()
    };
    let at = |message: &str| store.sequence_at_message(session, message).unwrap();
    assert_eq!((at("q1"), at("q4"), at("a4")), (0, 2, 3));
    let missing = store.sequence_at_message(session, "q2").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(texts(point), ["q1", "a1", "q2", "a2"]);
    assert_eq!(texts(point + 1), ["q1", "a1", "q2", "a3"]);
    assert_eq!(texts(last), ["q1", "a1", "q4", "a4"]);
}

fn what_comes_next_stands_behind_a_message_that_was_moved_to_the_end(store: &Store) {
    talked(store);
    let chats = store.chats();
    let moved = Updates::new().with("sequence", RawJson::from_value(&11).unwrap());
    assert_eq!(chats.update_message("q1", &moved).unwrap().sequence, 11);
    let after = NewRequest {
        after: Some("q1".into()),
        ..request("r3")
    };
    let asked = named(ChatRole::User, "q3");
    answered(chats.begin_request("c", after, asked).unwrap(), "a3");
    let next = named(ChatRole::User, "q4");
    chats.save_messages_after("c", vec![next], "a3").unwrap();
    let all = ["a1", "q2", "a2", "q1", "q3", "a3", "q4"];
    assert_eq!(ids(store, "c"), all);
    let session = store.find_session("c").unwrap().id;
    for up_to in [None, Some("q1".to_owned()), Some("a3".to_owned())] {
        let options = CopySession {
            up_to_message: up_to,
            ..CopySession::default()
        };
        let copied = store.copy_session(session, &options).unwrap();
        let copy = copied.session.id.to_string();
        let before = ids(store, &copy);
        let id = format!("in {copy}");
        let last = before.last().unwrap();
        let next = named(ChatRole::User, &id);
        chats.save_messages_after(&copy, vec![next], last).unwrap();
        assert_eq!(ids(store, &copy), [before, vec![id]].concat());
    }
}

fn requests_are_told_in_the_order_in_which_they_were_begun(store: &Store) {
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let begun: Vec<String> = (0..30).rev().map(|id| format!("r{id:02}")).collect();
    for id in &begun {
        let asked = named(ChatRole::User, &format!("q of {id}"));
        drop(chats.begin_request(&chat, request(id), asked).unwrap());
    }
    let told = |chat: &str| chats.get_requests(chat).unwrap();
    let ids: Vec<_> = told(&chat).into_iter().map(|it| it.request_id).collect();
    assert_eq!(ids, begun);
    let session = store.find_session(&chat).unwrap().id;
    let copied = store.copy_session(session, &CopySession::default());
    let copy = copied.unwrap().session.id.to_string();
    let questions = chats.get_messages(&copy, &MessageFilter::default());
    let in_copy = questions.unwrap().into_iter();
    let in_copy: Vec<_> = in_copy.filter_map(|it| it.request_id).collect();
    let ids: Vec<_> = told(&copy).into_iter().map(|it| it.request_id).collect();
    assert_eq!(ids, in_copy);
}

fn what_was_dismissed_is_not_completed(store: &Store) {
    talked(store);
    let chats = store.chats();
    let asked = named(ChatRole::User, "q3");
    let mut cut_off = chats.begin_request("c", request("r3"), asked).unwrap();
    let input = RawJson::parse("{}").unwrap();
    cut_off.start_step(StepType::Llm, input).unwrap();
    drop(cut_off);
    let resumption = chats.resume("c").unwrap().unwrap();
    let other = NewRequest {
        replaces: Some("q3".into()),
        ..request("r4")
    };
    let asked = named(ChatRole::User, "q4");
    answered(chats.begin_request("c", other, asked).unwrap(), "a4");
    let output = RawJson::parse(r#"{"x":1}"#).unwrap();
    let refused = chats.complete_resumed(&resumption, &output).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    assert!(refused.to_string().contains("dismissed"), "{refused}");
    let steps = chats.get_steps("r3").unwrap();
    assert_eq!(steps[0].status, StepStatus::Interrupted);
}

fn what_is_being_answered_is_interrupted_in_a_copy(store: &Store) {
    talked(store);
    let chats = store.chats();
    let asked = named(ChatRole::User, "q3");
    let running = chats.begin_request("c", request("r3"), asked).unwrap();
    let session = chats.session_id("c").unwrap();
    let copied = store.copy_session(session, &CopySession::default());
    let copy = copied.unwrap().session.id.to_string();
    let last = |chat: &str| chats.get_requests(chat).unwrap().pop().unwrap().status;
    assert_eq!(last(&copy), RequestStatus::Interrupted);
    assert_eq!(last("c"), RequestStatus::Running);
    answered(running, "a3");
    assert_eq!(last("c"), RequestStatus::Completed);
}

/// A question q that is answered anew, with a, b and z replaced; what others do meanwhile; the request is gone on with, or
/// interrupted in between and resumed.
fn replaced_beside(store: &Store, is_resumed: bool, meanwhile: &dyn Fn(&str)) -> Vec<String> {
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let name = |id: &str| format!("{id} {chat}");
    let of_chat = [
        ("q", ChatRole::User),
        ("a", ChatRole::Assistant),
        ("b", ChatRole::Assistant),
    ];
    let messages = of_chat.iter().chain([&("z", ChatRole::Assistant)]);
    let messages = messages.map(|(id, role)| named(*role, &name(id)));
    chats.save_messages(&chat, messages.collect()).unwrap();
    let again = NewRequest {
        replaces: Some(name("a")),
        ..NewRequest::new("travel")
    };
    let mut request = chats.answer_again(&chat, again, &name("q")).unwrap();
    let input = RawJson::parse("{}").unwrap();
    request.start_step(StepType::Llm, input).unwrap();
    request.flush().unwrap();
    meanwhile(&chat);
    if is_resumed {
        drop(request);
        let resumption = chats.resume(&chat).unwrap().unwrap();
        request = chats.go_on(&resumption).unwrap();
    }
    request
        .send(named(ChatRole::Assistant, &name("NEW")))
        .unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let plain = |id: String| id.split(' ').next().unwrap().to_owned();
    ids(store, &chat).into_iter().map(plain).collect()
}

fn what_is_replaced_is_what_was_there_when_it_began_whatever_happens_meanwhile(store: &Store) {
    let chats = store.chats();
    let id = |name: &str, chat: &str| format!("{name} {chat}");
    let save = |name: &str, chat: &str, sequence: u64| {
        let message = ChatMessage {
            sequence,
            ..named(ChatRole::User, &id(name, chat))
        };
        chats.save_messages(chat, vec![message]).unwrap();
    };
    let moved = |name: &str, chat: &str, sequence: u64| {
        let updates = Updates::new().with("sequence", RawJson::from_value(&sequence).unwrap());
        chats.update_message(&id(name, chat), &updates).unwrap();
    };
    let delete = |name: &str, chat: &str| chats.delete_messages(chat, &[&id(name, chat)]).unwrap();
    type Meanwhile<'a> = (&'a dyn Fn(&str), &'a [&'a str]);
    let cases: [Meanwhile<'_>; 9] = [
        (&|_| (), &["q", "NEW"]),
        (&|chat| save("other", chat, 3), &["q", "other", "NEW"]),
        (
            &|chat| {
                save("other", chat, 0);
                moved("other", chat, 3)
            },
            &["q", "other", "NEW"],
        ),
        (
            &|chat| {
                save("other", chat, 0);
                moved("z", chat, 20)
            },
            &["q", "other", "NEW"],
        ),
        (&|chat| moved("q", chat, 9), &["q", "NEW"]),
        (&|chat| delete("a", chat), &["q", "NEW"]),
        (&|chat| delete("z", chat), &["q", "NEW"]),
        (
            &|chat| {
                delete("a", chat);
                save("a", chat, 0)
            },
            &["q", "a", "NEW"],
        ),
        (
            &|chat| chats.redact_message(&id("b", chat), "asked for").unwrap(),
            &["q", "NEW"],
        ),
    ];
    for (at, (meanwhile, wanted)) in cases.into_iter().enumerate() {
        for is_resumed in [false, true] {
            let left = replaced_beside(store, is_resumed, meanwhile);
            assert_eq!(left, wanted, "case {at}, resumed: {is_resumed}");
        }
    }
    // Once it has said something there is nothing left to replace.
    talked(store);
    let again = NewRequest {
        replaces: Some("a2".into()),
        ..request("r3")
    };
    let mut answering = chats.answer_again("c", again, "q2").unwrap();
    let input = RawJson::parse("{}").unwrap();
    answering.start_step(StepType::Llm, input).unwrap();
    answering.send(named(ChatRole::Assistant, "n1")).unwrap();
    answering.flush().unwrap();
    answering.send(named(ChatRole::Assistant, "a2")).unwrap();
    answering.flush().unwrap();
    drop(answering);
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut resumed = chats.go_on(&resumption).unwrap();
    resumed.send(named(ChatRole::Assistant, "n2")).unwrap();
    resumed.finish(RequestEnd::Completed).unwrap();
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "n1", "a2", "n2"]);
}

fn an_answer_that_is_being_replaced_is_nobody_elses_to_replace(store: &Store) {
    talked(store);
    let replacing = |id: &str| NewRequest {
        replaces: Some("a2".into()),
        ..request(id)
    };
    let chats = store.chats();
    let first = chats.answer_again("c", replacing("r3"), "q2").unwrap();
    let asked = named(ChatRole::User, "q3");
    let begun = chats.begin_request("c", replacing("r4"), asked);
    is_refused(begun, ErrorKind::Conflict, "\"r3\" is under way");
    answered(first, "a3");
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a3"]);
}

fn many_messages_are_replaced_at_once(store: &Store) {
    talked(store);
    let chats = store.chats();
    for many in 0..10 {
        let saved = (0..100).map(|one| named(ChatRole::User, &format!("m{many}_{one}")));
        chats.save_messages("c", saved.collect()).unwrap();
    }
    let other = NewRequest {
        replaces: Some("m0_0".into()),
        after: Some("m9_99".into()),
        ..request("r3")
    };
    let asked = named(ChatRole::User, "q3");
    answered(chats.begin_request("c", other, asked).unwrap(), "a3");
    assert_eq!(ids(store, "c"), ["q1", "a1", "q2", "a2", "q3", "a3"]);
    assert!(
        chats.get_messages("c", &MessageFilter::default()).unwrap()[4]
            .id
            .is_some()
    );
}
