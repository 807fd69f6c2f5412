//! What the erasure of a chat takes from those that share messages with it, and what it leaves them.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

mod traces;

use runlog::{
    RawJson, SessionId,
    blocking::Store,
    chats::{
        Chat, ChatFilter, ChatMessage, ChatRole, ListRequests, NewRequest, RequestDetails,
        RequestEnd, StepType, Updates,
    },
    log::Position,
    retention::{Erase, Erased},
    scan::TextQuery,
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
fn a_request_that_went_with_a_chat_is_in_no_list_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    chat_of(&store, "trip", "ann");
    let shared = interrupted(&store, "trip");
    fork(&store, "trip", "fork", "ann");
    fork(&store, "fork", "fork of it", "ann");
    let own = interrupted(&store, "fork");
    chat_of(&store, "other", "ann");
    let others = interrupted(&store, "other");
    erase(&store, of_chats(&["trip"]));
    let left = [("other".to_owned(), others), ("fork".to_owned(), own)];
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
    let whole = [r#"{"content":"shared"}"#, r#"{"content":"later"}"#];
    assert_eq!(said(&store, "trip"), whole);
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
    let again = erase(&store, of_users(&["bob", "eva"]));
    assert_eq!(again.records, 0, "nothing is left");
    assert_eq!(again.unknown_users, ["bob", "eva"]);

    // What is ann's goes with her, wherever it was copied to.
    erase(&store, of_users(&["ann"]));
    assert_eq!(said(&store, "of bob"), [] as [&str; 0]);
    assert_eq!(said(&store, "of eve"), [r#"{"content":"of eve"}"#]);
    assert!(!tells(&store, "of ann") && !holds(&path, "of ann"));
    assert_eq!(listed(&store), []);
}

/// A chat in which a message was put first after the others.
fn with_pinned(store: &Store) {
    chat_of(store, "trip", "ann");
    let pinned = |id: &str, sequence: u64| ChatMessage {
        message_id: id.into(),
        sequence,
        ..ChatMessage::text(ChatRole::User, id)
    };
    for (id, sequence) in [("one", 10), ("two", 20), ("three", 30), ("pinned", 1)] {
        let message = pinned(id, sequence);
        store.chats().save_messages("trip", vec![message]).unwrap();
    }
}

#[test]
fn a_fork_that_is_erased_takes_nothing_from_what_it_was_made_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    with_pinned(&store);
    let request = interrupted(&store, "trip");
    let whole = said(&store, "trip");
    let id = store.chats().session_id("trip").unwrap();
    let up_to = CopySession {
        name: Some("of bob".into()),
        created_by: Some("bob".into()),
        up_to_message: Some("pinned".into()),
        ..CopySession::default()
    };
    store.copy_session(id, &up_to).unwrap();
    assert_eq!(said(&store, "of bob").len(), 1);
    fork(&store, "trip", "whole", "bob");
    let of_fork = store.chats().get_messages("whole", &Default::default());
    let of_fork = of_fork.unwrap();
    let ids: Vec<&str> = of_fork.iter().map(|it| it.message_id.as_str()).collect();
    store.chats().delete_messages("whole", &ids).unwrap();
    say(&store, "of bob", "bob's own");
    say(&store, "whole", "bob's other");
    erase(&store, of_chats(&["of bob", "whole"]));
    assert_eq!(said(&store, "trip"), whole);
    assert_eq!(listed(&store), [("trip".to_owned(), request)]);
    for text in ["bob's own", "bob's other"] {
        assert!(!tells(&store, text) && !holds(&path, text), "{text}");
    }
}

#[test]
fn what_others_made_of_an_erased_message_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    chat_of(&store, "trip", "ann");
    say(&store, "trip", "of ann");
    fork(&store, "trip", "of bob", "bob");
    say(&store, "of bob", "of bob");
    let change = |chat: &str, place: usize, text: &str| {
        let messages = store.chats().get_messages(chat, &Default::default());
        let id = messages.unwrap()[place].message_id.clone();
        let props = RawJson::parse(format!(r#"{{"content":"{text}"}}"#)).unwrap();
        let updates = Updates::new().with("props", props);
        store.chats().update_message(&id, &updates).unwrap();
    };
    change("of bob", 0, "of ann, and more");
    change("of bob", 1, "of bob, and more");
    fork(&store, "of bob", "of eve", "eve");
    change("of eve", 0, "of ann, as eve has it");
    change("of eve", 1, "of bob, as eve has it");
    change("trip", 0, "of ann at last");
    fork(&store, "trip", "deleted", "fay");
    change("deleted", 0, "as fay had it");
    store.chats().delete_chat("deleted").unwrap();
    erase(&store, of_chats(&["trip"]));
    for text in [
        "as fay had it",
        "of ann, and more",
        "of ann, as eve has it",
        "of ann at last",
    ] {
        assert!(!tells(&store, text) && !holds(&path, text), "{text}");
    }
    assert_eq!(
        said(&store, "of bob"),
        [r#"{"content":"of bob, and more"}"#]
    );
    let eves = [r#"{"content":"of bob, as eve has it"}"#];
    assert_eq!(said(&store, "of eve"), eves);
    // What an erased fork made of a message that is somebody else's is its own.
    chat_of(&store, "other", "carl");
    say(&store, "other", "of carl");
    fork(&store, "other", "of dan", "dan");
    change("of dan", 0, "of carl, by dan");
    erase(&store, of_users(&["dan"]));
    assert!(!tells(&store, "by dan"));
    assert_eq!(said(&store, "other"), [r#"{"content":"of carl"}"#]);
}

#[test]
fn what_ends_a_copied_request_repeats_nothing_of_the_original() {
    for by_dismissal in [true, false] {
        let store = Store::in_memory();
        chat_of(&store, "trip", "ann");
        let asked = ChatMessage::text(ChatRole::User, "Oslo?");
        let request = store
            .chats()
            .begin_request("trip", NewRequest::new("travel"), asked);
        let mut request = request.unwrap();
        let metadata = RawJson::parse(r#"{"of":"ann alone"}"#).unwrap();
        let details = RequestDetails {
            metadata: Some(metadata),
            usage: Some(RawJson::parse(r#"{"tokens":3}"#).unwrap()),
            ..RequestDetails::default()
        };
        request.describe(details).unwrap();
        request
            .start_step(StepType::Llm, RawJson::parse("{}").unwrap())
            .unwrap();
        request
            .finish(RequestEnd::Failed("no answer to ann".into()))
            .unwrap();
        fork(&store, "trip", "of bob", "bob");
        let chats = store.chats();
        let resumption = chats.resume("of bob").unwrap().unwrap();
        if by_dismissal {
            chats.dismiss(&resumption.step.request_id).unwrap();
        } else {
            let output = RawJson::parse("{}").unwrap();
            chats.complete_resumed(&resumption, &output).unwrap();
        }
        let ended = chats.get_requests("of bob").unwrap().remove(0);
        assert_eq!(
            (ended.usage, ended.metadata, ended.error),
            (None, None, None)
        );
        assert!(ended.status.is_over());
        erase(&store, of_users(&["ann"]));
        for text in ["ann alone", "no answer to ann"] {
            assert!(!tells(&store, text), "{text}");
        }
    }
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

/// Goes on with the request of a fork, sets a value of the space, and stops again.
fn go_on(store: &Store, chat_id: &str, key: &str) {
    let chats = store.chats();
    let found = chats.resume(chat_id).unwrap().unwrap();
    let mut request = chats.go_on(&found).unwrap();
    let value = RawJson::string(&format!("{key} of {chat_id}"));
    request.space_mut().set(key, value);
    let step = request.start_step(StepType::Llm, RawJson::parse(r#"{"own":1}"#).unwrap());
    request.flush().unwrap();
    request.complete_step(&step.unwrap(), None).unwrap();
    let said = ChatMessage::text(ChatRole::Assistant, &format!("said in {chat_id}"));
    request.send(said).unwrap();
    request
        .start_step(StepType::Tool, RawJson::parse("{}").unwrap())
        .unwrap();
    request.finish(RequestEnd::Interrupted).unwrap();
}

#[test]
fn the_space_of_a_request_goes_from_the_forks_that_went_on_with_it() {
    // Also where its step was erased by itself before.
    for (user, is_step_gone) in [("ann", false), ("bob", false), ("ann", true)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let store = Store::open(&path).unwrap();
        chat_of(&store, "trip", "ann");
        let chats = store.chats();
        let asked = ChatMessage::text(ChatRole::User, "Oslo?");
        let request = chats.begin_request("trip", NewRequest::new("travel"), asked);
        let mut request = request.unwrap();
        request
            .space_mut()
            .set("pin", RawJson::string("only ann knows it"));
        request
            .start_step(StepType::Llm, RawJson::parse("{}").unwrap())
            .unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
        fork(&store, "trip", "of bob", "bob");
        fork(&store, "trip", "of dan", "dan");
        go_on(&store, "of bob", "bus");
        fork(&store, "of bob", "of eve", "eve");
        go_on(&store, "of eve", "train");
        // A request of bob's own is none of this.
        let own = interrupted(&store, "of bob");
        if is_step_gone {
            let query = TextQuery::new("only ann knows it").unwrap();
            let found = store.search(&query, Position(1)).unwrap().found;
            let positions = vec![found[0].0];
            erase(
                &store,
                Erase {
                    positions,
                    ..Erase::default()
                },
            );
        }
        erase(&store, of_users(&[user]));
        let what = format!("erased: {user}");
        let gone: &[&str] = match user {
            "ann" => &["only ann knows it", "bus of", "train of"],
            _ => &["bus of", "train of"],
        };
        for text in gone {
            assert!(
                !tells(&store, text) && !holds(&path, text),
                "{what}: {text}"
            );
        }
        assert_eq!(tells(&store, "only ann knows it"), user == "bob", "{what}");
        assert!(tells(&store, "said in of eve"), "{what}");
        let mut left = listed(&store);
        left.retain(|(_, request)| *request != own);
        match user {
            "ann" => assert_eq!(left, [], "{what}: nobody can go on with them"),
            _ => assert!(
                left.iter().any(|(chat, _)| chat == "trip"),
                "{what}: {left:?}"
            ),
        }
        for chat in ["trip", "of bob", "of dan", "of eve"] {
            let _ = chats
                .resume(chat)
                .unwrap_or_else(|error| panic!("{what}, {chat}: {error}"));
        }
    }
}
