//! What a run takes in memory, measured. A test binary of its own, so that nothing else is measured with it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test looks at its own process, and tells"
)]

mod measured;

use measured::{id, resident};
use runlog_model::{
    Checkpointed, InstanceId, RunCatalog, RunCatalogEvent, RunId, RunStatus, RunSummary, SessionId,
};

const RUNS: u32 = 200_000;
const BYTES_PER_RUN_MAX: u64 = 200;

#[test]
fn a_run_with_a_session_of_its_own_takes_less_than_200_bytes() {
    let mut catalog = RunCatalog::new();
    let before = resident();
    for number in 0..RUNS {
        let place = u128::from(number) + 1;
        let run = RunSummary {
            id: RunId(id(place)),
            project: Some(format!("project {}", number % 100)),
            session_id: SessionId(id(place << 40)),
            instance_id: InstanceId(id(place << 60)),
            agent_name: format!("agent {}", number % 1_000),
            status: RunStatus::Running,
            step_count: 0,
            parent_run_id: (number > 0).then(|| RunId(id(place / 2))),
            resumed_from: None,
            resumed_by: None,
            usage: None,
            metadata: None,
            created_at_ms: 1_700_000_000_000,
            completed_at_ms: None,
            duration_ms: None,
        };
        let id = run.id;
        catalog
            .apply(
                catalog.last_sequence() + 1,
                RunCatalogEvent::Created(Box::new(run)),
            )
            .unwrap();
        let status = RunStatus::ALL[number as usize % 5];
        let ended = RunCatalogEvent::StatusChanged {
            id,
            status,
            step_count: 7,
            at_ms: 1_700_000_100_000,
        };
        catalog.apply(catalog.last_sequence() + 1, ended).unwrap();
    }
    let bytes = (resident() - before) / u64::from(RUNS);
    println!("{bytes} bytes per run of {RUNS}");
    assert!(bytes < BYTES_PER_RUN_MAX, "{bytes} bytes per run");
    assert_eq!(catalog.len(), RUNS as usize);
}
