//! [`Step`]: one step of an assistant's work, for resuming and retrying.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    RawJson, Result, Updates,
    check::{chosen_sequence, given_sequence, given_time, length, object, required, sequence},
    json::{extra, overlay},
    limits::{CHAT_ID_CHARS_MAX, CHAT_OWNER_CHARS_MAX},
    named::named,
};

/// The type of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepType {
    /// The user's input was received: `{messages}`.
    Input,
    /// The create hook ran: `{messages}` to `{messages, …}`.
    HookCreate,
    /// The model was called: `{messages}` to `{content, tool_calls}`.
    Llm,
    /// A tool ran: `{server, tool, args}` to `{result}`.
    Tool,
    /// The next hook ran: `{completion, tools}` to `{data}`.
    HookNext,
    /// Another assistant was handed the work: `{agent_id, messages}` to `{response}`.
    Delegate,
}

named! {
    StepType {
        Input = "input",
        HookCreate = "hook_create",
        Llm = "llm",
        Tool = "tool",
        HookNext = "hook_next",
        Delegate = "delegate",
    }
}

/// The status of a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// Not started.
    #[default]
    Pending,
    /// In progress, or interrupted by a crash.
    Running,
    /// Finished.
    Completed,
    /// Failed with an error.
    Failed,
    /// Stopped by the user.
    Interrupted,
}

named! {
    StepStatus {
        Pending = "pending",
        Running = "running",
        Completed = "completed",
        Failed = "failed",
        Interrupted = "interrupted",
    }
}

impl StepStatus {
    /// Whether there is something to resume: start, restart, retry or continue.
    ///
    /// ```
    /// use runlog_model::StepStatus;
    /// assert!(StepStatus::Interrupted.can_resume() && !StepStatus::Completed.can_resume());
    /// ```
    pub const fn can_resume(self) -> bool {
        !matches!(self, Self::Completed)
    }
}

/// One step of a request.
///
/// ```
/// use runlog_model::{RawJson, Step, StepStatus, StepType};
///
/// let input = RawJson::parse(r#"{"messages":[]}"#)?;
/// let step = Step { input: Some(input), ..Step::new("req_1", "analyzer", "stk_001", StepType::Llm) };
/// assert_eq!((step.status, step.stack_depth), (StepStatus::Pending, 0));
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// The store's own number of it: its position in the log; given by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-always-present" = true)))]
    pub id: Option<u64>,
    /// Its id; empty for a fresh one.
    #[serde(default)]
    pub step_id: String,
    /// The chat it is in; given by the store.
    #[serde(default)]
    pub chat_id: String,
    /// The request it belongs to.
    pub request_id: String,
    /// The assistant that did it.
    pub assistant_id: String,
    /// The node of the call stack it was done in.
    pub stack_id: String,
    /// The node that called this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_parent_id: Option<String>,
    /// The delegate step that waits for this node, where it was called by one: of several that the caller delegated at once, its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegate_step_id: Option<String>,
    /// How deep in the call stack: 0 is the root.
    #[serde(default)]
    pub stack_depth: u32,
    /// What it is.
    #[serde(rename = "type")]
    pub step_type: StepType,
    /// How far it is.
    pub status: StepStatus,
    /// What it was given, a JSON object kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub input: Option<RawJson>,
    /// What came of it, a JSON object kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub output: Option<RawJson>,
    /// The space when it began, a JSON object kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub space_snapshot: Option<RawJson>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its sequence in the request, from 1; 0 for the next one.
    #[serde(default)]
    pub sequence: u64,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was settled that it isn't to be resumed any more, whatever its status: its request was dismissed, or was gone on with from it
    /// and completed. In milliseconds since 1970-01-01 UTC.
    #[serde(
        rename = "dismissed_at",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::read_option"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub dismissed_at_ms: Option<u64>,
    /// When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0.
    #[serde(rename = "created_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub created_at_ms: u64,
    /// When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store.
    #[serde(rename = "updated_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub updated_at_ms: u64,
    /// Fields that aren't known here.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

impl Step {
    /// The fields that no update changes.
    pub const FIXED: [&'static str; 4] = ["id", "step_id", "chat_id", "created_at"];

    /// The names of its fields in JSON.
    pub const NAMES: [&'static str; 20] = [
        "id",
        "step_id",
        "chat_id",
        "request_id",
        "assistant_id",
        "stack_id",
        "stack_parent_id",
        "delegate_step_id",
        "stack_depth",
        "type",
        "status",
        "input",
        "output",
        "space_snapshot",
        "error",
        "sequence",
        "metadata",
        "dismissed_at",
        "created_at",
        "updated_at",
    ];

    /// A pending step at the root of the stack; the store gives what is left out.
    pub fn new(
        request_id: impl Into<String>,
        assistant_id: impl Into<String>,
        stack_id: impl Into<String>,
        step_type: StepType,
    ) -> Self {
        Self {
            id: None,
            step_id: String::new(),
            chat_id: String::new(),
            request_id: request_id.into(),
            assistant_id: assistant_id.into(),
            stack_id: stack_id.into(),
            stack_parent_id: None,
            delegate_step_id: None,
            stack_depth: 0,
            step_type,
            status: StepStatus::Pending,
            input: None,
            output: None,
            space_snapshot: None,
            error: None,
            sequence: 0,
            metadata: None,
            dismissed_at_ms: None,
            created_at_ms: 0,
            updated_at_ms: 0,
            extra: Map::new(),
        }
    }

    /// Whether there is something to resume: its status says so, and its request wasn't dismissed.
    pub fn can_resume(&self) -> bool {
        self.status.can_resume() && self.dismissed_at_ms.is_none()
    }

    /// The step with updates.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a field that can't be changed, or a value of another
    /// type; as [`check`](Self::check).
    pub fn updated(&self, updates: &Updates, at_ms: u64) -> Result<Self> {
        let step = Self {
            updated_at_ms: at_ms,
            ..overlay(self, updates, &Self::FIXED, "a step", |name| {
                extra::check_name("a step", name, &Self::NAMES)
            })?
        };
        step.check()?;
        Ok(step)
    }

    /// Checks what a caller may have put into a step.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a missing id, or input, output or space that aren't
    /// objects, or unknown fields that couldn't be read back; [`TooLarge`](crate::ErrorKind::TooLarge) for a field over its limit.
    pub fn check(&self) -> Result<()> {
        length("the step_id", Some(&self.step_id), CHAT_ID_CHARS_MAX)?;
        required("the step's request_id", &self.request_id, CHAT_ID_CHARS_MAX)?;
        required(
            "the step's assistant_id",
            &self.assistant_id,
            CHAT_OWNER_CHARS_MAX,
        )?;
        required("the step's stack_id", &self.stack_id, CHAT_ID_CHARS_MAX)?;
        length(
            "the step's stack_parent_id",
            self.stack_parent_id.as_deref(),
            CHAT_ID_CHARS_MAX,
        )?;
        length(
            "the step's delegate_step_id",
            self.delegate_step_id.as_deref(),
            CHAT_ID_CHARS_MAX,
        )?;
        object("the step's input", self.input.as_ref())?;
        object("the step's output", self.output.as_ref())?;
        object("the step's space_snapshot", self.space_snapshot.as_ref())?;
        sequence("the step's sequence", self.sequence)?;
        extra::check("a step", &self.extra, &Self::NAMES)
    }

    /// As [`check`](Self::check), of a step that a caller makes, or gives another sequence: that leaves room for those after
    /// it.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a sequence over
    /// [`CHAT_SEQUENCE_GIVEN_MAX`](crate::limits::CHAT_SEQUENCE_GIVEN_MAX).
    pub fn check_new(&self) -> Result<()> {
        given_sequence("step", &self.step_id, self.sequence)?;
        given_time("the step's created_at", self.created_at_ms)?;
        given_time("the step's updated_at", self.updated_at_ms)?;
        self.check()
    }

    /// As [`check_new`](Self::check_new), of one that is given another sequence: that isn't left to the store.
    ///
    /// # Errors
    /// As [`check_new`](Self::check_new); [`InvalidInput`](crate::ErrorKind::InvalidInput) for the sequence 0.
    pub fn check_moved(&self) -> Result<()> {
        chosen_sequence("step", &self.step_id, self.sequence)?;
        self.check_new()
    }
}
