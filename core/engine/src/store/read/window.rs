//! The window of a [`Reader`]: its next records are looked up together, before they are read.

use std::sync::Arc;

use super::{Reader, located::Located};
use crate::{
    Result, SegmentId,
    log::{scan::is_damage, segment::Segment},
    store::published::durable::{Durable, Run, missing},
};

/// How many records are looked up at a time.
const WINDOW_RECORDS: usize = 1024;
/// The next ones are looked up once this few are left, so that the device fetches them while these are read.
const WINDOW_RECORDS_LEFT: usize = 256;

impl Reader {
    /// How many more records are to be looked up now. Where a filter drops records, as many as are wanted are looked up at
    /// first, and twice as many each time these may not be enough, while it drops what is met: kinds mostly come in rows, and
    /// behind a row of others those that are wanted follow each other.
    pub(super) fn wanted(&self) -> usize {
        let known = self.window.len();
        if self.upcoming.is_done() || known > WINDOW_RECORDS_LEFT {
            return 0;
        }
        let remaining = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let missing = if self.kinds.is_empty() {
            remaining.saturating_sub(known)
        } else if known > self.looked_up / 4 || known >= remaining {
            0
        } else if self.passed {
            remaining.max(self.looked_up * 2)
        } else {
            remaining - known
        };
        missing.min(WINDOW_RECORDS)
    }

    /// Looks up the next records: first, under the directory's lock, in which segments they are, then, without it, at
    /// which offsets, for which index blocks may have to be read.
    pub(super) fn fill_window(&mut self, wanted: usize) {
        let known = self.window.len();
        self.looked_up = wanted;
        self.runs.keep_those_of(self.window.iter().flatten());
        let shared = self.shared.clone();
        let durable = shared.durable();
        self.know_redacted(&durable);
        let mut found = Vec::with_capacity(wanted);
        let mut met: Vec<(u64, Arc<Run>)> = Vec::new();
        while found.len() < wanted {
            let Some((sequence, source, ordinal)) = self.upcoming.next(self.direction) else {
                break;
            };
            if !met.last().is_some_and(|(_, run)| run.has(source, ordinal)) {
                match durable.run(source, ordinal).map(Arc::new) {
                    Ok(run) => met.push((self.runs.add(run.clone()), run)),
                    Err(error) => {
                        found.push((sequence, ordinal, Err(error)));
                        continue;
                    }
                }
            }
            if let Some((number, run)) = met.last() {
                let known = durable.known_offset(run, ordinal);
                found.push((sequence, ordinal, known.map(|known| (*number, known))));
            }
        }
        drop(durable);
        ask_for_blocks(&met);
        for (sequence, ordinal, known) in found {
            let located =
                known.and_then(|(run, known)| self.locate_or_again(run, ordinal, known, sequence));
            self.window.extend(located.transpose());
        }
        self.read_ahead(known);
    }

    /// The record of a run, or of the one that it is in since a compaction moved it.
    fn locate_or_again(
        &mut self,
        run: u64,
        ordinal: u32,
        known: Option<u64>,
        sequence: u32,
    ) -> Result<Option<Located>> {
        match self.locate(run, ordinal, known, sequence) {
            Err(error) if Segment::is_gone(&error) => {
                let source = self.run(run)?.source;
                // Another record may have led to the pack already: the first try is with the segments as they are known now.
                let shared = self.shared.clone();
                shared.past_packs(|| self.locate_now(source, ordinal, sequence))
            }
            located => located,
        }
    }

    /// A record where it is by now.
    pub(super) fn locate_now(
        &mut self,
        source: u32,
        ordinal: u32,
        sequence: u32,
    ) -> Result<Option<Located>> {
        let shared = self.shared.clone();
        let durable = shared.durable();
        self.know_redacted(&durable);
        let run = durable.run(source, ordinal)?;
        let known = durable.known_offset(&run, ordinal)?;
        drop(durable);
        let run = self.runs.add(Arc::new(run));
        self.locate(run, ordinal, known, sequence)
    }

    pub(super) fn run(&self, number: u64) -> Result<&Arc<Run>> {
        self.runs.get(number).ok_or_else(|| missing(SegmentId(0)))
    }

    /// Refreshes the set of redacted positions. A pack doesn't contain payloads redacted before it was made, so a
    /// reader in another process, which finds a record in a pack, has to know its redaction too.
    pub(super) fn know_redacted(&mut self, durable: &Durable) {
        let now = durable.directory.redacted();
        if !Arc::ptr_eq(&self.redacted, now) {
            self.redacted = now.clone();
        }
    }

    /// The record of a run; `None` if it is in a segment whose damage was reported already.
    fn locate(
        &mut self,
        number: u64,
        ordinal: u32,
        known: Option<u64>,
        sequence: u32,
    ) -> Result<Option<Located>> {
        let run = self.runs.get(number).ok_or_else(|| missing(SegmentId(0)))?;
        if self.lost == Some(run.segment.id()) {
            return Ok(None);
        }
        let offset = run
            .offset(ordinal, known, &mut self.postings)
            .inspect_err(|error| {
                if is_damage(error) && run.segment.block().is_err() {
                    self.lost = Some(run.segment.id());
                }
            })?;
        Ok(Some(Located {
            run: number,
            offset,
            ordinal,
            sequence,
        }))
    }

    /// Prefetches the window's records from one on together: if they aren't cached, each would otherwise wait for the
    /// device.
    fn read_ahead(&self, from: usize) {
        let window: Vec<&Located> = self.window.iter().skip(from).flatten().collect();
        for here in window.chunk_by(|one, other| self.runs.are_together(one, other)) {
            let Some(run) = self.runs.get(here[0].run) else {
                continue;
            };
            if let Some(image) = run.segment.image() {
                image.will_need(here.iter().map(|located| located.offset));
            }
            // A single record is read next anyway, so prefetching saves nothing.
            if here.len() > 1
                && let Some(map) = run.segment.map()
            {
                map.will_need(
                    &here
                        .iter()
                        .map(|located| located.offset)
                        .collect::<Vec<_>>(),
                );
            }
        }
    }
}

/// Prefetches the index blocks of several segments that aren't cached: loaded one after the other, each would wait for
/// the device.
fn ask_for_blocks(runs: &[(u64, Arc<Run>)]) {
    for segment in runs.chunk_by(|(_, one), (_, other)| Arc::ptr_eq(&one.segment, &other.segment)) {
        segment[0].1.segment.will_need_block();
    }
}
