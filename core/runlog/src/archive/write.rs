//! Writing the records of an archive that the store doesn't have.
//!
//! Invariants: streams are only appended to, in the order of their sequences; an envelope and its message, which are
//! adjacent in the archive, are adjacent in the store; and the lists are written last, so that everything listed exists.
//!
//! What was redacted is written without its content and redacted right after its batch: in the batch its neighbours stand beside
//! it as in the archive, which tells the step that a redacted message is of. After a crash in between, the next import redacts it.

use std::{
    collections::{HashMap, HashSet},
    io::BufRead,
};

use pollster::block_on;
use runlog_log::{Batch, Durability, Expected, Op, Sequence, StreamId, if_supported};
use runlog_model::{ContextEventKind, kinds};

use super::{
    ImportClock, Imported,
    erased_states::erased_states,
    lines::{Line, RecordLine, StreamLine},
    lists::{List, timed_meta},
    pending::{Pending, new_record, ops_of, redacted_of},
    reader::each_line,
};
use crate::{
    Result,
    archive::plan::{Group, ListLine, Plan, is_envelope},
    blocking::Store,
    kernel::records::chat_stream,
};

/// A batch is written once it has this many records,
const BATCH_RECORDS: usize = 4096;
/// or this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// The lists are written in one batch of at most this many records
const LIST_RECORDS: usize = 500_000;
/// and this many bytes.
const LIST_BYTES: usize = 64 << 20;
/// The reason of a redaction that comes from the exporting store.
const REDACTED: &str = "redacted in the store that it was exported from";

pub(super) fn write(
    store: &Store,
    clock: Option<&ImportClock>,
    plan: &Plan,
    source: &mut dyn BufRead,
) -> Result<Imported> {
    let (log_ms, is_log_time_known) = last_time(store, clock)?;
    let now_ms = store.backend().now_ms();
    let mut writer = Writer {
        store,
        clock,
        plan,
        pending: Vec::new(),
        count: 0,
        bytes: 0,
        time_ms: 0,
        now_ms,
        log_ms,
        is_log_time_known,
        envelope: None,
        redacted: None,
        erased: None,
        imported: Imported::default(),
        changed: HashSet::new(),
    };
    let written = writer.write(source);
    if let Some(clock) = clock {
        clock.go_on();
    }
    written?;
    block_on(async {
        store.as_async().shared.catalog.after_commit().await;
        store.as_async().runs().caught_up().await;
    });
    let mut imported = writer.imported;
    imported.sessions = plan.outcomes(&writer.changed);
    Ok(imported)
}

/// The earliest time of new records, and whether it is known: that of the last record, or now if there is no other clock.
fn last_time(store: &Store, clock: Option<&ImportClock>) -> Result<(u64, bool)> {
    let log = store.backend().maintenance();
    if clock.is_none() {
        return Ok((u64::MAX, true));
    }
    let last = if_supported(block_on(async {
        log.record(log.last_position().await?).await
    }))?;
    Ok(match last {
        Some(Some(last)) => (last.time_ms, true),
        Some(None) => (u64::MAX, false),
        None => (u64::MAX, true),
    })
}

struct Writer<'a> {
    store: &'a Store,
    clock: Option<&'a ImportClock>,
    plan: &'a Plan,
    pending: Vec<Pending>,
    count: usize,
    bytes: usize,
    /// The recording time of all pending records.
    time_ms: u64,
    /// The present: no record can be later.
    now_ms: u64,
    /// The earliest time that a new record can have: that of the log's last record.
    log_ms: u64,
    /// Whether `log_ms` is known: in an empty log, it is after the first record.
    is_log_time_known: bool,
    /// The stream, the sequence and the position of an envelope, right after it.
    envelope: Option<(StreamId, u64, u64)>,
    /// The same of a redacted record and what came right after it in its stream, until something of another stream comes.
    redacted: Option<(StreamId, u64, u64)>,
    /// The states that were erased, once that is asked.
    erased: Option<HashMap<StreamId, Sequence>>,
    imported: Imported,
    changed: HashSet<Group>,
}

impl Writer<'_> {
    fn write(&mut self, source: &mut dyn BufRead) -> Result<()> {
        each_line(source, |_, line| match line {
            Line::Stream(stream) => self.stream(&stream),
            Line::Record(record) if List::of_stream(record.stream).is_none() => self.record(record),
            Line::Snapshot(snapshot) => self.snapshot(snapshot),
            Line::Record(_) | Line::Lost(_) | Line::Archive | Line::End(..) => Ok(()),
        })?;
        self.flush()?;
        for position in &self.plan.to_redact {
            let op = Op::Redact {
                position: *position,
                reason: REDACTED,
            };
            block_on(self.store.backend().commit(Batch::new(vec![op])))?;
        }
        self.lists()
    }

    /// The group of a stream that is written, and its last sequence in the store before.
    fn state(&self, stream: StreamId) -> Option<(&Group, Option<u64>)> {
        let state = self.plan.streams.get(&stream)?;
        (!self.plan.conflicts.contains_key(&state.group)).then_some((&state.group, state.there))
    }

    fn stream(&mut self, line: &StreamLine) -> Result<()> {
        let Some((group, None)) = self.state(line.id) else {
            return Ok(());
        };
        let group = group.clone();
        // A stream is created by its first record, unless it has none, or something comes before it.
        let Some(state) = self.plan.streams.get(&line.id) else {
            return Ok(());
        };
        // A copy of which nothing is left is not made: it could never get the records that it shares.
        let is_lost_copy = line.parent.is_some() && state.last() == 0;
        let is_empty = (state.last() == 0 && !is_lost_copy) || state.begins_with_snapshot;
        match state.parent {
            Some((parent, at)) => self.push(group, Pending::Fork(parent, at, line.id), 0),
            None if is_empty => self.push(group, Pending::Empty(line.id), 0),
            None => Ok(()),
        }
    }

    fn record(&mut self, mut line: RecordLine) -> Result<()> {
        if self.is_cut_off(&line) {
            return Ok(());
        }
        let envelope = self.envelope.take();
        let Some((group, there)) = self.state(line.stream) else {
            return Ok(());
        };
        let group = group.clone();
        let is_adjacent = envelope.is_some_and(|(.., position)| self.is_adjacent(position, &line));
        if is_envelope(&line) {
            self.envelope = Some((line.stream, line.sequence, line.position));
        }
        if there.is_some_and(|there| line.sequence <= there) {
            self.imported.skipped += 1;
            if self.pending.is_empty() {
                self.time_ms = line.time_ms;
            }
            return Ok(());
        }
        match self
            .plan
            .streams
            .get(&line.stream)
            .filter(|state| state.is_context())
        {
            Some(_) if line.kind.0 == ContextEventKind::ToolCall.byte() => {
                self.imported.tool_calls += 1
            }
            Some(_) if ContextEventKind::from_byte(line.kind.0).is_some() => {
                self.imported.messages += 1
            }
            None if line.kind.0 == kinds::MESSAGE_SAVED
                && matches!(group, Group::Session(id) if chat_stream(id) == line.stream) =>
            {
                self.imported.chat_messages += 1
            }
            _ => self.imported.other += 1,
        }
        if let Some((stream, sequence, _)) = envelope.filter(|_| !is_adjacent) {
            self.push(
                group.clone(),
                Pending::Apart(stream, sequence),
                self.time_ms,
            )?;
        }
        if self.is_behind_a_gap(&line)
            && let Some((stream, sequence, _)) = self.redacted.take()
        {
            self.push(
                group.clone(),
                Pending::Apart(stream, sequence),
                self.time_ms,
            )?;
        }
        let is_context = self
            .plan
            .streams
            .get(&line.stream)
            .is_some_and(|state| state.is_context());
        if is_context && !line.redacted && !(self.log_ms..=self.now_ms).contains(&line.time_ms) {
            // The record can't get its original time, so that is stored in the event's metadata.
            line.meta = timed_meta(&line.meta, line.time_ms).map_or(line.meta, Into::into);
        }
        if !is_adjacent {
            self.make_room(line.time_ms, line.payload.len())?;
        }
        self.changed.insert(group);
        self.count += 1;
        self.bytes += line.payload.len();
        self.time_ms = line.time_ms;
        self.log_ms = self.log_ms.max(line.time_ms.min(self.now_ms));
        match self.pending.last_mut() {
            Some(Pending::Append(stream, records)) if *stream == line.stream => records.push(line),
            _ => self.pending.push(Pending::Append(line.stream, vec![line])),
        }
        Ok(())
    }

    /// Whether a record is left out, because one before it is lost.
    fn is_cut_off(&self, line: &RecordLine) -> bool {
        let state = self.plan.streams.get(&line.stream);
        state.is_some_and(|state| state.is_cut_off(line.sequence))
    }

    /// Whether a record stood right behind a position: what makes its stream may have come in between. A record that is lost
    /// may not.
    fn is_adjacent(&self, position: u64, line: &RecordLine) -> bool {
        let state = self.plan.streams.get(&line.stream);
        let shared = state.and_then(|state| state.parent).map_or(0, |(_, at)| at);
        match line.position.checked_sub(position) {
            Some(1) => true,
            Some(2) => line.sequence == shared + 1,
            _ => false,
        }
    }

    /// Whether a record is the beginning of a step that a redacted record before it isn't of: in the archive they don't follow
    /// each other, since what the step began with was truncated. If nothing came in between, a reader would take the redacted
    /// record for it.
    fn is_behind_a_gap(&mut self, line: &RecordLine) -> bool {
        if line.redacted {
            self.redacted = Some((line.stream, line.sequence, line.position));
            return false;
        }
        let Some((stream, sequence, position)) = &mut self.redacted else {
            return false;
        };
        let follows = line.position == *position + 1;
        if line.stream == *stream {
            *sequence = line.sequence;
            *position += u64::from(follows);
            return false;
        }
        let is_step = line.kind.0 == kinds::RUN_STEP_STARTED;
        // Anything else keeps them apart.
        self.redacted.take_if(|_| follows || !is_step);
        is_step && !follows
    }

    fn snapshot(&mut self, line: RecordLine) -> Result<()> {
        if self.is_cut_off(&line) {
            return Ok(());
        }
        let Some((group, there)) = self.state(line.stream) else {
            return Ok(());
        };
        let group = group.clone();
        if there.is_some_and(|there| line.sequence <= there) {
            let sequence = Sequence(line.sequence);
            let found = block_on(self.store.backend().latest_snapshot(line.stream, sequence))?;
            let found = found.filter(|snapshot| snapshot.sequence == sequence);
            // A snapshot of the same sequence is the archive's, or a later one of the store.
            let is_there = found.is_some_and(|it| {
                (it.meta == line.meta && it.payload == line.payload) || it.time_ms >= line.time_ms
            });
            if is_there || self.is_erased(line.stream, sequence)? {
                self.imported.skipped += 1;
                return Ok(());
            }
        }
        self.imported.other += 1;
        let time_ms = line.time_ms;
        self.push(group, Pending::Snapshot(line), time_ms)
    }

    /// Whether the store had a state of a stream at a sequence, or behind it, that was redacted.
    fn is_erased(&mut self, stream: StreamId, sequence: Sequence) -> Result<bool> {
        let erased = match self.erased.take() {
            Some(erased) => erased,
            None => erased_states(self.store)?,
        };
        let last = self.erased.insert(erased).get(&stream);
        Ok(last.is_some_and(|last| *last >= sequence))
    }

    fn push(&mut self, group: Group, pending: Pending, time_ms: u64) -> Result<()> {
        let bytes = if let Pending::Snapshot(line) = &pending {
            line.payload.len()
        } else {
            0
        };
        let time_ms = if time_ms == 0 { self.time_ms } else { time_ms };
        self.make_room(time_ms, bytes)?;
        self.changed.insert(group);
        (self.count, self.bytes, self.time_ms) = (self.count + 1, self.bytes + bytes, time_ms);
        self.pending.push(pending);
        Ok(())
    }

    /// Writes the pending records if a record of this time and size doesn't fit with them.
    fn make_room(&mut self, time_ms: u64, bytes: usize) -> Result<()> {
        if self.time_ms == 0 {
            // The pending operations have no time of their own.
            self.time_ms = time_ms;
        }
        let is_other_time = self.clock.is_some() && time_ms != self.time_ms;
        if !self.is_log_time_known
            || is_other_time
            || self.count >= BATCH_RECORDS
            || self.bytes.saturating_add(bytes) > BATCH_BYTES
        {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        (self.count, self.bytes) = (0, 0);
        if pending.is_empty() {
            return Ok(());
        }
        if let Some(clock) = self.clock {
            clock.stand_at(self.time_ms);
        }
        // The flush of the last batch makes the others durable too.
        let batch =
            Batch::new(pending.iter().flat_map(ops_of).collect()).with_durability(Durability::Os);
        let appended = block_on(self.store.backend().commit(batch))?;
        let redacted = redacted_of(&pending, &appended);
        if !redacted.is_empty() {
            let batch = Batch::new(Op::redactions(&redacted, REDACTED));
            block_on(self.store.backend().commit(batch))?;
        }
        let log = self.store.backend().maintenance();
        if !self.is_log_time_known
            && let Some(first) = if_supported(block_on(log.record(appended.last_position)))?
        {
            self.is_log_time_known = first.is_some();
            self.log_ms = first.map_or(u64::MAX, |first| first.time_ms);
        }
        Ok(())
    }

    /// Writes the lists, all at once.
    fn lists(&mut self) -> Result<()> {
        let left_out =
            |line: &&ListLine| line.is_there || self.plan.conflicts.contains_key(&line.group);
        let lines: Vec<&ListLine> = self
            .plan
            .lists
            .iter()
            .filter(|line| !left_out(line))
            .collect();
        let mut last: HashMap<List, u64> = HashMap::new();
        for list in List::ALL {
            let info = block_on(self.store.backend().stream(list.stream()))?;
            last.insert(list, info.map_or(0, |info| info.last_sequence.0));
        }
        let mut rest = lines.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take(LIST_RECORDS).take_while(|line| {
                bytes += line.record.payload.len();
                bytes <= LIST_BYTES
            });
            let (together, after) = rest.split_at(fitting.count().max(1));
            rest = after;
            if let Some(clock) = self.clock {
                clock.stand_at(
                    together
                        .iter()
                        .map(|line| line.record.time_ms)
                        .max()
                        .unwrap_or_default(),
                );
            }
            let mut ops = Vec::new();
            for list in List::ALL {
                let records: Vec<_> = together
                    .iter()
                    .filter(|line| line.list == list)
                    .map(|line| new_record(&line.record))
                    .collect();
                let Some(last) = last.get_mut(&list).filter(|_| !records.is_empty()) else {
                    continue;
                };
                let expected = Expected::Last(Sequence(*last));
                *last += records.len() as u64;
                ops.push(Op::Append {
                    stream: list.stream(),
                    expected,
                    records,
                });
            }
            block_on(
                self.store
                    .backend()
                    .commit(Batch::new(ops).with_durability(Durability::Sync)),
            )?;
        }
        self.imported.other += lines.len() as u64;
        let groups: Vec<Group> = lines.iter().map(|line| line.group.clone()).collect();
        self.changed.extend(groups);
        if lines.is_empty() {
            if_supported(block_on(self.store.backend().maintenance().flush()))?;
        }
        Ok(())
    }
}
