//! What a chat says is so: ids name one thing, what was deleted or redacted stays away, and what ended is over.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use runlog::{
    Chat, ChatMessage, ChatRole, ChatStore, ErrorKind, ListSessions, MessageFilter, NewRequest, RawJson, RequestEnd,
    StepStatus, StepType, Store, Timestamp, Updates,
};

fn chats() -> (Store, ChatStore, String) {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap();
    (store, chats, chat.chat_id)
}

fn message(id: &str, text: &str) -> ChatMessage {
    ChatMessage { message_id: id.into(), ..ChatMessage::text(ChatRole::User, text) }
}

fn texts(chats: &ChatStore, chat: &str) -> Vec<(String, u64)> {
    let messages = chats.get_messages(chat, &MessageFilter::default()).unwrap();
    messages.into_iter().map(|message| (message.props.as_str().to_owned(), message.sequence)).collect()
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

#[test]
fn a_chat_id_is_kept_as_it_is_given() {
    let (_, chats, _) = chats();
    for id in [
        "550E8400E29B41D4A716446655440000",
        "5d41402abc4b2a76b9719d911017c592",
        "{550e8400-e29b-41d4-a716-446655440000}",
    ] {
        let made = chats.create_chat(Chat { chat_id: id.into(), ..Chat::new("a") }).unwrap();
        assert_eq!((made.chat_id.as_str(), chats.get_chat(id).unwrap().chat_id.as_str()), (id, id));
        let message = ChatMessage { chat_id: id.into(), ..message("", "x") };
        assert_eq!(chats.save_messages(id, vec![message]).unwrap()[0].chat_id, id);
        chats.delete_chat(id).unwrap();
        chats.create_chat(Chat { chat_id: id.into(), ..Chat::new("a") }).unwrap();
    }
    assert_eq!(chats.get_chat("550e8400-e29b-41d4-a716-446655440000").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_last_message_is_as_old_as_it_says() {
    let (_, chats, chat) = chats();
    let old = ChatMessage { created_at: Timestamp(1_577_836_800_000), ..message("", "old") };
    chats.save_messages(&chat, vec![old.clone()]).unwrap();
    assert_eq!(chats.get_chat(&chat).unwrap().last_message_at, Some(old.created_at));
    chats.save_messages(&chat, vec![message("", "new")]).unwrap();
    let newest = chats.get_chat(&chat).unwrap().last_message_at;
    chats.save_messages(&chat, vec![old.clone()]).unwrap();
    assert!(newest > Some(old.created_at));
    assert_eq!(chats.get_chat(&chat).unwrap().last_message_at, newest, "an older one changes nothing");
}

#[test]
fn an_id_that_two_chats_have_is_ambiguous_whatever_was_read_before() {
    let (_, chats, one) = chats();
    let other = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    for chat in [&one, &other] {
        chats.save_messages(chat, vec![message("m1", "x")]).unwrap();
    }
    for chat in [None, Some(&one), Some(&other)] {
        chat.iter().for_each(|chat| drop(texts(&chats, chat)));
        let error = chats.update_message("m1", &Updates::new().with("props", raw("{}"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous);
        assert!(error.to_string().contains(&one) && error.to_string().contains(&other), "{error}");
    }
    // From then on the ids of the store are known.
    let third = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let error = chats.save_messages(&third, vec![message("m1", "x")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    chats.save_messages(&third, vec![message("m2", "x")]).unwrap();
    chats.update_message("m2", &Updates::new().with("props", raw(r#"{"content":"y"}"#))).unwrap();
}

#[test]
fn a_message_that_is_sent_takes_no_others_place() {
    let (_, chats, chat) = chats();
    chats.save_messages(&chat, vec![message("keep", "precious")]).unwrap();
    let mut request = chats.begin_request(&chat, NewRequest::new("a"), message("asked", "?")).unwrap();
    for id in ["keep", "asked"] {
        let error = request.send(message(id, "OVERWRITTEN")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }
    // Taken by somebody else while the request was under way.
    request.send(message("late", "mine")).unwrap();
    chats.save_messages(&chat, vec![message("late", "theirs")]).unwrap();
    assert_eq!(request.finish(RequestEnd::Completed).unwrap_err().kind(), ErrorKind::AlreadyExists);
    drop(request);
    let kept: Vec<String> = texts(&chats, &chat).into_iter().map(|(text, _)| text).collect();
    assert_eq!(
        kept,
        ["precious", "?", "theirs", "mine"].map(|text| format!(r#"{{"content":"{text}"}}"#)),
        "none is lost"
    );
}

#[test]
fn a_resumption_ends_with_its_request() {
    let (_, chats, chat) = chats();
    let mut request = chats.begin_request(&chat, NewRequest::new("a"), message("", "?")).unwrap();
    request.start_step(StepType::Llm, raw(r#"{"n":1}"#)).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    // Interrupted once more, with another input.
    let again = chats.resume(&chat).unwrap().unwrap();
    let mut request = chats.go_on(&again).unwrap();
    request.start_step(StepType::Llm, raw(r#"{"n":2}"#)).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();

    let last = chats.resume(&chat).unwrap().unwrap();
    assert_eq!(last.input().unwrap().as_str(), r#"{"n":2}"#);
    let mut request = chats.go_on(&last).unwrap();
    request.send(message("", "answer")).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert!(chats.resume(&chat).unwrap().is_none(), "no phantom is left");
    // Its output may still be told.
    let told = chats.complete_resumed(&last, &raw(r#"{"content":"answer"}"#)).unwrap();
    assert_eq!(
        (told[0].status, told[0].output.as_ref().unwrap().as_str()),
        (StepStatus::Completed, r#"{"content":"answer"}"#)
    );
}

#[test]
fn a_failed_try_that_was_made_up_for_is_not_resumed() {
    let (_, chats, chat) = chats();
    let mut request = chats.begin_request(&chat, NewRequest::new("a"), message("", "?")).unwrap();
    let first = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.fail_step(&first, "no answer").unwrap();
    let second = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.complete_step(&second, None).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert!(chats.resume(&chat).unwrap().is_none());
}

#[test]
fn a_request_that_fails_without_a_step_keeps_its_error() {
    let (_, chats, chat) = chats();
    let mut request = chats.begin_request(&chat, NewRequest::new("a"), message("", "?")).unwrap();
    request.finish(RequestEnd::Failed("no model".into())).unwrap();
    let resumption = chats.resume(&chat).unwrap().unwrap();
    assert_eq!((resumption.step.status, resumption.step.error.as_deref()), (StepStatus::Failed, Some("no model")));
}

#[test]
fn a_redacted_message_is_nowhere_any_more() {
    let (store, chats, chat) = chats();
    chats.save_messages(&chat, vec![message("secret", "first 1234"), message("", "other")]).unwrap();
    chats.update_message("secret", &Updates::new().with("props", raw(r#"{"content":"second 1234"}"#))).unwrap();
    let copy = store.copy_session(
        store.find_session(&chat).map_or_else(|_| chat.parse().unwrap(), |found| found.id),
        &Default::default(),
    );
    let copy = copy.unwrap().session.id.to_string();
    assert_eq!((texts(&chats, &chat).len(), texts(&chats, &copy).len()), (2, 2));
    chats.redact_message("secret", "asked for").unwrap();
    for chat in [&chat, &copy] {
        assert_eq!(texts(&chats, chat), [(r#"{"content":"other"}"#.to_owned(), 2)]);
        chats.save_messages(chat, vec![message("", "next")]).unwrap();
        assert_eq!(texts(&chats, chat)[1].1, 3, "its sequence is nobody else's");
    }
    assert_eq!(chats.redact_message("secret", "again").unwrap_err().kind(), ErrorKind::NotFound);
    // Nor does an import bring it back.
    let row = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","chat_id":"{chat}","role":"user","content":"first 1234"{more}}}"#)
    };
    assert_eq!(chats.import_agent_history(&row("secret", "")).unwrap().imported, 0);
    let deleted = row("old", r#","deleted_at":"2020-01-01 00:00:00""#);
    assert_eq!(chats.import_agent_history(&deleted).unwrap().skipped, 1, "what was deleted before");
    assert_eq!(texts(&chats, &chat).len(), 2);
}

#[test]
fn imported_chats_keep_their_deletions_and_their_times() {
    let (store, chats, _) = chats();
    let rows = concat!(
        "\u{feff}",
        r#"{"id":1,"chat_id":"5d41402abc4b2a76b9719d911017c592","assistant_id":"a","preset":"0","public":"1","last_message_at":"2020-01-02 00:00:00","deleted_at":"0000-00-00 00:00:00"}"#,
        "\n",
        r#"{"id":2,"chat_id":"gone","assistant_id":"a","deleted_at":"2020-01-01 00:00:00"}"#,
        "\n",
    );
    let history = r#"{"id":7,"chat_id":"5d41402abc4b2a76b9719d911017c592","role":"user","content":"hi","created_at":"2020-01-01 00:00:00"}"#;
    for _ in 0..2 {
        let report = chats.import_agent_chat(rows).unwrap();
        assert_eq!(report.issues, []);
        chats.import_agent_history(history).unwrap();
    }
    let id = "5d41402abc4b2a76b9719d911017c592";
    let chat = chats.get_chat(id).unwrap();
    assert_eq!((chat.preset, chat.public), (false, true));
    assert_eq!(chat.last_message_at, Some(Timestamp(1_577_923_200_000)), "not the time of the import");
    assert_eq!(chats.get_messages(id, &MessageFilter::default()).unwrap()[0].chat_id, id);
    assert_eq!(chats.get_chat("gone").unwrap_err().kind(), ErrorKind::NotFound);
    let all = ListSessions { deleted: runlog::Deleted::Shown, ..ListSessions::default() };
    let deleted = store.list_sessions(&all).unwrap().sessions;
    assert_eq!(deleted.iter().filter(|session| session.deleted_at_ms.is_some()).count(), 1, "and not twice");
    assert_eq!(chats.list_chats(&Default::default()).unwrap().total, 2);

    // What is deleted here stays so when the same is imported again.
    chats.delete_messages(id, &["7"]).unwrap();
    assert_eq!(chats.import_agent_history(history).unwrap().skipped, 1);
    assert!(texts(&chats, id).is_empty());
    chats.delete_chat(id).unwrap();
    chats.import_agent_chat(rows).unwrap();
    assert_eq!(chats.get_chat(id).unwrap_err().kind(), ErrorKind::NotFound);
}
