//! [`Turns`]: the tool calls of one turn with their results, read once for all of them: a turn may have a thousand.

use runlog_log::Sequence;
use runlog_model::{ContextEvent, ContextEventKind, ToolCall, ToolCallStatus, is_response_item};

use super::{
    Runs,
    events::{More, Owner, events_to_read, message_kinds},
    load::LoadedRun,
};
use crate::Result;

/// The turn of a run that was read last.
#[derive(Default)]
pub(super) struct Turns {
    last: Option<Turn>,
}

/// A turn: an assistant's message, or the items of one, with the calls that it makes and their results.
pub(super) struct Turn {
    /// The sequences of its first and its last event that was read.
    pub(super) first: u64,
    end: u64,
    /// Its calls that have their results, in the order in which they were made.
    pub(super) calls: Vec<ToolCall>,
}

impl Turns {
    /// The turn that was read last, if an event is in it.
    pub(super) fn known(&self, sequence: u64) -> Option<&Turn> {
        let is_in = |turn: &&Turn| (turn.first..=turn.end).contains(&sequence);
        self.last.as_ref().filter(is_in)
    }
}

impl Runs {
    /// The tool call of a run's event, with its result.
    pub(super) async fn call_at(
        &self,
        run: &LoadedRun,
        event: &ContextEvent,
        turns: &mut Turns,
    ) -> Result<Option<ToolCall>> {
        let is_it = |call: &&ToolCall| call.id == event.position;
        if let Some(turn) = turns.known(event.sequence_number)
            && let Some(call) = turn.calls.iter().find(is_it)
        {
            return Ok(Some(call.clone()));
        }
        // The turn begins at the call's message, which comes right before the calls that it requests.
        let before = Sequence(event.sequence_number.saturating_sub(1));
        let sequence = |event: &ContextEvent| Some(event.sequence_number);
        let (contexts, kinds) = (self.store.contexts(), message_kinds());
        let message = contexts.find_back(run.run.instance_id, before, &kinds, sequence);
        let first = if event.redacted {
            // Another item of its answer may tell which results aren't its own.
            self.turn_before(run, event.sequence_number).await?
        } else {
            message.await?.unwrap_or(event.sequence_number)
        };
        let (turn, open) = self.turn(run, first, event.sequence_number, true).await?;
        let settled = turn.calls.iter().find(is_it).cloned();
        turns.last = Some(turn);
        Ok(settled.or_else(|| open.into_iter().find(|call| call.id == event.position)))
    }

    /// The turn from its first event on, through an event of it; with the calls that have no result. For a call of which the result
    /// is `wanted`, what comes after the turn is read, too.
    pub(super) async fn turn(
        &self,
        run: &LoadedRun,
        first: u64,
        through: u64,
        wanted: bool,
    ) -> Result<(Turn, Vec<ToolCall>)> {
        let (mut fold, mut end, mut is_over) = (self.tool_call_fold(run).await?, through, false);
        let reached = self
            .each_of_context(run, first, events_to_read(1), |event, owner| {
                let is_own = owner == Owner::Run;
                if is_own && event.sequence_number > through && begins_another(event) {
                    is_over = true;
                    let is_open =
                        |call: &ToolCall| call.sequence_number == through && is_pending(call);
                    if !wanted || !fold.calls().any(is_open) {
                        return Ok(More::Unwanted);
                    }
                }
                owner.push(event, &mut fold);
                if is_own && !is_over {
                    end = end.max(event.sequence_number);
                }
                let is_whole = event.sequence_number >= through && !fold.is_open();
                Ok(if is_whole {
                    More::Unwanted
                } else {
                    More::Wanted
                })
            })
            .await?;
        if wanted {
            self.take_late_results(run, reached, &mut fold).await?;
        }
        let (open, calls) = fold.finish().into_iter().partition(is_pending);
        Ok((Turn { first, end, calls }, open))
    }

    /// The turn that a result belongs to: the last one before it.
    pub(super) async fn turn_of_result<'t>(
        &self,
        run: &LoadedRun,
        result: &ContextEvent,
        turns: &'t mut Turns,
    ) -> Result<&'t Turn> {
        let sequence = result.sequence_number;
        let turn = match turns
            .last
            .take_if(|turn| (turn.first..=turn.end).contains(&sequence))
        {
            Some(known) => known,
            None => {
                let first = self.turn_before(run, sequence).await?;
                self.turn(run, first, sequence, false).await?.0
            }
        };
        Ok(turns.last.insert(turn))
    }
}

/// Whether a message begins another turn: what isn't a further item of the same answer.
fn begins_another(event: &ContextEvent) -> bool {
    match event.event_type {
        ContextEventKind::AssistantMessage => !is_response_item(&event.content),
        ContextEventKind::UserMessage | ContextEventKind::SystemMessage => true,
        ContextEventKind::ToolCall | ContextEventKind::ToolResult => false,
    }
}

fn is_pending(call: &ToolCall) -> bool {
    call.status == ToolCallStatus::Pending
}
