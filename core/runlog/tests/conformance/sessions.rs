//! Claims about sessions and agent instances, on any backend.

use std::sync::Arc;

use runlog::{
    AgentInstance, ErrorKind, InstanceId, NewInstance, NewMessage, NewSession, NewToolCall,
    Session, SessionId, Store,
    backend::Backend,
    contexts::EventOptions,
    engine::ReadOptions,
    sessions::{CopySession, Deleted, ListSessions, SessionChanges, SessionStatus},
    transcripts::{
        ImportMark, NewContextEvent,
        keep::{Aside, EntryBatch, aside_stream},
    },
};
use uuid::Uuid;

use super::contexts::{raw, texts};

type Shared = Arc<dyn Backend>;

async fn say(store: &Store, instance: InstanceId, words: &[&str]) {
    let context = store.context(instance).await.unwrap();
    for word in words {
        context
            .append_message(NewMessage::user(word))
            .await
            .unwrap();
    }
}

async fn heard(store: &Store, instance: InstanceId) -> Vec<String> {
    let messages = store
        .context(instance)
        .await
        .unwrap()
        .get_messages()
        .await
        .unwrap();
    let word = |text: &str| {
        text.strip_prefix(r#"{"role":"user","content":""#)
            .unwrap()
            .trim_end_matches("\"}")
            .to_owned()
    };
    texts(&messages).into_iter().map(word).collect()
}

pub async fn sessions_are_found_by_id_name_and_prefix(backend: Shared) {
    let store = Store::with_backend(backend);
    let id = |number| Some(SessionId(Uuid::from_u128(number)));
    let (one, two) = (
        0x0198_c7e0_aaaa_7000_8000_0000_0000_0001,
        0x0198_c7e0_aaab_7000_8000_0000_0000_0002,
    );
    let new = NewSession {
        id: id(one),
        ..NewSession::named("claude-code:edge_cases")
    };
    let first = store.create_session(new).await.unwrap();
    let second = store
        .create_session(NewSession {
            id: id(two),
            ..NewSession::default()
        })
        .await
        .unwrap();
    let found = async |text: &str| store.find_session(text).await.map(|session| session.id);
    assert_eq!(found(&first.id.to_string()).await.unwrap(), first.id);
    assert_eq!(found("claude-code:edge_cases").await.unwrap(), first.id);
    assert_eq!(found("0198c7e0-aaaa").await.unwrap(), first.id);
    assert_eq!(found("0198C7E0AAAB").await.unwrap(), second.id);
    let error = found("0198").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ambiguous);
    assert!(error.to_string().contains(&first.id.to_string()), "{error}");
    for nothing in ["", "77", "claude-code", "zz", "é"] {
        assert_eq!(
            found(nothing).await.unwrap_err().kind(),
            ErrorKind::NotFound,
            "{nothing}"
        );
    }
    assert_eq!(store.get_session(first.id).await.unwrap(), Some(first));
    assert_eq!(
        store.get_session(SessionId(Uuid::nil())).await.unwrap(),
        None
    );
}

pub async fn sessions_are_listed_newest_first_in_pages(backend: Shared) {
    let store = Store::with_backend(backend);
    for number in 0..10 {
        let project = (number % 2 == 0).then(|| "even".to_owned());
        store
            .create_session(NewSession {
                project,
                ..NewSession::titled(number.to_string())
            })
            .await
            .unwrap();
    }
    let titles = |sessions: &[Session]| -> String {
        sessions
            .iter()
            .filter_map(|session| session.title.clone())
            .collect()
    };
    let mut options = ListSessions {
        limit: 4,
        ..ListSessions::default()
    };
    let mut seen = String::new();
    loop {
        let page = store.list_sessions(&options).await.unwrap();
        seen += &titles(&page.items);
        store
            .create_session(NewSession::titled("new"))
            .await
            .unwrap();
        options.cursor = page.next;
        if options.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, "9876543210");
    let even = ListSessions {
        project: Some("even".into()),
        ..ListSessions::default()
    };
    assert_eq!(
        titles(&store.list_sessions(&even).await.unwrap().items),
        "86420"
    );
    let none = ListSessions {
        limit: 0,
        ..ListSessions::default()
    };
    assert_eq!(
        store.list_sessions(&none).await.unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

pub async fn a_name_belongs_to_one_session(backend: Shared) {
    let store = Store::with_backend(backend);
    let first = store.create_session(NewSession::named("x")).await.unwrap();
    let error = store
        .create_session(NewSession::named("x"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains(&first.id.to_string()), "{error}");
    let same_id = NewSession {
        id: Some(first.id),
        ..NewSession::default()
    };
    assert_eq!(
        store.create_session(same_id).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    let copy = CopySession {
        name: Some("x".into()),
        ..CopySession::default()
    };
    assert_eq!(
        store
            .copy_session(first.id, &copy)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        store
            .create_session(NewSession::named(""))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        store
            .list_sessions(&ListSessions::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    store.delete_session(first.id).await.unwrap();
    assert_ne!(
        store
            .create_session(NewSession::named("x"))
            .await
            .unwrap()
            .id,
        first.id
    );
}

pub async fn racing_creators_of_one_name_leave_one_session(backend: Shared) {
    let threads: Vec<_> = (0..6)
        .map(|number| {
            let store = Store::with_backend(Arc::clone(&backend));
            std::thread::spawn(move || {
                pollster::block_on(async {
                    let won = store
                        .create_session(NewSession::named("the one"))
                        .await
                        .is_ok();
                    store
                        .create_session(NewSession::named(format!("own {number}")))
                        .await
                        .unwrap();
                    won
                })
            })
        })
        .collect();
    let winners = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .filter(|won| *won)
        .count();
    assert_eq!(winners, 1);
    let store = Store::with_backend(backend);
    assert_eq!(
        store
            .list_sessions(&ListSessions::default())
            .await
            .unwrap()
            .items
            .len(),
        7
    );
}

pub async fn a_session_is_changed_archived_and_deleted(backend: Shared) {
    let store = Store::with_backend(backend);
    let metadata = Some(raw(r#"{ "cwd": "/tmp" }"#));
    let new = NewSession {
        metadata: metadata.clone(),
        ..NewSession::titled("old")
    };
    let (session, agent) = store.start_session(new, "planner").await.unwrap();
    let changes = SessionChanges {
        title: Some("new".into()),
        ..SessionChanges::default()
    };
    let changed = store.update_session(session.id, changes).await.unwrap();
    assert_eq!(
        (changed.title.as_deref(), &changed.metadata),
        (Some("new"), &metadata)
    );
    assert_eq!(
        store.archive_session(session.id).await.unwrap().status,
        SessionStatus::Archived
    );
    say(&store, agent.id, &["still writable"]).await;
    let active = ListSessions {
        status: Some(SessionStatus::Active),
        ..ListSessions::default()
    };
    assert_eq!(store.list_sessions(&active).await.unwrap().items, []);
    assert_eq!(
        store.unarchive_session(session.id).await.unwrap().status,
        SessionStatus::Active
    );

    let long = SessionChanges {
        title: Some("x".repeat(10_000)),
        ..SessionChanges::default()
    };
    assert_eq!(
        store
            .update_session(session.id, long)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::TooLarge
    );
    let context = store.context(agent.id).await.unwrap();
    store.delete_session(session.id).await.unwrap();
    assert_eq!(store.get_session(session.id).await.unwrap(), None);
    assert_eq!(
        store.delete_session(session.id).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let error = context
        .append_message(NewMessage::user("too late"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("was deleted"), "{error}");
    assert_eq!(
        context.get_messages().await.unwrap().len(),
        1,
        "what was said can still be read"
    );
    let shown = ListSessions {
        deleted: Deleted::Shown,
        ..ListSessions::default()
    };
    assert!(
        store.list_sessions(&shown).await.unwrap().items[0]
            .deleted_at_ms
            .is_some()
    );
}

pub async fn instances_belong_to_their_session(backend: Shared) {
    let store = Store::with_backend(backend);
    let session = store.create_session(NewSession::default()).await.unwrap();
    let error = store.root_instance(session.id).await.unwrap_err();
    assert!(
        error.to_string().contains("has no agent instance yet"),
        "{error}"
    );
    let root = store
        .create_instance(session.id, "planner", None)
        .await
        .unwrap();
    let child = store
        .create_instance(session.id, "helper", Some(root.id))
        .await
        .unwrap();
    assert_eq!(child.parent_instance_id, Some(root.id));
    assert_eq!(
        store.instances(session.id).await.unwrap(),
        [root.clone(), child]
    );
    assert_eq!(store.root_instance(session.id).await.unwrap(), root);

    let other = store.create_session(NewSession::default()).await.unwrap();
    let refused = async |session, name: &str, parent| {
        store
            .create_instance(session, name, parent)
            .await
            .unwrap_err()
            .kind()
    };
    assert_eq!(
        refused(other.id, "x", Some(root.id)).await,
        ErrorKind::InvalidInput
    );
    assert_eq!(
        refused(other.id, "x", Some(InstanceId(Uuid::nil()))).await,
        ErrorKind::NotFound
    );
    assert_eq!(
        refused(SessionId(Uuid::nil()), "x", None).await,
        ErrorKind::NotFound
    );
    assert_eq!(refused(other.id, "", None).await, ErrorKind::InvalidInput);
    assert_eq!(
        refused(other.id, &"x".repeat(300), None).await,
        ErrorKind::TooLarge
    );
    let same_id = NewInstance {
        id: Some(root.id),
        ..NewInstance::new(other.id, "x")
    };
    assert_eq!(
        store
            .create_instance_with(same_id)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(store.instances(other.id).await.unwrap(), []);
}

pub async fn a_resumed_session_goes_on_where_it_stopped(backend: Shared) {
    let store = Store::with_backend(Arc::clone(&backend));
    let (session, agent) = store
        .start_session(NewSession::named("job"), "planner")
        .await
        .unwrap();
    let context = store.context(agent.id).await.unwrap();
    context
        .append_message(NewMessage::user("go"))
        .await
        .unwrap();
    let call = NewToolCall::new("c1", "ls", "{}");
    context
        .append_message(NewMessage::assistant("").with_tool_calls([call]))
        .await
        .unwrap();
    let before = context.get_messages().await.unwrap();
    drop((context, store));

    let store = Store::with_backend(backend);
    let found = store.find_session("job").await.unwrap();
    assert_eq!(found, session);
    let root = store.root_instance(found.id).await.unwrap();
    assert_eq!(root, agent);
    let context = store.context(root.id).await.unwrap();
    assert_eq!(context.get_messages().await.unwrap(), before);
    assert_eq!(
        context
            .close_dangling_tool_calls("the process stopped")
            .await
            .unwrap()
            .len(),
        1
    );
    let result = context
        .append_message(NewMessage::user("continue"))
        .await
        .unwrap();
    assert_eq!(result.first_sequence, 5);
}

pub async fn a_copied_session_has_every_context(backend: Shared) {
    let store = Store::with_backend(backend);
    let new = NewSession {
        project: Some("p".into()),
        metadata: Some(raw("{ }")),
        ..NewSession::titled("trip")
    };
    let (session, root) = store.start_session(new, "planner").await.unwrap();
    let child = store
        .create_instance(session.id, "helper", Some(root.id))
        .await
        .unwrap();
    let idle = store
        .create_instance(session.id, "idle", Some(child.id))
        .await
        .unwrap();
    say(&store, root.id, &["a", "b"]).await;
    say(&store, child.id, &["c"]).await;

    let copy = store
        .copy_session(session.id, &CopySession::default())
        .await
        .unwrap();
    assert_eq!(
        (copy.session.copied_from, copy.session.title.as_deref()),
        (Some(session.id), Some("trip"))
    );
    assert_eq!(
        (copy.session.project.as_deref(), &copy.session.metadata),
        (Some("p"), &session.metadata)
    );
    let sources: Vec<_> = copy.instances.iter().map(|copied| copied.source).collect();
    assert_eq!(sources, [root.id, child.id, idle.id]);
    let copies: Vec<_> = copy
        .instances
        .iter()
        .map(|copied| copied.instance.clone())
        .collect();
    assert_eq!(store.instances(copy.session.id).await.unwrap(), copies);
    assert_eq!(copies[1].parent_instance_id, Some(copies[0].id));
    assert_eq!(copies[2].parent_instance_id, Some(copies[1].id));
    assert_eq!(heard(&store, copies[0].id).await, ["a", "b"]);
    assert_eq!(heard(&store, copies[1].id).await, ["c"]);

    say(&store, copies[0].id, &["only in the copy"]).await;
    say(&store, copies[2].id, &["no longer idle"]).await;
    store.truncate_session(session.id, 0).await.unwrap();
    assert_eq!(
        heard(&store, copies[0].id).await,
        ["a", "b", "only in the copy"]
    );
    assert_eq!(heard(&store, root.id).await, [""; 0]);
    let nobody = store
        .copy_session(SessionId(Uuid::nil()), &CopySession::default())
        .await;
    assert_eq!(nobody.unwrap_err().kind(), ErrorKind::NotFound);
}

pub async fn a_copy_up_to_a_point_is_the_session_as_it_was(backend: Shared) {
    let store = Store::with_backend(backend);
    let new = NewSession {
        created_at_ms: Some(1_000),
        ..NewSession::default()
    };
    let (session, root) = store.start_session(new, "planner").await.unwrap();
    let context = store.context(root.id).await.unwrap();
    for (word, at) in [("a", 1_000), ("b", 2_000), ("c", 3_000)] {
        let event = EventOptions {
            created_at_ms: Some(at),
            ..Default::default()
        };
        let options = runlog::contexts::AppendOptions {
            event,
            ..Default::default()
        };
        context
            .append_message_with(NewMessage::user(word), &options)
            .await
            .unwrap();
    }
    let child = |at, parent| NewInstance {
        parent_instance_id: Some(parent),
        created_at_ms: Some(at),
        ..NewInstance::new(session.id, "helper")
    };
    let early = store
        .create_instance_with(child(1_500, root.id))
        .await
        .unwrap();
    let late = store
        .create_instance_with(child(2_500, root.id))
        .await
        .unwrap();
    store
        .create_instance_with(child(1_600, late.id))
        .await
        .unwrap();

    let up_to = |sequence| CopySession {
        up_to_sequence: Some(sequence),
        ..CopySession::default()
    };
    let copy = store.copy_session(session.id, &up_to(2)).await.unwrap();
    assert_eq!(
        copy.instances
            .iter()
            .map(|copied| copied.source)
            .collect::<Vec<_>>(),
        [root.id, early.id]
    );
    assert_eq!(
        heard(&store, copy.instances[0].instance.id).await,
        ["a", "b"]
    );
    let again = store
        .copy_session(copy.session.id, &up_to(2))
        .await
        .unwrap();
    assert_eq!(
        again.instances.len(),
        2,
        "a copy can be copied at the same point"
    );
    let empty = store.copy_session(session.id, &up_to(0)).await.unwrap();
    assert_eq!(heard(&store, empty.instances[0].instance.id).await, [""; 0]);

    let count = store
        .list_sessions(&ListSessions::default())
        .await
        .unwrap()
        .items
        .len();
    let error = store.copy_session(session.id, &up_to(4)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(
        error
            .to_string()
            .contains("ends at sequence 3, before 4; copy up to at most 3"),
        "{error}"
    );
    assert_eq!(
        store
            .list_sessions(&ListSessions::default())
            .await
            .unwrap()
            .items
            .len(),
        count
    );
}

pub async fn an_overwritten_session_goes_on_from_the_point(backend: Shared) {
    let store = Store::with_backend(backend);
    let (session, root) = store
        .start_session(NewSession::default(), "planner")
        .await
        .unwrap();
    say(&store, root.id, &["a", "b", "c"]).await;
    assert_eq!(store.truncate_session(session.id, 1).await.unwrap(), 2);
    say(&store, root.id, &["d"]).await;
    assert_eq!(heard(&store, root.id).await, ["a", "d"]);
    assert_eq!(
        store
            .truncate_session(session.id, 5)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
    let empty = store.create_session(NewSession::default()).await.unwrap();
    assert_eq!(
        store
            .truncate_session(empty.id, 0)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

pub async fn a_second_store_sees_what_the_first_one_does(backend: Shared) {
    let first = Store::with_backend(Arc::clone(&backend));
    let second = Store::with_backend(backend);
    assert_eq!(
        second
            .list_sessions(&ListSessions::default())
            .await
            .unwrap()
            .items,
        []
    );
    let (session, root) = first
        .start_session(NewSession::default(), "planner")
        .await
        .unwrap();
    assert_eq!(
        second.get_session(session.id).await.unwrap(),
        Some(session.clone())
    );
    say(&second, root.id, &["from the second"]).await;
    assert_eq!(heard(&first, root.id).await, ["from the second"]);
    second.archive_session(session.id).await.unwrap();
    assert_eq!(
        first.get_session(session.id).await.unwrap().unwrap().status,
        SessionStatus::Archived
    );
}

pub async fn a_catalog_of_many_pages_is_read_whole(backend: Shared) {
    let first = Store::with_backend(Arc::clone(&backend));
    let metadata = Some(raw(&format!("\"{}\"", "x".repeat(400 << 10))));
    for number in 0..8 {
        let new = NewSession {
            metadata: metadata.clone(),
            ..NewSession::named(number.to_string())
        };
        first.create_session(new).await.unwrap();
    }
    let second = Store::with_backend(backend);
    assert_eq!(
        second
            .list_sessions(&ListSessions::default())
            .await
            .unwrap()
            .items
            .len(),
        8
    );
    assert_eq!(second.find_session("7").await.unwrap().metadata, metadata);
}

/// A batch of a session that it makes, with an instance and its helper.
fn new_session(store: &Store, name: &str) -> (SessionId, InstanceId, EntryBatch) {
    let session = SessionId(store.backend().new_id());
    let mut batch = EntryBatch::new(session);
    batch.create_session(NewSession::named(name));
    let root = AgentInstance {
        id: InstanceId(store.backend().new_id()),
        session_id: session,
        agent_name: "main".into(),
        parent_instance_id: None,
        created_at_ms: 1_000,
    };
    let helper = InstanceId(store.backend().new_id());
    batch.create_instance(root.clone());
    batch.create_instance(AgentInstance {
        id: helper,
        parent_instance_id: Some(root.id),
        ..root.clone()
    });
    (session, root.id, batch)
}

fn said(word: &str) -> Vec<NewContextEvent> {
    NewContextEvent::of_message(
        NewMessage::user(word).to_json().unwrap(),
        &EventOptions::default(),
    )
    .unwrap()
}

pub async fn entries_are_written_with_their_session_or_nothing_is(backend: Shared) {
    let store = Store::with_backend(backend);
    let (session, root, mut batch) = new_session(&store, "whole");
    batch.push_aside(&Aside::Wrapper(raw(r#"{"task":7}"#)));
    batch.push_events(root, &said("a")).unwrap();
    batch.archive_session();
    batch.mark(ImportMark::Creating);
    store.write_entries(&batch).await.unwrap();
    let found = store.find_session("whole").await.unwrap();
    assert_eq!((found.id, found.status), (session, SessionStatus::Archived));
    assert_eq!(store.instances(session).await.unwrap().len(), 2);
    assert_eq!(heard(&store, root).await, ["a"]);
    assert_eq!(
        store.import_mark(session).await.unwrap(),
        Some(ImportMark::Creating)
    );

    let mut done = EntryBatch::new(session);
    done.mark(ImportMark::Done);
    store.write_entries(&done).await.unwrap();
    assert_eq!(
        store.import_mark(session).await.unwrap(),
        Some(ImportMark::Done)
    );
    assert!(store.contexts().event(root, 2).await.unwrap().is_none());

    // Its name is taken, its instance's id is, or the parent of an instance is nobody's: nothing of it is there.
    let (taken, _, batch) = new_session(&store, "whole");
    assert_eq!(
        store.write_entries(&batch).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    let (other, _, mut batch) = new_session(&store, "other");
    let again = store.get_instance(root).await.unwrap().unwrap();
    batch.create_instance(again.clone());
    assert_eq!(
        store.write_entries(&batch).await.unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    let (lost, _, mut batch) = new_session(&store, "lost");
    let nobody = InstanceId(store.backend().new_id());
    batch.create_instance(AgentInstance {
        id: nobody,
        parent_instance_id: Some(nobody),
        ..again.clone()
    });
    assert_eq!(
        store.write_entries(&batch).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
    for id in [taken, other, lost] {
        assert_eq!(store.get_session(id).await.unwrap(), None);
        assert_eq!(store.import_mark(id).await.unwrap(), None);
        assert!(store.is_id_free(id.as_uuid()).await.unwrap());
    }
    assert!(!store.is_id_free(root.as_uuid()).await.unwrap());
    let mut nowhere = EntryBatch::new(lost);
    nowhere.push_aside(&Aside::Wrapper(raw("{}")));
    assert_eq!(
        store.write_entries(&nowhere).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

pub async fn what_is_kept_beside_the_contexts_is_copied_and_truncated_with_them(backend: Shared) {
    let store = Store::with_backend(backend);
    let (session, root, mut batch) = new_session(&store, "kept");
    batch.push_aside(&Aside::Wrapper(raw(r#"{"task":7}"#)));
    for word in ["a", "b", "c"] {
        batch.push_aside(&Aside::Envelope(raw(&format!(r#"{{"around":"{word}"}}"#))));
        batch.push_events(root, &said(word)).unwrap();
        batch.push_aside(&Aside::Other(
            root,
            raw(&format!(r#"{{"after":"{word}"}}"#)),
        ));
    }
    store.write_entries(&batch).await.unwrap();
    let kept = async |session: SessionId| match store
        .backend()
        .read(aside_stream(session), ReadOptions::default())
        .await
    {
        Ok(page) => page
            .records
            .iter()
            .map(|it| String::from_utf8_lossy(&it.payload).into_owned())
            .collect(),
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => panic!("{error}"),
    };
    let all = kept(session).await;
    assert_eq!(all.len(), 7);
    // Up to an event: what stands before the next one, but not that one's own envelope.
    for (point, last) in [
        (None, 7),
        (Some(3), 7),
        (Some(2), 5),
        (Some(1), 3),
        (Some(0), 1),
    ] {
        let options = CopySession {
            up_to_sequence: point,
            ..CopySession::default()
        };
        let copy = store.copy_session(session, &options).await.unwrap();
        assert_eq!(
            kept(copy.session.id).await,
            all[..last],
            "copied up to {point:?}"
        );
        let Some(point) = point else { continue };
        let whole = store
            .copy_session(session, &CopySession::default())
            .await
            .unwrap()
            .session
            .id;
        assert_eq!(
            store.truncate_session(whole, point).await.unwrap(),
            3 - point
        );
        assert_eq!(kept(whole).await, all[..last], "truncated after {point}");
    }
    assert_eq!(kept(session).await, all);
    let (plain, root) = store
        .start_session(NewSession::default(), "main")
        .await
        .unwrap();
    say(&store, root.id, &["a", "b"]).await;
    let copy = store
        .copy_session(plain.id, &CopySession::default())
        .await
        .unwrap();
    assert_eq!(store.truncate_session(copy.session.id, 1).await.unwrap(), 1);
    assert!(kept(copy.session.id).await.is_empty());
}

pub async fn an_overwritten_session_forgets_what_its_sub_agents_wrote_since(backend: Shared) {
    let store = Store::with_backend(backend);
    let (session, root) = store
        .start_session(NewSession::default(), "planner")
        .await
        .unwrap();
    let below = |parent| NewInstance {
        parent_instance_id: Some(parent),
        // The clock doesn't matter.
        created_at_ms: Some(1),
        ..NewInstance::new(session.id, "helper")
    };
    let peer = store
        .create_instance(session.id, "peer", None)
        .await
        .unwrap();
    let early = store.create_instance_with(below(root.id)).await.unwrap();
    say(&store, root.id, &["a"]).await;
    say(&store, early.id, &["early 1"]).await;
    say(&store, root.id, &["b"]).await;
    let late = store.create_instance_with(below(early.id)).await.unwrap();
    for id in [early.id, late.id, peer.id] {
        say(&store, id, &["since"]).await;
    }
    let copy = store
        .copy_session(session.id, &CopySession::default())
        .await
        .unwrap();
    // "b", and what each of the two sub-agents said since.
    assert_eq!(store.truncate_session(session.id, 1).await.unwrap(), 3);
    assert_eq!(heard(&store, root.id).await, ["a"]);
    assert_eq!(heard(&store, early.id).await, ["early 1"]);
    assert_eq!(
        heard(&store, late.id).await,
        [""; 0],
        "it was spawned since"
    );
    assert_eq!(
        heard(&store, peer.id).await,
        ["since"],
        "nobody below spawned it"
    );
    let copied = copy
        .instances
        .iter()
        .find(|copied| copied.source == late.id);
    let copied = copied.unwrap().instance.id;
    assert_eq!(
        heard(&store, copied).await,
        ["since"],
        "a copy keeps what it shares"
    );
}

pub async fn a_copy_has_of_each_context_what_stood_in_the_log_before_the_point(backend: Shared) {
    let store = Store::with_backend(backend);
    let (session, root) = store
        .start_session(NewSession::default(), "planner")
        .await
        .unwrap();
    let below = || NewInstance {
        parent_instance_id: Some(root.id),
        ..NewInstance::new(session.id, "helper")
    };
    let early = store.create_instance_with(below()).await.unwrap();
    for word in ["a", "b", "c"] {
        say(&store, root.id, &[word]).await;
        say(&store, early.id, &[word]).await;
    }
    let late = store.create_instance_with(below()).await.unwrap();
    say(&store, late.id, &["late"]).await;
    let options = CopySession {
        up_to_sequence: Some(2),
        ..CopySession::default()
    };
    let copy = store.copy_session(session.id, &options).await.unwrap();
    let copy_of = |id| copy.instances.iter().find(|copied| copied.source == id);
    assert_eq!(
        heard(&store, copy_of(root.id).unwrap().instance.id).await,
        ["a", "b"]
    );
    assert_eq!(
        heard(&store, copy_of(early.id).unwrap().instance.id).await,
        ["a", "b"]
    );
    assert!(copy_of(late.id).is_none(), "it was made since");
}
