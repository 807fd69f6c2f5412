//! Resuming a flow: its state, and the prompts of its running nodes.

use runlog_log::Sequence;
use runlog_model::{RawJson, RunId, RuntimeCommand, RuntimeEvent};
use serde::Serialize;

use super::{
    run::FlowRun,
    state::{SavedState, load_snapshot, receive_since},
};
use crate::{Error, ErrorKind, Result, Store};

/// The default prompt of a node that was running.
const CONTINUE: &str = "continue";

fn taken(run: RunId) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!(
            "the flow of run {run} was resumed already, and somebody is at work on it: use that handle, or let go of it before \
             it is resumed again"
        ),
    )
}

/// What a resumed flow goes on with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resumed {
    /// The nodes that were running, in the order of their names.
    pub running: Vec<RunningNode>,
    /// The sequence of the `flow:resumed` event.
    pub sequence: u64,
    /// How many states that were saved later can't be read any more, because they or one that they differ from was redacted, lost,
    /// or replaced by a snapshot of the caller's own: nodes that had ended by then may be run again. The event has it as
    /// `unreadableStates` where it isn't 0.
    pub unreadable_states: u32,
}

/// A node that was running when the flow stopped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunningNode {
    /// The node.
    pub node_id: String,
    /// The agent's own session; `None` for a node that is no agent, or whose agent hadn't begun.
    pub session_id: Option<String>,
    /// What to resume the agent with.
    pub prompt: String,
}

impl FlowRun {
    /// Resumes a flow: its latest snapshot, the commands received since, and a `flow:resumed` event; returns the nodes
    /// that were running, each with its prompt: the message, or `continue`. A message is recorded as a
    /// `command:received`, and delivered as those nodes' prompt; if no node was running, it waits in the inbox.
    ///
    /// The flow of a run that was paused is resumed by [resuming the run](crate::runs::Runs::resume), which carries the
    /// state over to the new run; this then resumes the flow of that run.
    ///
    /// The handle claims the flow until it is dropped: it can't be resumed again meanwhile, so that no node's agent is
    /// called twice. A handle that drove the flow before, as the one that [created](Self::create) it, is superseded: it can
    /// record events and send commands, but takes none, and saves no state.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when another handle has resumed it and still exists; nothing is
    /// recorded then. [`NotFound`](crate::ErrorKind::NotFound) when the run has no snapshot,
    /// [`Damaged`](crate::ErrorKind::Damaged) when it can't be read, [`WrongStatus`](crate::ErrorKind::WrongStatus)
    /// when the flow is that of a run that isn't running. [`LimitReached`](crate::ErrorKind::LimitReached), and nothing is
    /// recorded, when the message would wait in an inbox that is full.
    pub async fn resume(
        store: &Store,
        run: RunId,
        message: Option<&str>,
    ) -> Result<(Self, Resumed)> {
        // Before anything is read, so that of several concurrent calls only one succeeds.
        let claim = store.shared.flows.shared().resumed().enter_alone(run);
        let claim = claim.ok_or_else(|| taken(run))?;
        // Before the states are held: whoever saves one takes both in this order.
        let inbox = store.shared.flows.shared().inboxes().of(run);
        let writing = match &inbox {
            Some(inbox) => Some(inbox.writing().await),
            None => None,
        };
        // Whoever drove it until now saves nothing any more: its state would replace what is loaded here. Who is about to save
        // waits, and is refused only if this comes to its end.
        let gate = store.runs().index().shared().gate(run);
        let _states = gate.saving().await;
        let taken_over = gate.take_over().await;
        // The state is written again, with what comes.
        let _beside = store.beside_erasures().await;
        let loaded = load_snapshot(store, run, Sequence::MAX).await?;
        let saved = loaded.ok_or_else(|| {
            Error::not_found(format!("run {run} has no snapshot to resume a flow from"))
        })?;
        let SavedState {
            covered,
            mut state,
            unreadable,
        } = saved;
        let last = receive_since(store, run, covered, &mut state).await?;
        let mut flow = Self::of(store, run, state, last);
        flow.show_own_inbox();
        flow.claim = Some(claim);

        let given = message.map(|message| RuntimeCommand {
            run_id: Some(run.to_string()),
            ..RuntimeCommand::resume(Some(message))
        });
        // A message that no node is resumed with waits.
        let is_resumed_with = flow.state.running().next().is_some();
        let waiting = given.as_ref().filter(|_| !is_resumed_with);
        let _room = match (&inbox, writing, waiting) {
            (Some(inbox), Some(writing), Some(command)) => {
                Some(inbox.room_within(writing, command)?)
            }
            _ => None,
        };
        if let Some(command) = waiting.filter(|_| inbox.is_none()) {
            flow.check_room(command).await?;
        }
        let mut events = Vec::new();
        if let Some(command) = &given {
            let json = RawJson::from_value(command)?;
            events.push(flow.received(&json, command.run_id.clone(), None)?);
        }
        let (now, id) = (store.backend().now_ms(), run.to_string());
        let mut resumed = serde_json::json!({"type": "flow:resumed", "runId": id, "timestamp": now, "fromSequence": covered});
        if unreadable > 0 {
            resumed["unreadableStates"] = unreadable.into();
        }
        events.push(RuntimeEvent::of_json(RawJson::from_value(&resumed)?)?);
        let sequence = flow.record_all(&events, None).await?;
        taken_over.keep();
        let running = flow.running_nodes(given);
        let resumed = Resumed {
            running,
            sequence,
            unreadable_states: unreadable,
        };
        Ok((flow, resumed))
    }

    /// The nodes that were running, with the given message, or else the one that waits, which is taken out of the
    /// inbox. If no node was running, the given message is added to the inbox.
    fn running_nodes(&mut self, given: Option<RuntimeCommand>) -> Vec<RunningNode> {
        let nodes: Vec<String> = self.state.running().map(str::to_owned).collect();
        if nodes.is_empty() {
            if let Some(command) = given {
                self.keep(command);
            }
            return Vec::new();
        }
        let command = given.or_else(|| self.take_resume());
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

    /// Takes the latest waiting `resume` with a message.
    fn take_resume(&mut self) -> Option<RuntimeCommand> {
        let is_resume = |command: &RuntimeCommand| {
            command.command_type == "resume" && command.message().is_some()
        };
        let waiting = self.state.inbox.iter().rposition(is_resume)?;
        let command = self.state.inbox.remove(waiting);
        let own = self
            .own_inbox()
            .filter(|_| command.run_id.as_deref() == Some(&self.run.to_string()));
        // The run's agent may have taken it meanwhile.
        own.is_none_or(|inbox| inbox.remove(&command))
            .then_some(command)
    }
}
