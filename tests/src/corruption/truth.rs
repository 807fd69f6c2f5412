//! [`Truth`]: what the files of a damaged store still tell, by the bytes that are as they were.

use std::collections::{BTreeMap, BTreeSet};

use super::victims::RandomStore;
use crate::{
    checker::{self, Checked, Files, LogRecord},
    forge::{self, HEADER_BYTES, HEADER_COPIES, RECORDS_BEGIN, TRAILER_BYTES},
    model::{Model, ModelStream},
};

const FORK: u8 = 131;
const CREATIONS: [u8; 2] = [128, FORK];

/// What is left of a store.
pub struct Truth<'a> {
    /// What the store held.
    pub model: &'a Model,
    was: &'a Files,
    is: &'a Files,
    checked: Checked,
    /// The positions of the records that must be there after a repair.
    pub readable: BTreeSet<u64>,
    /// Those whose meaning nothing tells any more.
    unknown: BTreeSet<u64>,
}

impl<'a> Truth<'a> {
    /// What `files`, damaged, tell of a store.
    pub fn of(store: &'a RandomStore, files: &'a Files) -> Self {
        let checked = checker::check_files(&store.files, None).expect("a sound store");
        let (readable, unknown) = (BTreeSet::new(), BTreeSet::new());
        let mut truth = Self {
            model: &store.model,
            was: &store.files,
            is: files,
            checked,
            readable,
            unknown,
        };
        let torn = truth.torn();
        let is_torn = |record: &LogRecord| {
            torn.is_some_and(|(segment, end)| record.segment == segment && record.offset >= end)
        };
        let (mut readable, mut unknown) = (BTreeSet::new(), BTreeSet::new());
        for record in &truth.checked.records {
            let is_there = truth.is_whole(record) && truth.is_identified(record.segment);
            if is_there && !is_torn(record) {
                readable.insert(record.position);
            } else if !truth.is_named(record) {
                unknown.insert(record.position);
            }
        }
        (truth.readable, truth.unknown) = (readable, unknown);
        truth
    }

    /// Whether a range of a file is as it was.
    fn is_same(&self, name: &str, from: u64, to: u64) -> bool {
        let range = place(from)..place(to);
        let part = |files: &'a Files| files.get(name).and_then(|bytes| bytes.get(range.clone()));
        part(self.is).is_some() && part(self.is) == part(self.was)
    }

    /// Whether a whole file is as it was.
    pub fn has_file(&self, name: &str) -> bool {
        self.is
            .get(name)
            .is_some_and(|bytes| Some(bytes) == self.was.get(name))
    }

    fn is_whole(&self, record: &LogRecord) -> bool {
        self.is_same(
            &name_of(record.segment),
            record.offset,
            record.offset + record.bytes,
        )
    }

    /// Whether the trailer of a segment is as it was, at the end of a file as long as it was.
    fn has_trailer(&self, segment: u32) -> bool {
        let name = name_of(segment);
        let length = self.was[&name].len() as u64;
        let is_sealed = self
            .checked
            .segments
            .iter()
            .any(|facts| facts.id == segment && facts.sealed);
        let is_as_long = self
            .is
            .get(&name)
            .is_some_and(|bytes| bytes.len() as u64 == length);
        is_sealed
            && is_as_long
            && !self.is_taken_for_another(segment)
            && self.is_same(&name, length - TRAILER_BYTES as u64, length)
    }

    /// Whether the index block of a segment is as it was.
    fn has_index(&self, segment: u32) -> bool {
        let facts = &self.checked.segments[segment as usize - 1];
        let name = name_of(segment);
        self.has_trailer(segment)
            && self.is_same(&name, facts.data_end, self.was[&name].len() as u64)
    }

    /// Whether a segment's file has another's header: one that has both may be either.
    fn is_taken_for_another(&self, segment: u32) -> bool {
        let name = name_of(segment);
        let own = &self.was[&name][..HEADER_BYTES];
        self.is
            .get(&name)
            .is_some_and(|bytes| headers(bytes).iter().any(|copy| *copy != own))
    }

    /// Whether a copy of a segment's header is as it was.
    fn has_header(&self, segment: u32) -> bool {
        let name = name_of(segment);
        if self.is_taken_for_another(segment) {
            return false;
        }
        let copy = HEADER_BYTES as u64;
        let at_start = HEADER_COPIES
            .iter()
            .any(|at| self.is_same(&name, *at as u64, *at as u64 + copy));
        let end = self.was[&name].len() as u64 - TRAILER_BYTES as u64;
        at_start || self.has_trailer(segment) && self.is_same(&name, end - copy, end)
    }

    /// Whether it can be told that the records of a file are this segment's: by a header, by two whole records that follow
    /// each other, or by the mark that begins it. One record alone tells no seed that another confirms.
    fn is_identified(&self, segment: u32) -> bool {
        if self.has_header(segment) {
            return true;
        }
        // Another header makes it another segment.
        if self
            .is
            .get(&name_of(segment))
            .is_none_or(|bytes| !headers(bytes).is_empty())
        {
            return false;
        }
        let all = self.all_of(segment);
        let is_first_whole = all
            .first()
            .is_some_and(|first| self.is_whole(first) && first.mark_epoch().is_some());
        is_first_whole
            || all
                .windows(2)
                .any(|pair| pair.iter().all(|record| self.is_whole(record)))
    }

    /// The records of a segment with its marks, by offset.
    fn all_of(&self, segment: u32) -> Vec<&LogRecord> {
        let all = self.checked.records.iter().chain(&self.checked.marks);
        let mut all: Vec<_> = all.filter(|record| record.segment == segment).collect();
        all.sort_by_key(|record| record.offset);
        all
    }

    /// Where a log of which nothing tells that it went on ends: in its last segment, at the first damage, behind the last
    /// whole batch. What is behind looks like a write that a crash cut off, and was never acknowledged as far as can be told.
    fn torn(&self) -> Option<(u32, u64)> {
        let ids = self.checked.segments.iter().map(|facts| facts.id).rev();
        let last = ids
            .into_iter()
            .find(|id| self.is.contains_key(&name_of(*id)) && self.is_identified(*id))?;
        if self.has_trailer(last) {
            return None;
        }
        let all = self.all_of(last);
        let prefix: Vec<_> = all
            .iter()
            .take_while(|record| self.is_whole(record))
            .collect();
        let whole_end = prefix.iter().rev().find(|record| record.is_batch_last());
        let whole_end =
            whole_end.map_or(RECORDS_BEGIN as u64, |record| record.offset + record.bytes);
        let is_proof = |record: &&&LogRecord| self.is_whole(record) && record.watermark > whole_end;
        let is_proven =
            all.iter().any(|record| is_proof(&record)) || self.reached() > Some((last, whole_end));
        (!is_proven).then_some((last, whole_end))
    }

    /// How far the log had come, as END, CHECKPOINT and WATERMARK say where they are as they were.
    fn reached(&self) -> Option<(u32, u64)> {
        let end = self
            .checked
            .end
            .as_ref()
            .filter(|_| self.has_file("END"))
            .map(|end| (end.segment, end.offset));
        let saved = self
            .checked
            .checkpoint
            .as_ref()
            .filter(|_| self.has_file("CHECKPOINT"));
        let saved = saved.map(|saved| (saved.segment, saved.offset));
        let last = self.checked.records.last().expect("records");
        let shown = self
            .has_file("WATERMARK")
            .then_some((last.segment, last.offset + last.bytes));
        end.max(saved).max(shown)
    }

    /// Whether an index block or the checkpoint names a record.
    fn is_named(&self, record: &LogRecord) -> bool {
        self.has_index(record.segment) || self.is_saved(record)
    }

    fn is_saved(&self, record: &LogRecord) -> bool {
        let saved = self
            .checked
            .checkpoint
            .as_ref()
            .filter(|_| self.has_file("CHECKPOINT"));
        saved.is_some_and(|saved| record.position < saved.next_position)
    }

    /// Whether the checkpoint is as it was, and says all that the log does.
    pub fn is_all_saved(&self) -> bool {
        self.checked
            .records
            .last()
            .is_some_and(|last| self.is_saved(last))
    }

    /// Whether several segments are hit, in records or index blocks, and of lost records no index block tells what they
    /// were: they are placed by what comes behind them then, and nothing counts what is between. The placing may be wrong.
    pub fn is_placing_unsure(&self) -> bool {
        let is_lost = |record: &&LogRecord| !self.readable.contains(&record.position);
        let lost: Vec<_> = self.checked.records.iter().filter(is_lost).collect();
        let is_hit = |segment: u32, sealed: bool| {
            sealed && !self.has_index(segment)
                || lost.iter().any(|record| record.segment == segment)
        };
        let hit = self
            .checked
            .segments
            .iter()
            .filter(|facts| is_hit(facts.id, facts.sealed))
            .count();
        hit > 1 && lost.iter().any(|record| !self.has_index(record.segment))
    }

    /// Whether a segment has lost every copy of its header, and the one before it what tells its last position: then nothing
    /// tells what positions its records had.
    fn has_unplaced(&self) -> bool {
        let is_unplaced = |id: u32| {
            !self.has_header(id) && self.is_identified(id) && id > 1 && !self.has_trailer(id - 1)
        };
        self.checked
            .segments
            .iter()
            .any(|facts| is_unplaced(facts.id))
    }

    /// The highest position that anything tells of.
    pub fn told_position(&self) -> u64 {
        let readable = self.readable.last().copied().unwrap_or(0);
        let segments = self.checked.segments.iter().map(|facts| {
            let by_trailer = if self.has_trailer(facts.id) {
                facts.next_position - 1
            } else {
                0
            };
            let by_header = if self.has_header(facts.id) {
                facts.base_position - 1
            } else {
                0
            };
            by_trailer.max(by_header)
        });
        let end = self
            .checked
            .end
            .as_ref()
            .filter(|_| self.has_file("END"))
            .map_or(0, |end| end.next_position - 1);
        let saved = self
            .checked
            .checkpoint
            .as_ref()
            .filter(|_| self.has_file("CHECKPOINT"));
        let saved = saved.map_or(0, |saved| saved.next_position - 1);
        let shown = if self.has_file("WATERMARK") {
            self.model.last_position()
        } else {
            0
        };
        segments
            .max()
            .unwrap_or(0)
            .max(readable)
            .max(end)
            .max(saved)
            .max(shown)
    }

    /// Whether it can be told which store this is, by RUNLOG, or by headers, where no others are as many; and which of its
    /// segments each file is.
    pub fn is_identity_told(&self) -> bool {
        let own = self
            .checked
            .segments
            .iter()
            .filter(|facts| self.has_header(facts.id))
            .count();
        let store =
            |bytes: &'a Vec<u8>| bytes.get(16..32).filter(|_| bytes.starts_with(b"RUNLOGSG"));
        let foreign = self
            .is
            .values()
            .filter_map(store)
            .filter(|store| *store != self.checked.store)
            .count();
        let is_this_store = self.has_file("RUNLOG") && foreign <= own || own > foreign;
        is_this_store && !self.has_nameless() && !self.has_unplaced()
    }

    /// Whether records of a segment, or of another store, lie in the file of another, without a header that says so.
    fn has_nameless(&self) -> bool {
        let is_there = |bytes: &Vec<u8>, record: &LogRecord| {
            let range = place(record.offset)..place(record.offset + record.bytes);
            bytes
                .get(range.clone())
                .is_some_and(|part| part == &self.was[&name_of(record.segment)][range])
        };
        let is_nameless = |(name, bytes): (&String, &Vec<u8>)| {
            let has_own = self
                .checked
                .segments
                .iter()
                .any(|facts| name_of(facts.id) == *name && self.is_identified(facts.id));
            let has_other =
                |record: &LogRecord| name_of(record.segment) != *name && is_there(bytes, record);
            let has_other = || {
                self.checked.records.iter().any(has_other)
                    || !has_own && bytes.len() > RECORDS_BEGIN
            };
            name.ends_with(".seg") && headers(bytes).is_empty() && has_other()
        };
        self.is.iter().any(is_nameless)
    }

    /// The records of a kind that speak of a stream and whose meaning nothing tells any more.
    fn lost(&self, kinds: &[u8], stream: u32) -> bool {
        let lost = self
            .unknown
            .iter()
            .map(|position| &self.checked.records[place(*position) - 1]);
        lost.into_iter()
            .any(|record| kinds.contains(&record.kind) && record.stream == stream)
    }

    /// The number of a stream.
    fn number(&self, stream: &ModelStream) -> u32 {
        let place = self
            .model
            .streams
            .iter()
            .position(|other| other.id == stream.id)
            .expect("a stream of the model");
        u32::try_from(place + 1).expect("few")
    }

    /// A stream with all it was forked from, itself first.
    fn line(&self, stream: &ModelStream) -> Vec<u32> {
        let parents: BTreeMap<u32, u32> = self
            .checked
            .records
            .iter()
            .filter(|record| record.kind == FORK)
            .filter_map(|record| {
                Some((
                    record.stream,
                    u32::from_le_bytes(*record.payload.last_chunk()?),
                ))
            })
            .collect();
        std::iter::successors(Some(self.number(stream)), |number| {
            parents.get(number).copied()
        })
        .collect()
    }

    /// Whether nothing tells any more how a stream was made.
    pub fn is_creation_lost(&self, stream: &ModelStream) -> bool {
        self.lost(&CREATIONS, self.number(stream))
    }

    /// Whether nothing tells any more how a stream, or one that it was forked from, was made.
    pub fn is_fork_lost(&self, stream: &ModelStream) -> bool {
        self.line(stream)
            .into_iter()
            .any(|number| self.lost(&CREATIONS, number))
    }

    /// Whether nothing tells any more that a stream, or one that it was forked from, was truncated.
    pub fn is_truncation_lost(&self, stream: &ModelStream) -> bool {
        self.line(stream)
            .into_iter()
            .any(|number| self.lost(&[130], number))
    }

    /// Whether nothing tells any more that a stream was deleted.
    pub fn is_deletion_lost(&self, stream: &ModelStream) -> bool {
        self.lost(&[132], self.number(stream))
    }

    /// Whether every redaction of a position is lost.
    pub fn is_redaction_lost(&self, position: u64) -> bool {
        let of = |record: &&LogRecord| record.targets().contains(&position);
        self.checked
            .records
            .iter()
            .filter(of)
            .all(|record| self.unknown.contains(&record.position))
    }

    /// The records that salvage must find: where they lie, and their positions.
    pub fn salvageable(&self) -> BTreeMap<(u32, u64), u64> {
        let whole = self.checked.records.iter();
        let whole =
            whole.filter(|record| self.is_whole(record) && self.is_identified(record.segment));
        whole
            .map(|record| ((record.segment, record.offset), record.position))
            .collect()
    }
}

/// The copies of a segment's header in a file that check, whatever segment they are of.
fn headers(bytes: &[u8]) -> Vec<&[u8]> {
    let footer = bytes.len().checked_sub(TRAILER_BYTES + HEADER_BYTES);
    let copies = HEADER_COPIES
        .into_iter()
        .chain(footer)
        .filter_map(|at| bytes.get(at..at + HEADER_BYTES));
    copies
        .filter(|copy| copy.starts_with(b"RUNLOGSG") && forge::is_right(copy))
        .collect()
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("small")
}

fn name_of(segment: u32) -> String {
    format!("{segment:08}.seg")
}
