//! What a chat says is so: ids name one thing, what was deleted or redacted stays away, and what ended is over.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::{Arc, Mutex};

use runlog::{
    Error, ErrorKind, RawJson,
    backend::{Backend, BackendFuture, Decorator},
    blocking::{Chats, RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRole, DelegateOptions, ImportOptions, ListRequests, MessageFilter,
        NewRequest, RequestEnd, RequestStatus, Step, StepStatus, StepType, Table, Updates,
    },
    log::{Appended, Batch, Position},
    retention::Erase,
    scan::TextQuery,
    sessions::ListSessions,
};

fn chats() -> (Store, Chats, String) {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap();
    (store, chats, chat.chat_id)
}

fn message(id: &str, text: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(ChatRole::User, text)
    }
}

fn texts(chats: &Chats, chat: &str) -> Vec<(String, u64)> {
    let messages = chats.get_messages(chat, &MessageFilter::default()).unwrap();
    messages
        .into_iter()
        .map(|message| (message.props.as_str().to_owned(), message.sequence))
        .collect()
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
        let made = chats
            .create_chat(Chat {
                chat_id: id.into(),
                ..Chat::new("a")
            })
            .unwrap();
        assert_eq!(
            (
                made.chat_id.as_str(),
                chats.get_chat(id).unwrap().unwrap().chat_id.as_str()
            ),
            (id, id)
        );
        let message = ChatMessage {
            chat_id: id.into(),
            ..message("", "x")
        };
        assert_eq!(
            chats.save_messages(id, vec![message]).unwrap()[0].chat_id,
            id
        );
        chats.delete_chat(id).unwrap();
        chats
            .create_chat(Chat {
                chat_id: id.into(),
                ..Chat::new("a")
            })
            .unwrap();
    }
    assert_eq!(
        chats
            .get_chat("550e8400-e29b-41d4-a716-446655440000")
            .unwrap(),
        None
    );
}

#[test]
fn the_last_message_is_as_old_as_it_says() {
    let (_, chats, chat) = chats();
    let old = ChatMessage {
        created_at_ms: 1_577_836_800_000,
        ..message("", "old")
    };
    chats.save_messages(&chat, vec![old.clone()]).unwrap();
    assert_eq!(
        chats.get_chat(&chat).unwrap().unwrap().last_message_at_ms,
        Some(old.created_at_ms)
    );
    chats
        .save_messages(&chat, vec![message("", "new")])
        .unwrap();
    let newest = chats.get_chat(&chat).unwrap().unwrap().last_message_at_ms;
    chats.save_messages(&chat, vec![old.clone()]).unwrap();
    assert!(newest > Some(old.created_at_ms));
    assert_eq!(
        chats.get_chat(&chat).unwrap().unwrap().last_message_at_ms,
        newest,
        "an older one changes nothing"
    );
}

#[test]
fn an_id_that_two_chats_have_is_ambiguous_whatever_was_read_before() {
    let (_, chats, one) = chats();
    let other = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    chats.save_messages(&one, vec![message("m1", "x")]).unwrap();
    let error = chats
        .save_messages(&other, vec![message("m1", "x")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    // While a chat is deleted its ids are free.
    chats.delete_chat(&one).unwrap();
    chats
        .save_messages(&other, vec![message("m1", "x")])
        .unwrap();
    chats.restore_chat(&one).unwrap();
    for chat in [None, Some(&one), Some(&other)] {
        chat.iter().for_each(|chat| drop(texts(&chats, chat)));
        let error = chats
            .update_message("m1", &Updates::new().with("props", raw("{}")))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous);
        assert!(
            error.to_string().contains(&one) && error.to_string().contains(&other),
            "{error}"
        );
    }
    let third = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let error = chats
        .save_messages(&third, vec![message("m1", "x")])
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    chats
        .save_messages(&third, vec![message("m2", "x")])
        .unwrap();
    chats
        .update_message(
            "m2",
            &Updates::new().with("props", raw(r#"{"content":"y"}"#)),
        )
        .unwrap();
}

#[test]
fn a_message_that_is_sent_takes_no_others_place() {
    let (_, chats, chat) = chats();
    chats
        .save_messages(&chat, vec![message("keep", "precious")])
        .unwrap();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("asked", "?"))
        .unwrap();
    for id in ["keep", "asked"] {
        let error = request.send(message(id, "OVERWRITTEN")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }
    // Taken by somebody else while the request was under way.
    request.send(message("late", "mine")).unwrap();
    chats
        .save_messages(&chat, vec![message("late", "theirs")])
        .unwrap();
    assert_eq!(
        request.finish(RequestEnd::Completed).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    drop(request);
    let kept: Vec<String> = texts(&chats, &chat)
        .into_iter()
        .map(|(text, _)| text)
        .collect();
    assert_eq!(
        kept,
        ["precious", "?", "theirs", "mine"].map(|text| format!(r#"{{"content":"{text}"}}"#)),
        "none is lost"
    );
}

#[test]
fn a_resumption_ends_with_its_request() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("", "?"))
        .unwrap();
    request
        .start_step(StepType::Llm, raw(r#"{"n":1}"#))
        .unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    // Interrupted once more, with another input.
    let again = chats.resume(&chat).unwrap().unwrap();
    let mut request = chats.go_on(&again).unwrap();
    request
        .start_step(StepType::Llm, raw(r#"{"n":2}"#))
        .unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();

    let last = chats.resume(&chat).unwrap().unwrap();
    assert_eq!(last.input().unwrap().as_str(), r#"{"n":2}"#);
    let mut request = chats.go_on(&last).unwrap();
    request.send(message("", "answer")).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert!(chats.resume(&chat).unwrap().is_none(), "no phantom is left");
    // Its output may still be told.
    let told = chats
        .complete_resumed(&last, &raw(r#"{"content":"answer"}"#))
        .unwrap();
    assert_eq!(
        (told[0].status, told[0].output.as_ref().unwrap().as_str()),
        (StepStatus::Completed, r#"{"content":"answer"}"#)
    );
}

#[test]
fn a_failed_try_that_was_made_up_for_is_not_resumed() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("", "?"))
        .unwrap();
    let first = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.fail_step(&first, "no answer").unwrap();
    let second = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.complete_step(&second, None).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert!(chats.resume(&chat).unwrap().is_none());
}

#[test]
fn of_steps_at_once_the_one_that_failed_is_resumed_though_others_were_completed() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("", "?"))
        .unwrap();
    let failed = request
        .start_step(StepType::Tool, raw(r#"{"of":1}"#))
        .unwrap();
    let other = request
        .start_step(StepType::Tool, raw(r#"{"of":2}"#))
        .unwrap();
    request.complete_step(&other, None).unwrap();
    request
        .finish(RequestEnd::Failed("no answer".into()))
        .unwrap();
    let resumption = chats.resume(&chat).unwrap().unwrap();
    assert_eq!(resumption.step.step_id, failed);
}

#[test]
fn a_request_that_fails_without_a_step_keeps_its_error() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("", "?"))
        .unwrap();
    request
        .finish(RequestEnd::Failed("no model".into()))
        .unwrap();
    let resumption = chats.resume(&chat).unwrap().unwrap();
    assert_eq!(
        (resumption.step.status, resumption.step.error.as_deref()),
        (StepStatus::Failed, Some("no model"))
    );
}

#[test]
fn a_redacted_message_is_nowhere_any_more() {
    let (store, chats, chat) = chats();
    chats
        .save_messages(
            &chat,
            vec![message("secret", "first 1234"), message("", "other")],
        )
        .unwrap();
    chats
        .update_message(
            "secret",
            &Updates::new().with("props", raw(r#"{"content":"second 1234"}"#)),
        )
        .unwrap();
    let copy = store.copy_session(
        store
            .find_session(&chat)
            .map_or_else(|_| chat.parse().unwrap(), |found| found.id),
        &Default::default(),
    );
    let copy = copy.unwrap().session.id.to_string();
    assert_eq!(
        (texts(&chats, &chat).len(), texts(&chats, &copy).len()),
        (2, 2)
    );
    chats.redact_message("secret", "asked for").unwrap();
    for chat in [&chat, &copy] {
        assert_eq!(
            texts(&chats, chat),
            [(r#"{"content":"other"}"#.to_owned(), 2)]
        );
        chats
            .save_messages(chat, vec![message("", "next")])
            .unwrap();
        assert_eq!(texts(&chats, chat)[1].1, 3, "its sequence is nobody else's");
    }
    assert_eq!(
        chats.redact_message("secret", "again").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // Nor does an import bring it back.
    let row = |id: &str, more: &str| {
        format!(r#"{{"id":"{id}","chat_id":"{chat}","role":"user","content":"first 1234"{more}}}"#)
    };
    assert_eq!(
        chats
            .import_table(Table::History, &row("secret", ""), ImportOptions::default())
            .unwrap()
            .imported,
        0
    );
    let deleted = row("old", r#","deleted_at":"2020-01-01 00:00:00""#);
    assert_eq!(
        chats
            .import_table(Table::History, &deleted, ImportOptions::default())
            .unwrap()
            .skipped,
        1,
        "what was deleted before"
    );
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
        let report = chats
            .import_table(Table::Chat, rows, ImportOptions::default())
            .unwrap();
        assert_eq!(report.issues, []);
        chats
            .import_table(Table::History, history, ImportOptions::default())
            .unwrap();
    }
    let id = "5d41402abc4b2a76b9719d911017c592";
    let chat = chats.get_chat(id).unwrap().unwrap();
    assert_eq!((chat.preset, chat.public), (false, true));
    assert_eq!(
        chat.last_message_at_ms,
        Some(1_577_923_200_000),
        "not the time of the import"
    );
    assert_eq!(
        chats.get_messages(id, &MessageFilter::default()).unwrap()[0].chat_id,
        id
    );
    assert_eq!(chats.get_chat("gone").unwrap(), None);
    let all = ListSessions {
        deleted: runlog::sessions::Deleted::Shown,
        ..ListSessions::default()
    };
    let deleted = store.list_sessions(&all).unwrap().items;
    assert_eq!(
        deleted
            .iter()
            .filter(|session| session.deleted_at_ms.is_some())
            .count(),
        1,
        "and not twice"
    );
    assert_eq!(chats.list_chats(&Default::default()).unwrap().total, 2);

    // What is deleted here stays so when the same is imported again.
    chats.delete_messages(id, &["7"]).unwrap();
    assert_eq!(
        chats
            .import_table(Table::History, history, ImportOptions::default())
            .unwrap()
            .skipped,
        1
    );
    assert!(texts(&chats, id).is_empty());
    chats.delete_chat(id).unwrap();
    chats
        .import_table(Table::Chat, rows, ImportOptions::default())
        .unwrap();
    assert_eq!(chats.get_chat(id).unwrap(), None);
}

#[test]
fn a_redaction_reaches_what_copies_changed_the_message_to() {
    let (store, chats, chat) = chats();
    chats
        .save_messages(
            &chat,
            vec![message("secret", "s3cret"), message("other", "fine")],
        )
        .unwrap();
    let copy_of = |chat: &str| {
        let session = store.find_session(chat).unwrap().id;
        store
            .copy_session(session, &runlog::sessions::CopySession::default())
            .unwrap()
            .session
            .id
            .to_string()
    };
    let copy = copy_of(&chat);
    let in_chat = |chat: &str| chats.get_messages(chat, &MessageFilter::default()).unwrap();
    let in_copy = in_chat(&copy)[0].message_id.clone();
    chats
        .update_message(
            &in_copy,
            &Updates::new().with("props", raw(r#"{"content":"s3cret, in the copy"}"#)),
        )
        .unwrap();
    let second = copy_of(&copy);
    let in_second = in_chat(&second)[0].message_id.clone();
    let update = Updates::new().with("props", raw(r#"{"content":"s3cret, in the copy's copy"}"#));
    chats.update_message(&in_second, &update).unwrap();
    // What the one in between deleted is still found below it.
    chats.delete_messages(&copy, &[&in_copy]).unwrap();
    chats.redact_message("secret", "asked for").unwrap();
    for chat in [&chat, &copy, &second] {
        assert_eq!(texts(&chats, chat).len(), 1, "{chat}");
    }
    let mut lines = Vec::new();
    runlog::archive::export(&store, runlog::archive::What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })
    .unwrap();
    let lines = String::from_utf8(lines).unwrap();
    assert!(!lines.contains("s3cret, in the copy's copy"), "{lines}");
    assert!(!lines.contains(r#""content":"s3cret""#), "{lines}");
}

#[test]
fn two_workers_do_not_go_on_with_one_request() {
    let (_store, chats, chat) = chats();
    interrupted(&chats, &chat, "req_1");
    let [one, other] = [(); 2].map(|()| chats.resume(&chat).unwrap().unwrap());
    let mut request = chats.go_on(&one).unwrap();
    let error = chats.go_on(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.to_string().contains("\"req_1\" is under way"),
        "{error}"
    );
    assert_eq!(
        chats.dismiss("req_1").unwrap_err().kind(),
        ErrorKind::Conflict
    );
    request.start_step(StepType::Llm, raw("{}")).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    // It has ended, and so has what the other one knows of it.
    let error = chats.go_on(&other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(
        error.to_string().contains("resume the chat anew"),
        "{error}"
    );
    drop(chats.go_on(&chats.resume(&chat).unwrap().unwrap()).unwrap());
    let again = chats.resume(&chat).unwrap().unwrap();
    chats
        .go_on(&again)
        .unwrap()
        .finish(RequestEnd::Completed)
        .unwrap();
    assert_eq!(chats.resume(&chat).unwrap(), None);
    assert_eq!(chats.go_on(&again).unwrap_err().kind(), ErrorKind::Conflict);
}

fn interrupted(chats: &Chats, chat: &str, request_id: &str) {
    let new = NewRequest {
        request_id: Some(request_id.into()),
        ..NewRequest::new("travel")
    };
    let mut request = chats
        .begin_request(chat, new, ChatMessage::text(ChatRole::User, "?"))
        .unwrap();
    request
        .start_step(StepType::Llm, raw(&format!(r#"{{"of":"{request_id}"}}"#)))
        .unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
}

#[test]
fn each_interrupted_request_is_resumed_or_dismissed_by_its_id() {
    let (store, chats, chat) = chats();
    for request in ["old", "middle", "new"] {
        interrupted(&chats, &chat, request);
    }
    let of =
        |resumption: Option<runlog::chats::Resumption>| resumption.map(|it| it.step.request_id);
    assert_eq!(of(chats.resume(&chat).unwrap()).as_deref(), Some("new"));
    let old = chats.resume_request("old").unwrap().unwrap();
    assert_eq!(old.input().unwrap().as_str(), r#"{"of":"old"}"#);
    chats
        .go_on(&old)
        .unwrap()
        .finish(RequestEnd::Completed)
        .unwrap();
    assert_eq!(chats.resume_request("old").unwrap(), None);
    let dismissed = chats.dismiss("new").unwrap();
    assert_eq!(
        (dismissed.len(), dismissed[0].status),
        (1, StepStatus::Interrupted)
    );
    assert!(dismissed[0].dismissed_at_ms.is_some());
    assert_eq!(of(chats.resume(&chat).unwrap()).as_deref(), Some("middle"));
    assert!(chats.dismiss("new").unwrap().is_empty() && chats.dismiss("old").unwrap().is_empty());
    for unknown in [
        chats.dismiss("nobody").map(drop),
        chats.resume_request("nobody").map(drop),
    ] {
        assert_eq!(unknown.unwrap_err().kind(), ErrorKind::NotFound);
    }
    chats.dismiss("middle").unwrap();
    assert_eq!(chats.resume(&chat).unwrap(), None);
    assert_eq!(chats.get_last_incomplete_step(&chat).unwrap(), None);
    drop(store);
}

#[test]
fn a_request_whose_id_two_chats_have_is_resumed_in_its_chat() {
    let (store, other) = (Store::in_memory(), Store::in_memory());
    for (store, id) in [(&store, "here"), (&other, "there")] {
        let chats = store.chats();
        let chat = Chat {
            chat_id: id.into(),
            ..Chat::new("travel")
        };
        chats.create_chat(chat).unwrap();
        interrupted(&chats, id, "request");
    }
    let mut lines = Vec::new();
    runlog::archive::export(&other, runlog::archive::What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })
    .unwrap();
    runlog::archive::import(&store, None, true, &mut || {
        Ok(Box::new(std::io::Cursor::new(lines.clone())))
    })
    .unwrap();
    let chats = store.chats();
    let ambiguous = chats.resume_request("request").unwrap_err();
    assert_eq!(ambiguous.kind(), ErrorKind::Ambiguous);
    for id in ["here", "there"] {
        let found = chats.resume_request_in(id, "request").unwrap().unwrap();
        assert_eq!(found.step.chat_id, id);
    }
    let missing = chats.resume_request_in("here", "another").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn the_tables_of_messages_and_steps_are_imported_once() {
    let (_store, chats, chat) = chats();
    chats
        .save_messages(&chat, vec![message("m0", "before")])
        .unwrap();
    let live = format!(
        r#"{{"id":12,"message_id":"m6","chat_id":"{chat}","role":"user","type":"text","props":{{}},"sequence":9,"deleted_at":"0000-00-00"}}"#
    );
    let messages = [
        r#"{"id":7,"message_id":"m1","chat_id":"new","request_id":"r1","role":"user","type":"text","props":{ "content" : "a\u00e9", "n":1.0 },"block_id":null,"thread_id":null,"assistant_id":null,"sequence":3,"metadata":null,"created_at":"2024-02-29 00:00:01","updated_at":"2024-02-29 00:00:02"}"#,
        r#"{"id":8,"message_id":"m2","chat_id":"new","role":"assistant","type":"text","props":"{\"content\":\"b\"}","assistant_id":"neo","sequence":"4","created_at":1709078400,"updated_at":1709078400000,"color":"red"}"#,
        r#"{"id":9,"message_id":"m3","chat_id":"new","role":"user","type":"text","props":{},"sequence":5,"deleted_at":"2024-03-01 00:00:00"}"#,
        r#"{"id":10,"message_id":"m4","chat_id":"new","role":"king","type":"text","props":{},"sequence":6}"#,
        r#"{"id":11,"message_id":"m5","chat_id":"new","role":"user","type":"text","props":5,"sequence":6}"#,
        &live,
    ]
    .join("\n");
    let report = chats
        .import_table(Table::Message, &messages, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.chats, report.skipped),
        (3, 1, 1),
        "{report:?}"
    );
    let told: Vec<_> = report
        .issues
        .iter()
        .map(|issue| (issue.line, issue.what.as_str()))
        .collect();
    assert_eq!(told[0].0, 4);
    assert!(
        told[0].1.contains(r#"`role`: "king""#) && !told[0].1.contains("line 1"),
        "{told:?}"
    );
    assert!(told[1].0 == 5 && told[1].1.contains("props"), "{told:?}");
    let found = chats
        .get_messages("new", &MessageFilter::default())
        .unwrap();
    assert_eq!(
        found[0].props.as_str(),
        r#"{ "content" : "a\u00e9", "n":1.0 }"#
    );
    assert_eq!(found[1].props.as_str(), r#"{"content":"b"}"#);
    let seen: Vec<_> = found
        .iter()
        .map(|it| (it.message_id.as_str(), it.sequence, it.created_at_ms))
        .collect();
    assert_eq!(
        seen,
        [("m1", 3, 1_709_164_801_000), ("m2", 4, 1_709_078_400_000)]
    );
    assert_eq!(
        (&found[0].extra["old_id"], &found[1].extra["color"]),
        (&7.into(), &"red".into())
    );
    let made = chats.get_chat("new").unwrap().unwrap();
    assert_eq!(
        (made.assistant_id.as_str(), made.created_at_ms),
        ("neo", 1_709_078_400_000)
    );
    assert_eq!(made.last_message_at_ms, Some(1_709_164_801_000));

    let steps = concat!(
        r#"{"id":1,"step_id":"s1","chat_id":"new","request_id":"r1","assistant_id":"neo","stack_id":"k1","stack_parent_id":null,"stack_depth":0,"type":"input","status":"completed","input":{"a":1.0},"output":null,"space_snapshot":"{}","error":null,"sequence":1,"metadata":null,"created_at":"2024-02-29 00:00:01","updated_at":"2024-02-29 00:00:02"}"#,
        "\n",
        r#"{"id":2,"step_id":"s2","chat_id":"only","request_id":"r2","assistant_id":"neo","stack_id":"k2","stack_depth":"0","type":"llm","status":"interrupted","sequence":1}"#,
    );
    let report = chats
        .import_table(Table::Step, steps, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.chats, report.issues.len()),
        (2, 1, 0),
        "{report:?}"
    );
    let step = &chats.get_steps("r1").unwrap()[0];
    assert_eq!(
        (step.step_id.as_str(), step.input.as_ref().unwrap().as_str()),
        ("s1", r#"{"a":1.0}"#)
    );
    assert_eq!(step.created_at_ms, 1_709_164_801_000);
    assert_eq!(chats.resume("only").unwrap().unwrap().step.step_id, "s2");

    // What was deleted since stays away, and nothing else changes.
    chats.delete_messages("new", &["m1"]).unwrap();
    chats.delete_chat("only").unwrap();
    let before = chats
        .get_messages("new", &MessageFilter::default())
        .unwrap();
    let report = chats
        .import_table(Table::Message, &messages, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.chats, report.skipped),
        (0, 0, 4),
        "{report:?}"
    );
    let report = chats
        .import_table(Table::Step, steps, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.chats, report.skipped),
        (0, 0, 2),
        "{report:?}"
    );
    assert_eq!(
        chats
            .get_messages("new", &MessageFilter::default())
            .unwrap(),
        before
    );
    assert_eq!(chats.get_chat("only").unwrap(), None);
}

#[test]
fn a_request_id_that_is_in_use_begins_no_second_request() {
    let (_store, chats, chat) = chats();
    let begin = |id: &str| {
        let new = NewRequest {
            request_id: Some(id.into()),
            ..NewRequest::new("travel")
        };
        chats.begin_request(&chat, new, ChatMessage::text(ChatRole::User, "?"))
    };
    let messages = |id: &str| {
        let filter = MessageFilter {
            request_id: Some(id.into()),
            ..MessageFilter::default()
        };
        chats.get_messages(&chat, &filter).unwrap().len()
    };
    // One that is under way, by its own id or by that of its message.
    let mut request = begin("req_1").unwrap();
    let error = begin("req_1").unwrap_err();
    assert!(
        error.kind() == ErrorKind::Conflict && error.to_string().contains("\"req_1\" is under way"),
        "{error}"
    );
    let named = ChatMessage {
        request_id: Some("req_1".into()),
        ..ChatMessage::text(ChatRole::User, "?")
    };
    assert_eq!(
        chats
            .begin_request(&chat, NewRequest::new("travel"), named)
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict,
        "the id of the message counts where the request has none"
    );
    assert_eq!(
        chats.dismiss("req_1").unwrap_err().kind(),
        ErrorKind::Conflict
    );
    request.finish(RequestEnd::Completed).unwrap();
    let error = begin("req_1").unwrap_err();
    assert!(
        error.kind() == ErrorKind::AlreadyExists && error.to_string().contains("\"req_1\""),
        "{error}"
    );
    assert_eq!(messages("req_1"), 1);
    // One that was interrupted, while somebody goes on with it and after.
    interrupted(&chats, &chat, "req_2");
    assert_eq!(begin("req_2").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let going_on = chats.go_on(&chats.resume(&chat).unwrap().unwrap()).unwrap();
    assert_eq!(begin("req_2").unwrap_err().kind(), ErrorKind::Conflict);
    drop(going_on);
    assert_eq!(messages("req_2"), 1);
    // One of which there are steps alone, and one that another chat has.
    let step = Step {
        chat_id: chat.clone(),
        ..Step::new("req_3", "travel", "stack", StepType::Llm)
    };
    chats.save_steps(vec![step]).unwrap();
    assert_eq!(begin("req_3").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let other = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    let new = NewRequest {
        request_id: Some("req_1".into()),
        ..NewRequest::new("travel")
    };
    let error = chats
        .begin_request(&other, new, ChatMessage::text(ChatRole::User, "?"))
        .unwrap_err();
    assert!(
        error.kind() == ErrorKind::AlreadyExists && error.to_string().contains(&chat),
        "{error}"
    );
    // A begin that was refused keeps nobody out.
    let new = NewRequest {
        request_id: Some("req_4".into()),
        ..NewRequest::new("travel")
    };
    let refused = chats.begin_request(
        &chat,
        new,
        ChatMessage {
            sequence: u64::MAX,
            ..message("", "?")
        },
    );
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    begin("req_4").unwrap();
}

#[test]
fn of_many_who_begin_one_request_at_once_one_does() {
    let (_store, chats, chat) = chats();
    let begun: usize = std::thread::scope(|scope| {
        let begin = || {
            let new = NewRequest {
                request_id: Some("req_1".into()),
                ..NewRequest::new("travel")
            };
            let begun = chats.begin_request(&chat, new, ChatMessage::text(ChatRole::User, "?"));
            usize::from(
                begun.is_ok_and(|mut request| request.finish(RequestEnd::Completed).is_ok()),
            )
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!((begun, texts(&chats, &chat).len()), (1, 1));
}

#[test]
fn a_sequence_leaves_room_for_those_after_it() {
    const JAVASCRIPT_MAX: u64 = (1 << 53) - 1;
    let (_store, chats, chat) = chats();
    let row = |id: &str, sequence: u64| {
        format!(
            r#"{{"message_id":"{id}","chat_id":"{chat}","role":"user","type":"text","props":{{}},"sequence":{sequence}}}"#
        )
    };
    let rows = [row("a", JAVASCRIPT_MAX), row("b", 1 << 52)].join("\n");
    let report = chats
        .import_table(Table::Message, &rows, ImportOptions::default())
        .unwrap();
    assert_eq!(
        (report.imported, report.issues.len(), report.issues[0].line),
        (1, 1, 1),
        "{report:?}"
    );
    let what = &report.issues[0].what;
    assert!(
        what.contains("\"a\"")
            && what.contains("9007199254740991")
            && what.contains("4503599627370496"),
        "{what}"
    );
    let saved = |sequence| {
        chats.save_messages(
            &chat,
            vec![ChatMessage {
                sequence,
                ..message("c", "c")
            }],
        )
    };
    let error = saved(JAVASCRIPT_MAX).unwrap_err();
    assert!(
        error.kind() == ErrorKind::InvalidInput && error.to_string().contains("\"c\""),
        "{error}"
    );
    let update = Updates::new().with("sequence", raw("9007199254740991"));
    assert_eq!(
        chats.update_message("b", &update).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(saved(0).unwrap()[0].sequence, (1 << 52) + 1);
    let new = NewRequest::new("travel");
    let mut request = chats
        .begin_request(&chat, new, ChatMessage::text(ChatRole::User, "?"))
        .unwrap();
    let sent = ChatMessage {
        sequence: JAVASCRIPT_MAX,
        ..ChatMessage::text(ChatRole::Assistant, "!")
    };
    assert_eq!(
        request.send(sent).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let step = Step {
        chat_id: chat.clone(),
        sequence: JAVASCRIPT_MAX,
        ..Step::new("r", "travel", "stack", StepType::Llm)
    };
    assert_eq!(
        chats.save_steps(vec![step]).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn a_row_with_the_sequence_of_another_message_is_an_issue_of_its_line() {
    let (_store, chats, chat) = chats();
    chats
        .save_messages(&chat, vec![message("there", "1"), message("gone", "2")])
        .unwrap();
    chats.delete_messages(&chat, &["gone"]).unwrap();
    let row = |chat: &str, id: &str, sequence: &str| {
        format!(
            r#"{{"message_id":"{id}","chat_id":"{chat}","role":"user","type":"text","props":{{}}{sequence}}}"#
        )
    };
    let rows = [
        row(&chat, "there", r#","sequence":1"#),
        row(&chat, "a", r#","sequence":1"#),
        row(&chat, "b", r#","sequence":2"#),
        row(&chat, "c", ""),
        row(&chat, "d", r#","sequence":3"#),
        row("new", "e", r#","sequence":7"#),
        row("new", "f", r#","sequence":7"#),
        row("new", "g", ""),
    ]
    .join("\n");
    // Of the line that is left out and those after it, nothing is taken where that is asked for.
    let stop = ImportOptions {
        stop_at_issue: true,
    };
    let report = chats.import_table(Table::Message, &rows, stop).unwrap();
    assert_eq!((report.imported, report.skipped), (0, 1), "{report:?}");
    assert_eq!(
        report
            .issues
            .iter()
            .map(|issue| issue.line)
            .collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(chats.get_chat("new").unwrap(), None);

    for imported in [4, 0] {
        let report = chats
            .import_table(Table::Message, &rows, ImportOptions::default())
            .unwrap();
        assert_eq!(
            (report.imported, report.skipped),
            (imported, 5 - imported),
            "{report:?}"
        );
        assert_eq!(
            report
                .issues
                .iter()
                .map(|issue| issue.line)
                .collect::<Vec<_>>(),
            [2, 5, 7],
            "{report:?}"
        );
        let what = &report.issues[0].what;
        assert!(
            what.contains("\"a\"") && what.contains("sequence 1") && what.contains("\"there\""),
            "{what}"
        );
        let told = |chat: &str| {
            let messages = chats.get_messages(chat, &MessageFilter::default()).unwrap();
            messages
                .into_iter()
                .map(|it| (it.message_id, it.sequence))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            told(&chat),
            [("there".into(), 1), ("b".into(), 2), ("c".into(), 3)]
        );
        assert_eq!(told("new"), [("e".into(), 7), ("g".into(), 8)]);
    }
    // Who saves messages may have his reasons: they stand in the order in which they were saved.
    let same = |id: &str| ChatMessage {
        sequence: 2,
        ..message(id, id)
    };
    chats
        .save_messages(&chat, vec![same("x"), same("y")])
        .unwrap();
    let ids: Vec<_> = chats
        .get_messages(&chat, &MessageFilter::default())
        .unwrap();
    assert_eq!(
        ids.iter()
            .map(|it| it.message_id.as_str())
            .collect::<Vec<_>>(),
        ["there", "b", "x", "y", "c"]
    );
}

#[test]
fn a_redaction_in_a_copy_reaches_all_chats_that_share_the_message() {
    let (store, chats, chat) = chats();
    chats
        .save_messages(
            &chat,
            vec![message("secret", "s3cret"), message("other", "fine")],
        )
        .unwrap();
    let copy_of = |chat: &str| {
        let session = store.find_session(chat).unwrap().id;
        store
            .copy_session(session, &runlog::sessions::CopySession::default())
            .unwrap()
            .session
            .id
            .to_string()
    };
    let first_in = |chat: &str| {
        chats.get_messages(chat, &MessageFilter::default()).unwrap()[0]
            .message_id
            .clone()
    };
    let change = |id: &str, text: &str| {
        let update = Updates::new().with("props", raw(&format!(r#"{{"content":"{text}"}}"#)));
        chats.update_message(id, &update).unwrap();
    };
    let [copy, beside] = [(); 2].map(|()| copy_of(&chat));
    let below = copy_of(&copy);
    change("secret", "s3cret, in the original");
    change(&first_in(&copy), "s3cret, in the copy");
    change(&first_in(&beside), "s3cret, beside");
    change(&first_in(&below), "s3cret, below");
    // What one that shares it has deleted is reached, too.
    chats
        .delete_messages(&beside, &[&first_in(&beside)])
        .unwrap();
    let own = chats
        .save_messages(&copy, vec![message("own", "the copy's own")])
        .unwrap();
    chats.redact_message(&first_in(&copy), "asked for").unwrap();
    for (chat, count) in [(&chat, 1), (&copy, 2), (&beside, 1), (&below, 1)] {
        assert_eq!(texts(&chats, chat).len(), count, "{chat}");
    }
    let exported = || {
        let mut lines = Vec::new();
        runlog::archive::export(&store, runlog::archive::What::All, &mut |line| {
            lines.extend_from_slice(line);
            Ok::<(), Error>(())
        })
        .unwrap();
        String::from_utf8(lines).unwrap()
    };
    assert!(!exported().contains("s3cret"), "{}", exported());
    assert_eq!(
        chats.redact_message("secret", "again").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    // No import brings it back, anywhere.
    let row = format!(
        r#"{{"message_id":"secret","chat_id":"{chat}","role":"user","type":"text","props":{{}}}}"#
    );
    assert_eq!(
        chats
            .import_table(Table::Message, &row, ImportOptions::default())
            .unwrap()
            .skipped,
        1
    );
    // What was saved in the copy is the copy's alone.
    chats
        .redact_message(&own[0].message_id, "asked for")
        .unwrap();
    assert_eq!(
        (texts(&chats, &chat).len(), texts(&chats, &copy).len()),
        (1, 1)
    );
    assert!(!exported().contains("the copy's own"));
    // To take a message out of a copy alone is to delete it there.
    chats.delete_messages(&copy, &[&first_in(&copy)]).unwrap();
    assert_eq!(
        (
            texts(&chats, &chat).len(),
            texts(&chats, &copy).len(),
            texts(&chats, &below).len()
        ),
        (1, 0, 1)
    );
}

#[test]
fn an_empty_id_of_a_request_is_told_so() {
    let (_store, chats, _) = chats();
    for error in [
        chats.resume_request("").unwrap_err(),
        chats.dismiss("").unwrap_err(),
    ] {
        assert!(
            error.kind() == ErrorKind::InvalidInput && error.to_string().contains("is empty"),
            "{error}"
        );
    }
}

#[test]
fn a_change_gives_no_message_or_step_the_sequence_0() {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat_id = chats.create_chat(Chat::new("a")).unwrap().chat_id;
    let message = ChatMessage {
        message_id: "m".into(),
        ..ChatMessage::text(ChatRole::User, "Oslo")
    };
    chats.save_messages(&chat_id, vec![message]).unwrap();
    let step = Step {
        step_id: "s".into(),
        chat_id: chat_id.clone(),
        ..Step::new("r", "a", "k", StepType::Llm)
    };
    chats.save_steps(vec![step]).unwrap();
    let none = Updates::parse(r#"{"sequence":0}"#).unwrap();
    let refused = [
        chats.update_message("m", &none).map(drop),
        chats.update_step("s", &none).map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(chats.get_steps("r").unwrap()[0].sequence, 1);
}

/// Two scouts that are asked at once, each in its own stack, whose steps interleave: (their stacks, their delegate steps).
fn two_at_once(request: &mut RequestBuffer) -> [(String, String); 2] {
    let asked = ["Oslo", "Bergen"].map(|city| {
        let input = RawJson::parse(format!(r#"{{"agent_id":"scout","city":"{city}"}}"#)).unwrap();
        request.start_step(StepType::Delegate, input).unwrap()
    });
    let asked = asked.map(|waiting| {
        let options = DelegateOptions {
            step_id: Some(waiting.clone()),
            ..DelegateOptions::default()
        };
        (request.delegate("scout", options).unwrap(), waiting)
    });
    for (stack, _) in &asked {
        let input = RawJson::parse(r#"{"messages":[]}"#).unwrap();
        let step = request
            .start_step_in(stack, StepType::HookCreate, input)
            .unwrap();
        request.complete_step(&step, None).unwrap();
    }
    asked
}

#[test]
fn assistants_that_are_called_at_once_have_a_stack_each_and_are_resumed_alone() {
    let (store, chats, chat) = chats();
    let begin = || {
        let asked = message("", "Oslo or Bergen?");
        chats
            .begin_request(&chat, NewRequest::new("lead"), asked)
            .unwrap()
    };
    for interrupted in [0, 1] {
        let mut request = begin();
        let (id, root) = (
            request.request_id().to_owned(),
            request.stack_id().to_owned(),
        );
        let asked = two_at_once(&mut request);
        let input = |of: usize| RawJson::parse(format!(r#"{{"of":{of}}}"#)).unwrap();
        let steps = [0, 1].map(|of| {
            let (stack, _) = &asked[of];
            request
                .start_step_in(stack, StepType::Llm, input(of))
                .unwrap()
        });
        let done = 1 - interrupted;
        request.complete_step(&steps[done], None).unwrap();
        request.complete_step(&asked[done].1, None).unwrap();
        assert_eq!(request.stack_id(), root);
        request.finish(RequestEnd::Interrupted).unwrap();

        let chats = Store::with_backend(store.backend().clone()).chats();
        for (stack, waiting) in &asked {
            let of_stack = chats.get_steps_by_stack_id(stack).unwrap();
            let types: Vec<StepType> = of_stack.iter().map(|step| step.step_type).collect();
            assert_eq!(types, [StepType::HookCreate, StepType::Llm]);
            assert!(of_stack.iter().all(|step| {
                step.delegate_step_id.as_ref() == Some(waiting) && step.stack_depth == 1
            }));
        }
        let resumption = chats.resume(&chat).unwrap().unwrap();
        assert_eq!(resumption.step.step_id, steps[interrupted]);
        assert_eq!(resumption.stack_path(), [&root, &asked[interrupted].0]);
        let waits = resumption.stack[0].waiting.as_ref().unwrap();
        assert_eq!(
            (&waits.step_id, waits.status),
            (&asked[interrupted].1, StepStatus::Running)
        );
        let mut request = chats.go_on(&resumption).unwrap();
        request.start_step(StepType::Llm, input(2)).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        let output = RawJson::parse(r#"{"content":"by train"}"#).unwrap();
        let completed = chats.complete_resumed(&resumption, &output).unwrap();
        assert_eq!(completed.last().unwrap().step_id, asked[interrupted].1);
        assert_eq!(chats.resume(&chat).unwrap(), None);
        let status = chats.get_request(&id).unwrap().unwrap().status;
        assert_eq!(status, RequestStatus::Completed);
    }
}

#[test]
fn of_two_branches_that_were_interrupted_each_is_resumed_until_the_request_is_over() {
    let (store, chats, chat) = chats();
    let asked = message("", "Oslo or Bergen?");
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), asked)
        .unwrap();
    let id = request.request_id().to_owned();
    for (stack, _) in &two_at_once(&mut request) {
        let input = RawJson::parse("{}").unwrap();
        request.start_step_in(stack, StepType::Llm, input).unwrap();
    }
    request.finish(RequestEnd::Interrupted).unwrap();
    let chats = Store::with_backend(store.backend().clone()).chats();
    let output = RawJson::parse("{}").unwrap();
    for left in [RequestStatus::Interrupted, RequestStatus::Completed] {
        let resumption = chats.resume(&chat).unwrap().unwrap();
        let mut request = chats.go_on(&resumption).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        assert_eq!(chats.get_request(&id).unwrap().unwrap().status, left);
        chats.complete_resumed(&resumption, &output).unwrap();
    }
    assert_eq!(chats.resume(&chat).unwrap(), None);
}

#[test]
fn an_assistant_that_was_called_at_once_with_another_and_did_nothing_yet_is_resumed_too() {
    for has_stack in [true, false] {
        let (_store, chats, chat) = chats();
        let asked = message("", "Oslo or Bergen?");
        let mut request = chats
            .begin_request(&chat, NewRequest::new("lead"), asked)
            .unwrap();
        let id = request.request_id().to_owned();
        let [a, b] = ["A", "B"].map(|agent| {
            let input = RawJson::parse(format!(r#"{{"agent_id":"{agent}"}}"#)).unwrap();
            request.start_step(StepType::Delegate, input).unwrap()
        });
        let of = |step: &String| DelegateOptions {
            step_id: Some(step.clone()),
            ..DelegateOptions::default()
        };
        if has_stack {
            request.delegate("B", of(&b)).unwrap();
        }
        let stack = request.delegate("A", of(&a)).unwrap();
        let input = RawJson::parse("{}").unwrap();
        request
            .start_step_in(&stack, StepType::Llm, input.clone())
            .unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
        let first = chats.resume(&chat).unwrap().unwrap();
        assert_eq!(first.step.stack_id, stack);
        let mut request = chats.go_on(&first).unwrap();
        chats.complete_resumed(&first, &input).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        let status = chats.get_request(&id).unwrap().unwrap().status;
        assert_eq!(status, RequestStatus::Interrupted, "stack: {has_stack}");
        let second = chats.resume(&chat).unwrap().unwrap();
        assert_eq!(second.step.step_id, b);
        let mut request = chats.go_on(&second).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        let status = chats.get_request(&id).unwrap().unwrap().status;
        assert_eq!(status, RequestStatus::Completed, "stack: {has_stack}");
        assert_eq!(chats.resume(&chat).unwrap(), None);
    }
}

#[test]
fn of_tools_that_were_cut_off_together_each_is_resumed_and_none_is_completed_unseen() {
    let (_store, chats, chat) = chats();
    let asked = message("", "Book it.");
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), asked)
        .unwrap();
    let id = request.request_id().to_owned();
    let tool = |name: &str| RawJson::parse(format!(r#"{{"tool":"{name}"}}"#)).unwrap();
    let failed = request.start_step(StepType::Tool, tool("search")).unwrap();
    request.fail_step(&failed, "no route").unwrap();
    let steps =
        ["flight", "hotel"].map(|name| request.start_step(StepType::Tool, tool(name)).unwrap());
    request.finish(RequestEnd::Interrupted).unwrap();
    for (left, status) in [
        (1, RequestStatus::Interrupted),
        (0, RequestStatus::Completed),
    ] {
        let resumption = chats.resume(&chat).unwrap().unwrap();
        assert_eq!(resumption.step.step_id, steps[left]);
        let mut request = chats.go_on(&resumption).unwrap();
        // The same tool is asked again.
        let again = request
            .start_step(StepType::Tool, resumption.input().unwrap().clone())
            .unwrap();
        request.complete_step(&again, None).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
        assert_eq!(chats.get_request(&id).unwrap().unwrap().status, status);
        let all = chats.get_steps(&id).unwrap();
        let flight = all.iter().find(|step| step.step_id == steps[0]).unwrap();
        assert_eq!(
            (flight.status, flight.can_resume()),
            (StepStatus::Interrupted, left == 1)
        );
    }
    assert_eq!(chats.resume(&chat).unwrap(), None);
}

/// How the rest of a request is written.
#[derive(Clone, Copy, Debug)]
enum Rest {
    Finished,
    Flushed,
    Dropped,
    InMany,
}

#[test]
fn what_is_taken_out_while_its_request_is_under_way_is_not_written_again() {
    for (take_out, rest) in ["redacted", "erased", "deleted"]
        .into_iter()
        .flat_map(|how| {
            [Rest::Finished, Rest::Flushed, Rest::Dropped, Rest::InMany].map(|rest| (how, rest))
        })
    {
        for given in ["", "m"] {
            let what = format!("{take_out}, {rest:?}, id {given:?}");
            let (store, chats, chat) = chats();
            let asked = message("", "?");
            let mut request = chats
                .begin_request(&chat, NewRequest::new("lead"), asked)
                .unwrap();
            let secret = request.send(message(given, "the PIN is 4711")).unwrap();
            let other = request.send(message("", "and")).unwrap();
            request.flush().unwrap();
            match take_out {
                "redacted" => chats.redact_message(&secret, "a PIN").unwrap(),
                "deleted" => chats.delete_messages(&chat, &[&secret]).unwrap(),
                _ => {
                    let erase = Erase {
                        messages: vec![secret.clone()],
                        reason: "a PIN".into(),
                        ..Erase::default()
                    };
                    store.erase(&erase).unwrap();
                }
            }
            let query = TextQuery::new("the PIN is 4711").unwrap();
            let find = || store.search(&query, Position(1)).unwrap().found;
            let left_in_log = find();
            assert_eq!(left_in_log.is_empty(), take_out != "deleted", "{what}");
            request.append(&secret, ", I said").unwrap();
            request.append(&other, " so on").unwrap();
            match rest {
                Rest::Finished => request.finish(RequestEnd::Completed).unwrap(),
                Rest::Dropped => drop(request),
                Rest::Flushed => {
                    request.flush().unwrap();
                    request.append(&secret, ", and again").unwrap();
                    request.flush().unwrap();
                    request.finish(RequestEnd::Completed).unwrap();
                }
                Rest::InMany => {
                    let mut many = Vec::new();
                    for _ in 0..2_000 {
                        many.push(request.send(message("", "more")).unwrap());
                    }
                    request.finish(RequestEnd::Completed).unwrap();
                }
            }
            assert_eq!(find(), left_in_log, "{what}");
            let left = texts(&chats, &chat);
            let has = |text: &str| left.iter().any(|(props, _)| props.contains(text));
            assert!(has("and so on"), "{what}: {left:?}");
            assert!(!has("PIN"), "{what}: {left:?}");
        }
    }
}

#[test]
fn a_session_is_not_erased_while_a_request_is_under_way_in_it() {
    let (store, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), message("", "?"))
        .unwrap();
    let erase = Erase {
        sessions: vec![store.find_session(&chat).unwrap().id],
        reason: "asked for".into(),
        ..Erase::default()
    };
    let refused = store.erase(&erase).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WrongStatus, "{refused}");
    request.finish(RequestEnd::Completed).unwrap();
    store.erase(&erase).unwrap();
}

#[test]
fn what_was_deleted_does_not_come_back_by_erasing_its_deletion() {
    let (store, chats, chat) = chats();
    chats
        .save_messages(
            &chat,
            vec![message("one", "my PIN"), message("two", "hello")],
        )
        .unwrap();
    let before = pollster::block_on(store.backend().scan(Position(1), 1_000)).unwrap();
    chats.delete_messages(&chat, &["one"]).unwrap();
    let left = texts(&chats, &chat);
    let deletion = Position(before.records.last().unwrap().position.0 + 1);
    let erase = Erase {
        positions: vec![deletion.0],
        reason: "asked for".into(),
        ..Erase::default()
    };
    let refused = store.erase(&erase).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    assert!(refused.to_string().contains("deleted"), "{refused}");
    assert_eq!(texts(&chats, &chat), left);
    // The whole session may go; the deletion stays, which says nothing of what it is of.
    let whole = Erase {
        sessions: vec![store.find_session(&chat).unwrap().id],
        positions: Vec::new(),
        ..erase
    };
    assert_eq!(store.erase(&whole).unwrap().records, 2);
    assert!(texts(&chats, &chat).is_empty());
}

/// A tool that a scout asks twice, the second time with an answer; and whether what is written is flushed in between.
fn ask_twice_below(request: &mut RequestBuffer, flushes: [bool; 2]) {
    let flush = |request: &mut RequestBuffer, wanted: bool| {
        if wanted {
            request.flush().unwrap();
        }
    };
    let asked = request.start_step(StepType::Delegate, raw("{}")).unwrap();
    request.enter("scout").unwrap();
    let first = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.fail_step(&first, "no answer").unwrap();
    flush(request, flushes[0]);
    let second = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.complete_step(&second, None).unwrap();
    request.leave().unwrap();
    request.complete_step(&asked, None).unwrap();
    flush(request, flushes[1]);
}

#[test]
fn a_failed_try_below_leaves_nothing_to_be_resumed_whenever_it_was_made_up_for_and_written() {
    for (before, flushes) in [false, true].into_iter().flat_map(|before| {
        [[false, false], [false, true], [true, false], [true, true]]
            .map(|flushes| (before, flushes))
    }) {
        let (store, chats, chat) = chats();
        let asked = message("", "?");
        let mut request = chats
            .begin_request(&chat, NewRequest::new("lead"), asked)
            .unwrap();
        let id = request.request_id().to_owned();
        if before {
            ask_twice_below(&mut request, flushes);
        }
        request.start_step(StepType::Llm, raw("{}")).unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
        let mut request = chats.go_on(&chats.resume(&chat).unwrap().unwrap()).unwrap();
        if !before {
            ask_twice_below(&mut request, flushes);
        }
        request.finish(RequestEnd::Completed).unwrap();
        let what = format!("failed before it was interrupted: {before}, flushes: {flushes:?}");
        for chats in [chats, Store::with_backend(store.backend().clone()).chats()] {
            let status = chats.get_request(&id).unwrap().unwrap().status;
            assert_eq!(status, RequestStatus::Completed, "{what}");
            assert_eq!(chats.resume(&chat).unwrap(), None, "{what}");
        }
    }
}

#[test]
fn a_node_of_the_stack_is_one_call() {
    let (_store, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), message("", "?"))
        .unwrap();
    let root = request.stack_id().to_owned();
    let refused = request.enter_as("scout", root.clone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    let nobody = request.delegate("", DelegateOptions::default());
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        request.enter("").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let from_nowhere = DelegateOptions {
        from: Some("nowhere".into()),
        ..DelegateOptions::default()
    };
    let refused = request.delegate("scout", from_nowhere).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let as_s = DelegateOptions {
        stack_id: Some("s".into()),
        ..DelegateOptions::default()
    };
    let scout = request.delegate("scout", as_s.clone()).unwrap();
    assert_eq!(request.delegate("scout", as_s).unwrap(), scout);
    let waits = |step_id: &str| DelegateOptions {
        step_id: Some(step_id.to_owned()),
        ..DelegateOptions::default()
    };
    let llm = request
        .start_step(StepType::Llm, RawJson::parse("{}").unwrap())
        .unwrap();
    let delegate = request
        .start_step(StepType::Delegate, RawJson::parse("{}").unwrap())
        .unwrap();
    request.delegate("scout", waits(&delegate)).unwrap();
    for (step, kind) in [
        ("gone", ErrorKind::NotFound),
        (&llm, ErrorKind::InvalidInput),
        (&delegate, ErrorKind::InvalidInput),
    ] {
        let refused = request.delegate("scout", waits(step)).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
    }
    request.complete_step(&llm, None).unwrap();
    request.complete_step(&delegate, None).unwrap();
    assert_eq!(request.stack_id(), root);
    request.enter_as("scout", "s").unwrap();
    assert_eq!(request.stack_id(), "s");
    request.leave().unwrap();
    assert_eq!(request.leave().unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_request_is_gone_on_with_by_one_handle_whichever_and_by_none_that_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    interrupted(&chats, &chat, "req_1");
    let resumption = chats.resume(&chat).unwrap().unwrap();
    // Handles that wait and those that await, in as many threads as there are.
    let awaited = store.to_async().chats();
    let held = pollster::block_on(awaited.go_on(&resumption)).unwrap();
    std::thread::scope(|scope| {
        let handle = store.clone();
        let (resumption, chats) = (&resumption, handle.chats());
        let refused = scope.spawn(move || chats.go_on(resumption).unwrap_err().kind());
        assert_eq!(refused.join().unwrap(), ErrorKind::Conflict);
    });
    drop(held);
    // Another process has no store to write to, and what it reads it can't go on with.
    assert_eq!(Store::open(&path).unwrap_err().kind(), ErrorKind::Locked);
    let reader = Store::open_read_only(&path).unwrap().chats();
    let seen = reader.resume(&chat).unwrap().unwrap();
    assert_eq!(reader.go_on(&seen).unwrap_err().kind(), ErrorKind::ReadOnly);
    drop(chats.go_on(&seen).unwrap());
}

#[test]
fn a_step_that_failed_in_a_completed_request_is_not_resumed() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("asked", "?"))
        .unwrap();
    let id = request.request_id().to_owned();
    let tool = request.start_step(StepType::Tool, raw("{}")).unwrap();
    request.fail_step(&tool, "no such tool").unwrap();
    let answer = request.start_step(StepType::Llm, raw("{}")).unwrap();
    request.complete_step(&answer, None).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(chats.resume(&chat).unwrap(), None);
    assert_eq!(chats.resume_request(&id).unwrap(), None);
    // As the table says it, it is the last one that isn't completed.
    let last = chats.get_last_incomplete_step(&chat).unwrap().unwrap();
    assert_eq!((last.step_id, last.status), (tool, StepStatus::Failed));
}

#[test]
fn a_request_whose_steps_are_all_completed_is_dismissed_and_asked_again() {
    let (_, chats, chat) = chats();
    let mut request = chats
        .begin_request(&chat, NewRequest::new("a"), message("asked", "?"))
        .unwrap();
    let id = request.request_id().to_owned();
    let step = request.start_step(StepType::Llm, raw("{}")).unwrap();
    request.complete_step(&step, None).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    // No step was cut off, so that there is none to go on with.
    assert_eq!(chats.resume(&chat).unwrap(), None);
    assert_eq!(chats.resume_request(&id).unwrap(), None);
    let open = chats.list_requests(&ListRequests::default()).unwrap().items;
    assert_eq!(open[0].request_id, id);
    assert_eq!(chats.dismiss(&id).unwrap(), []);
    assert_eq!(
        chats.list_requests(&ListRequests::default()).unwrap().items,
        []
    );
}

#[test]
fn a_chat_keeps_an_assistant_and_rows_without_one_have_their_messages() {
    let (_, chats, chat) = chats();
    let none = Updates::new().with("assistant_id", RawJson::string(""));
    let error = chats.update_chat(&chat, &none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let row = r#"{"chat_id":"old","assistant_id":null,"sort":"3"}"#;
    let report = chats
        .import_table(Table::Chat, row, ImportOptions::default())
        .unwrap();
    assert_eq!((report.imported, report.issues.len()), (1, 0));
    let row = r#"{"id":1,"chat_id":"old","role":"user","content":"hi"}"#;
    assert_eq!(
        chats
            .import_table(Table::History, row, ImportOptions::default())
            .unwrap()
            .imported,
        1
    );
    let old = chats.get_chat("old").unwrap().unwrap();
    assert_eq!((old.assistant_id.as_str(), old.sort), ("", 3));
}

#[test]
fn a_request_that_is_gone_on_with_says_how_what_was_sent_before_is_changed() {
    let (_, chats, chat) = chats();
    let mut request = interrupted_with_message(&chats, &chat);
    let error = request.append("asked", "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("by an update"), "{error}");
    let text = Updates::new()
        .with("type", RawJson::string("text"))
        .with("props", raw(r#"{"content":"By train"}"#));
    let changed = chats.update_message("waiting", &text).unwrap();
    assert_eq!(changed.message_type, "text");
    request.finish(RequestEnd::Completed).unwrap();
}

/// A request that was interrupted after it sent a message, resumed.
fn interrupted_with_message(chats: &Chats, chat: &str) -> RequestBuffer {
    let mut request = chats
        .begin_request(chat, NewRequest::new("a"), message("asked", "?"))
        .unwrap();
    request.start_step(StepType::Llm, raw("{}")).unwrap();
    let waiting = ChatMessage {
        message_id: "waiting".into(),
        ..ChatMessage::new(ChatRole::Assistant, "loading", raw("{}"))
    };
    request.send(waiting).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let resumption = chats.resume(chat).unwrap().unwrap();
    chats.go_on(&resumption).unwrap()
}

/// Does something once, between a redaction's decision and its commit.
struct Between {
    inner: Arc<dyn Backend>,
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Decorator for Between {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let is_redaction = batch.ops.iter().any(|op| op.redacted().is_some());
        if is_redaction && let Some(work) = self.work.lock().unwrap().take() {
            work();
        }
        self.inner.commit(batch)
    }
}

#[test]
fn a_redaction_reaches_what_is_changed_while_it_is_decided() {
    for in_copy in [false, true] {
        let (store, chats, chat) = chats();
        chats
            .save_messages(&chat, vec![message("secret", "s3cret")])
            .unwrap();
        let session = store.find_session(&chat).unwrap().id;
        let copy = store.copy_session(session, &runlog::sessions::CopySession::default());
        let copy = copy.unwrap().session.id.to_string();
        let copied = chats
            .get_messages(&copy, &MessageFilter::default())
            .unwrap();
        let changed = match in_copy {
            false => "secret".to_owned(),
            true => copied[0].message_id.clone(),
        };
        let beside = chats.clone();
        let work = move || {
            let update = Updates::new().with("props", raw(r#"{"content":"s3cret, changed"}"#));
            beside.update_message(&changed, &update).unwrap();
        };
        let backend = Arc::new(Between {
            inner: store.backend().clone(),
            work: Mutex::new(Some(Box::new(work))),
        });
        let other = Store::with_backend(backend).chats();
        other.redact_message("secret", "asked for").unwrap();
        let maintenance = store.backend().maintenance();
        let last = pollster::block_on(maintenance.last_position()).unwrap();
        for position in 1..=last.0 {
            let record = pollster::block_on(maintenance.record(Position(position))).unwrap();
            let payload = record.map(|record| record.payload).unwrap_or_default();
            let payload = String::from_utf8_lossy(&payload).into_owned();
            assert!(!payload.contains("s3cret"), "{position}: {payload}");
        }
        let update = Updates::new().with("props", raw("{}"));
        for id in ["secret", &copied[0].message_id] {
            let error = chats.update_message(id, &update).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
        }
    }
}

#[test]
fn messages_keep_their_sequences_when_one_among_them_is_redacted() {
    let (store, chats, chat) = chats();
    let first = ["a", "b", "c"].map(|id| message(id, id));
    chats.save_messages(&chat, first.to_vec()).unwrap();
    let given = |id: &str, sequence| ChatMessage {
        sequence,
        ..message(id, id)
    };
    chats.save_messages(&chat, vec![given("low", 2)]).unwrap();
    chats.save_messages(&chat, vec![message("d", "d")]).unwrap();
    chats.save_messages(&chat, vec![given("high", 80)]).unwrap();
    chats.save_messages(&chat, vec![message("e", "e")]).unwrap();
    for id in ["low", "high"] {
        chats.redact_message(id, "asked for").unwrap();
    }
    chats.save_messages(&chat, vec![message("f", "f")]).unwrap();
    let cold = Store::with_backend(store.backend().clone()).chats();
    for chats in [chats, cold] {
        let all = chats.get_messages(&chat, &MessageFilter::default());
        let all = all.unwrap().into_iter();
        let all: Vec<_> = all.map(|it| (it.message_id, it.sequence)).collect();
        let all: Vec<_> = all.iter().map(|(id, at)| (id.as_str(), *at)).collect();
        let wanted = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 81), ("f", 82)];
        assert_eq!(all, wanted);
    }
}

/// A commit that fails, before it is written or after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fails {
    Before,
    After,
}

/// Fails one commit, counted from 0.
struct FailsOnce {
    inner: Arc<dyn Backend>,
    left: Mutex<Option<(usize, Fails)>>,
}

impl Decorator for FailsOnce {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let fails = {
            let mut left = self.left.lock().unwrap();
            match *left {
                Some((0, fails)) => {
                    *left = None;
                    Some(fails)
                }
                Some((more, fails)) => {
                    *left = Some((more - 1, fails));
                    None
                }
                None => None,
            }
        };
        Box::pin(async move {
            if fails == Some(Fails::Before) {
                return Err(Error::new(ErrorKind::Io, "not written"));
            }
            let done = self.inner.commit(batch).await?;
            match fails {
                Some(_) => Err(Error::new(ErrorKind::Io, "written, and not acknowledged")),
                None => Ok(done),
            }
        })
    }
}

#[test]
fn a_dropped_request_of_several_parts_is_whole_where_one_write_failed() {
    const MESSAGES: usize = 51_000;
    for fails in [Fails::Before, Fails::After] {
        for part in 0..2 {
            let (store, chats, chat) = chats();
            let backend = Arc::new(FailsOnce {
                inner: store.backend().clone(),
                left: Mutex::new(None),
            });
            let failing = Store::with_backend(backend.clone()).chats();
            let mut request = failing
                .begin_request(&chat, NewRequest::new("a"), message("asked", "?"))
                .unwrap();
            request.start_step(StepType::Llm, raw("{}")).unwrap();
            for number in 0..MESSAGES {
                request
                    .send(message(&format!("m{number}"), "said"))
                    .unwrap();
            }
            *backend.left.lock().unwrap() = Some((part, fails));
            drop(request);
            assert_eq!(*backend.left.lock().unwrap(), None, "{fails:?} {part}");
            let what = format!("{fails:?}, part {part}");
            let all = MessageFilter::default();
            assert_eq!(
                chats.count_messages(&chat, &all).unwrap(),
                MESSAGES + 1,
                "{what}"
            );
            let requests = chats.list_requests(&ListRequests::default()).unwrap().items;
            assert_eq!(requests.len(), 1, "{what}");
            assert_eq!(requests[0].status, RequestStatus::Interrupted, "{what}");
        }
    }
}
