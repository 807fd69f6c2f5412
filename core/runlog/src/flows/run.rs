//! [`FlowRun`]: recording a flow, and saving the state it is resumed from.

use std::{collections::BTreeMap, fmt};

use runlog_log::{Appended, Batch, Durability, Expected, Op, Sequence};
use runlog_model::{EncodedEvent, NodeStatus, RunId, RunSnapshot, RuntimeEvent};
use tokio::sync::RwLockReadGuard;

use super::state::{load_snapshot, receive, receive_since, state_at};
use crate::{
    Error, ErrorKind, Result, Store,
    journal::attempts::Retries,
    kernel::{gates::Gate, inbox::Taker, live::LiveGuard, records::run_stream},
};

/// An active flow. [`blocking::FlowRun`](crate::blocking::FlowRun) is its blocking counterpart.
///
/// Its [state](Self::state) is in memory; [`save_snapshot`](Self::save_snapshot) makes it durable. One handle at a time
/// should drive a run. Handles of other tasks may record events and receive commands, and a
/// [recorder](crate::runs::RunRecorder) of the same run may continue: their commands are added to this handle's state
/// with the next event that it records, or by [`refresh`](Self::refresh).
///
/// ```
/// use runlog::{
///     Store,
///     flows::{FlowRun, RuntimeEvent},
/// };
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let mut flow = FlowRun::create(&store, None).await?;
/// flow.record(&RuntimeEvent::parse(r#"{"type":"node:started","nodeId":"plan"}"#)?).await?;
/// flow.start_agent("plan", "sess-123").await?; // Durable: the agent may be called now.
///
/// let (_, resumed) = FlowRun::resume(&store, flow.run_id(), None).await?;
/// assert_eq!(resumed.running[0].session_id.as_deref(), Some("sess-123"));
/// assert_eq!(resumed.running[0].prompt, "continue");
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
pub struct FlowRun {
    pub(super) store: Store,
    pub(super) run: RunId,
    pub(super) state: RunSnapshot,
    last_sequence: u64,
    gate: Gate,
    /// [`Gate::driver`] when this handle was made.
    driver: u64,
    /// Marks the flow as being worked on.
    _live: LiveGuard,
    /// Prevents that it is resumed again, if this handle resumed it.
    pub(super) claim: Option<LiveGuard>,
}

impl FlowRun {
    /// Begins a flow, with an empty state of status `running`. If `run` is the id of a run, it is that run's flow, in
    /// the run's own stream; otherwise it is a separate flow, with this id or a fresh one.
    /// [`Flows`](crate::flows::Flows) lists both, and explains how they relate and how each is resumed. Durable when it returns.
    ///
    /// A separate flow has ended when a snapshot says so, by its `status`: only the caller knows which node is the last one. Until then it is
    /// listed among those to be resumed.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when the run has a flow already: resume it, or when the id is that of
    /// something else; [`InvalidInput`](ErrorKind::InvalidInput) for an id that the store itself uses;
    /// [`WrongStatus`](ErrorKind::WrongStatus) for a run that isn't running.
    pub async fn create(store: &Store, run: Option<RunId>) -> Result<Self> {
        let run = run.unwrap_or_else(|| RunId(store.backend().new_id()));
        let inbox = store.shared.flows.shared().inboxes().of(run);
        let _writing = match &inbox {
            Some(inbox) => Some(inbox.writing().await),
            None => None,
        };
        // Commands that wait for the run are in the flow's first snapshot.
        let (waiting, taken) = inbox
            .as_ref()
            .map(|inbox| inbox.saved(Taker::Flow))
            .unwrap_or_default();
        let state = RunSnapshot {
            run_id: Some(run.to_string()),
            inbox: waiting,
            ..RunSnapshot::new("running")
        };
        let stream = run_stream(run);
        store.shared.catalog.check_id(run.as_uuid()).await?;
        let gate = store.runs().index().shared().gate(run);
        let _pass = gate.pass().await;
        let mut retries = Retries::default();
        loop {
            if load_snapshot(store, run, Sequence::MAX).await?.is_some() {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    format!("run {run} has a flow already; resume it"),
                ));
            }
            let (last, expected) = match store.backend().stream(stream).await? {
                Some(info) => (info.last_sequence, Expected::Last(info.last_sequence)),
                None => (Sequence::ZERO, Expected::Absent),
            };
            store.check_open_flow(run).await?;
            let saved = store.saved_flow(run, &state).await?;
            // Ensures that the flow isn't begun twice.
            let mut ops = vec![Op::Append {
                stream,
                expected,
                records: Vec::new(),
            }];
            ops.extend(saved.ops(last));
            match store.backend().commit(Batch::new(ops)).await {
                Ok(_) => {
                    if let Some(inbox) = &inbox {
                        inbox.mark_saved(Taker::Flow, taken);
                    }
                    saved.after_commit(store).await;
                    let mut flow = Self::of(store, run, state, last.0);
                    flow.show_own_inbox();
                    return Ok(flow);
                }
                // The run's recorder has written in between.
                Err(error) => retries.again(error)?,
            }
        }
    }

    pub(super) fn of(store: &Store, run: RunId, state: RunSnapshot, last_sequence: u64) -> Self {
        store.receive_requests();
        let live = store.shared.flows.shared().live().enter(run);
        let gate = store.runs().index().shared().gate(run);
        Self {
            store: store.clone(),
            run,
            state,
            last_sequence,
            driver: gate.driver(),
            gate,
            _live: live,
            claim: None,
        }
    }

    /// The state of a flow as it is now: its latest snapshot, with the commands received since in its inbox. Read-only:
    /// nothing is written.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the run has no snapshot, [`Damaged`](ErrorKind::Damaged) when it can't be
    /// read.
    pub async fn inspect(store: &Store, run: RunId) -> Result<RunSnapshot> {
        let state = state_at(store, run, Sequence::MAX).await?;
        state.ok_or_else(|| Error::not_found(format!("run {run} has no snapshot of a flow")))
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run
    }

    /// The state that is saved next.
    pub fn state(&self) -> &RunSnapshot {
        &self.state
    }

    /// The state that is saved next, for changes. Its inbox holds the waiting commands; change it with
    /// [`command`](Self::command) and [`take_inbox`](Self::take_inbox).
    pub fn state_mut(&mut self) -> &mut RunSnapshot {
        &mut self.state
    }

    /// Records an event, and returns its sequence. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the flow is that of a run that isn't running; else those of the storage.
    pub async fn record(&mut self, event: &RuntimeEvent) -> Result<u64> {
        self.record_all(std::slice::from_ref(event), None).await
    }

    /// Records events, all of them or none, and returns the sequence of the last. `None` is the store's own durability setting.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn record_all(
        &mut self,
        events: &[RuntimeEvent],
        durability: Option<Durability>,
    ) -> Result<u64> {
        let recorded = self.record_groups(&[events], durability).await?;
        Ok(recorded.last().copied().unwrap_or(self.last_sequence))
    }

    /// Records groups of events as [`record_all`](Self::record_all) does, in one batch and one flush, all of them or
    /// none: for a writer that gathers events while it writes. Returns the sequence of the last event of each group.
    ///
    /// # Errors
    /// Those of the storage.
    pub async fn record_groups(
        &mut self,
        groups: &[&[RuntimeEvent]],
        durability: Option<Durability>,
    ) -> Result<Vec<u64>> {
        let events = groups.iter().copied().flatten();
        let events: Vec<EncodedEvent> = events.map(RuntimeEvent::encode).collect();
        let records: Vec<_> = events.iter().map(EncodedEvent::record).collect();
        let count = records.len() as u64;
        let append = Op::Append {
            stream: run_stream(self.run),
            expected: Expected::Exists,
            records,
        };
        let appended = self
            .commit(Batch {
                ops: vec![append],
                key: None,
                durability,
            })
            .await?;
        let last = appended
            .ops
            .first()
            .map_or(self.last_sequence, |result| result.last_sequence.0);
        // Apply what others wrote in between: their commands come before the events recorded now. The events are
        // committed in any case; if this read fails, the next call tries again.
        let before = last.saturating_sub(count);
        if receive(
            &self.store,
            self.run,
            self.last_sequence,
            before,
            &mut self.state,
        )
        .await
        .is_ok()
        {
            self.last_sequence = last;
        }
        self.show_own_inbox();
        let sequence_of = |recorded: &mut u64, events: &&[RuntimeEvent]| {
            *recorded += events.len() as u64;
            Some(*recorded)
        };
        Ok(groups.iter().scan(before, sequence_of).collect())
    }

    /// Adds the commands that other handles of the run received. Waits until a resume that is under way has succeeded or failed:
    /// this handle takes commands in the second case alone.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn refresh(&mut self) -> Result<()> {
        let inbox = self.own_inbox();
        // With this lock, a command that is just being recorded is also in the inbox when that is read.
        let _writing = match &inbox {
            Some(inbox) => Some(inbox.writing().await),
            None => None,
        };
        let _known = self.gate.saving().await;
        self.catch_up().await
    }

    async fn catch_up(&mut self) -> Result<()> {
        self.last_sequence =
            receive_since(&self.store, self.run, self.last_sequence, &mut self.state).await?;
        self.show_own_inbox();
        Ok(())
    }

    /// Saves the state as the run's latest snapshot. Durable when it returns. What this flow took from its inboxes doesn't
    /// wait again from then on; what the run's agent took waits again after a crash until the run has recorded that.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when it is over its limit, [`WrongStatus`](ErrorKind::WrongStatus) when the flow is
    /// that of a run that isn't running; [`Conflict`](ErrorKind::Conflict) when another handle has resumed it since this one
    /// was made; else those of the storage.
    pub async fn save_snapshot(&mut self) -> Result<()> {
        let inbox = self.own_inbox();
        let _writing = match &inbox {
            Some(inbox) => Some(inbox.writing().await),
            None => None,
        };
        let mut saving = self.gate.saving().await;
        // The snapshot must list the waiting ones of all commands received so far, and stands behind those that others saved:
        // at an earlier sequence it could take the place of one that theirs differ from, and nobody would read it.
        self.catch_up().await?;
        let mut taken = 0;
        if let Some(inbox) = &inbox {
            let (own, count) = inbox.saved(Taker::Flow);
            self.show(own);
            taken = count;
        }
        let sequence = Sequence(self.last_sequence);
        let whole = self.state.encode();
        self.show_own_inbox();
        let whole = whole?;
        let pass = self.gate.pass().await;
        self.check_driver()?;
        self.store.check_open_flow(self.run).await?;
        self.store
            .save_flow(self.run, &mut saving, sequence, &whole, &self.state.status)
            .await?;
        drop((pass, saving));
        if let Some(inbox) = &inbox {
            inbox.mark_saved(Taker::Flow, taken);
        }
        Ok(())
    }

    /// Sets an agent's own session and its node's status to running, and saves the snapshot. Await it before the agent
    /// is called: the call can be resumed after a crash from then on.
    ///
    /// # Errors
    /// As [`save_snapshot`](Self::save_snapshot), and [`InvalidInput`](ErrorKind::InvalidInput) for an empty id of the node. The
    /// state is as before then.
    pub async fn start_agent(&mut self, node_id: &str, session_id: &str) -> Result<()> {
        check_node(node_id)?;
        let before = self.state.clone();
        self.state
            .agent_sessions
            .insert(node_id.to_owned(), session_id.to_owned());
        self.state
            .node_status
            .insert(node_id.to_owned(), NodeStatus::Running);
        let saved = self.save_snapshot().await;
        if saved.is_err() {
            self.set_back(before);
        }
        saved
    }

    /// Sets a node's output and its status to finished, and saves the snapshot. The agent's session is kept, for more turns.
    ///
    /// # Errors
    /// As [`start_agent`](Self::start_agent).
    pub async fn finish_node(&mut self, node_id: &str, output: serde_json::Value) -> Result<()> {
        check_node(node_id)?;
        let before = self.state.clone();
        self.state.outputs.insert(node_id.to_owned(), output);
        self.state
            .node_status
            .insert(node_id.to_owned(), NodeStatus::Done);
        let saved = self.save_snapshot().await;
        if saved.is_err() {
            self.set_back(before);
        }
        saved
    }

    /// The state is as before a save that failed, with the commands that came meanwhile: they are read no second time.
    fn set_back(&mut self, before: RunSnapshot) {
        let inbox = std::mem::take(&mut self.state.inbox);
        self.state = RunSnapshot { inbox, ..before };
    }

    /// Checks that the flow still takes events and commands, for whoever waits for one: the flow of a run takes none once
    /// the run has paused or ended. A flow with an id of its own always does.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when it takes none any more, with what the run came to;
    /// [`Conflict`](ErrorKind::Conflict) when another handle has resumed it since this one was made; else those of the storage.
    pub async fn check_open(&self) -> Result<()> {
        // A resume that is under way holds the states until it is known whether it takes the flow over.
        drop(self.gate.saving().await);
        self.check_driver()?;
        self.store.check_open_flow(self.run).await
    }

    /// Writes a batch of the flow. If it belongs to a run, that must be running.
    async fn commit(&self, batch: Batch<'_>) -> Result<Appended> {
        let pass = self.gate.pass().await;
        self.commit_within(&pass, batch).await
    }

    async fn commit_within(
        &self,
        _pass: &RwLockReadGuard<'_, ()>,
        batch: Batch<'_>,
    ) -> Result<Appended> {
        self.store.check_open_flow(self.run).await?;
        self.store.backend().commit(batch).await
    }

    /// Whether another handle has resumed the flow since this one was made.
    pub(super) fn is_superseded(&self) -> bool {
        self.driver != self.gate.driver()
    }

    fn check_driver(&self) -> Result<()> {
        if !self.is_superseded() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "another handle has resumed the flow of run {} since this one was made: use that one, or resume the flow again",
                self.run
            ),
        ))
    }
}

fn check_node(node_id: &str) -> Result<()> {
    match node_id {
        "" => Err(Error::invalid(
            "the id of the flow's node is empty; give the one that its events have",
        )),
        _ => Ok(()),
    }
}

impl fmt::Debug for FlowRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sessions: &BTreeMap<String, String> = &self.state.agent_sessions;
        f.debug_struct("FlowRun")
            .field("run", &self.run)
            .field("sessions", sessions)
            .finish_non_exhaustive()
    }
}
