//! The one inbox of a run: whoever sends, and whoever takes.

use std::{sync::Arc, time::Duration};

use runlog::{
    ErrorKind, NewMessage, RawJson, RunId, RunStatus,
    agents::{AgentEnd, OrchestratorOptions, RunContext},
    flows::{FlowRun, RunSnapshot, RuntimeEvent},
    runs::ResumeOptions,
};
use tokio::sync::{Notify, mpsc};

use super::support::{World, options};

crate::claims!(
    a_command_by_the_flow_of_a_run_reaches_its_agent_once
    what_is_sent_to_a_run_is_taken_once_by_its_agent_or_its_flow
    what_an_agent_took_and_answered_does_not_come_back
    a_snapshot_of_a_flow_keeps_what_the_agent_took_and_did_not_answer
    what_waits_outlives_two_crashes_and_needs_no_run_id
    what_would_not_come_back_after_a_crash_is_refused
    snapshots_of_a_run_and_of_its_flow_keep_what_waits_for_both
    a_state_of_an_agent_in_the_place_of_one_of_its_flow_harms_no_later_one
    a_flow_that_begins_late_has_what_waits_for_its_run
    commands_sent_from_both_sides_at_once_come_once_each
    what_an_agent_takes_and_never_records_fills_its_inbox
    senders_at_once_do_not_pass_a_full_inbox
);

fn message(to: RunId, text: &str) -> RawJson {
    let to = to.to_string();
    RawJson::from_value(&serde_json::json!({"type": "send", "runId": to, "message": text})).unwrap()
}

fn text(command: runlog::flows::RuntimeCommand) -> String {
    command.message().unwrap_or_default().to_owned()
}

/// An agent that tells what it is sent, and says nothing of it in its context.
async fn listener(world: &World) -> mpsc::UnboundedReceiver<String> {
    listener_named(world, "listener").await
}

async fn listener_named(world: &World, name: &str) -> mpsc::UnboundedReceiver<String> {
    let (told, heard) = mpsc::unbounded_channel();
    world
        .agent(name, move |run: RunContext| {
            let told = told.clone();
            async move {
                loop {
                    told.send(text(run.next_command().await)).unwrap();
                }
            }
        })
        .await;
    heard
}

/// An agent that waits until it is told to go on, with what it then does.
async fn idle(world: &World) -> Arc<Notify> {
    let go_on = Arc::new(Notify::new());
    let told = Arc::clone(&go_on);
    world
        .agent("idle", move |_| {
            let told = Arc::clone(&told);
            async move {
                told.notified().await;
                Ok(AgentEnd::paused("later"))
            }
        })
        .await;
    go_on
}

async fn a_command_by_the_flow_of_a_run_reaches_its_agent_once(world: World) {
    let mut heard = listener(&world).await;
    let run = world
        .orchestrator
        .start(world.start("listener"))
        .await
        .unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    flow.command(&message(id, "by the flow")).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "by the flow");
    let mut other = FlowRun::attach(&world.store, id).await.unwrap();
    other
        .command(&message(id, "by another handle"))
        .await
        .unwrap();
    assert_eq!(heard.recv().await.unwrap(), "by another handle");
    run.send(&message(id, "by the orchestrator")).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "by the orchestrator");
    // What was delivered waits for nobody.
    flow.refresh().await.unwrap();
    assert_eq!(
        (
            flow.state().inbox.len(),
            flow.take_inbox(&id.to_string()).len()
        ),
        (0, 0)
    );
    // What is for a node of the flow is the flow's alone.
    flow.command(&RawJson::parse(r#"{"type":"send","runId":"node","message":"m"}"#).unwrap())
        .await
        .unwrap();
    assert_eq!(flow.take_inbox("node").len(), 1);
    assert!(
        tokio::time::timeout(Duration::from_millis(20), heard.recv())
            .await
            .is_err()
    );
    world.orchestrator.cancel(id).await.unwrap();
}

async fn what_is_sent_to_a_run_is_taken_once_by_its_agent_or_its_flow(world: World) {
    let go_on = idle(&world).await;
    let run = world.orchestrator.start(world.start("idle")).await.unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    run.send(&message(id, "one")).await.unwrap();
    flow.command(&message(id, "two")).await.unwrap();
    assert_eq!(
        flow.state().inbox.len(),
        2,
        "it shows what waits for the run"
    );
    let taken: Vec<_> = flow
        .take_inbox(&id.to_string())
        .into_iter()
        .map(text)
        .collect();
    assert_eq!(taken, ["one", "two"]);
    let mut other = FlowRun::attach(&world.store, id).await.unwrap();
    assert!(other.take_inbox(&id.to_string()).is_empty());
    go_on.notify_one();
    run.wait().await.unwrap();
}

async fn what_an_agent_took_and_answered_does_not_come_back(world: World) {
    world
        .agent("worker", |run: RunContext| async move {
            let mut taken = Vec::new();
            while let Some(command) = run.take_command() {
                taken.push(text(command));
                // It takes one more than it answers.
                if taken.len() == 1 {
                    run.record_message(NewMessage::user(&taken[0])).await?;
                }
            }
            match taken.len() {
                0 => run.record_message(NewMessage::assistant("Ready.")).await?,
                1 => return Ok(AgentEnd::completed(taken.concat())),
                _ => return Ok(AgentEnd::paused("later")),
            };
            let first = text(run.next_command().await);
            run.record_message(NewMessage::user(&first)).await?;
            run.next_command().await;
            Ok(AgentEnd::paused("later"))
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("worker"))
        .await
        .unwrap();
    run.send(&message(run.run_id(), "answered")).await.unwrap();
    run.send(&message(run.run_id(), "not answered"))
        .await
        .unwrap();
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let again = world
        .orchestrator
        .resume(run.run_id(), &ResumeOptions::default(), None)
        .await
        .unwrap();
    assert_eq!(
        again.wait().await.unwrap().summary.as_deref(),
        Some("not answered")
    );
}

async fn a_snapshot_of_a_flow_keeps_what_the_agent_took_and_did_not_answer(world: World) {
    let go_on = Arc::new(Notify::new());
    let (told, mut heard) = mpsc::unbounded_channel();
    let answer = Arc::clone(&go_on);
    world
        .agent("slow", move |run: RunContext| {
            let (told, answer) = (told.clone(), Arc::clone(&answer));
            async move {
                loop {
                    told.send(text(run.next_command().await)).unwrap();
                    answer.notified().await;
                    run.record_message(NewMessage::assistant("Done.")).await?;
                }
            }
        })
        .await;
    let run = world.orchestrator.start(world.start("slow")).await.unwrap();
    let id = run.run_id();
    let send = async |text: &str| run.send(&message(id, text)).await.unwrap();
    send("before the flow").await;
    assert_eq!(heard.recv().await.unwrap(), "before the flow");
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    let waiting = async || {
        let waiting = FlowRun::waiting(&world.store, id).await.unwrap();
        waiting.into_iter().map(text).collect::<Vec<_>>()
    };
    assert_eq!(waiting().await, ["before the flow"]);
    go_on.notify_one();
    send("not answered").await;
    assert_eq!(heard.recv().await.unwrap(), "not answered");
    assert_eq!(
        waiting().await,
        ["not answered"],
        "the first one is answered"
    );
    send("for the flow").await;
    assert_eq!(flow.take_inbox(&id.to_string()).len(), 1);
    send("waits").await;
    flow.save_snapshot().await.unwrap();
    assert_eq!(flow.state().inbox.len(), 1, "it shows what waits");
    assert_eq!(waiting().await, ["not answered", "waits"]);
    // An answer after the snapshot is one to the command that was taken before it.
    go_on.notify_one();
    assert_eq!(heard.recv().await.unwrap(), "waits");
    assert_eq!(waiting().await, ["waits"]);
    flow.save_snapshot().await.unwrap();
    assert!(flow.state().inbox.is_empty());

    let world = world.reopened(options());
    world.store.recover_runs().await.unwrap();
    let mut heard = listener_named(&world, "slow").await;
    let again = world
        .orchestrator
        .resume(id, &ResumeOptions::default(), None)
        .await
        .unwrap();
    assert_eq!(heard.recv().await.unwrap(), "waits");
    world.orchestrator.cancel(again.run_id()).await.unwrap();
    assert!(heard.try_recv().is_err(), "each once");
}

async fn what_waits_outlives_two_crashes_and_needs_no_run_id(world: World) {
    let _never = idle(&world).await;
    let run = world.orchestrator.start(world.start("idle")).await.unwrap();
    // A run id needn't be said to the run itself.
    run.send(&RawJson::parse(r#"{"type":"send","message":"for it"}"#).unwrap())
        .await
        .unwrap();
    let mut last = run.run_id();
    let mut world = world;
    for _ in 0..2 {
        world = world.reopened(options());
        world.store.recover_runs().await.unwrap();
        let _never = idle(&world).await;
        let resumed = world
            .orchestrator
            .resume(last, &ResumeOptions::default(), None)
            .await
            .unwrap();
        last = resumed.run_id();
    }
    let mut flow = FlowRun::create(&world.store, Some(last)).await.unwrap();
    let taken = flow.take_inbox(&last.to_string());
    assert_eq!(taken.len(), 1);
    assert_eq!(
        taken[0].run_id,
        Some(last.to_string()),
        "it is for the run that goes on"
    );
    world.orchestrator.cancel(last).await.unwrap();
}

async fn what_would_not_come_back_after_a_crash_is_refused(world: World) {
    let _never = idle(&world).await;
    let run = world.orchestrator.start(world.start("idle")).await.unwrap();
    for refused in [
        r#"{"type":"send","message":{"role":"user","content":"an object"}}"#,
        r#"{"type":"reply","message":5}"#,
        r#"{"type":"resume","message":["a list"]}"#,
    ] {
        let error = run.send(&RawJson::parse(refused).unwrap()).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{refused}: {error}");
    }
    let own = r#"{"type":"rate","message":{"stars":5}}"#;
    run.send(&RawJson::parse(own).unwrap()).await.unwrap();
    run.send(&message(run.run_id(), "text")).await.unwrap();
    let id = run.run_id();
    let world = world.reopened(options());
    world.store.recover_runs().await.unwrap();
    let _never = idle(&world).await;
    let resumed = world
        .orchestrator
        .resume(id, &ResumeOptions::default(), None)
        .await
        .unwrap();
    let mut flow = FlowRun::create(&world.store, Some(resumed.run_id()))
        .await
        .unwrap();
    let taken = flow.take_inbox(&resumed.run_id().to_string());
    let types: Vec<_> = taken.iter().map(|it| it.command_type.as_str()).collect();
    assert_eq!(types, ["rate", "send"]);
    world.orchestrator.cancel(resumed.run_id()).await.unwrap();
}

async fn snapshots_of_a_run_and_of_its_flow_keep_what_waits_for_both(world: World) {
    let told = Arc::new(Notify::new());
    let save = Arc::clone(&told);
    world
        .agent("saver", move |run: RunContext| {
            let save = Arc::clone(&save);
            async move {
                save.notified().await;
                run.next_command().await;
                run.save_snapshot(&RunSnapshot::new("halfway")).await?;
                // It is told of what it took already.
                run.record_message(NewMessage::assistant("Saved.")).await?;
                Ok(AgentEnd::paused("later"))
            }
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("saver"))
        .await
        .unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    for text in ["taken", "waits"] {
        flow.command(&message(id, text)).await.unwrap();
    }
    flow.command(&RawJson::parse(r#"{"type":"send","runId":"node","message":"m"}"#).unwrap())
        .await
        .unwrap();
    flow.save_snapshot().await.unwrap();
    told.notify_one();
    assert_eq!(run.wait().await.unwrap().status, RunStatus::Paused);
    let waiting = FlowRun::waiting(&world.store, id).await.unwrap();
    let mut waiting: Vec<_> = waiting.into_iter().map(text).collect();
    waiting.sort();
    assert_eq!(waiting, ["m", "waits"]);
}

async fn a_state_of_an_agent_in_the_place_of_one_of_its_flow_harms_no_later_one(world: World) {
    let (save, saved) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let notified = (Arc::clone(&save), Arc::clone(&saved));
    world
        .agent("saver", move |run: RunContext| {
            let (save, saved) = notified.clone();
            async move {
                for _ in 0..3 {
                    save.notified().await;
                    run.save_snapshot(&RunSnapshot::new("of the agent")).await?;
                    saved.notify_one();
                }
                save.notified().await;
                Ok(AgentEnd::paused("later"))
            }
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("saver"))
        .await
        .unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    let started = RuntimeEvent::parse(r#"{"type":"node:started"}"#).unwrap();
    for node in 0..3 {
        flow.record(&started).await.unwrap();
        let output = format!("long {}", "words ".repeat(500)).into();
        flow.finish_node(&format!("node-{node}"), output)
            .await
            .unwrap();
        // Nothing was recorded since: it stands at the same sequence.
        save.notify_one();
        saved.notified().await;
        flow.record(&started).await.unwrap();
        flow.finish_node("small", node.into()).await.unwrap();
        let state = FlowRun::inspect(&world.store, id).await.unwrap();
        assert_eq!(&state, flow.state());
    }
    save.notify_one();
    run.wait().await.unwrap();
}

async fn a_flow_that_begins_late_has_what_waits_for_its_run(world: World) {
    let go_on = idle(&world).await;
    let run = world.orchestrator.start(world.start("idle")).await.unwrap();
    let id = run.run_id();
    run.send(&message(id, "early")).await.unwrap();
    let flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    assert_eq!(flow.state().inbox.len(), 1);
    go_on.notify_one();
    run.wait().await.unwrap();
    let left = FlowRun::waiting(&world.store, id).await.unwrap();
    assert_eq!(left.len(), 1, "the snapshot of its beginning has it");
}

async fn commands_sent_from_both_sides_at_once_come_once_each(world: World) {
    let mut heard = listener(&world).await;
    let run = world
        .orchestrator
        .start(world.start("listener"))
        .await
        .unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    let by_flow = async {
        for index in 0..50 {
            flow.command(&message(id, &format!("flow {index}")))
                .await
                .unwrap();
            if index % 10 == 0 {
                flow.save_snapshot().await.unwrap();
            }
        }
    };
    let by_orchestrator = async {
        for index in 0..50 {
            run.send(&message(id, &format!("orchestrator {index}")))
                .await
                .unwrap();
        }
    };
    tokio::join!(by_flow, by_orchestrator);
    let mut all = Vec::new();
    while all.len() < 100 {
        all.push(heard.recv().await.unwrap());
    }
    assert!(
        tokio::time::timeout(Duration::from_millis(20), heard.recv())
            .await
            .is_err()
    );
    for sender in ["flow", "orchestrator"] {
        let of_sender: Vec<_> = all.iter().filter(|text| text.starts_with(sender)).collect();
        let wanted: Vec<_> = (0..50).map(|index| format!("{sender} {index}")).collect();
        assert_eq!(of_sender, wanted.iter().collect::<Vec<_>>(), "in order");
    }
    world.orchestrator.cancel(id).await.unwrap();
}

/// The same world, where so many commands have room.
fn with_room(world: &World, inbox_max: usize) -> World {
    world.bounded(OrchestratorOptions {
        inbox_max,
        ..options()
    })
}

async fn what_an_agent_takes_and_never_records_fills_its_inbox(world: World) {
    let world = with_room(&world, 3);
    let (told, mut heard) = mpsc::unbounded_channel();
    let record = Arc::new(Notify::new());
    let recorded = Arc::clone(&record);
    world
        .agent("listener", move |run: RunContext| {
            let (told, record) = (told.clone(), Arc::clone(&recorded));
            async move {
                for _ in 0..3 {
                    told.send(text(run.next_command().await)).unwrap();
                }
                record.notified().await;
                run.record_message(NewMessage::assistant("Noted.")).await?;
                told.send("recorded".to_owned()).unwrap();
                loop {
                    told.send(text(run.next_command().await)).unwrap();
                }
            }
        })
        .await;
    let run = world
        .orchestrator
        .start(world.start("listener"))
        .await
        .unwrap();
    let id = run.run_id();
    let mut flow = FlowRun::create(&world.store, Some(id)).await.unwrap();
    for number in 0..3 {
        run.send(&message(id, &number.to_string())).await.unwrap();
        assert_eq!(heard.recv().await.unwrap(), number.to_string());
    }
    // None waits, and yet there is no room: what it took is delivered again after a crash.
    let refused = run.send(&message(id, "more")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached);
    assert!(
        refused.to_string().contains("took 3 without recording"),
        "{refused}"
    );
    let refused = flow.command(&message(id, "more")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached);
    let refused = FlowRun::resume(&world.store, id, Some("more")).await;
    let refused = refused.map(|_| ()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitReached, "{refused}");
    let waiting = FlowRun::waiting(&world.store, id).await.unwrap();
    assert_eq!(waiting.len(), 3, "what is refused is not recorded");
    record.notify_one();
    assert_eq!(heard.recv().await.unwrap(), "recorded");
    run.send(&message(id, "after")).await.unwrap();
    assert_eq!(heard.recv().await.unwrap(), "after");
    world.orchestrator.cancel(id).await.unwrap();
}

async fn senders_at_once_do_not_pass_a_full_inbox(world: World) {
    let world = with_room(&world, 1);
    let _never = idle(&world).await;
    let run = world.orchestrator.start(world.start("idle")).await.unwrap();
    let id = run.run_id();
    let mut senders = tokio::task::JoinSet::new();
    for number in 0..24 {
        let (orchestrator, store) = (world.orchestrator.clone(), world.store.clone());
        senders.spawn(async move {
            let command = message(id, &number.to_string());
            if number % 2 == 0 {
                return orchestrator.send(id, &command).await;
            }
            FlowRun::create(&store, Some(id)).await.err();
            let mut flow = FlowRun::attach(&store, id).await?;
            flow.command(&command).await
        });
    }
    let mut sent = 0;
    while let Some(done) = senders.join_next().await {
        match done.unwrap() {
            Ok(()) => sent += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::LimitReached, "{error}"),
        }
    }
    let waiting = FlowRun::waiting(&world.store, id).await.unwrap();
    assert_eq!((sent, waiting.len()), (1, 1));
    world.orchestrator.cancel(id).await.unwrap();
}
