//! Chats beside a model of them in memory: saved with and without gaps, changed, deleted, redacted and copied, whole, up to a point or up to a message,
//! in a store that is compacted, opened again, retained, and made anew of its export. The model knows nothing of records: what a chat says is what it
//! says, also to those that have had the store open for reading all the while.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

use std::{
    collections::BTreeSet,
    io::{BufRead, Cursor},
    sync::Arc,
};

use runlog::{
    Error, ErrorKind, InstanceId, NewMessage, RawJson, SessionId, StoreOptions,
    archive::{self, What},
    blocking::Store,
    chats::{
        Chat, ChatMessage, ChatRole, ListMessages, MessageFilter, NewRequest, RequestEnd, Updates,
    },
    engine::storage::MemoryStorage,
    log::CompactOptions,
    retention::{Erase, RetentionPolicy},
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
    thread: &'static str,
    /// What its text and thread were, each with the number of the text that was the newest one of all then.
    versions: Vec<(u64, String, &'static str)>,
}

impl Said {
    /// The message as it was when a text was the newest one.
    fn then_at(mut self, made: u64) -> Self {
        self.versions.retain(|version| version.0 <= made);
        let (_, text, thread) = self.versions.last().unwrap().clone();
        (self.text, self.thread) = (text, thread);
        self
    }
}

#[derive(Clone, Debug)]
struct Known {
    id: String,
    /// In the order in which they were saved.
    messages: Vec<Said>,
    /// The largest sequence that a message was saved with.
    last: u64,
    /// Ids of messages that were deleted, which are free again.
    free_ids: Vec<String>,
    is_deleted: bool,
    /// That of its context, whose events tell the points up to which it is copied.
    instance: InstanceId,
    /// The messages at each moment, by the first of the two events of the context that follow it.
    history: Vec<(u64, Vec<Said>)>,
    /// Nothing is saved in it: what is next in a copy up to a point is told by records that this doesn't know.
    is_frozen: bool,
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
    /// Stays open while others write: one that is asked everything, and one that is asked for pages and counts only.
    reader: Store,
    of_pages: Store,
    chats: Vec<Known>,
    /// Texts that nobody may find any more.
    gone: BTreeSet<String>,
    numbers: Numbers,
    made: u64,
    /// The messages that were redacted, wherever they are.
    redacted: BTreeSet<u64>,
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

fn reading(storage: &MemoryStorage) -> Store {
    Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap()
}

const THREADS: [&str; 3] = ["t1", "t2", "t3"];

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
            reader: reading(&storage),
            of_pages: reading(&storage),
            storage,
            store,
            chats: Vec::new(),
            gone: BTreeSet::new(),
            numbers: Numbers(seed),
            made: 0,
            redacted: BTreeSet::new(),
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
        let session = self.store.find_session(&id).unwrap().id;
        let instance = self
            .store
            .create_instance(session, "lead", None)
            .unwrap()
            .id;
        self.chats.push(Known {
            instance,
            history: Vec::new(),
            is_frozen: false,
            id,
            messages: Vec::new(),
            last: 0,
            free_ids: Vec::new(),
            is_deleted: false,
        });
    }

    /// Two events of the context, behind all that was said.
    fn mark(&mut self, chat: usize) {
        let known = &mut self.chats[chat];
        let context = self.store.context(known.instance).unwrap();
        context.append_message(NewMessage::user("x")).unwrap();
        let at = context.get_last_sequence().unwrap();
        context.append_message(NewMessage::user("x")).unwrap();
        known.history.push((at, known.messages.clone()));
    }

    fn copy_to_point(&mut self, chat: usize) {
        let source = self.chats[chat].clone();
        if self.chats.len() >= 9 || source.history.is_empty() {
            return;
        }
        let (at, then) = source.history[self.numbers.below(source.history.len())].clone();
        let session = self.store.find_session(&source.id).unwrap().id;
        let options = CopySession {
            up_to_sequence: Some(at),
            ..CopySession::default()
        };
        let copied = self.store.copy_session(session, &options).unwrap();
        let id = copied.session.id.to_string();
        let is_there = |said: &Said| !self.redacted.contains(&said.origin);
        let mut messages: Vec<Said> = then.into_iter().filter(is_there).collect();
        let told = self
            .store
            .chats()
            .get_messages(&id, &MessageFilter::default())
            .unwrap();
        assert_eq!(told.len(), messages.len(), "copied up to {at}");
        for said in &mut messages {
            let content = props(&said.text);
            let same = told
                .iter()
                .find(|message| message.props == content)
                .unwrap();
            said.id = same.message_id.clone();
            said.sequence = same.sequence;
        }
        let last = messages.iter().map(|it| it.sequence).max().unwrap_or(0);
        messages.sort_by_key(|said| told.iter().position(|it| it.message_id == said.id));
        // What is changed here before the context goes on is before its next event, too.
        let before = source.history.into_iter().filter(|it| it.0 < at);
        let history = before.collect();
        self.chats.push(Known {
            id,
            messages,
            last: last + 1000,
            free_ids: Vec::new(),
            is_deleted: false,
            instance: copied.instances[0].instance.id,
            history,
            is_frozen: true,
        });
    }

    /// A copy up to a message: those before it in the chat's order, with the texts that they had when the last of them was saved.
    fn copy_to_message(&mut self, chat: usize) {
        let source = self.chats[chat].clone();
        let Some(place) = self.picked(chat).filter(|_| self.chats.len() < 9) else {
            return;
        };
        let told = source.told();
        let up_to = &source.messages[place].id;
        let end = told.iter().position(|(id, ..)| id == up_to).unwrap();
        let kept = |id: &str| told[..=end].iter().any(|(kept, ..)| kept == id);
        let mut messages = source.messages.clone();
        messages.retain(|said| kept(&said.id));
        let latest = messages.iter().map(|said| said.origin).max().unwrap();
        let session = self.store.find_session(&source.id).unwrap().id;
        let options = CopySession {
            up_to_message: Some(up_to.clone()),
            ..CopySession::default()
        };
        let copied = self.store.copy_session(session, &options).unwrap();
        let id = copied.session.id.to_string();
        let filter = MessageFilter::default();
        let told = self.store.chats().get_messages(&id, &filter).unwrap();
        assert_eq!(told.len(), messages.len(), "copied up to {up_to}");
        for said in &mut messages {
            // A change since counts until something else was saved, which may be what a redaction keeps a place with.
            let mut later = said.versions.iter().rev();
            let found = later.find_map(|(made, text, _)| {
                let same = told.iter().find(|message| message.props == props(text))?;
                Some((*made, same.message_id.clone()))
            });
            let (made, id) = found.unwrap_or_else(|| panic!("{said:?} is not in {told:?}"));
            let then = said.clone().then_at(latest.max(made));
            assert_eq!(
                then.versions.last().unwrap().0,
                made,
                "{said:?} in {told:?}"
            );
            *said = Said { id, ..then };
        }
        let last = messages.iter().map(|it| it.sequence).max().unwrap_or(0);
        let of_copy = copied.instances.first().map(|copied| copied.instance.id);
        let new = || self.store.create_instance(copied.session.id, "lead", None);
        self.chats.push(Known {
            id,
            messages,
            last: last + 1000,
            free_ids: Vec::new(),
            is_deleted: false,
            instance: of_copy.unwrap_or_else(|| new().unwrap().id),
            history: Vec::new(),
            is_frozen: true,
        });
    }

    fn save(&mut self, chat: usize) {
        if self.chats[chat].is_frozen {
            return;
        }
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
            let thread = THREADS[self.numbers.below(3)];
            let free = match self.numbers.below(3) {
                0 => known.free_ids.pop(),
                _ => None,
            };
            let id = free.unwrap_or_else(|| format!("m{}", self.made));
            known.messages.push(Said {
                origin: self.made,
                id: id.clone(),
                sequence,
                text: text.clone(),
                thread,
                versions: vec![(self.made, text.clone(), thread)],
            });
            new.push(ChatMessage {
                message_id: id,
                thread_id: Some(thread.into()),
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
        let thread = THREADS[self.numbers.below(3)];
        let is_of_other = self.numbers.below(3) == 0;
        let said = &mut self.chats[chat].messages[place];
        if is_of_other {
            updates = updates.with("thread_id", RawJson::from_value(&thread).unwrap());
            said.thread = thread;
        }
        if moved {
            updates = updates.with("sequence", RawJson::from_value(&to).unwrap());
            said.sequence = to;
            self.chats[chat].last = to;
        }
        let said = &mut self.chats[chat].messages[place];
        said.versions.push((self.made, text.clone(), said.thread));
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
        self.chats[chat].free_ids.push(said.id);
    }

    /// A request that replaces the messages from one on: its user asks in other words, or has the message before it answered anew.
    fn ask_again(&mut self, chat: usize) {
        let Some(place) = self.picked(chat).filter(|_| !self.chats[chat].is_frozen) else {
            return;
        };
        let told = self.chats[chat].told();
        let id_at = |place: usize| told[place].0.clone();
        let new = NewRequest {
            after: told.last().map(|(id, ..)| id.clone()),
            replaces: Some(id_at(place)),
            ..NewRequest::new("lead")
        };
        let text = self.text();
        let other = NewRequest {
            after: Some(format!("m{}", self.made)),
            ..new.clone()
        };
        let thread = THREADS[self.numbers.below(3)];
        let wants_anew = place > 0 && self.numbers.below(2) == 0;
        let known = &mut self.chats[chat];
        let chats = self.store.chats();
        let all = chats.get_messages(&known.id, &MessageFilter::default());
        let is_question = |at: usize| all.unwrap()[at].role == ChatRole::User;
        let is_anew = wants_anew && is_question(place - 1);
        let asked = ChatMessage {
            message_id: format!("m{}", self.made),
            thread_id: Some(thread.into()),
            props: props(&text),
            ..ChatMessage::text(ChatRole::User, "")
        };
        let refused = chats.begin_request(&known.id, other, asked.clone());
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Conflict);
        let request = if is_anew {
            chats.answer_again(&known.id, new, &id_at(place - 1))
        } else {
            chats.begin_request(&known.id, new, asked.clone())
        };
        let mut request = request.unwrap();
        if is_anew {
            let answer = ChatMessage {
                role: ChatRole::Assistant,
                ..asked
            };
            request.send(answer).unwrap();
        }
        request.finish(RequestEnd::Completed).unwrap();
        let is_kept = |said: &Said| told[..place].iter().any(|(id, ..)| *id == said.id);
        let (kept, deleted) = known.messages.drain(..).partition(is_kept);
        let deleted: Vec<Said> = deleted;
        known.messages = kept;
        known
            .free_ids
            .extend(deleted.into_iter().map(|said| said.id));
        known.last += 1;
        known.messages.push(Said {
            origin: self.made,
            id: format!("m{}", self.made),
            sequence: known.last,
            text: text.clone(),
            thread,
            versions: vec![(self.made, text, thread)],
        });
    }

    /// Empties the chats that are deleted, but for those that a copy was made of which isn't.
    fn retain(&mut self) {
        let policy = RetentionPolicy {
            deleted: true,
            compact: self.numbers.below(2) == 0,
            ..RetentionPolicy::default()
        };
        let retained = self.store.retain(&policy).unwrap();
        for known in &mut self.chats {
            let is_of = |id: &SessionId| id.to_string() == known.id;
            if retained.session_ids.iter().any(is_of) {
                assert!(known.is_deleted);
                known.messages.clear();
                known.free_ids.clear();
                known.last = 0;
                known.history.clear();
            }
        }
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
            self.redacted.insert(said.origin);
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
            free_ids: Vec::new(),
            instance: copied.instances[0].instance.id,
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
        (self.reader, self.of_pages) = (reading(&storage), reading(&storage));
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
            let asked = [
                ("hot", &self.store),
                ("cold", &cold),
                ("reading", &self.reader),
            ];
            for (which, store) in asked {
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
            self.check_counts(known, what);
            let asked = [(false, true), (true, true), (false, false), (true, false)];
            for (newest_first, is_new) in asked {
                let new = Store::with_backend(self.store.backend().clone());
                let cold = if is_new { &new } else { &self.of_pages };
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
                    "{what}, in pages, newest first: {newest_first}, new: {is_new}"
                );
            }
        }
        let lines = String::from_utf8(exported(&self.store)).unwrap();
        for text in &self.gone {
            assert!(!lines.contains(text), "{what}: {text} is exported");
        }
    }
}

impl World {
    /// Of each thread and of all, what is counted, and what comes behind a message.
    fn check_counts(&self, known: &Known, what: &str) {
        let new = Store::with_backend(self.store.backend().clone());
        let mut of_chat: Vec<_> = known.messages.iter().collect();
        of_chat.sort_by_key(|said| said.sequence);
        for thread in [None, Some("t1"), Some("t2")] {
            let of_thread = of_chat
                .iter()
                .filter(|said| thread.is_none_or(|it| it == said.thread));
            let of_thread: Vec<_> = of_thread.map(|said| said.id.clone()).collect();
            let thread_id = thread.map(str::to_owned);
            let filter = MessageFilter {
                thread_id: thread_id.clone(),
                ..MessageFilter::default()
            };
            for (which, store) in [("new", &new), ("reading", &self.of_pages)] {
                let chats = store.chats();
                let what = format!("{what}, {thread:?}, {which}");
                let count = chats.count_messages(&known.id, &filter).unwrap();
                assert_eq!(count, of_thread.len(), "{what}");
                let page = MessageFilter {
                    offset: 1,
                    limit: 4,
                    ..filter.clone()
                };
                let page = chats.get_messages(&known.id, &page).unwrap();
                let page: Vec<_> = page.into_iter().map(|it| it.message_id).collect();
                let wanted: Vec<_> = of_thread.iter().skip(1).take(4).cloned().collect();
                assert_eq!(page, wanted, "{what}");
                let Some(at) = of_thread.len().checked_sub(3) else {
                    continue;
                };
                let options = ListMessages {
                    thread_id: thread_id.clone(),
                    start_after: Some(of_thread[at].clone()),
                    ..ListMessages::default()
                };
                let behind = chats.list_messages(&known.id, &options).unwrap().items;
                let behind: Vec<_> = behind.into_iter().map(|it| it.message_id).collect();
                assert_eq!(behind, of_thread[at + 1..], "{what}");
            }
        }
    }
}

fn goes_through(seed: u64) {
    let mut world = World::new(seed);
    world.begin();
    for round in 0..60 {
        let chat = world.numbers.below(world.chats.len());
        let what = world.numbers.below(120);
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
            100..105 => {
                world.retain();
                "retain"
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
            90..95 => {
                world.copy(chat);
                "copy"
            }
            112..120 => {
                world.ask_again(chat);
                "ask again"
            }
            105..112 => {
                world.copy_to_message(chat);
                "copy up to a message"
            }
            _ => {
                world.copy_to_point(chat);
                "copy up to a point"
            }
        };
        if !is_deleted && ((15..90).contains(&what) || what >= 112) {
            world.mark(chat);
        }
        world.check(&format!("seed {seed}, round {round}, {done}"));
    }
}

#[test]
fn chats_are_what_a_model_of_them_says_whatever_is_redacted() {
    for seed in 0..20 {
        goes_through(seed);
    }
}

#[test]
fn a_redaction_leaves_a_message_that_has_the_id_of_another_one_in_a_copy() {
    let named = |id: &str, text: &str| ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(ChatRole::User, text)
    };
    for is_given_in_copy in [true, false] {
        let store = Store::in_memory();
        let chats = store.chats();
        let original = chats.create_chat(Chat::new("a")).unwrap().chat_id;
        chats
            .save_messages(&original, vec![named("a", "first"), named("b", "second")])
            .unwrap();
        let all = |chat: &str| chats.get_messages(chat, &MessageFilter::default()).unwrap();
        let session = store.find_session(&original).unwrap().id;
        let copy = store
            .copy_session(session, &CopySession::default())
            .unwrap();
        let copy = copy.session.id.to_string();
        let id_in_copy = all(&copy)[0].message_id.clone();
        let (chat, other, id) = match is_given_in_copy {
            true => (&copy, &original, &*id_in_copy),
            false => (&original, &copy, "a"),
        };
        let in_other = all(other);
        chats.delete_messages(chat, &[id]).unwrap();
        chats.save_messages(chat, vec![named(id, "third")]).unwrap();
        chats.redact_message(id, "asked for").unwrap();
        assert_eq!(all(chat).len(), 1, "{is_given_in_copy}");
        assert_eq!(all(other), in_other, "{is_given_in_copy}");
        // That of the other chat is redacted in both, where it was deleted, too.
        let id_there = &in_other[0].message_id;
        chats.redact_message(id_there, "asked for").unwrap();
        let lines = String::from_utf8(exported(&store)).unwrap();
        assert!(!lines.contains("first") && !lines.contains("third"));
        assert!(lines.contains("second"));
    }
}
