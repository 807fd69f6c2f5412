use proptest::prelude::*;

use super::*;
use crate::{Checkpoint, Checkpointed, ErrorKind};

const STATUSES: [&str; 4] = ["running", "waiting for a person", "completed", "failed"];

fn id(number: u32) -> RunId {
    RunId(Uuid::from_u128(u128::from(number) + 1))
}

fn saved(number: u32, status: &str) -> FlowCatalogEvent {
    FlowCatalogEvent {
        run_id: id(number),
        status: status.to_owned(),
        is_of_run: number.is_multiple_of(2),
        parent_run_id: (number % 3 == 1).then(|| id(1_000 + number % 4)),
        resumed_from: (number % 5 == 4).then(|| id(number - 1)),
        at_ms: 1_000 + u64::from(number),
    }
}

fn push(catalog: &mut FlowCatalog, event: &FlowCatalogEvent) {
    let encoded = event.encode().unwrap();
    let event = FlowCatalogEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap();
    catalog.apply(catalog.last_sequence() + 1, event).unwrap();
}

fn catalog(flows: u32) -> FlowCatalog {
    let mut catalog = FlowCatalog::new();
    for number in 0..flows {
        push(&mut catalog, &saved(number, "running"));
        let status = STATUSES[number as usize % 4];
        push(
            &mut catalog,
            &FlowCatalogEvent {
                at_ms: 5_000,
                ..saved(number, status)
            },
        );
    }
    catalog
}

fn all(catalog: &FlowCatalog, filter: &ListFlows) -> Vec<FlowSummary> {
    let (mut flows, mut before) = (Vec::new(), None);
    loop {
        let page = catalog.list(filter, before, |flow| flow);
        assert!(page.items.len() <= filter.limit);
        flows.extend(page.items);
        before = page.next;
        if before.is_none() {
            return flows;
        }
    }
}

fn written_down(catalog: &FlowCatalog) -> FlowCatalog {
    let (parts, checkpoint) = catalog.checkpoint(1).unwrap();
    let (meta, payload) = checkpoint.encode().unwrap();
    let checkpoint = Checkpoint::decode(&meta, &payload, parts.len() as u64).unwrap();
    let read: Vec<&[u8]> = checkpoint
        .parts()
        .flat_map(|part| part.map(|sequence| &parts[usize::try_from(sequence).unwrap() - 1][..]))
        .collect();
    crate::checkpoint::restoration::restore::<FlowCatalog>(
        catalog.last_sequence(),
        checkpoint,
        read,
    )
    .unwrap()
}

proptest! {
    #[test]
    fn pages_of_any_filter_are_the_flows_that_pass_it(
        flows in 0..40_u32,
        status in proptest::option::of(proptest::sample::select(STATUSES.to_vec())),
        parent in proptest::option::of(1_000..1_005_u32),
        resumable: bool,
        limit in 1..6_usize,
    ) {
        let catalog = catalog(flows);
        let filter = ListFlows {
            status: status.map(str::to_owned), parent_run_id: parent.map(id), resumable, limit, cursor: None,
        };
        let slowly: Vec<FlowSummary> =
            (0..flows).rev().map(|number| catalog.flow(id(number)).unwrap()).filter(|flow| admits(&filter, flow)).collect();
        prop_assert_eq!(all(&catalog, &filter), slowly);
    }

    #[test]
    fn a_catalog_that_was_written_down_is_the_same(flows in 1..40_u32) {
        let before = catalog(flows);
        let after = written_down(&before);
        for filter in [ListFlows::default(), ListFlows { resumable: true, ..ListFlows::default() }] {
            prop_assert_eq!(all(&before, &filter), all(&after, &filter));
        }
    }

    #[test]
    fn hostile_events_and_parts_never_panic(kind in 110_u8..116, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = FlowCatalogEvent::decode(kind, &[1], &bytes);
        let _ = FlowCatalog::new().add_part(&bytes);
        let _ = catalog(3).change_part(&bytes, &|_| true);
    }
}

#[test]
fn a_flow_that_another_goes_on_with_is_over() {
    let catalog = catalog(5);
    let (before, after) = (catalog.flow(id(3)).unwrap(), catalog.flow(id(4)).unwrap());
    assert_eq!(
        (before.resumed_by, after.resumed_from),
        (Some(id(4)), Some(id(3)))
    );
    assert!(before.is_over && !after.is_over);
}

#[test]
fn an_event_that_does_not_follow_is_damage() {
    let mut catalog = catalog(1);
    assert_eq!(
        catalog.apply(9, saved(1, "running")).unwrap_err().kind(),
        ErrorKind::Damaged
    );
    catalog.apply(1, saved(7, "running")).unwrap();
    assert_eq!(
        catalog.len(),
        1,
        "an event that was applied changes nothing"
    );
}
