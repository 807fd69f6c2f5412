//! What the erasure of a chat takes from those that share messages with it, and what it leaves them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

mod traces;

use runlog::{
    RawJson, SessionId,
    blocking::Store,
    chats::{
        Chat, ChatFilter, ChatMessage, ChatRole, ListRequests, NewRequest, RequestEnd, Updates,
    },
    log::Position,
    retention::{Erase, Erased},
    sessions::CopySession,
};

use traces::{holds, tells};

/// The kind of a record that says how far a request has come.
const REQUEST: u8 = 70;

fn erase(store: &Store, what: Erase) -> Erased {
    let what = Erase {
        reason: "asked for".to_owned(),
        ..what
    };
    store.erase(&what).unwrap()
}

fn of_users(users: &[&str]) -> Erase {
    Erase {
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        ..Erase::default()
    }
}

fn of_chats(chats: &[&str]) -> Erase {
    Erase {
        chats: chats.iter().map(|chat| (*chat).to_owned()).collect(),
        ..Erase::default()
    }
}

fn chat_of(store: &Store, chat_id: &str, user: &str) {
    let chat = Chat {
        chat_id: chat_id.into(),
        title: Some(format!("The plans of {user}")),
        created_by: Some(user.into()),
        public: true,
        ..Chat::new("travel")
    };
    store.chats().create_chat(chat).unwrap();
}

fn say(store: &Store, chat_id: &str, text: &str) {
    let said = ChatMessage::text(ChatRole::User, text);
    store.chats().save_messages(chat_id, vec![said]).unwrap();
}

/// A fork of a chat by a user.
fn fork(store: &Store, chat_id: &str, name: &str, user: &str) -> SessionId {
    let id = store.chats().session_id(chat_id).unwrap();
    let options = CopySession {
        name: Some(name.into()),
        created_by: Some(user.into()),
        ..CopySession::default()
    };
    store.copy_session(id, &options).unwrap().session.id
}

fn said(store: &Store, chat_id: &str) -> Vec<String> {
    let chats = store.chats();
    let all = chats.get_messages(chat_id, &Default::default()).unwrap();
    all.iter()
        .map(|message| message.props.as_str().to_owned())
        .collect()
}

fn interrupted(store: &Store, chat_id: &str) -> String {
    let asked = ChatMessage::text(ChatRole::User, "Oslo?");
    let chats = store.chats();
    let request = chats.begin_request(chat_id, NewRequest::new("travel"), asked);
    let mut request = request.unwrap();
    let id = request.request_id().to_owned();
    request.finish(RequestEnd::Interrupted).unwrap();
    id
}

/// The requests that are to be gone on with. Each can be: what a program does after a crash.
fn listed(store: &Store) -> Vec<(String, String)> {
    let all = store.chats().list_requests(&ListRequests::default());
    let all: Vec<_> = all.unwrap().items;
    all.into_iter()
        .map(|it| {
            let found = store.chats().resume_request_in(&it.chat_id, &it.request_id);
            found.unwrap_or_else(|error| panic!("{} of {}: {error}", it.request_id, it.chat_id));
            (it.chat_id, it.request_id)
        })
        .collect()
}

#[test]
fn a_request_that_went_with_a_fork_is_in_no_list_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    chat_of(&store, "trip", "ann");
    let shared = interrupted(&store, "trip");
    fork(&store, "trip", "fork", "ann");
    fork(&store, "fork", "fork of it", "ann");
    let own = interrupted(&store, "trip");
    chat_of(&store, "other", "ann");
    let others = interrupted(&store, "other");
    erase(&store, of_chats(&["fork"]));
    let left = [("other".to_owned(), others), ("trip".to_owned(), own)];
    assert_eq!(listed(&store), left, "{shared} is in neither");
    store.close().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    assert_eq!(listed(&store), left);
}

#[test]
fn a_request_whose_record_was_erased_is_in_no_list_any_more() {
    let store = Store::in_memory();
    chat_of(&store, "trip", "ann");
    interrupted(&store, "trip");
    fork(&store, "trip", "fork", "ann");
    assert_eq!(listed(&store).len(), 1);
    let page = pollster::block_on(store.backend().scan(Position(1), 100)).unwrap();
    let begun = page
        .records
        .iter()
        .filter(|record| record.kind.0 == REQUEST);
    let positions: Vec<u64> = begun.map(|record| record.position.0).collect();
    let what = Erase {
        positions,
        ..Erase::default()
    };
    erase(&store, what);
    assert_eq!(listed(&store), []);
}

#[test]
fn a_chat_stays_its_users_when_a_fork_of_it_is_erased() {
    let store = Store::in_memory();
    chat_of(&store, "trip", "ann");
    say(&store, "trip", "shared");
    fork(&store, "trip", "fork", "ann");
    say(&store, "trip", "later");
    erase(&store, of_chats(&["fork"]));
    assert_eq!(said(&store, "trip"), [r#"{"content":"later"}"#]);
    let of_ann = ChatFilter {
        user_id: Some("ann".into()),
        ..ChatFilter::default()
    };
    let found = store.chats().list_chats(&of_ann).unwrap();
    let found: Vec<_> = found.items.into_iter().map(|it| it.chat_id).collect();
    assert_eq!(found, ["trip"]);
    // So all of it is found once more.
    assert!(erase(&store, of_users(&["ann"])).records > 0);
    assert!(!tells(&store, "later") && !tells(&store, "ann"));
}

#[test]
fn forgetting_who_forked_a_chat_leaves_it_whole_to_whom_it_belongs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    chat_of(&store, "trip", "ann");
    say(&store, "trip", "of ann");
    let request = interrupted(&store, "trip");
    let whole = said(&store, "trip");
    fork(&store, "trip", "of bob", "bob");
    say(&store, "of bob", "bob's first");
    // One of a fork of his own, of which what he said before is shared; and one of somebody else's.
    fork(&store, "of bob", "of bob again", "bob");
    say(&store, "of bob again", "bob's second");
    fork(&store, "of bob", "of eve", "eve");
    say(&store, "of eve", "of eve");
    assert!(erase(&store, of_users(&["bob"])).is_gone);

    assert_eq!(said(&store, "trip"), whole);
    assert!(listed(&store).contains(&("trip".to_owned(), request.clone())));
    assert_eq!(store.chats().get_requests("trip").unwrap().len(), 1);
    let trip = store.chats().get_chat("trip").unwrap().unwrap();
    assert_eq!(trip.title.as_deref(), Some("The plans of ann"));
    // What bob said is nowhere, and what eve has of him went with it.
    for (chat, left) in [("of bob", 2), ("of bob again", 2), ("of eve", 3)] {
        assert_eq!(said(&store, chat).len(), left, "{chat}");
    }
    for text in ["bob's first", "bob's second"] {
        assert!(!tells(&store, text) && !holds(&path, text), "{text}");
    }
    for chat in ["of bob", "of bob again"] {
        assert_eq!(
            store.chats().get_chat(chat).unwrap().unwrap().created_by,
            None
        );
    }
    let eves = store.chats().get_chat("of eve").unwrap().unwrap();
    assert_eq!(eves.created_by.as_deref(), Some("eve"));
    assert_eq!(
        erase(&store, of_users(&["bob"])).records,
        0,
        "nothing is left"
    );

    // What is ann's goes with her, wherever it was copied to.
    erase(&store, of_users(&["ann"]));
    assert_eq!(said(&store, "of bob"), [] as [&str; 0]);
    assert_eq!(said(&store, "of eve"), [r#"{"content":"of eve"}"#]);
    assert!(!tells(&store, "of ann") && !holds(&path, "of ann"));
    assert_eq!(listed(&store), []);
}

#[test]
fn a_fork_that_is_named_takes_what_it_shares_also_beside_its_user() {
    let store = Store::in_memory();
    chat_of(&store, "trip", "ann");
    say(&store, "trip", "of ann");
    fork(&store, "trip", "of bob", "bob");
    let both = Erase {
        chats: vec!["of bob".into()],
        ..of_users(&["bob"])
    };
    erase(&store, both);
    assert_eq!(said(&store, "trip"), [] as [&str; 0]);
}

#[test]
fn who_changed_a_chat_that_somebody_forked_is_forgotten_in_the_fork_too() {
    let store = Store::in_memory();
    chat_of(&store, "trip", "zoe");
    let updates = Updates::new().with("updated_by", RawJson::string("zoe"));
    store.chats().update_chat("trip", &updates).unwrap();
    fork(&store, "trip", "of bob", "bob");
    erase(&store, of_users(&["zoe"]));
    assert!(!tells(&store, "zoe"));
    let fork = store.chats().get_chat("of bob").unwrap().unwrap();
    assert_eq!(fork.created_by.as_deref(), Some("bob"));
}

#[test]
fn what_somebody_says_of_his_own_fork_stays_between_two_of_an_erased_user() {
    let store = Store::in_memory();
    let described = |chat_id: &str, title: &str| {
        let updates = Updates::new()
            .with("title", RawJson::string(title))
            .with("metadata", RawJson::string(&format!("of {title}")));
        store.chats().update_chat(chat_id, &updates).unwrap();
    };
    let told = |chat_id: &str| {
        let chat = store.chats().get_chat(chat_id).unwrap().unwrap();
        let metadata = chat.metadata.map(|json| json.as_str().to_owned());
        (chat.title, metadata)
    };
    chat_of(&store, "first", "bob");
    described("first", "bob's");
    fork(&store, "first", "second", "bob");
    fork(&store, "second", "as it was", "eve");
    fork(&store, "second", "of carl", "carl");
    described("of carl", "carl's");
    fork(&store, "of carl", "third", "bob");
    fork(&store, "third", "of eve", "eve");
    erase(&store, of_users(&["bob"]));
    let carls = (Some("carl's".to_owned()), Some(r#""of carl's""#.to_owned()));
    assert_eq!(told("of carl"), carls);
    assert_eq!(told("of eve"), carls, "it was carl's before");
    for chat in ["first", "second", "third", "as it was"] {
        assert_eq!(told(chat), (None, None), "{chat}");
    }
    assert!(!tells(&store, "bob's"));
}
