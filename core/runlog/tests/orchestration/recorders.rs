//! Runs at work that a recorder of their own ends or pauses, beside the orchestrator.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use runlog::{
    ErrorKind, RunStatus,
    agents::{OrchestratorOptions, RunContext, SpawnRequest},
    runs::{ListRuns, StopKind},
};

use crate::{
    claims,
    support::{World, forever, options},
};

claims! {
    a_run_that_its_recorder_ends_is_stopped_with_those_below
    a_run_whose_recorder_ends_it_before_its_turn_is_never_begun
    an_agent_that_ends_its_run_by_a_recorder_itself_is_not_waited_for
    a_run_of_another_hand_that_its_recorder_ends_takes_its_sub_agents_with_it
}

/// What a recorder ends a run as.
const ENDS: [(RunStatus, StopKind, RunStatus); 4] = [
    (
        RunStatus::Cancelled,
        StopKind::Cancelled,
        RunStatus::Cancelled,
    ),
    (RunStatus::Paused, StopKind::Requested, RunStatus::Paused),
    (
        RunStatus::Completed,
        StopKind::Requested,
        RunStatus::Cancelled,
    ),
    (RunStatus::Failed, StopKind::Requested, RunStatus::Cancelled),
];

async fn end_as(world: &World, id: runlog::RunId, status: RunStatus) {
    let recorder = world.store.runs().recorder(id).await.unwrap();
    match status {
        RunStatus::Cancelled => recorder.cancel(None).await.unwrap(),
        RunStatus::Paused => recorder.pause("needs a person").await.unwrap(),
        RunStatus::Completed => recorder.complete(Some("enough")).await.unwrap(),
        RunStatus::Failed => recorder.fail("lost").await.unwrap(),
        RunStatus::Running => unreachable!("no end"),
    };
}

/// Asserts that a run has spawned two, and what became of them.
async fn assert_children(world: &World, parent: runlog::RunId, status: RunStatus) {
    let filter = ListRuns {
        parent_run_id: Some(parent),
        ..ListRuns::default()
    };
    let children = world.store.runs().list(&filter).await.unwrap().items;
    assert_eq!(children.len(), 2);
    assert!(
        children.iter().all(|run| run.status == status),
        "{children:?}"
    );
}

async fn a_run_that_its_recorder_ends_is_stopped_with_those_below(world: World) {
    let stops = Arc::new(Mutex::new(Vec::new()));
    let begun = Arc::new(AtomicUsize::new(0));
    let (told, counted) = (Arc::clone(&stops), Arc::clone(&begun));
    world
        .agent("node", move |run: RunContext| {
            let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
            async move {
                counted.fetch_add(1, Ordering::SeqCst);
                if run.depth() == 0 {
                    let below = run.clone();
                    tokio::spawn(async move {
                        let requests = vec![SpawnRequest::new("node", "t"); 2];
                        below.spawn_agents(requests).await
                    });
                    run.cancelled().await;
                    told.lock().unwrap().push(run.stop_reason().unwrap().kind);
                }
                // It records nothing any more, and never returns.
                forever().await
            }
        })
        .await;
    for (end, kind, below) in ENDS {
        begun.store(0, Ordering::SeqCst);
        let root = world.orchestrator.start(world.start("node")).await.unwrap();
        while begun.load(Ordering::SeqCst) < 3 {
            tokio::task::yield_now().await;
        }
        end_as(&world, root.run_id(), end).await;
        assert_eq!(root.wait().await.unwrap().status, end);
        assert_eq!(stops.lock().unwrap().pop(), Some(kind), "{end}");
        assert_children(&world, root.run_id(), below).await;
        // Those below are forgotten after the run itself.
        while world.orchestrator.live_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.run(root.run_id()).await.status, end);
    }
}

async fn a_run_whose_recorder_ends_it_before_its_turn_is_never_begun(world: World) {
    let world = world.bounded(OrchestratorOptions {
        concurrent_max: 1,
        ..options()
    });
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    world
        .agent("worker", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { forever().await }
        })
        .await;
    let first = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    while begun.load(Ordering::SeqCst) < 1 {
        tokio::task::yield_now().await;
    }
    let second = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    end_as(&world, second.run_id(), RunStatus::Cancelled).await;
    assert_eq!(second.wait().await.unwrap().status, RunStatus::Cancelled);
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    first.cancel().await.unwrap();
}

async fn an_agent_that_ends_its_run_by_a_recorder_itself_is_not_waited_for(world: World) {
    let store = world.store.clone();
    world
        .agent("worker", move |run: RunContext| {
            let store = store.clone();
            async move {
                let recorder = store.runs().recorder(run.run_id()).await?;
                recorder.complete(Some("by itself")).await?;
                Ok("what it returns comes too late".into())
            }
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    let result = run.wait().await.unwrap();
    assert_eq!(result.status, RunStatus::Completed);
    assert_eq!(result.summary.as_deref(), Some("by itself"));
}

async fn a_run_of_another_hand_that_its_recorder_ends_takes_its_sub_agents_with_it(world: World) {
    world.agent("leaf", |_| async { forever().await }).await;
    for (end, _, below) in ENDS {
        let parent = world.parent().await;
        let requests = vec![SpawnRequest::new("leaf", "t"); 2];
        let spawn = world.orchestrator.spawn_agents(parent, requests);
        let ending = async {
            while world.orchestrator.live_count() < 3 {
                tokio::task::yield_now().await;
            }
            end_as(&world, parent, end).await;
        };
        let (spawned, ()) = tokio::join!(spawn, ending);
        assert_eq!(spawned.unwrap_err().kind(), ErrorKind::WrongStatus);
        // The call that spawned them doesn't wait until they have stopped.
        while world.orchestrator.live_count() > 0 {
            tokio::task::yield_now().await;
        }
        assert_children(&world, parent, below).await;
    }
}
