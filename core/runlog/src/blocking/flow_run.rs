//! [`FlowRun`] and [`Playback`]: [`crate::flows::FlowRun`] and [`crate::flows::Playback`] for callers that wait.

use std::time::Duration;

use pollster::block_on;
use runlog_log::Durability;
use runlog_model::{RawJson, RunId, RunSnapshot, RuntimeCommand, RuntimeEvent};

use super::Store;
use crate::{
    Result,
    flows::{PlaybackOptions, RecordedEvent, Resumed},
};

/// A flow under way: its events, the state it is resumed from, and the commands it is sent.
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
/// let told = r#"{"type":"agent:text","nodeId":"plan","runId":"r1","timestamp":1,"content":"Hello"}"#;
/// let sequence = flow.record(&RuntimeEvent::parse(told)?)?;
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

/// A flow played back: an iterator of events, each with the time to let pass before it.
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
    /// Resumes a flow: its latest snapshot, the commands received since, and a `flow:resumed` event; says which nodes
    /// were running, and what to resume each with: the message, or `continue`.
    ///
    /// # Errors
    /// Those of [`resume`](crate::flows::FlowRun::resume), which says all there is to say of it.
    pub fn resume(store: &Store, run: RunId, message: Option<&str>) -> Result<(Self, Resumed)> {
        let resuming = crate::flows::FlowRun::resume(store.as_async(), run, message);
        block_on(resuming).map(|(inner, resumed)| (Self { inner }, resumed))
    }
}

waiting! {
    FlowRun: crate::flows::FlowRun;

    /// Begins a flow, with an empty state of status `running`: that of a run, where `run` is the id of one, in the
    /// run's own stream; else a flow by itself, with this id or a fresh one.
    fn create(store: &Store, run: Option<RunId>) -> Result<Self>;

    /// Another handle of a flow, for a task or a program that doesn't drive it but has something to tell: nothing
    /// is recorded, and no node is resumed. What it receives by [`command`](Self::command) waits for who drives the
    /// flow.
    fn attach(store: &Store, run: RunId) -> Result<Self>;

    /// The commands that a resume would find in the inbox of a run: those of its latest snapshot, and those that
    /// were received since. Nothing is written, so it may be asked of a store that is open for reading.
    fn waiting(store: &Store, run: RunId) -> Result<Vec<RuntimeCommand>>;

    /// The state of a flow as it is now: its latest snapshot, with the commands received since in its inbox. For
    /// looking at: nothing is written.
    fn inspect(store: &Store, run: RunId) -> Result<RunSnapshot>;

    /// The run.
    now fn run_id(&self) -> RunId;

    /// The state that is saved next.
    now fn state(&self) -> &RunSnapshot;

    /// The state that is saved next, to be changed. The inbox is the commands that wait: it is changed by
    /// [`command`](Self::command) and [`take_inbox`](Self::take_inbox).
    now fn state_mut(&mut self) -> &mut RunSnapshot;

    /// Takes the commands that wait for a run, in the order in which they came. A crash before the next snapshot
    /// brings them back: they are delivered at least once.
    now fn take_inbox(&mut self, run_id: &str) -> Vec<RuntimeCommand>;

    /// Takes the commands that wait for no run in particular, such as `resume`.
    now fn take_own_inbox(&mut self) -> Vec<RuntimeCommand>;

    /// Takes in the commands that other handles of the run received.
    fn refresh(&mut self) -> Result<()>;

    /// Records an event, and says its sequence. Durable when it returns.
    fn record(&mut self, event: &RuntimeEvent) -> Result<u64>;

    /// Records events, all of them or none, and says the sequence of the last. As durable as asked; `None` is the
    /// store's own setting.
    fn record_all(
        &mut self,
        events: &[RuntimeEvent],
        durability: Option<Durability>,
    ) -> Result<u64>;

    /// Saves the state as the run's latest snapshot. Durable when it returns.
    fn save_snapshot(&mut self) -> Result<()>;

    /// Notes an agent's own session and that its node is running, and saves the snapshot. To be awaited before the
    /// agent is called: from then on a crash can be resumed from.
    fn start_agent(&mut self, node_id: &str, session_id: &str) -> Result<()>;

    /// Notes that a node has finished with an output, and saves the snapshot. The agent's session stays, for more
    /// turns.
    fn finish_node(&mut self, node_id: &str, output: serde_json::Value) -> Result<()>;

    /// Receives a command: it is recorded as `command:received`, and waits in the inbox of the run it names.
    /// Durable when it returns.
    fn command(&mut self, command: &RawJson) -> Result<()>;
}

waiting! {
    Playback: crate::flows::Playback;

    /// Plays a run's flow back. What is recorded meanwhile is played too.
    fn new(store: &Store, run: RunId, options: PlaybackOptions) -> Result<Self>;

    /// The latest state of the flow, up to the last sequence asked for: its latest snapshot, with the commands
    /// received since in its inbox. For looking at, not for running.
    now fn snapshot(&self) -> Option<&RunSnapshot>;
}

impl Playback {
    /// Goes on with the event at a sequence, or with the nearest behind it in the direction of play, as
    /// [`seek`](crate::flows::Playback::seek) tells.
    pub fn seek(&mut self, sequence: u64) {
        self.inner.seek(sequence);
    }

    /// Plays on in a direction, from the event that was given last on, as [`turn`](crate::flows::Playback::turn) tells.
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
