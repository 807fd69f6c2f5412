//! Runs that pause while what they spawned is at work: whatever pauses them, their contexts have the results.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use runlog::{
    AgentDefinition, ErrorKind, NewMessage, Role, Run, RunId, RunStatus,
    agents::{
        AgentEnd, OrchestratorOptions, RunContext, RunHandle, SpawnRequest, SpawnResult, Spawned,
    },
    runs::{ResumeOptions, Runs, StopKind, pause_reason},
};

use crate::{
    claims,
    support::{World, forever, options, steps},
};

claims! {
    a_run_that_pauses_by_itself_has_what_its_sub_agents_did
    a_run_that_pauses_by_itself_and_lets_go_of_them_has_what_they_did
    a_run_whose_steps_are_spent_has_what_its_sub_agents_did
    last_words_of_an_agent_that_does_not_wait_are_behind_the_results
    an_agent_that_returns_as_soon_as_it_is_told_to_pause_has_what_its_sub_agents_did
    what_waits_below_a_run_that_pauses_by_itself_has_results_too
    a_tree_that_pauses_at_every_depth_has_all_results
    a_run_that_pauses_while_the_store_closes_comes_to_an_end
}

/// What agents keep beyond their work, as a program in JavaScript does until its garbage is collected.
type Kept = Arc<Mutex<Vec<Spawned>>>;

fn keep(kept: &Kept, spawned: Spawned) {
    kept.lock().unwrap().push(spawned);
}

/// A `worker` that answers a "fast" task at once, and never ends otherwise.
async fn workers(world: &World) {
    world
        .agent("worker", |run: RunContext| async move {
            steps(&run, 1).await?;
            if run.task() == "fast" {
                return Ok(AgentEnd::completed("the answer is 42"));
            }
            forever().await
        })
        .await;
}

fn fast_and_slow() -> Vec<SpawnRequest> {
    vec![
        SpawnRequest::new("worker", "fast"),
        SpawnRequest::new("worker", "slow"),
    ]
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), work)
        .await
        .expect("it hangs")
}

async fn paused(handle: &RunHandle, kind: StopKind) {
    let result = within(handle.wait()).await.unwrap();
    assert_eq!(
        (result.status, result.stop_kind),
        (RunStatus::Paused, Some(kind))
    );
}

/// The runs of a tree are let go of one by one, the uppermost first.
async fn none_is_left(world: &World) {
    within(async {
        while world.orchestrator.live_count() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

async fn children(runs: &Runs, run: RunId) -> Vec<Run> {
    let mut children = Vec::new();
    for child in runs.children(run, 100, None).await.unwrap().items {
        children.push(runs.get(child.id).await.unwrap().unwrap());
    }
    children
}

/// The results of the run's one call, which has exactly one result; with the texts behind it.
async fn results_of(world: &World, run: RunId) -> (Vec<SpawnResult>, Vec<String>) {
    let instance = world.run(run).await.instance_id;
    let context = world.store.context(instance).await.unwrap();
    assert_eq!(context.dangling_tool_calls().await.unwrap(), []);
    let messages = context.get_messages().await.unwrap();
    let of_tools: Vec<usize> = (0..messages.len())
        .filter(|index| messages[*index].role == Role::Tool)
        .collect();
    let [result] = of_tools.as_slice() else {
        panic!("{messages:?}")
    };
    let json: serde_json::Value = serde_json::from_str(messages[*result].json.as_str()).unwrap();
    let results = serde_json::from_str(json["content"].as_str().unwrap()).unwrap();
    let behind = messages.iter().skip(result + 1);
    (
        results,
        behind.map(|message| message.json.to_string()).collect(),
    )
}

/// The run has the answer of the fast worker, and knows the slow one, which is paused with it; the one that goes on
/// from it has these results, and no others.
async fn has_both(world: &World, run: RunId) {
    let (results, _) = results_of(world, run).await;
    let [fast, slow] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_eq!(
        (fast.status, fast.summary.as_deref()),
        (RunStatus::Completed, Some("the answer is 42"))
    );
    assert_eq!(
        (slow.status, slow.stop_kind, slow.pause_reason.as_deref()),
        (
            RunStatus::Paused,
            Some(StopKind::Parent),
            Some(pause_reason::PARENT)
        )
    );
    let of_slow = world.run(slow.run_id.unwrap()).await;
    assert_eq!(
        (of_slow.status, of_slow.pause_reason.as_deref()),
        (RunStatus::Paused, Some(pause_reason::PARENT))
    );
    let (runs, options) = (world.store.runs(), ResumeOptions::default());
    let resumed = runs.resume(run, &options).await.unwrap();
    assert!(resumed.dangling.is_empty());
    results_of(world, resumed.recorder.id()).await;
}

async fn a_run_that_pauses_by_itself_has_what_its_sub_agents_did(world: World) {
    workers(&world).await;
    let kept = Kept::default();
    let keeps = Arc::clone(&kept);
    world
        .agent("lead", move |run: RunContext| {
            let kept = Arc::clone(&keeps);
            async move {
                let mut spawned = run.spawn(fast_and_slow()).await?;
                let (index, first) = spawned.next().await.unwrap();
                assert_eq!((index, first.status), (0, RunStatus::Completed));
                keep(&kept, spawned);
                Ok(AgentEnd::paused("the provider is overloaded"))
            }
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    paused(&lead, StopKind::Requested).await;
    none_is_left(&world).await;
    let reason = world.run(lead.run_id()).await.pause_reason;
    assert_eq!(reason.as_deref(), Some("the provider is overloaded"));
    let spawned = kept.lock().unwrap().pop().unwrap();
    let stopped = within(spawned.results()).await.unwrap_err();
    assert_eq!(stopped.kind(), ErrorKind::WrongStatus);
    has_both(&world, lead.run_id()).await;
}

/// Letting go of a spawn cancels it, and so does the end of the code that holds it; its results are there all the same.
async fn a_run_that_pauses_by_itself_and_lets_go_of_them_has_what_they_did(world: World) {
    workers(&world).await;
    world
        .agent("lead", |run: RunContext| async move {
            let mut spawned = run.spawn(fast_and_slow()).await?;
            spawned.next().await.unwrap();
            Ok(AgentEnd::paused("later"))
        })
        .await;
    for _ in 0..10 {
        let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
        paused(&lead, StopKind::Requested).await;
        let (results, behind) = results_of(&world, lead.run_id()).await;
        assert_eq!(results[0].summary.as_deref(), Some("the answer is 42"));
        let slow = world.run(results[1].run_id.unwrap()).await;
        assert_eq!(slow.status, results[1].status);
        assert!(
            matches!(slow.status, RunStatus::Paused | RunStatus::Cancelled) && behind.is_empty(),
            "{slow:?} {behind:?}"
        );
    }
}

async fn a_run_whose_steps_are_spent_has_what_its_sub_agents_did(world: World) {
    workers(&world).await;
    let kept = Kept::default();
    let definition = AgentDefinition {
        max_steps: Some(1),
        ..AgentDefinition::new("lead", "")
    };
    world
        .agent_as(definition, move |run: RunContext| {
            let kept = Arc::clone(&kept);
            async move {
                run.next_step().await?;
                let mut spawned = run.spawn(fast_and_slow()).await?;
                spawned.next().await.unwrap();
                keep(&kept, spawned);
                run.next_step().await?;
                forever().await
            }
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    paused(&lead, StopKind::Budget).await;
    has_both(&world, lead.run_id()).await;
}

async fn last_words_of_an_agent_that_does_not_wait_are_behind_the_results(world: World) {
    workers(&world).await;
    let kept = Kept::default();
    let ready = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&ready);
    world
        .agent("lead", move |run: RunContext| {
            let (kept, tell) = (Arc::clone(&kept), Arc::clone(&tell));
            async move {
                let mut spawned = run.spawn(fast_and_slow()).await?;
                spawned.next().await.unwrap();
                keep(&kept, spawned);
                tell.notify_one();
                run.cancelled().await;
                run.record_message(NewMessage::assistant("my last words"))
                    .await
                    .unwrap();
                Ok(().into())
            }
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    within(ready.notified()).await;
    let pause = world.orchestrator.pause(lead.run_id(), "later");
    within(pause).await.unwrap();
    let (_, behind) = results_of(&world, lead.run_id()).await;
    assert!(
        behind.len() == 1 && behind[0].contains("my last words"),
        "{behind:?}"
    );
    has_both(&world, lead.run_id()).await;
}

async fn an_agent_that_returns_as_soon_as_it_is_told_to_pause_has_what_its_sub_agents_did(
    world: World,
) {
    workers(&world).await;
    let kept = Kept::default();
    let ready = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&ready);
    world
        .agent("lead", move |run: RunContext| {
            let (kept, tell) = (Arc::clone(&kept), Arc::clone(&tell));
            async move {
                let mut spawned = run.spawn(fast_and_slow()).await?;
                spawned.next().await.unwrap();
                keep(&kept, spawned);
                tell.notify_one();
                run.cancelled().await;
                Ok(().into())
            }
        })
        .await;
    for _ in 0..5 {
        let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
        within(ready.notified()).await;
        let pause = world.orchestrator.pause(lead.run_id(), "later");
        within(pause).await.unwrap();
        paused(&lead, StopKind::Requested).await;
        has_both(&world, lead.run_id()).await;
    }
}

/// With one turn for all of them, too.
async fn what_waits_below_a_run_that_pauses_by_itself_has_results_too(world: World) {
    for concurrent_max in [1, 100] {
        let world = world.bounded(OrchestratorOptions {
            concurrent_max,
            ..options()
        });
        workers(&world).await;
        world
            .agent("middle", |run: RunContext| async move {
                let stopped = run.spawn_agents(fast_and_slow()).await.unwrap_err();
                assert_eq!(stopped.kind(), ErrorKind::WrongStatus);
                assert!(run.stop_reason().unwrap().resumable);
                Err(stopped)
            })
            .await;
        let kept = Kept::default();
        world
            .agent("lead", move |run: RunContext| {
                let kept = Arc::clone(&kept);
                async move {
                    let spawned = run.spawn(vec![SpawnRequest::new("middle", "t")]).await?;
                    let middle = spawned.run_ids()[0].unwrap();
                    keep(&kept, spawned);
                    let store = run.orchestrator().store().clone();
                    // With one turn, the slow one may have it first.
                    let is_far = |runs: &[Run]| match concurrent_max {
                        1 => runs.len() == 2,
                        _ => runs.iter().any(|run| run.status == RunStatus::Completed),
                    };
                    while !is_far(&children(&store.runs(), middle).await) {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                    Ok(AgentEnd::paused("later"))
                }
            })
            .await;
        let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
        paused(&lead, StopKind::Requested).await;
        let (results, _) = results_of(&world, lead.run_id()).await;
        assert_eq!(results[0].status, RunStatus::Paused);
        let middle = world.run(results[0].run_id.unwrap()).await;
        assert_eq!(
            (middle.status, middle.stop_kind),
            (RunStatus::Paused, Some(StopKind::Parent))
        );
        let (results, _) = results_of(&world, middle.id).await;
        assert_eq!(results.len(), 2);
        for result in results {
            let below = world.run(result.run_id.unwrap()).await;
            assert_eq!(
                (below.status, below.summary),
                (result.status, result.summary)
            );
        }
        if concurrent_max > 1 {
            has_both(&world, middle.id).await;
        }
    }
}

/// Runs that pause by themselves at the same time as those above them: each call has its result, each run one end.
async fn a_tree_that_pauses_at_every_depth_has_all_results(world: World) {
    let working = Arc::new(AtomicUsize::new(0));
    let kept = Kept::default();
    let counted = Arc::clone(&working);
    world
        .agent("node", move |run: RunContext| {
            let (working, kept) = (Arc::clone(&counted), Arc::clone(&kept));
            async move {
                if run.depth() < 3 {
                    let below = vec![SpawnRequest::new("node", "t"); 2];
                    keep(&kept, run.spawn(below).await?);
                }
                working.fetch_add(1, Ordering::SeqCst);
                while working.load(Ordering::SeqCst) < 15 && !run.is_cancelled() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok(AgentEnd::paused("all at once"))
            }
        })
        .await;
    for _ in 0..5 {
        working.store(0, Ordering::SeqCst);
        let root = world.orchestrator.start(world.start("node")).await.unwrap();
        paused(&root, StopKind::Requested).await;
        let mut depths = vec![vec![root.run_id()]];
        for depth in 0..3 {
            let mut below = Vec::new();
            for run in &depths[depth] {
                let (results, _) = results_of(&world, *run).await;
                for result in results {
                    assert_eq!(result.status, RunStatus::Paused, "{result:?}");
                    let child = world.run(result.run_id.unwrap()).await;
                    assert_eq!(
                        (child.status, child.pause_reason),
                        (result.status, result.pause_reason)
                    );
                    below.push(child.id);
                }
            }
            depths.push(below);
        }
        assert_eq!(depths[3].len(), 8);
        none_is_left(&world).await;
    }
}

async fn a_run_that_pauses_while_the_store_closes_comes_to_an_end(world: World) {
    workers(&world).await;
    let kept = Kept::default();
    let ready = Arc::new(tokio::sync::Notify::new());
    let tell = Arc::clone(&ready);
    world
        .agent("lead", move |run: RunContext| {
            let (kept, tell) = (Arc::clone(&kept), Arc::clone(&tell));
            async move {
                let mut spawned = run.spawn(fast_and_slow()).await?;
                spawned.next().await.unwrap();
                keep(&kept, spawned);
                tell.notify_one();
                Ok(AgentEnd::paused("later"))
            }
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    within(ready.notified()).await;
    within(world.store.close()).await.unwrap();
    // Paused or an error of the store, whichever was first.
    let _ = within(lead.wait()).await;
    none_is_left(&world).await;
}
