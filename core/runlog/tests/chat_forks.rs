//! Copies of a session up to a message of its chat, on memory and on disk: a user's next try, from any message on.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use runlog::{
    ErrorKind, NewMessage, RawJson, blocking,
    chats::{
        Chat, ChatMessage, ChatRole, ListRequests, ListSteps, MessageFilter, NewRequest,
        RequestDetails, RequestEnd, RequestStatus, StepType, Updates,
    },
    sessions::{CopiedSession, CopySession},
};

both! {
    a_chat_without_agents_is_copied_up_to_any_message
    an_answer_is_copied_with_its_request_and_a_question_without
    what_agents_wrote_is_copied_up_to_the_message
    agents_know_no_more_than_then_though_a_message_before_it_was_saved_later
    an_answer_that_grew_while_another_one_was_sent_is_copied_whole
    deleted_messages_do_not_come_back_and_redacted_ones_neither
    messages_in_another_order_are_copied_in_that_order
    a_copy_is_copied_up_to_a_message_that_it_has_of_its_source
    a_message_that_is_not_there_is_refused_and_nothing_is_made
    an_answer_that_was_interrupted_is_gone_on_with_in_the_copy
    a_copy_for_somebody_is_seen_by_nobody_else
    an_answer_is_whole_though_its_user_said_something_else_meanwhile
    a_question_that_was_changed_before_anything_else_came_is_copied_changed
    a_question_that_was_changed_while_it_was_answered_is_copied_changed
}

/// Three turns of an agent, after which a note is pinned to the top, or an answer moved there.
fn agents_know_no_more_than_then_though_a_message_before_it_was_saved_later(
    store: &blocking::Store,
) {
    for pins in [false, true] {
        let chat_id = format!("pinned {pins}");
        let chats = store.chats();
        let chat = Chat {
            chat_id: chat_id.clone(),
            ..Chat::new("travel")
        };
        chats.create_chat(chat).unwrap();
        let session = chats.session_id(&chat_id).unwrap();
        let instance = store.create_instance(session, "a", None).unwrap().id;
        let context = store.context(instance).unwrap();
        let say = |id: String, role, place: u64| {
            let message = ChatMessage {
                message_id: id.clone(),
                sequence: place,
                ..text(role, &id)
            };
            chats.save_messages(&chat_id, vec![message]).unwrap();
        };
        for turn in 1..=3 {
            let (asks, answers) = (format!("q{turn} {pins}"), format!("a{turn} {pins}"));
            say(asks.clone(), ChatRole::User, turn * 20);
            context.append_message(NewMessage::user(&asks)).unwrap();
            let answer = NewMessage::assistant(&answers);
            context.append_message(answer).unwrap();
            say(answers, ChatRole::Assistant, turn * 20 + 10);
        }
        let known = || {
            let mut known = Vec::new();
            for message in said(store, &chat_id) {
                let at = store.sequence_at_message(session, &message).unwrap();
                let options = CopySession {
                    up_to_message: Some(message.clone()),
                    ..CopySession::default()
                };
                let copied = store.copy_session(session, &options).unwrap();
                let root = store.root_instance(copied.session.id).unwrap();
                let context = store.context(root.id).unwrap();
                assert_eq!(context.get_last_sequence().unwrap(), at, "{message}");
                let shown = said(store, &copied.session.id.to_string());
                known.push((message, at, shown.len()));
            }
            known
        };
        let before = known();
        let at: Vec<u64> = before.iter().map(|(_, at, _)| *at).collect();
        assert_eq!(at, [0, 2, 2, 4, 4, 6]);
        if pins {
            say(format!("note {pins}"), ChatRole::Assistant, 1);
        } else {
            let updates = Updates::new().with("sequence", RawJson::from_value(&1).unwrap());
            chats
                .update_message(&format!("a3 {pins}"), &updates)
                .unwrap();
        }
        let after = known();
        for (place, (message, at, shown)) in after.iter().enumerate() {
            assert_eq!(*shown, place + 1, "{message}");
            match before.iter().find(|(it, ..)| it == message) {
                Some((_, then, _)) => assert_eq!(at, then, "{message}"),
                None => assert_eq!(*at, 6, "{message}"),
            }
        }
    }
}

fn text(role: ChatRole, content: &str) -> ChatMessage {
    ChatMessage::text(role, content)
}

/// A chat "c".
fn begun(store: &blocking::Store) {
    let chat = Chat {
        chat_id: "c".into(),
        ..Chat::new("travel")
    };
    store.chats().create_chat(chat).unwrap();
}

fn said(store: &blocking::Store, chat: &str) -> Vec<String> {
    let messages = store.chats().get_messages(chat, &MessageFilter::default());
    let content = |message: ChatMessage| {
        let props: serde_json::Value = message.props.to_value().unwrap();
        props["content"].as_str().unwrap().to_owned()
    };
    messages.unwrap().into_iter().map(content).collect()
}

/// The id of the message that says this.
fn id_of(store: &blocking::Store, chat: &str, content: &str) -> String {
    let at = said(store, chat).iter().position(|one| one == content);
    let messages = store.chats().get_messages(chat, &MessageFilter::default());
    messages.unwrap()[at.unwrap()].message_id.clone()
}

fn copied(store: &blocking::Store, chat: &str, up_to: &str) -> CopiedSession {
    let source = store.find_session(chat).unwrap().id;
    let options = CopySession {
        up_to_message: Some(id_of(store, chat, up_to)),
        ..CopySession::default()
    };
    store.copy_session(source, &options).unwrap()
}

fn fork(store: &blocking::Store, chat: &str, up_to: &str) -> String {
    copied(store, chat, up_to).session.id.to_string()
}

/// A request with an answer, in the chat "c".
fn asked(store: &blocking::Store, question: &str, answers: &[&str]) {
    let (chats, new) = (store.chats(), NewRequest::new("travel"));
    let question = text(ChatRole::User, question);
    let mut request = chats.begin_request("c", new, question).unwrap();
    let input = RawJson::parse(r#"{"messages":[]}"#).unwrap();
    let step = request.start_step(StepType::Llm, input).unwrap();
    for answer in answers {
        request.send(text(ChatRole::Assistant, answer)).unwrap();
    }
    request.complete_step(&step, None).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
}

fn steps(store: &blocking::Store, chat: &str) -> usize {
    let of_chat = ListSteps {
        chat_id: Some(chat.into()),
        ..ListSteps::default()
    };
    store.chats().list_steps(&of_chat).unwrap().items.len()
}

/// The requests of a chat that aren't over.
fn unfinished(store: &blocking::Store, chat: &str) -> usize {
    let of_chat = ListRequests {
        chat_id: Some(chat.into()),
        ..ListRequests::default()
    };
    store.chats().list_requests(&of_chat).unwrap().items.len()
}

fn a_chat_without_agents_is_copied_up_to_any_message(store: &blocking::Store) {
    begun(store);
    let all = ["a", "b", "c", "d", "e"];
    let roles = [ChatRole::User, ChatRole::Assistant];
    for (content, role) in all.iter().zip(roles.into_iter().cycle()) {
        let message = vec![text(role, content)];
        store.chats().save_messages("c", message).unwrap();
    }
    for (count, content) in (1..).zip(all) {
        let copy = fork(store, "c", content);
        assert_eq!(said(store, &copy), all[..count], "up to {content}");
        let chat = store.chats().get_chat(&copy).unwrap().unwrap();
        assert!(chat.last_message_at_ms.is_some());
        let next = vec![text(ChatRole::User, "else")];
        let saved = store.chats().save_messages(&copy, next).unwrap();
        assert_eq!(saved[0].sequence, count as u64 + 1);
    }
    assert_eq!(said(store, "c"), all);
}

fn an_answer_is_copied_with_its_request_and_a_question_without(store: &blocking::Store) {
    begun(store);
    asked(store, "first", &["one", "two", "three"]);
    asked(store, "second", &["four"]);
    let of = |up_to: &str| {
        let copy = fork(store, "c", up_to);
        let requests = unfinished(store, &copy);
        (said(store, &copy), steps(store, &copy), requests)
    };
    let all = ["first", "one", "two", "three", "second", "four"];
    let wanted = |count: usize, steps| {
        (
            all[..count].iter().map(|it| (*it).to_owned()).collect(),
            steps,
            0,
        )
    };
    assert_eq!(of("first"), wanted(1, 0));
    assert_eq!(
        of("one"),
        wanted(2, 1),
        "the request was answered, whatever is left out"
    );
    assert_eq!(of("two"), wanted(3, 1));
    assert_eq!(of("three"), wanted(4, 1));
    assert_eq!(of("second"), wanted(5, 1));
    assert_eq!(of("four"), wanted(6, 2));
    let copy = fork(store, "c", "one");
    let answer = &store
        .chats()
        .get_messages(&copy, &MessageFilter::default())
        .unwrap()[1];
    let request = answer.request_id.clone().unwrap();
    let request = store.chats().get_request(&request).unwrap().unwrap();
    assert_eq!(request.status, RequestStatus::Completed);
}

fn what_agents_wrote_is_copied_up_to_the_message(store: &blocking::Store) {
    begun(store);
    let session = store.find_session("c").unwrap().id;
    let lead = store.create_instance(session, "lead", None).unwrap();
    let context = store.context(lead.id).unwrap();
    for round in ["1", "2"] {
        let question = text(ChatRole::User, &format!("asked {round}"));
        let mut request = store
            .chats()
            .begin_request("c", NewRequest::new("travel"), question)
            .unwrap();
        context.append_message(NewMessage::user("asked")).unwrap();
        context
            .append_message(NewMessage::assistant("answered"))
            .unwrap();
        let answer = text(ChatRole::Assistant, &format!("answered {round}"));
        request.send(answer).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
    }
    let of = |up_to: &str| {
        let copy = copied(store, "c", up_to);
        let copied = &copy.instances[0];
        assert_eq!(copied.source, lead.id);
        let context = store.context(copied.instance.id).unwrap();
        context.get_last_sequence().unwrap()
    };
    assert_eq!(
        ["asked 1", "answered 1", "asked 2", "answered 2"].map(of),
        [0, 2, 2, 4]
    );
}

fn an_answer_that_grew_while_another_one_was_sent_is_copied_whole(store: &blocking::Store) {
    begun(store);
    let (chats, new) = (store.chats(), NewRequest::new("travel"));
    let question = text(ChatRole::User, "both?");
    let mut request = chats.begin_request("c", new, question).unwrap();
    let answer = request.send(text(ChatRole::Assistant, "By ")).unwrap();
    request.flush().unwrap();
    request.send(text(ChatRole::Assistant, "By ship.")).unwrap();
    request.flush().unwrap();
    request.append(&answer, "train.").unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let copy = fork(store, "c", "By train.");
    assert_eq!(said(store, &copy), ["both?", "By train."]);
    assert_eq!(unfinished(store, &copy), 0);
}

fn deleted_messages_do_not_come_back_and_redacted_ones_neither(store: &blocking::Store) {
    begun(store);
    let chats = store.chats();
    for content in ["a", "b", "c", "d", "e"] {
        let message = vec![text(ChatRole::User, content)];
        chats.save_messages("c", message).unwrap();
    }
    let [a, b, d] = ["a", "b", "d"].map(|content| id_of(store, "c", content));
    let changed = Updates::parse(r#"{"props":{"content":"A"}}"#).unwrap();
    chats.update_message(&a, &changed).unwrap();
    chats.delete_messages("c", &[&b]).unwrap();
    chats.redact_message(&d, "asked for").unwrap();
    // Its text is that of when the next message came; what was deleted then and since is gone.
    assert_eq!(said(store, &fork(store, "c", "c")), ["a", "c"]);
    assert_eq!(said(store, &fork(store, "c", "e")), ["A", "c", "e"]);
    assert_eq!(said(store, "c"), ["A", "c", "e"]);
}

fn messages_in_another_order_are_copied_in_that_order(store: &blocking::Store) {
    begun(store);
    let at = |sequence, content: &str| ChatMessage {
        sequence,
        ..text(ChatRole::User, content)
    };
    for (sequence, content) in [(30, "c"), (10, "a"), (40, "d"), (20, "b")] {
        let message = vec![at(sequence, content)];
        store.chats().save_messages("c", message).unwrap();
    }
    assert_eq!(said(store, "c"), ["a", "b", "c", "d"]);
    for (count, content) in (1..).zip(["a", "b", "c", "d"]) {
        let copy = fork(store, "c", content);
        assert_eq!(said(store, &copy), ["a", "b", "c", "d"][..count]);
    }
    // One that was moved since.
    let first = id_of(store, "c", "a");
    let moved = Updates::parse(r#"{"sequence":35}"#).unwrap();
    store.chats().update_message(&first, &moved).unwrap();
    assert_eq!(said(store, &fork(store, "c", "a")), ["b", "c", "a"]);
    assert_eq!(said(store, &fork(store, "c", "c")), ["b", "c"]);
}

fn a_copy_is_copied_up_to_a_message_that_it_has_of_its_source(store: &blocking::Store) {
    begun(store);
    asked(store, "first", &["one", "two"]);
    asked(store, "second", &["three"]);
    let copy = fork(store, "c", "second");
    let next = vec![text(ChatRole::Assistant, "three, else")];
    store.chats().save_messages(&copy, next).unwrap();
    let gone = id_of(store, &copy, "first");
    store.chats().delete_messages(&copy, &[&gone]).unwrap();
    let of = |up_to: &str| said(store, &fork(store, &copy, up_to));
    assert_eq!(of("one"), ["one"]);
    assert_eq!(of("second"), ["one", "two", "second"]);
    assert_eq!(of("three, else"), ["one", "two", "second", "three, else"]);
    assert_eq!(steps(store, &fork(store, &copy, "one")), 1);
    assert_eq!(unfinished(store, &fork(store, &copy, "one")), 0);
}

fn a_message_that_is_not_there_is_refused_and_nothing_is_made(store: &blocking::Store) {
    begun(store);
    asked(store, "first", &["one"]);
    let other = Chat {
        chat_id: "other".into(),
        ..Chat::new("travel")
    };
    store.chats().create_chat(other).unwrap();
    let source = store.find_session("c").unwrap().id;
    let elsewhere = text(ChatRole::User, "x");
    let elsewhere = store
        .chats()
        .save_messages("other", vec![elsewhere])
        .unwrap();
    let deleted = id_of(store, "c", "one");
    store.chats().delete_messages("c", &[&deleted]).unwrap();
    for id in ["nobody", "", &elsewhere[0].message_id, &deleted] {
        let options = CopySession {
            up_to_message: Some(id.into()),
            ..CopySession::default()
        };
        let error = store.copy_session(source, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{id:?}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("session {source} has no message {id:?}")),
            "{text}"
        );
    }
    let both = CopySession {
        up_to_sequence: Some(0),
        up_to_message: Some(id_of(store, "c", "first")),
        ..CopySession::default()
    };
    let error = store.copy_session(source, &both).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let sessions = store.list_sessions(&Default::default()).unwrap().items;
    assert_eq!(sessions.len(), 2);
}

fn an_answer_that_was_interrupted_is_gone_on_with_in_the_copy(store: &blocking::Store) {
    begun(store);
    let (chats, new) = (store.chats(), NewRequest::new("travel"));
    let question = text(ChatRole::User, "go");
    let mut request = chats.begin_request("c", new, question).unwrap();
    let input = RawJson::parse(r#"{"messages":[]}"#).unwrap();
    request.start_step(StepType::Llm, input).unwrap();
    request.send(text(ChatRole::Assistant, "so far")).unwrap();
    let took = |tokens: u32| RequestDetails {
        usage: Some(RawJson::parse(format!(r#"{{"tokens":{tokens}}}"#)).unwrap()),
        ..RequestDetails::default()
    };
    request.describe(took(100)).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let next = vec![text(ChatRole::User, "never mind")];
    chats.save_messages("c", next).unwrap();
    let copy = fork(store, "c", "so far");
    assert_eq!(said(store, &copy), ["go", "so far"]);
    let resumption = chats.resume(&copy).unwrap().unwrap();
    // What was taken so far is counted in the original.
    let of = |chat: &str| {
        let all = chats.get_requests(chat).unwrap();
        let usage = all[0].usage.as_ref().map(|json| json.as_str().to_owned());
        (all[0].is_copied, usage)
    };
    let tokens = |tokens: u32| Some(format!(r#"{{"tokens":{tokens}}}"#));
    assert_eq!(of(&copy), (true, tokens(100)));
    let unfinished = || {
        let all = chats.list_requests(&ListRequests::default()).unwrap().items;
        let of_copy = all.into_iter().filter(|it| it.chat_id == copy);
        of_copy.map(|it| it.status).collect::<Vec<_>>()
    };
    assert_eq!(unfinished(), []);
    let mut request = chats.go_on(&resumption).unwrap();
    assert_eq!(of(&copy), (true, tokens(100)));
    request.send(text(ChatRole::Assistant, "and on")).unwrap();
    request.flush().unwrap();
    // So that it is found after a crash.
    assert_eq!(of(&copy), (false, None));
    assert_eq!(unfinished(), [RequestStatus::Running]);
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(unfinished(), []);
    assert_eq!(of(&copy), (false, None));
    assert!(chats.resume(&copy).unwrap().is_none());
    let resumption = chats.resume("c").unwrap().unwrap();
    let mut request = chats.go_on(&resumption).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(of("c"), (false, tokens(100)));
    let third = fork(store, &copy, "so far");
    assert_eq!(of(&third), (true, None));
}

fn a_copy_for_somebody_is_seen_by_nobody_else(store: &blocking::Store) {
    let chats = store.chats();
    let chat = Chat {
        chat_id: "c".into(),
        created_by: Some("ann".into()),
        team_id: Some("red".into()),
        public: true,
        ..Chat::new("travel")
    };
    chats.create_chat(chat).unwrap();
    let message = vec![text(ChatRole::User, "a")];
    chats.save_messages("c", message).unwrap();
    let source = store.find_session("c").unwrap().id;
    let copy = |created_by: Option<&str>| {
        let options = CopySession {
            created_by: created_by.map(str::to_owned),
            ..CopySession::default()
        };
        store.copy_session(source, &options)
    };
    let of_eve = copy(Some("eve")).unwrap().session.id.to_string();
    let found = chats.get_chat(&of_eve).unwrap().unwrap();
    let owner = (found.created_by.as_deref(), found.team_id, found.public);
    assert_eq!(owner, (Some("eve"), None, false));
    let as_it_was = copy(None).unwrap().session.id.to_string();
    let found = chats.get_chat(&as_it_was).unwrap().unwrap();
    assert_eq!(
        (found.created_by.as_deref(), found.public),
        (Some("ann"), true)
    );
    let long = "x".repeat(1_000);
    assert_eq!(copy(Some(&long)).unwrap_err().kind(), ErrorKind::TooLarge);
    let plain = store.create_session(Default::default()).unwrap().id;
    let options = CopySession {
        created_by: Some("eve".into()),
        ..CopySession::default()
    };
    let error = store.copy_session(plain, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let over = ListRequests {
        status: Some(RequestStatus::Completed),
        ..ListRequests::default()
    };
    assert_eq!(
        chats.list_requests(&over).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

fn an_answer_is_whole_though_its_user_said_something_else_meanwhile(store: &blocking::Store) {
    begun(store);
    let (chats, new) = (store.chats(), NewRequest::new("travel"));
    let question = text(ChatRole::User, "to Oslo?");
    let mut request = chats.begin_request("c", new.clone(), question).unwrap();
    let input = RawJson::parse(r#"{"messages":[]}"#).unwrap();
    let step = request.start_step(StepType::Llm, input.clone()).unwrap();
    let answer = request.send(text(ChatRole::Assistant, "By tr")).unwrap();
    request.flush().unwrap();
    let cheap = text(ChatRole::User, "(and cheap)");
    chats.save_messages("c", vec![cheap]).unwrap();
    let beside = text(ChatRole::User, "and back?");
    let mut other = chats.begin_request("c", new, beside).unwrap();
    other.start_step(StepType::Llm, input).unwrap();
    other.send(text(ChatRole::Assistant, "By")).unwrap();
    other.flush().unwrap();
    request.append(&answer, "ain.").unwrap();
    request.complete_step(&step, None).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    other.finish(RequestEnd::Interrupted).unwrap();
    let copy = fork(store, "c", "By train.");
    assert_eq!(said(store, &copy), ["to Oslo?", "By train."]);
    assert!(
        chats.resume(&copy).unwrap().is_none(),
        "nothing is to be asked again"
    );
    let messages = chats
        .get_messages(&copy, &MessageFilter::default())
        .unwrap();
    let request = messages[1].request_id.clone().unwrap();
    let request = chats.get_request(&request).unwrap().unwrap();
    assert_eq!(request.status, RequestStatus::Completed);
    // Of what came with it, nothing is left open; the source goes on with it.
    assert!(chats.resume("c").unwrap().is_some());
    let next = text(ChatRole::User, "else");
    chats.save_messages(&copy, vec![next]).unwrap();
    assert_eq!(said(store, &copy).len(), 3);
}

fn a_question_that_was_changed_before_anything_else_came_is_copied_changed(
    store: &blocking::Store,
) {
    begun(store);
    let chats = store.chats();
    let saved = chats.save_messages("c", vec![text(ChatRole::User, "my password is x")]);
    let id = saved.unwrap()[0].message_id.clone();
    let changed = Updates::parse(r#"{"props":{"content":"my password is ***"}}"#).unwrap();
    chats.update_message(&id, &changed).unwrap();
    assert_eq!(
        said(store, &fork(store, "c", "my password is ***")),
        ["my password is ***"]
    );
    chats
        .save_messages("c", vec![text(ChatRole::Assistant, "Keep it.")])
        .unwrap();
    assert_eq!(
        said(store, &fork(store, "c", "my password is ***")),
        ["my password is ***"]
    );
}

fn a_question_that_was_changed_while_it_was_answered_is_copied_changed(store: &blocking::Store) {
    begun(store);
    let chats = store.chats();
    asked(store, "first", &["one"]);
    let question = text(ChatRole::User, "my password is x");
    let mut request = chats
        .begin_request("c", NewRequest::new("travel"), question)
        .unwrap();
    let input = RawJson::parse(r#"{"messages":[]}"#).unwrap();
    request.start_step(StepType::Llm, input).unwrap();
    request.flush().unwrap();
    let changed = |content: &str, to: &str| {
        let props = RawJson::parse(format!(r#"{{"content":"{to}"}}"#)).unwrap();
        let id = id_of(store, "c", content);
        let updates = Updates::new().with("props", props);
        chats.update_message(&id, &updates).unwrap();
    };
    changed("my password is x", "my password is ***");
    changed("one", "1");
    let is_copied_changed = |when: &str| {
        let copy = fork(store, "c", "my password is ***");
        let all = ["first", "1", "my password is ***"];
        assert_eq!(said(store, &copy), all, "{when}");
        assert_eq!(chats.resume(&copy).unwrap(), None, "{when}");
        let requests = chats.get_requests(&copy).unwrap();
        let open = requests.iter().filter(|it| !it.status.is_over());
        assert_eq!(open.count(), 0, "{when}: nobody goes on with it there");
    };
    is_copied_changed("while it is answered");
    request.send(text(ChatRole::Assistant, "Keep it.")).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    is_copied_changed("once it was");
    // What is changed behind the answer is later than the question.
    changed("1", "2");
    is_copied_changed("after a later change");
}

/// Numbers that look random, the same each time.
fn numbers(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |end| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % end
    }
}

/// Requests at the same time, flushed and ended in any order among messages that were saved by hand: up to each message of the chat
/// a copy has those before it, and an answer whose request was completed as it is in the source, with nothing of it left to resume.
#[test]
fn copies_up_to_every_message_of_requests_that_ran_at_once_are_what_a_user_sees() {
    for seed in 0..60 {
        let store = blocking::Store::in_memory();
        begun(&store);
        let chats = store.chats();
        let mut below = numbers(seed);
        let (mut open, mut said_so_far) = (Vec::new(), 0);
        for _ in 0..40 {
            said_so_far += 1;
            let words = format!("{said_so_far} ");
            match (below(6), open.len()) {
                (0, 0..=2) => {
                    let question = text(ChatRole::User, &words);
                    let new = NewRequest::new("travel");
                    let mut request = chats.begin_request("c", new, question).unwrap();
                    let input = RawJson::parse("{}").unwrap();
                    let step = request.start_step(StepType::Llm, input).unwrap();
                    open.push((request, step, None));
                }
                (1, _) => {
                    let message = vec![text(ChatRole::User, &words)];
                    chats.save_messages("c", message).unwrap();
                }
                (_, 0) => {}
                (what, count) => {
                    let place = below(count);
                    let (request, step, answer) = &mut open[place];
                    match (what, answer.clone()) {
                        (2, _) | (_, None) => {
                            let message = text(ChatRole::Assistant, &words);
                            *answer = Some(request.send(message).unwrap());
                        }
                        (3, Some(answer)) => request.append(&answer, &words).unwrap(),
                        (4, _) => request.flush().unwrap(),
                        _ => {
                            let (mut request, step, _) = {
                                let _ = step;
                                open.remove(place)
                            };
                            request.complete_step(&step, None).unwrap();
                            let ends = [RequestEnd::Completed, RequestEnd::Interrupted];
                            let [completed, interrupted] = ends;
                            let end = if below(4) > 0 { completed } else { interrupted };
                            request.finish(end).unwrap();
                        }
                    }
                }
            }
        }
        for (mut request, ..) in open {
            request.finish(RequestEnd::Interrupted).unwrap();
        }
        let all = chats.get_messages("c", &MessageFilter::default()).unwrap();
        let source = store.find_session("c").unwrap().id;
        for (place, message) in all.iter().enumerate() {
            let options = CopySession {
                up_to_message: Some(message.message_id.clone()),
                ..CopySession::default()
            };
            let copy = store.copy_session(source, &options).unwrap();
            let copy = copy.session.id.to_string();
            let copied = chats
                .get_messages(&copy, &MessageFilter::default())
                .unwrap();
            let what = format!("seed {seed}, message {place}");
            let roles =
                |messages: &[ChatMessage]| messages.iter().map(|it| it.role).collect::<Vec<_>>();
            assert_eq!(roles(&copied), roles(&all[..=place]), "{what}");
            let request = message.request_id.as_ref();
            let request = request.and_then(|id| chats.get_request(id).unwrap());
            let is_over = request.is_some_and(|it| it.status == RequestStatus::Completed);
            if message.role == ChatRole::Assistant && is_over {
                assert_eq!(copied[place].props, message.props, "{what}");
                let own = copied[place].request_id.clone().unwrap();
                let found = chats.get_request(&own).unwrap().unwrap();
                assert_eq!(found.status, RequestStatus::Completed, "{what}");
                assert!(chats.resume_request(&own).unwrap().is_none(), "{what}");
            }
        }
    }
}
