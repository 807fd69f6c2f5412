use uuid::Uuid;

use super::*;
use crate::{
    AgentInstance, Checkpointed, ErrorKind, InstanceId, RawJson, SessionChanges, SessionStatus,
};

fn session(number: u128, name: Option<&str>) -> Session {
    Session {
        id: SessionId(Uuid::from_u128(number)),
        name: name.map(str::to_owned),
        project: None,
        title: Some(format!("session {number}")),
        status: SessionStatus::Active,
        metadata: Some(RawJson::parse(r#"{ "b": 1.0 }"#).unwrap()),
        copied_from: None,
        created_at_ms: 1,
        updated_at_ms: 1,
        deleted_at_ms: None,
        chat: None,
    }
}

fn instance(number: u128, session: u128) -> AgentInstance {
    AgentInstance {
        id: InstanceId(Uuid::from_u128(number)),
        session_id: SessionId(Uuid::from_u128(session)),
        agent_name: "planner".into(),
        parent_instance_id: None,
        created_at_ms: 2,
    }
}

fn catalog(events: impl IntoIterator<Item = CatalogEvent>) -> Catalog {
    let mut catalog = Catalog::new();
    for (event, sequence) in events.into_iter().zip(1..) {
        catalog.apply(sequence, event).unwrap();
    }
    catalog
}

fn created(number: u128, name: Option<&str>) -> CatalogEvent {
    CatalogEvent::SessionCreated(session(number, name))
}

#[test]
fn every_event_survives_its_encoding() {
    let id = SessionId(Uuid::from_u128(1));
    let changes = SessionChanges {
        status: Some(SessionStatus::Archived),
        metadata: Some(RawJson::parse("[ 1 ]").unwrap()),
        ..SessionChanges::default()
    };
    for event in [
        created(1, Some("x")),
        CatalogEvent::SessionUpdated {
            id,
            at_ms: 3,
            changes,
        },
        CatalogEvent::SessionDeleted { id, at_ms: 4 },
        CatalogEvent::InstanceCreated(instance(7, 1)),
    ] {
        let encoded = event.encode().unwrap();
        assert_eq!(
            CatalogEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
            event
        );
    }
}

#[test]
fn encoded_bytes_are_pinned() {
    let encoded = CatalogEvent::InstanceCreated(instance(7, 1))
        .encode()
        .unwrap();
    assert_eq!((encoded.kind, encoded.meta.as_slice()), (19, &[1][..]));
    assert_eq!(
        String::from_utf8(encoded.payload.into()).unwrap(),
        r#"{"id":"00000000-0000-0000-0000-000000000007","session_id":"00000000-0000-0000-0000-000000000001","agent_name":"planner","created_at_ms":2}"#
    );
}

#[test]
fn an_unknown_kind_or_shape_is_refused_by_name() {
    let unknown = CatalogEvent::decode(31, &[1], b"{}").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnsupportedVersion);
    assert!(unknown.to_string().contains("kind 31"));
    assert_eq!(
        CatalogEvent::decode(16, &[1], b"{}").unwrap_err().kind(),
        ErrorKind::Damaged
    );
    assert_eq!(
        CatalogEvent::decode(16, &[2], b"{}").unwrap_err().kind(),
        ErrorKind::UnsupportedVersion
    );
}

#[test]
fn fields_over_their_limits_are_refused() {
    let long = Session {
        title: Some("x".repeat(5000)),
        ..session(1, None)
    };
    assert_eq!(
        CatalogEvent::SessionCreated(long)
            .encode()
            .unwrap_err()
            .kind(),
        ErrorKind::TooLarge
    );
    assert_eq!(
        created(1, Some("")).encode().unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let nameless = AgentInstance {
        agent_name: String::new(),
        ..instance(1, 1)
    };
    assert_eq!(
        CatalogEvent::InstanceCreated(nameless)
            .encode()
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn an_event_that_does_not_follow_is_damage_and_changes_nothing() {
    let mut catalog = catalog([created(1, Some("x"))]);
    for event in [
        created(1, None),
        created(2, Some("x")),
        CatalogEvent::InstanceCreated(instance(7, 9)),
    ] {
        assert_eq!(
            catalog.apply(2, event).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }
    assert_eq!(
        catalog.apply(3, created(3, None)).unwrap_err().kind(),
        ErrorKind::Damaged,
        "a hole"
    );
    assert_eq!(catalog.session_named("x").unwrap().id, session(1, None).id);
    catalog.apply(1, created(9, None)).unwrap();
    assert_eq!(
        catalog.list(&ListSessions::default(), None).0.len(),
        1,
        "an event that was applied is skipped"
    );
    catalog.apply(2, created(2, None)).unwrap();
}

#[test]
fn pages_list_every_session_once_while_new_ones_are_made() {
    let mut catalog = catalog((1..=7).map(|number| created(number, None)));
    let options = ListSessions {
        limit: 3,
        ..ListSessions::default()
    };
    let (mut seen, mut before) = (Vec::new(), None);
    loop {
        let (sessions, next) = catalog.list(&options, before);
        seen.extend(sessions.iter().map(|session| session.id.0.as_u128()));
        let sequence = catalog.last_sequence() + 1;
        catalog
            .apply(sequence, created(u128::from(sequence), None))
            .unwrap();
        before = next;
        if before.is_none() {
            break;
        }
    }
    assert_eq!(seen, [7, 6, 5, 4, 3, 2, 1]);
}

#[test]
fn a_full_last_page_has_no_next() {
    let catalog = catalog((1..=3).map(|number| created(number, None)));
    assert_eq!(
        catalog
            .list(
                &ListSessions {
                    limit: 3,
                    ..ListSessions::default()
                },
                None
            )
            .1,
        None
    );
    assert!(
        catalog
            .list(
                &ListSessions {
                    limit: 2,
                    ..ListSessions::default()
                },
                None
            )
            .1
            .is_some()
    );
}

#[test]
fn a_deleted_session_is_hidden_and_gives_its_name_back() {
    let id = session(1, None).id;
    let deleted = CatalogEvent::SessionDeleted { id, at_ms: 9 };
    let catalog = catalog([created(1, Some("x")), deleted, created(2, Some("x"))]);
    assert_eq!(catalog.session_named("x").unwrap().id.0.as_u128(), 2);
    assert_eq!(catalog.list(&ListSessions::default(), None).0.len(), 1);
    assert_eq!(
        catalog
            .list(
                &ListSessions {
                    deleted: Deleted::Shown,
                    ..ListSessions::default()
                },
                None
            )
            .0
            .len(),
        2
    );
    assert_eq!(catalog.session(id).unwrap().deleted_at_ms, Some(9));
}

#[test]
fn changes_touch_only_what_they_name() {
    let id = session(1, None).id;
    let update = |changes| CatalogEvent::SessionUpdated {
        id,
        at_ms: 9,
        changes,
    };
    let archive = SessionChanges {
        status: Some(SessionStatus::Archived),
        ..SessionChanges::default()
    };
    let untitle = SessionChanges {
        title: Some(String::new()),
        ..SessionChanges::default()
    };
    let catalog = catalog([created(1, None), update(archive), update(untitle)]);
    let now = catalog.session(id).unwrap();
    assert_eq!(
        (now.status, now.title.as_deref(), now.updated_at_ms),
        (SessionStatus::Archived, None, 9)
    );
    assert_eq!(now.metadata, session(1, None).metadata);
    assert_eq!(
        catalog
            .list(
                &ListSessions {
                    status: Some(SessionStatus::Active),
                    ..ListSessions::default()
                },
                None
            )
            .0,
        []
    );
}

#[test]
fn a_prefix_finds_ids_with_and_without_hyphens_and_in_either_case() {
    let first = 0x0198_c7e0_aaaa_7000_8000_0000_0000_0001;
    let second = 0x0198_c7e0_aaab_7000_8000_0000_0000_0002;
    let catalog = catalog([created(first, None), created(second, None)]);
    let found = |prefix: &str| catalog.sessions_with_prefix(prefix, 10).len();
    assert_eq!(
        (
            found("0198"),
            found("0198c7e0-aaa"),
            found("0198C7E0AAAB"),
            found("0198c7e0-aaab")
        ),
        (2, 2, 1, 1)
    );
    assert_eq!(
        (
            found(""),
            found("0199"),
            found("+198"),
            found("xyz"),
            found(&"0".repeat(33))
        ),
        (0, 0, 0, 0, 0)
    );
    assert_eq!(catalog.sessions_with_prefix("0198", 1).len(), 1);
}
