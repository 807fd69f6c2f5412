//! [`FlowRun`]: recording a flow, saving what it is resumed from, and routing its commands.

use std::{collections::BTreeMap, fmt};

use runlog_log::{
    Appended, Batch, Durability, Expected, Kind, Op, ReadOptions, Sequence, StreamId,
};
use runlog_model::{
    EncodedEvent, FlowEventKind, NodeStatus, RawJson, RunId, RunSnapshot, RuntimeCommand,
    RuntimeEvent,
};
use serde::{Deserialize, Serialize};

use super::list::{LiveGuard, listing};
use crate::{
    Error, ErrorKind, Result, Store, journal::attempts::ATTEMPTS_MAX, runs::Gate,
    sessions::lookup::check_id,
};

/// What a node that was running is resumed with where nothing else is said.
const CONTINUE: &str = "continue";

/// A flow under way. [`blocking::FlowRun`](crate::blocking::FlowRun) is the same for callers that wait.
///
/// Its [state](Self::state) is in memory; [`save_snapshot`](Self::save_snapshot) makes it durable. One handle at a
/// time should drive a run. Others, of other tasks, may record events and receive commands, as a
/// [recorder](crate::runs::RunRecorder) of the same run may go on: their commands are taken in with the next event that
/// this one records, or by [`refresh`](Self::refresh).
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
    store: Store,
    run: RunId,
    state: RunSnapshot,
    last_sequence: u64,
    gate: Gate,
    /// Has the flow count as one that somebody is at work on.
    _live: LiveGuard,
}

/// What a resumed flow goes on with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Resumed {
    /// The nodes that were running, in the order of their names.
    pub running: Vec<RunningNode>,
    /// The sequence of the `flow:resumed` event.
    pub sequence: u64,
}

/// A node that was running when the flow stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RunningNode {
    /// The node.
    pub node_id: String,
    /// The agent's own session; `None` for a node that is no agent, or whose agent hadn't begun.
    pub session_id: Option<String>,
    /// What to resume the agent with.
    pub prompt: String,
}

/// A `command:received` event.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommandReceived {
    #[serde(rename = "type")]
    event_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    timestamp: u64,
    command: RawJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl FlowRun {
    /// Begins a flow, with an empty state of status `running`: that of a run, where `run` is the id of one, in the run's
    /// own stream; else a flow by itself, with this id or a fresh one. What the two have to do with each other, and how
    /// each is resumed, is told by [`Flows`](crate::flows::Flows), which lists both. Durable when it returns.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when the run has a flow already: resume it, or when the id is that of
    /// something else; [`InvalidInput`](ErrorKind::InvalidInput) for an id that the store itself uses;
    /// [`WrongStatus`](ErrorKind::WrongStatus) for a run that isn't running.
    pub async fn create(store: &Store, run: Option<RunId>) -> Result<Self> {
        let run = run.unwrap_or_else(|| RunId(store.backend().new_id()));
        let state = RunSnapshot {
            run_id: Some(run.to_string()),
            ..RunSnapshot::new("running")
        };
        let stream = stream_of(run);
        store
            .shared
            .catalog
            .read(|catalog| check_id(catalog, run.as_uuid()))
            .await??;
        let (meta, payload) = state.encode()?;
        let gate = store.runs().index().shared().gate(run);
        let _pass = gate.pass().await;
        let mut attempt = 1;
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
            let listed = store.listed_flow(run, &state.status).await?;
            let mut ops = vec![
                // Sees to it that nobody begins the same flow.
                Op::Append {
                    stream,
                    expected,
                    records: Vec::new(),
                },
                Op::Snapshot {
                    stream,
                    expected: Expected::Any,
                    sequence: last,
                    meta: &meta,
                    payload: payload.as_bytes(),
                },
            ];
            ops.extend(listed.as_ref().map(listing));
            match store.backend().commit(Batch::new(ops)).await {
                Ok(_) => {
                    store.shared.flows.after_commit().await;
                    return Ok(Self::of(store, run, state, last.0));
                }
                // The run's recorder went on.
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS_MAX => {
                    attempt += 1
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn of(store: &Store, run: RunId, state: RunSnapshot, last_sequence: u64) -> Self {
        let live = store.shared.flows.shared().live(run);
        let gate = store.runs().index().shared().gate(run);
        Self {
            store: store.clone(),
            run,
            state,
            last_sequence,
            gate,
            _live: live,
        }
    }

    /// The state of a flow as it is now: its latest snapshot, with the commands received since in its inbox. For
    /// looking at: nothing is written.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the run has no snapshot, [`Damaged`](ErrorKind::Damaged) when it can't be
    /// read.
    pub async fn inspect(store: &Store, run: RunId) -> Result<RunSnapshot> {
        let state = state_at(store, run, Sequence::MAX).await?;
        state.ok_or_else(|| Error::not_found(format!("run {run} has no snapshot of a flow")))
    }

    /// Resumes a flow: its latest snapshot, the commands received since, and a `flow:resumed` event; says which
    /// nodes were running, and what to resume each with: the message, or `continue`. A message is recorded as a
    /// `command:received`, and delivered as those nodes' prompt, or waits in the inbox where no node was running.
    ///
    /// The flow of a run that was paused is resumed by [resuming the run](crate::runs::Runs::resume), which carries the
    /// state over to the run that goes on; this then resumes the flow of that one.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the run has no snapshot, [`Damaged`](ErrorKind::Damaged) when it can't be
    /// read, [`WrongStatus`](ErrorKind::WrongStatus) when the flow is that of a run that isn't running.
    pub async fn resume(
        store: &Store,
        run: RunId,
        message: Option<&str>,
    ) -> Result<(Self, Resumed)> {
        let loaded = load_snapshot(store, run, Sequence::MAX).await?;
        let (covered, mut state) = loaded.ok_or_else(|| {
            Error::not_found(format!("run {run} has no snapshot to resume a flow from"))
        })?;
        let last = receive_since(store, run, covered, &mut state).await?;
        let mut flow = Self::of(store, run, state, last);

        let mut events = Vec::new();
        if let Some(message) = message {
            let command = RuntimeCommand {
                run_id: Some(run.to_string()),
                ..RuntimeCommand::resume(Some(message))
            };
            events.push(flow.received(
                &RawJson::from_value(&command)?,
                command.run_id.clone(),
                None,
            )?);
            flow.state.inbox.push(command);
        }
        let (now, id) = (store.backend().now_ms(), run.to_string());
        let resumed = serde_json::json!({"type": "flow:resumed", "runId": id, "timestamp": now, "fromSequence": covered});
        events.push(RuntimeEvent::of_json(RawJson::from_value(&resumed)?)?);
        let sequence = flow.record_all(&events, None).await?;
        let running = flow.running_nodes();
        Ok((flow, Resumed { running, sequence }))
    }

    /// The nodes that were running; the message that waits for them is taken out of the inbox.
    fn running_nodes(&mut self) -> Vec<RunningNode> {
        let nodes: Vec<String> = self.state.running().map(str::to_owned).collect();
        if nodes.is_empty() {
            return Vec::new();
        }
        let is_resume = |command: &RuntimeCommand| {
            command.command_type == "resume" && command.message().is_some()
        };
        let waiting = self.state.inbox.iter().rposition(is_resume);
        let command = waiting.map(|index| self.state.inbox.remove(index));
        let prompt = command
            .as_ref()
            .and_then(RuntimeCommand::message)
            .unwrap_or(CONTINUE);
        let sessions = &self.state.agent_sessions;
        nodes
            .into_iter()
            .map(|node_id| {
                let session_id = sessions.get(&node_id).cloned();
                RunningNode {
                    node_id,
                    session_id,
                    prompt: prompt.to_owned(),
                }
            })
            .collect()
    }

    /// The run.
    pub fn run_id(&self) -> RunId {
        self.run
    }

    /// The state that is saved next.
    pub fn state(&self) -> &RunSnapshot {
        &self.state
    }

    /// The state that is saved next, to be changed. The inbox is the commands that wait: it is changed by
    /// [`command`](Self::command) and [`take_inbox`](Self::take_inbox).
    pub fn state_mut(&mut self) -> &mut RunSnapshot {
        &mut self.state
    }

    /// Records an event, and says its sequence. Durable when it returns.
    ///
    /// # Errors
    /// [`WrongStatus`](ErrorKind::WrongStatus) when the flow is that of a run that isn't running; else those of the storage.
    pub async fn record(&mut self, event: &RuntimeEvent) -> Result<u64> {
        self.record_all(std::slice::from_ref(event), None).await
    }

    /// Records events, all of them or none, and says the sequence of the last. As durable as asked; `None` is the
    /// store's own setting.
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

    /// Records groups of events as [`record_all`](Self::record_all) does, in one batch and one flush, all of them or none:
    /// for one that gathers what comes while it writes. Says the sequence of the last event of each group.
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
            stream: stream_of(self.run),
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
        // What others wrote in between: their commands come before what was recorded now. It is recorded; where that
        // can't be read, the next call tries again.
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
        let sequence_of = |recorded: &mut u64, events: &&[RuntimeEvent]| {
            *recorded += events.len() as u64;
            Some(*recorded)
        };
        Ok(groups.iter().scan(before, sequence_of).collect())
    }

    /// Takes in the commands that other handles of the run received.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn refresh(&mut self) -> Result<()> {
        self.last_sequence =
            receive_since(&self.store, self.run, self.last_sequence, &mut self.state).await?;
        Ok(())
    }

    /// Saves the state as the run's latest snapshot. Durable when it returns.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when it is over its limit, [`WrongStatus`](ErrorKind::WrongStatus) when the flow is
    /// that of a run that isn't running; else those of the storage.
    pub async fn save_snapshot(&mut self) -> Result<()> {
        let (meta, payload) = self.state.encode()?;
        let (meta, payload) = (&meta[..], payload.as_bytes());
        let sequence = Sequence(self.last_sequence);
        let (stream, expected) = (stream_of(self.run), Expected::Any);
        let listed = self.store.listed_flow(self.run, &self.state.status).await?;
        let mut ops = vec![Op::Snapshot {
            stream,
            expected,
            sequence,
            meta,
            payload,
        }];
        ops.extend(listed.as_ref().map(listing));
        // What a flow is resumed from is on the device, whatever the store's setting.
        self.commit(Batch::new(ops).with_durability(Durability::Sync))
            .await?;
        if listed.is_some() {
            self.store.shared.flows.after_commit().await;
        }
        Ok(())
    }

    /// Notes an agent's own session and that its node is running, and saves the snapshot. To be awaited before the
    /// agent is called: from then on a crash can be resumed from.
    ///
    /// # Errors
    /// As [`save_snapshot`](Self::save_snapshot). The state is as before then.
    pub async fn start_agent(&mut self, node_id: &str, session_id: &str) -> Result<()> {
        let before = self.state.clone();
        self.state
            .agent_sessions
            .insert(node_id.to_owned(), session_id.to_owned());
        self.state
            .node_status
            .insert(node_id.to_owned(), NodeStatus::Running);
        let saved = self.save_snapshot().await;
        if saved.is_err() {
            self.state = before;
        }
        saved
    }

    /// Notes that a node has finished with an output, and saves the snapshot. The agent's session stays, for more
    /// turns.
    ///
    /// # Errors
    /// As [`start_agent`](Self::start_agent).
    pub async fn finish_node(&mut self, node_id: &str, output: serde_json::Value) -> Result<()> {
        let before = self.state.clone();
        self.state.outputs.insert(node_id.to_owned(), output);
        self.state
            .node_status
            .insert(node_id.to_owned(), NodeStatus::Done);
        let saved = self.save_snapshot().await;
        if saved.is_err() {
            self.state = before;
        }
        saved
    }

    /// Receives a command: it is recorded as `command:received`, and waits in the inbox of the run it names. Durable
    /// when it returns.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when it is no command, a `send` or `reply` without a `runId`, or for a
    /// [run](crate::runs::Runs) under way that isn't this flow's: it is recorded all the same, with its payload as it is
    /// and the error, and doesn't wait anywhere.
    pub async fn command(&mut self, command: &RawJson) -> Result<()> {
        let read: Result<RuntimeCommand> = command.to_value();
        let checked = match read.and_then(|command| command.check().map(|()| command)) {
            Ok(command) => self.check_addressee(&command).await.map(|()| command),
            Err(error) => Err(error),
        };
        match checked {
            Ok(command_read) => {
                let event = self.received(command, command_read.run_id.clone(), None)?;
                self.record(&event).await?;
                self.state.inbox.push(command_read);
                Ok(())
            }
            Err(error) => {
                let event = self.received(command, None, Some(error.to_string()))?;
                self.record(&event).await?;
                Err(error)
            }
        }
    }

    /// Writes something of the flow, as long as its run, if it is that of one, is running.
    async fn commit(&self, batch: Batch<'_>) -> Result<Appended> {
        let _pass = self.gate.pass().await;
        self.store.check_open_flow(self.run).await?;
        self.store.backend().commit(batch).await
    }

    /// A run of the store that isn't this flow's has an inbox of its own, which doesn't look into the flow's.
    async fn check_addressee(&self, command: &RuntimeCommand) -> Result<()> {
        let named = command
            .run_id
            .as_deref()
            .and_then(|id| id.parse::<RunId>().ok());
        let Some(named) = named.filter(|named| *named != self.run) else {
            return Ok(());
        };
        if self.store.runs().is_unfinished(named).await? {
            return Err(Error::invalid(format!(
                "run {named} is not part of the flow of run {}, and would never see the command: send it by the \
                 orchestrator that works on it",
                self.run
            )));
        }
        Ok(())
    }

    /// Takes the commands that wait for a run, in the order in which they came. A crash before the next snapshot
    /// brings them back: they are delivered at least once.
    pub fn take_inbox(&mut self, run_id: &str) -> Vec<RuntimeCommand> {
        let inbox = std::mem::take(&mut self.state.inbox);
        let (taken, left) = inbox
            .into_iter()
            .partition(|command| command.run_id.as_deref() == Some(run_id));
        self.state.inbox = left;
        taken
    }

    /// Takes the commands that wait for no run in particular, such as `resume`.
    pub fn take_own_inbox(&mut self) -> Vec<RuntimeCommand> {
        let inbox = std::mem::take(&mut self.state.inbox);
        let (taken, left) = inbox
            .into_iter()
            .partition(|command| command.run_id.is_none());
        self.state.inbox = left;
        taken
    }

    fn received(
        &self,
        command: &RawJson,
        run_id: Option<String>,
        error: Option<String>,
    ) -> Result<RuntimeEvent> {
        command_received(command, run_id, error, self.store.backend().now_ms())
    }
}

/// The event that tells of a command.
pub(crate) fn command_received(
    command: &RawJson,
    run_id: Option<String>,
    error: Option<String>,
    timestamp: u64,
) -> Result<RuntimeEvent> {
    let event_type = "command:received".to_owned();
    let event = CommandReceived {
        event_type,
        run_id,
        timestamp,
        command: command.clone(),
        error,
    };
    RuntimeEvent::of_json(RawJson::from_value(&event)?)
}

/// The newest run snapshot at or before a sequence, with the sequence it covers. Other states that are saved in
/// the same stream are passed over.
pub(crate) async fn load_snapshot(
    store: &Store,
    run: RunId,
    at_or_before: Sequence,
) -> Result<Option<(u64, RunSnapshot)>> {
    let mut at = at_or_before;
    loop {
        let snapshot = match store.backend().latest_snapshot(stream_of(run), at).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if RunSnapshot::is_one(&snapshot.meta) {
            let state = RunSnapshot::decode(&snapshot.meta, &snapshot.payload)?;
            return Ok(Some((snapshot.sequence.0, state)));
        }
        let Some(before) = snapshot.sequence.0.checked_sub(1) else {
            return Ok(None);
        };
        at = Sequence(before);
    }
}

/// Puts the commands that were received after a sequence into the inbox, and says the stream's last sequence.
pub(crate) async fn receive_since(
    store: &Store,
    run: RunId,
    covered: u64,
    state: &mut RunSnapshot,
) -> Result<u64> {
    let last = store
        .backend()
        .stream(stream_of(run))
        .await?
        .map_or(0, |info| info.last_sequence.0);
    receive(store, run, covered, last, state).await?;
    Ok(last)
}

/// The state of a flow at a sequence: the latest snapshot, and the commands received since. `None` without a snapshot.
pub(super) async fn state_at(
    store: &Store,
    run: RunId,
    last: Sequence,
) -> Result<Option<RunSnapshot>> {
    let Some((covered, mut state)) = load_snapshot(store, run, last).await? else {
        return Ok(None);
    };
    let end = store
        .backend()
        .stream(stream_of(run))
        .await?
        .map_or(0, |info| info.last_sequence.0);
    receive(store, run, covered, end.min(last.0), &mut state).await?;
    Ok(Some(state))
}

/// Puts the commands of a range of the run's stream, after `covered` and up to `last`, into the inbox.
async fn receive(
    store: &Store,
    run: RunId,
    covered: u64,
    last: u64,
    state: &mut RunSnapshot,
) -> Result<()> {
    let mut next = Some(Sequence(covered).next());
    while let Some(first) = next.filter(|first| first.0 <= last) {
        let kinds = vec![Kind(FlowEventKind::Command.byte())];
        let options = ReadOptions {
            first,
            last: Sequence(last),
            kinds,
            ..ReadOptions::default()
        };
        let page = store.backend().read(stream_of(run), options).await?;
        next = page.next;
        for record in page.records.iter().filter(|record| !record.redacted) {
            let event = RuntimeEvent::decode(&record.meta, &record.payload)?;
            // An event that the caller recorded by hand may have another shape; it is for those who look on.
            let Ok(received) = event.json.to_value::<CommandReceived>() else {
                continue;
            };
            let command = received.command.to_value::<RuntimeCommand>().ok();
            state.inbox.extend(
                command.filter(|command| received.error.is_none() && command.check().is_ok()),
            );
        }
    }
    Ok(())
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

/// The stream of a run: its timeline.
pub(super) fn stream_of(run: RunId) -> StreamId {
    StreamId(run.as_uuid())
}
