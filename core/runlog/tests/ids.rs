//! Ids that callers give: each names one thing, and none reaches what the store keeps for itself.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use std::{
    fmt::Debug,
    sync::{Arc, Barrier},
};

use runlog::{
    ErrorKind, InstanceId, NewInstance, NewMessage, NewRun, NewSession, RunId, SessionId,
    blocking::{FlowRun, Store},
    chats::{Chat, ChatMessage, ChatRole},
    flows::RuntimeEvent,
    runs::{ListRuns, ResumeOptions},
};
use uuid::Uuid;

both! {
    ids_of_the_stores_own_streams_are_refused
    racing_creators_of_one_chat_id_leave_one_chat
    a_run_has_no_id_of_an_instance_or_a_session
    an_instance_has_no_id_of_a_session_or_a_run
    a_session_has_no_id_of_an_instance_or_a_run
    a_flow_is_in_the_stream_of_a_run_only
}

/// Every stream that a store makes for itself; also those of later builds.
const OWN: [&[u8; 16]; 6] = [
    b"runlog:catalog:1",
    b"runlog:catpart:1",
    b"runlog:runlist:1",
    b"runlog:runpart:1",
    b"runlog:agents:01",
    b"runlog:whatever\xff",
];

fn kind<T: Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Whatever was tried, the store goes on.
fn is_sound(store: &Store) {
    let session = store.create_session(NewSession::default()).unwrap();
    assert_eq!(store.get_session(session.id).unwrap(), Some(session));
    store.runs().list(&ListRuns::default()).unwrap();
    store.agents().list_available_agents(None).unwrap();
}

fn ids_of_the_stores_own_streams_are_refused(store: &Store) {
    let session = store.create_session(NewSession::default()).unwrap();
    let paused = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "agent"))
        .unwrap();
    paused.pause("later").unwrap();
    for id in OWN.map(|bytes| Uuid::from_bytes(*bytes)) {
        let new = NewSession {
            id: Some(SessionId(id)),
            ..NewSession::default()
        };
        assert_eq!(
            kind(store.create_session(new.clone())),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(store.start_session(new.clone(), "agent")),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(store.runs().start(NewRun::in_new_session(new, "agent"))),
            ErrorKind::InvalidInput
        );
        let chat = Chat {
            chat_id: id.to_string(),
            ..Chat::new("agent")
        };
        assert_eq!(
            kind(store.chats().create_chat(chat)),
            ErrorKind::InvalidInput
        );
        let new = NewInstance {
            id: Some(InstanceId(id)),
            ..NewInstance::new(session.id, "agent")
        };
        assert_eq!(
            kind(store.create_instance_with(new.clone())),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(store.runs().start(NewRun::in_new_instance(new))),
            ErrorKind::InvalidInput
        );
        let run = NewRun {
            id: Some(RunId(id)),
            ..NewRun::in_new_session(NewSession::default(), "agent")
        };
        assert_eq!(kind(store.runs().start(run)), ErrorKind::InvalidInput);
        let resume = ResumeOptions {
            id: Some(RunId(id)),
            ..ResumeOptions::default()
        };
        assert_eq!(
            kind(store.runs().resume(paused.id(), &resume)),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            kind(FlowRun::create(store, Some(RunId(id))).map(drop)),
            ErrorKind::InvalidInput
        );
        is_sound(store);
    }
}

fn racing_creators_of_one_chat_id_leave_one_chat(store: &Store) {
    for round in 0..50_u128 {
        let chat_id =
            Uuid::from_u128(0x0198_c7e0_0000_7000_8000_0000_0000_0000 + round).to_string();
        let barrier = Arc::new(Barrier::new(4));
        let create = |_| {
            let (store, barrier, chat_id) = (store.clone(), Arc::clone(&barrier), chat_id.clone());
            std::thread::spawn(move || {
                barrier.wait();
                store.chats().create_chat(Chat {
                    chat_id,
                    ..Chat::new("agent")
                })
            })
        };
        let threads: Vec<_> = (0..4).map(create).collect();
        let results: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect();
        let (made, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1, "{refused:?}");
        assert!(
            refused
                .into_iter()
                .all(|refused| kind(refused) == ErrorKind::AlreadyExists)
        );
        assert_eq!(
            store.chats().get_chat(&chat_id).unwrap().unwrap().chat_id,
            chat_id
        );
    }
    is_sound(store);
}

fn a_run_has_no_id_of_an_instance_or_a_session(store: &Store) {
    let (session, instance) = store.start_session(NewSession::default(), "agent").unwrap();
    for id in [session.id.as_uuid(), instance.id.as_uuid()] {
        let new = NewRun {
            id: Some(RunId(id)),
            ..NewRun::new(instance.id)
        };
        assert_eq!(kind(store.runs().start(new)), ErrorKind::AlreadyExists);
        assert_eq!(
            kind(FlowRun::create(store, Some(RunId(id))).map(drop)),
            ErrorKind::AlreadyExists
        );
    }
    let id = Uuid::from_u128(7);
    let place = NewInstance {
        id: Some(InstanceId(id)),
        ..NewInstance::new(session.id, "agent")
    };
    let own = NewRun {
        id: Some(RunId(id)),
        ..NewRun::in_new_instance(place)
    };
    assert_eq!(kind(store.runs().start(own)), ErrorKind::InvalidInput);
    let place = NewSession {
        id: Some(SessionId(id)),
        ..NewSession::default()
    };
    let own = NewRun {
        id: Some(RunId(id)),
        ..NewRun::in_new_session(place, "agent")
    };
    assert_eq!(kind(store.runs().start(own)), ErrorKind::InvalidInput);

    let context = store.context(instance.id).unwrap();
    context.append_message(NewMessage::user("hello")).unwrap();
    assert_eq!(context.get_messages().unwrap().len(), 1);
    is_sound(store);
}

fn an_instance_has_no_id_of_a_session_or_a_run(store: &Store) {
    let session = store.create_session(NewSession::default()).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "agent"))
        .unwrap();
    for id in [session.id.as_uuid(), run.id().as_uuid()] {
        let new = NewInstance {
            id: Some(InstanceId(id)),
            ..NewInstance::new(session.id, "agent")
        };
        assert_eq!(
            kind(store.create_instance_with(new.clone())),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            kind(store.runs().start(NewRun::in_new_instance(new))),
            ErrorKind::AlreadyExists
        );
    }
    is_sound(store);
}

fn a_session_has_no_id_of_an_instance_or_a_run(store: &Store) {
    let (_, instance) = store.start_session(NewSession::default(), "agent").unwrap();
    let run = store.runs().start(NewRun::new(instance.id)).unwrap();
    for id in [instance.id.as_uuid(), run.id().as_uuid()] {
        let new = NewSession {
            id: Some(SessionId(id)),
            ..NewSession::default()
        };
        assert_eq!(
            kind(store.create_session(new.clone())),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            kind(store.start_session(new.clone(), "agent")),
            ErrorKind::AlreadyExists
        );
        assert_eq!(
            kind(store.runs().start(NewRun::in_new_session(new, "agent"))),
            ErrorKind::AlreadyExists
        );
        let chat = Chat {
            chat_id: id.to_string(),
            ..Chat::new("agent")
        };
        assert_eq!(
            kind(store.chats().create_chat(chat)),
            ErrorKind::AlreadyExists
        );
    }
    is_sound(store);
}

fn a_flow_is_in_the_stream_of_a_run_only(store: &Store) {
    let event = RuntimeEvent::parse(r#"{"type":"node:started","nodeId":"plan"}"#).unwrap();
    let (session, instance) = store.start_session(NewSession::default(), "agent").unwrap();
    let context = store.context(instance.id).unwrap();
    context.append_message(NewMessage::user("hello")).unwrap();
    let chat = session.id.to_string();
    store
        .chats()
        .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, "hello")])
        .unwrap();
    for id in [session.id.as_uuid(), instance.id.as_uuid()] {
        assert_eq!(
            kind(FlowRun::create(store, Some(RunId(id))).map(drop)),
            ErrorKind::AlreadyExists
        );
    }
    let run = store.runs().start(NewRun::new(instance.id)).unwrap();
    FlowRun::create(store, Some(run.id()))
        .unwrap()
        .record(&event)
        .unwrap();
    let fresh = RunId(Uuid::from_u128(9));
    FlowRun::create(store, Some(fresh))
        .unwrap()
        .record(&event)
        .unwrap();
    assert_eq!(
        kind(FlowRun::create(store, Some(fresh)).map(drop)),
        ErrorKind::AlreadyExists
    );

    run.record_message(NewMessage::assistant("hello")).unwrap();
    assert_eq!(context.get_messages().unwrap().len(), 2);
    assert_eq!(
        store
            .chats()
            .get_messages(&chat, &runlog::chats::MessageFilter::default())
            .unwrap()
            .len(),
        1
    );
}
