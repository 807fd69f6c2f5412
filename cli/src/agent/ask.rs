//! [`Ask`]: a program's request to the orchestration.

use runlog::{RawJson, agents::SpawnRequest};

/// An agent's request to the orchestration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// The line's own id, as JSON.
    pub(crate) id: Option<RawJson>,
    /// The line of the agent's output, counted from 1.
    pub(crate) line: u64,
    pub(crate) what: Asked,
}

/// The kinds of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// List the agents that can be spawned.
    List,
    /// Spawn agents.
    Spawn {
        /// The tool call of the agent's model that spawns them, which gets the results.
        tool_call_id: Option<String>,
        /// One request per agent.
        requests: Vec<SpawnRequest>,
    },
}
