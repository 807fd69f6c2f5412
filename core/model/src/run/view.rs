//! [`Run`]: a period of an agent's work, from its start until it pauses or ends; [`RunSummary`]: the fields of it in
//! lists.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::StopKind;
use crate::{
    Error, InstanceId, RawJson, Result, RunId, SessionId,
    check::check_length,
    limits::{AGENT_NAME_BYTES_MAX, NODE_ID_BYTES_MAX, PROJECT_BYTES_MAX, RUN_TEXT_BYTES_MAX},
    named::named,
};

/// The status of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Running.
    Running,
    /// Stopped before its end, and can be resumed.
    Paused,
    /// Done.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended by a cancellation.
    Cancelled,
}

named! {
    RunStatus: "run status" {
        Running = "running",
        Paused = "paused",
        Completed = "completed",
        Failed = "failed",
        Cancelled = "cancelled",
    }
}

impl RunStatus {
    /// Whether the status is final: completed, failed or cancelled.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// How a tool call ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// No result is recorded: the tool is running, or the process died before its result.
    Pending,
    /// The tool returned its output.
    Completed,
    /// The tool failed; its output says how.
    Error,
}

named! {
    ToolCallStatus: "tool call status" {
        Pending = "pending",
        Completed = "completed",
        Error = "error",
    }
}

/// One run of an agent. Fields that this build doesn't know are kept in [`extra`](Self::extra).
///
/// ```
/// use runlog_model::{Run, RunStatus};
///
/// let run: Run = serde_json::from_str(r#"{
///     "id": "0198c7e0-0000-7000-8000-000000000001", "session_id": "0198c7e0-0000-7000-8000-000000000002",
///     "instance_id": "0198c7e0-0000-7000-8000-000000000003", "agent_name": "coder", "status": "paused",
///     "step_count": 45, "created_at": 1700000000000, "colour": "red"
/// }"#).unwrap();
/// assert_eq!((run.status, run.step_count), (RunStatus::Paused, 45));
/// assert_eq!(run.extra["colour"], "red");
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Its id, and that of the stream its events are kept in.
    pub id: RunId,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The session it works in.
    pub session_id: SessionId,
    /// The agent instance whose context it writes.
    pub instance_id: InstanceId,
    /// The agent's name.
    #[serde(alias = "agent_id")]
    pub agent_name: String,
    /// Its status.
    pub status: RunStatus,
    /// The steps begun so far, those of the runs it was resumed from included.
    #[serde(default)]
    pub step_count: u32,
    /// The most steps of this run itself; `None` is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The run that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The run it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<RunId>,
    /// The run that resumes this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<RunId>,
    /// Its summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Why it paused, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// What stopped it, if it is paused or cancelled; not set in runs of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_kind: Option<StopKind>,
    /// The node of a flow that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte. Of this run
    /// alone, without the runs that it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON. A run that resumes another starts with that one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at")]
    pub created_at_ms: u64,
    /// When it ended: milliseconds since 1970-01-01 UTC. `None` while it runs, or is paused.
    #[serde(
        rename = "completed_at",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub completed_at_ms: Option<u64>,
    /// How long it ran, until it paused or ended; of one whose process died, until the last record of it or of its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Fields of a newer build.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

impl Run {
    /// Checks what a caller may have put into a run.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty agent name,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a field over its limit.
    pub fn check(&self) -> Result<()> {
        if self.agent_name.is_empty() {
            return Err(Error::invalid("the run's agent is empty; give its name"));
        }
        check_length(
            "the run's agent",
            Some(&self.agent_name),
            AGENT_NAME_BYTES_MAX,
        )?;
        check_length(
            "the run's project",
            self.project.as_deref(),
            PROJECT_BYTES_MAX,
        )?;
        check_length(
            "the run's node id",
            self.node_id.as_deref(),
            NODE_ID_BYTES_MAX,
        )?;
        for (what, text) in [
            ("the run's summary", &self.summary),
            ("the run's error message", &self.error_message),
            ("the run's pause reason", &self.pause_reason),
        ] {
            check_length(what, text.as_deref(), RUN_TEXT_BYTES_MAX)?;
        }
        Ok(())
    }

    /// The fields of it in lists.
    pub fn to_summary(&self) -> RunSummary {
        RunSummary {
            id: self.id,
            project: self.project.clone(),
            session_id: self.session_id,
            instance_id: self.instance_id,
            agent_name: self.agent_name.clone(),
            status: self.status,
            step_count: self.step_count,
            parent_run_id: self.parent_run_id,
            resumed_from: self.resumed_from,
            resumed_by: self.resumed_by,
            usage: self.usage.clone(),
            metadata: self.metadata.clone(),
            created_at_ms: self.created_at_ms,
            completed_at_ms: self.completed_at_ms,
            duration_ms: self.duration_ms,
        }
    }
}

/// The fields of a [`Run`] in lists, with the same meaning.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunSummary {
    /// Its id.
    pub id: RunId,
    /// The project it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The session it works in.
    pub session_id: SessionId,
    /// The agent instance whose context it writes.
    pub instance_id: InstanceId,
    /// The agent's name.
    #[serde(alias = "agent_id")]
    pub agent_name: String,
    /// Its status.
    pub status: RunStatus,
    /// The steps begun so far, those of the runs it was resumed from included.
    #[serde(default)]
    pub step_count: u32,
    /// The run that spawned it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<RunId>,
    /// The run it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<RunId>,
    /// The run that resumes this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_by: Option<RunId>,
    /// What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte. Of this run
    /// alone, without the runs that it resumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON. A run that resumes another starts with that one's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at")]
    pub created_at_ms: u64,
    /// When it ended: milliseconds since 1970-01-01 UTC.
    #[serde(
        rename = "completed_at",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub completed_at_ms: Option<u64>,
    /// How long it ran, until it paused or ended; of one whose process died, until the last record of it or of its context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
}
