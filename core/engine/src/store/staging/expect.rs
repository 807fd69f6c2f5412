//! The expectations of a batch, checked against staged and published state.
//!
//! `Expected::At` names a position, which the directory doesn't keep: it is looked for among the staged records first, then
//! read from the log (see [`facts`](super::facts)), and kept in the stream's head from then on.

use super::{
    batch::{Result, Staging},
    facts::Stop,
    heads::LastPosition,
    refusals::{already_exists, conflict, conflict_at, deleted, not_found},
};
use crate::{Error, Expected, Kind, Sequence, StreamId, store::published::durable::Entry};

impl Staging<'_, '_> {
    pub(super) fn existing(&self, id: &StreamId) -> Result<u32> {
        let number = self
            .writer
            .number(self.durable, id)
            .ok_or_else(|| not_found(id))?;
        if self.head(number).deleted {
            Err(deleted(id).into())
        } else {
            Ok(number)
        }
    }

    /// Checks what the batch expects of a stream; returns the stream's last sequence.
    pub(super) fn expect(&mut self, id: &StreamId, number: u32, expected: Expected) -> Result<u32> {
        let last = self.head(number).last_sequence;
        match expected {
            Expected::Absent => Err(already_exists(id).into()),
            Expected::Last(sequence) if sequence.0 != u64::from(last) => {
                Err(conflict(id, sequence, &format!("has last sequence {last}")).into())
            }
            Expected::At(position) => match self.last_position(number)? {
                found if found == position.0 => Ok(last),
                0 => Err(conflict_at(id, position, "it has no record").into()),
                found => {
                    Err(conflict_at(id, position, &format!("found it at position {found}")).into())
                }
            },
            _ => Ok(last),
        }
    }

    /// The position of a stream's last record, staged ones included; 0 when it has none.
    fn last_position(&mut self, number: u32) -> Result<u64> {
        let head = self.head(number);
        let position = match head.last_position.get() {
            Ok(position) => return Ok(position),
            Err(since) => self.position_of(number, head.last_sequence, since)?,
        };
        // Kept even if the batch is refused: it holds for the state before, or is undone with the batch's other changes.
        self.writer
            .heads
            .get_mut(number, &self.durable.directory)
            .last_position = LastPosition::known(position);
        Ok(position)
    }

    /// The position of the record with a sequence of a stream that was changed last at position `since`.
    ///
    /// The newest record of a stream with a sequence is the one that has it now. So it is searched among the staged
    /// records first, then among the published ones, by the directory.
    fn position_of(&self, mut number: u32, sequence: u32, mut since: u64) -> Result<u64> {
        let entries = &self.open.entries;
        let start = self.writer.next_position - entries.records.len() as u64;
        let mut records = &entries.records[..];
        loop {
            let is_it = |entry: &Entry| {
                entry.control == 0 && (entry.stream, entry.sequence) == (number, sequence)
            };
            if let Some(place) = records.iter().rposition(is_it) {
                return Ok(start + place as u64);
            }
            if self.durable.directory.stream(number).is_some() {
                break;
            }
            // A staged fork has inherited the record: it is the one that the parent had when the fork was made.
            let fork = |entry: &Entry| {
                let control = entries
                    .controls
                    .get((entry.control as usize).checked_sub(1)?)?;
                (control.kind == Kind::FORK && control.stream == number).then_some(control.other)
            };
            let found = records
                .iter()
                .enumerate()
                .find_map(|(place, entry)| Some((place, fork(entry)?)));
            let Some((place, parent)) = found else {
                return Err(Stop::Publish);
            };
            (number, since) = (parent, u64::MAX);
            records = &records[..place];
        }
        if since >= self.durable.next_position && self.writer.phase.in_progress().is_some() {
            // The record may be among those that are being written.
            return Err(Stop::Publish);
        }
        let (source, ordinal) = self
            .durable
            .directory
            .resolve(number, sequence)
            .ok_or_else(|| {
                let message = format!(
                    "stream number {number} has no record {sequence}, which it should have"
                );
                Error::damaged(message)
            })?;
        self.facts.position(source, ordinal)
    }

    pub(super) fn up_to(
        &self,
        id: &StreamId,
        sequence: Sequence,
        last: u32,
        what: &str,
    ) -> Result<u32> {
        u32::try_from(sequence.0)
            .ok()
            .filter(|sequence| *sequence <= last)
            .ok_or_else(|| {
                let message = format!(
                    "stream {id}: can't {what} sequence {sequence}: its last sequence is {last}"
                );
                Error::invalid(message).into()
            })
    }
}
