//! Erasures drawn at random, among copies, truncations, changed titles, chats, runs, compactions, backups and exports. What is to be
//! gone is in no record, no file, no export, no later backup; what nobody asked to erase is still read.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report, and the test looks at the files of the store"
)]
#![cfg(not(target_family = "wasm"))]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Cursor,
};

use proptest::prelude::*;
use runlog::{
    Error, ErrorKind, InstanceId, NewMessage, NewRun, RawJson, SessionId,
    archive::{self, What},
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, MessageFilter, Updates},
    log::{Codec, CompactOptions, Position},
    retention::Erase,
    runs::RunDetails,
    sessions::{CopySession, ListSessions, SessionChanges},
};

/// The length of a text that says which session it was first written in, and nothing else.
const TOKEN: usize = 10;

/// How many users there are, who make chats and forks of each other's.
const USERS: usize = 3;

/// One step; the numbers choose among the sessions, or the messages, that there are.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start,
    Say(usize),
    Describe(usize),
    Run(usize),
    SaveMessage(usize),
    UpdateMessage(usize, usize),
    DeleteMessage(usize, usize),
    /// Deletes a chat, or restores it.
    DeleteChat(usize),
    Copy(usize),
    CopyUpTo(usize, usize),
    Truncate(usize, usize),
    Erase(usize),
    EraseUser(usize),
    EraseMessage(usize, usize),
    EraseFound(usize),
    Compact(bool),
    Backup,
    Reopen,
    Export,
    KeepExport,
    ImportKept,
}

fn step() -> impl Strategy<Value = Step> {
    let one = 0..64_usize;
    prop_oneof![
        2 => Just(Step::Start),
        6 => one.clone().prop_map(Step::Say),
        3 => one.clone().prop_map(Step::Describe),
        3 => one.clone().prop_map(Step::Run),
        4 => one.clone().prop_map(Step::SaveMessage),
        3 => (one.clone(), one.clone()).prop_map(|(a, b)| Step::UpdateMessage(a, b)),
        2 => (one.clone(), one.clone()).prop_map(|(a, b)| Step::DeleteMessage(a, b)),
        2 => one.clone().prop_map(Step::DeleteChat),
        3 => one.clone().prop_map(Step::Copy),
        2 => (one.clone(), one.clone()).prop_map(|(a, b)| Step::CopyUpTo(a, b)),
        2 => (one.clone(), one.clone()).prop_map(|(a, b)| Step::Truncate(a, b)),
        3 => one.clone().prop_map(Step::Erase),
        2 => one.clone().prop_map(Step::EraseUser),
        2 => (one.clone(), one.clone()).prop_map(|(a, b)| Step::EraseMessage(a, b)),
        2 => one.prop_map(Step::EraseFound),
        2 => any::<bool>().prop_map(Step::Compact),
        2 => Just(Step::Backup),
        1 => Just(Step::Reopen),
        2 => Just(Step::Export),
        2 => Just(Step::KeepExport),
        2 => Just(Step::ImportKept),
    ]
}

/// A message of a chat: its versions, the newest last.
#[derive(Clone)]
struct Said {
    id: String,
    versions: Vec<String>,
}

struct Known {
    id: SessionId,
    agent: InstanceId,
    /// Who made it, until that was erased.
    user: Option<usize>,
    /// What was written in it, whatever became of that.
    own: BTreeSet<String>,
    /// Its context as it is read, in order.
    context: Vec<String>,
    messages: Vec<Said>,
    /// What its chat ever had: a copy shares it, also what was deleted or changed.
    chat: BTreeSet<String>,
    /// Its title, and the one value of its metadata.
    described: (Option<String>, Option<String>),
    /// All titles and values of metadata that it ever had.
    descriptions: BTreeSet<String>,
    is_deleted: bool,
}

impl Known {
    /// What describes it is erased: what is said of it next says nothing of what was said before.
    fn forget_description(&mut self) {
        (self.user, self.described) = (None, (None, None));
        self.descriptions.clear();
    }
}

struct Tried {
    folder: tempfile::TempDir,
    store: Option<Store>,
    known: Vec<Known>,
    gone: BTreeSet<String>,
    /// Messages that were deleted in a chat, which copies of it may have.
    deleted: Vec<Said>,
    tokens: usize,
    backups: usize,
    /// An export of some time ago; what was truncated since would be there again with it.
    kept: Option<Vec<u8>>,
}

impl Tried {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store")).unwrap();
        Self {
            folder,
            store: Some(store),
            known: Vec::new(),
            gone: BTreeSet::new(),
            deleted: Vec::new(),
            tokens: 0,
            backups: 0,
            kept: None,
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn token(&mut self) -> String {
        self.tokens += 1;
        format!("tok{:06}x", self.tokens)
    }

    /// A text that is written in a session.
    fn token_of(&mut self, session: usize) -> String {
        let token = self.token();
        self.known[session].own.insert(token.clone());
        token
    }

    fn take(&mut self, step: Step) {
        if let Step::Start = step {
            return self.start();
        }
        if self.known.is_empty() {
            return;
        }
        let at = |one: usize| one % self.known.len();
        // Nothing is written to a chat that was deleted.
        if let Step::Say(one)
        | Step::Describe(one)
        | Step::Run(one)
        | Step::SaveMessage(one)
        | Step::UpdateMessage(one, _)
        | Step::DeleteMessage(one, _)
        | Step::Copy(one)
        | Step::CopyUpTo(one, _)
        | Step::Truncate(one, _)
        | Step::EraseMessage(one, _) = step
            && self.known[at(one)].is_deleted
        {
            return;
        }
        match step {
            Step::Start => {}
            Step::DeleteChat(one) => self.delete_chat(at(one)),
            Step::Say(one) => self.say(at(one)),
            Step::Describe(one) => self.describe(at(one)),
            Step::Run(one) => self.run(at(one)),
            Step::SaveMessage(one) => self.save_message(at(one)),
            Step::UpdateMessage(one, message) => self.update_message(at(one), message),
            Step::DeleteMessage(one, message) => self.delete_message(at(one), message),
            Step::Copy(one) => self.copy(at(one), None),
            Step::CopyUpTo(one, up_to) => {
                let one = at(one);
                let up_to = up_to % (self.known[one].context.len() + 1);
                // The chat's part of such a copy depends on records that this doesn't know.
                if self.known[one].chat.is_empty() {
                    self.copy(one, Some(up_to));
                }
            }
            Step::Truncate(one, up_to) => self.truncate(at(one), up_to),
            Step::Erase(one) => self.erase(at(one)),
            Step::EraseUser(user) => self.erase_user(user % USERS),
            Step::EraseMessage(one, message) => self.erase_message(at(one), message),
            Step::EraseFound(token) => self.erase_found(token),
            Step::Compact(is_packed) => {
                let codec = if is_packed { Codec::Zstd } else { Codec::Plain };
                let options = CompactOptions {
                    codec,
                    ..CompactOptions::default()
                };
                self.store().compact(options).unwrap();
            }
            Step::Backup => self.backup(),
            Step::Reopen => {
                self.store().close().unwrap();
                self.store = None;
                self.store = Some(Store::open(self.folder.path().join("store")).unwrap());
            }
            Step::Export => self.export(),
            Step::KeepExport => self.kept = Some(self.exported()),
            Step::ImportKept => {
                if let Some(lines) = &self.kept {
                    import(self.store(), lines);
                    self.check_no_trace(self.store(), "the import of an older export");
                    self.check_read(self.store());
                }
            }
        }
    }

    fn start(&mut self) {
        let (title, value) = (self.token(), self.token());
        let user = self.tokens % USERS;
        let chat = Chat {
            title: Some(title.clone()),
            metadata: Some(RawJson::string(&value)),
            created_by: Some(name_of(user)),
            ..Chat::new("travel")
        };
        let chat = self.store().chats().create_chat(chat).unwrap();
        let id: SessionId = chat.chat_id.parse().unwrap();
        let agent = self.store().create_instance(id, "planner", None).unwrap();
        self.known.push(Known {
            id,
            agent: agent.id,
            user: Some(user),
            own: [title.clone(), value.clone()].into(),
            context: Vec::new(),
            messages: Vec::new(),
            chat: BTreeSet::new(),
            descriptions: [title.clone(), value.clone()].into(),
            described: (Some(title), Some(value)),
            is_deleted: false,
        });
    }

    fn say(&mut self, one: usize) {
        let token = self.token_of(one);
        let context = self.store().context(self.known[one].agent).unwrap();
        context.append_message(NewMessage::user(&token)).unwrap();
        self.known[one].context.push(token);
    }

    fn describe(&mut self, one: usize) {
        let token = self.token_of(one);
        self.known[one].descriptions.insert(token.clone());
        let is_title = self.tokens.is_multiple_of(2);
        let changes = if is_title {
            self.known[one].described.0 = Some(token.clone());
            SessionChanges {
                title: Some(token),
                ..SessionChanges::default()
            }
        } else {
            self.known[one].described.1 = Some(token.clone());
            SessionChanges {
                metadata: Some(RawJson::string(&token)),
                ..SessionChanges::default()
            }
        };
        self.store()
            .update_session(self.known[one].id, changes)
            .unwrap();
    }

    fn run(&mut self, one: usize) {
        let [said, about, end] = [(); 3].map(|()| self.token_of(one));
        let run = self
            .store()
            .runs()
            .start(NewRun::new(self.known[one].agent))
            .unwrap();
        run.next_step().unwrap();
        run.record_message(NewMessage::user(&said)).unwrap();
        self.known[one].context.push(said);
        let details = RunDetails {
            metadata: Some(RawJson::string(&about)),
            ..RunDetails::default()
        };
        run.describe(details).unwrap();
        match self.tokens % 3 {
            0 => run.fail(&end).unwrap(),
            1 => run.pause(end.as_str()).unwrap(),
            _ => run.complete(Some(&end)).unwrap(),
        };
    }

    fn save_message(&mut self, one: usize) {
        let token = self.token_of(one);
        let message = ChatMessage::text(ChatRole::User, token.as_str());
        let chat_id = self.known[one].id.to_string();
        let saved = self
            .store()
            .chats()
            .save_messages(&chat_id, vec![message])
            .unwrap();
        self.known[one].chat.insert(token.clone());
        self.known[one].messages.push(Said {
            id: saved[0].message_id.clone(),
            versions: vec![token],
        });
    }

    fn message(&self, one: usize, message: usize) -> Option<usize> {
        let count = self.known[one].messages.len();
        (count > 0).then(|| message % count.max(1))
    }

    fn update_message(&mut self, one: usize, message: usize) {
        let Some(message) = self.message(one, message) else {
            return;
        };
        let token = self.token_of(one);
        let id = self.known[one].messages[message].id.clone();
        let updates = Updates::new().with(
            "props",
            RawJson::parse(format!(r#"{{"content":"{token}"}}"#)).unwrap(),
        );
        self.store().chats().update_message(&id, &updates).unwrap();
        self.known[one].chat.insert(token.clone());
        self.known[one].messages[message].versions.push(token);
    }

    fn delete_message(&mut self, one: usize, message: usize) {
        let Some(message) = self.message(one, message) else {
            return;
        };
        let chat_id = self.known[one].id.to_string();
        let said = self.known[one].messages.remove(message);
        self.store()
            .chats()
            .delete_messages(&chat_id, &[&said.id])
            .unwrap();
        self.deleted.push(said);
    }

    fn delete_chat(&mut self, one: usize) {
        let chat_id = self.known[one].id.to_string();
        let chats = self.store().chats();
        match self.known[one].is_deleted {
            false => chats.delete_chat(&chat_id).unwrap(),
            true => drop(chats.restore_chat(&chat_id).unwrap()),
        }
        self.known[one].is_deleted ^= true;
        self.kept = None;
    }

    /// All versions of the messages of which one is among some texts, in all chats that have or had them: of which copies share a message is
    /// told by its first version.
    fn versions_of(&self, tokens: &BTreeSet<String>) -> BTreeSet<String> {
        let all = || {
            let messages = self.known.iter().flat_map(|known| &known.messages);
            messages.chain(&self.deleted)
        };
        let named = all().filter(|said| said.versions.iter().any(|it| tokens.contains(it)));
        let firsts: BTreeSet<&String> = named.map(|said| &said.versions[0]).collect();
        let versions = all().filter(|said| firsts.contains(&said.versions[0]));
        versions.flat_map(|said| said.versions.clone()).collect()
    }

    fn copy(&mut self, one: usize, up_to: Option<usize>) {
        let from = &self.known[one];
        // For one's own use, or somebody else's.
        let other = self
            .known
            .len()
            .is_multiple_of(2)
            .then_some(self.known.len() % USERS);
        let options = CopySession {
            up_to_sequence: up_to.map(|up_to| up_to as u64),
            created_by: other.map(name_of),
            ..CopySession::default()
        };
        let copied = self.store().copy_session(from.id, &options).unwrap();
        let chat_id = copied.session.id.to_string();
        let messages = self
            .store()
            .chats()
            .get_messages(&chat_id, &MessageFilter::default());
        let ids = messages
            .unwrap()
            .into_iter()
            .map(|message| message.message_id);
        let mut context = from.context.clone();
        context.truncate(up_to.unwrap_or(usize::MAX));
        let copy = Known {
            id: copied.session.id,
            agent: copied.instances[0].instance.id,
            user: other.or(from.user),
            own: BTreeSet::new(),
            context,
            messages: ids
                .zip(&from.messages)
                .map(|(id, said)| Said {
                    id,
                    versions: said.versions.clone(),
                })
                .collect(),
            chat: from.chat.clone(),
            described: from.described.clone(),
            descriptions: [&from.described.0, &from.described.1]
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
            is_deleted: false,
        };
        assert_eq!(copy.messages.len(), from.messages.len());
        self.known.push(copy);
    }

    fn truncate(&mut self, one: usize, up_to: usize) {
        let up_to = up_to % (self.known[one].context.len() + 1);
        // What becomes of the chat depends on records that this doesn't know.
        if self.known[one].chat.is_empty() {
            self.store()
                .truncate_session(self.known[one].id, up_to as u64)
                .unwrap();
            self.known[one].context.truncate(up_to);
            self.kept = None;
        }
    }

    /// What was written in a session; not what it has of the one that it was copied from.
    fn erase(&mut self, one: usize) {
        let known = &mut self.known[one];
        known.forget_description();
        let what = Erase {
            sessions: vec![known.id],
            ..Erase::default()
        };
        let gone = known.own.clone();
        self.erase_as(what, gone);
    }

    /// What was written in all chats of a user; not what they have of other users' chats.
    fn erase_user(&mut self, user: usize) {
        let mut gone = BTreeSet::new();
        for known in self.known.iter_mut().filter(|it| it.user == Some(user)) {
            gone.extend(known.own.iter().cloned());
            known.forget_description();
        }
        let what = Erase {
            users: vec![name_of(user)],
            ..Erase::default()
        };
        self.erase_as(what, gone);
    }

    fn erase_message(&mut self, one: usize, message: usize) {
        let Some(message) = self.message(one, message) else {
            return;
        };
        let said = self.known[one].messages[message].clone();
        let versions = self.versions_of(&said.versions.into_iter().collect());
        self.erase_as(
            Erase {
                messages: vec![said.id],
                ..Erase::default()
            },
            versions,
        );
    }

    /// What a search finds of a text is erased by its positions.
    fn erase_found(&mut self, token: usize) {
        let token = format!("tok{:06}x", token % (self.tokens + 1));
        let positions = positions_of(self.store(), &token);
        if positions.is_empty() {
            return;
        }
        // What describes a session goes together: each of its records has all of it.
        let known = self.known.iter_mut();
        let mut gone = BTreeSet::new();
        for known in known.filter(|known| known.descriptions.contains(&token)) {
            gone.extend(known.descriptions.intersection(&known.own).cloned());
            known.forget_description();
        }
        gone.insert(token);
        gone.extend(self.versions_of(&gone));
        self.erase_as(
            Erase {
                positions,
                ..Erase::default()
            },
            gone,
        );
    }

    fn erase_as(&mut self, what: Erase, mut gone: BTreeSet<String>) {
        // What copies made of a message that is erased with its session goes with it.
        let messages = self.known.iter().flat_map(|known| &known.messages);
        let messages = messages.chain(&self.deleted);
        let of_erased = messages.filter(|said| gone.contains(&said.versions[0]));
        let changes: Vec<_> = of_erased.flat_map(|said| said.versions.clone()).collect();
        gone.extend(changes);
        let what = Erase {
            reason: "asked to".to_owned(),
            ..what
        };
        let erased = self.store().erase(&what).unwrap();
        assert!(erased.is_gone);
        self.gone.extend(gone);
        self.forget_erased_messages();
        match self.store().erase(&what) {
            // Once the bytes are gone, nothing tells that there was such a message, or a record that was truncated.
            Err(error) if what.sessions.is_empty() && what.users.is_empty() => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
            }
            again => assert_eq!(again.unwrap().records, 0, "{what:?}"),
        }
        let path = self.folder.path().join("store");
        let mut left = BTreeSet::new();
        for entry in fs::read_dir(path).unwrap() {
            add_tokens(&fs::read(entry.unwrap().path()).unwrap(), &mut left);
        }
        let left: Vec<_> = left.intersection(&self.gone).collect();
        assert!(left.is_empty(), "in files: {left:?}");
    }

    /// A message that was erased is in no chat any more. One that says in a fork again what it said before, since who changed it is erased,
    /// does.
    fn forget_erased_messages(&mut self) {
        let store = self.store.as_ref().unwrap();
        for known in &mut self.known {
            let gone = &self.gone;
            known.messages.retain_mut(|said| {
                let is_there = !gone.contains(&said.versions[0]);
                said.versions.retain(|version| !gone.contains(version));
                is_there
            });
            // Of one that was deleted nothing is read before it is restored.
            if known.is_deleted {
                continue;
            }
            let chat_id = known.id.to_string();
            let messages = store
                .chats()
                .get_messages(&chat_id, &MessageFilter::default());
            let read = messages.unwrap().into_iter().map(|it| it.message_id);
            let expected = known.messages.iter().map(|said| said.id.clone());
            assert_eq!(
                read.collect::<BTreeSet<_>>(),
                expected.collect::<BTreeSet<_>>()
            );
        }
    }

    fn backup(&mut self) {
        self.backups += 1;
        let path = self.folder.path().join("backup");
        self.store().backup(&path).unwrap();
        let copy = self
            .folder
            .path()
            .join(format!("restored-{}", self.backups));
        fs::create_dir(&copy).unwrap();
        for entry in fs::read_dir(&path).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let restored = Store::open(&copy).unwrap();
        self.check_no_trace(&restored, "the backup");
        self.check_read(&restored);
    }

    fn exported(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        archive::export(self.store(), What::All, &mut |line| {
            lines.extend_from_slice(line);
            Ok::<(), Error>(())
        })
        .unwrap();
        lines
    }

    fn export(&self) {
        let lines = self.exported();
        let mut told = BTreeSet::new();
        add_tokens(&lines, &mut told);
        let told: Vec<_> = told.intersection(&self.gone).collect();
        assert!(told.is_empty(), "in the export: {told:?}");
        let other = Store::in_memory();
        import(&other, &lines);
        self.check_no_trace(&other, "the import");
        self.check_read(&other);
    }

    fn check_no_trace(&self, store: &Store, whose: &str) {
        let mut told = BTreeSet::new();
        let mut next = Some(Position(1));
        while let Some(first) = next {
            let page = pollster::block_on(store.backend().scan(first, 1_000)).unwrap();
            for record in &page.records {
                add_tokens(&record.payload, &mut told);
                add_tokens(&record.meta, &mut told);
            }
            next = page.next;
        }
        let told: Vec<_> = told.intersection(&self.gone).collect();
        assert!(told.is_empty(), "in {whose}: {told:?}");
    }

    /// What wasn't erased is read as it was written.
    fn check_read(&self, store: &Store) {
        let listed = store.list_sessions(&ListSessions {
            limit: 10_000,
            ..ListSessions::default()
        });
        let listed: BTreeMap<SessionId, _> = listed
            .unwrap()
            .items
            .into_iter()
            .map(|session| (session.id, session))
            .collect();
        let shown = || self.known.iter().filter(|known| !known.is_deleted);
        assert_eq!(listed.len(), shown().count());
        let is_left = |token: &&String| !self.gone.contains(*token);
        for known in shown() {
            let session = &listed[&known.id];
            let (title, value) = &known.described;
            assert_eq!(session.title.as_ref(), title.as_ref().filter(is_left));
            let value = value
                .as_ref()
                .filter(is_left)
                .map(|text| RawJson::string(text));
            assert_eq!(session.metadata, value);
            let chat = session.chat.as_ref().unwrap();
            assert_eq!(chat.created_by, known.user.map(name_of), "{}", known.id);
            let mut read = BTreeSet::new();
            for message in store.context(known.agent).unwrap().get_messages().unwrap() {
                add_tokens(message.json.as_bytes(), &mut read);
            }
            let expected: BTreeSet<_> = known.context.iter().filter(is_left).cloned().collect();
            assert_eq!(read, expected, "the context of {}", known.id);
            let chat_id = known.id.to_string();
            let messages = store
                .chats()
                .get_messages(&chat_id, &MessageFilter::default())
                .unwrap();
            let said: BTreeMap<&str, String> = messages
                .iter()
                .map(|message| {
                    (
                        message.message_id.as_str(),
                        message.props.as_str().to_owned(),
                    )
                })
                .collect();
            for message in &known.messages {
                let newest = message.versions.last().unwrap();
                assert!(said[message.id.as_str()].contains(newest.as_str()));
            }
        }
    }
}

fn name_of(user: usize) -> String {
    format!("user {user}")
}

fn import(store: &Store, lines: &[u8]) {
    let mut source = || Ok(Box::new(Cursor::new(lines.to_vec())) as Box<dyn std::io::BufRead>);
    archive::import(store, None, false, &mut source).unwrap();
}

/// The positions of the content that has a text. What the store's lists have of it goes with its description.
fn positions_of(store: &Store, token: &str) -> Vec<u64> {
    let mut positions = Vec::new();
    let mut next = Some(Position(1));
    while let Some(first) = next {
        let page = pollster::block_on(store.backend().scan(first, 1_000)).unwrap();
        for record in &page.records {
            let mut tokens = BTreeSet::new();
            add_tokens(&record.payload, &mut tokens);
            let is_part = record.kind.0 == runlog_model::kinds::CATALOG_PART;
            if tokens.contains(token) && !is_part {
                positions.push(record.position.0);
            }
        }
        next = page.next;
    }
    positions
}

fn add_tokens(bytes: &[u8], tokens: &mut BTreeSet<String>) {
    for window in bytes.windows(TOKEN) {
        if window.starts_with(b"tok") && window.ends_with(b"x") {
            let digits = &window[3..TOKEN - 1];
            if digits.iter().all(u8::is_ascii_digit) {
                tokens.insert(String::from_utf8(window.to_vec()).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn what_was_erased_is_nowhere_and_the_rest_is_read(steps in prop::collection::vec(step(), 1..60)) {
        let mut tried = Tried::new();
        for step in steps {
            tried.take(step);
        }
        tried.check_no_trace(tried.store(), "the store");
        tried.check_read(tried.store());
    }
}
