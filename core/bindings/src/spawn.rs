//! Sub-agents to spawn, as JavaScript asks for them.

use std::time::Duration;

use runlog::{
    RunId,
    agents::{SpawnRequest, max_steps},
    contexts::read_value,
};
use serde::Deserialize;
use serde_json::Value;

/// A sub-agent to spawn: a new run of an agent, or one that goes on from a paused run. Models give seconds and names with
/// `_` instead, as the tool's definition says.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "SpawnRequest"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GivenSpawn {
    /// The agent, by its name in the parent's project.
    agent_name: String,
    /// What it is to do: its first user message. For a run that is resumed, what it is told beside to continue.
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

/// Sub-agents to spawn. One that can't be read is refused alone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_of_steps_that_is_none_is_told_by_its_name_and_value() {
        for given in ["0", "1.5", "1000000000000", "\"3\""] {
            let request = format!(r#"{{"agentName":"worker","maxSteps":{given}}}"#);
            let told = runlog::contexts::read_json::<GivenSpawn>(&request)
                .map(drop)
                .unwrap_err();
            assert_eq!(
                told,
                format!("`maxSteps`: {given} is not a whole number from 1 to 4294967295")
            );
        }
        let request =
            runlog::contexts::read_json::<GivenSpawn>(r#"{"agentName":"worker","maxSteps":3}"#);
        assert_eq!(request.map(|request| request.max_steps), Ok(Some(3)));
    }
}
