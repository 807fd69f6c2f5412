//! A message that grows and is flushed as it comes: each flush writes what is new, and nothing that others wrote beside it is lost.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use std::{future::ready, sync::Arc};

use pollster::block_on;
use runlog::{
    Error, ErrorKind, RawJson,
    blocking::{Chats, RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRole, ListMessages, MessageFilter, NewRequest, RequestEnd,
        RequestStatus, SearchMessages, Updates,
    },
    log::{Appended, Backend, BackendFuture, Batch, Decorator, Op, Position},
    retention::Erase,
    scan::TextQuery,
    sessions::CopySession,
};

both! {
    what_is_written_of_a_growing_message_grows_with_it
    text_follows_what_others_changed_beside_it
    what_others_changed_of_the_text_is_written_over
    the_rest_of_a_dropped_request_follows_what_was_flushed
    a_copy_has_the_text_up_to_its_end
    what_was_said_in_pieces_is_in_one_record_once_its_request_ends
    a_part_that_two_write_is_written_once
    what_has_the_id_of_a_message_that_is_gone_is_left_alone
    nothing_that_is_appended_changes_nothing
    an_end_leaves_in_pieces_what_the_storage_has_no_room_for
}

const NOBODY_ELSE: fn(&Chats, &str) = |_, _| {};

fn begin(store: &Store, props: &str) -> (RequestBuffer, String, String) {
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("lead")).unwrap().chat_id;
    let asked = ChatMessage::text(ChatRole::User, "?");
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), asked)
        .unwrap();
    let answer = ChatMessage::new(ChatRole::Assistant, "text", json(props));
    let answer = request.send(answer).unwrap();
    request.flush().unwrap();
    (request, chat, answer)
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// The answer as all the ways to read it find it: in the list of this handle and of one that has read nothing, by its id, by a search.
fn found(store: &Store, chat: &str, answer: &str) -> (String, String) {
    let fresh = Store::with_backend(store.backend().clone());
    let mut all = Vec::new();
    for chats in [store.chats(), fresh.chats()] {
        all.extend(chats.get_messages(chat, &MessageFilter::default()).unwrap());
        let newest = ListMessages {
            newest_first: true,
            limit: 2,
            ..ListMessages::default()
        };
        all.extend(chats.list_messages(chat, &newest).unwrap().items);
    }
    let word = SearchMessages::new("Once");
    all.extend(fresh.chats().search_messages(&word).unwrap().items);
    all.retain(|message| message.message_id == answer);
    let known = |message: &ChatMessage| {
        let props = message.props.as_str().to_owned();
        (message.message_type.clone(), props)
    };
    assert!(all.len() >= 4, "{all:?}");
    assert!(all.iter().all(|message| message == &all[0]), "{all:#?}");
    known(&all[0])
}

/// How many bytes the records of a store have.
fn bytes(store: &Store) -> usize {
    let (mut sum, mut next) = (0, Some(Position(1)));
    while let Some(first) = next {
        let page = block_on(store.backend().scan(first, 1_000)).unwrap();
        let payloads = page.records.iter().map(|record| record.payload.len());
        sum += payloads.sum::<usize>();
        next = page.next;
    }
    sum
}

fn what_is_written_of_a_growing_message_grows_with_it(store: &Store) {
    // More often than the records of a message are read without folding its chat.
    const FLUSHES: usize = 4_500;
    let (mut request, chat, answer) = begin(store, r#"{"content":"Once"}"#);
    let mut text = String::from("Once");
    let before = bytes(store);
    for number in 0..FLUSHES {
        let more = format!(" \"{number}\"\n");
        request.append(&answer, &more).unwrap();
        text.push_str(&more);
        request.flush().unwrap();
        if [10, 300, 1_000].contains(&number) {
            let props = format!(r#"{{"content":{}}}"#, RawJson::string(&text));
            assert_eq!(found(store, &chat, &answer).1, props, "{number}");
        }
    }
    let written = bytes(store) - before;
    assert!(written < 200 * FLUSHES, "{written} bytes of {}", text.len());
    request.append(&answer, "The end.").unwrap();
    text.push_str("The end.");
    request.finish(RequestEnd::Completed).unwrap();
    let props = format!(r#"{{"content":{}}}"#, RawJson::string(&text));
    assert_eq!(found(store, &chat, &answer).1, props);
}

/// What a message is after it was flushed, changed by others, and went on: written by a flush, by the end, and by a drop.
fn after_others(store: &Store, props: &str, others: fn(&Chats, &str), expected: (&str, &str)) {
    for end in ["flushed", "finished", "dropped"] {
        let (mut request, chat, answer) = begin(store, props);
        others(&store.chats(), &answer);
        request.append(&answer, ", more").unwrap();
        match end {
            "flushed" => request.flush().unwrap(),
            "finished" => request.finish(RequestEnd::Completed).unwrap(),
            _ => drop(request),
        }
        let (message_type, props) = found(store, &chat, &answer);
        assert_eq!((&*message_type, &*props), expected, "{end}");
    }
}

fn update(chats: &Chats, answer: &str, updates: &str) {
    let updates = Updates::parse(updates).unwrap();
    chats.update_message(answer, &updates).unwrap();
}

fn text_follows_what_others_changed_beside_it(store: &Store) {
    let expected = (
        "text",
        r#"{ "z": 1.0, "content": "Once, more" , "a":null }"#,
    );
    let props = r#"{ "z": 1.0, "content": "Once" , "a":null }"#;
    after_others(store, props, NOBODY_ELSE, expected);
    let rated = |chats: &Chats, answer: &str| {
        let updates = r#"{"type":"markdown","props":{"rating":5,"content":"Once"}}"#;
        update(chats, answer, updates);
    };
    let expected = ("markdown", r#"{"rating":5,"content":"Once, more"}"#);
    after_others(store, props, rated, expected);
    // The same text, spelt otherwise.
    let spelt = |chats: &Chats, answer: &str| {
        update(chats, answer, r#"{"props":{"content":"\u004fnce"}}"#);
    };
    let expected = ("text", r#"{"content":"\u004fnce, more"}"#);
    after_others(store, props, spelt, expected);
    let expected = ("text", r#"{"url":"Once","content":", more"}"#);
    after_others(store, r#"{"url":"Once"}"#, NOBODY_ELSE, expected);
    after_others(
        store,
        r#"{"content":"no","content":"Once"}"#,
        NOBODY_ELSE,
        ("text", r#"{"content":"no","content":"Once, more"}"#),
    );
}

fn what_others_changed_of_the_text_is_written_over(store: &Store) {
    let expected = ("text", r#"{"content":"Once, more"}"#);
    let props = r#"{"content":"Once"}"#;
    for others in [
        |chats: &Chats, answer: &str| update(chats, answer, r#"{"props":{"content":"Twice"}}"#),
        |chats: &Chats, answer: &str| update(chats, answer, r#"{"props":{"content":["Once"]}}"#),
        |chats: &Chats, answer: &str| update(chats, answer, r#"{"type":"card","props":{}}"#),
    ] {
        after_others(store, props, others, expected);
    }
    // Together they would be too large for one event: what was sent isn't lost.
    let large = |chats: &Chats, answer: &str| {
        let metadata = "m".repeat((15 << 20) - 200);
        update(
            chats,
            answer,
            &format!(r#"{{"props":{{"content":"Once","m":"{metadata}"}}}}"#),
        );
    };
    after_others(store, props, large, expected);
}

fn the_rest_of_a_dropped_request_follows_what_was_flushed(store: &Store) {
    let (request, chat, answer) = begin(store, r#"{"content":"Once"}"#);
    drop(request);
    let chats = runlog::Store::with_backend(store.backend().clone()).chats();
    let request = async {
        let asked = ChatMessage::text(ChatRole::User, "?");
        let new = NewRequest::new("lead");
        let mut request = chats.begin_request(&chat, new, asked).await.unwrap();
        let text = ChatMessage::text(ChatRole::Assistant, "Once");
        let answer = request.send(text).unwrap();
        request.flush().await.unwrap();
        request.append(&answer, " upon").unwrap();
        // Taken, but never written.
        let flush = request.start_flush().unwrap().unwrap();
        request.append(&answer, " a time").unwrap();
        drop(request);
        drop(flush);
        answer
    };
    let dropped = block_on(request);
    let props = |content| {
        (
            String::from("text"),
            format!(r#"{{"content":"{content}"}}"#),
        )
    };
    assert_eq!(found(store, &chat, &dropped), props("Once upon a time"));
    assert_ne!(dropped, answer);
}

fn a_copy_has_the_text_up_to_its_end(store: &Store) {
    let (mut request, chat, answer) = begin(store, r#"{"content":"Once"}"#);
    request.append(&answer, " upon").unwrap();
    request.flush().unwrap();
    let session = store.find_session(&chat).unwrap().id;
    let copied = store
        .copy_session(session, &CopySession::default())
        .unwrap();
    request.append(&answer, " a time").unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    let of = |chat: &str| {
        let messages = store.chats().get_messages(chat, &MessageFilter::default());
        messages.unwrap().pop().unwrap().props.as_str().to_owned()
    };
    assert_eq!(of(&chat), r#"{"content":"Once upon a time"}"#);
    let copy = copied.session.id.to_string();
    assert_eq!(of(&copy), r#"{"content":"Once upon"}"#);
}

/// Whether one record has a text: what a search of the log finds.
fn is_found(store: &Store, text: &str) -> bool {
    let query = TextQuery::new(text).unwrap();
    !store.search(&query, Position(1)).unwrap().found.is_empty()
}

fn what_was_said_in_pieces_is_in_one_record_once_its_request_ends(store: &Store) {
    for end in ["finished", "finished with more", "dropped"] {
        let (mut request, chat, answer) = begin(store, r#"{"content":"Once"}"#);
        let piece = end.replace(' ', "_");
        request
            .append(&answer, &format!(" {piece}, sk-li"))
            .unwrap();
        request.flush().unwrap();
        let rated = format!(r#"{{"props":{{"rating":5,"content":"Once {piece}, sk-li"}}}}"#);
        update(&store.chats(), &answer, &rated);
        request.append(&answer, "ve-1").unwrap();
        let mut whole = format!("Once {piece}, sk-live-1");
        if end != "finished with more" {
            request.flush().unwrap();
        } else {
            request.append(&answer, ", more").unwrap();
            whole.push_str(", more");
        }
        assert!(!is_found(store, &whole), "{end}");
        match end {
            "dropped" => drop(request),
            _ => request.finish(RequestEnd::Completed).unwrap(),
        }
        assert!(is_found(store, &whole), "{end}");
        let props = format!(r#"{{"rating":5,"content":"{whole}"}}"#);
        assert_eq!(found(store, &chat, &answer).1, props, "{end}");
    }
    // What others made of a text that was all written stays.
    let (mut request, chat, answer) = begin(store, r#"{"content":"Once"}"#);
    request.append(&answer, " upon").unwrap();
    request.flush().unwrap();
    update(
        &store.chats(),
        &answer,
        r#"{"props":{"content":"Once more"}}"#,
    );
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(found(store, &chat, &answer).1, r#"{"content":"Once more"}"#);
}

fn a_part_that_two_write_is_written_once(store: &Store) {
    let chats = runlog::Store::with_backend(store.backend().clone()).chats();
    let written = async {
        let chat = chats.create_chat(Chat::new("lead")).await.unwrap().chat_id;
        let asked = ChatMessage::text(ChatRole::User, "?");
        let new = NewRequest::new("lead");
        let mut request = chats.begin_request(&chat, new, asked).await.unwrap();
        let given = ChatMessage {
            message_id: format!("given in {chat}"),
            ..ChatMessage::text(ChatRole::Assistant, "Once")
        };
        let answer = request.send(given).unwrap();
        let flush = request.start_flush().unwrap().unwrap();
        request.append(&answer, " upon a time").unwrap();
        let both = futures_util::future::join(flush.write(), flush.write()).await;
        assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
        // As if nobody had said that it is written.
        request.finish(RequestEnd::Completed).await.unwrap();
        (chat, answer)
    };
    let (chat, answer) = block_on(written);
    let props = r#"{"content":"Once upon a time"}"#;
    assert_eq!(found(store, &chat, &answer).1, props);
}

fn what_has_the_id_of_a_message_that_is_gone_is_left_alone(store: &Store) {
    const SECRET: &str = "sk-live-4711";
    let chats = store.chats();
    let ends = ["flushed", "finished", "dropped"];
    let ways = ["append", "replace"];
    for (end, way) in ends.into_iter().flat_map(|end| ways.map(|way| (end, way))) {
        let (mut request, chat, answer) = begin(store, &format!(r#"{{"content":"{SECRET}"}}"#));
        store
            .erase(&Erase {
                messages: vec![answer.clone()],
                reason: "asked to".to_owned(),
                ..Erase::default()
            })
            .unwrap();
        let other = ChatMessage {
            message_id: answer.clone(),
            ..ChatMessage::text(ChatRole::User, "Once by another")
        };
        chats.save_messages(&chat, vec![other]).unwrap();
        match way {
            "append" => request.append(&answer, ", more").unwrap(),
            _ => request.replace(&answer, json("{}")).unwrap(),
        }
        match end {
            "flushed" => request.flush().unwrap(),
            "finished" => request.finish(RequestEnd::Completed).unwrap(),
            _ => drop(request),
        }
        let props = r#"{"content":"Once by another"}"#.to_owned();
        let expected = ("text".to_owned(), props);
        assert_eq!(found(store, &chat, &answer), expected, "{way}, {end}");
        assert!(!is_found(store, SECRET), "{way}, {end}");
    }
}

fn nothing_that_is_appended_changes_nothing(store: &Store) {
    for flushes in [false, true] {
        let (mut request, chat, answer) = begin(store, r#"{"url":"Once"}"#);
        request.append(&answer, "").unwrap();
        if flushes {
            request.flush().unwrap();
        }
        request.finish(RequestEnd::Completed).unwrap();
        assert_eq!(found(store, &chat, &answer).1, r#"{"url":"Once"}"#);
    }
    let (mut request, ..) = begin(store, r#"{"content":["Once"]}"#);
    let answer = request
        .send(ChatMessage::new(
            ChatRole::Assistant,
            "text",
            json(r#"{"content":["Once"]}"#),
        ))
        .unwrap();
    let refused = request.append(&answer, "").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

/// A backend without room for a batch of more than 10,000 bytes.
struct NearlyFull(Arc<dyn Backend>);

impl Decorator for NearlyFull {
    fn inner(&self) -> &dyn Backend {
        &*self.0
    }

    fn commit<'a>(&'a self, batch: Batch<'a>) -> BackendFuture<'a, Appended> {
        let bytes = batch.ops.iter().map(|op| match op {
            Op::Append { records, .. } => records.iter().map(|it| it.payload.len()).sum(),
            _ => 0,
        });
        if bytes.sum::<usize>() > 10_000 {
            let refused = Error::new(ErrorKind::StorageFull, "no room");
            return Box::pin(ready(Err(refused)));
        }
        self.0.commit(batch)
    }
}

fn an_end_leaves_in_pieces_what_the_storage_has_no_room_for(store: &Store) {
    let nearly_full = Arc::new(NearlyFull(store.backend().clone()));
    let nearly_full = Store::with_backend(nearly_full);
    for end in ["finished", "dropped"] {
        let (mut request, chat, answer) = begin(&nearly_full, r#"{"content":"Once"}"#);
        let request_id = request.request_id().to_owned();
        let piece = "x".repeat(1_000);
        for _ in 0..20 {
            request.append(&answer, &piece).unwrap();
            request.flush().unwrap();
        }
        let status = match end {
            "finished" => {
                request.finish(RequestEnd::Completed).unwrap();
                RequestStatus::Completed
            }
            _ => {
                drop(request);
                RequestStatus::Interrupted
            }
        };
        let chats = store.chats();
        let ended = chats.get_request(&request_id).unwrap().unwrap();
        assert_eq!(ended.status, status);
        let props = format!(r#"{{"content":"Once{}"}}"#, piece.repeat(20));
        assert_eq!(found(store, &chat, &answer).1, props);
    }
}
