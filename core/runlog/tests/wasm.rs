//! The orchestration on JavaScript's event loop, in Node: `cargo xtask wasm` runs it.

#![cfg(target_family = "wasm")]
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]
#![allow(
    clippy::cast_possible_truncation,
    reason = "JavaScript has numbers of one kind"
)]

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use runlog::{
    AgentDefinition, NewMessage, Orchestrator, RunStatus, Store,
    agents::{
        AgentEnd, JsRuntime, OrchestratorOptions, RunContext, Runtime, SpawnRequest, StartAgent,
        executor_fn,
    },
    engine::Host,
    runs::{ResumeOptions, pause_reason},
};
use wasm_bindgen_test::wasm_bindgen_test;

struct JsHost;

impl Host for JsHost {
    fn now_ms(&self) -> u64 {
        js_sys::Date::now() as u64
    }

    fn random(&self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = (js_sys::Math::random() * 256.0) as u8;
        }
    }

    fn has_threads(&self) -> bool {
        false
    }
}

/// On the log in memory, and on the engine over files in memory.
fn stores() -> Vec<Store> {
    let options = runlog::StoreOptions::with_host(Arc::new(JsHost));
    let files = Arc::new(runlog::engine::storage::MemoryStorage::new());
    vec![
        Store::in_memory_with(Arc::new(JsHost)),
        Store::open_on(files, options).unwrap(),
    ]
}

async fn world(store: Store) -> Orchestrator {
    for name in ["root", "leaf"] {
        store
            .agents()
            .define(AgentDefinition::new(name, ""))
            .await
            .unwrap();
    }
    let options = OrchestratorOptions {
        stop_grace: Duration::from_millis(20),
        ..OrchestratorOptions::default()
    };
    Orchestrator::new(store, JsRuntime, options)
}

/// A root that spawns two, one after the other of which is to do what `task` says.
fn root(orchestrator: &Orchestrator, requests: Vec<SpawnRequest>) {
    orchestrator.register(
        "root",
        executor_fn(move |run: RunContext| {
            let requests = requests.clone();
            async move {
                run.next_step().await?;
                let results = run.spawn_agents(requests).await?;
                let told: Vec<_> = results.iter().map(|result| result.status.name()).collect();
                Ok::<_, runlog::Error>(told.join(" "))
            }
        }),
    );
}

async fn steps(run: &RunContext, count: u32) -> runlog::Result<()> {
    for _ in 0..count {
        run.next_step().await?;
        run.record_message(NewMessage::assistant("a step")).await?;
    }
    Ok(())
}

#[wasm_bindgen_test]
async fn sub_agents_work_in_parallel_and_time_out_alone() {
    for store in stores() {
        let orchestrator = world(store.clone()).await;
        // What isn't `Send` can be shared: JavaScript's functions aren't.
        let at_work = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&at_work);
        orchestrator.register(
            "leaf",
            executor_fn(move |run: RunContext| {
                let seen = Rc::clone(&seen);
                async move {
                    seen.borrow_mut().push(run.task().to_owned());
                    steps(&run, 2).await?;
                    let ms = run.task().parse().unwrap();
                    JsRuntime.sleep(Duration::from_millis(ms)).await;
                    Ok::<_, runlog::Error>("done")
                }
            }),
        );
        let slow = SpawnRequest::new("leaf", "60000").with_timeout(Duration::from_millis(30));
        root(
            &orchestrator,
            vec![
                slow,
                SpawnRequest::new("leaf", "60"),
                SpawnRequest::new("nobody", "t"),
            ],
        );
        let handle = orchestrator
            .start(StartAgent::new("root", "t"))
            .await
            .unwrap();
        let result = handle.wait().await.unwrap();
        assert_eq!(result.summary.as_deref(), Some("paused completed failed"));
        assert_eq!(*at_work.borrow(), ["60000", "60"]);
        let children = store
            .runs()
            .children(handle.run_id(), 10, None)
            .await
            .unwrap()
            .items;
        let slow = children
            .iter()
            .find(|run| run.status == RunStatus::Paused)
            .unwrap();
        let run = store.runs().get(slow.id).await.unwrap().unwrap();
        assert_eq!(
            (run.step_count, run.pause_reason.as_deref()),
            (2, Some(pause_reason::TIMEOUT))
        );
    }
}

#[wasm_bindgen_test]
async fn cancelling_ends_the_whole_tree() {
    for store in stores() {
        let orchestrator = world(store.clone()).await;
        orchestrator.register(
            "leaf",
            executor_fn(|run: RunContext| async move {
                steps(&run, 1).await?;
                if run.depth() < 3 {
                    run.spawn_agents(vec![SpawnRequest::new("leaf", "t"); 3])
                        .await?;
                }
                run.cancelled().await;
                run.record_message(NewMessage::assistant("what I have"))
                    .await?;
                Ok::<_, runlog::Error>(())
            }),
        );
        root(&orchestrator, vec![SpawnRequest::new("leaf", "t"); 3]);
        let handle = orchestrator
            .start(StartAgent::new("root", "t"))
            .await
            .unwrap();
        while orchestrator.live_count() < 1 + 3 + 9 + 27 {
            JsRuntime.sleep(Duration::from_millis(1)).await;
        }
        handle.cancel().await.unwrap();
        let cancelled = runlog::runs::ListRuns {
            status: Some(RunStatus::Cancelled),
            limit: 100,
            ..Default::default()
        };
        assert_eq!(store.runs().list(&cancelled).await.unwrap().items.len(), 40);
        assert_eq!(orchestrator.live_count(), 0);
    }
}

#[wasm_bindgen_test]
async fn a_budget_pauses_and_a_resume_goes_on() {
    for store in stores() {
        let orchestrator = world(store.clone()).await;
        let updates = runlog::chats::Updates::parse(r#"{"max_steps":2}"#).unwrap();
        store.agents().update(None, "leaf", &updates).await.unwrap();
        orchestrator.register(
            "leaf",
            executor_fn(|run: RunContext| async move {
                while run.run().step_count < 3 {
                    steps(&run, 1).await?;
                }
                Ok::<_, runlog::Error>(AgentEnd::completed("three steps"))
            }),
        );
        let first = orchestrator
            .start(StartAgent::new("leaf", "t"))
            .await
            .unwrap();
        let result = first.wait().await.unwrap();
        assert_eq!((result.status, result.steps), (RunStatus::Paused, 2));
        let second = orchestrator
            .resume(first.run_id(), &ResumeOptions::default(), None)
            .await
            .unwrap();
        let result = second.wait().await.unwrap();
        assert_eq!((result.status, result.steps), (RunStatus::Completed, 3));
    }
}

#[wasm_bindgen_test]
async fn what_another_process_left_goes_on() {
    let store = Store::in_memory_with(Arc::new(JsHost));
    let before = world(store.clone()).await;
    before.register(
        "leaf",
        executor_fn(|run: RunContext| async move {
            steps(&run, 1).await?;
            std::future::pending::<Result<(), runlog::Error>>().await
        }),
    );
    root(&before, vec![SpawnRequest::new("leaf", "t"); 2]);
    before.start(StartAgent::new("root", "t")).await.unwrap();
    while before.live_count() < 3 {
        JsRuntime.sleep(Duration::from_millis(1)).await;
    }
    JsRuntime.sleep(Duration::from_millis(20)).await;

    let store = Store::with_backend(Arc::clone(store.backend()));
    let after = Orchestrator::new(store, JsRuntime, OrchestratorOptions::default());
    after.register_default(executor_fn(|run: RunContext| async move {
        steps(&run, 1).await?;
        Ok::<_, runlog::Error>("done")
    }));
    let report = after.resume_all().await.unwrap();
    assert_eq!(
        (report.resumed.len(), report.left.len()),
        (3, 0),
        "{report:?}"
    );
    assert!(
        report
            .resumed
            .iter()
            .all(|(_, result)| result.status == RunStatus::Completed && result.steps == 2)
    );
}
