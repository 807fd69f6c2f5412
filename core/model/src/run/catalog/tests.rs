use proptest::prelude::*;

use super::*;
use crate::{Checkpointed, ErrorKind};

fn id(number: u32) -> RunId {
    RunId(Uuid::from_u128(u128::from(number) + 1))
}

fn run(number: u32) -> RunSummary {
    RunSummary {
        id: id(number),
        project: number.is_multiple_of(2).then(|| "even".to_owned()),
        session_id: SessionId(Uuid::from_u128(u128::from(number / 4))),
        instance_id: InstanceId(Uuid::from_u128(u128::from(number) << 32)),
        agent_name: if number.is_multiple_of(3) {
            "coder"
        } else {
            "tester"
        }
        .into(),
        status: RunStatus::Running,
        step_count: number,
        parent_run_id: (number % 5 == 4).then(|| id(number - 4)),
        resumed_from: (number % 7 == 6).then(|| id(number - 1)),
        resumed_by: None,
        usage: None,
        metadata: None,
        created_at_ms: 1_000 + u64::from(number),
        completed_at_ms: None,
        duration_ms: None,
    }
}

fn ended(number: u32, status: RunStatus) -> RunCatalogEvent {
    RunCatalogEvent::StatusChanged {
        id: id(number),
        status,
        step_count: number + 2,
        at_ms: 2_000 + u64::from(number),
    }
}

fn catalog(runs: u32) -> RunCatalog {
    let mut catalog = RunCatalog::new();
    for number in 0..runs {
        push(
            &mut catalog,
            &RunCatalogEvent::Created(Box::new(run(number))),
        );
        match number % 4 {
            1 => push(&mut catalog, &ended(number, RunStatus::Completed)),
            2 => push(&mut catalog, &ended(number, RunStatus::Paused)),
            _ => {}
        }
    }
    catalog
}

fn push(catalog: &mut RunCatalog, event: &RunCatalogEvent) {
    let encoded = event.encode().unwrap();
    let event = RunCatalogEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap();
    catalog.apply(catalog.last_sequence() + 1, event).unwrap();
}

fn all(catalog: &RunCatalog, filter: &ListRuns) -> Vec<RunSummary> {
    let mut runs = Vec::new();
    let mut before = None;
    loop {
        let page = catalog.list(filter, before);
        assert!(page.items.len() <= filter.limit);
        runs.extend(page.items);
        before = page.next;
        if before.is_none() {
            return runs;
        }
    }
}

/// The same by looking at every run.
fn slowly(catalog: &RunCatalog, runs: u32, filter: &ListRuns) -> Vec<RunSummary> {
    let all = (0..runs)
        .rev()
        .map(|number| catalog.run(id(number)).unwrap().run);
    let fits = |run: &RunSummary| {
        filter.status.is_none_or(|status| run.status == status)
            && filter
                .agent_name
                .as_ref()
                .is_none_or(|agent| run.agent_name == *agent)
            && filter.project.is_none_or_same(&run.project)
            && filter
                .session_id
                .is_none_or(|session| run.session_id == session)
            && filter
                .parent_run_id
                .is_none_or(|parent| run.parent_run_id == Some(parent))
    };
    all.filter(fits).collect()
}

trait NoneOrSame {
    fn is_none_or_same(&self, other: &Self) -> bool;
}

impl NoneOrSame for Option<String> {
    fn is_none_or_same(&self, other: &Self) -> bool {
        self.is_none() || self == other
    }
}

fn filters() -> impl Strategy<Value = ListRuns> {
    (
        proptest::option::of(proptest::sample::select(RunStatus::ALL.to_vec())),
        proptest::option::of(proptest::sample::select(vec!["coder", "tester", "nobody"])),
        proptest::option::of(0..60_u32),
        proptest::option::of(0..14_u128),
        proptest::option::of(Just("even".to_owned())),
        1..9_usize,
    )
        .prop_map(
            |(status, agent, parent, session, project, limit)| ListRuns {
                status,
                agent_name: agent.map(str::to_owned),
                parent_run_id: parent.map(id),
                session_id: session.map(|session| SessionId(Uuid::from_u128(session))),
                project,
                limit,
                cursor: None,
            },
        )
}

proptest! {
    #[test]
    fn pages_of_any_filter_are_the_runs_that_pass_it(runs in 0..50_u32, filter in filters()) {
        let catalog = catalog(runs);
        prop_assert_eq!(all(&catalog, &filter), slowly(&catalog, runs, &filter));
    }
}

#[test]
fn pages_stay_right_while_runs_are_made() {
    let mut catalog = catalog(20);
    let filter = ListRuns {
        agent_name: Some("coder".into()),
        limit: 3,
        ..ListRuns::default()
    };
    let before = all(&catalog, &filter);
    let first = catalog.list(&filter, None);
    for number in 20..30 {
        push(
            &mut catalog,
            &RunCatalogEvent::Created(Box::new(run(number))),
        );
    }
    let second = catalog.list(&filter, first.next);
    assert_eq!([first.items, second.items].concat(), before[..6]);
}

#[test]
fn a_status_tells_times_and_steps() {
    let catalog = catalog(3);
    let completed = catalog.run(id(1)).unwrap().run;
    assert_eq!(
        (completed.step_count, completed.completed_at_ms),
        (3, Some(2_001))
    );
    assert_eq!(completed.duration_ms, Some(1_000));
    let paused = catalog.run(id(2)).unwrap().run;
    assert_eq!(
        (paused.completed_at_ms, paused.duration_ms),
        (None, Some(1_000))
    );
    assert_eq!(
        catalog.with_status(RunStatus::Running).collect::<Vec<_>>(),
        [id(0)]
    );
}

#[test]
fn a_run_that_was_resumed_says_by_which() {
    let catalog = catalog(7);
    let by = |number| catalog.run(id(number)).unwrap().run.resumed_by;
    assert_eq!((by(4), by(5), by(6)), (None, Some(id(6)), None));
    let mut again = RunCatalog::new();
    // Also where the parts were written before and after it was.
    for places in [&[0, 1, 2, 3, 4, 5][..], &[6]] {
        again
            .add_part(&catalog.encode_part(places).unwrap())
            .unwrap();
    }
    again.restored().unwrap();
    assert_eq!(again.run(id(5)), catalog.run(id(5)));
}

#[test]
fn an_event_that_does_not_follow_is_damage() {
    let mut catalog = catalog(4);
    let next = catalog.last_sequence() + 1;
    let stranger = RunSummary {
        parent_run_id: Some(id(999)),
        ..run(4)
    };
    let another = RunSummary {
        instance_id: InstanceId(Uuid::from_u128(999)),
        ..run(0)
    };
    let events = [
        RunCatalogEvent::Created(Box::new(another)),
        ended(999, RunStatus::Failed),
        RunCatalogEvent::Created(Box::new(stranger)),
    ];
    for event in events {
        assert_eq!(
            catalog.apply(next, event).unwrap_err().kind(),
            ErrorKind::Damaged
        );
    }
    assert_eq!(
        catalog
            .apply(next + 1, RunCatalogEvent::Created(Box::new(run(5))))
            .unwrap_err()
            .kind(),
        ErrorKind::Damaged
    );
    assert_eq!((catalog.len(), catalog.last_sequence()), (4, next - 1));
    // Listed again by a repair, it is as it is then.
    let again = RunSummary {
        status: RunStatus::Failed,
        duration_ms: Some(1),
        ..run(0)
    };
    let again = RunCatalogEvent::Created(Box::new(again));
    catalog.apply(next, again).unwrap();
    let listed = catalog.run(id(0)).unwrap().run;
    assert_eq!((catalog.len(), listed.status), (4, RunStatus::Failed));
}
