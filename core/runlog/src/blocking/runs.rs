//! [`Runs`] and [`RunRecorder`]: [`crate::runs::Runs`] and [`crate::runs::RunRecorder`] for callers that wait.

use pollster::block_on;
use runlog_model::{
    DanglingToolCall, ListRuns, Message, NewMessage, RawJson, Run, RunId, RunMessage, RunSummary,
    ToolCall,
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

impl Runs {
    pub(crate) fn new(inner: crate::runs::Runs) -> Self {
        Self { inner }
    }

    /// Starts a run, and what it is to be started in, as one batch. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::start`].
    pub fn start(&self, new: NewRun) -> Result<RunRecorder> {
        block_on(self.inner.start(new)).map(RunRecorder::new)
    }

    /// Writes on with a run, from where it is.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::recorder`].
    pub fn recorder(&self, id: RunId) -> Result<RunRecorder> {
        block_on(self.inner.recorder(id)).map(RunRecorder::new)
    }

    /// Resumes a paused run, as one batch. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::resume`].
    pub fn resume(&self, id: RunId, options: &ResumeOptions) -> Result<ResumedRun> {
        let resumed = block_on(self.inner.resume(id, options))?;
        Ok(ResumedRun {
            recorder: RunRecorder::new(resumed.recorder),
            run: resumed.run,
            messages: resumed.messages,
            dangling: resumed.dangling,
        })
    }

    /// The run, where it can be resumed; nothing is written.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::resumable`].
    pub fn resumable(&self, id: RunId, max_total_steps: u32) -> Result<Run> {
        block_on(self.inner.resumable(id, max_total_steps))
    }

    /// Pauses the runs that are `running` though nobody in this process records them, and says which they were.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::recover`].
    pub fn recover(&self) -> Result<Vec<RunId>> {
        block_on(self.inner.recover())
    }

    /// One page of runs, newest first. It costs the page, however many runs there are.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::list`].
    pub fn list(&self, options: &ListRuns) -> Result<Page<RunSummary>> {
        block_on(self.inner.list(options))
    }

    /// The runs that a run spawned, newest first, in pages.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::children`].
    pub fn children(
        &self,
        parent: RunId,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Page<RunSummary>> {
        block_on(self.inner.children(parent, limit, cursor))
    }

    /// The whole of a run, `None` when there is none of that id.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn get(&self, id: RunId) -> Result<Option<Run>> {
        block_on(self.inner.get(id))
    }

    /// One page of a run's messages, in the order of its steps.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::messages`].
    pub fn messages(&self, id: RunId, options: &ListRunMessages) -> Result<Page<RunMessage>> {
        block_on(self.inner.messages(id, options))
    }

    /// One message of a run, by its id.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::message`].
    pub fn message(&self, id: RunId, message_id: u64) -> Result<Option<RunMessage>> {
        block_on(self.inner.message(id, message_id))
    }

    /// One page of a run's tool calls, in the order of its steps.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::tool_calls`].
    pub fn tool_calls(&self, id: RunId, options: &ListToolCalls) -> Result<Page<ToolCall>> {
        block_on(self.inner.tool_calls(id, options))
    }

    /// One tool call of a run, by its id, with its whole input and output.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::tool_call`].
    pub fn tool_call(&self, id: RunId, call_id: u64) -> Result<Option<ToolCall>> {
        block_on(self.inner.tool_call(id, call_id))
    }
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

impl RunRecorder {
    fn new(inner: crate::runs::RunRecorder) -> Self {
        Self { inner }
    }

    /// The id of the run.
    pub fn id(&self) -> RunId {
        self.inner.id()
    }

    /// The run as far as this recorder knows.
    pub fn run(&self) -> Run {
        self.inner.run()
    }

    /// Begins the next step, and says its number, counted over all resumes.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::next_step`].
    pub fn next_step(&self) -> Result<u32> {
        block_on(self.inner.next_step())
    }

    /// Records a message given in parts, with the tool calls it asks for. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_message`].
    pub fn record_message(&self, message: NewMessage) -> Result<Recorded> {
        block_on(self.inner.record_message(message))
    }

    /// Records a message in the provider's own JSON, kept byte for byte. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_message`].
    pub fn record_raw_message(&self, json: RawJson) -> Result<Recorded> {
        block_on(self.inner.record_raw_message(json))
    }

    /// [`record_raw_message`](Self::record_raw_message) with options. Run and step are the recorder's own.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_raw_message_with`].
    pub fn record_raw_message_with(
        &self,
        json: RawJson,
        options: &AppendOptions,
    ) -> Result<Recorded> {
        block_on(self.inner.record_raw_message_with(json, options))
    }

    /// Records what a tool gave for a call that was recorded before. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_tool_result`].
    pub fn record_tool_result(&self, outcome: &ToolOutcome) -> Result<Recorded> {
        block_on(self.inner.record_tool_result(outcome))
    }

    /// Records the assistant message that asked for tool calls together with what the tools gave, as one batch.
    /// Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_tool_call`].
    pub fn record_tool_call(&self, message: RawJson, outcomes: &[ToolOutcome]) -> Result<Recorded> {
        block_on(self.inner.record_tool_call(message, outcomes))
    }

    /// Records entries in their order and the steps that they begin, as one batch. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::record_entries`].
    pub fn record_entries(
        &self,
        entries: &[RunEntry],
        idempotency_key: Option<&str>,
    ) -> Result<Vec<Recorded>> {
        block_on(self.inner.record_entries(entries, idempotency_key))
    }

    /// Pauses the run: it can be resumed. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::pause`].
    pub fn pause(&self, reason: &str) -> Result<Run> {
        block_on(self.inner.pause(reason))
    }

    /// Ends the run well, with what came of it. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::complete`].
    pub fn complete(&self, summary: Option<&str>) -> Result<Run> {
        block_on(self.inner.complete(summary))
    }

    /// Ends the run with an error. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::fail`].
    pub fn fail(&self, error_message: &str) -> Result<Run> {
        block_on(self.inner.fail(error_message))
    }

    /// Ends the run because nobody wants it any more; a paused one too. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::runs::RunRecorder::cancel`].
    pub fn cancel(&self, summary: Option<&str>) -> Result<Run> {
        block_on(self.inner.cancel(summary))
    }
}
