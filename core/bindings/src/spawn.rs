//! Requests of JavaScript to spawn sub-agents, and [`SpawnedObject`]: running sub-agents.

use std::{rc::Rc, time::Duration};

use runlog::{
    Orchestrator, RunId,
    agents::{SpawnRequest, SpawnResult, Spawned, max_steps},
    contexts::read_value,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    Failure, Result,
    answers::{Made, wait, write},
    arguments::Input,
    calls::calls,
    object::{Object, Scope},
    tasks::Answer,
};

/// A sub-agent to spawn: a new run of an agent, or one that goes on from a paused run. Models give seconds and names with
/// `_` instead, as the tool's definition says.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SpawnRequest"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenSpawn {
    /// The agent, by its name in the parent's project.
    agent_name: String,
    /// What it is to do: its first user message. For a run that is resumed, what it is told besides to continue.
    #[serde(default)]
    task: String,
    /// How long it may work, in milliseconds, in place of its definition's default. Then it is `paused`, and can be
    /// resumed.
    timeout_ms: Option<u64>,
    /// The steps that this run may take, a whole number from 1 to 4294967295; where its agent's definition allows
    /// fewer, that holds. Then it is `paused`, and can be resumed.
    #[serde(default, deserialize_with = "max_steps::deserialize")]
    max_steps: Option<u32>,
    /// The paused run to go on from.
    resume_run_id: Option<RunId>,
}

/// The requests. Only those that can't be read are refused.
pub(crate) fn spawn_requests(given: &[Value]) -> Vec<SpawnRequest> {
    given.iter().map(spawn_request).collect()
}

fn spawn_request(value: &Value) -> SpawnRequest {
    let given: GivenSpawn = match read_value(value) {
        Ok(given) => given,
        Err(why) => {
            let name = value.get("agentName").and_then(Value::as_str);
            return SpawnRequest::unreadable(name.unwrap_or_default(), why);
        }
    };
    let mut request = SpawnRequest::new(given.agent_name, given.task);
    request.timeout = given.timeout_ms.map(Duration::from_millis);
    request.max_steps = given.max_steps;
    request.resume_run_id = given.resume_run_id;
    request
}

/// Running sub-agents. They are cancelled if this is released before they have ended.
pub(crate) struct SpawnedObject {
    orchestrator: Orchestrator,
    /// Taken by the call that returns the results of all of them.
    spawned: Mutex<Option<Spawned>>,
}

impl SpawnedObject {
    pub(crate) fn made(
        scope: &Scope,
        orchestrator: Orchestrator,
        spawned: Spawned,
    ) -> Result<Made<Vec<Option<RunId>>>> {
        let run_ids = spawned.run_ids().to_vec();
        let object = Self {
            orchestrator,
            spawned: Mutex::new(Some(spawned)),
        };
        Made::new(scope, Rc::new(object), &run_ids)
    }

    async fn next(&self) -> Option<(usize, SpawnResult)> {
        self.spawned.lock().await.as_mut()?.next().await
    }

    async fn results(&self) -> Result<Vec<SpawnResult>> {
        let spawned = self.spawned.lock().await.take();
        match spawned {
            Some(spawned) => Ok(spawned.results().await?),
            None => Err(Failure::closed("what was spawned")),
        }
    }
}

impl Object for SpawnedObject {
    fn name(&self) -> &'static str {
        "spawned agents"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        call(&self, scope, input)
    }
}

calls! {
    (of: &Rc<SpawnedObject>, _scope, input) { let (of, orchestrator) = (Rc::clone(of), of.orchestrator.clone()); }

    next {} -> Option<(usize, SpawnResult)> =>
        wait(async move { Ok::<_, Failure>(of.next().await) });
    cancel { run_id: RunId } -> () =>
        wait(async move { orchestrator.cancel(run_id).await.map(drop) });
    send { run_id: RunId } -> () => {
        let command = input.json()?;
        write(async move { orchestrator.send(run_id, &command).await.map(drop) })
    };
    results {} -> Vec<SpawnResult> => wait(async move { of.results().await });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_steps_that_is_none_is_told_by_its_name_and_value() {
        for given in ["0", "1.5", "1000000000000", "\"3\""] {
            let request = format!(r#"{{"agentName":"worker","maxSteps":{given}}}"#);
            let misfit = runlog::contexts::read_json::<GivenSpawn>(&request)
                .map(drop)
                .unwrap_err();
            assert_eq!(
                misfit,
                format!("`maxSteps`: {given} is not a whole number from 1 to 4294967295")
            );
        }
        let request =
            runlog::contexts::read_json::<GivenSpawn>(r#"{"agentName":"worker","maxSteps":3}"#);
        assert_eq!(request.map(|request| request.max_steps), Ok(Some(3)));
    }
}
