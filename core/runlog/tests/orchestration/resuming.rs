//! The scenarios of resuming, through `spawn_agents`, and going on after a crash.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use runlog::{
    AgentDefinition, Error, ErrorKind, NewMessage, NewToolCall, RawJson, RunId, RunStatus, Store,
    agents::{AgentEnd, OrchestratorOptions, RunContext, SpawnRequest, SpawnResult, StartAgent},
    backend::{Backend, BackendFuture, Decorator},
    log::{Page, ReadOptions, Sequence, StreamId},
    runs::{ListRuns, ResumeOptions, ToolOutcome, pause_reason},
};

use crate::{
    claims,
    support::{World, forever, leaf_that_waits, options, resume_all_and_tell, run_of, steps},
};

claims! {
    scenario_resume_a_paused_run
    scenario_cumulative_step_counter_across_resumes
    scenario_fresh_step_budget_per_resume
    scenario_max_total_steps_enforcement
    scenario_resume_non_paused_run_rejected
    a_resumed_run_is_told_its_task_beside_to_continue
    a_run_that_is_told_nothing_else_has_the_task_that_it_had
    a_run_is_resumed_by_one_of_two
    a_paused_root_is_resumed_by_its_orchestrator
    a_snapshot_and_the_space_are_there_after_a_resume
    what_a_crash_cut_off_goes_on_once
    a_parent_goes_on_when_its_sub_agents_have
    two_orchestrators_of_a_store_that_go_on_at_once_lose_no_result
    what_ended_before_the_crash_is_told_to_the_parent
    runs_without_an_executor_are_left_as_they_are
    the_orchestrators_bound_of_steps_holds_for_every_resume
    a_sub_agent_that_somebody_else_goes_on_with_is_waited_for
    a_sub_agent_that_another_run_took_over_goes_on_below_that_one_alone
    what_cannot_be_read_of_one_run_keeps_no_other_from_going_on
    a_sub_agent_whose_run_cannot_be_read_is_an_error_in_its_parents_result
}

async fn spawn(world: &World, parent: RunId, request: SpawnRequest) -> SpawnResult {
    world
        .orchestrator
        .spawn_agents(parent, vec![request])
        .await
        .unwrap()
        .remove(0)
}

/// An agent that takes steps until its budget or its work is done.
async fn worker(world: &World, max_steps: u32, total: u32) {
    let definition = AgentDefinition {
        max_steps: Some(max_steps),
        ..AgentDefinition::new("worker", "")
    };
    world
        .agent_as(definition, move |run: RunContext| async move {
            while run.run().step_count < total {
                steps(&run, 1).await?;
            }
            Ok(AgentEnd::completed("done"))
        })
        .await;
}

async fn scenario_resume_a_paused_run(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            let step = run.next_step().await?;
            if step > 1 {
                return Ok(AgentEnd::completed(run.messages().await?.len().to_string()));
            }
            let call = NewToolCall::new("c1", "search", "{\"q\":\"rain\"}");
            let asked = NewMessage::assistant("Let me look.")
                .with_tool_calls([call])
                .to_json()?;
            run.record_tool_call(
                asked,
                &[ToolOutcome::completed(
                    "c1",
                    RawJson::string("three papers"),
                )],
            )
            .await?;
            Ok(AgentEnd::paused("lunch"))
        })
        .await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "Find papers.")).await;
    assert_eq!(first.status, RunStatus::Paused);
    let before = world.context(run_of(&first)).await;
    let second = spawn(
        &world,
        parent,
        SpawnRequest::resume("worker", run_of(&first)),
    )
    .await;
    let after = world.context(run_of(&second)).await;
    assert_eq!(
        after[..3],
        before,
        "exactly as it was before the pause, by step"
    );
    assert!(
        after[3].starts_with("{\"role\":\"user\",\"content\":\"Continue your work"),
        "{}",
        after[3]
    );
    assert_eq!(
        second.summary.as_deref(),
        Some("4"),
        "that is what the agent saw"
    );
    assert_eq!(world.run(run_of(&second)).await.resumed_from, first.run_id);
    assert_eq!(world.run(run_of(&first)).await.resumed_by, second.run_id);
}

async fn scenario_cumulative_step_counter_across_resumes(world: World) {
    worker(&world, 45, 46).await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "t")).await;
    assert_eq!((first.status, first.steps), (RunStatus::Paused, 45));
    let second = spawn(
        &world,
        parent,
        SpawnRequest::resume("worker", run_of(&first)),
    )
    .await;
    assert_eq!((second.status, second.steps), (RunStatus::Completed, 46));
    let messages = world.messages(run_of(&second)).await;
    assert_eq!(messages.last().unwrap().step_number, 46);
}

async fn scenario_fresh_step_budget_per_resume(world: World) {
    worker(&world, 50, 1_000).await;
    let parent = world.parent().await;
    let mut last = spawn(&world, parent, SpawnRequest::new("worker", "t")).await;
    for total in [100, 150] {
        last = spawn(
            &world,
            parent,
            SpawnRequest::resume("worker", run_of(&last)),
        )
        .await;
        assert_eq!((last.status, last.steps), (RunStatus::Paused, total));
        assert_eq!(
            last.pause_reason.as_deref(),
            Some(pause_reason::STEP_BUDGET)
        );
        assert_eq!(world.run(run_of(&last)).await.max_steps, Some(50));
    }
}

async fn scenario_max_total_steps_enforcement(world: World) {
    worker(&world, 250, 1_000).await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "t")).await;
    let second = spawn(
        &world,
        parent,
        SpawnRequest::resume("worker", run_of(&first)),
    )
    .await;
    assert_eq!((second.status, second.steps), (RunStatus::Paused, 500));
    let refused = spawn(
        &world,
        parent,
        SpawnRequest::resume("worker", run_of(&second)),
    )
    .await;
    assert_eq!((refused.status, refused.run_id), (RunStatus::Failed, None));
    assert!(
        refused
            .error
            .as_deref()
            .unwrap()
            .contains("maximum total steps of 500"),
        "{refused:?}"
    );
}

async fn scenario_resume_non_paused_run_rejected(world: World) {
    world
        .agent("done", |_| async { Ok(AgentEnd::from(())) })
        .await;
    world
        .agent("failed", |_| async { Err(Error::new(ErrorKind::Io, "no")) })
        .await;
    let parent = world.parent().await;
    for name in ["done", "failed"] {
        let ended = spawn(&world, parent, SpawnRequest::new(name, "t")).await;
        let refused = spawn(&world, parent, SpawnRequest::resume(name, run_of(&ended))).await;
        assert!(
            refused
                .error
                .as_deref()
                .unwrap()
                .contains("only paused runs can be resumed"),
            "{refused:?}"
        );
    }
}

async fn a_resumed_run_is_told_its_task_beside_to_continue(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            match run.next_step().await? {
                1 => {
                    run.record_message(NewMessage::assistant("One part."))
                        .await?;
                    Ok(AgentEnd::paused("asks"))
                }
                _ => Ok(AgentEnd::completed(run.task())),
            }
        })
        .await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "t")).await;
    let request = SpawnRequest::resume("worker", run_of(&first)).with_task("Leave out the tests.");
    let second = spawn(&world, parent, request).await;
    assert_eq!(second.summary.as_deref(), Some("Leave out the tests."));
    let told = world.context(run_of(&second)).await.pop().unwrap();
    assert!(
        told.contains("Continue your work") && told.contains("Leave out the tests."),
        "{told}"
    );
}

async fn a_run_that_is_told_nothing_else_has_the_task_that_it_had(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            let step = run.next_step().await?;
            run.record_message(NewMessage::assistant(format!("{step}: {}", run.task())))
                .await?;
            Ok(AgentEnd::paused(run.task()))
        })
        .await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "The whole.")).await;
    let again = SpawnRequest::resume("worker", run_of(&first));
    let second = spawn(&world, parent, again).await;
    assert_eq!(second.pause_reason.as_deref(), Some("The whole."));
    let told = SpawnRequest::resume("worker", run_of(&second)).with_task("A part.");
    let third = spawn(&world, parent, told).await;
    let fourth = world
        .orchestrator
        .resume(run_of(&third), &ResumeOptions::default(), None)
        .await
        .unwrap();
    let fourth = fourth.wait().await.unwrap();
    assert_eq!(fourth.pause_reason.as_deref(), Some("A part."));
}

async fn a_run_is_resumed_by_one_of_two(world: World) {
    worker(&world, 1, 2).await;
    let parent = world.parent().await;
    let first = spawn(&world, parent, SpawnRequest::new("worker", "t")).await;
    let requests = vec![SpawnRequest::resume("worker", run_of(&first)); 2];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [RunStatus::Completed, RunStatus::Failed]);
    assert!(
        results[1]
            .error
            .as_deref()
            .unwrap()
            .contains("resumed already"),
        "{results:?}"
    );
}

async fn a_paused_root_is_resumed_by_its_orchestrator(world: World) {
    worker(&world, 2, 3).await;
    let first = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    assert_eq!(first.wait().await.unwrap().status, RunStatus::Paused);
    let options = ResumeOptions {
        message: runlog::runs::Continuation::Message(NewMessage::user("Go on.")),
        ..ResumeOptions::default()
    };
    // Without time, the one that goes on would be paused before it begins.
    let at_once = Some(Duration::ZERO);
    let refused = (world.orchestrator)
        .resume(first.run_id(), &options, at_once)
        .await
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    let start = world.start("worker").with_timeout(Duration::ZERO);
    let refused = world.orchestrator.start(start).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}");
    let second = world
        .orchestrator
        .resume(first.run_id(), &options, None)
        .await
        .unwrap();
    assert_eq!(second.wait().await.unwrap().status, RunStatus::Completed);
    // What is said of a run that takes no command leads on.
    let command = RawJson::parse(r#"{"type":"send","message":"late"}"#).unwrap();
    for (run, says) in [
        (
            first.run_id(),
            format!("resumed as run {}", second.run_id()),
        ),
        (second.run_id(), "is completed".to_owned()),
    ] {
        let late = world.orchestrator.send(run, &command).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::WrongStatus);
        assert!(late.to_string().contains(&says), "{late}");
    }
    let nobody = RunId(world.store.backend().new_id());
    let late = world.orchestrator.send(nobody, &command).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::NotFound);
    assert!(
        world
            .context(second.run_id())
            .await
            .iter()
            .any(|message| message.contains("Go on."))
    );
}

async fn a_snapshot_and_the_space_are_there_after_a_resume(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            let saved = run
                .snapshot()
                .await?
                .map_or_else(String::new, |snapshot| snapshot.status);
            let shared = run
                .space()
                .get("key")
                .map_or_else(String::new, |value| value.to_string());
            let mut snapshot = runlog::flows::RunSnapshot::new("halfway");
            snapshot.state.insert("part".into(), 1.into());
            run.save_snapshot(&snapshot).await?;
            run.space().set("key", RawJson::string("value")).unwrap();
            let command = run.next_command().await;
            if saved.is_empty() {
                return Ok(AgentEnd::paused("later"));
            }
            // It was taken after the snapshot that the run went on from.
            Ok(AgentEnd::completed(format!(
                "{saved} {shared} {}",
                command.message().unwrap_or_default()
            )))
        })
        .await;
    let first = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    let command = RawJson::parse(r#"{"type":"note","message":"Hurry!"}"#).unwrap();
    first.send(&command).await.unwrap();
    assert_eq!(first.wait().await.unwrap().status, RunStatus::Paused);
    let second = world
        .orchestrator
        .resume(first.run_id(), &ResumeOptions::default(), None)
        .await
        .unwrap();
    assert_eq!(
        second.wait().await.unwrap().summary.as_deref(),
        Some("halfway \"value\" Hurry!")
    );
}

/// The world as another process finds it: the same store, whose runs nobody works on any more.
pub(super) fn next_process(world: &World) -> World {
    world.reopened(options())
}

async fn what_a_crash_cut_off_goes_on_once(world: World) {
    let started = Arc::new(Mutex::new(Vec::new()));
    let world = crash_with(world, &started, 3).await;
    let report = world.orchestrator.resume_all().await.unwrap();
    assert_eq!(
        (report.resumed.len(), report.left.len()),
        (3, 0),
        "{report:?}"
    );
    for (paused, result) in &report.resumed {
        assert_eq!(
            (result.status, result.steps),
            (RunStatus::Completed, 3),
            "from its last recorded step"
        );
        let run = world.run(run_of(result)).await;
        assert_eq!(run.resumed_from, Some(*paused));
    }
    assert_eq!(started.lock().unwrap().len(), 3, "each was begun once more");
    let again = world.orchestrator.resume_all().await.unwrap();
    assert!(
        again.resumed.is_empty() && again.left.is_empty(),
        "{again:?}"
    );
}

/// Runs `count` agents until they have taken two steps, and cuts them off.
async fn crash_with(world: World, started: &Arc<Mutex<Vec<RunId>>>, count: usize) -> World {
    world
        .agent("worker", |run: RunContext| async move {
            steps(&run, 2).await?;
            forever().await
        })
        .await;
    for _ in 0..count {
        world
            .orchestrator
            .start(world.start("worker"))
            .await
            .unwrap();
    }
    until_steps(&world, "worker", 2, count).await;
    let next = next_process(&world);
    let started = Arc::clone(started);
    next.agent("worker", move |run: RunContext| {
        started.lock().unwrap().push(run.run_id());
        async move {
            steps(&run, 1).await?;
            Ok(AgentEnd::completed("done"))
        }
    })
    .await;
    next
}

pub(super) async fn until_steps(world: &World, agent: &str, steps: u32, count: usize) {
    loop {
        let running = ListRuns {
            status: Some(RunStatus::Running),
            agent_name: Some(agent.into()),
            limit: 1_000,
            ..ListRuns::default()
        };
        let runs = world.store.runs().list(&running).await.unwrap().items;
        if runs.iter().filter(|run| run.step_count == steps).count() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A root whose two leaves never end, or end after a while.
async fn root_and_leaves(world: &World, end: bool) {
    world
        .agent("leaf", move |run: RunContext| async move {
            steps(&run, 1).await?;
            if !end {
                forever().await;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(AgentEnd::completed("leaf is done"))
        })
        .await;
    world
        .agent("root", |run: RunContext| async move {
            let context = run.messages().await?;
            if let Some(last) = context.iter().rfind(|it| it.role == runlog::Role::Tool) {
                return Ok(AgentEnd::completed(last.json.to_string()));
            }
            let two = vec![
                SpawnRequest::new("leaf", "a"),
                SpawnRequest::new("leaf", "b"),
            ];
            run.spawn_agents(two).await?;
            Ok(AgentEnd::completed("not cut off"))
        })
        .await;
}

async fn two_orchestrators_of_a_store_that_go_on_at_once_lose_no_result(world: World) {
    root_and_leaves(&world, false).await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    until_steps(&world, "leaf", 1, 2).await;
    let next = next_process(&world);
    let other = next.bounded(options());
    root_and_leaves(&next, true).await;
    root_and_leaves(&other, true).await;
    let (one, two) = tokio::join!(
        next.orchestrator.resume_all(),
        other.orchestrator.resume_all()
    );
    assert_eq!(one.unwrap().resumed.len() + two.unwrap().resumed.len(), 3);
    let resumed = next.run(root.run_id()).await.resumed_by.unwrap();
    let summary = next.run(resumed).await.summary.unwrap();
    assert_eq!(summary.matches("leaf is done").count(), 2, "{summary}");
}

async fn a_parent_goes_on_when_its_sub_agents_have(world: World) {
    let is_second = Arc::new(AtomicBool::new(false));
    let agents = |world: &World| {
        let (is_second, world) = (Arc::clone(&is_second), world.clone());
        async move {
            world
                .agent("leaf", move |run: RunContext| {
                    let is_second = is_second.load(Ordering::SeqCst);
                    async move {
                        steps(&run, 1).await?;
                        run.space()
                            .set(run.depth().to_string(), RawJson::string("was here"))?;
                        if !is_second {
                            forever().await;
                        }
                        Ok(AgentEnd::completed("leaf is done"))
                    }
                })
                .await;
            for (name, below) in [("middle", "leaf"), ("root", "middle")] {
                world
                    .agent(name, move |run: RunContext| async move {
                        let context = run.messages().await?;
                        let results = context
                            .iter()
                            .rfind(|message| message.role == runlog::Role::Tool);
                        if let Some(results) = results {
                            return Ok(AgentEnd::completed(results.json.to_string()));
                        }
                        run.next_step().await?;
                        let two =
                            vec![SpawnRequest::new(below, "a"), SpawnRequest::new(below, "b")];
                        run.spawn_agents(two).await?;
                        Ok(AgentEnd::completed("not cut off"))
                    })
                    .await;
            }
        }
    };
    agents(&world).await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    until_steps(&world, "leaf", 1, 4).await;
    let next = next_process(&world);
    is_second.store(true, Ordering::SeqCst);
    agents(&next).await;
    let report = next.orchestrator.resume_all().await.unwrap();
    assert_eq!(
        (report.resumed.len(), report.left.len()),
        (7, 0),
        "{report:?}"
    );
    let resumed = next.run(root.run_id()).await.resumed_by.unwrap();
    let run = next.run(resumed).await;
    assert_eq!(run.status, RunStatus::Completed);
    let summary = run.summary.unwrap();
    assert!(summary.contains("leaf is done"), "{summary}");
    // The call that it had made has its results; then it was told to go on.
    let context = next.context(resumed).await;
    assert_eq!(context.len(), 4, "{context:?}");
    assert!(context[3].contains("Continue your work"), "{}", context[3]);
    for (_, result) in &report.resumed {
        assert_eq!(result.status, RunStatus::Completed);
        let run = next.run(run_of(result)).await;
        if let Some(parent) = run.parent_run_id {
            assert_eq!(
                next.run(parent).await.pause_reason.as_deref(),
                Some(pause_reason::ORPHANED)
            );
        }
    }
    assert_eq!(next.orchestrator.live_count(), 0);
}

async fn what_ended_before_the_crash_is_told_to_the_parent(world: World) {
    world
        .agent("leaf", |run: RunContext| async move {
            match run.task() {
                "ends" => {
                    run.space()
                        .set("left", RawJson::string("by the one that ended"))?;
                    Ok(AgentEnd::completed("ended before"))
                }
                _ => {
                    steps(&run, 1).await?;
                    forever().await
                }
            }
        })
        .await;
    world
        .agent("root", |run: RunContext| async move {
            run.next_step().await?;
            let requests = ["ends", "works"].map(|task| SpawnRequest::new("leaf", task));
            run.spawn_agents(
                requests
                    .into_iter()
                    .chain([SpawnRequest::new("nobody", "t")])
                    .collect(),
            )
            .await?;
            Ok(().into())
        })
        .await;
    world.orchestrator.start(world.start("root")).await.unwrap();
    until_steps(&world, "leaf", 1, 1).await;
    while world
        .store
        .runs()
        .list(&ListRuns {
            status: Some(RunStatus::Completed),
            ..ListRuns::default()
        })
        .await
        .unwrap()
        .items
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let next = next_process(&world);
    next.agent("leaf", |_| async { Ok(AgentEnd::completed("went on")) })
        .await;
    next.agent("root", |run: RunContext| async move {
        let left = run.space().get("left").map(|value| value.to_string());
        let context = run.messages().await?;
        let results = context
            .iter()
            .rfind(|message| message.role == runlog::Role::Tool)
            .unwrap();
        Ok(AgentEnd::completed(format!(
            "{} {}",
            left.unwrap_or_default(),
            results.json
        )))
    })
    .await;
    let report = next.orchestrator.resume_all().await.unwrap();
    assert_eq!(report.resumed.len(), 2, "{report:?}");
    let summaries: Vec<_> = report
        .resumed
        .iter()
        .filter_map(|(_, result)| result.summary.clone())
        .collect();
    let root = summaries
        .iter()
        .find(|summary| summary.contains("by the one"))
        .unwrap();
    for says in [
        "ended before",
        "went on",
        "no agent \\\\\\\"nobody\\\\\\\" is defined",
    ] {
        assert!(root.contains(says), "{root} should say {says}");
    }
}

async fn runs_without_an_executor_are_left_as_they_are(world: World) {
    let by_hand = world.parent().await;
    let started = Arc::new(Mutex::new(Vec::new()));
    let world = crash_with(world, &started, 1).await;
    let report = world.orchestrator.resume_all().await.unwrap();
    assert_eq!(report.resumed.len(), 1);
    let left: Vec<_> = report
        .left
        .iter()
        .map(|(id, error)| (*id, error.kind()))
        .collect();
    assert_eq!(left, [(by_hand, ErrorKind::NotFound)]);
    assert_eq!(world.run(by_hand).await.status, RunStatus::Paused);
}

async fn the_orchestrators_bound_of_steps_holds_for_every_resume(world: World) {
    let world = world.bounded(OrchestratorOptions {
        max_total_steps: 2,
        ..options()
    });
    world
        .agent("worker", |run: RunContext| async move {
            steps(&run, 2).await?;
            Ok(AgentEnd::paused("lunch"))
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    run.wait().await.unwrap();
    let error = world
        .orchestrator
        .resume(run.run_id(), &ResumeOptions::default(), None)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached, "{error}");
}

async fn a_sub_agent_that_somebody_else_goes_on_with_is_waited_for(world: World) {
    world
        .agent("leaf", |run: RunContext| async move {
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("root", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("leaf", "t")])
                .await?;
            Ok(().into())
        })
        .await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    until_steps(&world, "leaf", 1, 1).await;
    let below = ListRuns {
        parent_run_id: Some(root.run_id()),
        ..ListRuns::default()
    };
    let leaf = world.store.runs().list(&below).await.unwrap().items[0].id;
    let next = next_process(&world);
    let go_on = leaf_that_waits(&next).await;
    next.store.recover_runs().await.unwrap();
    next.orchestrator
        .resume(leaf, &ResumeOptions::default(), None)
        .await
        .unwrap();
    let report = resume_all_and_tell(&next, &go_on).await;
    assert_eq!(report.resumed.len(), 1, "{report:?}");
    let summary = report.resumed[0].1.summary.clone().unwrap();
    assert!(summary.contains("went on"), "{summary}");
}

async fn a_sub_agent_that_another_run_took_over_goes_on_below_that_one_alone(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            if run.run().resumed_from.is_none() {
                return Ok(AgentEnd::paused("a rest"));
            }
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("slow", |run: RunContext| async move {
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            let two = vec![
                SpawnRequest::new("worker", "t"),
                SpawnRequest::new("slow", "t"),
            ];
            run.spawn_agents(two).await?;
            Ok(AgentEnd::from(()))
        })
        .await;
    world
        .agent("taker", |run: RunContext| async move {
            let worker = run.task().parse().unwrap();
            run.spawn_agents(vec![SpawnRequest::resume("worker", worker)])
                .await?;
            Ok(AgentEnd::from(()))
        })
        .await;
    let lead = world
        .orchestrator
        .start(world.start("lead"))
        .await
        .unwrap()
        .run_id();
    let of_worker = ListRuns {
        agent_name: Some("worker".into()),
        ..ListRuns::default()
    };
    let worker = loop {
        let workers = world.store.runs().list(&of_worker).await.unwrap().items;
        if let Some(paused) = workers.iter().find(|run| run.status == RunStatus::Paused) {
            break paused.id;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    };
    let start = StartAgent {
        task: worker.to_string(),
        ..world.start("taker")
    };
    let taker = world.orchestrator.start(start).await.unwrap().run_id();
    until_steps(&world, "worker", 1, 1).await;
    until_steps(&world, "slow", 1, 1).await;

    let next = next_process(&world);
    for agent in ["worker", "slow", "lead", "taker"] {
        next.agent(agent, |_| async { Ok(AgentEnd::completed("done")) })
            .await;
    }
    let report = next.orchestrator.resume_all().await.unwrap();
    assert_eq!(
        (report.resumed.len(), report.left.len()),
        (4, 0),
        "{report:?}"
    );
    let workers = next.store.runs().list(&of_worker).await.unwrap().items;
    assert_eq!(
        workers
            .iter()
            .map(|run| run.parent_run_id)
            .collect::<Vec<_>>(),
        [Some(taker), Some(taker), Some(lead)]
    );
    let told = next.context(lead).await.concat();
    assert!(
        told.contains("paused") && told.contains("completed"),
        "the lead is told what its own became: {told}"
    );
    let told = next.context(taker).await.concat();
    assert!(
        !told.contains("paused") && told.contains("completed"),
        "{told}"
    );
}

/// A backend that has lost what a stream has.
struct Loses {
    inner: Arc<dyn Backend>,
    stream: Arc<Mutex<Option<StreamId>>>,
}

impl Decorator for Loses {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }

    fn read(&self, stream: StreamId, options: ReadOptions) -> BackendFuture<'_, Page<Sequence>> {
        if *self.stream.lock().unwrap() == Some(stream) {
            return Box::pin(async { Err(Error::new(ErrorKind::Damaged, "it was lost")) });
        }
        self.inner.read(stream, options)
    }
}

/// What a crash leaves of a root with two leaves and of a leaf that is alone, as the next process finds it, and the stream that
/// can't be read any more.
struct Damaged {
    next: World,
    root: RunId,
    leaves: Vec<RunId>,
    alone: RunId,
    stream: Arc<Mutex<Option<StreamId>>>,
}

async fn damaged(world: &World) -> Damaged {
    root_and_leaves(world, false).await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    until_steps(world, "leaf", 1, 2).await;
    let of_root = ListRuns {
        parent_run_id: Some(root.run_id()),
        ..ListRuns::default()
    };
    let leaves = world.store.runs().list(&of_root).await.unwrap().items;
    let leaves = leaves.into_iter().map(|run| run.id).collect();
    let alone = world.orchestrator.start(world.start("leaf")).await.unwrap();
    until_steps(world, "leaf", 1, 3).await;
    let stream = Arc::new(Mutex::new(None));
    let backend = Loses {
        inner: Arc::clone(world.store.backend()),
        stream: Arc::clone(&stream),
    };
    let next = World::new(Store::with_backend(Arc::new(backend)), options());
    next.store.recover_runs().await.unwrap();
    root_and_leaves(&next, true).await;
    Damaged {
        next,
        root: root.run_id(),
        leaves,
        alone: alone.run_id(),
        stream,
    }
}

async fn what_cannot_be_read_of_one_run_keeps_no_other_from_going_on(world: World) {
    let damaged = damaged(&world).await;
    let context = damaged.next.run(damaged.root).await.instance_id;
    *damaged.stream.lock().unwrap() = Some(StreamId(context.as_uuid()));
    let report = damaged.next.orchestrator.resume_all().await.unwrap();
    let left: Vec<_> = report
        .left
        .iter()
        .map(|(id, error)| (*id, error.kind()))
        .collect();
    assert_eq!(left, [(damaged.root, ErrorKind::Damaged)]);
    let mut resumed: Vec<_> = report.resumed.iter().map(|(id, _)| *id).collect();
    let mut others = damaged.leaves;
    others.push(damaged.alone);
    resumed.sort();
    others.sort();
    assert_eq!(resumed, others);
}

async fn a_sub_agent_whose_run_cannot_be_read_is_an_error_in_its_parents_result(world: World) {
    let damaged = damaged(&world).await;
    *damaged.stream.lock().unwrap() = Some(StreamId(damaged.leaves[0].as_uuid()));
    let report = damaged.next.orchestrator.resume_all().await.unwrap();
    let left: Vec<_> = report
        .left
        .iter()
        .map(|(id, error)| (*id, error.kind()))
        .collect();
    assert_eq!(left, [(damaged.leaves[0], ErrorKind::Damaged)]);
    let resumed = damaged.next.run(damaged.root).await.resumed_by.unwrap();
    let result = damaged.next.context(resumed).await.concat();
    assert!(result.contains("its run can't be read"), "{result}");
    assert!(result.contains("completed"), "the other's result: {result}");
}
