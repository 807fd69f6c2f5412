//! [`RunSnapshot`]: the state from which a flow is resumed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::RuntimeCommand;
use crate::{
    RawJson, Result,
    encoding::Event,
    json::extra,
    kinds::{RUN_SNAPSHOT, RUN_SNAPSHOT_DIFF},
    limits::FLOW_EVENT_BYTES_MAX,
};

/// The status of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    /// Not started.
    #[default]
    Pending,
    /// Running, or interrupted by a crash.
    Running,
    /// Finished.
    Done,
    /// Failed.
    Failed,
}

/// Whether an edge was taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EdgeStatus {
    /// Not decided.
    #[default]
    Pending,
    /// It was.
    Fired,
    /// It wasn't.
    Skipped,
}

/// The state of a flow, from which it is resumed. Fields that aren't known are kept.
///
/// ```
/// use runlog_model::{NodeStatus, RunSnapshot};
///
/// let mut snapshot = RunSnapshot::new("running");
/// snapshot.node_status.insert("plan".into(), NodeStatus::Running);
/// snapshot.agent_sessions.insert("plan".into(), "sess-123".into());
/// let json = serde_json::to_value(&snapshot).unwrap();
/// assert_eq!(json["agentSessions"]["plan"], "sess-123");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunSnapshot {
    /// The run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The status of the run.
    pub status: String,
    /// The final output of each node that finished.
    pub outputs: BTreeMap<String, Value>,
    /// The flow's own state.
    pub state: Map<String, Value>,
    /// The status of each node.
    pub node_status: BTreeMap<String, NodeStatus>,
    /// Which edges were taken.
    pub edge_status: BTreeMap<String, EdgeStatus>,
    /// The iterations of each loop.
    pub loop_counters: BTreeMap<String, u64>,
    /// The pending commands.
    pub inbox: Vec<RuntimeCommand>,
    /// The agent's own session for each node. Snapshots of older builds have none.
    #[serde(default)]
    pub agent_sessions: BTreeMap<String, String>,
    /// Fields that aren't known here.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

/// A run snapshot, as it is saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedSnapshot {
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload.
    pub payload: RawJson,
}

impl EncodedSnapshot {
    /// Whether it is a state as its difference from an earlier one.
    pub fn is_difference(&self) -> bool {
        self.meta.last() == Some(&RUN_SNAPSHOT_DIFF)
    }
}

impl Event for RunSnapshot {
    const NAME: &'static str = "a run snapshot";
    const BYTES_MAX: usize = FLOW_EVENT_BYTES_MAX;

    fn check(&self) -> Result<()> {
        extra::check("a run snapshot", &self.extra, &Self::NAMES)?;
        for value in self.outputs.values().chain(self.state.values()) {
            extra::check_depth("a run snapshot", value)?;
        }
        self.inbox.iter().try_for_each(RuntimeCommand::check_fields)
    }
}

impl RunSnapshot {
    /// The names of its fields in JSON.
    const NAMES: [&'static str; 9] = [
        "runId",
        "status",
        "outputs",
        "state",
        "nodeStatus",
        "edgeStatus",
        "loopCounters",
        "inbox",
        "agentSessions",
    ];

    /// The state of a flow that hasn't begun: empty, agent sessions too.
    pub fn new(status: impl Into<String>) -> Self {
        Self {
            status: status.into(),
            ..Self::default()
        }
    }

    /// The snapshot as it is saved whole.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a value that couldn't be read back,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) over [`FLOW_EVENT_BYTES_MAX`], its inbox not counted.
    pub fn encode(&self) -> Result<EncodedSnapshot> {
        self.check()?;
        let json = RawJson::from_value(self)?;
        let bytes = json.as_bytes().len();
        if bytes > Self::BYTES_MAX {
            // What waits was accepted, and is bounded where that was done: no flow that is full of commands gets stuck.
            let waiting: usize = self.inbox.iter().map(RuntimeCommand::json_bytes).sum();
            Self::check_length(bytes.saturating_sub(waiting))?;
        }
        let mut meta = vec![Self::VERSION];
        meta.push(RUN_SNAPSHOT);
        Ok(EncodedSnapshot {
            meta,
            payload: json,
        })
    }

    /// Whether a snapshot with this metadata, a version and a kind, is a run snapshot. A caller's own snapshot isn't, though
    /// its metadata may be a text that ends in such a byte.
    pub fn is_one(meta: &[u8]) -> bool {
        matches!(meta, [0..b' ', RUN_SNAPSHOT | RUN_SNAPSHOT_DIFF])
    }

    /// The nodes that were running, in the order of their names.
    pub fn running(&self) -> impl Iterator<Item = &str> {
        let running = self
            .node_status
            .iter()
            .filter(|(_, status)| **status == NodeStatus::Running);
        running.map(|(node, _)| node.as_str())
    }
}
