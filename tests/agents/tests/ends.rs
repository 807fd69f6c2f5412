//! Cancelling a tree of agents costs one flush, however many there are.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{sync::Arc, time::Duration};

use runlog::{
    AgentDefinition, NewMessage, Orchestrator, RunStatus, Store, StoreOptions,
    agents::{
        OrchestratorOptions, RunContext, SpawnRequest, StartAgent, TokioRuntime, executor_fn,
    },
    runs::ListRuns,
};
use runlog_agent_tests::tree::Shape;
use runlog_tests::faulty::{Call, FaultyStorage};

/// The root, and 1,364 below it.
const SHAPE: Shape = Shape { deep: 5, wide: 4 };

#[test]
fn a_tree_of_a_thousand_five_deep_is_cancelled_with_one_flush() {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    tokio.block_on(async {
        let storage = FaultyStorage::new();
        let store = Store::open_on(Arc::new(storage.clone()), StoreOptions::default()).unwrap();
        store
            .agents()
            .define(AgentDefinition::new("node", ""))
            .await
            .unwrap();
        let options = OrchestratorOptions {
            concurrent_max: 2 * SHAPE.agents(),
            ..OrchestratorOptions::default()
        };
        let orchestrator =
            Orchestrator::new(store.clone(), TokioRuntime::current().unwrap(), options);
        orchestrator.register(
            "node",
            executor_fn(|run: RunContext| async move {
                run.next_step().await?;
                run.record_message(NewMessage::assistant("half of it"))
                    .await?;
                if run.depth() < SHAPE.deep {
                    run.spawn_agents(vec![SpawnRequest::new("node", "t"); SHAPE.wide])
                        .await?;
                }
                std::future::pending::<runlog::Result<()>>().await
            }),
        );
        let root = orchestrator
            .start(StartAgent::new("node", "t"))
            .await
            .unwrap();
        let of_status = |status| ListRuns {
            status: Some(status),
            limit: usize::MAX,
            ..ListRuns::default()
        };
        loop {
            let running = store
                .runs()
                .list(&of_status(RunStatus::Running))
                .await
                .unwrap()
                .items;
            if running.len() == SHAPE.agents() && running.iter().all(|run| run.step_count == 1) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        storage.take_trace();
        root.cancel().await.unwrap();
        let trace = storage.take_trace();
        let flushes: Vec<_> = trace
            .iter()
            .filter(|op| matches!(op.call, Call::Sync | Call::WriteDurableAt))
            .collect();
        assert_eq!(flushes.len(), 1, "{flushes:?}");

        let cancelled = store
            .runs()
            .list(&of_status(RunStatus::Cancelled))
            .await
            .unwrap()
            .items;
        assert_eq!(cancelled.len(), SHAPE.agents());
        for run in cancelled {
            let context = store
                .context(run.instance_id)
                .await
                .unwrap()
                .get_messages()
                .await
                .unwrap();
            assert!(
                context[1].json.as_str().contains("half of it"),
                "its work is readable"
            );
        }
    });
}
