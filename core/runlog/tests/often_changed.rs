//! Messages that are changed again and again, in a chat that isn't read meanwhile: each change sees all before it, whoever made
//! them, and what it costs doesn't grow.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use runlog::{
    ErrorKind, RawJson,
    blocking::{Chats, Store},
    chats::{Chat, ChatMessage, ChatRole, MessageFilter, NewRequest, StepType, Updates},
    sessions::CopySession,
};

const IDS: [&str; 3] = ["a", "b", "c"];

/// What is known of a message: its text and its block.
type Known = (String, Option<String>);

fn props(text: &str) -> RawJson {
    RawJson::parse(format!(r#"{{"content":"{text}"}}"#)).unwrap()
}

fn known(message: &ChatMessage) -> Known {
    (message.props.as_str().to_owned(), message.block_id.clone())
}

/// What a handle that has kept nothing finds.
fn found(store: &Store, chat: &str) -> BTreeMap<String, Known> {
    let chats = Store::with_backend(store.backend().clone()).chats();
    let messages = chats.get_messages(chat, &MessageFilter::default()).unwrap();
    let known = |message: ChatMessage| (message.message_id.clone(), known(&message));
    messages.into_iter().map(known).collect()
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[test]
fn each_change_sees_those_before_it_whoever_made_them() {
    for seed in 0..3 {
        let mut numbers = Numbers(seed);
        let store = Store::in_memory();
        let chat = store
            .chats()
            .create_chat(Chat::new("lead"))
            .unwrap()
            .chat_id;
        let handles: [Chats; 2] = [
            store.chats(),
            Store::with_backend(store.backend().clone()).chats(),
        ];
        let mut model: BTreeMap<String, Known> = BTreeMap::new();
        for round in 0..500 {
            let id = IDS[numbers.below(IDS.len())];
            let chats = &handles[numbers.below(10) / 8];
            let text = format!("{round}");
            match numbers.below(100) {
                0 if model.remove(id).is_some() => {
                    chats.delete_messages(&chat, &[id]).unwrap();
                }
                1 if model.remove(id).is_some() => {
                    chats.redact_message(id, "asked for").unwrap();
                }
                2..4 => {
                    let copied = store
                        .copy_session(
                            store.find_session(&chat).unwrap().id,
                            &CopySession::default(),
                        )
                        .unwrap();
                    assert_eq!(
                        found(&store, &copied.session.id.to_string()).len(),
                        model.len()
                    );
                }
                what if what % 2 == 0 => {
                    let updates = Updates::new().with("props", props(&text));
                    change(chats, &chat, id, &updates, &mut model, |known| {
                        known.0 = props(&text).as_str().to_owned();
                    });
                }
                _ => {
                    let updates = Updates::new().with("block_id", RawJson::string(&text));
                    change(chats, &chat, id, &updates, &mut model, |known| {
                        known.1 = Some(text.clone());
                    });
                }
            }
            if round % 50 == 0 {
                assert_eq!(found(&store, &chat), model, "seed {seed}, round {round}");
            }
        }
        assert_eq!(found(&store, &chat), model, "seed {seed}");
    }
}

/// Changes a message, or saves it where it isn't there, and checks what is answered.
fn change(
    chats: &Chats,
    chat: &str,
    id: &str,
    updates: &Updates,
    model: &mut BTreeMap<String, Known>,
    change: impl FnOnce(&mut Known),
) {
    match model.get_mut(id) {
        Some(message) => {
            change(message);
            let answer = chats.update_message(id, updates).unwrap();
            assert_eq!(&known(&answer), message);
        }
        None => {
            let refused = chats.update_message(id, updates).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotFound);
            let message = ChatMessage {
                message_id: id.to_owned(),
                ..ChatMessage::text(ChatRole::User, "new")
            };
            match chats.save_messages(chat, vec![message]) {
                Ok(saved) => drop(model.insert(id.to_owned(), known(&saved[0]))),
                // The id of a redacted message stays taken.
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists),
            }
        }
    }
}

#[test]
fn a_step_that_is_changed_often_is_what_it_was_changed_to() {
    let store = Store::in_memory();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("lead")).unwrap().chat_id;
    let asked = ChatMessage::text(ChatRole::User, "?");
    let mut request = chats
        .begin_request(&chat, NewRequest::new("lead"), asked)
        .unwrap();
    let step = request
        .start_step(StepType::Tool, RawJson::parse("{}").unwrap())
        .unwrap();
    request.flush().unwrap();
    for round in 0..600 {
        let output = RawJson::parse(format!(r#"{{"n":{round}}}"#)).unwrap();
        let updates = Updates::new().with("output", output.clone());
        let changed = chats.update_step(&step, &updates).unwrap();
        assert_eq!(changed.output, Some(output));
    }
}
