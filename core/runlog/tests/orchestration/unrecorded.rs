//! What is told of runs whose end the storage refused.

use std::sync::Arc;

use runlog::{
    ErrorKind, RunId, RunStatus, Store,
    agents::{RunContext, SpawnRequest},
    backend::Backend,
    engine::StreamId,
    runs::{ListRuns, ResumeOptions},
};

use crate::{
    claims,
    support::{World, forever, leaf_that_waits, options, resume_all_and_tell},
    watched::Watched,
};

claims! {
    a_sub_agent_that_somebody_else_went_on_with_has_no_end_that_could_be_written
}

/// The sub-agent of a run, once it is there.
async fn sub_agent(world: &World, parent: RunId) -> RunId {
    let below = ListRuns {
        parent_run_id: Some(parent),
        ..ListRuns::default()
    };
    loop {
        if let Some(run) = world.store.runs().list(&below).await.unwrap().items.first() {
            return run.id;
        }
        tokio::task::yield_now().await;
    }
}

async fn a_sub_agent_that_somebody_else_went_on_with_has_no_end_that_could_be_written(
    world: World,
) {
    world
        .agent("leaf", |_: RunContext| async { forever().await })
        .await;
    world
        .agent("root", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("leaf", "t")])
                .await?;
            Ok(().into())
        })
        .await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    let leaf = sub_agent(&world, root.run_id()).await;

    // The next process.
    let watched = Watched::new(Arc::clone(world.store.backend()));
    let next = World::new(
        Store::with_backend(Arc::clone(&watched) as Arc<dyn Backend>),
        options(),
    );
    let go_on = leaf_that_waits(&next).await;
    next.store.recover_runs().await.unwrap();
    let by_hand = next
        .orchestrator
        .resume(leaf, &ResumeOptions::default(), None)
        .await
        .unwrap();
    watched.refuse(Some(StreamId(by_hand.run_id().as_uuid())));
    let report = resume_all_and_tell(&next, &go_on).await;
    assert!(watched.refusals() > 0, "its end was to be written");
    assert_eq!(by_hand.wait().await.unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(
        next.run(by_hand.run_id()).await.status,
        RunStatus::Running,
        "there is no end of it"
    );
    let [(_, result)] = &report.resumed[..] else {
        panic!("{report:?}")
    };
    let summary = result.summary.as_deref().unwrap();
    assert!(
        summary.contains("how the run ended could not be recorded"),
        "{summary}"
    );
    assert!(
        summary.contains("refused") && !summary.contains("running"),
        "{summary}"
    );
}
