//! The tool calls of a run that failed, found by the labels of their results.

use std::collections::{BTreeMap, HashSet};

use runlog_log::Sequence;
use runlog_model::{
    ContextEvent, ContextEventKind, ToolCall, ToolCallStatus, is_response_item, tool_error_label,
};

use super::{Runs, events::More, load::LoadedRun, recorder::SEARCHED_MAX, turns::Turns};
use crate::{Result, journal::cursor::Cursor};

/// Calls by their sequence in the context.
type Calls = BTreeMap<u64, ToolCall>;

impl Runs {
    /// The run's failed calls, in their order, after a cursor: one more than the page has. The cost depends only on the
    /// number of failed results in its context while it was at work.
    pub(super) async fn failed_calls(
        &self,
        run: &LoadedRun,
        limit: usize,
        cursor: Option<Cursor>,
    ) -> Result<Vec<ToolCall>> {
        let wanted = limit.saturating_add(1);
        let after = cursor.as_ref().map_or(0, |cursor| cursor.second);
        // A result comes after the message that asked for it.
        let message = cursor.map(|cursor| cursor.first);
        let Some(first) = self.position_after(run, message).await? else {
            return Ok(Vec::new());
        };
        let (mut calls, mut next) = (Calls::new(), Some(first));
        let mut turns = Turns::default();
        let label = tool_error_label(run.run.instance_id);
        while let Some(first) = next {
            let results;
            (results, next) = self.labelled_events(run, label, first, wanted).await?;
            for result in results {
                // Results of one message come in any order, but before all results of the next message.
                let turn = self.turn_of_result(run, &result, &mut turns).await?;
                if calls.range(..turn.first).nth(limit).is_some() {
                    return Ok(page_of(calls, wanted));
                }
                self.answered_by(run, &result, after, &mut calls, &mut turns)
                    .await?;
            }
        }
        self.failed_late(run, after, &mut calls).await?;
        Ok(page_of(calls, wanted))
    }

    /// Adds the calls that a result answers with an error.
    async fn answered_by(
        &self,
        run: &LoadedRun,
        result: &ContextEvent,
        after: u64,
        calls: &mut Calls,
        turns: &mut Turns,
    ) -> Result<()> {
        let (instance, contexts) = (run.run.instance_id, self.store.contexts());
        let before = Sequence(result.sequence_number.saturating_sub(1));
        let mut of_turn: HashSet<Option<String>> = HashSet::new();
        if run.owns(result) {
            let turn = self.turn_of_result(run, result, turns).await?;
            of_turn.extend(turn.calls.iter().map(|call| call.tool_call_id.clone()));
            let failed = turn.calls.iter().filter(|call| {
                call.status == ToolCallStatus::Error && call.sequence_number > after
            });
            calls.extend(failed.map(|call| (call.sequence_number, call.clone())));
        }
        // A result may come late, for a call of an earlier turn, or from others.
        let errors = result.tool_results.iter().filter(|mark| mark.is_error);
        for mark in errors.filter(|mark| !of_turn.contains(&mark.tool_call_id)) {
            let mut left = SEARCHED_MAX;
            let call = |event: &ContextEvent| {
                left -= 1;
                let is_call = run.owns(event)
                    && event.tool_call_id == mark.tool_call_id
                    && !calls.contains_key(&event.sequence_number);
                let is_too_far = left == 0 || event.sequence_number <= after;
                (is_call || is_too_far)
                    .then(|| Some(event.clone()).filter(|_| is_call && !is_too_far))
            };
            let kinds = [ContextEventKind::ToolCall];
            let call = contexts.find_back(instance, before, &kinds, call).await?;
            if let Some(call) = call.flatten()
                && let Some(call) = self.call_at(run, &call, turns).await?
                && call.status == ToolCallStatus::Error
            {
                calls.insert(call.sequence_number, call);
            }
        }
        Ok(())
    }

    /// Adds the failed calls that a run left open and whose results came after it, from another run or from none. They
    /// belong to its last turn, because only results can be recorded while calls are open.
    async fn failed_late(&self, run: &LoadedRun, after: u64, calls: &mut Calls) -> Result<()> {
        let Some(ended) = run.ended_position else {
            return Ok(());
        };
        let instance = run.run.instance_id;
        let end = self.sequence_after(instance, ended).await?;
        if end > self.store.contexts().last_sequence(instance).await? {
            // Nothing came after the run.
            return Ok(());
        }
        let first = self.turn_before(run, end).await?;
        let mut fold = self.tool_call_fold(run).await?;
        let end = self.each_of_context(run, first, 1, |event, owner| {
            owner.push(event, &mut fold);
            Ok(More::Wanted)
        });
        let end = end.await?;
        self.take_late_results(run, end, &mut fold).await?;
        let failed = fold
            .finish()
            .into_iter()
            .filter(|call| call.status == ToolCallStatus::Error && call.sequence_number > after);
        calls.extend(failed.map(|call| (call.sequence_number, call)));
        Ok(())
    }

    /// The sequence at which the last assistant turn before a sequence began: its message, or the first of its items.
    pub(super) async fn turn_before(&self, run: &LoadedRun, sequence: u64) -> Result<u64> {
        let before = Sequence(sequence.saturating_sub(1));
        let (mut first, mut left) = (sequence, SEARCHED_MAX);
        let look = |event: &ContextEvent| {
            left -= 1;
            let goes_on = match event.event_type {
                ContextEventKind::AssistantMessage => {
                    first = event.sequence_number;
                    // A redacted one may be an item.
                    event.redacted || is_response_item(&event.content)
                }
                // A result after the turn belongs to it, one before it to an earlier turn.
                ContextEventKind::ToolResult => first == sequence,
                _ => false,
            };
            (left == 0 || !goes_on).then_some(())
        };
        let kinds = [
            ContextEventKind::AssistantMessage,
            ContextEventKind::UserMessage,
            ContextEventKind::SystemMessage,
            ContextEventKind::ToolResult,
        ];
        let contexts = self.store.contexts();
        contexts
            .find_back(run.run.instance_id, before, &kinds, look)
            .await?;
        Ok(first)
    }
}

fn page_of(calls: Calls, wanted: usize) -> Vec<ToolCall> {
    calls.into_values().take(wanted).collect()
}
