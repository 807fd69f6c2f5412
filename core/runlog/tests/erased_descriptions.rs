//! What people wrote about a session, its title and its metadata, is erased with it.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report, and the test looks at the files of the store"
)]
#![cfg(not(target_family = "wasm"))]

use std::{fs, io::Cursor, path::Path};

use runlog::{
    Error, NewMessage, NewSession, RawJson, Session, SessionId,
    archive::{self, What},
    blocking::Store,
    chats::{Chat, Updates},
    log::Position,
    retention::{Erase, Erased},
    scan::TextQuery,
    sessions::{CopySession, ListSessions, SessionChanges},
};

const SECRET: &str = "correct-horse-battery-staple";

fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let mut windows = bytes.windows(text.len());
        windows.any(|window| window == text.as_bytes())
    })
}

/// Whether any record has a text, in blocks that reading decodes.
fn tells(store: &Store, text: &str) -> bool {
    let mut next = Some(Position(1));
    while let Some(first) = next {
        let page = pollster::block_on(store.backend().scan(first, 1_000)).unwrap();
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        if page
            .records
            .iter()
            .any(|it| has(&it.payload) || has(&it.meta))
        {
            return true;
        }
        next = page.next;
    }
    false
}

fn erase(store: &Store, sessions: Vec<SessionId>) -> Erased {
    let what = Erase {
        sessions,
        reason: "asked to".to_owned(),
        ..Erase::default()
    };
    store.erase(&what).unwrap()
}

fn titled(title: &str) -> NewSession {
    NewSession {
        metadata: Some(RawJson::parse(&format!(r#"{{"user":"{title}"}}"#)).unwrap()),
        ..NewSession::titled(title)
    }
}

fn sessions(store: &Store) -> Vec<Session> {
    let options = ListSessions {
        limit: 100_000,
        ..ListSessions::default()
    };
    store.list_sessions(&options).unwrap().items
}

fn export(store: &Store) -> Vec<u8> {
    let mut lines = Vec::new();
    archive::export(store, What::All, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    })
    .unwrap();
    lines
}

fn import(store: &Store, lines: &[u8]) -> archive::Imported {
    let mut source = || Ok(Box::new(Cursor::new(lines.to_vec())) as Box<dyn std::io::BufRead>);
    archive::import(store, None, true, &mut source).unwrap()
}

/// A title that was changed, metadata, and fields of a chat that aren't known here.
fn fill(store: &Store) -> (SessionId, SessionId) {
    let (session, agent) = store.start_session(titled(SECRET), "planner").unwrap();
    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::user("Oslo")).unwrap();
    let changes = SessionChanges {
        title: Some(format!("not {SECRET}")),
        ..SessionChanges::default()
    };
    store.update_session(session.id, changes).unwrap();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("travel")).unwrap();
    let updates =
        format!(r#"{{"title":"{SECRET}","sort":7,"mood":"{SECRET}","metadata":["{SECRET}"]}}"#);
    let updates = Updates::parse(&updates).unwrap();
    chats.update_chat(&chat.chat_id, &updates).unwrap();
    (session.id, chat.chat_id.parse().unwrap())
}

#[test]
fn nothing_of_it_is_left_in_reads_lists_checkpoints_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let (session, chat) = fill(&store);
    // So many that closing writes a checkpoint, and some that stay.
    for number in 0..600 {
        store
            .create_session(titled(&format!("kept {number}")))
            .unwrap();
    }
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    assert!(holds(&path, SECRET) && tells(&store, SECRET));
    let before = sessions(&store);
    let erased = erase(&store, vec![session, chat]);
    assert!(erased.is_gone, "{erased:?}");
    let check = |store: &Store| {
        assert!(!tells(store, SECRET) && !holds(&path, SECRET));
        let after = sessions(store);
        assert_eq!(after.len(), before.len());
        for (now, before) in after.iter().zip(&before) {
            if ![session, chat].contains(&now.id) {
                assert_eq!(now, before);
                continue;
            }
            assert_eq!((&now.title, &now.metadata), (&None, &None));
            assert_eq!(
                (now.id, now.created_at_ms),
                (before.id, before.created_at_ms)
            );
        }
        let chat = store.chats().get_chat(&chat.to_string()).unwrap().unwrap();
        assert!(chat.sort == 7 && chat.extra.is_empty(), "{chat:?}");
    };
    check(&store);
    // Again: nothing is left to be done.
    let again = erase(&store, vec![session, chat]);
    assert_eq!(again.records, 0);
    check(&store);
    store.close().unwrap();
    drop(store);
    check(&Store::open(&path).unwrap());
    // It can be described again.
    let store = Store::open(&path).unwrap();
    let changes = SessionChanges {
        title: Some("new".to_owned()),
        ..SessionChanges::default()
    };
    let changed = store.update_session(session, changes).unwrap();
    assert_eq!(
        (changed.title.as_deref(), changed.metadata),
        (Some("new"), None)
    );
}

#[test]
fn copies_and_originals_lose_what_they_have_of_it_and_keep_the_rest() {
    let store = Store::in_memory();
    let original = store.create_session(titled("secret")).unwrap().id;
    let copy = |title: Option<&str>, of| {
        let options = CopySession {
            title: title.map(str::to_owned),
            ..CopySession::default()
        };
        store.copy_session(of, &options).unwrap().session.id
    };
    let same = copy(None, original);
    let renamed = copy(Some("mine"), original);
    let of_copy = copy(None, same);
    let changes = SessionChanges {
        title: Some("other".to_owned()),
        metadata: Some(RawJson::parse(r#"{"user":"me"}"#).unwrap()),
        ..SessionChanges::default()
    };
    let changed = store.update_session(of_copy, changes).unwrap();
    let another = store.create_session(titled("secret")).unwrap();
    erase(&store, vec![same]);
    let get = |id| store.get_session(id).unwrap().unwrap();
    for id in [original, same] {
        assert_eq!((get(id).title, get(id).metadata), (None, None));
    }
    // What was taken over is gone, and a title of its own stays.
    assert_eq!(
        (get(renamed).title.as_deref(), get(renamed).metadata),
        (Some("mine"), None)
    );
    // The copy's first title was the original's; those that it has now are its own.
    let now = get(of_copy);
    assert_eq!((now.title, now.metadata), (changed.title, changed.metadata));
    assert_eq!(get(another.id), another, "it has nothing to do with them");
    assert_eq!(tells(&store, "secret"), true, "by the other session");
    erase(&store, vec![another.id]);
    assert!(!tells(&store, "secret"));
}

#[test]
fn what_a_search_finds_of_it_is_erased_by_its_position() {
    let store = Store::in_memory();
    fill(&store);
    let hits = || {
        let query = TextQuery::new(SECRET).unwrap();
        store.search(&query, Position(1)).unwrap().found
    };
    let positions: Vec<u64> = hits().iter().map(|it| it.0).collect();
    assert_eq!(positions.len(), 3);
    let what = Erase {
        positions: vec![positions[0], positions[2]],
        reason: "asked to".to_owned(),
        ..Erase::default()
    };
    store.erase(&what).unwrap();
    assert!(hits().is_empty());
    assert!(!tells(&store, SECRET));
}

#[test]
fn an_export_carries_what_was_erased_as_erased() {
    let store = Store::in_memory();
    let (session, chat) = fill(&store);
    let older = export(&store);
    erase(&store, vec![session, chat]);
    let newer = export(&store);
    let text = String::from_utf8(newer.clone()).unwrap();
    assert!(!text.contains(SECRET));
    // Into an empty store, and once more.
    let other = Store::in_memory();
    import(&other, &newer);
    let listed = sessions(&store);
    assert_eq!(sessions(&other), listed);
    let again = export(&other);
    assert!(import(&other, &newer).sessions.len() >= 2);
    assert_eq!(again, export(&other), "nothing was added");
    // Of an older export nothing comes back.
    for store in [&store, &other] {
        import(store, &older);
        assert_eq!(sessions(store), listed);
        assert!(!tells(store, SECRET));
    }
    // What an import of the older one had is gone from lists after the newer one.
    let third = Store::in_memory();
    import(&third, &older);
    import(&third, &newer);
    assert_eq!(sessions(&third), listed);
}
