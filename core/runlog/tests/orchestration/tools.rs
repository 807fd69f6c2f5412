//! The tools that models call: JSON in, JSON out, recorded as the results of the calls.

use runlog::{
    NewMessage, NewToolCall, RawJson, Role, RunStatus,
    agents::{AgentEnd, LIST_AVAILABLE_AGENTS, RunContext, SPAWN_AGENTS, ToolReply},
};
use serde_json::Value;

use crate::{
    claims,
    support::{World, steps},
};

claims! {
    a_models_calls_are_answered_and_recorded
    a_models_call_in_anthropics_form_is_answered_in_it
    what_is_wrong_with_a_call_is_told_to_the_model
    a_call_of_another_tool_is_left_to_the_executor
}

/// Plays a model that makes one call, and gives the reply and the context after it.
async fn call(
    world: &World,
    name: &'static str,
    arguments: &'static str,
) -> (Option<ToolReply>, Vec<String>) {
    world
        .agent("worker", |run: RunContext| async move {
            steps(&run, 2).await?;
            Ok(AgentEnd::completed(format!("did {}", run.task())))
        })
        .await;
    let (sender, receiver) = std::sync::mpsc::channel();
    world
        .agent("model", move |run: RunContext| {
            let sender = sender.clone();
            async move {
                run.next_step().await?;
                let asked = NewMessage::assistant("")
                    .with_tool_calls([NewToolCall::new("c1", name, arguments)]);
                run.record_message(asked).await?;
                let reply = run
                    .answer_tool_call("c1", name, &RawJson::string(arguments))
                    .await?;
                sender.send(reply).unwrap();
                Ok(().into())
            }
        })
        .await;
    let model = world
        .orchestrator
        .start(world.start("model"))
        .await
        .unwrap();
    assert_eq!(model.wait().await.unwrap().status, RunStatus::Completed);
    (
        receiver.recv().unwrap(),
        world.context(model.run_id()).await,
    )
}

async fn a_models_calls_are_answered_and_recorded(world: World) {
    let (reply, context) = call(&world, LIST_AVAILABLE_AGENTS, "{}").await;
    let listed: Value = reply.unwrap().output.to_value().unwrap();
    assert_eq!(listed["agents"][1]["name"], "worker");
    assert_eq!(context.len(), 3);

    let arguments =
        r#"{"requests":[{"agent_name":"worker","task":"a"},{"agent_name":"nobody","task":"b"}]}"#;
    let (reply, context) = call(&world, SPAWN_AGENTS, arguments).await;
    let reply = reply.unwrap();
    let results: Value = reply.output.to_value().unwrap();
    assert!(!reply.is_error);
    assert_eq!(
        (&results[0]["status"], &results[0]["summary"]),
        (&"completed".into(), &"did a".into())
    );
    assert_eq!(
        (&results[0]["steps"], &results[1]["status"]),
        (&2.into(), &"failed".into())
    );
    assert_eq!(context.len(), 3, "the call was there already: {context:?}");
    let recorded: Value = serde_json::from_str(&context[2]).unwrap();
    assert_eq!(
        (&recorded["role"], &recorded["tool_call_id"]),
        (&"tool".into(), &"c1".into())
    );
    assert_eq!(
        serde_json::from_str::<Value>(recorded["content"].as_str().unwrap()).unwrap(),
        results
    );
}

async fn a_models_call_in_anthropics_form_is_answered_in_it(world: World) {
    world
        .agent("model", |run: RunContext| async move {
            let asked = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"list_available_agents","input":{}}]}"#;
            run.record_raw_message(RawJson::parse(asked)?).await?;
            run.answer_tool_call("t1", LIST_AVAILABLE_AGENTS, &RawJson::parse("{}")?).await?;
            let messages = run.messages().await?;
            assert_eq!(messages.last().unwrap().role, Role::Tool);
            Ok(AgentEnd::completed(messages.last().unwrap().json.to_string()))
        })
        .await;
    let model = world
        .orchestrator
        .start(world.start("model"))
        .await
        .unwrap();
    let summary = model.wait().await.unwrap().summary.unwrap();
    assert!(
        summary.contains("\"tool_use_id\":\"t1\"") && summary.starts_with("{\"role\":\"user\""),
        "{summary}"
    );
}

async fn what_is_wrong_with_a_call_is_told_to_the_model(world: World) {
    for (arguments, says) in [
        (r#"{"requests":"worker"}"#, "is not an array"),
        (r#"{"requests":[]}"#, "at least one"),
        ("not json", "JSON"),
    ] {
        let (reply, context) = call(&world, SPAWN_AGENTS, arguments).await;
        let reply = reply.unwrap();
        assert!(
            reply.is_error && reply.output.as_str().contains(says),
            "{arguments}: {}",
            reply.output
        );
        assert!(context.last().unwrap().contains("error"), "{context:?}");
    }
    // One request that can't be read is refused alone.
    world
        .agent("worker", |_| async { Ok(AgentEnd::completed("fine")) })
        .await;
    let requests = r#"{"requests":[{"agent_name":"worker","task":"a","timeout":-1},{"agent_name":"worker","task":"b"},
        {"agent_name":"worker","task":"c","resume_run_id":"run_7"}]}"#;
    let (reply, _) = call(&world, SPAWN_AGENTS, requests).await;
    let reply = reply.unwrap();
    let results: Vec<Value> = serde_json::from_str(reply.output.as_str()).unwrap();
    let told: Vec<_> = results
        .iter()
        .map(|result| (&result["status"], result["error"].as_str()))
        .collect();
    assert!(!reply.is_error);
    assert_eq!(
        (told[0].0, told[1].0, told[2].0),
        (&"failed".into(), &"completed".into(), &"failed".into())
    );
    assert!(told[0].1.unwrap().contains("timeout"), "{told:?}");
    assert!(
        told[2]
            .1
            .unwrap()
            .contains(r#"`resume_run_id`: "run_7" is not an id"#),
        "{told:?}"
    );
}

async fn a_call_of_another_tool_is_left_to_the_executor(world: World) {
    let (reply, context) = call(&world, "read_file", "{}").await;
    assert_eq!((reply, context.len()), (None, 2));
}
