//! [`Reading`]: reads the records of a store for an archive, and passes over those that can't be read where that is asked for.

use pollster::block_on;
use runlog_log::{Record, Sequence, Snapshot, StreamId};
use runlog_model::SessionId;

use super::{lines::LostLine, lists::record_at, owners::Planned};
use crate::{Error, ErrorKind, Result, blocking::Store};

/// Records of a stream that couldn't be read, or a state saved in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostRecords {
    /// The stream.
    pub stream: StreamId,
    /// What it holds, as its line in the archive says.
    pub of: &'static str,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The first sequence; of saved states the first at which one may be.
    pub first: u64,
    /// The last sequence.
    pub last: u64,
    /// Whether it is states saved at these sequences, and not the records.
    pub is_snapshot: bool,
}

impl LostRecords {
    pub(super) fn of(planned: &Planned, line: &LostLine) -> Self {
        Self {
            stream: planned.id,
            of: planned.of,
            session: planned.session,
            first: line.first,
            last: line.last,
            is_snapshot: line.is_snapshot,
        }
    }
}

/// The snapshots of a stream, the latest first, and the ranges of sequences with snapshots that can't be read.
pub(super) type Snapshots = (Vec<Snapshot>, Vec<(u64, u64)>);

/// A record, and the sequences before it that can't be read.
type Found = (Option<Record>, Option<(u64, u64)>);

/// How the records of a store are read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) store: &'a Store,
    /// Whether records that can't be read are passed over; else they are errors.
    pub(super) passes_over: bool,
}

impl Reading<'_> {
    fn is_passed_over(&self, error: &Error) -> bool {
        self.passes_over && error.kind() == ErrorKind::Damaged
    }

    /// The first record from a sequence on, and the sequences before it that can't be read.
    pub(super) fn from(&self, stream: StreamId, first: u64, last: u64) -> Result<Found> {
        let mut sequence = first;
        loop {
            match record_at(self.store, stream, sequence) {
                Err(error) if self.is_passed_over(&error) && sequence <= last => sequence += 1,
                found => {
                    let lost = (sequence > first).then(|| (first, sequence - 1));
                    return found.map(|found| (found, lost));
                }
            }
        }
    }

    /// Every snapshot of a stream.
    pub(super) fn snapshots(&self, stream: StreamId, last: u64) -> Result<Snapshots> {
        let (mut found, mut lost) = (Vec::new(), Vec::<(u64, u64)>::new());
        let mut at = Sequence::MAX;
        loop {
            let next = match block_on(self.store.backend().latest_snapshot(stream, at)) {
                Ok(None) => return Ok((found, lost)),
                Ok(Some(snapshot)) => {
                    let sequence = snapshot.sequence.0;
                    found.push(snapshot);
                    sequence
                }
                Err(error) if self.is_passed_over(&error) => {
                    // Which one it is isn't known; the next one that can be read is further down.
                    let sequence = at.0.min(last);
                    match lost.last_mut().filter(|(first, _)| *first == sequence + 1) {
                        Some((first, _)) => *first = sequence,
                        None => lost.push((sequence, sequence)),
                    }
                    sequence
                }
                Err(error) => return Err(error),
            };
            let Some(before) = next.checked_sub(1) else {
                return Ok((found, lost));
            };
            at = Sequence(before);
        }
    }

    /// The last sequence at which a stream's records belong to another stream, by binary search: these are its first ones.
    pub(super) fn inherited(&self, stream: &Planned) -> Result<u64> {
        self.halve(stream, stream.last, |record| Ok(record.stream != stream.id))
    }

    /// The stream of the archive that this one shares its first records with, and how many.
    pub(super) fn shared(
        &self,
        stream: &Planned,
        is_chosen: impl Fn(StreamId) -> bool,
    ) -> Result<Option<(StreamId, u64)>> {
        let Some(last) = record_at(self.store, stream.id, stream.inherited)? else {
            return Ok(None);
        };
        let parent = last.stream;
        if !is_chosen(parent) {
            return Ok(None);
        }
        // Shared records come first: once the positions of the two streams differ, they differ from there on.
        let at = self.halve(stream, stream.inherited, |own| {
            let other = match record_at(self.store, parent, own.sequence.0) {
                Err(error) if self.is_passed_over(&error) => None,
                other => other?,
            };
            Ok(other.is_some_and(|other| own.position == other.position))
        })?;
        // The parent's line must come first, which is so if the last shared record is its own.
        let is_parents = at > 0
            && record_at(self.store, parent, at)?.is_some_and(|record| record.stream == parent);
        Ok(is_parents.then_some((parent, at)))
    }

    /// The last sequence up to which a condition holds of a stream's records, by binary search; 0 for none. Of one that can't be
    /// read it holds if it holds of the next one that can be.
    fn halve(
        &self,
        stream: &Planned,
        last: u64,
        mut holds: impl FnMut(&Record) -> Result<bool>,
    ) -> Result<u64> {
        let (mut good, mut bad) = (0, last + 1);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            let (found, _) = self.from(stream.id, middle, last)?;
            match found.filter(|found| found.sequence.0 < bad) {
                Some(found) if holds(&found)? => good = found.sequence.0,
                _ => bad = middle,
            }
        }
        Ok(good)
    }
}
