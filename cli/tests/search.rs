//! `runlog search` and `runlog erase`: what is found in everything that is recorded, and taken out for good.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, ops::ControlFlow, path::Path};

use common::Place;
use runlog::{
    NewMessage, NewSession, NewToolCall, SessionId,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole},
    retention::Erase,
    sessions::CopySession,
};
use serde_json::Value;

const SECRET: &str = "sk-live-51Hé";

/// A session in which a tool printed a secret, with a copy; another in which it was truncated; and a chat that has it.
fn recorded(place: &Place) -> SessionId {
    let store = Store::open(place.path("runlog-data")).unwrap();
    let start = |title: &str, agent| {
        let (session, agent) = store
            .start_session(NewSession::titled(title), agent)
            .unwrap();
        (session.id, store.context(agent.id).unwrap())
    };
    let (session, context) = start("Deploy", "deployer");
    context
        .append_message(NewMessage::user("Deploy, please."))
        .unwrap();
    let call = NewToolCall::new("call_1", "env", r#"{"all":true}"#);
    context
        .append_message(NewMessage::assistant("I look.").with_tool_calls([call]))
        .unwrap();
    let output = format!("PATH=/bin\nKEY=\"{SECRET}\"\n");
    context
        .append_message(NewMessage::tool("call_1", &output))
        .unwrap();
    store
        .copy_session(session, &CopySession::default())
        .unwrap();
    let (other, given_up) = start("Given up", "writer");
    given_up.append_message(NewMessage::user("Write.")).unwrap();
    given_up
        .append_message(NewMessage::assistant(format!("I wrote {SECRET}.")))
        .unwrap();
    store.truncate_session(other, 1).unwrap();
    let chat = store.chats().create_chat(Chat::new("helper")).unwrap();
    let message = ChatMessage::text(ChatRole::User, &format!("It is {SECRET}"));
    store
        .chats()
        .save_messages(&chat.chat_id, vec![message])
        .unwrap();
    store.close().unwrap();
    session
}

/// Whether a file of a folder has these bytes.
fn is_on_disk(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|file| {
        let path = file.unwrap().path();
        if path.is_dir() {
            return is_on_disk(&path, text);
        }
        let bytes = fs::read(path).unwrap();
        bytes
            .windows(text.len())
            .any(|some| some == text.as_bytes())
    })
}

fn items(page: &[Value]) -> Vec<&Value> {
    page[0]["items"].as_array().unwrap().iter().collect()
}

#[test]
fn a_text_is_found_in_everything_that_is_recorded_with_what_stands_around_it() {
    let place = Place::new();
    let session = recorded(&place);
    let page = place
        .expect(0, &["search", "key=\"SK-LIVE-51hÉ\"", "--json"])
        .json();
    let [hit] = items(&page)[..] else {
        panic!("{page:?}");
    };
    assert_eq!(hit["topic"], "context");
    assert_eq!(hit["session_id"], session.to_string());
    assert_eq!(
        (&hit["agent_name"], &hit["sequence_number"]),
        (&"deployer".into(), &4.into())
    );
    assert_eq!(
        (&hit["event_type"], &hit["truncated"]),
        (&"tool_result".into(), &false.into())
    );
    assert_eq!(hit["excerpt"], format!("PATH=/bin\nKEY=\"{SECRET}\"\n"));
    assert!(page[0]["next"].is_null());

    let page = place.expect(0, &["search", SECRET, "--json"]).json();
    let told: Vec<(&str, bool)> = items(&page)
        .iter()
        .map(|hit| (hit["topic"].as_str().unwrap(), hit["truncated"] == true))
        .collect();
    assert_eq!(
        told,
        [("context", false), ("context", true), ("chat", false)]
    );
    let id = session.to_string();
    let page = place
        .expect(0, &["search", SECRET, "--session", &id, "--json"])
        .json();
    assert_eq!(items(&page).len(), 1);

    let text = place.expect(0, &["search", SECRET]).out;
    for expected in ["tool result", "KEY=", "(truncated) I wrote", "chat"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(
        place
            .expect(0, &["search", "nowhere"])
            .out
            .contains("nothing has this text")
    );
    assert!(
        place
            .expect(2, &["search", ""])
            .err
            .contains("1 to 65536 bytes")
    );
    assert!(
        place
            .expect(3, &["search", "x", "--session", "none"])
            .err
            .contains("none")
    );
}

#[test]
fn pages_of_a_search_have_each_record_once() {
    let place = Place::new();
    recorded(&place);
    let whole = place.expect(0, &["search", "e", "--json"]).json();
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut arguments = vec!["search", "e", "--json", "--limit", "2"];
        if let Some(cursor) = &cursor {
            arguments.extend(["--cursor", cursor]);
        }
        let page = place.expect(0, &arguments).json();
        found.extend(items(&page).into_iter().cloned());
        match page[0]["next"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert!(found.len() > 5, "{found:?}");
    assert_eq!(Value::Array(found), whole[0]["items"]);
    for refused in ["0", "-1", "x", "99999999999999999999"] {
        let arguments = ["search", "e", &format!("--cursor={refused}")];
        assert!(
            place
                .expect(2, &arguments)
                .err
                .contains("is not the `next` of a page")
        );
    }
}

#[test]
fn what_was_found_is_erased_in_copies_and_on_the_disk() {
    let place = Place::new();
    let session = recorded(&place);
    let folder = place.path("runlog-data");
    assert!(is_on_disk(&folder, SECRET));
    let page = place.expect(0, &["search", SECRET, "--json"]).json();
    let positions: Vec<String> = items(&page)
        .iter()
        .map(|hit| hit["position"].to_string())
        .collect();
    let mut erase = vec!["erase", "--reason", "a key"];
    for position in &positions {
        erase.extend(["--position", position]);
    }
    // Nobody can be asked here.
    let refused = place.expect(2, &erase);
    assert!(refused.err.contains("--yes"), "{}", refused.err);
    assert_eq!(
        items(&place.expect(0, &["search", SECRET, "--json"]).json()).len(),
        3
    );
    erase.extend(["--yes", "--json"]);
    let done = place.expect(0, &erase).json();
    assert_eq!(
        (&done[0]["records"], &done[0]["is_gone"]),
        (&3.into(), &true.into())
    );
    assert!(!is_on_disk(&folder, SECRET));
    let page = place.expect(0, &["search", SECRET, "--json"]).json();
    assert!(items(&page).is_empty());
    assert!(
        place
            .expect(0, &["show", &session.to_string()])
            .out
            .contains("[redacted]")
    );
    place.expect(0, &["verify"]);
}

#[test]
fn a_session_is_emptied_and_what_holds_the_store_together_is_refused() {
    let place = Place::new();
    let session = recorded(&place).to_string();
    place.expect(2, &["erase", &session]);
    let nothing = place.expect(2, &["erase", "--reason", "r", "--yes"]);
    assert!(nothing.err.contains("nothing is named"), "{}", nothing.err);
    place.expect(3, &["erase", "none", "--reason", "r", "--yes"]);
    place.expect(3, &["erase", "--message", "none", "--reason", "r", "--yes"]);
    let said = place.expect(0, &["erase", &session, "--reason", "asked to", "--yes"]);
    assert!(said.out.contains("from the disk too"), "{}", said.out);
    let page = place.expect(0, &["search", "please", "--json"]).json();
    assert!(items(&page).is_empty(), "{page:?}");
    assert!(!place.expect(0, &["ls"]).out.contains("Deploy"));
    assert!(place.expect(0, &["ls", "--json"]).out.contains(&session));
}

#[test]
fn all_chats_of_a_user_are_erased_and_nobody_elses() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    for user in ["ann", "ann", "bob"] {
        let chat = Chat {
            created_by: Some(user.into()),
            ..Chat::new("travel")
        };
        let chat = store.chats().create_chat(chat).unwrap().chat_id;
        let said = ChatMessage::text(ChatRole::User, &format!("Oslo for {user}"));
        store.chats().save_messages(&chat, vec![said]).unwrap();
        if user == "ann" {
            store.chats().delete_chat(&chat).unwrap();
        }
    }
    store.close().unwrap();
    let found = |text| items(&place.expect(0, &["search", text, "--json"]).json()).len();
    assert_eq!((found("Oslo for ann"), found("Oslo for bob")), (2, 1));
    let erase = ["erase", "--user", "ann", "--reason", "left", "--yes"];
    place.expect(0, &erase);
    assert_eq!((found("Oslo for ann"), found("Oslo for bob")), (0, 1));
}

#[test]
fn of_a_user_who_is_not_known_nothing_is_done_and_that_is_said() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let message = |user: &str| {
        let chat = Chat {
            created_by: Some(user.into()),
            ..Chat::new("travel")
        };
        let chat = store.chats().create_chat(chat).unwrap().chat_id;
        let said = ChatMessage::text(ChatRole::User, &format!("Oslo for {user}"));
        let saved = store.chats().save_messages(&chat, vec![said]).unwrap();
        saved[0].message_id.clone()
    };
    let [_, of_bob, _] = ["ann", "bob", "eve"].map(message);
    // An erasure that was stopped before it had compacted the store.
    let of_ann = Erase {
        users: vec!["ann".into()],
        reason: "left".into(),
        ..Erase::default()
    };
    let stopped = store.erase_with(&of_ann, |_| ControlFlow::Break(()));
    assert!(!stopped.unwrap().is_gone);
    store.close().unwrap();
    let erase = |code: i32, named: &[&str]| {
        let erase = ["erase", "--reason", "left", "--yes"];
        place.expect(code, &[&erase, named].concat())
    };
    // She isn't known any more, but what she said was on the disk.
    let again = erase(0, &["--user", "ann", "--json"]).json();
    assert_eq!(again[0]["is_gone"], true);
    assert_eq!(again[0]["unknown_users"], serde_json::json!(["ann"]));
    assert!(again[0]["compaction"]["payloads_erased"].as_u64() > Some(0));

    let store = Store::open(place.path("runlog-data")).unwrap();
    store.chats().create_chat(Chat::new("travel")).unwrap();
    store.close().unwrap();
    let would_compact = || place.expect(0, &["compact", "--dry-run", "--json"]).out;
    let before = would_compact();
    assert!(!before.contains("\"files_before\":0"), "{before}");
    let misspelt = ["--user", "anna", "--user", "ana", "--user", "anna"];
    let told = erase(3, &misspelt);
    assert_eq!(told.out, "");
    for user in ["anna", "ana"] {
        let told_of = format!("no chat of the user {user:?} was found");
        assert_eq!(told.err.matches(&told_of).count(), 1, "{}", told.err);
    }
    let told = erase(3, &[&misspelt[..], &["--json"]].concat());
    assert!(told.err.contains("\"not_found\""), "{}", told.err);
    assert_eq!(would_compact(), before);

    let told = erase(0, &[&misspelt[..], &["--message", &of_bob]].concat());
    assert!(told.err.contains("warning: no chat of the user \"anna\""));
    assert!(!told.out.contains("anna"), "{}", told.out);
    let with_eve = [&misspelt[..], &["--user", "eve", "--json"]].concat();
    let done = erase(0, &with_eve).json();
    assert_eq!(done[0]["unknown_users"], serde_json::json!(["anna", "ana"]));
    erase(3, &["--user", "eve"]);
}

#[test]
fn a_title_is_found_with_its_session_and_erased_by_its_position() {
    let place = Place::new();
    let session = recorded(&place).to_string();
    let titles = |more: &[&str]| {
        let page = place
            .expect(0, &[&["search", "Deploy", "--json"], more].concat())
            .json();
        // The agent is called "deployer".
        let of_list = |hit: &&Value| hit["topic"] == "list" && hit["excerpt"] == "Deploy";
        let found = items(&page).into_iter().filter(of_list);
        found.cloned().collect::<Vec<_>>()
    };
    let found = titles(&["--session", &session]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["session_id"], session.as_str());
    // Its copy took the title over.
    assert_eq!(titles(&[]).len(), 2);
    let position = found[0]["position"].to_string();
    let title = ["erase", "--position", &position, "--reason", "r", "--yes"];
    place.expect(0, &title);
    assert!(titles(&[]).is_empty());
    assert!(!place.expect(0, &["ls"]).out.contains("Deploy"));
    // The entry that the session was made by isn't content.
    let sessions = place.expect(0, &["search", &session, "--json"]).json();
    let entry = items(&sessions)
        .into_iter()
        .find(|hit| hit["topic"] == "list")
        .unwrap();
    let position = entry["position"].to_string();
    let entry = ["erase", "--position", &position, "--reason", "r", "--yes"];
    let refused = place.expect(2, &entry);
    assert!(refused.err.contains("list"), "{}", refused.err);
}

#[test]
fn a_copy_is_searched_with_what_it_shares_and_what_was_deleted_by_its_id() {
    let place = Place::new();
    let session = recorded(&place).to_string();
    let sessions = place.expect(0, &["ls", "--json"]).json();
    let is_copy = |one: &&Value| one["copied_from"] == session.as_str();
    let copy = sessions.iter().find(is_copy).unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let page = place
        .expect(0, &["search", SECRET, "--session", &copy, "--json"])
        .json();
    let [hit] = items(&page)[..] else {
        panic!("{page:?}");
    };
    assert_eq!(
        (&hit["session_id"], &hit["truncated"]),
        (&copy.as_str().into(), &false.into())
    );
    place.expect(0, &["chat", "delete", &session]);
    let of_deleted = ["search", SECRET, "--session", &session[..30], "--json"];
    assert_eq!(items(&place.expect(0, &of_deleted).json()).len(), 1);
    place.expect(
        0,
        &["erase", &session[..30], "--reason", "asked to", "--yes"],
    );
    assert!(items(&place.expect(0, &of_deleted).json()).is_empty());
    let of_copy = ["search", SECRET, "--session", &copy, "--json"];
    assert!(items(&place.expect(0, &of_copy).json()).is_empty());
}

#[test]
fn the_state_of_a_flow_is_found_and_is_not_truncated() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let mut flow = FlowRun::create(&store, None).unwrap();
    flow.state_mut()
        .state
        .insert("note".into(), "in the state".into());
    flow.save_snapshot().unwrap();
    let id = flow.run_id().to_string();
    drop(flow);
    store.close().unwrap();
    // Of a copy without a chat.
    let store = Store::open(place.path("runlog-data")).unwrap();
    let (session, _) = store.start_session(NewSession::titled("T"), "a").unwrap();
    let copy = store
        .copy_session(session.id, &CopySession::default())
        .unwrap();
    store.close().unwrap();
    let copy = copy.session.id.to_string();
    let of_copy = ["search", "in the state", "--session", &copy, "--json"];
    assert!(items(&place.expect(0, &of_copy).json()).is_empty());
    let page = place
        .expect(0, &["search", "in the state", "--json"])
        .json();
    let [hit] = items(&page)[..] else {
        panic!("{page:?}");
    };
    assert_eq!(
        (&hit["topic"], &hit["truncated"]),
        (&"flow".into(), &false.into())
    );
    assert_eq!(hit["run_id"], id.as_str());
    assert_eq!(hit["excerpt"], "in the state");
}

#[test]
fn what_is_damaged_is_passed_over_and_told() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let (_, agent) = store.start_session(NewSession::titled("T"), "a").unwrap();
    let context = store.context(agent.id).unwrap();
    for number in 0..20 {
        context
            .append_message(NewMessage::user(format!("needle {number:02}")))
            .unwrap();
    }
    store.close().unwrap();
    let segment = place.path("runlog-data/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes
        .windows(9)
        .position(|some| some == b"needle 10")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let said = place.expect(5, &["search", "needle", "--json"]);
    let page = said.json();
    assert_eq!(items(&page).len(), 19, "{page:?}");
    assert_eq!(page[0]["unreadable"].as_array().unwrap().len(), 1);
    // Of another record the bytes can't be taken off the disk: its segment stays as it is.
    let first = items(&page)[0]["position"].to_string();
    let erase = [
        "erase",
        "--position",
        &first,
        "--reason",
        "r",
        "--yes",
        "--json",
    ];
    let done = place.expect(6, &erase).json();
    assert_eq!(
        (&done[0]["records"], &done[0]["is_gone"]),
        (&1.into(), &false.into())
    );
    let said = place.expect(5, &["search", "needle"]);
    assert!(
        said.err.contains("not searched: ") && said.out.contains("needle 19"),
        "{}",
        said.err
    );
}
