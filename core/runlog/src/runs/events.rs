//! The events of a run in its context: read in order, or looked up by step, position and sequence.

use runlog_log::{Position, Sequence};
use runlog_model::{ContextEvent, ContextEventKind, InstanceId, ToolCallFold};

use super::{Runs, load::LoadedRun};
use crate::{Result, kernel::records::context_stream};

impl Runs {
    /// Passes the run's events from a sequence of its context to `take`, until that returns `Unwanted`; `expected` is
    /// about how many it needs. Returns the sequence of the first event after the run, if that was reached.
    pub(super) async fn each_event(
        &self,
        run: &LoadedRun,
        first: u64,
        expected: usize,
        mut take: impl FnMut(&ContextEvent) -> Result<More>,
    ) -> Result<Option<u64>> {
        let take = |event: &ContextEvent, owner| match owner {
            Owner::Run => take(event),
            Owner::Other => Ok(More::Wanted),
        };
        self.each_of_context(run, first, expected, take).await
    }

    /// As [`each_event`](Self::each_event), with the events that others recorded in the context while the run was at work.
    pub(super) async fn each_of_context(
        &self,
        run: &LoadedRun,
        first: u64,
        expected: usize,
        mut take: impl FnMut(&ContextEvent, Owner) -> Result<More>,
    ) -> Result<Option<u64>> {
        let pages = self
            .store
            .contexts()
            .events(run.run.instance_id, first)
            .await?;
        let mut pages = pages.beginning_with(expected as u64);
        while let Some(mut page) = pages.next_page().await? {
            for event in &mut page {
                if run
                    .ended_position
                    .is_some_and(|ended| event.position > ended)
                {
                    return Ok(Some(event.sequence_number));
                }
                if event.redacted {
                    self.adopt(run, event).await?;
                }
                if run.is_at_work(event.position)
                    && matches!(take(event, run.owner_of(event))?, More::Unwanted)
                {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// The first sequence of the context that was appended after the run's creation.
    pub(super) async fn first_sequence(&self, run: &LoadedRun) -> Result<u64> {
        self.sequence_after(run.run.instance_id, run.created_position)
            .await
    }

    /// The first sequence of a context that was appended after a position of the log, by binary search: positions grow
    /// with sequences, even after truncations and forks.
    pub(super) async fn sequence_after(&self, instance: InstanceId, position: u64) -> Result<u64> {
        let contexts = self.store.contexts();
        let last = contexts.last_sequence(instance).await?;
        let (mut first, mut end) = (1, last + 1);
        // Most contexts have one run: it begins with their first event, and ends with the last.
        let mut likely = [1, last].into_iter();
        while first < end {
            let middle = likely.find(|sequence| (first..end).contains(sequence));
            let middle = middle.unwrap_or(first + (end - first) / 2);
            match contexts.event(instance, middle).await? {
                Some(event) if event.position <= position => first = middle + 1,
                _ => end = middle,
            }
        }
        Ok(first)
    }

    /// A sequence of the context at or before the run's first message of a step, by binary search: steps are in order.
    pub(super) async fn first_of_step(&self, run: &LoadedRun, step: u32) -> Result<u64> {
        let instance = run.run.instance_id;
        let mut first = self.first_sequence(run).await?;
        if step <= run.fold.steps_before() {
            return Ok(first);
        }
        let mut end = self.store.contexts().last_sequence(instance).await? + 1;
        while first < end {
            let middle = first + (end - first) / 2;
            // Events of others may be in between.
            let mut own = None;
            self.each_event(run, middle, 1, |event| {
                own = Some((event.sequence_number, event.step_number.unwrap_or(0)));
                Ok(More::Unwanted)
            })
            .await?;
            match own.filter(|(sequence, _)| *sequence < end) {
                Some((sequence, of)) if of < step => first = sequence + 1,
                _ => end = middle,
            }
        }
        Ok(first)
    }

    /// The run's event at a position of the log, if its context still has it.
    pub(super) async fn event_at(
        &self,
        run: &LoadedRun,
        position: u64,
    ) -> Result<Option<ContextEvent>> {
        let instance: InstanceId = run.run.instance_id;
        if position == 0 {
            return Ok(None);
        }
        let page = self.store.backend().scan(Position(position), 1).await?;
        let record = page
            .records
            .first()
            .filter(|record| record.position.0 == position);
        let Some(record) = record.filter(|record| record.stream == context_stream(instance)) else {
            return Ok(None);
        };
        // It may have been truncated, and another event may have its sequence now.
        let Sequence(sequence) = record.sequence;
        Ok(self
            .own_event(run, sequence)
            .await?
            .filter(|event| event.position == position))
    }

    /// The event at a sequence of the run's context, if it belongs to the run.
    pub(super) async fn own_event(
        &self,
        run: &LoadedRun,
        sequence: u64,
    ) -> Result<Option<ContextEvent>> {
        if sequence == 0 {
            return Ok(None);
        }
        let event = self
            .store
            .contexts()
            .event(run.run.instance_id, sequence)
            .await?;
        let Some(mut event) = event else {
            return Ok(None);
        };
        self.adopt(run, &mut event).await?;
        Ok(Some(event).filter(|event| run.owns(event)))
    }
}

/// Whether a reader wants to see more.
pub(super) enum More {
    Wanted,
    Unwanted,
}

/// Whose an event is that is in a run's context.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Run,
    /// Another run, or none.
    Other,
}

impl Owner {
    /// Hands an event to a fold of the run's tool calls: others may record the result of one.
    pub(super) fn push(self, event: &ContextEvent, fold: &mut ToolCallFold) {
        match self {
            Self::Run => fold.push(event),
            Self::Other => fold.push_of_others(event),
        }
    }
}

impl LoadedRun {
    fn owner_of(&self, event: &ContextEvent) -> Owner {
        match self.owns(event) {
            true => Owner::Run,
            false => Owner::Other,
        }
    }

    pub(super) fn owns(&self, event: &ContextEvent) -> bool {
        event.run_id == Some(self.run.id) && self.is_at_work(event.position)
    }

    /// Whether it was at work when something was recorded.
    pub(super) fn is_at_work(&self, position: u64) -> bool {
        position > self.created_position && self.ended_position.is_none_or(|ended| position < ended)
    }
}

/// The kinds of events that are messages.
pub(super) fn message_kinds() -> Vec<ContextEventKind> {
    let kinds = ContextEventKind::ALL.into_iter();
    kinds.filter(|kind| kind.is_message()).collect()
}

/// How many events a page of messages or tool calls usually needs: each with its neighbours, and the next one.
pub(super) fn events_to_read(limit: usize) -> usize {
    limit.saturating_add(1).saturating_mul(2)
}
