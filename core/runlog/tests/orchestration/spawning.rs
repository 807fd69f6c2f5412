//! The scenarios of spawning.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use runlog::{
    AgentDefinition, ErrorKind, NewMessage, NewToolCall, RawJson, RunStatus,
    agents::{AgentEnd, AgentVisibility, OrchestratorOptions, RunContext, SpawnRequest},
    runs::{ListRuns, StopKind, pause_reason},
};
use tokio::sync::{Barrier, Notify, Semaphore};

use crate::{
    claims,
    support::{PROJECT, World, forever, options, run_of, steps},
};

claims! {
    scenario_agent_catalog_query
    scenario_all_visibility_levels_included
    scenario_parallel_sub_agent_execution
    scenario_spawn_result_structure
    scenario_mixed_agent_types_in_single_spawn
    a_spawned_run_takes_the_lower_of_two_bounds
    an_agent_that_was_deleted_is_not_spawned
    scenario_spawn_with_timeout
    scenario_spawn_with_resume
    scenario_invalid_agent_name
    scenario_parent_cancellation_cascades
    scenario_individual_sub_agent_timeout
    what_stops_sub_agents_is_told_by_its_kind
    a_spawn_tells_its_runs_at_once_and_each_as_it_ends
    a_spawn_that_is_let_go_of_is_cancelled
    a_spawn_is_one_batch_with_its_record
    results_stand_in_the_parents_context
    results_come_in_the_order_of_the_requests
    refused_requests_are_told_one_by_one
    bounds_are_refused_with_what_they_are
    no_more_agents_work_at_a_time_than_allowed
    agents_that_wait_for_their_own_let_others_work
    code_spawns_once_at_a_time
    an_agent_that_waits_again_before_its_turn_came_lets_others_work
    a_space_is_shared_by_the_whole_tree
    commands_reach_the_run_they_are_for
    a_panic_fails_the_run_with_its_message
    an_error_fails_the_run_with_its_message
    late_writes_are_refused
    a_thousand_sub_agents_in_one_call_record_what_they_do
    a_run_of_another_hand_is_under_way_here_only_while_it_spawns
}

async fn scenario_agent_catalog_query(world: World) {
    world
        .agent_as(
            AgentDefinition {
                system_prompt: Some("THE WHOLE PROMPT".into()),
                tools: vec!["search".into(), "read".into()],
                ..AgentDefinition::new("research-assistant", "Finds papers.")
            },
            |run: RunContext| async move {
                let listed = run.list_available_agents().await?;
                assert_eq!(listed.len(), 1);
                assert_eq!(
                    (listed[0].name.as_str(), listed[0].description.as_str()),
                    ("research-assistant", "Finds papers.")
                );
                assert_eq!(
                    (listed[0].tools.len(), listed[0].flow_type.as_str()),
                    (2, "single")
                );
                assert!(!serde_json::to_string(&listed).unwrap().contains("PROMPT"));
                Ok(AgentEnd::completed("ok"))
            },
        )
        .await;
    // Another project's agents are not this one's.
    world
        .store
        .agents()
        .define(AgentDefinition::new("elsewhere", ""))
        .await
        .unwrap();
    let handle = world
        .orchestrator
        .start(world.start("research-assistant"))
        .await
        .unwrap();
    assert_eq!(handle.wait().await.unwrap().summary.as_deref(), Some("ok"));
}

async fn scenario_all_visibility_levels_included(world: World) {
    for visibility in AgentVisibility::ALL {
        let definition = AgentDefinition {
            visibility,
            ..AgentDefinition::new(visibility.name(), "")
        };
        world
            .agent_as(definition, |_| async { Ok(().into()) })
            .await;
    }
    let listed = world
        .orchestrator
        .list_available_agents(Some(PROJECT))
        .await
        .unwrap();
    let told: Vec<_> = listed
        .iter()
        .map(|agent| (agent.name.as_str(), agent.visibility.name()))
        .collect();
    assert_eq!(
        told,
        [
            ("external", "external"),
            ("internal", "internal"),
            ("project", "project")
        ]
    );
}

async fn scenario_parallel_sub_agent_execution(world: World) {
    // None of them passes before all of them are at work.
    let all = Arc::new(Barrier::new(5));
    world
        .agent("worker", move |_| {
            let all = Arc::clone(&all);
            async move {
                all.wait().await;
                Ok(AgentEnd::completed("done"))
            }
        })
        .await;
    let parent = world.parent().await;
    let requests = (0..5)
        .map(|part| SpawnRequest::new("worker", format!("part {part}")))
        .collect();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert_eq!(results.len(), 5);
    for result in &results {
        let run = world.run(run_of(result)).await;
        assert_eq!(
            (run.status, run.parent_run_id),
            (RunStatus::Completed, Some(parent))
        );
    }
    let children = ListRuns {
        parent_run_id: Some(parent),
        ..ListRuns::default()
    };
    assert_eq!(
        world
            .store
            .runs()
            .list(&children)
            .await
            .unwrap()
            .items
            .len(),
        5
    );
}

async fn scenario_spawn_result_structure(world: World) {
    world
        .agent("completes", |run: RunContext| async move {
            steps(&run, 3).await?;
            Ok(AgentEnd::completed("the final text"))
        })
        .await;
    world
        .agent("pauses", |run: RunContext| async move {
            steps(&run, 1).await?;
            Ok(AgentEnd::paused("asks for leave"))
        })
        .await;
    world
        .agent("fails", |_| async {
            Err(runlog::Error::new(ErrorKind::Io, "no network"))
        })
        .await;
    let parent = world.parent().await;
    let requests = ["completes", "pauses", "fails"]
        .map(|name| SpawnRequest::new(name, "t"))
        .to_vec();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|result| (result.status, result.summary.as_deref(), result.steps))
        .collect();
    assert_eq!(
        told,
        [
            (RunStatus::Completed, Some("the final text"), 3),
            (RunStatus::Paused, None, 1),
            (RunStatus::Failed, None, 0)
        ]
    );
    assert!(
        results.iter().all(|result| result.run_id.is_some()),
        "each can be looked into"
    );
    assert_eq!(results[1].pause_reason.as_deref(), Some("asks for leave"));
    assert_eq!(results[2].error.as_deref(), Some("no network"));
    let json = serde_json::to_value(&results[0]).unwrap();
    for field in ["run_id", "status", "summary", "steps"] {
        assert!(json.get(field).is_some(), "{json}");
    }
}

async fn scenario_mixed_agent_types_in_single_spawn(world: World) {
    for (name, prompt, tool) in [
        ("research-assistant", "You search.", "search"),
        ("paper-summarizer", "You summarize.", "read_file"),
    ] {
        let definition = AgentDefinition {
            system_prompt: Some(prompt.into()),
            tools: vec![tool.into()],
            ..AgentDefinition::new(name, "")
        };
        world
            .agent_as(definition, |run: RunContext| async move {
                let messages = run.messages().await?;
                assert_eq!(messages.len(), 2);
                assert!(
                    messages[0]
                        .json
                        .as_str()
                        .contains(run.definition().system_prompt.as_deref().unwrap())
                );
                Ok(AgentEnd::completed(run.definition().tools.join(",")))
            })
            .await;
    }
    let parent = world.parent().await;
    let requests = ["research-assistant", "paper-summarizer"]
        .map(|name| SpawnRequest::new(name, "t"))
        .to_vec();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let tools: Vec<_> = results
        .iter()
        .map(|result| result.summary.as_deref().unwrap())
        .collect();
    assert_eq!(tools, ["search", "read_file"]);
    let runs = [
        world.run(run_of(&results[0])).await,
        world.run(run_of(&results[1])).await,
    ];
    assert_eq!(
        [runs[0].agent_name.as_str(), runs[1].agent_name.as_str()],
        ["research-assistant", "paper-summarizer"]
    );
    assert_ne!(runs[0].instance_id, runs[1].instance_id);
    let instance = world
        .store
        .get_instance(runs[0].instance_id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        instance.parent_instance_id,
        Some(world.run(parent).await.instance_id)
    );
}

async fn scenario_spawn_with_timeout(world: World) {
    // The definition would let it work for an hour, or for a moment; the request says otherwise.
    let slow = AgentDefinition {
        default_timeout_ms: Some(3_600_000),
        ..AgentDefinition::new("slow", "")
    };
    world
        .agent_as(slow, |run: RunContext| async move {
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    let hasty = AgentDefinition {
        default_timeout_ms: Some(1),
        ..AgentDefinition::new("hasty", "")
    };
    world
        .agent_as(hasty, |_| async {
            // Much longer than its own time: on a busy machine, too, that has to be over before.
            tokio::time::sleep(Duration::from_millis(500)).await;
            Ok(AgentEnd::completed("in time"))
        })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("slow", "t").with_timeout(Duration::from_millis(20)),
        SpawnRequest::new("hasty", "t").with_timeout(Duration::from_secs(600)),
        SpawnRequest::new("hasty", "t"),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert_eq!(
        (results[0].status, results[0].steps),
        (RunStatus::Paused, 1)
    );
    assert_eq!(
        results[0].pause_reason.as_deref(),
        Some(pause_reason::TIMEOUT)
    );
    assert_eq!(
        (results[1].status, results[1].summary.as_deref()),
        (RunStatus::Completed, Some("in time"))
    );
    assert_eq!(
        results[2].status,
        RunStatus::Paused,
        "where the request says nothing, the definition does"
    );
    assert_eq!(
        world.messages(run_of(&results[0])).await.len(),
        2,
        "what it had recorded is there"
    );
}

async fn a_spawned_run_takes_the_lower_of_two_bounds(world: World) {
    let bounded = AgentDefinition {
        max_steps: Some(3),
        ..AgentDefinition::new("bounded", "")
    };
    let as_it_likes = AgentDefinition::new("as it likes", "");
    for agent in [bounded, as_it_likes] {
        world
            .agent_as(agent, |run: RunContext| async move {
                steps(&run, 10).await?;
                Ok(AgentEnd::completed("all ten"))
            })
            .await;
    }
    let parent = world.parent().await;
    let spawn = |name: &str| SpawnRequest::new(name, "t");
    let requests = vec![
        spawn("bounded").with_max_steps(2),
        spawn("bounded").with_max_steps(9),
        spawn("bounded"),
        spawn("as it likes").with_max_steps(4),
        spawn("as it likes"),
        spawn("bounded").with_max_steps(0),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert_eq!(
        results
            .iter()
            .map(|result| result.steps)
            .collect::<Vec<_>>(),
        [2, 3, 3, 4, 10, 0]
    );
    assert!(
        results[5]
            .error
            .as_deref()
            .unwrap()
            .contains("`max_steps`: 0 is not a whole number from 1"),
        "{:?}",
        results[5]
    );
    let resumed = SpawnRequest::resume("bounded", run_of(&results[0])).with_max_steps(1);
    let results = world
        .orchestrator
        .spawn_agents(parent, vec![resumed])
        .await
        .unwrap();
    assert_eq!(
        (results[0].steps, results[0].status),
        (3, RunStatus::Paused),
        "one more than the two before"
    );
}

async fn an_agent_that_was_deleted_is_not_spawned(world: World) {
    let (inside, deleted) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (told, go_on) = (Arc::clone(&inside), Arc::clone(&deleted));
    world
        .agent("worker", move |run: RunContext| {
            let (told, go_on) = (Arc::clone(&told), Arc::clone(&go_on));
            async move {
                told.notify_one();
                go_on.notified().await;
                steps(&run, 1).await?;
                Ok(AgentEnd::completed("done all the same"))
            }
        })
        .await;
    let at_work = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    inside.notified().await;
    world
        .store
        .agents()
        .delete(Some(PROJECT), "worker")
        .await
        .unwrap();
    assert!(
        world
            .store
            .agents()
            .list_available_agents(Some(PROJECT))
            .await
            .unwrap()
            .is_empty()
    );
    let refusal = async || {
        let requests = vec![SpawnRequest::new("worker", "t")];
        let parent = world.parent().await;
        let mut told = world
            .orchestrator
            .spawn_agents(parent, requests)
            .await
            .unwrap();
        let refused = told.remove(0);
        assert_eq!((refused.status, refused.run_id), (RunStatus::Failed, None));
        refused.error.unwrap()
    };
    let error = refusal().await;
    assert!(error.contains("no agent \"worker\" is defined"), "{error}");
    let advice = "what it does is registered: define it too, with `agents.put`";
    assert!(error.contains(advice), "{error}");
    let elsewhere = AgentDefinition::new("worker", "");
    world.store.agents().put(elsewhere).await.unwrap();
    let error = refusal().await;
    let why = format!("is defined for no project, but this session is of project {PROJECT:?}");
    assert!(error.contains(&why), "{error}");
    deleted.notify_one();
    let ended = at_work.wait().await.unwrap();
    assert_eq!(
        (ended.status, ended.summary.as_deref()),
        (RunStatus::Completed, Some("done all the same"))
    );
}

async fn scenario_spawn_with_resume(world: World) {
    let definition = AgentDefinition {
        max_steps: Some(2),
        ..AgentDefinition::new("worker", "")
    };
    world
        .agent_as(definition, |run: RunContext| async move {
            while run.run().step_count < 4 {
                steps(&run, 1).await?;
            }
            Ok(AgentEnd::completed("four steps"))
        })
        .await;
    let parent = world.parent().await;
    let spawn = |request| world.orchestrator.spawn_agents(parent, vec![request]);
    let first = spawn(SpawnRequest::new("worker", "Take four steps."))
        .await
        .unwrap()
        .remove(0);
    assert_eq!((first.status, first.steps), (RunStatus::Paused, 2));
    assert_eq!(
        first.pause_reason.as_deref(),
        Some(pause_reason::STEP_BUDGET)
    );
    let before = world.context(run_of(&first)).await;

    let second = spawn(SpawnRequest::resume("worker", run_of(&first)))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (second.status, second.steps),
        (RunStatus::Completed, 4),
        "a fresh budget, counting on"
    );
    let run = world.run(run_of(&second)).await;
    assert_eq!(
        (run.resumed_from, run.parent_run_id),
        (first.run_id, Some(parent))
    );
    let after = world.context(run_of(&second)).await;
    assert_eq!(after[..before.len()], before, "the conversation as it was");
    assert!(
        after[before.len()].contains("Continue your work"),
        "{}",
        after[before.len()]
    );
}

async fn scenario_invalid_agent_name(world: World) {
    world
        .agent("worker", |_| async { Ok(AgentEnd::completed("done")) })
        .await;
    world
        .store
        .agents()
        .define(AgentDefinition {
            project: Some(PROJECT.into()),
            ..AgentDefinition::new("idle", "")
        })
        .await
        .unwrap();
    let parent = world.parent().await;
    let requests = ["worker", "nobody", "idle", "worker"]
        .map(|name| SpawnRequest::new(name, "t"))
        .to_vec();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(
        statuses,
        [
            RunStatus::Completed,
            RunStatus::Failed,
            RunStatus::Failed,
            RunStatus::Completed
        ]
    );
    assert_eq!(results[1].run_id, None);
    assert!(
        results[1].error.as_deref().unwrap().ends_with(
            "is defined in project \"papers\"; the list of available agents tells which are"
        ),
        "{results:?}"
    );
    assert!(
        results[2]
            .error
            .as_deref()
            .unwrap()
            .ends_with("no executor is registered for it; register one, in JavaScript a function"),
        "{results:?}"
    );
}

async fn scenario_parent_cancellation_cascades(world: World) {
    world
        .agent("leaf", |run: RunContext| async move {
            steps(&run, 2).await?;
            run.cancelled().await;
            // What it has, it can still record.
            run.record_message(NewMessage::assistant("partial")).await?;
            Ok(AgentEnd::completed("not asked for any more"))
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents(vec![
                SpawnRequest::new("leaf", "a"),
                SpawnRequest::new("leaf", "b"),
            ])
            .await?;
            Ok(AgentEnd::completed("never"))
        })
        .await;
    // By its own timeout, and by being cancelled; both once those below have taken their steps.
    let timed = world.start("lead").with_timeout(Duration::from_secs(1));
    let lead = world.orchestrator.start(timed).await.unwrap();
    let result = lead.wait().await.unwrap();
    assert_eq!(
        (result.status, result.pause_reason.as_deref()),
        (RunStatus::Paused, Some(pause_reason::TIMEOUT))
    );
    let cancelled = world.orchestrator.start(world.start("lead")).await.unwrap();
    wait_for(&world, 2).await;
    cancelled.cancel().await.unwrap();
    assert_eq!(cancelled.wait().await.unwrap().status, RunStatus::Cancelled);
    // What can be resumed is, and what nobody wants any more is not.
    for (lead, status) in [
        (lead.run_id(), RunStatus::Paused),
        (cancelled.run_id(), RunStatus::Cancelled),
    ] {
        let children = world
            .store
            .runs()
            .children(lead, 10, None)
            .await
            .unwrap()
            .items;
        assert_eq!(children.len(), 2);
        for child in children {
            assert_eq!(child.status, status);
            let messages = world.messages(child.id).await;
            assert!(
                messages
                    .last()
                    .unwrap()
                    .content
                    .as_str()
                    .contains("partial")
            );
        }
    }
    assert_eq!(world.orchestrator.live_count(), 0);
}

/// Waits until so many sub-agents have taken their steps.
async fn wait_for(world: &World, count: usize) {
    loop {
        let running = ListRuns {
            status: Some(RunStatus::Running),
            agent_name: Some("leaf".into()),
            ..ListRuns::default()
        };
        let running = world.store.runs().list(&running).await.unwrap().items;
        if running.iter().filter(|run| run.step_count == 2).count() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn scenario_individual_sub_agent_timeout(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            if run.task() == "slow" {
                forever().await;
            }
            tokio::time::sleep(Duration::from_millis(60)).await;
            assert!(!run.is_cancelled());
            steps(&run, 1).await?;
            Ok(AgentEnd::completed("done"))
        })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("worker", "quick"),
        SpawnRequest::new("worker", "slow").with_timeout(Duration::from_millis(10)),
        SpawnRequest::new("worker", "quick").with_timeout(Duration::from_secs(60)),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(
        statuses,
        [
            RunStatus::Completed,
            RunStatus::Paused,
            RunStatus::Completed
        ]
    );
    assert_eq!(world.run(parent).await.status, RunStatus::Running);
}

async fn a_spawn_tells_its_runs_at_once_and_each_as_it_ends(world: World) {
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    world
        .agent("worker", move |run: RunContext| {
            let waits = Arc::clone(&waits);
            async move {
                if run.task() == "slow" {
                    waits.notified().await;
                }
                Ok(AgentEnd::completed(run.task()))
            }
        })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("worker", "slow"),
        SpawnRequest::new("nobody", "quick"),
        SpawnRequest::new("worker", "quick"),
    ];
    let mut spawned = world.orchestrator.spawn(parent, requests).await.unwrap();
    let runs = spawned.run_ids().to_vec();
    let refused = spawned.next().await.unwrap();
    let quick = spawned.next().await.unwrap();
    // The slow one goes on once the quick one has been told of.
    go_on.notify_one();
    let slow = spawned.next().await.unwrap();
    assert_eq!(spawned.next().await, None);
    let results = spawned.results().await.unwrap();
    assert_eq!((refused.0, quick.0, slow.0), (1, 2, 0));
    assert_eq!(results, [slow.1, refused.1, quick.1]);
    let told: Vec<_> = results.iter().map(|result| result.run_id).collect();
    assert_eq!(runs, told);
    assert_eq!(results[1].run_id, None);
    assert_eq!(results[0].summary.as_deref(), Some("slow"));
    let spawned = world.orchestrator.spawn(parent, Vec::new()).await.unwrap();
    assert_eq!(spawned.results().await.unwrap(), []);
}

async fn a_spawn_that_is_let_go_of_is_cancelled(world: World) {
    world.agent("worker", |_| async { forever().await }).await;
    let parent = world.parent().await;
    let requests = vec![SpawnRequest::new("worker", "x")];
    let spawned = world.orchestrator.spawn(parent, requests).await.unwrap();
    let run = spawned.run_ids()[0].unwrap();
    let handle = world.orchestrator.handle(run).unwrap();
    drop(spawned);
    assert_eq!(handle.wait().await.unwrap().status, RunStatus::Cancelled);
}

async fn what_stops_sub_agents_is_told_by_its_kind(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            if run.task() == "says so" {
                return Ok(AgentEnd::paused("timeout"));
            }
            if run.task() == "steps" {
                steps(&run, 5).await?;
            }
            forever().await
        })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("worker", "slow").with_timeout(Duration::from_millis(10)),
        SpawnRequest::new("worker", "steps").with_max_steps(2),
        SpawnRequest::new("worker", "says so"),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let kinds: Vec<_> = results.iter().map(|result| result.stop_kind).collect();
    let expected = [StopKind::Timeout, StopKind::Budget, StopKind::Requested];
    assert_eq!(kinds, expected.map(Some));
    let json = serde_json::to_value(&results).unwrap();
    assert_eq!(json[0]["stop_kind"], "timeout");
    for result in results {
        assert_eq!(
            world.run(result.run_id.unwrap()).await.stop_kind,
            result.stop_kind
        );
    }
}

async fn a_spawn_is_one_batch_with_its_record(world: World) {
    let seen = Arc::new(AtomicUsize::new(0));
    let store = world.store.clone();
    let counted = Arc::clone(&seen);
    world
        .agent("worker", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = &store;
            async { Ok(AgentEnd::from(())) }
        })
        .await;
    let parent = world.parent().await;
    let requests = ["worker", "nobody", "worker"]
        .map(|name| SpawnRequest::new(name, "t"))
        .to_vec();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    // Every record of the spawn lies in one stretch of the log: the call, what the run's stream says, the children.
    let page = world
        .store
        .backend()
        .scan(runlog::engine::Position(1), 1_000)
        .await
        .unwrap();
    let place = |pick: &dyn Fn(&runlog::engine::Record) -> bool| {
        page.records
            .iter()
            .position(pick)
            .unwrap_or_else(|| panic!("it is in the log"))
    };
    let call = place(&|record| {
        record.payload.starts_with(b"{\"role\":\"assistant\"") && record.kind.0 == 3
    });
    let told = place(&|record| record.kind.0 == 48);
    assert_eq!(
        told,
        call + 2,
        "the call, its tool_call event, and what the run's stream says of it"
    );
    for result in [&results[0], &results[2]] {
        let id = run_of(result);
        let child = place(&|record| record.stream.0 == id.as_uuid());
        assert!(child > told && child < told + 12, "{child} follows {told}");
    }
    let record: serde_json::Value = serde_json::from_slice(&page.records[told].payload).unwrap();
    assert_eq!(
        (&record["count"], record["agents"].as_array().unwrap().len()),
        (&3.into(), 3)
    );
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

async fn results_stand_in_the_parents_context(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            Ok(AgentEnd::completed(format!("did {}", run.task())))
        })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("worker", "a"),
        SpawnRequest::new("worker", "b"),
    ];
    world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let context = world.context(parent).await;
    assert_eq!(context.len(), 3);
    assert!(
        context[1].contains("\"spawn_agents\"") && context[1].contains("tool_calls"),
        "{}",
        context[1]
    );
    assert!(
        context[2].contains("did a") && context[2].contains("did b"),
        "{}",
        context[2]
    );
    let calls = world
        .store
        .runs()
        .tool_calls(parent, &runlog::runs::ListToolCalls::default())
        .await
        .unwrap()
        .items;
    assert_eq!(
        (calls.len(), calls[0].tool_name.as_str()),
        (1, "spawn_agents")
    );
    assert_eq!(calls[0].status, runlog::runs::ToolCallStatus::Completed);
    assert!(calls[0].duration_ms.is_some());
}

async fn results_come_in_the_order_of_the_requests(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            let ms: u64 = run.task().parse().unwrap();
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok(AgentEnd::completed(run.task()))
        })
        .await;
    let parent = world.parent().await;
    let requests = ["40", "1", "20"]
        .map(|ms| SpawnRequest::new("worker", ms))
        .to_vec();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let order: Vec<_> = results
        .iter()
        .map(|result| result.summary.clone().unwrap())
        .collect();
    assert_eq!(order, ["40", "1", "20"]);
}

async fn refused_requests_are_told_one_by_one(world: World) {
    world
        .agent("worker", |_| async { Ok(AgentEnd::completed("done")) })
        .await;
    world
        .agent("other", |_| async { Ok(AgentEnd::paused("later")) })
        .await;
    let parent = world.parent().await;
    let paused = world
        .orchestrator
        .spawn_agents(parent, vec![SpawnRequest::new("other", "t")])
        .await
        .unwrap();
    let done = world
        .orchestrator
        .spawn_agents(parent, vec![SpawnRequest::new("worker", "t")])
        .await
        .unwrap();
    let requests = vec![
        SpawnRequest::new("worker", " "),
        SpawnRequest::new("worker", "t").with_timeout(Duration::ZERO),
        SpawnRequest::resume("worker", run_of(&paused[0])),
        SpawnRequest::resume("worker", run_of(&done[0])),
        SpawnRequest::resume("worker", runlog::RunId(world.store.backend().new_id())),
        SpawnRequest::new("worker", "t"),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    let errors: Vec<_> = results
        .iter()
        .map(|result| result.error.clone().unwrap_or_default())
        .collect();
    for (error, says) in errors.iter().zip([
        "task is empty",
        "timeout of 0",
        "of agent \"other\"",
        "only paused runs",
        "no run",
    ]) {
        assert!(error.contains(says), "{error:?} should say {says:?}");
    }
    assert_eq!(results[5].status, RunStatus::Completed);
}

async fn bounds_are_refused_with_what_they_are(world: World) {
    world
        .agent("worker", |_| async { Ok(AgentEnd::from(())) })
        .await;
    world
        .agent("deep", |run: RunContext| async move {
            let below = run.spawn_agents(vec![SpawnRequest::new("deep", "t")]).await;
            Ok(AgentEnd::completed(match below {
                Ok(results) => results[0].summary.clone().unwrap(),
                Err(error) => format!("{:?} at depth {}", error.kind(), run.depth()),
            }))
        })
        .await;
    let bounded = world.bounded(OrchestratorOptions {
        spawn_max: 3,
        depth_max: 2,
        live_max: 4,
        ..options()
    });
    for name in ["worker", "deep"] {
        bounded.orchestrator.register(
            name,
            runlog::agents::executor_fn(|run: RunContext| async move {
                let below = run.spawn_agents(vec![SpawnRequest::new("deep", "t")]).await;
                Ok::<_, runlog::Error>(match below {
                    Ok(results) => results[0].summary.clone().unwrap(),
                    Err(error) => format!("{:?} at depth {}", error.kind(), run.depth()),
                })
            }),
        );
    }
    let parent = world.parent().await;
    let four = (0..4)
        .map(|_| SpawnRequest::new("worker", "t"))
        .collect::<Vec<_>>();
    let error = bounded
        .orchestrator
        .spawn_agents(parent, four.clone())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert!(error.to_string().contains("at most 3"), "{error}");
    let results = bounded
        .orchestrator
        .spawn_agents(parent, vec![SpawnRequest::new("deep", "t")])
        .await
        .unwrap();
    assert_eq!(
        results[0].summary.as_deref(),
        Some("LimitReached at depth 2")
    );
    let crowded = world.bounded(OrchestratorOptions {
        live_max: 2,
        ..options()
    });
    crowded.orchestrator.register(
        "worker",
        runlog::agents::executor_fn(|_| async { Ok::<_, runlog::Error>(()) }),
    );
    let error = crowded
        .orchestrator
        .spawn_agents(parent, four)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached);
}

async fn no_more_agents_work_at_a_time_than_allowed(world: World) {
    let world = world.bounded(OrchestratorOptions {
        concurrent_max: 3,
        ..options()
    });
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&working), Arc::clone(&most));
    world
        .agent("worker", move |run: RunContext| {
            let (working, most) = (Arc::clone(&counted), Arc::clone(&seen));
            async move {
                most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                steps(&run, 2).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                working.fetch_sub(1, Ordering::SeqCst);
                Ok(AgentEnd::from(()))
            }
        })
        .await;
    let parent = world.parent().await;
    let requests = (0..20).map(|_| SpawnRequest::new("worker", "t")).collect();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert!(
        results
            .iter()
            .all(|result| result.status == RunStatus::Completed)
    );
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

async fn agents_that_wait_for_their_own_let_others_work(world: World) {
    let world = world.bounded(OrchestratorOptions {
        concurrent_max: 1,
        ..options()
    });
    world
        .agent("deep", |run: RunContext| async move {
            steps(&run, 1).await?;
            if run.depth() < 4 {
                let two = vec![
                    SpawnRequest::new("deep", "t"),
                    SpawnRequest::new("deep", "t"),
                ];
                let calls = ["one", "other"].map(|id| NewToolCall::new(id, "spawn_agents", "{}"));
                run.record_message(NewMessage::assistant("").with_tool_calls(calls))
                    .await?;
                let one = run.spawn_agents_for("one", two.clone());
                let (one, other) = tokio::join!(one, run.spawn_agents_for("other", two));
                assert!(
                    one?.iter()
                        .chain(&other?)
                        .all(|result| result.status == RunStatus::Completed)
                );
            }
            steps(&run, 1).await?;
            Ok(AgentEnd::from(()))
        })
        .await;
    let root = world.orchestrator.start(world.start("deep")).await.unwrap();
    assert_eq!(root.wait().await.unwrap().status, RunStatus::Completed);
    let all = ListRuns {
        status: Some(RunStatus::Completed),
        limit: 1_000,
        ..ListRuns::default()
    };
    assert_eq!(
        world.store.runs().list(&all).await.unwrap().items.len(),
        1 + 4 + 16 + 64 + 256
    );
}

async fn an_agent_that_waits_again_before_its_turn_came_lets_others_work(world: World) {
    let world = world.bounded(OrchestratorOptions {
        concurrent_max: 1,
        ..options()
    });
    let begins_again = Arc::new(Notify::new());
    let begins = Arc::clone(&begins_again);
    let a_moment = || tokio::time::sleep(Duration::from_millis(50));
    // It has the turn when the first sub-agent is done, and until the lead waits for its turn and for the second.
    world
        .agent("between", move |_| {
            let begins = Arc::clone(&begins);
            async move {
                a_moment().await;
                begins.notify_one();
                a_moment().await;
                Ok(AgentEnd::from(()))
            }
        })
        .await;
    let start = world.start("between");
    world
        .agent("first", move |run: RunContext| {
            let start = start.clone();
            async move {
                run.orchestrator().start(start).await?;
                a_moment().await;
                Ok(AgentEnd::from(()))
            }
        })
        .await;
    world
        .agent("second", |_| async { Ok(AgentEnd::from(())) })
        .await;
    world
        .agent("lead", move |run: RunContext| {
            let begins_again = Arc::clone(&begins_again);
            async move {
                let second = async {
                    begins_again.notified().await;
                    run.spawn_agents(vec![SpawnRequest::new("second", "t")])
                        .await
                };
                let (first, second) = tokio::join!(
                    run.spawn_agents(vec![SpawnRequest::new("first", "t")]),
                    second
                );
                Ok(AgentEnd::completed(format!(
                    "{} {}",
                    first?[0].status, second?[0].status
                )))
            }
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(120), lead.wait()).await;
    let ended = ended
        .expect("the second sub-agent gets the turn that its parent waited for")
        .unwrap();
    assert_eq!(ended.summary.as_deref(), Some("completed completed"));
}

async fn a_space_is_shared_by_the_whole_tree(world: World) {
    world
        .agent("leaf", |run: RunContext| async move {
            let said = run.space().get("question").map(|json| json.to_string());
            run.space().set("answer", RawJson::string("42")).unwrap();
            Ok(AgentEnd::completed(said.unwrap_or_default()))
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            run.space()
                .set("question", RawJson::string("life?"))
                .unwrap();
            let results = run
                .spawn_agents(vec![SpawnRequest::new("leaf", "t")])
                .await?;
            assert_eq!(results[0].summary.as_deref(), Some("\"life?\""));
            Ok(AgentEnd::completed(
                run.space().get_and_delete("answer").unwrap().to_string(),
            ))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    assert_eq!(
        lead.wait().await.unwrap().summary.as_deref(),
        Some("\"42\"")
    );
    // Two trees have a space each.
    let lead = world.orchestrator.start(world.start("leaf")).await.unwrap();
    assert_eq!(lead.wait().await.unwrap().summary.as_deref(), Some(""));
}

async fn commands_reach_the_run_they_are_for(world: World) {
    world
        .agent("listener", |run: RunContext| async move {
            let command = run.next_command().await;
            assert_eq!(command.run_id, Some(run.run_id().to_string()));
            Ok(AgentEnd::completed(command.message().unwrap_or_default()))
        })
        .await;
    let one = world
        .orchestrator
        .start(world.start("listener"))
        .await
        .unwrap();
    let other = world
        .orchestrator
        .start(world.start("listener"))
        .await
        .unwrap();
    let command = |run: runlog::RunId, text: &str| {
        let run = run.to_string();
        RawJson::from_value(&serde_json::json!({"type": "send", "runId": run, "message": text}))
            .unwrap()
    };
    // What names another run is for nobody here.
    for refused in [
        one.send(&command(other.run_id(), "astray")).await,
        world
            .orchestrator
            .send(one.run_id(), &command(other.run_id(), "astray"))
            .await,
        one.send(&RawJson::parse(r#"{"type":"send","runId":"junk","message":"astray"}"#).unwrap())
            .await,
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(
            refused.to_string().contains(&one.run_id().to_string()),
            "{refused}"
        );
    }
    one.send(&command(one.run_id(), "for one")).await.unwrap();
    world
        .orchestrator
        .send(other.run_id(), &command(other.run_id(), "for other"))
        .await
        .unwrap();
    assert_eq!(
        other.wait().await.unwrap().summary.as_deref(),
        Some("for other")
    );
    assert_eq!(
        one.wait().await.unwrap().summary.as_deref(),
        Some("for one")
    );
    let late = one.send(&command(one.run_id(), "late")).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::WrongStatus);
    assert!(late.to_string().contains("is completed"), "{late}");
    // Each is in the stream of its run, for those who look on.
    let options = runlog::flows::PlaybackOptions::default();
    let mut playback = runlog::flows::Playback::new(&world.store, one.run_id(), options)
        .await
        .unwrap();
    let (_, event) = playback.next_event().await.unwrap().unwrap();
    assert_eq!(event.event.event_type, "command:received");
}

async fn a_panic_fails_the_run_with_its_message(world: World) {
    world
        .agent("reckless", |run: RunContext| async move {
            steps(&run, 1).await?;
            panic!("index {} is out of bounds", 7)
        })
        .await;
    world
        .agent("worker", |_| async { Ok(AgentEnd::from(())) })
        .await;
    let parent = world.parent().await;
    let requests = vec![
        SpawnRequest::new("reckless", "t"),
        SpawnRequest::new("worker", "t"),
    ];
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert_eq!(
        (results[0].status, results[0].steps),
        (RunStatus::Failed, 1)
    );
    assert_eq!(
        results[0].error.as_deref(),
        Some("the agent panicked: index 7 is out of bounds")
    );
    assert_eq!(
        world.run(run_of(&results[0])).await.error_message,
        results[0].error
    );
    assert_eq!(results[1].status, RunStatus::Completed);

    // Nor does a panic with what can't be dropped leave the run at work.
    struct OnDrop;
    impl Drop for OnDrop {
        fn drop(&mut self) {
            panic!("in a drop")
        }
    }
    world
        .agent("worse", |_| async { std::panic::panic_any(OnDrop) })
        .await;
    let requests = vec![SpawnRequest::new("worse", "t")];
    let results = world.orchestrator.spawn_agents(parent, requests).await;
    assert_eq!(results.unwrap()[0].status, RunStatus::Failed);
}

async fn an_error_fails_the_run_with_its_message(world: World) {
    world
        .agent("unlucky", |_| async {
            Err(runlog::Error::new(ErrorKind::Io, "the model is down"))
        })
        .await;
    let handle = world
        .orchestrator
        .start(world.start("unlucky"))
        .await
        .unwrap();
    let result = handle.wait().await.unwrap();
    assert_eq!(
        (result.status, result.error.as_deref()),
        (RunStatus::Failed, Some("the model is down"))
    );
}

async fn late_writes_are_refused(world: World) {
    let kept = Arc::new(std::sync::Mutex::new(None));
    let keep = Arc::clone(&kept);
    world
        .agent("stubborn", move |run: RunContext| {
            *keep.lock().unwrap() = Some(run);
            async { forever().await }
        })
        .await;
    let handle = world
        .orchestrator
        .start(
            world
                .start("stubborn")
                .with_timeout(Duration::from_millis(5)),
        )
        .await
        .unwrap();
    assert_eq!(handle.wait().await.unwrap().status, RunStatus::Paused);
    let run = kept.lock().unwrap().take().unwrap();
    assert!(run.is_cancelled());
    let late = NewMessage::assistant("late");
    assert_eq!(
        run.record_message(late).await.unwrap_err().kind(),
        ErrorKind::WrongStatus
    );
    assert_eq!(
        run.next_step().await.unwrap_err().kind(),
        ErrorKind::WrongStatus
    );
    let spawn = run
        .spawn_agents(vec![SpawnRequest::new("stubborn", "t")])
        .await;
    assert_eq!(spawn.unwrap_err().kind(), ErrorKind::WrongStatus);
    assert_eq!(world.messages(handle.run_id()).await.len(), 1);
}

async fn a_thousand_sub_agents_in_one_call_record_what_they_do(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            steps(&run, 10).await?;
            Ok(AgentEnd::completed(run.task()))
        })
        .await;
    let parent = world.parent().await;
    // Their prompts and tasks are more than one batch holds.
    let long = "x".repeat(8 << 10);
    let requests = (0..1_000)
        .map(|index| SpawnRequest::new("worker", format!("{index} {long}")))
        .collect();
    let results = world
        .orchestrator
        .spawn_agents(parent, requests)
        .await
        .unwrap();
    assert_eq!(results.len(), 1_000);
    for (index, result) in results.iter().enumerate() {
        assert_eq!((result.status, result.steps), (RunStatus::Completed, 10));
        assert!(
            result
                .summary
                .as_deref()
                .unwrap()
                .starts_with(&format!("{index} "))
        );
        let instance = world.run(run_of(result)).await.instance_id;
        assert_eq!(
            world
                .store
                .contexts()
                .last_sequence(instance)
                .await
                .unwrap(),
            11
        );
    }
    let context = world.context(parent).await;
    assert!(
        context[2].len() < 2 << 20,
        "what the parent's model is given is bounded: {}",
        context[2].len()
    );
    assert_eq!(world.orchestrator.live_count(), 0);
}

async fn a_run_of_another_hand_is_under_way_here_only_while_it_spawns(world: World) {
    world.agent("leaf", |_| async { Ok(().into()) }).await;
    let parent = world.parent().await;
    let results = world
        .orchestrator
        .spawn_agents(parent, vec![SpawnRequest::new("leaf", "t"); 2])
        .await
        .unwrap();
    assert_eq!(results.len(), 2);
    let unknown = world
        .orchestrator
        .spawn_agents_for(parent, "c", vec![SpawnRequest::new("leaf", "t")])
        .await;
    assert_eq!(
        unknown.unwrap_err().kind(),
        ErrorKind::InvalidInput,
        "no agent works for a call that nobody made"
    );
    let made =
        NewMessage::assistant("").with_tool_calls([NewToolCall::new("c", "spawn_agents", "{}")]);
    world
        .store
        .runs()
        .recorder(parent)
        .await
        .unwrap()
        .record_message(made)
        .await
        .unwrap();
    let refused = world
        .orchestrator
        .spawn_agents_for(parent, "c", vec![SpawnRequest::new("nobody", "t")])
        .await;
    assert!(refused.unwrap()[0].error.is_some());
    while world.orchestrator.live_count() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn code_spawns_once_at_a_time(world: World) {
    // The first one is at work until the second one is answered.
    let answered = Arc::new(Semaphore::new(0));
    let of_leaf = Arc::clone(&answered);
    world
        .agent("leaf", move |run: RunContext| {
            let answered = Arc::clone(&of_leaf);
            async move {
                let _turn = answered.acquire().await;
                steps(&run, 1).await.map(AgentEnd::from)
            }
        })
        .await;
    world
        .agent("root", move |run: RunContext| {
            let answered = Arc::clone(&answered);
            async move {
                let spawn = || async {
                    let result = run.spawn_agents(vec![SpawnRequest::new("leaf", "t")]).await;
                    answered.add_permits(1);
                    result
                };
                let (one, other) = tokio::join!(spawn(), spawn());
                // Whichever comes first.
                let (spawned, error) = if one.is_ok() {
                    (one, other)
                } else {
                    (other, one)
                };
                assert_eq!(spawned?[0].status, RunStatus::Completed);
                let error = error.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains("(spawn_agents)"), "{error}");
                assert!(
                    error.to_string().contains("spawn all of it at once"),
                    "{error}"
                );
                spawn().await?;
                Ok(AgentEnd::from(()))
            }
        })
        .await;
    let root = world.orchestrator.start(world.start("root")).await.unwrap();
    let ended = root.wait().await.unwrap();
    assert_eq!(ended.status, RunStatus::Completed, "{ended:?}");
    let below = ListRuns {
        parent_run_id: Some(root.run_id()),
        ..ListRuns::default()
    };
    assert_eq!(
        world.store.runs().list(&below).await.unwrap().items.len(),
        2,
        "what is refused makes no run"
    );
}
