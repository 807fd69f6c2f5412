//! Redacted events of a run: they have lost which run they are of, and which step.

use runlog_log::{Kind, Position, ReadOptions, Sequence};
use runlog_model::{ContextEvent, ContextEventKind, RunEvent, ToolCallFold, kinds};

use super::{
    Runs,
    load::{LoadedRun, event_of},
};
use crate::{
    Result,
    kernel::records::{context_stream, run_stream},
};

/// How many events before a redacted one are looked at for the step of one.
const NEAR: usize = 64;

/// The messages that a step may begin with.
const BEGINNINGS: [ContextEventKind; 3] = [
    ContextEventKind::SystemMessage,
    ContextEventKind::UserMessage,
    ContextEventKind::AssistantMessage,
];

/// The beginning of a step in a run's stream.
#[derive(Clone, Copy)]
struct Begun {
    position: u64,
    step: u32,
}

impl Runs {
    /// A fold of a run's tool calls, which knows the form of the context where something of it may be redacted.
    pub(super) async fn tool_call_fold(&self, run: &LoadedRun) -> Result<ToolCallFold> {
        let fold = ToolCallFold::new();
        if self.store.backend().redactions() == 0 {
            return Ok(fold);
        }
        let style = self.store.contexts().style(run.run.instance_id).await?;
        Ok(fold.in_form(style))
    }

    /// Gives a redacted event to the run, if it was recorded while that was at work: the history would be without it. Where
    /// several runs are at work in a context at once, each shows it.
    ///
    /// Its step is known from the run's own stream, in which each step has a record, in one batch with the first message of the
    /// step and behind it.
    pub(super) async fn adopt(&self, run: &LoadedRun, event: &mut ContextEvent) -> Result<()> {
        if !event.redacted || event.run_id.is_some() || !run.is_at_work(event.position) {
            return Ok(());
        }
        let (before, after) = self.steps_around(run, event.position).await?;
        let step = match after {
            Some(after) if self.begins(run, event, after).await? => after.step,
            _ => before.map_or_else(|| run.fold.steps_before(), |before| before.step),
        };
        // Entries that were recorded together may begin several steps in one batch, whose records are behind all of them.
        let step = step.max(self.step_before(run, event).await?);
        (event.run_id, event.step_number) = (Some(run.run.id), Some(step));
        Ok(())
    }

    /// The step of the run's last event before another that tells it, if that is near; otherwise 0.
    async fn step_before(&self, run: &LoadedRun, event: &ContextEvent) -> Result<u32> {
        let mut left = NEAR;
        let look = |event: &ContextEvent| {
            left -= 1;
            let step = event.step_number.filter(|_| run.owns(event));
            step.or((left == 0).then_some(0))
        };
        let last = Sequence(event.sequence_number.saturating_sub(1));
        let (instance, contexts) = (run.run.instance_id, self.store.contexts());
        let step = contexts.find_back(instance, last, &ContextEventKind::ALL, look);
        Ok(step.await?.unwrap_or(0))
    }

    /// Whether an event is in the batch that begins a step: it isn't before the last message that a step may begin with, and from
    /// there to the step's record there is nothing but events of the context, and redactions, which an import
    /// writes behind each of its batches.
    async fn begins(&self, run: &LoadedRun, event: &ContextEvent, begun: Begun) -> Result<bool> {
        let (instance, contexts) = (run.run.instance_id, self.store.contexts());
        let place = |event: &ContextEvent| Some((event.sequence_number, event.position));
        let from = Sequence(event.sequence_number);
        let message = contexts.find_back(instance, from, &BEGINNINGS, place);
        let Some((sequence, position)) = message.await? else {
            return Ok(false);
        };
        let last = self.last_before(run, (sequence, position), begun).await?;
        let last_message = contexts.find_back(instance, last, &BEGINNINGS, place);
        if last_message.await? != Some((sequence, position)) {
            return Ok(false);
        }
        let events = last.0 - sequence;
        Ok(position + events + 1 == begun.position
            || self.is_uninterrupted(run, position, events, begun).await?)
    }

    /// The last record of a run's context before a step began, by binary search from one before it, of which sequence and
    /// position are given.
    async fn last_before(
        &self,
        run: &LoadedRun,
        (sequence, position): (u64, u64),
        begun: Begun,
    ) -> Result<Sequence> {
        let stream = context_stream(run.run.instance_id);
        // It is the highest that can be if nothing else is in between.
        let (mut last, mut next) = (sequence, sequence + begun.position - position);
        let mut probe = next - 1;
        while last + 1 < next {
            let options = ReadOptions {
                first: Sequence(probe),
                limit: 1,
                ..ReadOptions::default()
            };
            let page = self.store.backend().read(stream, options).await?;
            let found = page.records.first();
            match found.is_some_and(|record| record.position.0 < begun.position) {
                true => last = probe,
                false => next = probe,
            }
            probe = last + (next - last) / 2;
        }
        Ok(Sequence(last))
    }

    /// Whether there is nothing but so many events of a run's context, and redactions, between a position and the beginning of
    /// a step. With more events of the context some were truncated, and the step began with one of those.
    async fn is_uninterrupted(
        &self,
        run: &LoadedRun,
        position: u64,
        events: u64,
        begun: Begun,
    ) -> Result<bool> {
        let stream = context_stream(run.run.instance_id);
        let mut left = events;
        let mut next = Some(Position(position + 1));
        while let Some(first) = next.filter(|first| first.0 < begun.position) {
            let limit = (begun.position - first.0).min(NEAR as u64);
            let page = self.store.backend().scan(first, limit).await?;
            let between = page.records.iter();
            for record in between.take_while(|record| record.position.0 < begun.position) {
                if record.kind == Kind::REDACT {
                    continue;
                }
                if left == 0 || record.stream != stream || !record.kind.is_data() {
                    return Ok(false);
                }
                left -= 1;
            }
            next = page.next;
        }
        Ok(left == 0)
    }

    /// The last step of a run that was begun before a position of the log, and the first one that was begun behind it, by binary
    /// search: positions grow with sequences.
    async fn steps_around(
        &self,
        run: &LoadedRun,
        position: u64,
    ) -> Result<(Option<Begun>, Option<Begun>)> {
        let (mut before, mut after) = (None, None);
        let (mut first, mut end) = (Sequence::FIRST, run.last_sequence.next());
        while first < end {
            let middle = Sequence(first.0 + (end.0 - first.0) / 2);
            // Other records may be in between.
            match self.step_from(run, middle, end).await? {
                Some((sequence, begun)) if begun.position < position => {
                    (before, first) = (Some(begun), sequence.next());
                }
                found => {
                    after = found.map(|(_, begun)| begun).or(after);
                    end = middle;
                }
            }
        }
        Ok((before, after))
    }

    /// The first beginning of a step at a sequence of the run's stream or behind it, before an end.
    async fn step_from(
        &self,
        run: &LoadedRun,
        first: Sequence,
        end: Sequence,
    ) -> Result<Option<(Sequence, Begun)>> {
        let options = ReadOptions {
            first,
            last: Sequence(end.0 - 1),
            kinds: vec![Kind(kinds::RUN_STEP_STARTED)],
            limit: 1,
            ..ReadOptions::default()
        };
        let page = self.store.backend().read(run_stream(run.run.id), options);
        let Some(record) = page.await?.records.into_iter().next() else {
            return Ok(None);
        };
        let Position(position) = record.position;
        let RunEvent::StepStarted {
            step_number: step, ..
        } = event_of(&record, run.run.id)?
        else {
            return Ok(None);
        };
        Ok(Some((record.sequence, Begun { position, step })))
    }
}
