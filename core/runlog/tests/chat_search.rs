//! Searching the messages of chats, beside looking at each message of each chat, on memory and on disk.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, RawJson,
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole, ChatShare, MessageFilter, SearchMessages, Updates},
    sessions::CopySession,
};

both! {
    a_user_finds_what_he_may_see_and_nothing_else
    messages_are_found_as_they_are_now_and_not_by_the_names_of_their_fields
    every_message_is_found_once_whatever_the_pages
    a_search_goes_on_though_its_chat_is_deleted_meanwhile
    what_cannot_be_searched_for_is_refused
}

fn text(content: &str) -> ChatMessage {
    ChatMessage::text(ChatRole::User, content)
}

fn chat(store: &Store, user: &str) -> String {
    let chat = Chat {
        created_by: Some(user.into()),
        team_id: Some("sales".into()),
        ..Chat::new("travel")
    };
    store.chats().create_chat(chat).unwrap().chat_id
}

/// All that is found, in pages of a size.
fn found(store: &Store, search: &SearchMessages, limit: usize) -> Vec<ChatMessage> {
    let mut all = Vec::new();
    let mut next = SearchMessages {
        limit,
        ..search.clone()
    };
    loop {
        let page = store.chats().search_messages(&next).unwrap();
        assert!(page.items.len() <= limit);
        all.extend(page.items);
        match page.next {
            None => return all,
            cursor => next.cursor = cursor,
        }
    }
}

fn contents(messages: &[ChatMessage]) -> Vec<String> {
    let content = |message: &ChatMessage| {
        let props: serde_json::Value = message.props.to_value().unwrap();
        props["content"].as_str().unwrap().to_owned()
    };
    messages.iter().map(content).collect()
}

fn a_user_finds_what_he_may_see_and_nothing_else(store: &Store) {
    let chats = store.chats();
    let [ann, bob, shared] = ["ann", "bob", "bob"].map(|user| chat(store, user));
    let share = Updates::new().with("share", RawJson::from_value(&ChatShare::Team).unwrap());
    chats.update_chat(&shared, &share).unwrap();
    for (chat, content) in [(&ann, "Oslo 1"), (&bob, "oslo 2"), (&shared, "OSLO 3")] {
        chats.save_messages(chat, vec![text(content)]).unwrap();
    }
    let of = |search: SearchMessages| contents(&found(store, &search, 20));
    let oslo = || SearchMessages::new("oslo");
    assert_eq!(of(oslo()), ["OSLO 3", "oslo 2", "Oslo 1"]);
    let seen_by = |user: &str, teams: &[&str]| SearchMessages {
        visible_to: Some(user.into()),
        teams: teams.iter().map(|team| (*team).to_owned()).collect(),
        ..oslo()
    };
    assert_eq!(of(seen_by("ann", &[])), ["Oslo 1"]);
    assert_eq!(of(seen_by("ann", &["sales"])), ["OSLO 3", "Oslo 1"]);
    let of_bob = SearchMessages {
        user_id: Some("bob".into()),
        ..oslo()
    };
    assert_eq!(of(of_bob), ["OSLO 3", "oslo 2"]);
    let in_chat = |user: &str| SearchMessages {
        chat_id: Some(bob.clone()),
        ..seen_by(user, &["sales"])
    };
    assert_eq!(of(in_chat("bob")), ["oslo 2"]);
    assert_eq!(of(in_chat("ann")), [""; 0], "not his to see");
}

fn messages_are_found_as_they_are_now_and_not_by_the_names_of_their_fields(store: &Store) {
    let chats = store.chats();
    let id = chat(store, "ann");
    let new = ["a café", "say \"hi\"", "gone", "old", "text"].map(text);
    let saved = chats.save_messages(&id, new.to_vec()).unwrap();
    let props = RawJson::parse(r#"{"content":"new","more":[{"deep":"Über"}],"n":42}"#).unwrap();
    let updates = Updates::new().with("props", props);
    chats
        .update_message(&saved[3].message_id, &updates)
        .unwrap();
    chats.delete_messages(&id, &[&saved[2].message_id]).unwrap();
    let count = |text: &str| found(store, &SearchMessages::new(text), 20).len();
    assert_eq!(
        [count("CAFÉ"), count("\"HI\""), count("über"), count("new")],
        [1; 4]
    );
    assert_eq!(
        [count("gone"), count("old"), count("42"), count("content")],
        [0; 4]
    );
    let session = chats.session_id(&id).unwrap();
    store
        .copy_session(session, &CopySession::default())
        .unwrap();
    assert_eq!(count("café"), 2, "in the copy, too");
    chats.delete_chat(&id).unwrap();
    assert_eq!(count("café"), 1);
}

fn every_message_is_found_once_whatever_the_pages(store: &Store) {
    let chats = store.chats();
    for of_chat in 0..70 {
        let id = chat(store, "ann");
        let count = if of_chat % 30 == 7 { 700 } else { of_chat % 4 };
        let said =
            (0..count).map(|at| text(&format!("{of_chat}/{at} {}", ["yes", "no", "no"][at % 3])));
        chats.save_messages(&id, said.collect()).unwrap();
    }
    let mut wanted = Vec::new();
    let list = |cursor| runlog::chats::ChatFilter {
        order: runlog::chats::ChatOrder::Created,
        cursor,
        ..Default::default()
    };
    let mut cursor = None;
    loop {
        let page = chats.list_chats(&list(cursor)).unwrap();
        for chat in page.items {
            let all = MessageFilter::default();
            let messages = chats.get_messages(&chat.chat_id, &all).unwrap();
            let said = contents(&messages).into_iter().rev();
            wanted.extend(said.filter(|content| content.contains("yes")));
        }
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert!(wanted.len() > 700);
    for limit in [1, 3, 20, 1_000] {
        let found = found(store, &SearchMessages::new("YES"), limit);
        assert_eq!(contents(&found), wanted, "pages of {limit}");
    }
}

fn a_search_goes_on_though_its_chat_is_deleted_meanwhile(store: &Store) {
    let chats = store.chats();
    let ids = ["a", "b", "c"].map(|name| {
        let id = chat(store, "ann");
        let said = (0..3).map(|at| text(&format!("x {name}{at}")));
        chats.save_messages(&id, said.collect()).unwrap();
        id
    });
    let first = SearchMessages {
        limit: 2,
        ..SearchMessages::new("x ")
    };
    let page = chats.search_messages(&first).unwrap();
    assert_eq!(contents(&page.items), ["x c2", "x c1"]);
    chats.delete_chat(&ids[2]).unwrap();
    let rest = SearchMessages {
        cursor: page.next,
        ..first.clone()
    };
    assert_eq!(
        contents(&found(store, &rest, 2)),
        ["x b2", "x b1", "x b0", "x a2", "x a1", "x a0"]
    );
    let other = SearchMessages {
        text: "y".into(),
        ..rest
    };
    let refused = chats.search_messages(&other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

fn what_cannot_be_searched_for_is_refused(store: &Store) {
    let refused =
        |search: SearchMessages| store.chats().search_messages(&search).unwrap_err().kind();
    let x = || SearchMessages::new("x");
    assert_eq!(refused(SearchMessages::new("")), ErrorKind::InvalidInput);
    assert_eq!(
        refused(SearchMessages { limit: 0, ..x() }),
        ErrorKind::InvalidInput
    );
    let teams = vec!["sales".to_owned()];
    assert_eq!(
        refused(SearchMessages { teams, ..x() }),
        ErrorKind::InvalidInput
    );
    let chat_id = Some("none".to_owned());
    assert_eq!(
        refused(SearchMessages { chat_id, ..x() }),
        ErrorKind::NotFound
    );
    for cursor in ["", "00", "zz"] {
        let cursor = Some(cursor.to_owned());
        assert_eq!(
            refused(SearchMessages { cursor, ..x() }),
            ErrorKind::InvalidInput
        );
    }
}
