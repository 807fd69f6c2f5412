//! Requests to the orchestration and their results, those of the `spawn_agents` tool included.

use std::time::Duration;

use runlog_model::{
    AgentDefinition, InstanceId, RawJson, Run, RunId, RunStatus, SessionId, StopKind, ToolStyle,
    max_steps, read_value,
};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, Unexpected},
};

use crate::{
    Error,
    kernel::{inbox::COMMANDS_MAX, new_session::NewSession},
    runs::MAX_TOTAL_STEPS_PER_RUN,
};

/// A sub-agent to spawn: a new run of an agent, or one that resumes a paused run.
///
/// ```
/// use std::time::Duration;
/// use runlog::agents::SpawnRequest;
///
/// let request = SpawnRequest::new("researcher", "Find three papers.").with_timeout(Duration::from_secs(60));
/// let of_a_model = r#"{"agent_name":"researcher","task":"Find three papers.","timeout":60}"#;
/// assert_eq!(serde_json::from_str::<SpawnRequest>(of_a_model)?, request);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpawnRequest {
    /// The agent, by its name in the parent's project.
    pub agent_name: String,
    /// What it is to do: its first user message. For a resumed run: instructions in addition to "continue"; may be
    /// empty then.
    #[serde(default)]
    pub task: String,
    /// How long it may work; by default, what its definition says. Seconds in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    pub timeout: Option<Duration>,
    /// The steps that this run may take; only effective if less than its definition allows.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "max_steps::deserialize"
    )]
    pub max_steps: Option<u32>,
    /// The paused run to resume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_run_id: Option<RunId>,
    /// Why it couldn't be read; it is refused for that reason.
    #[serde(skip)]
    pub(super) unreadable: Option<String>,
}

impl SpawnRequest {
    /// A new run of an agent.
    pub fn new(agent_name: impl Into<String>, task: impl Into<String>) -> Self {
        Self {
            agent_name: agent_name.into(),
            task: task.into(),
            timeout: None,
            max_steps: None,
            resume_run_id: None,
            unreadable: None,
        }
    }

    /// A request that can't be read, and why: only it is refused, not the others of its call. For code that parses
    /// requests written by models.
    pub fn unreadable(agent_name: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            unreadable: Some(why.into()),
            ..Self::new(agent_name, "")
        }
    }

    /// A request as a model wrote it, [unreadable](Self::unreadable) ones included.
    pub fn of_json(value: &serde_json::Value) -> Self {
        read_value(value).unwrap_or_else(|why| {
            let name = value
                .get("agent_name")
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default();
            Self::unreadable(name, why)
        })
    }

    /// The same, with a task.
    #[must_use]
    pub fn with_task(mut self, task: impl Into<String>) -> Self {
        self.task = task.into();
        self
    }

    /// A run that resumes a paused one.
    pub fn resume(agent_name: impl Into<String>, run_id: RunId) -> Self {
        Self {
            resume_run_id: Some(run_id),
            ..Self::new(agent_name, "")
        }
    }

    /// The same, with a timeout.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The same, with a limit of steps. If the agent's definition allows fewer, that limit applies.
    #[must_use]
    pub fn with_max_steps(mut self, max_steps: u32) -> Self {
        self.max_steps = Some(max_steps);
        self
    }

    /// The steps that the run may take: the lower of the request's limit and the definition's.
    pub(super) fn steps_of(&self, definition: &AgentDefinition) -> Option<u32> {
        self.max_steps.into_iter().chain(definition.max_steps).min()
    }
}

mod seconds {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        timeout: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match timeout {
            Some(timeout) if timeout.subsec_nanos() == 0 => {
                serializer.serialize_u64(timeout.as_secs())
            }
            Some(timeout) => serializer.serialize_f64(timeout.as_secs_f64()),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let Some(seconds) = Option::<f64>::deserialize(deserializer)? else {
            return Ok(None);
        };
        let timeout = Duration::try_from_secs_f64(seconds);
        timeout.map(Some).map_err(|_| {
            D::Error::custom(format_args!(
                "timeout is no number of seconds to wait: {seconds:?} is negative or too large"
            ))
        })
    }
}

/// What became of one sub-agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SpawnResult {
    /// Its run, to look into or to resume; `None` where the request was refused.
    pub run_id: Option<RunId>,
    /// The agent asked for.
    pub agent_name: String,
    /// Completed, paused, failed or cancelled.
    pub status: RunStatus,
    /// Its final text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub summary: Option<String>,
    /// The steps it took, those of the runs it goes on from included.
    pub steps: u32,
    /// Why it failed, or was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Why it paused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pause_reason: Option<String>,
    /// What stopped it, where it is paused or cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_kind: Option<StopKind>,
}

impl SpawnResult {
    /// A request that was refused.
    pub(super) fn refused(agent_name: &str, error: impl Into<String>) -> Self {
        Self {
            run_id: None,
            agent_name: agent_name.to_owned(),
            status: RunStatus::Failed,
            summary: None,
            steps: 0,
            error: Some(error.into()),
            pause_reason: None,
            stop_kind: None,
        }
    }

    /// The outcome of a run.
    pub(super) fn of(run: Run) -> Self {
        Self {
            run_id: Some(run.id),
            agent_name: run.agent_name,
            status: run.status,
            summary: run.summary,
            steps: run.step_count,
            error: run.error_message,
            pause_reason: run.pause_reason,
            stop_kind: run.stop_kind,
        }
    }

    /// The outcome of a run that is no longer executed. If its status is still `running`, its end couldn't be written;
    /// the result then says so, with the error if it is known.
    pub(super) fn ended(run: Run, failure: Option<&Error>) -> Self {
        let mut result = Self::of(run);
        if result.status == RunStatus::Running {
            let why = failure.map_or_else(|| "it was never ended".to_owned(), ToString::to_string);
            result.status = RunStatus::Failed;
            result.error = Some(format!("how the run ended could not be recorded: {why}"));
        }
        result
    }
}

/// Why a run is to stop, as its agent is told it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StopReason {
    /// What stops it: what [`Run::stop_kind`] is then.
    pub kind: StopKind,
    /// Why, in words.
    pub message: String,
    /// Whether it will be paused, and can be resumed; else it will be cancelled.
    pub resumable: bool,
}

/// An agent to start that no other agent spawns.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartAgent {
    /// The agent, by its name in the session's project.
    pub agent_name: String,
    /// What it is to do: its first user message, or the next one of a context that is there.
    pub task: String,
    /// Where it works; in a new session of no project when left out.
    #[serde(default)]
    pub place: StartPlace,
    /// How long it may work, in place of its definition's default. Milliseconds in JSON.
    #[serde(
        default,
        rename = "timeoutMs",
        deserialize_with = "milliseconds::optional"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub timeout: Option<Duration>,
    /// The id of its run, where the caller has one already, by which it is known before it begins; else a fresh one.
    #[serde(default)]
    pub run_id: Option<RunId>,
    /// Anything else about its run, as JSON.
    #[serde(default)]
    pub metadata: Option<RawJson>,
}

/// Where an agent starts to work.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum StartPlace {
    /// In a session made with the run.
    NewSession(NewSession),
    /// In a session that is there, with a context of its own.
    Session(SessionId),
    /// In a context that is there, going on with it.
    Instance(InstanceId),
}

impl Default for StartPlace {
    fn default() -> Self {
        Self::NewSession(NewSession::default())
    }
}

impl StartAgent {
    /// An agent in a new session of no project.
    pub fn new(agent_name: impl Into<String>, task: impl Into<String>) -> Self {
        let place = StartPlace::NewSession(NewSession::default());
        Self {
            agent_name: agent_name.into(),
            task: task.into(),
            place,
            timeout: None,
            run_id: None,
            metadata: None,
        }
    }

    /// The same, in another session or context.
    #[must_use]
    pub fn at(mut self, place: StartPlace) -> Self {
        self.place = place;
        self
    }

    /// The same, with a timeout.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// Durations as JavaScript tells them.
mod milliseconds {
    use super::*;

    pub(super) fn required<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }

    pub(super) fn optional<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let given = Option::<u64>::deserialize(deserializer)?;
        Ok(given.map(Duration::from_millis))
    }
}

/// How a spawn that no model asked for can be written.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
enum SpawnStyle {
    Openai,
    Anthropic,
    AiSdk,
    OpenaiResponses,
    Gemini,
    OpenaiCamel,
    Bedrock,
}

fn spawn_style<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolStyle>, D::Error> {
    let given = Option::<SpawnStyle>::deserialize(deserializer)?;
    Ok(given.map(|style| match style {
        SpawnStyle::Openai => ToolStyle::OpenAi,
        SpawnStyle::Anthropic => ToolStyle::Anthropic,
        SpawnStyle::AiSdk => ToolStyle::AiSdk,
        SpawnStyle::OpenaiResponses => ToolStyle::OpenAiResponses,
        SpawnStyle::Gemini => ToolStyle::Gemini,
        SpawnStyle::OpenaiCamel => ToolStyle::OpenAiCamel,
        SpawnStyle::Bedrock => ToolStyle::Bedrock,
    }))
}

/// The bounds of an orchestrator.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OrchestratorOptions {
    /// The most agents that work at one time; others wait for their turn. One that waits for its sub-agents
    /// doesn't count. At least 1.
    #[serde(deserialize_with = "at_least_one")]
    pub concurrent_max: usize,
    /// The most runs that are begun and not ended at one time; a spawn that would exceed it is refused.
    pub live_max: usize,
    /// The most sub-agents of one call.
    pub spawn_max: usize,
    /// How deep agents may spawn agents: the sub-agents of a run that nobody spawned are at depth 1.
    pub depth_max: u32,
    /// How long an agent that is stopped may take to record what it has, before it is dropped; a quarter of a second by default.
    /// Milliseconds in JSON.
    #[serde(rename = "stopGraceMs", deserialize_with = "milliseconds::required")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub stop_grace: Duration,
    /// How long another process, which writes the store that is open for reading here, is waited for until it begins what
    /// it is asked for; 5 seconds by default. Milliseconds in JSON.
    #[serde(
        rename = "answerTimeoutMs",
        deserialize_with = "milliseconds::required"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub answer_timeout: Duration,
    /// The cumulative steps from which on no run is resumed.
    pub max_total_steps: u32,
    /// The most commands that wait for one run, with those that it took and has recorded nothing since: they are kept to
    /// be delivered again after a crash.
    pub inbox_max: usize,
    /// The provider's form in which tasks are written, and spawns that no model asked for into the context of the run that makes them.
    /// Left out, it is that of the context: of its latest message that tells one, by its tool calls or as Gemini and Bedrock write
    /// messages; sub-agents get their tasks in the form of their parent's context. OpenAI's where no message tells.
    #[serde(deserialize_with = "spawn_style")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<SpawnStyle>"))]
    pub tool_style: Option<ToolStyle>,
}

fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(D::Error::invalid_value(
            Unexpected::Unsigned(0),
            &"a whole number of at least 1",
        )),
        given => Ok(given),
    }
}

impl Default for OrchestratorOptions {
    fn default() -> Self {
        Self {
            concurrent_max: 1_024,
            live_max: 65_536,
            spawn_max: 16_384,
            depth_max: 8,
            stop_grace: Duration::from_millis(250),
            answer_timeout: Duration::from_secs(5),
            max_total_steps: MAX_TOTAL_STEPS_PER_RUN,
            inbox_max: COMMANDS_MAX,
            tool_style: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_seconds_in_json() {
        let parse =
            |json: &str| serde_json::from_str::<SpawnRequest>(json).map(|request| request.timeout);
        assert_eq!(parse(r#"{"agent_name":"a","task":"t"}"#).unwrap(), None);
        assert_eq!(parse(r#"{"agent_name":"a","timeout":null}"#).unwrap(), None);
        assert_eq!(
            parse(r#"{"agent_name":"a","timeout":0.25}"#).unwrap(),
            Some(Duration::from_millis(250))
        );
        for wrong in ["-1", "1e300", "\"5\""] {
            assert!(
                parse(&format!(r#"{{"agent_name":"a","timeout":{wrong}}}"#)).is_err(),
                "{wrong}"
            );
        }
        let request = SpawnRequest::new("a", "t").with_timeout(Duration::from_secs(5));
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"agent_name":"a","task":"t","timeout":5}"#
        );
    }
}
