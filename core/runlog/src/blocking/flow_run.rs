//! [`FlowRun`] and [`Playback`]: the blocking [`crate::flows::FlowRun`] and [`crate::flows::Playback`].

use std::time::Duration;

use pollster::block_on;
use runlog_log::Durability;
use runlog_model::{RawJson, RunId, RunSnapshot, RuntimeCommand, RuntimeEvent};

use super::Store;
use crate::{
    Result,
    flows::{PlaybackOptions, RecordedEvent, Resumed},
};

/// An active flow: its events, the state it is resumed from, and the commands it is sent.
///
/// ```
/// use runlog::{
///     ErrorKind, RawJson,
///     blocking::{FlowRun, Store},
///     flows::{AgentEvent, RuntimeEvent},
/// };
///
/// let store = Store::in_memory();
/// let mut flow = FlowRun::create(&store, None)?;
/// flow.start_agent("plan", "sess-123")?; // Durable: the agent may be called now.
/// let event = r#"{"type":"agent:text","nodeId":"plan","runId":"r1","timestamp":1,"content":"Hello"}"#;
/// let sequence = flow.record(&RuntimeEvent::parse(event)?)?;
/// assert_eq!(sequence, 1);
///
/// let to_nobody = RawJson::parse(r#"{"type":"send","message":"Hurry!"}"#)?;
/// assert_eq!(flow.command(&to_nobody).unwrap_err().kind(), ErrorKind::InvalidInput);
/// flow.command(&RawJson::parse(r#"{"type":"send","runId":"r1","message":"Hurry!"}"#)?)?;
/// assert_eq!(flow.take_inbox("r2"), []);
/// assert_eq!(flow.take_inbox("r1")[0].message(), Some("Hurry!"));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Debug)]
pub struct FlowRun {
    inner: crate::flows::FlowRun,
}

/// A flow played back: an iterator of events, each with the delay before it.
///
/// ```
/// use runlog::{
///     blocking::{FlowRun, Playback, Store},
///     flows::{PlaybackOptions, RuntimeEvent},
/// };
///
/// let store = Store::in_memory();
/// let mut flow = FlowRun::create(&store, None)?;
/// for time in [1_000, 1_250] {
///     flow.record(&RuntimeEvent::parse(format!(r#"{{"type":"node:tick","timestamp":{time}}}"#))?)?;
/// }
/// let delays: Result<Vec<u128>, _> = Playback::new(&store, flow.run_id(), PlaybackOptions::default())?
///     .map(|event| event.map(|(delay, _)| delay.as_millis()))
///     .collect();
/// assert_eq!(delays?, [0, 250]);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Playback {
    inner: crate::flows::Playback,
}

impl FlowRun {
    /// Resumes a flow: its latest snapshot, the commands received since, and a `flow:resumed` event; returns the nodes
    /// that were running, each with its prompt: the message, or `continue`.
    ///
    /// # Errors
    /// Those of [`resume`](crate::flows::FlowRun::resume), which has the full documentation.
    pub fn resume(store: &Store, run: RunId, message: Option<&str>) -> Result<(Self, Resumed)> {
        let resuming = crate::flows::FlowRun::resume(store.as_async(), run, message);
        block_on(resuming).map(|(inner, resumed)| (Self { inner }, resumed))
    }
}

waiting! {
    FlowRun: crate::flows::FlowRun;

    /// Begins a flow, with an empty state of status `running`. If `run` is the id of a run, it is that run's flow, in
    /// the run's own stream; otherwise it is a separate flow, with this id or a fresh one.
    fn create(store: &Store, run: Option<RunId>) -> Result<Self>;

    /// Another handle of a flow, for a task or a program that doesn't drive it but sends commands or events: this
    /// records nothing, and resumes no node. A command that is passed to [`command`](Self::command) waits for the
    /// handle that drives the flow.
    fn attach(store: &Store, run: RunId) -> Result<Self>;

    /// The commands that a resume would find in the inbox of a run: those of its latest snapshot, and those that were
    /// received since. Nothing is written, so it also works in a store that is open for reading.
    fn waiting(store: &Store, run: RunId) -> Result<Vec<RuntimeCommand>>;

    /// The state of a flow as it is now: its latest snapshot, with the commands received since in its inbox. Read-only:
    /// nothing is written.
    fn inspect(store: &Store, run: RunId) -> Result<RunSnapshot>;

    /// The run.
    now fn run_id(&self) -> RunId;

    /// The state that is saved next.
    now fn state(&self) -> &RunSnapshot;

    /// The state that is saved next, for changes. Its inbox holds the waiting commands; change it with
    /// [`command`](Self::command) and [`take_inbox`](Self::take_inbox).
    now fn state_mut(&mut self) -> &mut RunSnapshot;

    /// Takes the commands that wait for a run, in the order of their arrival. After a crash before the next snapshot
    /// they wait again: delivery is at least once.
    now fn take_inbox(&mut self, run_id: &str) -> Vec<RuntimeCommand>;

    /// Takes the first command with a message (`send`, or `reply`) that waits for a run; all others go on waiting.
    now fn take_message(&mut self, run_id: &str) -> Option<RuntimeCommand>;

    /// Has a command wait again, before all others, that was taken by this handle and not used.
    now fn give_back(&mut self, command: RuntimeCommand) -> ();

    /// Takes the commands that aren't for a particular run, such as `resume`.
    now fn take_own_inbox(&mut self) -> Vec<RuntimeCommand>;

    /// Adds the commands that other handles of the run received.
    fn refresh(&mut self) -> Result<()>;

    /// Checks that the flow still takes events and commands: that of a run takes none once the run has paused or ended.
    fn check_open(&self) -> Result<()>;

    /// Records an event, and returns its sequence. Durable when it returns.
    fn record(&mut self, event: &RuntimeEvent) -> Result<u64>;

    /// Records events, all of them or none, and returns the sequence of the last. `None` is the store's own durability setting.
    fn record_all(
        &mut self,
        events: &[RuntimeEvent],
        durability: Option<Durability>,
    ) -> Result<u64>;

    /// Saves the state as the run's latest snapshot. Durable when it returns.
    fn save_snapshot(&mut self) -> Result<()>;

    /// Sets an agent's own session and its node's status to running, and saves the snapshot. Await it before the agent
    /// is called: the call can be resumed after a crash from then on.
    fn start_agent(&mut self, node_id: &str, session_id: &str) -> Result<()>;

    /// Sets a node's output and its status to finished, and saves the snapshot. The agent's session is kept, for more turns.
    fn finish_node(&mut self, node_id: &str, output: serde_json::Value) -> Result<()>;

    /// Receives a command: it is recorded as `command:received`, and waits in the inbox of the run it names.
    /// Durable when it returns.
    fn command(&mut self, command: &RawJson) -> Result<()>;
}

waiting! {
    Playback: crate::flows::Playback;

    /// Plays a run's flow back. Events that are recorded meanwhile are played too.
    fn new(store: &Store, run: RunId, options: PlaybackOptions) -> Result<Self>;

    /// The latest state of the flow, up to the last sequence of the options: its latest snapshot, with the commands
    /// received since in its inbox. For inspection, not for running.
    now fn snapshot(&self) -> Option<&RunSnapshot>;
}

impl Playback {
    /// Continues with the event at a sequence, or with the next one in the direction of play: see
    /// [`seek`](crate::flows::Playback::seek).
    pub fn seek(&mut self, sequence: u64) {
        self.inner.seek(sequence);
    }

    /// Sets the direction of play: see [`turn`](crate::flows::Playback::turn).
    pub fn turn(&mut self, backward: bool) {
        self.inner.turn(backward);
    }
}

impl Iterator for Playback {
    type Item = Result<(Duration, RecordedEvent)>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.inner.next_event()).transpose()
    }
}
