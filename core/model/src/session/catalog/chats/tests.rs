//! Lists of chats and sessions beside the same lists made by looking through everything.

use uuid::Uuid;

use super::*;
use crate::{
    CatalogEvent, ChatShare, Checkpointed, Deleted, ListSessions, RawJson, SessionChanges,
    SessionStatus, Updates, session::catalog::LOOKED_AT,
};

/// How many names there are, so that some are of one session after another.
const NAMES: u64 = 12;

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn place(&mut self, end: u64) -> usize {
        usize::try_from(self.below(end)).unwrap()
    }
}

fn id(number: u64) -> SessionId {
    SessionId(Uuid::from_u128(u128::from(number)))
}

fn session(number: u64, numbers: &mut Numbers) -> Session {
    let chat = Chat {
        created_by: Some(format!("user {}", numbers.below(3))),
        team_id: Some(format!("team {}", numbers.below(2))),
        tenant_id: (numbers.below(2) == 0).then(|| format!("tenant {}", numbers.below(2))),
        share: [ChatShare::Private, ChatShare::Team][numbers.place(2)],
        public: numbers.below(5) == 0,
        sort: i64::try_from(numbers.below(4)).unwrap() - 2,
        ..Chat::new(format!("assistant {}", numbers.below(2)))
    };
    let mut session = Session {
        id: id(number),
        name: (numbers.below(2) == 0).then(|| format!("name {}", numbers.below(NAMES))),
        project: Some(format!("project {}", numbers.below(3))),
        title: None,
        status: SessionStatus::Active,
        metadata: None,
        copied_from: (number > 0 && numbers.below(3) == 0).then(|| id(numbers.below(number))),
        created_at_ms: number,
        updated_at_ms: number,
        deleted_at_ms: None,
        chat: None,
    };
    if numbers.below(4) > 0 {
        chat.write_to(&mut session);
        session.title = Some(format!("Title {}", numbers.below(3)));
    }
    session
}

fn event(next: u64, numbers: &mut Numbers) -> CatalogEvent {
    let (id, at_ms) = (id(numbers.below(next.max(1))), numbers.below(10_000));
    match numbers.below(13) {
        0 if next > 0 => CatalogEvent::SessionDeleted { id, at_ms },
        12 if next > 0 => CatalogEvent::SessionRestored { id, at_ms },
        1 | 2 if next > 0 => {
            let status = [SessionStatus::Active, SessionStatus::Archived][numbers.place(2)];
            let changes = SessionChanges {
                status: Some(status),
                ..SessionChanges::default()
            };
            CatalogEvent::SessionUpdated { id, at_ms, changes }
        }
        3 | 4 if next > 0 => {
            let assistant = RawJson::string(&format!("assistant {}", numbers.below(3)));
            let sort = RawJson::parse(numbers.below(5).to_string()).unwrap();
            let updates = Updates::new()
                .with("assistant_id", assistant)
                .with(
                    "share",
                    RawJson::string(["private", "team"][numbers.place(2)]),
                )
                .with(
                    "public",
                    RawJson::parse(["true", "false"][numbers.place(2)]).unwrap(),
                )
                .with("sort", sort);
            CatalogEvent::ChatUpdated { id, at_ms, updates }
        }
        5..8 if next > 0 => CatalogEvent::ChatTouched { id, at_ms },
        _ => CatalogEvent::SessionCreated(session(next, numbers)),
    }
}

fn filter(numbers: &mut Numbers) -> ChatFilter {
    let some = |numbers: &mut Numbers| numbers.below(5) == 0;
    let visible = some(numbers);
    ChatFilter {
        user_id: some(numbers).then(|| format!("user {}", numbers.below(4))),
        team_id: some(numbers).then(|| format!("team {}", numbers.below(3))),
        assistant_id: some(numbers).then(|| format!("assistant {}", numbers.below(3))),
        tenant_id: some(numbers).then(|| format!("tenant {}", numbers.below(3))),
        visible_to: Some(format!("user {}", numbers.below(4))).filter(|_| visible),
        teams: if visible {
            (0..numbers.below(3))
                .map(|team| format!("team {team}"))
                .collect()
        } else {
            Vec::new()
        },
        share: some(numbers).then(|| [ChatShare::Private, ChatShare::Team][numbers.place(2)]),
        public: some(numbers).then(|| numbers.below(2) == 0),
        deleted: some(numbers),
        sessions: some(numbers),
        status: some(numbers)
            .then(|| [SessionStatus::Active, SessionStatus::Archived][numbers.place(2)]),
        keywords: (numbers.below(6) == 0).then(|| "title 1".to_owned()),
        order: [ChatOrder::Created, ChatOrder::LastMessage, ChatOrder::Sort][numbers.place(3)],
        page: numbers.place(4),
        pagesize: 1 + numbers.place(9),
        cursor: None,
    }
}

fn newest_first(catalog: &Catalog) -> impl Iterator<Item = &SessionEntry> {
    let mut entries: Vec<_> = catalog.sessions.iter().collect();
    entries.reverse();
    entries.into_iter()
}

/// All that a filter admits, in its order.
fn looked_through<'a>(catalog: &'a Catalog, filter: &ChatFilter) -> Vec<&'a SessionEntry> {
    let words = filter.words();
    let newest_first = newest_first(catalog);
    let mut found: Vec<_> = newest_first
        .filter(|entry| filter.admits(&entry.session, &words))
        .collect();
    found.sort_by_key(|entry| std::cmp::Reverse((entry.rank(filter.order), entry.created)));
    found
}

/// Names and ids find what looking through everything does.
fn check_found(catalog: &Catalog, numbers: &mut Numbers) {
    let name = format!("name {}", numbers.below(NAMES));
    let named = newest_first(catalog)
        .map(|entry| &entry.session)
        .find(|it| it.name.as_ref() == Some(&name) && it.deleted_at_ms.is_none());
    assert_eq!(catalog.session_named(&name), named);
    let prefix = format!("{:030x}{:x}", 0, numbers.below(16));
    let ids = catalog.sessions_with_prefix(&prefix, 5);
    let mut expected: Vec<_> = newest_first(catalog).map(|entry| &entry.session).collect();
    expected.retain(|it| {
        it.id.0.simple().to_string().starts_with(&prefix) && it.deleted_at_ms.is_none()
    });
    expected.sort_by_key(|session| session.id);
    expected.truncate(5);
    assert_eq!(ids, expected, "{prefix}");
    let copied = id(numbers.below(20));
    let mut copies: Vec<_> = newest_first(catalog).map(|entry| &entry.session).collect();
    copies.retain(|it| it.copied_from == Some(copied));
    copies.reverse();
    let copies: Vec<_> = copies.iter().map(|it| it.id).collect();
    assert_eq!(catalog.copies_of(copied), copies);
}

fn check(catalog: &Catalog, numbers: &mut Numbers) {
    check_found(catalog, numbers);
    let filter = filter(numbers);
    let expected: Vec<Chat> = looked_through(catalog, &filter)
        .iter()
        .map(|entry| entry.chat())
        .collect();
    let (page, mut next) = catalog.chats(&filter, None).unwrap();
    let skipped = filter.page.saturating_sub(1) * filter.pagesize;
    let shown: Vec<Chat> = expected
        .iter()
        .skip(skipped)
        .take(filter.pagesize)
        .cloned()
        .collect();
    assert_eq!(
        (&page.items, page.total),
        (&shown, expected.len()),
        "{filter:?}"
    );
    assert_eq!(
        next.is_some(),
        skipped + shown.len() < expected.len() && !shown.is_empty()
    );
    let mut seen = skipped + shown.len();
    while let Some(place) = next {
        let (page, later) = catalog.chats(&filter, Some(place)).unwrap();
        assert_eq!(
            (page.items.first(), page.page),
            (expected.get(seen), seen / filter.pagesize + 1)
        );
        (seen, next) = (seen + page.items.len(), later);
        assert_eq!(next.is_none(), seen == expected.len());
    }
    let options = ListSessions {
        status: filter.status,
        project: filter
            .team_id
            .as_ref()
            .map(|_| format!("project {}", numbers.below(4))),
        deleted: if numbers.below(2) == 0 {
            Deleted::Shown
        } else {
            Deleted::Hidden
        },
        limit: usize::MAX,
        cursor: None,
    };
    let sessions = newest_first(catalog).map(|entry| &entry.session);
    let expected: Vec<Session> = sessions
        .filter(|session| options.admits(session))
        .cloned()
        .collect();
    assert_eq!(catalog.list(&options, None).0, expected, "{options:?}");
}

#[test]
fn lists_are_those_of_looking_through_everything() {
    for seed in 0..8 {
        let (mut numbers, mut catalog, mut made) = (Numbers(seed), Catalog::new(), 0);
        for sequence in 1..200 {
            let mut event = event(made, &mut numbers);
            // A name that is taken doesn't follow; a store refuses it before.
            if let CatalogEvent::SessionCreated(session) = &mut event {
                made += 1;
                session
                    .name
                    .take_if(|name| catalog.session_named(name).is_some());
            }
            if let CatalogEvent::SessionRestored { id, .. } = &event {
                let name = catalog
                    .session(*id)
                    .and_then(|session| session.name.as_deref());
                if name.is_some_and(|name| catalog.session_named(name).is_some()) {
                    event = CatalogEvent::ChatTouched { id: *id, at_ms: 1 };
                }
            }
            catalog.apply(sequence, event).unwrap();
            check(&catalog, &mut numbers);
        }
        let (parts, checkpoint) = catalog.checkpoint(1).unwrap();
        let restored = crate::checkpoint::restoration::restore::<Catalog>(
            catalog.last_sequence(),
            checkpoint,
            parts.iter().map(Vec::as_slice),
        )
        .unwrap();
        for _ in 0..200 {
            check(&restored, &mut numbers);
        }
    }
}

/// How many chats are looked at to make a page of 20 of a store of so many, one user in a hundred.
fn looked_at(chats: u64, filter: &ChatFilter, before: Option<ChatPlace>) -> u64 {
    let (mut catalog, mut numbers) = (Catalog::new(), Numbers(1));
    for number in 0..chats {
        let mut session = session(number, &mut numbers);
        session.name = None;
        let chat = Chat {
            created_by: Some(format!("user {}", number % (chats / 50))),
            ..Chat::new("a")
        };
        chat.write_to(&mut session);
        catalog
            .apply(number + 1, CatalogEvent::SessionCreated(session))
            .unwrap();
    }
    LOOKED_AT.set(0);
    assert_eq!(catalog.chats(filter, before).unwrap().0.items.len(), 20);
    LOOKED_AT.get()
}

#[test]
fn a_page_of_chats_costs_the_page() {
    let user = Some("user 1".to_owned());
    let of_user = ChatFilter {
        user_id: user.clone(),
        ..ChatFilter::default()
    };
    let active = Some(SessionStatus::Active);
    let of_status = ChatFilter {
        status: active,
        ..ChatFilter::default()
    };
    // The 50 of the user are counted, none of anybody else's.
    let mine = ChatFilter {
        visible_to: user.clone(),
        teams: vec!["team".to_owned()],
        ..ChatFilter::default()
    };
    let of_both = ChatFilter {
        user_id: user,
        status: active,
        ..ChatFilter::default()
    };
    let sort = ChatFilter {
        order: ChatOrder::Sort,
        status: active,
        ..ChatFilter::default()
    };
    let newest = ChatFilter {
        order: ChatOrder::Created,
        ..ChatFilter::default()
    };
    let middle = Some(ChatPlace {
        rank: 0,
        created: 400,
        passed: 20,
    });
    for (filter, before, most) in [
        (ChatFilter::default(), None, 20),
        (newest.clone(), None, 20),
        (newest, middle, 20),
        (of_status, None, 20),
        (mine, None, 120),
        // The 50 of the user are put in order.
        (of_user, None, 70),
        // The 50 of the user are counted, then put in order.
        (of_both, None, 120),
        (sort, None, 20),
    ] {
        assert!(looked_at(500, &filter, before) <= most, "{filter:?}");
        assert!(looked_at(50_000, &filter, before) <= most, "{filter:?}");
    }
}
