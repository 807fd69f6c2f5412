//! [`Flows`], [`FlowRun`] and [`Playback`]: [`crate::flows::Flows`], [`crate::flows::FlowRun`] and [`crate::flows::Playback`] for callers that wait.

use std::time::Duration;

use pollster::block_on;
use runlog_log::Durability;
use runlog_model::{
    FlowSummary, ListFlows, RawJson, RunId, RunSnapshot, RuntimeCommand, RuntimeEvent,
};

use super::Store;
use crate::{
    Page, Result,
    flows::{PlaybackOptions, RecordedEvent, Resumed},
};

/// The flows of a store: which there are, and what is to be resumed. [`crate::flows::Flows`] is the same for callers that await, and
/// tells how a flow and a run have to do with each other.
///
/// ```
/// use runlog::{
///     blocking::{FlowRun, Store},
///     flows::ListFlows,
/// };
///
/// let store = Store::in_memory();
/// let flow = FlowRun::create(&store, None)?;
/// let page = store.flows().list(&ListFlows::default())?;
/// assert_eq!((page.items[0].run_id, page.items[0].status.as_str()), (flow.run_id(), "running"));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flows {
    inner: crate::flows::Flows,
}

impl Flows {
    /// As [`crate::flows::Flows::list`].
    ///
    /// # Errors
    /// As there.
    pub fn list(&self, options: &ListFlows) -> Result<Page<FlowSummary>> {
        block_on(self.inner.list(options))
    }

    /// As [`crate::flows::Flows::get`].
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, id: RunId) -> Result<Option<FlowSummary>> {
        block_on(self.inner.get(id))
    }
}

impl Store {
    /// The flows of this store.
    pub fn flows(&self) -> Flows {
        Flows {
            inner: self.as_async().flows(),
        }
    }
}

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
    /// As [`crate::flows::FlowRun::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(store: &Store, run: Option<RunId>) -> Result<Self> {
        Ok(Self {
            inner: block_on(crate::flows::FlowRun::create(store.as_async(), run))?,
        })
    }

    /// As [`crate::flows::FlowRun::resume`].
    ///
    /// # Errors
    /// As there.
    pub fn resume(store: &Store, run: RunId, message: Option<&str>) -> Result<(Self, Resumed)> {
        let (inner, resumed) = block_on(crate::flows::FlowRun::resume(
            store.as_async(),
            run,
            message,
        ))?;
        Ok((Self { inner }, resumed))
    }

    /// As [`crate::flows::FlowRun::attach`].
    ///
    /// # Errors
    /// As there.
    pub fn attach(store: &Store, run: RunId) -> Result<Self> {
        Ok(Self {
            inner: block_on(crate::flows::FlowRun::attach(store.as_async(), run))?,
        })
    }

    /// As [`crate::flows::FlowRun::waiting`].
    ///
    /// # Errors
    /// As there.
    pub fn waiting(store: &Store, run: RunId) -> Result<Vec<RuntimeCommand>> {
        block_on(crate::flows::FlowRun::waiting(store.as_async(), run))
    }

    /// As [`crate::flows::FlowRun::inspect`].
    ///
    /// # Errors
    /// As there.
    pub fn inspect(store: &Store, run: RunId) -> Result<RunSnapshot> {
        block_on(crate::flows::FlowRun::inspect(store.as_async(), run))
    }

    /// As [`crate::flows::FlowRun::refresh`].
    ///
    /// # Errors
    /// As there.
    pub fn refresh(&mut self) -> Result<()> {
        block_on(self.inner.refresh())
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.inner.run_id()
    }

    /// The state that is saved next.
    pub fn state(&self) -> &RunSnapshot {
        self.inner.state()
    }

    /// As [`crate::flows::FlowRun::state_mut`].
    pub fn state_mut(&mut self) -> &mut RunSnapshot {
        self.inner.state_mut()
    }

    /// As [`crate::flows::FlowRun::record`].
    ///
    /// # Errors
    /// As there.
    pub fn record(&mut self, event: &RuntimeEvent) -> Result<u64> {
        block_on(self.inner.record(event))
    }

    /// As [`crate::flows::FlowRun::record_all`].
    ///
    /// # Errors
    /// As there.
    pub fn record_all(
        &mut self,
        events: &[RuntimeEvent],
        durability: Option<Durability>,
    ) -> Result<u64> {
        block_on(self.inner.record_all(events, durability))
    }

    /// As [`crate::flows::FlowRun::save_snapshot`].
    ///
    /// # Errors
    /// As there.
    pub fn save_snapshot(&mut self) -> Result<()> {
        block_on(self.inner.save_snapshot())
    }

    /// As [`crate::flows::FlowRun::start_agent`].
    ///
    /// # Errors
    /// As there.
    pub fn start_agent(&mut self, node_id: &str, session_id: &str) -> Result<()> {
        block_on(self.inner.start_agent(node_id, session_id))
    }

    /// As [`crate::flows::FlowRun::finish_node`].
    ///
    /// # Errors
    /// As there.
    pub fn finish_node(&mut self, node_id: &str, output: serde_json::Value) -> Result<()> {
        block_on(self.inner.finish_node(node_id, output))
    }

    /// As [`crate::flows::FlowRun::command`].
    ///
    /// # Errors
    /// As there.
    pub fn command(&mut self, command: &RawJson) -> Result<()> {
        block_on(self.inner.command(command))
    }

    /// As [`crate::flows::FlowRun::take_inbox`].
    pub fn take_inbox(&mut self, run_id: &str) -> Vec<RuntimeCommand> {
        self.inner.take_inbox(run_id)
    }

    /// As [`crate::flows::FlowRun::take_own_inbox`].
    pub fn take_own_inbox(&mut self) -> Vec<RuntimeCommand> {
        self.inner.take_own_inbox()
    }
}

impl Playback {
    /// As [`crate::flows::Playback::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(store: &Store, run: RunId, options: PlaybackOptions) -> Result<Self> {
        Ok(Self {
            inner: block_on(crate::flows::Playback::new(store.as_async(), run, options))?,
        })
    }

    /// As [`crate::flows::Playback::snapshot`].
    pub fn snapshot(&self) -> Option<&RunSnapshot> {
        self.inner.snapshot()
    }
}

impl Iterator for Playback {
    type Item = Result<(Duration, RecordedEvent)>;

    fn next(&mut self) -> Option<Self::Item> {
        block_on(self.inner.next_event()).transpose()
    }
}
