//! Whatever a request gathers without an error can be written at its end, however much it is.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use std::fmt::Debug;

use runlog::{
    ErrorKind, RawJson,
    blocking::{RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRole, MessageFilter, NewRequest, RequestEnd, StepStatus, StepType,
    },
};

both! {
    an_error_of_a_step_is_counted_as_json
    replaced_properties_are_counted_with_the_rest_of_the_message
    what_was_replaced_takes_no_room
    a_request_of_many_running_steps_fails_as_a_whole
}

fn begin(store: &Store) -> RequestBuffer {
    let chat = store.chats().create_chat(Chat::new("agent")).unwrap();
    let question = ChatMessage::text(ChatRole::User, "question");
    store
        .chats()
        .begin_request(&chat.chat_id, NewRequest::new("agent"), question)
        .unwrap()
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn object(bytes: usize) -> RawJson {
    json(&format!(r#"{{"x":"{}"}}"#, "x".repeat(bytes)))
}

fn kind<T: Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

// In memory only, since it takes seconds.
#[test]
fn text_that_takes_six_bytes_a_character_is_counted_so() {
    let store = &Store::in_memory();
    let mut request = begin(store);
    let sent = 12;
    for _ in 0..sent {
        let id = request
            .send(ChatMessage::text(ChatRole::Assistant, ""))
            .unwrap();
        request.append(&id, &"\u{1}".repeat(2 << 20)).unwrap();
    }
    request.finish(RequestEnd::Completed).unwrap();
    let saved = store
        .chats()
        .get_messages(request.chat_id(), &MessageFilter::default())
        .unwrap();
    assert_eq!(saved.len(), sent + 1);
}

fn an_error_of_a_step_is_counted_as_json(store: &Store) {
    let mut request = begin(store);
    let step = request.start_step(StepType::Llm, json("{}")).unwrap();
    assert_eq!(
        kind(request.fail_step(&step, &"\u{1}".repeat(3 << 20))),
        ErrorKind::TooLarge
    );
    request.fail_step(&step, &"\u{1}".repeat(2 << 20)).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
    assert_eq!(
        store.chats().get_steps(request.request_id()).unwrap()[0].status,
        StepStatus::Failed
    );
}

fn replaced_properties_are_counted_with_the_rest_of_the_message(store: &Store) {
    let mut request = begin(store);
    let big = ChatMessage {
        metadata: Some(object(10 << 20)),
        ..ChatMessage::text(ChatRole::Assistant, "")
    };
    let id = request.send(big).unwrap();
    assert_eq!(
        kind(request.replace(&id, object(10 << 20))),
        ErrorKind::TooLarge
    );
    assert_eq!(
        kind(request.append(&id, &"x".repeat(10 << 20))),
        ErrorKind::TooLarge
    );
    request.replace(&id, object(4 << 20)).unwrap();
    request.finish(RequestEnd::Completed).unwrap();
}

fn what_was_replaced_takes_no_room(store: &Store) {
    let mut request = begin(store);
    let id = request
        .send(ChatMessage::text(ChatRole::Assistant, ""))
        .unwrap();
    let props = object(4 << 20);
    for _ in 0..50 {
        request.replace(&id, props.clone()).unwrap();
    }
    request.finish(RequestEnd::Completed).unwrap();
}

// In memory only, since it takes seconds.
#[test]
fn a_request_has_more_steps_than_a_batch() {
    let store = &Store::in_memory();
    let mut request = begin(store);
    let mut last = String::new();
    for _ in 0..100_001 {
        last = request.start_step(StepType::Tool, json("{}")).unwrap();
    }
    let message = request
        .send(ChatMessage::text(ChatRole::Assistant, ""))
        .unwrap();
    request.append(&message, "done").unwrap();
    request.complete_step(&last, Some(json("{}"))).unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
    let steps = store.chats().get_steps(request.request_id()).unwrap();
    let completed = steps
        .iter()
        .filter(|step| step.status == StepStatus::Completed)
        .count();
    assert_eq!((steps.len(), completed), (100_001, 1));
}

fn a_request_of_many_running_steps_fails_as_a_whole(store: &Store) {
    let mut request = begin(store);
    for _ in 0..5_000 {
        request.start_step(StepType::Tool, json("{}")).unwrap();
    }
    request
        .finish(RequestEnd::Failed("\u{1}".repeat(1 << 20)))
        .unwrap();
    let steps = store.chats().get_steps(request.request_id()).unwrap();
    assert!(steps.iter().all(
        |step| step.status == StepStatus::Failed && !step.error.as_deref().unwrap().is_empty()
    ));
}
