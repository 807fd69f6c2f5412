use std::fmt::Debug;

use proptest::{prelude::*, sample::select};
use uuid::Uuid;

use super::{restoration::restore, *};
use crate::{
    AgentInstance, Catalog, CatalogEvent, ChatFilter, Deleted, ErrorKind, InstanceId, ListRuns,
    ListSessions, OpenRequest, RequestStatus, RunCatalog, RunCatalogEvent, RunId, RunStatus,
    RunSummary, Session, SessionChanges, SessionId, SessionStatus, codec,
    run::catalog::checkpoint::RunPart,
};

/// What a store keeps of a fold: the stream of parts, and the newest snapshot.
#[derive(Default)]
struct Disk {
    parts: Vec<Vec<u8>>,
    snapshot: Option<(u64, Vec<u8>, Vec<u8>)>,
}

impl Disk {
    /// Writes a fold down, and says how many bytes of parts that took. `meanwhile` happens while it is written.
    fn write<Fold: Checkpointed>(
        &mut self,
        fold: &mut Fold,
        meanwhile: impl FnOnce(&mut Fold),
    ) -> usize {
        let (parts, checkpoint) = fold.checkpoint(self.parts.len() as u64 + 1).unwrap();
        let sequence = fold.last_sequence();
        meanwhile(fold);
        let bytes = parts.iter().map(Vec::len).sum();
        self.parts.extend(parts);
        let (meta, payload) = checkpoint.encode().unwrap();
        self.snapshot = Some((sequence, meta, payload));
        fold.checkpointed(sequence, checkpoint);
        bytes
    }

    fn part(&self, sequence: u64) -> &[u8] {
        &self.parts[usize::try_from(sequence).unwrap() - 1]
    }

    fn checkpoint(&self) -> Result<Checkpoint> {
        let (_, meta, payload) = self.snapshot.as_ref().unwrap();
        Checkpoint::decode(meta, payload, self.parts.len() as u64)
    }

    fn restore<Fold: Checkpointed>(&self) -> Result<Fold> {
        let checkpoint = self.checkpoint()?;
        let sequences: Vec<u64> = checkpoint.parts().flatten().collect();
        let parts = sequences.iter().map(|sequence| self.part(*sequence));
        restore(self.snapshot.as_ref().unwrap().0, checkpoint, parts)
    }
}

fn id(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1)
}

/// What is done to a fold, whatever it is of: an item is made, or one of those that are there is changed.
#[derive(Clone, Copy, Debug)]
enum Act {
    Make(u32),
    Change(u32, u32),
}

fn acts() -> impl Strategy<Value = Vec<Vec<Act>>> {
    let act = prop_oneof![
        any::<u32>().prop_map(Act::Make),
        (any::<u32>(), any::<u32>()).prop_map(|(one, how)| Act::Change(one, how))
    ];
    proptest::collection::vec(proptest::collection::vec(act, 0..40), 1..12)
}

/// A fold of which every answer can be compared.
trait Listed: Checkpointed {
    fn event(&self, act: Act) -> Option<Self::Event>;
    fn everything(&self) -> String;

    fn act(&mut self, act: Act) {
        let Some(event) = self.event(act) else { return };
        self.apply(self.last_sequence() + 1, event).unwrap();
    }
}

fn session(number: u32, name: Option<u32>) -> Session {
    Session {
        id: SessionId(id(number)),
        name: name.map(|name| format!("name {name}")),
        project: number.is_multiple_of(3).then(|| "p".to_owned()),
        title: Some(format!("title {number}")),
        status: SessionStatus::Active,
        metadata: number
            .is_multiple_of(2)
            .then(|| crate::RawJson::parse(r#"{ "b": 1.0 }"#).unwrap()),
        copied_from: None,
        created_at_ms: 1,
        updated_at_ms: 1,
        deleted_at_ms: None,
        chat: None,
    }
}

impl Listed for Catalog {
    fn event(&self, act: Act) -> Option<CatalogEvent> {
        let count = u32::try_from(self.items()).unwrap();
        match act {
            Act::Make(how) if how % 3 > 0 || count == 0 => {
                // Few names, so that they go from a session to the next.
                let name = Some(how % 5)
                    .filter(|name| self.session_named(&format!("name {name}")).is_none());
                Some(CatalogEvent::SessionCreated(session(count, name)))
            }
            Act::Make(how) => {
                let owner = (0..count)
                    .map(|place| SessionId(id((how + place) % count)))
                    .find(|id| self.session(*id).is_some())?;
                Some(CatalogEvent::InstanceCreated(AgentInstance {
                    id: InstanceId(id(count)),
                    session_id: owner,
                    agent_name: format!("agent {how}"),
                    parent_instance_id: how.is_multiple_of(2).then(|| InstanceId(id(how))),
                    created_at_ms: u64::from(how),
                }))
            }
            Act::Change(one, how) => {
                let id = SessionId(id(one.checked_rem(count)?));
                let session = self.session(id)?;
                let at_ms = u64::from(how);
                Some(match how % 5 {
                    0 if session.deleted_at_ms.is_none() => {
                        CatalogEvent::SessionDeleted { id, at_ms }
                    }
                    0 if session
                        .name
                        .as_deref()
                        .is_none_or(|name| self.session_named(name).is_none()) =>
                    {
                        CatalogEvent::SessionRestored { id, at_ms }
                    }
                    1 => CatalogEvent::SessionUpdated {
                        id,
                        at_ms,
                        changes: SessionChanges {
                            title: Some(format!("changed {how}")),
                            ..SessionChanges::default()
                        },
                    },
                    2 => CatalogEvent::ChatRequestChanged {
                        id,
                        request: OpenRequest {
                            number: 0,
                            request_id: format!("request {}", how % 5),
                            assistant_id: "travel".to_owned(),
                            status: RequestStatus::ALL[how as usize % 5],
                            created_at_ms: at_ms,
                            updated_at_ms: at_ms,
                        },
                    },
                    _ => CatalogEvent::ChatTouched { id, at_ms },
                })
            }
        }
    }

    fn everything(&self) -> String {
        let all = ListSessions {
            deleted: Deleted::Shown,
            limit: usize::MAX,
            ..ListSessions::default()
        };
        let sessions = self.list(&all, None).0;
        let instances: Vec<_> = sessions
            .iter()
            .map(|session| self.instances(session.id).collect::<Vec<_>>())
            .collect();
        let names: Vec<_> = (0..5)
            .map(|name| self.session_named(&format!("name {name}")))
            .collect();
        let requests: Vec<_> = self.open_requests(u64::MAX).collect();
        let chats = self
            .chats(
                &ChatFilter {
                    pagesize: 1_000,
                    ..ChatFilter::default()
                },
                None,
            )
            .unwrap();
        format!(
            "{} {sessions:?} {instances:?} {names:?} {chats:?} {requests:?}",
            self.last_sequence()
        )
    }
}

impl Listed for RunCatalog {
    fn event(&self, act: Act) -> Option<RunCatalogEvent> {
        let count = u32::try_from(self.len()).unwrap();
        Some(match act {
            Act::Make(how) => RunCatalogEvent::Created(Box::new(RunSummary {
                id: RunId(id(count)),
                project: how.is_multiple_of(2).then(|| "even".to_owned()),
                session_id: SessionId(id(how % 7)),
                instance_id: InstanceId(id(how)),
                agent_name: ["coder", "tester", "lead"][how as usize % 3].to_owned(),
                status: RunStatus::Running,
                step_count: how,
                parent_run_id: how
                    .checked_rem(count)
                    .map(|run| RunId(id(run)))
                    .filter(|_| how.is_multiple_of(5)),
                resumed_from: how
                    .checked_rem(count)
                    .map(|run| RunId(id(run)))
                    .filter(|_| how % 5 == 1),
                resumed_by: None,
                usage: None,
                metadata: None,
                created_at_ms: 1_000,
                completed_at_ms: None,
                duration_ms: None,
            })),
            Act::Change(one, how) if how.is_multiple_of(4) => RunCatalogEvent::Described {
                id: RunId(id(one.checked_rem(count)?)),
                sequence: how,
            },
            Act::Change(one, how) => RunCatalogEvent::StatusChanged {
                id: RunId(id(one.checked_rem(count)?)),
                status: RunStatus::ALL[how as usize % RunStatus::ALL.len()],
                step_count: how,
                at_ms: 1_000 + u64::from(how),
            },
        })
    }

    fn everything(&self) -> String {
        let all = || ListRuns {
            limit: usize::MAX,
            ..ListRuns::default()
        };
        let mut filters = vec![all()];
        filters.extend(RunStatus::ALL.map(|status| ListRuns {
            status: Some(status),
            ..all()
        }));
        filters.extend((0..7).map(|number| ListRuns {
            session_id: Some(SessionId(id(number))),
            ..all()
        }));
        filters.extend((0..30).map(|number| ListRuns {
            parent_run_id: Some(RunId(id(number))),
            ..all()
        }));
        filters.extend(["coder", "lead"].map(|agent| ListRuns {
            agent_name: Some(agent.to_owned()),
            ..all()
        }));
        filters.push(ListRuns {
            project: Some("even".to_owned()),
            ..all()
        });
        let lists: Vec<_> = filters
            .iter()
            .map(|filter| self.list(filter, None))
            .collect();
        format!("{} {lists:?}", self.last_sequence())
    }
}

/// Writes a fold down again and again, restores each and goes on with it: always it is the fold of all events.
fn is_the_same_after_each_checkpoint<Fold: Listed>(rounds: &[Vec<Act>]) {
    let (mut fold, mut all, mut disk) = (Fold::default(), Fold::default(), Disk::default());
    fold.act(Act::Make(1));
    all.act(Act::Make(1));
    for (number, round) in rounds.iter().enumerate() {
        let (before, meanwhile) = round.split_at(round.len() / 3 * 2);
        before.iter().for_each(|act| fold.act(*act));
        disk.write(&mut fold, |fold| {
            meanwhile.iter().for_each(|act| fold.act(*act))
        });
        before.iter().for_each(|act| all.act(*act));
        let mut restored: Fold = disk.restore().unwrap();
        assert_eq!(restored.everything(), all.everything());
        assert_eq!(
            (restored.events_since_checkpoint(), restored.items()),
            (0, all.items())
        );
        meanwhile.iter().for_each(|act| {
            restored.act(*act);
            all.act(*act);
        });
        assert_eq!(restored.everything(), all.everything());
        // Every other one goes on as a process that was restarted.
        if number % 2 == 0 {
            fold = restored;
        }
    }
}

/// Restores what a hostile hand has changed, whose CRCs are right: an error, or a fold that answers; never a panic.
fn survives<Fold: Listed>(disk: &Disk) {
    let Ok(mut checkpoint) = disk.checkpoint() else {
        return;
    };
    for span in checkpoint.chunks.iter_mut().chain(
        checkpoint
            .changes
            .iter_mut()
            .map(|changes| &mut changes.span),
    ) {
        let mut crc = runlog_log::crc::Hasher::new();
        span.sequences()
            .for_each(|sequence| crc.update(disk.part(sequence)));
        span.crc = crc.finalize();
    }
    let sequences: Vec<u64> = checkpoint.parts().flatten().collect();
    let parts = sequences.iter().map(|sequence| disk.part(*sequence));
    if let Ok(fold) = restore::<Fold>(disk.snapshot.as_ref().unwrap().0, checkpoint, parts) {
        let _ = fold.everything();
    }
}

/// What is damaged by chance is refused, or wasn't needed.
fn is_refused_or_right(disk: &Disk, catalog: &Catalog, runs: &RunCatalog) {
    if let Ok(fold) = disk.restore::<Catalog>() {
        assert_eq!(fold.everything(), catalog.everything());
    }
    if let Ok(fold) = disk.restore::<RunCatalog>() {
        assert_eq!(fold.everything(), runs.everything());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_restored_catalog_is_the_fold_of_all_events(rounds in acts()) {
        is_the_same_after_each_checkpoint::<Catalog>(&rounds);
    }

    #[test]
    fn a_restored_runs_catalog_is_the_fold_of_all_events(rounds in acts()) {
        is_the_same_after_each_checkpoint::<RunCatalog>(&rounds);
    }

    #[test]
    fn damaged_parts_and_snapshots_never_panic(
        rounds in acts(),
        part in any::<proptest::sample::Index>(),
        at in any::<proptest::sample::Index>(),
        bit in 0..8_u32,
        swap in any::<proptest::sample::Index>(),
    ) {
        let (mut sessions, mut runs) = (Disk::default(), Disk::default());
        let (mut catalog, mut run_catalog) = (Catalog::default(), RunCatalog::default());
        for round in &rounds {
            round.iter().for_each(|act| {
                catalog.act(*act);
                run_catalog.act(*act);
            });
            sessions.write(&mut catalog, |_| {});
            runs.write(&mut run_catalog, |_| {});
        }
        for disk in [&mut sessions, &mut runs] {
            if disk.parts.is_empty() {
                continue;
            }
            let (one, other) = (part.index(disk.parts.len()), swap.index(disk.parts.len()));
            let whole = disk.parts.clone();
            let byte = at.index(disk.parts[one].len());
            disk.parts[one][byte] ^= 1 << bit;
            is_refused_or_right(disk, &catalog, &run_catalog);
            survives::<Catalog>(disk);
            survives::<RunCatalog>(disk);
            disk.parts.clone_from(&whole);
            disk.parts[one].truncate(byte);
            survives::<Catalog>(disk);
            survives::<RunCatalog>(disk);
            disk.parts.clone_from(&whole);
            disk.parts.swap(one, other);
            survives::<Catalog>(disk);
            survives::<RunCatalog>(disk);
            let (_, _, payload) = disk.snapshot.as_mut().unwrap();
            let byte = at.index(payload.len());
            payload[byte] ^= 1 << bit;
            let (_, meta, payload) = disk.snapshot.as_ref().unwrap();
            prop_assert!(Checkpoint::decode(meta, payload, u64::MAX).is_err());
            let with_crc = (1, codec::encode_checkpoint_meta(payload), payload.clone());
            disk.snapshot = Some(with_crc);
            survives::<Catalog>(disk);
            survives::<RunCatalog>(disk);
        }
    }

    #[test]
    fn snapshots_that_are_made_up_never_panic_nor_ask_for_much(
        items in select(vec![0, 1, 8, 9, u64::MAX]),
        spans in proptest::collection::vec((0..5_u64, select(vec![0, 1, 2, 3, u64::MAX])), 0..5),
    ) {
        let spans = spans.into_iter().map(|(first, last)| Span { first, last, crc: 0 });
        let changes = spans.clone().map(|span| Changes { span, items: 1 });
        for changes in [Vec::new(), changes.collect()] {
            let made_up = Checkpoint { items, chunks: spans.clone().collect(), changes };
            let (meta, payload) = made_up.encode().unwrap();
            if let Ok(checkpoint) = Checkpoint::decode(&meta, &payload, 4) {
                prop_assert!(checkpoint.parts().map(Iterator::count).sum::<usize>() <= 4);
            }
        }
    }
}

fn many<Fold: Listed>(items: u32) -> (Fold, Disk) {
    let (mut fold, mut disk) = (Fold::default(), Disk::default());
    (0..items).for_each(|number| fold.act(Act::Make(number * 3 + 1)));
    disk.write(&mut fold, |_| {});
    (fold, disk)
}

/// What is written down follows what changed, also where changes are scattered over everything; and what is to be
/// read again stays below twice the items.
fn costs_what_changed<Fold: Listed + Debug>() {
    let items = 100 * u32::try_from(CHUNK).unwrap();
    let (mut fold, mut disk) = many::<Fold>(items);
    let (mut written, mut changed) = (0, 0);
    let mut place = 0_u32;
    for _ in 0..400 {
        for _ in 0..10 {
            place = place.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            fold.act(Act::Change(place % items, 2));
            changed += 1;
        }
        written += disk.write(&mut fold, |_| {});
        let checkpoint = disk.checkpoint().unwrap();
        let listed: u64 = u64::from(items)
            + checkpoint
                .changes
                .iter()
                .map(|changes| changes.items)
                .sum::<u64>();
        assert!(listed < u64::from(items) * 2, "{listed} of {items} items");
    }
    // Each changed item once, its share of the chunks that are written again, and a chunk more for each checkpoint.
    let places: Vec<u32> = (0..items).collect();
    let per_item = fold.encode_part(&places).unwrap().len() / items as usize;
    let most = changed * per_item * 4 + 400 * CHUNK * per_item;
    assert!(
        written < most,
        "{written} bytes for {changed} changes of {per_item} bytes"
    );
    let restored: Fold = disk.restore().unwrap();
    assert_eq!(restored.everything(), fold.everything());
}

#[test]
fn a_checkpoint_of_runs_costs_what_changed() {
    costs_what_changed::<RunCatalog>();
}

#[test]
fn a_checkpoint_of_sessions_costs_what_changed() {
    costs_what_changed::<Catalog>();
}

#[test]
fn what_did_not_change_is_not_written() {
    let (mut fold, mut disk) = many::<RunCatalog>(100);
    let before = disk.parts.len();
    assert_eq!(disk.write(&mut fold, |_| {}), 0);
    fold.act(Act::Change(7, 1));
    disk.write(&mut fold, |_| {});
    assert_eq!(disk.parts.len(), before + 1);
    let part: RunPart = codec::decode_part(disk.parts.last().unwrap()).unwrap();
    assert_eq!(
        part.runs.iter().map(|run| run.place).collect::<Vec<_>>(),
        [7]
    );
}

#[test]
fn a_checkpoint_of_other_parts_is_refused() {
    let (_, disk) = many::<RunCatalog>(20);
    let checkpoint = disk.checkpoint().unwrap();
    let parts = || disk.parts.iter().map(Vec::as_slice);
    let restore_runs = |checkpoint: &Checkpoint, parts: Vec<&[u8]>| {
        restore::<RunCatalog>(5, checkpoint.clone(), parts)
    };
    restore_runs(&checkpoint, parts().collect()).unwrap();
    let fewer = Checkpoint {
        items: 19,
        ..checkpoint.clone()
    };
    let refused = [
        restore_runs(&fewer, parts().collect()),
        restore_runs(&checkpoint, parts().skip(1).collect()),
        restore_runs(&checkpoint, parts().rev().collect()),
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Damaged);
    }
    let of_sessions = restore::<Catalog>(5, checkpoint.clone(), parts());
    assert_eq!(of_sessions.unwrap_err().kind(), ErrorKind::Damaged);

    let (meta, payload) = checkpoint.encode().unwrap();
    assert_eq!(
        Checkpoint::decode(&[codec::CHECKPOINT_VERSION + 1], &payload, 9)
            .unwrap_err()
            .kind(),
        ErrorKind::UnsupportedVersion
    );
    assert_eq!(
        Checkpoint::decode(&meta, &payload, 2).unwrap_err().kind(),
        ErrorKind::Damaged,
        "more than there are"
    );
    for (meta, payload) in [
        (&meta[..], &b"{}"[..]),
        (&meta[..4], &payload),
        (&meta[..1], &payload),
        (&[], &payload),
    ] {
        assert_eq!(
            Checkpoint::decode(meta, payload, 9).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }
    let empty = restore::<Catalog>(5, Checkpoint::default(), [[]]);
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Damaged);
}

#[test]
fn large_items_get_parts_of_their_own() {
    let mut catalog = Catalog::new();
    let metadata = crate::RawJson::string(&"x".repeat(700 << 10));
    for number in 0..4 {
        let large = Session {
            metadata: Some(metadata.clone()),
            ..session(number, None)
        };
        catalog
            .apply(u64::from(number) + 1, CatalogEvent::SessionCreated(large))
            .unwrap();
    }
    let mut disk = Disk::default();
    disk.write(&mut catalog, |_| {});
    assert_eq!(disk.parts.len(), 4);
    assert_eq!(
        disk.restore::<Catalog>().unwrap().everything(),
        catalog.everything()
    );
}
