//! Chats beside a model of them in memory: saved with and without gaps, changed, deleted, redacted and copied, in a store that is
//! compacted, opened again, and made anew of its export. The model knows nothing of records: what a chat says is what it says.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

use std::{
    collections::BTreeSet,
    io::{BufRead, Cursor},
    sync::Arc,
};

use runlog::{
    Error, RawJson, StoreOptions,
    archive::{self, What},
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, ListMessages, MessageFilter, Updates},
    engine::storage::MemoryStorage,
    log::CompactOptions,
    retention::Erase,
    sessions::CopySession,
};

/// A message as it was saved, and in the chats that were copied since.
#[derive(Clone, Debug)]
struct Said {
    /// The same in all chats that share it.
    origin: u64,
    id: String,
    sequence: u64,
    text: String,
}

#[derive(Clone, Debug)]
struct Known {
    id: String,
    /// In the order in which they were saved.
    messages: Vec<Said>,
    /// The largest sequence that a message was saved with.
    last: u64,
    is_deleted: bool,
}

impl Known {
    /// The messages in the chat's order.
    fn told(&self) -> Vec<(String, u64, String)> {
        let mut messages: Vec<_> = self.messages.iter().collect();
        messages.sort_by_key(|said| said.sequence);
        let told = |said: &Said| (said.id.clone(), said.sequence, said.text.clone());
        messages.into_iter().map(told).collect()
    }
}

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

struct World {
    storage: MemoryStorage,
    store: Store,
    chats: Vec<Known>,
    /// Texts that nobody may find any more.
    gone: BTreeSet<String>,
    numbers: Numbers,
    made: u64,
}

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes_max: 64 << 10,
        ..StoreOptions::default()
    }
}

fn opened(storage: &MemoryStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options()).unwrap()
}

fn props(text: &str) -> RawJson {
    RawJson::parse(format!(r#"{{"content":"{text}"}}"#)).unwrap()
}

fn exported(store: &Store) -> Vec<u8> {
    let mut lines = Vec::new();
    archive::export(store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })
    .unwrap();
    lines
}

impl World {
    fn new(seed: u64) -> Self {
        let storage = MemoryStorage::new();
        let store = opened(&storage);
        Self {
            storage,
            store,
            chats: Vec::new(),
            gone: BTreeSet::new(),
            numbers: Numbers(seed),
            made: 0,
        }
    }

    /// A text that is nowhere else.
    fn text(&mut self) -> String {
        self.made += 1;
        format!("<{}>", self.made)
    }

    fn begin(&mut self) {
        let id = self
            .store
            .chats()
            .create_chat(Chat::new("lead"))
            .unwrap()
            .chat_id;
        self.chats.push(Known {
            id,
            messages: Vec::new(),
            last: 0,
            is_deleted: false,
        });
    }

    fn save(&mut self, chat: usize) {
        let mut new = Vec::new();
        let mut known = self.chats[chat].clone();
        for _ in 0..=self.numbers.below(3) {
            let text = self.text();
            let given = match self.numbers.below(4) {
                0 => known.last + 1 + self.numbers.below(5) as u64,
                _ => 0,
            };
            let sequence = if given == 0 { known.last + 1 } else { given };
            known.last = sequence;
            let id = format!("m{}", self.made);
            known.messages.push(Said {
                origin: self.made,
                id: id.clone(),
                sequence,
                text: text.clone(),
            });
            new.push(ChatMessage {
                message_id: id,
                sequence: given,
                props: props(&text),
                ..ChatMessage::text(ChatRole::User, "")
            });
        }
        let count = new.len();
        let saved = self.store.chats().save_messages(&known.id, new).unwrap();
        let wanted: Vec<_> = known
            .messages
            .iter()
            .rev()
            .take(count)
            .rev()
            .map(|said| said.sequence)
            .collect();
        let told: Vec<_> = saved.iter().map(|message| message.sequence).collect();
        assert_eq!(told, wanted, "the sequences that were given");
        self.chats[chat] = known;
    }

    fn picked(&mut self, chat: usize) -> Option<usize> {
        let count = self.chats[chat].messages.len();
        (count > 0).then(|| self.numbers.below(count))
    }

    fn change(&mut self, chat: usize) {
        let Some(place) = self.picked(chat) else {
            return;
        };
        let text = self.text();
        let mut updates = Updates::new().with("props", props(&text));
        let moved = self.numbers.below(3) == 0;
        let to = self.chats[chat].last + 1 + self.numbers.below(9) as u64;
        let said = &mut self.chats[chat].messages[place];
        if moved {
            updates = updates.with("sequence", RawJson::from_value(&to).unwrap());
            said.sequence = to;
        }
        said.text = text;
        let id = said.id.clone();
        let answer = self.store.chats().update_message(&id, &updates).unwrap();
        assert_eq!(answer.sequence, self.chats[chat].messages[place].sequence);
    }

    fn delete(&mut self, chat: usize) {
        let Some(place) = self.picked(chat) else {
            return;
        };
        let known = &mut self.chats[chat];
        let said = known.messages.remove(place);
        let id = known.id.clone();
        self.store
            .chats()
            .delete_messages(&id, &[&said.id])
            .unwrap();
    }

    fn redact(&mut self, chat: usize) {
        let Some(place) = self.picked(chat) else {
            return;
        };
        let said = self.chats[chat].messages[place].clone();
        if self.numbers.below(2) == 0 {
            self.store
                .chats()
                .redact_message(&said.id, "asked for")
                .unwrap();
        } else {
            let what = Erase {
                messages: vec![said.id],
                reason: "asked for".into(),
                ..Erase::default()
            };
            self.store.erase(&what).unwrap();
        }
        for known in &mut self.chats {
            let (gone, left) = known
                .messages
                .drain(..)
                .partition(|it| it.origin == said.origin);
            known.messages = left;
            let gone: Vec<Said> = gone;
            self.gone.extend(gone.into_iter().map(|said| said.text));
        }
    }

    fn copy(&mut self, chat: usize) {
        if self.chats.len() >= 8 {
            return;
        }
        let source = self.chats[chat].clone();
        let session = self.store.find_session(&source.id).unwrap().id;
        let copied = self
            .store
            .copy_session(session, &CopySession::default())
            .unwrap();
        let id = copied.session.id.to_string();
        let mut copy = Known {
            id: id.clone(),
            ..source
        };
        // Its messages have other ids, by their places.
        let told = self
            .store
            .chats()
            .get_messages(&id, &MessageFilter::default())
            .unwrap();
        assert_eq!(told.len(), copy.messages.len());
        for said in &mut copy.messages {
            let content = props(&said.text);
            let same = told.iter().find(|message| message.props == content);
            said.id = same
                .unwrap_or_else(|| panic!("{said:?} is not in the copy"))
                .message_id
                .clone();
        }
        self.chats.push(copy);
    }

    fn delete_or_restore(&mut self, chat: usize) {
        let known = &mut self.chats[chat];
        if known.is_deleted {
            self.store.chats().restore_chat(&known.id).unwrap();
        } else {
            self.store.chats().delete_chat(&known.id).unwrap();
        }
        known.is_deleted = !known.is_deleted;
    }

    fn reopen(&mut self) {
        self.store.close().unwrap();
        self.store = opened(&self.storage);
    }

    fn import(&mut self) {
        let lines = exported(&self.store);
        let storage = MemoryStorage::new();
        let store = opened(&storage);
        let mut source = || Ok(Box::new(Cursor::new(lines.clone())) as Box<dyn BufRead>);
        archive::import(&store, None, true, &mut source).unwrap();
        self.store.close().unwrap();
        (self.storage, self.store) = (storage, store);
    }

    fn check(&self, what: &str) {
        let cold = Store::with_backend(self.store.backend().clone());
        for known in &self.chats {
            if known.is_deleted {
                assert!(
                    self.store.chats().get_chat(&known.id).unwrap().is_none(),
                    "{what}"
                );
                continue;
            }
            let wanted = known.told();
            for (which, store) in [("hot", &self.store), ("cold", &cold)] {
                let told = |message: &ChatMessage| {
                    let text: serde_json::Value = message.props.to_value().unwrap();
                    let text = text["content"].as_str().unwrap().to_owned();
                    (message.message_id.clone(), message.sequence, text)
                };
                let all = store
                    .chats()
                    .get_messages(&known.id, &MessageFilter::default())
                    .unwrap();
                let all: Vec<_> = all.iter().map(told).collect();
                assert_eq!(all, wanted, "{what}, {which}");
            }
            for newest_first in [false, true] {
                let cold = Store::with_backend(self.store.backend().clone());
                let (mut found, mut cursor) = (Vec::new(), None);
                loop {
                    let options = ListMessages {
                        newest_first,
                        limit: 3,
                        cursor,
                        ..ListMessages::default()
                    };
                    let page = cold.chats().list_messages(&known.id, &options).unwrap();
                    found.extend(
                        page.items
                            .into_iter()
                            .map(|message| (message.message_id, message.sequence)),
                    );
                    cursor = page.next;
                    if cursor.is_none() {
                        break;
                    }
                }
                if newest_first {
                    found.reverse()
                }
                let wanted: Vec<_> = wanted
                    .iter()
                    .map(|(id, sequence, _)| (id.clone(), *sequence))
                    .collect();
                assert_eq!(
                    found, wanted,
                    "{what}, in pages, newest first: {newest_first}"
                );
            }
        }
        let lines = String::from_utf8(exported(&self.store)).unwrap();
        for text in &self.gone {
            assert!(!lines.contains(text), "{what}: {text} is exported");
        }
    }
}

fn goes_through(seed: u64) {
    let mut world = World::new(seed);
    world.begin();
    for round in 0..60 {
        let chat = world.numbers.below(world.chats.len());
        let what = world.numbers.below(100);
        let is_deleted = world.chats[chat].is_deleted;
        let done = match what {
            0..3 => {
                world.begin();
                "begin"
            }
            3..8 => {
                world.delete_or_restore(chat);
                "delete or restore"
            }
            8..10 => {
                world.reopen();
                "reopen"
            }
            10..12 => {
                world.store.compact(CompactOptions::default()).unwrap();
                "compact"
            }
            12..15 => {
                world.import();
                "import"
            }
            _ if is_deleted => continue,
            15..50 => {
                world.save(chat);
                "save"
            }
            50..70 => {
                world.change(chat);
                "change"
            }
            70..80 => {
                world.delete(chat);
                "delete"
            }
            80..90 => {
                world.redact(chat);
                "redact"
            }
            _ => {
                world.copy(chat);
                "copy"
            }
        };
        world.check(&format!("seed {seed}, round {round}, {done}"));
    }
}

#[test]
fn chats_are_what_a_model_of_them_says_whatever_is_redacted() {
    for seed in 0..20 {
        goes_through(seed);
    }
}
