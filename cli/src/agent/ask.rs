//! [`Ask`]: what a program asks of the orchestration.

use runlog::{RawJson, agents::SpawnRequest};

/// What an agent asks of the orchestration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ask {
    /// The line's own id, as JSON.
    pub(crate) id: Option<RawJson>,
    /// The line of the agent's output, counted from 1.
    pub(crate) line: u64,
    pub(crate) what: Asked,
}

/// What an agent may ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Which agents there are.
    List,
    /// To spawn some.
    Spawn {
        /// The call of its model's that asks for them, which gets the results.
        tool_call_id: Option<String>,
        /// One for each.
        requests: Vec<SpawnRequest>,
    },
}
