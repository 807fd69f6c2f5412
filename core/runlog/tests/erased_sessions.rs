//! A session is erased with all that was said in it and about it: its title and its metadata, its runs' flows, states, details, and
//! how they ended in words.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![cfg(not(target_family = "wasm"))]

mod traces;
mod watched;

use std::{io::Cursor, sync::Arc};

use runlog::{
    Error, ErrorKind, NewMessage, NewRun, NewSession, RawJson, RunId, RunStatus, Session,
    SessionId,
    archive::{self, What},
    backend::Backend,
    blocking::{FlowRun, Playback, Store},
    chats::{Chat, ChatMessage, ChatRole, Updates},
    flows::{ListFlows, PlaybackOptions, RuntimeEvent, Speed},
    log::Position,
    retention::{Erase, Erased},
    runs::{ResumeOptions, RunDetails},
    scan::TextQuery,
    sessions::{CopySession, ListSessions, SessionChanges},
};

use traces::{holds, tells};
use watched::Watched;

const SECRET: &str = "correct-horse-battery-staple";

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
        metadata: Some(RawJson::parse(format!(r#"{{"user":"{title}"}}"#)).unwrap()),
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
    let new = Chat {
        created_by: Some(format!("by {SECRET}")),
        ..Chat::new("travel")
    };
    let chat = chats.create_chat(new).unwrap();
    let updates = format!(
        r#"{{"title":"{SECRET}","sort":7,"mood":"{SECRET}","metadata":["{SECRET}"],"updated_by":"{SECRET}"}}"#
    );
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
        assert_eq!((chat.created_by, chat.updated_by), (None, None));
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
fn copies_lose_what_they_have_of_it_and_keep_the_rest() {
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
    let get = |id| store.get_session(id).unwrap().unwrap();
    erase(&store, vec![same]);
    assert_eq!((get(same).title, get(same).metadata), (None, None));
    assert_eq!(
        get(original).title.as_deref(),
        Some("secret"),
        "it is its own"
    );
    assert!(get(original).metadata.is_some() && get(renamed).metadata.is_some());
    erase(&store, vec![original]);
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
    assert!(tells(&store, "secret"), "by the other session");
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
    assert_eq!(positions.len(), 4);
    let what = Erase {
        positions: vec![positions[0], positions[3]],
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

fn json(text: &str) -> RawJson {
    RawJson::parse(text).unwrap()
}

#[test]
fn what_its_runs_kept_is_erased_and_how_they_went_is_known_still() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    let start = |session: &str| {
        let new = NewRun::in_new_session(NewSession::titled(session), "coder");
        store.runs().start(new).unwrap()
    };
    let (failed, kept) = (start("a"), start("b"));
    for (run, text) in [(&failed, SECRET), (&kept, "kept")] {
        run.next_step().unwrap();
        run.record_message(NewMessage::user(text)).unwrap();
        let details = RunDetails {
            metadata: Some(json(&format!(r#"{{"about":"{text}"}}"#))),
            ..RunDetails::default()
        };
        run.describe(details).unwrap();
        let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
        let event = format!(
            r#"{{"type":"agent:text","nodeId":"n","runId":"{}","timestamp":1,"content":"{text}"}}"#,
            run.id()
        );
        flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
        flow.start_agent("n", "s").unwrap();
        flow.finish_node("n", serde_json::json!({ "said": text }))
            .unwrap();
        flow.save_snapshot().unwrap();
    }
    let session = failed.run().session_id;
    let refused = store.erase(&Erase {
        sessions: vec![session],
        reason: "asked to".to_owned(),
        ..Erase::default()
    });
    assert_eq!(
        refused.unwrap_err().kind(),
        ErrorKind::WrongStatus,
        "it is at work"
    );
    failed.fail(&format!("couldn't parse {SECRET}")).unwrap();
    kept.complete(Some("kept")).unwrap();
    let (failed, kept) = (failed.id(), kept.id());
    let before = store.runs().get(kept).unwrap().unwrap();
    assert!(before.summary.as_deref() == Some("kept") && before.metadata.is_some());
    assert!(tells(&store, SECRET));
    let erased = erase(&store, vec![session]);
    assert!(erased.is_gone);
    let check = |store: &Store| {
        assert!(!tells(store, SECRET) && !holds(&path, SECRET));
        let run = store.runs().get(failed).unwrap().unwrap();
        assert_eq!((run.status, run.step_count), (RunStatus::Failed, 1));
        assert!(run.completed_at_ms.is_some());
        assert_eq!((run.error_message, run.metadata), (None, None));
        assert_eq!(store.runs().get(kept).unwrap().unwrap(), before);
        let played = |run| {
            let options = PlaybackOptions {
                speed: Speed::AtOnce,
                ..PlaybackOptions::default()
            };
            let events = Playback::new(store, run, options).unwrap();
            events.inspect(|event| assert!(event.is_ok())).count()
        };
        assert!(played(kept) >= 1);
        assert_eq!(played(failed), 0);
        let flows = store.flows().list(&ListFlows::default()).unwrap().items;
        assert_eq!(flows.len(), 2, "{flows:?}");
        assert!(flows.iter().all(|flow| flow.is_over));
    };
    check(&store);
    assert_eq!(erase(&store, vec![session]).records, 0);
    store.close().unwrap();
    drop(store);
    let store = Store::open(&path).unwrap();
    check(&store);
    let other = Store::in_memory();
    import(&other, &export(&store));
    let run = other.runs().get(failed).unwrap().unwrap();
    assert_eq!((run.status, run.error_message), (RunStatus::Failed, None));
    assert!(!tells(&other, SECRET));
}

#[test]
fn a_flow_of_no_run_is_erased_by_its_id_once_nobody_works_on_it() {
    let store = Store::in_memory();
    let mut flow = FlowRun::create(&store, None).unwrap();
    let id = flow.run_id();
    let event = format!(
        r#"{{"type":"agent:text","nodeId":"n","runId":"{id}","timestamp":1,"content":"{SECRET}"}}"#
    );
    flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
    flow.start_agent("n", "s").unwrap();
    flow.finish_node("n", serde_json::json!({ "said": SECRET }))
        .unwrap();
    flow.save_snapshot().unwrap();
    let what = |flow| Erase {
        flows: vec![flow],
        reason: "asked to".to_owned(),
        ..Erase::default()
    };
    let live = store.erase(&what(id)).unwrap_err();
    assert_eq!(live.kind(), ErrorKind::WrongStatus, "{live}");
    let nobody = RunId(store.backend().new_id());
    let missing = store.erase(&what(nobody)).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(tells(&store, SECRET));
    drop(flow);
    store.erase(&what(id)).unwrap();
    assert!(!tells(&store, SECRET));
    assert!(store.flows().get(id).unwrap().is_some());
    assert_eq!(store.erase(&what(id)).unwrap().records, 0);
}

/// A store that had been exported before its flow was erased is as it was after an import of that export.
#[test]
fn an_older_export_does_not_bring_the_state_of_an_erased_flow_back() {
    for records_events in [true, false] {
        let store = Store::in_memory();
        let mut flow = FlowRun::create(&store, None).unwrap();
        let id = flow.run_id();
        if records_events {
            let event = format!(
                r#"{{"type":"agent:text","nodeId":"n","runId":"{id}","timestamp":1,"content":"{SECRET}"}}"#
            );
            flow.record(&RuntimeEvent::parse(event).unwrap()).unwrap();
        }
        flow.start_agent("n", "s").unwrap();
        let said = serde_json::json!({ "said": SECRET });
        flow.finish_node("n", said).unwrap();
        flow.save_snapshot().unwrap();
        drop(flow);
        let older = export(&store);
        let what = Erase {
            flows: vec![id],
            reason: "asked to".to_owned(),
            ..Erase::default()
        };
        store.erase(&what).unwrap();
        import(&store, &older);
        assert!(!tells(&store, SECRET), "{records_events}");
    }
}

#[test]
fn many_sessions_are_erased_at_once() {
    const MANY: usize = 5_500;
    let store = Store::in_memory();
    let ids: Vec<SessionId> = (0..MANY)
        .map(|number| {
            store
                .create_session(titled(&format!("tt{number}")))
                .unwrap()
                .id
        })
        .collect();
    let copy = store
        .copy_session(ids[0], &CopySession::default())
        .unwrap()
        .session;
    let kept = store.create_session(titled("kept")).unwrap();
    // A title and metadata stand in one record.
    assert_eq!(erase(&store, ids).records, MANY as u64 + 1);
    let left: Vec<Session> = sessions(&store)
        .into_iter()
        .filter(|session| session.title.is_some() || session.metadata.is_some())
        .collect();
    assert_eq!(left, [kept]);
    assert_eq!(store.get_session(copy.id).unwrap().unwrap().title, None);
    assert!(!tells(&store, "tt1"));
}

#[test]
fn wherever_it_is_cut_off_doing_it_again_leaves_nothing() {
    // Enough for a checkpoint in the middle of it.
    const OTHERS: usize = 4_200;
    for batches in 0.. {
        let whole = Store::in_memory();
        let backend = Watched::new(Arc::clone(whole.backend()));
        let store = Store::with_backend(Arc::clone(&backend) as Arc<dyn Backend>);
        let (session, chat) = fill(&store);
        for number in 0..OTHERS {
            store.create_session(titled(&number.to_string())).unwrap();
        }
        let before = sessions(&store);
        let what = Erase {
            sessions: vec![session, chat],
            reason: "asked to".to_owned(),
            ..Erase::default()
        };
        backend.die_after(batches);
        let cut = store.erase(&what).unwrap_err();
        drop(store);
        // The process that comes next knows what was written.
        let next = Store::with_backend(Arc::clone(whole.backend()));
        next.erase(&what).unwrap();
        assert!(!tells(&next, SECRET), "after {batches} batches");
        let other = Store::with_backend(Arc::clone(whole.backend()));
        for store in [&next, &other] {
            let after = sessions(store);
            assert_eq!(after.len(), before.len());
            for (now, before) in after.iter().zip(&before) {
                match [session, chat].contains(&now.id) {
                    true => assert_eq!((&now.title, &now.metadata), (&None, &None)),
                    false => assert_eq!(now, before),
                }
            }
        }
        // A watched backend compacts nothing: nothing was cut off but that.
        if cut.kind() == ErrorKind::Unsupported {
            assert!(batches > 3, "{batches} batches");
            break;
        }
    }
}

#[test]
fn a_paused_run_of_an_erased_session_is_resumed_with_what_is_left() {
    let store = Store::in_memory();
    let new = NewRun::in_new_session(NewSession::titled(SECRET), "coder");
    let run = store.runs().start(new).unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::user(SECRET)).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.start_agent("n", "s").unwrap();
    flow.finish_node("n", serde_json::json!({ "said": SECRET }))
        .unwrap();
    flow.save_snapshot().unwrap();
    drop(flow);
    run.pause(SECRET).unwrap();
    erase(&store, vec![run.run().session_id]);
    assert!(!tells(&store, SECRET));
    // Of the flow nothing is left to go on from; the run goes on with its context, in which the places are.
    let no_state = FlowRun::resume(&store, run.id(), None).err().unwrap();
    assert_eq!(no_state.kind(), ErrorKind::NotFound, "{no_state}");
    let on = store
        .runs()
        .resume(run.id(), &ResumeOptions::default())
        .unwrap();
    let resumed = on.recorder.run();
    assert_eq!(
        (resumed.resumed_from, resumed.step_count),
        (Some(run.id()), 1)
    );
    on.recorder.record_message(NewMessage::user("on")).unwrap();
    let before = store.runs().get(run.id()).unwrap().unwrap();
    assert_eq!(
        (before.status, before.pause_reason),
        (RunStatus::Paused, None)
    );
}

#[test]
fn all_chats_of_a_user_are_erased_deleted_ones_too_and_nobody_elses() {
    let store = Store::in_memory();
    let chats = store.chats();
    let made = |chat_id: &str, user: &str| {
        let chat = Chat {
            chat_id: chat_id.into(),
            title: Some(format!("{SECRET} of {user}")),
            // Of nobody, where it is empty.
            created_by: (!user.is_empty()).then(|| user.into()),
            ..Chat::new("travel")
        };
        let id = chats.create_chat(chat).unwrap().chat_id;
        let said = ChatMessage::text(ChatRole::User, &format!("{SECRET} said by {user}"));
        chats.save_messages(&id, vec![said]).unwrap();
        id
    };
    let erase = |what: Erase| {
        store.erase(&Erase {
            reason: "asked to".into(),
            ..what
        })
    };
    let of_users = |users: &[&str]| Erase {
        users: users.iter().map(|user| (*user).to_owned()).collect(),
        ..Erase::default()
    };
    let of_chats = |chats: &[&str]| Erase {
        chats: chats.iter().map(|chat| (*chat).to_owned()).collect(),
        ..Erase::default()
    };
    let told = |what: &str| {
        let lines = String::from_utf8(export(&store)).unwrap();
        lines.matches(what).count()
    };
    // Twice deleted and made again under one id, and one without an id.
    for _ in 0..2 {
        made("trip", "ann");
        chats.delete_chat("trip").unwrap();
    }
    let (open, other) = (made("", "ann"), made("trip", "bob"));
    assert_eq!(told("said by ann"), 3);
    let done = erase(of_users(&["ann", "nobody"])).unwrap();
    assert!(done.is_gone && done.records > 0);
    assert_eq!((told("ann"), told("said by bob")), (0, 1));
    assert_eq!(chats.get_messages(&open, &Default::default()).unwrap(), []);
    assert_eq!(
        chats
            .get_messages(&other, &Default::default())
            .unwrap()
            .len(),
        1
    );
    made("nobodys", "");
    let unknown = erase(of_users(&[""])).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidInput);
    assert_eq!(told("said by \""), 1);
    // Again, as after a crash: there is nothing left to do.
    assert_eq!(erase(of_users(&["ann"])).unwrap().records, 0);

    made("tour", "eve");
    chats.delete_chat("tour").unwrap();
    made("tour", "eve");
    let missing = erase(of_chats(&["tour", "tours"])).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(missing.to_string(), "there is, and was, no chat \"tours\"");
    assert_eq!(told("said by eve"), 2);
    erase(of_chats(&["tour"])).unwrap();
    assert_eq!((told("eve"), told("said by bob")), (0, 1));
    assert_eq!(
        erase(Erase::default()).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}
