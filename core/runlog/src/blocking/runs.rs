//! [`Runs`] and [`RunRecorder`]: [`crate::runs::Runs`] and [`crate::runs::RunRecorder`] for callers that wait.

use runlog_model::{
    DanglingToolCall, ListRuns, Message, NewMessage, RawJson, Run, RunDetails, RunId, RunMessage,
    RunSummary, Stop, ToolCall,
};

use crate::{
    Page, Result,
    contexts::AppendOptions,
    runs::{
        ListRunMessages, ListToolCalls, NewRun, Recorded, ResumeOptions, RunEntry, ToolOutcome,
    },
};

/// The runs of a store. [`crate::runs::Runs`] is the same for callers that await.
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

    /// Starts a run, and what it is to be started in, as one batch. Durable when it returns.
    fn start(&self, new: NewRun) -> Result<RunRecorder>;

    /// Writes on with a run, from where it is. It may have ended: the run is then told, and writes are refused.
    fn recorder(&self, id: RunId) -> Result<RunRecorder>;

    /// Resumes a paused run: its context is rebuilt, tool calls that were cut off are closed, a message tells the
    /// agent to continue, and a new run goes on in the same context, counting steps from where the old one was,
    /// with a fresh budget.
    fn resume(&self, id: RunId, options: &ResumeOptions) -> Result<ResumedRun>;

    /// The run, where it can be resumed with these options: it is paused, or has ended where that will do, no other goes on
    /// from it, and fewer than the maximum of steps are taken. [`resume`](Self::resume) checks the same; this is for
    /// whoever has to prepare something first.
    fn resumable(&self, id: RunId, options: &ResumeOptions) -> Result<Run>;

    /// Pauses the runs that are `running` though nobody in this process records them, with the reason
    /// [`ORPHANED`](crate::runs::pause_reason::ORPHANED), and says which they were. What they recorded stays.
    fn recover(&self) -> Result<Vec<RunId>>;

    /// Says of a run what it took and anything else: also of one that is over, or that somebody else records.
    fn describe(&self, id: RunId, details: RunDetails) -> Result<Run>;

    /// One page of runs, newest first. It costs the page, however many runs there are.
    fn list(&self, options: &ListRuns) -> Result<Page<RunSummary>>;

    /// The runs that a run spawned, newest first, in pages.
    fn children(
        &self,
        parent: RunId,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page<RunSummary>>;

    /// The project that a run belongs to, `None` where it is in none.
    fn project(&self, id: RunId) -> Result<Option<String>>;

    /// The whole of a run, `None` when there is none of that id.
    fn get(&self, id: RunId) -> Result<Option<Run>>;

    /// One page of a run's messages, in the order they were recorded, which is that of its steps.
    fn messages(&self, id: RunId, options: &ListRunMessages) -> Result<Page<RunMessage>>;

    /// One message of a run, by its id.
    fn message(&self, id: RunId, message_id: u64) -> Result<Option<RunMessage>>;

    /// One page of a run's tool calls, in the order they were made, which is that of its steps.
    fn tool_calls(&self, id: RunId, options: &ListToolCalls) -> Result<Page<ToolCall>>;

    /// One tool call of a run, by its id, with its whole input and output.
    fn tool_call(&self, id: RunId, call_id: u64) -> Result<Option<ToolCall>>;
}

/// A run that goes on from a paused one.
#[derive(Clone, Debug)]
pub struct ResumedRun {
    /// Writes the new run.
    pub recorder: RunRecorder,
    /// The new run.
    pub run: Run,
    /// What to send to the model: the context as it was, byte for byte, closed calls and the message included.
    pub messages: Vec<Message>,
    /// The tool calls that had no result.
    pub dangling: Vec<DanglingToolCall>,
}

impl From<crate::runs::ResumedRun> for ResumedRun {
    fn from(resumed: crate::runs::ResumedRun) -> Self {
        Self {
            recorder: resumed.recorder.into(),
            run: resumed.run,
            messages: resumed.messages,
            dangling: resumed.dangling,
        }
    }
}

/// Writes one run while it happens. [`crate::runs::RunRecorder`] is the same for callers that await.
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

    /// The run as far as this recorder knows.
    now fn run(&self) -> Run;

    /// Begins the next step, and says its number, counted over all resumes. It is written with the first message
    /// recorded in it.
    fn next_step(&self) -> Result<u32>;

    /// Records a message given in parts, with the tool calls it asks for and the step it begins, as one batch.
    /// Durable when it returns.
    fn record_message(&self, message: NewMessage) -> Result<Recorded>;

    /// Records a message in the provider's own JSON, kept byte for byte; else as
    /// [`record_message`](Self::record_message).
    fn record_raw_message(&self, json: RawJson) -> Result<Recorded>;

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the recorder's own.
    fn record_raw_message_with(&self, json: RawJson, options: &AppendOptions) -> Result<Recorded>;

    /// Records what a tool gave for a call that was recorded before, as a message in the provider's form. Durable
    /// when it returns.
    fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded>;

    /// Records the assistant message that asked for tool calls together with what the tools gave: message, calls,
    /// results and the step as one batch, and one flush. Durable when it returns.
    fn record_tool_call(&self, message: RawJson, outcomes: &[ToolOutcome]) -> Result<Recorded>;

    /// Records entries in their order and the steps that they begin, as one batch: all of it or nothing. Says for
    /// each where it is.
    fn record_entries(
        &self,
        entries: &[RunEntry],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Recorded>>;

    /// Says of the run what it took, such as tokens and their cost, and anything else, as often as there is something to say,
    /// whatever its status is. What is left out stays as it was. Durable when it returns.
    fn describe(&self, details: RunDetails) -> Result<Run>;

    /// Pauses the run: it can be resumed. Durable when it returns.
    fn pause(&self, reason: impl Into<Stop>) -> Result<Run>;

    /// Ends the run well, with what came of it. Durable when it returns.
    fn complete(&self, summary: Option<&str>) -> Result<Run>;

    /// Ends the run with an error. Durable when it returns.
    fn fail(&self, error_message: &str) -> Result<Run>;

    /// Ends the run because nobody wants it any more. A paused run can be cancelled too, unless another goes on
    /// from it. Durable when it returns.
    fn cancel(&self, summary: Option<&str>) -> Result<Run>;
}
