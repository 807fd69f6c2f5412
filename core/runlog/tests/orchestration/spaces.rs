//! The space of a tree is there again, as it was saved last, whichever run saved it and however often the tree is resumed.

use runlog::{
    ErrorKind, NewMessage, RawJson, RunId, RunStatus,
    agents::{AgentEnd, RunContext, SpawnRequest},
    retention::Erase,
    runs::ResumeOptions,
};

use super::{
    resuming::{next_process, until_steps},
    support::{World, forever, steps},
};
use crate::claims;

claims! {
    what_a_sub_agent_saved_is_there_for_its_parent_that_is_resumed
    what_a_sub_agent_saved_is_there_after_a_crash
    what_a_run_saved_is_there_however_often_it_is_resumed
    what_was_taken_out_does_not_come_back
    a_sub_agent_that_goes_on_takes_nothing_back_that_its_parent_changed
    a_space_that_is_too_large_is_refused_where_it_is_set
    an_erased_space_keeps_nobody_from_going_on
}

async fn resumed(world: &World, id: RunId) -> String {
    let options = ResumeOptions::default();
    let handle = world.orchestrator.resume(id, &options, None).await.unwrap();
    let run = handle.wait().await.unwrap();
    run.summary.or(run.pause_reason).unwrap_or_default()
}

/// Sets a key, and has it saved with a message.
async fn sets(run: &RunContext, key: &str, value: &str) -> runlog::Result<()> {
    run.space().set(key, RawJson::string(value))?;
    run.next_step().await?;
    run.record_message(NewMessage::assistant("noted")).await?;
    Ok(())
}

async fn tells(world: &World, name: &str) {
    world
        .agent(name, |run: RunContext| async move {
            sets(&run, "answer", "42").await?;
            Ok(AgentEnd::completed("told"))
        })
        .await;
}

async fn shows(world: &World, name: &str) {
    world
        .agent(name, |run: RunContext| async move {
            Ok(AgentEnd::completed(run.space().snapshot().to_string()))
        })
        .await;
}

async fn what_a_sub_agent_saved_is_there_for_its_parent_that_is_resumed(world: World) {
    tells(&world, "kid").await;
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("kid", "x")])
                .await?;
            Ok(AgentEnd::paused("later"))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    assert_eq!(lead.wait().await.unwrap().status, RunStatus::Paused);
    shows(&world, "lead").await;
    assert_eq!(resumed(&world, lead.run_id()).await, r#"{"answer":"42"}"#);
}

async fn what_a_sub_agent_saved_is_there_after_a_crash(world: World) {
    tells(&world, "kid").await;
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("kid", "x")])
                .await?;
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    until_steps(&world, "lead", 1, 1).await;
    let next = next_process(&world);
    shows(&next, "lead").await;
    shows(&next, "kid").await;
    next.orchestrator.resume_all().await.unwrap();
    let by = next.run(lead.run_id()).await.resumed_by.unwrap();
    let summary = next.run(by).await.summary;
    assert_eq!(summary.as_deref(), Some(r#"{"answer":"42"}"#));
}

async fn what_a_run_saved_is_there_however_often_it_is_resumed(world: World) {
    world
        .agent("lead", |run: RunContext| async move {
            if run.space().keys().is_empty() {
                sets(&run, "k", "v").await?;
            }
            Ok(AgentEnd::paused(run.space().snapshot().to_string()))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    lead.wait().await.unwrap();
    let mut id = lead.run_id();
    for _ in 0..3 {
        world
            .agent("lead", |run: RunContext| async move {
                Ok(AgentEnd::paused(run.space().snapshot().to_string()))
            })
            .await;
        assert_eq!(resumed(&world, id).await, r#"{"k":"v"}"#);
        id = world.run(id).await.resumed_by.unwrap();
    }
}

async fn what_was_taken_out_does_not_come_back(world: World) {
    world
        .agent("sets", |run: RunContext| async move {
            sets(&run, "token", "t").await?;
            Ok(AgentEnd::completed("set"))
        })
        .await;
    world
        .agent("takes", |run: RunContext| async move {
            run.space().get_and_delete("token").unwrap();
            sets(&run, "x", "1").await?;
            Ok(AgentEnd::completed("taken"))
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            for name in ["sets", "takes"] {
                run.spawn_agents(vec![SpawnRequest::new(name, "x")]).await?;
            }
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    until_steps(&world, "lead", 1, 1).await;
    let next = next_process(&world);
    for name in ["sets", "takes", "lead"] {
        shows(&next, name).await;
    }
    next.orchestrator.resume_all().await.unwrap();
    let by = next.run(lead.run_id()).await.resumed_by.unwrap();
    assert_eq!(next.run(by).await.summary.as_deref(), Some(r#"{"x":"1"}"#));
}

async fn a_sub_agent_that_goes_on_takes_nothing_back_that_its_parent_changed(world: World) {
    world
        .agent("kid", |run: RunContext| async move {
            if run.task() == "again" {
                return Ok(AgentEnd::completed(run.space().snapshot().to_string()));
            }
            sets(&run, "topic", "old").await?;
            sets(&run, "kid", "was here").await?;
            Ok(AgentEnd::paused("later"))
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            let first = run
                .spawn_agents(vec![SpawnRequest::new("kid", "x")])
                .await?;
            let id = first[0].run_id.unwrap();
            sets(&run, "topic", "new").await?;
            let again = SpawnRequest::resume("kid", id).with_task("again");
            let second = run.spawn_agents(vec![again]).await?;
            Ok(AgentEnd::completed(second[0].summary.clone().unwrap()))
        })
        .await;
    let both = r#"{"kid":"was here","topic":"new"}"#;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    assert_eq!(lead.wait().await.unwrap().summary.as_deref(), Some(both));

    // In another tree it brings along what that one doesn't have.
    let kid = world.orchestrator.start(world.start("kid")).await.unwrap();
    assert_eq!(kid.wait().await.unwrap().status, RunStatus::Paused);
    let id = kid.run_id();
    world
        .agent("lead", move |run: RunContext| async move {
            sets(&run, "topic", "new").await?;
            let again = SpawnRequest::resume("kid", id).with_task("again");
            let results = run.spawn_agents(vec![again]).await?;
            Ok(AgentEnd::completed(results[0].summary.clone().unwrap()))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    assert_eq!(lead.wait().await.unwrap().summary.as_deref(), Some(both));
}

async fn a_space_that_is_too_large_is_refused_where_it_is_set(world: World) {
    world
        .agent("kid", |run: RunContext| async move {
            let large = RawJson::string(&"x".repeat(17 << 20));
            let refused = run.space().set("big", large).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TooLarge);
            steps(&run, 1).await?;
            forever().await
        })
        .await;
    world
        .agent("lead", |run: RunContext| async move {
            run.spawn_agents(vec![SpawnRequest::new("kid", "x")])
                .await?;
            Ok(AgentEnd::completed("done"))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    until_steps(&world, "kid", 1, 1).await;
    lead.cancel().await.unwrap();
    assert_eq!(world.run(lead.run_id()).await.status, RunStatus::Cancelled);
}

async fn an_erased_space_keeps_nobody_from_going_on(world: World) {
    world
        .agent("lead", |run: RunContext| async move {
            sets(&run, "town", "Oslo").await?;
            sets(&run, "pin", "only the lead knows it").await?;
            Ok(AgentEnd::paused("later"))
        })
        .await;
    let lead = world.orchestrator.start(world.start("lead")).await.unwrap();
    lead.wait().await.unwrap();
    let mut positions = Vec::new();
    let page = world.store.backend().scan(runlog::log::Position(1), 10_000);
    for record in page.await.unwrap().records {
        let text = String::from_utf8_lossy(&record.payload);
        if text.contains("only the lead knows it") {
            positions.push(record.position.0);
        }
    }
    assert_eq!(positions.len(), 1);
    let erase = Erase {
        positions,
        reason: "a PIN".to_owned(),
        ..Erase::default()
    };
    world.store.erase(&erase).await.unwrap();
    shows(&world, "lead").await;
    // As it was saved before.
    assert_eq!(resumed(&world, lead.run_id()).await, r#"{"town":"Oslo"}"#);
}
