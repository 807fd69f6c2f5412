//! [`Runs`] and [`RunRecorder`]: the blocking [`crate::runs::Runs`] and [`crate::runs::RunRecorder`].

use runlog_model::{
    DanglingToolCall, ListRuns, Message, NewMessage, RawJson, Run, RunDetails, RunId, RunMessage,
    RunSummary, Stop, ToolCall,
};

use crate::{
    Result,
    contexts::AppendOptions,
    pages::Page,
    runs::{
        ListRunMessages, ListToolCalls, NewRun, Recorded, ResumeOptions, RunEntry, ToolOutcome,
    },
};

/// The runs of a store. [`crate::runs::Runs`] is its async counterpart.
///
/// ```
/// use runlog::{
///     NewMessage, NewRun, NewSession,
///     blocking::Store,
///     runs::{ListRuns, ResumeOptions},
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::titled("Fix it"), "coder"))?;
/// run.record_message(NewMessage::user("The parser drops the last line."))?;
/// run.next_step()?;
/// run.record_message(NewMessage::assistant("I'll write a test first."))?;
/// run.pause("lunch")?;
///
/// let resumed = store.runs().resume(run.id(), &ResumeOptions::default())?;
/// assert_eq!(resumed.messages.len(), 3); // as they were, and the one that tells it to continue
/// assert_eq!(resumed.recorder.next_step()?, 2);
/// assert_eq!(store.runs().list(&ListRuns::default())?.items.len(), 2);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Runs {
    inner: crate::runs::Runs,
}

waiting! {
    Runs: crate::runs::Runs;

    /// Starts a run, creating its session and instance if needed, as one batch. Durable when it returns.
    fn start(&self, new: NewRun) -> Result<RunRecorder>;

    /// A recorder that continues a run from its current state. For an ended run it returns that state, and refuses writes.
    fn recorder(&self, id: RunId) -> Result<RunRecorder>;

    /// Resumes a paused run: its context is rebuilt, interrupted tool calls are closed, a message asks the agent to
    /// continue, and a new run continues in the same context, counting steps from the old run's last one, with a fresh budget.
    fn resume(&self, id: RunId, options: &ResumeOptions) -> Result<ResumedRun>;

    /// Returns the run if it can be resumed with these options: it is paused (or has ended, with
    /// [`ended`](ResumeOptions::ended)), it wasn't resumed yet, and it has taken fewer steps than the maximum.
    /// [`resume`](Self::resume) checks the same; this is for callers that have to prepare something first.
    fn resumable(&self, id: RunId, options: &ResumeOptions) -> Result<Run>;

    /// Pauses the runs that are `running` but aren't recorded by this process, with the reason
    /// [`ORPHANED`](crate::runs::pause_reason::ORPHANED), and returns their ids. Their records are kept.
    fn recover(&self) -> Result<Vec<RunId>>;

    /// Records details of a run, even if it has ended or is recorded by another recorder.
    fn describe(&self, id: RunId, details: RunDetails) -> Result<Run>;

    /// One page of runs, newest first. The cost is that of the page, however many runs there are.
    fn list(&self, options: &ListRuns) -> Result<Page<RunSummary>>;

    /// The runs that a run spawned, newest first, in pages.
    fn children(
        &self,
        parent: RunId,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page<RunSummary>>;

    /// The project that a run belongs to; `None` if it is in none.
    fn project(&self, id: RunId) -> Result<Option<String>>;

    /// A run with all details; `None` if there is none with that id.
    fn get(&self, id: RunId) -> Result<Option<Run>>;

    /// One page of a run's messages, in the order in which they were recorded, which is that of its steps.
    fn messages(&self, id: RunId, options: &ListRunMessages) -> Result<Page<RunMessage>>;

    /// One message of a run, by its id.
    fn message(&self, id: RunId, message_id: u64) -> Result<Option<RunMessage>>;

    /// One page of a run's tool calls, in the order in which they were made, which is that of its steps.
    fn tool_calls(&self, id: RunId, options: &ListToolCalls) -> Result<Page<ToolCall>>;

    /// One tool call of a run, by its id, with its whole input and output.
    fn tool_call(&self, id: RunId, call_id: u64) -> Result<Option<ToolCall>>;
}

/// A new run that continues a paused one.
#[derive(Clone, Debug)]
pub struct ResumedRun {
    /// Writes the new run.
    pub recorder: RunRecorder,
    /// The new run.
    pub run: Run,
    /// The messages to send to the model: the context as it was, byte for byte, with the results of closed calls and
    /// the new message.
    pub messages: Vec<Message>,
    /// The tool calls that had no result.
    pub dangling: Vec<DanglingToolCall>,
    /// How many of the last states of its flow couldn't be read, so that it goes on from an older one: see
    /// [`flows::Resumed`](crate::flows::Resumed::unreadable_states). 0 for a run without a flow.
    pub unreadable_states: u32,
}

impl From<crate::runs::ResumedRun> for ResumedRun {
    fn from(resumed: crate::runs::ResumedRun) -> Self {
        Self {
            recorder: resumed.recorder.into(),
            run: resumed.run,
            messages: resumed.messages,
            dangling: resumed.dangling,
            unreadable_states: resumed.unreadable_states,
        }
    }
}

/// Writes one run while it happens. [`crate::runs::RunRecorder`] is its async counterpart.
///
/// ```
/// use runlog::{
///     NewMessage, NewRun, NewSession, NewToolCall, RawJson,
///     blocking::Store,
///     runs::{ListToolCalls, ToolOutcome},
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
/// run.next_step()?;
/// let asked = NewMessage::assistant("").with_tool_calls([NewToolCall::new("c1", "ls", "{}")]);
/// let outcome = ToolOutcome::completed("c1", RawJson::string("Cargo.toml")).took_ms(12);
/// run.record_tool_call(asked.to_json()?, &[outcome])?;
/// let calls = store.runs().tool_calls(run.id(), &ListToolCalls::default())?.items;
/// assert_eq!((calls[0].tool_name.as_str(), calls[0].duration_ms), ("ls", Some(12)));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RunRecorder {
    inner: crate::runs::RunRecorder,
}

waiting! {
    RunRecorder: crate::runs::RunRecorder;

    /// The id of the run.
    now fn id(&self) -> RunId;

    /// The run as last known to this recorder.
    now fn run(&self) -> Run;

    /// Begins the next step, and returns its number, counted over all resumes. It is written with the first message
    /// recorded in it.
    fn next_step(&self) -> Result<u32>;

    /// Records a message built from its parts, with the tool calls it requests and the step it begins, as one batch.
    /// Durable when it returns.
    fn record_message(&self, message: NewMessage) -> Result<Recorded>;

    /// Records a message in the provider's own JSON, stored byte for byte; otherwise as [`record_message`](Self::record_message).
    fn record_raw_message(&self, json: RawJson) -> Result<Recorded>;

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the recorder's own.
    fn record_raw_message_with(&self, json: RawJson, options: &AppendOptions) -> Result<Recorded>;

    /// Records several messages in the provider's own JSON as one batch, with one flush, all or none of them. Durable when it returns.
    fn record_raw_messages(&self, messages: Vec<RawJson>, options: &AppendOptions) -> Result<Recorded>;

    /// Checks, before the work of a tool is done, that its result could be recorded now: the run is running, and the call
    /// has none yet. Returns how many open calls it may be: one, or of calls without ids, which their tool names, those of the tool.
    fn check_tool_call(&self, tool_call_id: &str) -> Result<usize>;

    /// Records a tool's result of a call that was recorded before, as a message in the provider's form. Durable when it returns.
    fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded>;

    /// Records the results of several calls that were recorded before, as one batch, with one flush: in one message where the
    /// provider takes no other, in a message each elsewhere. Durable when it returns.
    fn record_tool_results(&self, outcomes: &[ToolOutcome]) -> Result<Recorded>;

    /// Records the assistant message that requested tool calls together with their results: message, calls, results and
    /// the step as one batch, with one flush. Durable when it returns.
    fn record_tool_call(&self, message: RawJson, outcomes: &[ToolOutcome]) -> Result<Recorded>;

    /// Records entries in their order and the steps that they begin, as one batch: all or nothing. Returns where each
    /// was recorded.
    fn record_entries(
        &self,
        entries: &[RunEntry],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Recorded>>;

    /// Records details of the run, such as its token usage and cost, any number of times and whatever its status.
    /// Fields that are left out stay as they were. Durable when it returns.
    fn describe(&self, details: RunDetails) -> Result<Run>;

    /// Pauses the run: it can be resumed. Durable when it returns.
    fn pause(&self, reason: impl Into<Stop>) -> Result<Run>;

    /// Ends the run as completed, with a summary. Durable when it returns.
    fn complete(&self, summary: Option<&str>) -> Result<Run>;

    /// Ends the run as failed, with an error. Durable when it returns.
    fn fail(&self, error_message: &str) -> Result<Run>;

    /// Ends the run as cancelled. A paused run can be cancelled too, unless it was resumed. Durable when it returns.
    fn cancel(&self, summary: Option<&str>) -> Result<Run>;
}
