//! A message that is erased by the position of one of its versions goes with all of them, wherever it is shown.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use pollster::block_on;
use runlog::{
    Durability, RawJson, StoreOptions,
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, MessageFilter, Updates},
    log::{Batch, Expected, Op, Position, Sequence, StreamId},
    retention::Erase,
    scan::TextQuery,
    sessions::CopySession,
};

const FIRST: &str = "key-one";
const SECOND: &str = "key-two";

/// A store with a chat of a message in two versions.
struct Scene {
    _folder: tempfile::TempDir,
    store: Store,
    chat: String,
}

impl Scene {
    fn new(is_source_a_copy: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            durability: Durability::Os,
            ..StoreOptions::default()
        };
        let store = Store::open_with(folder.path().join("store"), options).unwrap();
        let chats = store.chats();
        let mut chat = chats.create_chat(Chat::new("lead")).unwrap().chat_id;
        let public = ChatMessage::text(ChatRole::User, "public");
        chats.save_messages(&chat, vec![public]).unwrap();
        if is_source_a_copy {
            let session = store.find_session(&chat).unwrap().id;
            let copied = store.copy_session(session, &CopySession::default());
            chat = copied.unwrap().session.id.to_string();
        }
        let scene = Self {
            _folder: folder,
            store,
            chat,
        };
        scene.save("m");
        scene
    }

    fn save(&self, id: &str) {
        let chats = self.store.chats();
        let message = ChatMessage {
            message_id: id.into(),
            ..ChatMessage::text(ChatRole::User, FIRST)
        };
        chats.save_messages(&self.chat, vec![message]).unwrap();
        let props = RawJson::parse(format!(r#"{{"content":"{SECOND}"}}"#)).unwrap();
        let updates = Updates::new().with("props", props);
        chats.update_message(id, &updates).unwrap();
    }

    /// Takes all but the first message out of the chat's stream, as a program may that writes streams itself.
    fn truncate(&self) {
        let session = self.store.find_session(&self.chat).unwrap().id;
        let truncate = Op::Truncate {
            stream: StreamId(session.as_uuid()),
            expected: Expected::Any,
            after: Sequence(1),
        };
        block_on(self.store.backend().commit(Batch::new(vec![truncate]))).unwrap();
    }

    fn copy(&self, of: &str) -> String {
        let session = self.store.find_session(of).unwrap().id;
        let copied = self.store.copy_session(session, &CopySession::default());
        copied.unwrap().session.id.to_string()
    }

    fn find(&self, text: &str) -> Vec<u64> {
        let query = TextQuery::new(text).unwrap();
        let found = self.store.search(&query, Position(1)).unwrap().found;
        found.into_iter().map(|found| found.0).collect()
    }

    fn erase(&self, named: &str) {
        let positions = match named {
            "the id" => Vec::new(),
            version => self.find(version),
        };
        let messages = match named {
            "the id" => vec![String::from("m")],
            _ => Vec::new(),
        };
        let erase = Erase {
            positions,
            messages,
            reason: "a key".into(),
            ..Erase::default()
        };
        let erased = self.store.erase(&erase).unwrap();
        assert!(erased.is_gone && erased.records >= 2, "{erased:?}");
    }

    fn shown(&self, chat: &str) -> Vec<String> {
        let fresh = Store::with_backend(self.store.backend().clone());
        let of = |store: &Store| {
            let messages = store.chats().get_messages(chat, &MessageFilter::default());
            let messages = messages.unwrap().into_iter();
            messages
                .map(|message| message.props.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        let shown = of(&self.store);
        assert_eq!(shown, of(&fresh));
        shown
    }

    fn is_gone(&self, chats: &[&str], what: &str) {
        for chat in chats {
            assert_eq!(self.shown(chat), [r#"{"content":"public"}"#], "{what}");
        }
        for text in [FIRST, SECOND] {
            assert_eq!(self.find(text), [0; 0], "{what}: {text}");
        }
    }
}

#[test]
fn from_copies_of_a_chat_that_was_deleted() {
    for named in [FIRST, SECOND] {
        for is_source_a_copy in [false, true] {
            let scene = Scene::new(is_source_a_copy);
            let copies = [scene.copy(&scene.chat), scene.copy(&scene.chat)];
            let below = scene.copy(&copies[0]);
            scene.store.chats().delete_chat(&scene.chat).unwrap();
            scene.erase(named);
            let what = format!("{named}, {is_source_a_copy}");
            scene.is_gone(&[&copies[0], &copies[1], &below], &what);
            scene.store.chats().restore_chat(&scene.chat).unwrap();
            scene.is_gone(&[&scene.chat], &what);
        }
    }
}

#[test]
fn from_copies_of_a_chat_that_it_was_deleted_in() {
    for named in [FIRST, SECOND, "the id"] {
        for is_source_a_copy in [false, true] {
            let scene = Scene::new(is_source_a_copy);
            let copy = scene.copy(&scene.chat);
            let chats = scene.store.chats();
            chats.delete_messages(&scene.chat, &["m"]).unwrap();
            scene.erase(named);
            let what = format!("{named}, {is_source_a_copy}");
            scene.is_gone(&[&scene.chat, &copy], &what);
        }
    }
}

#[test]
fn from_copies_of_a_chat_that_was_truncated_before_it() {
    for named in [FIRST, SECOND] {
        let scene = Scene::new(false);
        let copies = [scene.copy(&scene.chat), scene.copy(&scene.chat)];
        let of_public = scene
            .store
            .chats()
            .get_messages(&scene.chat, &MessageFilter::default());
        let changed = of_public.unwrap()[0].message_id.clone();
        scene.truncate();
        assert_eq!(scene.shown(&scene.chat).len(), 1);
        // One of the copies has changed it: that goes with it.
        let chats = scene.store.chats();
        let of_copy = chats
            .get_messages(&copies[1], &MessageFilter::default())
            .unwrap();
        let props = RawJson::parse(r#"{"content":"key-one, again"}"#.to_owned()).unwrap();
        let updates = Updates::new().with("props", props);
        chats
            .update_message(&of_copy[1].message_id, &updates)
            .unwrap();
        assert_ne!(of_copy[1].message_id, changed);
        scene.erase(named);
        scene.is_gone(&[&scene.chat, &copies[0], &copies[1]], named);
    }
}

#[test]
fn and_no_message_of_another_chat_that_has_its_id() {
    for named in [FIRST, SECOND] {
        let scene = Scene::new(false);
        let chats = scene.store.chats();
        chats.delete_chat(&scene.chat).unwrap();
        let other = chats.create_chat(Chat::new("lead")).unwrap().chat_id;
        let message = ChatMessage {
            message_id: "m".into(),
            ..ChatMessage::text(ChatRole::User, "other")
        };
        chats.save_messages(&other, vec![message]).unwrap();
        chats.restore_chat(&scene.chat).unwrap();
        scene.erase(named);
        scene.is_gone(&[&scene.chat], named);
        assert_eq!(scene.shown(&other), [r#"{"content":"other"}"#]);
    }
}

#[test]
fn what_was_truncated_is_no_version_of_what_stands_there() {
    let scene = Scene::new(false);
    let second = scene.find(SECOND);
    scene.truncate();
    scene.save("m");
    let erase = Erase {
        positions: second,
        reason: "a key".into(),
        ..Erase::default()
    };
    assert_eq!(scene.store.erase(&erase).unwrap().records, 1);
    assert_eq!(scene.shown(&scene.chat).len(), 2);
}
