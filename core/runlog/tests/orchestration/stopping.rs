//! Ending whole trees of runs: in one batch, with what each had recorded.

use std::{
    future::{Future, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use runlog::{
    AgentDefinition, ErrorKind, NewMessage, NewRun, NewSession, RunId, RunStatus,
    agents::{AgentEnd, RunContext, SpawnRequest, StartAgent},
    engine::Position,
    runs::{ListRuns, Stop, StopKind, pause_reason},
};

use crate::{
    claims,
    support::{World, forever, options, steps},
};

claims! {
    a_tree_of_a_thousand_is_cancelled_in_one_batch
    a_run_that_is_paused_keeps_what_its_sub_agents_did
    an_agent_is_told_what_stops_it_and_whether_it_can_be_resumed
    agents_that_never_rest_are_cancelled_too
    last_words_of_a_cancelled_run_do_not_stand_behind_an_open_call
    cancelling_takes_what_is_paused_below
    cancelling_leaves_what_has_ended
    a_cancellation_that_a_resume_outran_leaves_what_is_below
    cancelling_before_their_turn_ends_them_all
    a_run_that_ends_takes_its_sub_agents_with_it
    a_spawn_that_nobody_waits_for_is_cancelled
    a_run_that_was_resumed_is_not_cancelled_in_its_stead
    a_run_of_another_hand_is_cancelled_with_those_it_spawned
    an_agent_that_blocks_is_not_waited_for
    an_agent_whose_steps_are_spent_is_stopped
    dropping_the_callers_future_leaves_nothing_half_done
}

/// Defines an agent that spawns `wide` of itself, down to a depth, and never ends; counts those that work.
async fn tree(world: &World, depth: u32, wide: usize) -> Arc<AtomicUsize> {
    let at_work = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&at_work);
    world
        .agent("node", move |run: RunContext| {
            let at_work = Arc::clone(&counted);
            async move {
                steps(&run, 1).await?;
                at_work.fetch_add(1, Ordering::SeqCst);
                if run.depth() < depth {
                    run.spawn_agents((0..wide).map(|_| SpawnRequest::new("node", "t")).collect())
                        .await?;
                }
                forever().await
            }
        })
        .await;
    at_work
}

async fn until(count: &AtomicUsize, expected: usize) {
    while count.load(Ordering::SeqCst) < expected {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn last_position(world: &World) -> u64 {
    let mut next = Some(Position(1));
    let mut last = 0;
    while let Some(first) = next {
        let page = world.store.backend().scan(first, 10_000).await.unwrap();
        last = page.records.last().map_or(last, |record| record.position.0);
        next = page.next;
    }
    last
}

async fn all_below(world: &World, root: RunId) -> Vec<runlog::runs::RunSummary> {
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children = world
            .store
            .runs()
            .children(parent, 10_000, None)
            .await
            .unwrap()
            .items;
        parents.extend(children.iter().map(|child| child.id));
        found.extend(children);
    }
    found
}

async fn a_tree_of_a_thousand_is_cancelled_in_one_batch(world: World) {
    let world = world.bounded(runlog::agents::OrchestratorOptions {
        concurrent_max: 10_000,
        ..options()
    });
    // 4 + 16 + 64 + 256 + 1,024 below the root.
    let at_work = tree(&world, 5, 4).await;
    let root = world.orchestrator.start(world.start("node")).await.unwrap();
    until(&at_work, 1_365).await;
    let before = last_position(&world).await;
    root.cancel().await.unwrap();
    let after = last_position(&world).await;
    let below = all_below(&world, root.run_id()).await;
    assert_eq!(below.len(), 1_364);
    for run in &below {
        assert_eq!((run.status, run.step_count), (RunStatus::Cancelled, 1));
    }
    assert_eq!(world.run(root.run_id()).await.status, RunStatus::Cancelled);
    for run in below.iter().step_by(97) {
        let messages = world.messages(run.id).await;
        assert!(
            messages
                .iter()
                .any(|message| message.content.as_str().contains("step 1")),
            "its work is readable"
        );
    }
    // A record in its own stream and one in the catalog for each, and nothing else.
    assert_eq!(after - before, 2 * 1_365);
    assert_eq!(world.orchestrator.live_count(), 0);
}

/// The context of a run that its timeout paused, with its last words, is one that providers take; and its model learns
/// what its sub-agents did, and which runs can be resumed.
async fn a_run_that_is_paused_keeps_what_its_sub_agents_did(world: World) {
    // All of them heed it: on a busy machine they get the time that their last words take.
    let world = world.bounded(runlog::agents::OrchestratorOptions {
        stop_grace: Duration::from_secs(10),
        ..options()
    });
    world
        .agent("quick", |_| async {
            Ok(AgentEnd::Completed(Some("quick done".into())))
        })
        .await;
    world
        .agent("slow", |run: RunContext| async move {
            run.record_message(NewMessage::assistant("half")).await?;
            run.cancelled().await;
            run.record_message(NewMessage::assistant("last words of slow"))
                .await?;
            Ok(().into())
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            let spawned = run
                .spawn_agents(vec![
                    SpawnRequest::new("quick", "t"),
                    SpawnRequest::new("slow", "t"),
                ])
                .await;
            assert_eq!(spawned.unwrap_err().kind(), ErrorKind::WrongStatus);
            run.record_message(NewMessage::assistant("my last words"))
                .await?;
            Ok(().into())
        })
        .await;
    let start = StartAgent {
        timeout: Some(Duration::from_millis(300)),
        ..world.start("lead")
    };
    let lead = world.orchestrator.start(start).await.unwrap();
    let ended = lead.wait().await.unwrap();
    assert_eq!(
        (ended.status, ended.pause_reason.as_deref()),
        (RunStatus::Paused, Some(pause_reason::TIMEOUT))
    );

    let below = all_below(&world, lead.run_id()).await;
    let slow = world
        .run(
            below
                .iter()
                .find(|run| run.agent_name == "slow")
                .unwrap()
                .id,
        )
        .await;
    assert_eq!(
        (slow.status, slow.pause_reason.as_deref()),
        (RunStatus::Paused, Some(pause_reason::PARENT))
    );
    assert!(
        world
            .context(slow.id)
            .await
            .last()
            .unwrap()
            .contains("last words of slow")
    );

    let context = world.context(lead.run_id()).await;
    let [.., call, result, words] = context.as_slice() else {
        panic!("{context:?}")
    };
    assert!(
        call.contains("spawn_agents") && words.contains("my last words"),
        "{context:?}"
    );
    assert!(
        result.contains("\"role\":\"tool\"") && result.contains("quick done"),
        "{result}"
    );
    assert!(
        result.contains(&slow.id.to_string()) && result.contains("paused"),
        "{result}"
    );
    let resumed = world
        .store
        .runs()
        .resume(lead.run_id(), &runlog::runs::ResumeOptions::default())
        .await
        .unwrap();
    assert!(resumed.dangling.is_empty());
    world
        .store
        .runs()
        .resume(slow.id, &runlog::runs::ResumeOptions::default())
        .await
        .unwrap();
}

async fn an_agent_is_told_what_stops_it_and_whether_it_can_be_resumed(world: World) {
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tell = Arc::clone(&told);
    let begun = Arc::new(AtomicUsize::new(0));
    let begins = Arc::clone(&begun);
    let mut bounded = AgentDefinition::new("node", "d");
    bounded.max_steps = Some(2);
    world
        .agent_as(bounded, move |run: RunContext| {
            let told = Arc::clone(&tell);
            let begins = Arc::clone(&begins);
            async move {
                assert_eq!(run.stop_reason(), None);
                begins.fetch_add(1, Ordering::SeqCst);
                if run.task() == "steps" {
                    while run.next_step().await.is_ok() {}
                }
                if run.task() == "spawns" {
                    let below = vec![SpawnRequest::new("node", "below")];
                    let _ = run.spawn_agents(below).await;
                }
                run.cancelled().await;
                let stop = run.stop_reason().unwrap();
                told.lock()
                    .unwrap()
                    .push((run.task().to_owned(), stop.kind, stop.resumable));
                Ok(AgentEnd::completed("too late"))
            }
        })
        .await;
    let start = async |task: &str| {
        let task = task.to_owned();
        let start = StartAgent {
            task,
            ..world.start("node")
        };
        world.orchestrator.start(start).await.unwrap()
    };
    let take = || {
        let mut told = std::mem::take(&mut *told.lock().unwrap());
        told.sort_by(|one, other| one.0.cmp(&other.0));
        told
    };
    let told_of = |task: &str, kind, resumable| (task.to_owned(), kind, resumable);

    let timed = world.start("node").with_timeout(Duration::from_millis(100));
    let timed = world.orchestrator.start(timed).await.unwrap();
    timed.wait().await.unwrap();
    assert_eq!(take(), [told_of("Do it.", StopKind::Timeout, true)]);

    start("steps").await.wait().await.unwrap();
    assert_eq!(take(), [told_of("steps", StopKind::Budget, true)]);

    let cancelled = start("waits").await;
    cancelled.cancel().await.unwrap();
    let was_at_work = take();
    assert!(
        was_at_work.is_empty() || was_at_work == [told_of("waits", StopKind::Cancelled, false)]
    );

    for (stop, kind, resumable) in [
        (
            Some(Stop::new(StopKind::Shutdown, "SIGTERM")),
            StopKind::Shutdown,
            true,
        ),
        (None, StopKind::Cancelled, false),
    ] {
        let before = begun.load(Ordering::SeqCst);
        let lead = start("spawns").await;
        // One that is stopped before its turn comes is never called.
        while begun.load(Ordering::SeqCst) < before + 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        match stop {
            Some(stop) => world.orchestrator.pause(lead.run_id(), stop).await.unwrap(),
            None => lead.cancel().await.unwrap(),
        }
        let expected = [
            told_of("below", StopKind::Parent, resumable),
            told_of("spawns", kind, resumable),
        ];
        assert_eq!(take(), expected);
    }
}

async fn agents_that_never_rest_are_cancelled_too(world: World) {
    let at_work = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&at_work);
    world
        .agent("busy", move |run: RunContext| {
            let at_work = Arc::clone(&counted);
            async move {
                at_work.fetch_add(1, Ordering::SeqCst);
                if run.depth() == 0 {
                    run.spawn_agents((0..50).map(|_| SpawnRequest::new("busy", "t")).collect())
                        .await?;
                }
                loop {
                    steps(&run, 1).await?;
                    tokio::task::yield_now().await;
                }
            }
        })
        .await;
    let root = world.orchestrator.start(world.start("busy")).await.unwrap();
    until(&at_work, 51).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    root.cancel().await.unwrap();
    let before = last_position(&world).await;
    for run in all_below(&world, root.run_id()).await {
        assert_eq!(run.status, RunStatus::Cancelled);
        let messages = world.messages(run.id).await;
        assert_eq!(
            messages.len() as u64,
            1 + u64::from(run.step_count),
            "steps and messages add up"
        );
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(
        last_position(&world).await,
        before,
        "nobody writes any more"
    );
}

/// The context of a run that was cancelled, with its last words, is one that providers take.
async fn last_words_of_a_cancelled_run_do_not_stand_behind_an_open_call(world: World) {
    world
        .agent("slow", |run: RunContext| async move {
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("asks", |_| async { Ok(AgentEnd::paused("asks")) })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            let requests = vec![
                SpawnRequest::new("slow", "t"),
                SpawnRequest::new("asks", "t"),
            ];
            let stopped = run.spawn_agents(requests).await.unwrap_err();
            assert_eq!(stopped.kind(), ErrorKind::WrongStatus);
            let refused = run
                .record_message(NewMessage::assistant("my last words"))
                .await
                .unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            assert!(refused.to_string().contains("spawn_agents"), "{refused}");
            forever().await
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    let children = ListRuns {
        parent_run_id: Some(lead.run_id()),
        ..ListRuns::default()
    };
    // Until one of them has paused by itself, and the other is at work.
    while !world
        .store
        .runs()
        .list(&children)
        .await
        .unwrap()
        .items
        .iter()
        .any(|run| run.status == RunStatus::Paused)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    world.orchestrator.cancel(lead.run_id()).await.unwrap();
    assert_eq!(world.run(lead.run_id()).await.status, RunStatus::Cancelled);
    let context = world.context(lead.run_id()).await;
    let Some(call) = context.last() else {
        panic!("it has no message")
    };
    assert!(call.contains("spawn_agents"), "{context:?}");
    let runs = world.store.runs().list(&children).await.unwrap().items;
    assert!(
        runs.len() == 2 && runs.iter().all(|run| run.status == RunStatus::Cancelled),
        "{runs:?}"
    );
}

async fn cancelling_takes_what_is_paused_below(world: World) {
    world
        .agent("pauses", |_| async { Ok(AgentEnd::paused("asks")) })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("pauses", "t")])
                .await?;
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    while world.run(lead.run_id()).await.step_count == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let child = all_below(&world, lead.run_id()).await.remove(0);
    assert_eq!(child.status, RunStatus::Paused);
    lead.cancel().await.unwrap();
    assert_eq!(world.run(child.id).await.status, RunStatus::Cancelled);
    // A tree that nobody works on is cancelled as well.
    let paused = world
        .orchestrator
        .start(world.start("pauses"))
        .await
        .unwrap();
    paused.wait().await.unwrap();
    world.orchestrator.cancel(paused.run_id()).await.unwrap();
    assert_eq!(
        world.run(paused.run_id()).await.status,
        RunStatus::Cancelled
    );
}

async fn cancelling_leaves_what_has_ended(world: World) {
    world
        .agent("done", |_| async { Ok(AgentEnd::completed("the result")) })
        .await;
    let done = world.orchestrator.start(world.start("done")).await.unwrap();
    done.wait().await.unwrap();
    done.cancel().await.unwrap();
    world.orchestrator.cancel(done.run_id()).await.unwrap();
    let run = world.run(done.run_id()).await;
    assert_eq!(
        (run.status, run.summary.as_deref()),
        (RunStatus::Completed, Some("the result"))
    );
    let nobody = RunId(world.store.backend().new_id());
    assert_eq!(
        world.orchestrator.cancel(nobody).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

/// A resume and a cancellation at once: whichever wins, what is below is as the one that won has it.
async fn a_cancellation_that_a_resume_outran_leaves_what_is_below(world: World) {
    world.agent("worker", |_| async { forever().await }).await;
    let is_again = Arc::new(AtomicUsize::new(0));
    let again = Arc::clone(&is_again);
    world
        .agent("lead", move |run: RunContext| {
            let again = Arc::clone(&again);
            async move {
                if again.load(Ordering::SeqCst) == 0 {
                    run.spawn_agents(vec![SpawnRequest::new("worker", "t")])
                        .await?;
                }
                Ok(().into())
            }
        })
        .await;
    for _ in 0..10 {
        is_again.store(0, Ordering::SeqCst);
        let start = StartAgent {
            timeout: Some(Duration::from_millis(30)),
            ..world.start("lead")
        };
        let lead = world.orchestrator.start(start).await.unwrap();
        assert_eq!(lead.wait().await.unwrap().status, RunStatus::Paused);
        is_again.store(1, Ordering::SeqCst);
        let options = runlog::runs::ResumeOptions::default();
        let resume = world.orchestrator.resume(lead.run_id(), &options, None);
        let (resumed, cancelled) = tokio::join!(resume, world.orchestrator.cancel(lead.run_id()));
        let expected = match resumed {
            Ok(resumed) => {
                assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::WrongStatus);
                resumed.wait().await.unwrap();
                RunStatus::Paused
            }
            Err(_) => RunStatus::Cancelled,
        };
        assert_eq!(all_below(&world, lead.run_id()).await[0].status, expected);
    }
}

async fn cancelling_before_their_turn_ends_them_all(world: World) {
    let world = world.bounded(runlog::agents::OrchestratorOptions {
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
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents((0..10).map(|_| SpawnRequest::new("worker", "t")).collect())
                .await?;
            Ok(().into())
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    until(&begun, 1).await;
    lead.cancel().await.unwrap();
    let below = all_below(&world, lead.run_id()).await;
    assert!(
        below.len() == 10 && below.iter().all(|run| run.status == RunStatus::Cancelled),
        "{below:?}"
    );
    assert_eq!(
        begun.load(Ordering::SeqCst),
        1,
        "the others were never begun"
    );
    let next = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    until(&begun, 2).await;
    next.cancel().await.unwrap();
}

async fn a_run_that_ends_takes_its_sub_agents_with_it(world: World) {
    world
        .agent("leaf", |run: RunContext| async move {
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("hasty", |run: RunContext| async move {
            let below = run.clone();
            let spawned = tokio::spawn(async move {
                below
                    .spawn_agents(vec![SpawnRequest::new("leaf", "t")])
                    .await
            });
            while run.orchestrator().live_count() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(spawned);
            Ok(AgentEnd::completed("doesn't wait"))
        })
        .await;
    let hasty = world
        .orchestrator
        .start(world.start("hasty"))
        .await
        .unwrap();
    assert_eq!(hasty.wait().await.unwrap().status, RunStatus::Completed);
    let below = all_below(&world, hasty.run_id()).await;
    assert_eq!((below.len(), below[0].status), (1, RunStatus::Cancelled));
}

async fn a_spawn_that_nobody_waits_for_is_cancelled(world: World) {
    world.agent("leaf", |_| async { forever().await }).await;
    let parent = world.parent().await;
    let spawn = world
        .orchestrator
        .spawn_agents(parent, vec![SpawnRequest::new("leaf", "t"); 3]);
    // Dropped once they are at work, beside the run that spawned them.
    let at_work = async {
        while world.orchestrator.live_count() < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        _ = spawn => unreachable!("they never end"),
        () = at_work => {}
    }
    while world.orchestrator.live_count() > 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let below = all_below(&world, parent).await;
    assert!(
        below.len() == 3 && below.iter().all(|run| run.status == RunStatus::Cancelled),
        "{below:?}"
    );
    let run = world.run(parent).await;
    assert_eq!(run.status, RunStatus::Running);
    until_answered(&world, parent).await;
}

/// Waits until the call of a spawn has its result, so that no provider refuses the context.
async fn until_answered(world: &World, parent: RunId) {
    let context = world
        .store
        .context(world.run(parent).await.instance_id)
        .await
        .unwrap();
    while !context.dangling_tool_calls().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(
        world
            .context(parent)
            .await
            .last()
            .unwrap()
            .contains("cancelled")
    );
}

async fn a_run_that_was_resumed_is_not_cancelled_in_its_stead(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            if run.run().resumed_from.is_some() {
                forever().await;
            }
            Ok(AgentEnd::paused("asks"))
        })
        .await;
    let first = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    first.wait().await.unwrap();
    let second = world
        .orchestrator
        .resume(first.run_id(), &Default::default(), None)
        .await
        .unwrap();
    let error = world.orchestrator.cancel(first.run_id()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongStatus);
    assert!(
        error.to_string().contains(&second.run_id().to_string()),
        "{error}"
    );
    second.cancel().await.unwrap();
    assert_eq!(
        world.orchestrator.live_count(),
        0,
        "what was asked of the first leaves nothing behind"
    );
}

async fn a_run_of_another_hand_is_cancelled_with_those_it_spawned(world: World) {
    world.agent("leaf", |_| async { forever().await }).await;
    let session = NewSession {
        project: Some(crate::support::PROJECT.into()),
        ..NewSession::default()
    };
    let parent = world
        .store
        .runs()
        .start(NewRun::in_new_session(session, "by hand"))
        .await
        .unwrap();
    let (world_of, id) = (world.clone(), parent.id());
    let spawn = tokio::spawn(async move {
        world_of
            .orchestrator
            .spawn_agents(id, vec![SpawnRequest::new("leaf", "t"); 2])
            .await
    });
    while all_below(&world, id).await.len() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.orchestrator.cancel(id).await.unwrap();
    assert_eq!(
        spawn.await.unwrap().unwrap_err().kind(),
        ErrorKind::WrongStatus
    );
    let late = parent.record_message(NewMessage::assistant("late")).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::WrongStatus);
    assert!(
        all_below(&world, id)
            .await
            .iter()
            .all(|run| run.status == RunStatus::Cancelled)
    );
}

#[expect(
    clippy::disallowed_methods,
    reason = "it blocks its thread as a careless agent does"
)]
async fn an_agent_that_blocks_is_not_waited_for(world: World) {
    // On a runtime of one thread nothing else could happen at all.
    if tokio::runtime::Handle::current().metrics().num_workers() < 2 {
        return;
    }
    let blocked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&blocked);
    world
        .agent("blocks", move |run: RunContext| {
            let blocked = Arc::clone(&counted);
            async move {
                blocked.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(700));
                let late = run.record_message(NewMessage::assistant("late")).await;
                assert_eq!(late.unwrap_err().kind(), ErrorKind::WrongStatus);
                blocked.fetch_add(1, Ordering::SeqCst);
                Ok(AgentEnd::completed("never"))
            }
        })
        .await;
    let handle = world
        .orchestrator
        .start(world.start("blocks"))
        .await
        .unwrap();
    until(&blocked, 1).await;
    handle.cancel().await.unwrap();
    assert_eq!(
        world.run(handle.run_id()).await.status,
        RunStatus::Cancelled
    );
    assert_eq!(blocked.load(Ordering::SeqCst), 1, "it still blocks");
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(world.messages(handle.run_id()).await.len(), 1);
}

async fn dropping_the_callers_future_leaves_nothing_half_done(world: World) {
    world
        .agent("leaf", |_| async { Ok(AgentEnd::from(())) })
        .await;
    let parent = world.parent().await;
    for polls in 0..12 {
        let spawn = world
            .orchestrator
            .spawn_agents(parent, vec![SpawnRequest::new("leaf", "t"); 2]);
        let mut spawn = Box::pin(spawn);
        for _ in 0..polls {
            let once = poll_fn(|context| Poll::Ready(spawn.as_mut().poll(context).is_ready()));
            if once.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(spawn);
    }
    let session = world.run(parent).await.session_id;
    loop {
        let of_session = ListRuns {
            session_id: Some(session),
            limit: 1_000,
            ..ListRuns::default()
        };
        let runs = world.store.runs().list(&of_session).await.unwrap().items;
        if runs
            .iter()
            .all(|run| run.id == parent || run.status != RunStatus::Running)
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let context = world
        .store
        .context(world.run(parent).await.instance_id)
        .await
        .unwrap();
    while !context.dangling_tool_calls().await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn an_agent_whose_steps_are_spent_is_stopped(world: World) {
    let definition = AgentDefinition {
        max_steps: Some(2),
        ..AgentDefinition::new("tireless", "")
    };
    world
        .agent_as(definition, |run: RunContext| async move {
            // It never looks at what it is told.
            loop {
                let _ = steps(&run, 1).await;
                tokio::task::yield_now().await;
            }
        })
        .await;
    let handle = world
        .orchestrator
        .start(world.start("tireless"))
        .await
        .unwrap();
    let result = handle.wait().await.unwrap();
    assert_eq!((result.status, result.steps), (RunStatus::Paused, 2));
    assert_eq!(
        result.pause_reason.as_deref(),
        Some(pause_reason::STEP_BUDGET)
    );
    assert_eq!(world.orchestrator.live_count(), 0);
}
