//! Compares derived data with the records: index blocks, trailers, directories, checkpoints.

use std::collections::{HashMap, HashSet};

use super::{draft::Draft, guide, pack::packed, stand::Seen};
use crate::{
    SegmentId,
    format::{
        index::{Block, KeyRow, Parts, SampleRow, StreamRow, Trailer},
        units_to_offset,
    },
    index::{
        checkpoint::Checkpoint,
        directory::Directory,
        lineage::Lineage,
        stream::{Forked, Location, Run, SnapshotRef, Stream},
    },
    log::segment::Segment,
    store::published::durable::Durable,
};

/// Why an index block is not what the records below an offset give; `None` when it is.
pub(super) fn below(draft: &Draft, block: &Block, offset: u64) -> Option<String> {
    let ours = draft.parts(|_| [0; 16]);
    for row in &ours.stream_rows {
        let start = row.postings_start as usize;
        let units = &ours.postings[start..start + row.count as usize];
        let theirs = block
            .find_stream(row.stream)
            .filter(|theirs| theirs.first_ordinal == row.first_ordinal);
        let agrees = theirs.is_some_and(|theirs| {
            (row.first_ordinal..).zip(units).all(|(ordinal, units)| {
                block.posting(&theirs, ordinal) == Some(units_to_offset(*units))
            })
        });
        if !agrees {
            return Some(format!(
                "the records of stream number {} are not where it names them",
                row.stream
            ));
        }
    }
    let controls = block.controls().take(ours.controls.len());
    if !controls.eq(ours.controls.iter().copied()) {
        return Some("the steps are not as it names them".to_owned());
    }
    let named = guide::count_below(block, offset);
    let found = ours.postings.len() + ours.controls.len();
    (named != found)
        .then(|| format!("it names {named} records below offset {offset}, where {found} are"))
}

/// How an index block differs from what the records give, a line for each kind of difference. Where records are lost, it may
/// have samples and keys that can't be checked, and labels unless a repair made it, which leaves those of lost records out.
pub(super) fn blocks(
    theirs: &Parts,
    ours: &Parts,
    has_holes: bool,
    is_repaired: bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let without_places = |row: &StreamRow| StreamRow {
        postings_start: 0,
        ..*row
    };
    let rows = |parts: &Parts| {
        parts
            .stream_rows
            .iter()
            .map(without_places)
            .collect::<Vec<_>>()
    };
    differ(&mut wrong, "stream row", &rows(theirs), &rows(ours));
    differ(&mut wrong, "posting", &theirs.postings, &ours.postings);
    differ(&mut wrong, "step", &theirs.controls, &ours.controls);
    if has_holes && !is_repaired {
        let named: HashSet<_> = theirs.label_places().collect();
        if ours.label_places().any(|pair| !named.contains(&pair)) {
            wrong.push("a label is missing".to_owned());
        }
    } else {
        differ(
            &mut wrong,
            "label row",
            &theirs.label_rows,
            &ours.label_rows,
        );
        differ(
            &mut wrong,
            "label posting",
            &theirs.label_postings,
            &ours.label_postings,
        );
    }
    if has_holes {
        let place = |sample: &SampleRow| (sample.index, sample.offset);
        let samples: HashSet<_> = theirs.samples.iter().map(place).collect();
        if ours
            .samples
            .iter()
            .any(|sample| !samples.contains(&place(sample)))
            || !theirs.samples.is_sorted()
        {
            wrong.push("a sample names another place than its record's".to_owned());
        }
        let named = |key: &KeyRow| (key.stream, key.hash);
        let keys: HashSet<_> = theirs.keys.iter().map(named).collect();
        if ours.keys.iter().any(|key| !keys.contains(&named(key))) || !theirs.keys.is_sorted() {
            wrong.push("a key is missing, or not in order".to_owned());
        }
    } else {
        differ(&mut wrong, "sample", &theirs.samples, &ours.samples);
        differ(&mut wrong, "key", &theirs.keys, &ours.keys);
    }
    wrong
}

fn differ<T: PartialEq + std::fmt::Debug>(
    wrong: &mut Vec<String>,
    what: &str,
    theirs: &[T],
    ours: &[T],
) {
    if theirs == ours {
        return;
    }
    let place = theirs
        .iter()
        .zip(ours)
        .take_while(|(theirs, ours)| theirs == ours)
        .count();
    wrong.push(match (theirs.get(place), ours.get(place)) {
        (Some(theirs), Some(ours)) => {
            format!("{what} {place}: expected {ours:?}, found {theirs:?}")
        }
        _ => format!("expected {} of: {what}; found {}", ours.len(), theirs.len()),
    });
}

/// How a trailer differs from what the records give. The counts and the CRC are checked with the block.
pub(super) fn trailers(theirs: &Trailer, ours: &Trailer, has_holes: bool) -> Vec<String> {
    // A repair may have kept positions and streams from being given out again.
    let is_kept = |theirs: u64, ours: u64, is_repaired: bool| is_repaired && theirs >= ours;
    let (streams, our_streams) = (theirs.next_stream.into(), ours.next_stream.into());
    let (position, our_position) = (theirs.next_position, ours.next_position);
    let is_repaired = theirs.repaired;
    let facts = [
        (
            "next position",
            position,
            our_position,
            is_kept(position, our_position, is_repaired),
        ),
        (
            "number of records",
            theirs.records.into(),
            ours.records.into(),
            has_holes,
        ),
        (
            "time of the first record",
            theirs.time_min_ms,
            ours.time_min_ms,
            has_holes,
        ),
        (
            "time of the last record",
            theirs.time_max_ms,
            ours.time_max_ms,
            has_holes,
        ),
        (
            "next stream",
            streams,
            our_streams,
            is_kept(streams, our_streams, is_repaired),
        ),
        ("data end", theirs.data_end, ours.data_end, false),
    ];
    let wrong = facts
        .into_iter()
        .filter(|(_, theirs, ours, is_allowed)| theirs != ours && !is_allowed);
    wrong
        .map(|(what, theirs, ours, _)| format!("trailer: {what} is {theirs}, expected {ours}"))
        .collect()
}

/// How a checkpoint differs from the log at its place.
pub(super) fn checkpoint(
    theirs: &Checkpoint,
    segment: &Segment,
    ours: &Durable,
    draft: &Draft,
    seen: &Seen,
    packs: &[(SegmentId, SegmentId)],
) -> Option<String> {
    let end = &theirs.end;
    let times = draft.times_ms(&segment.header);
    let has_records = draft.records() > 0;
    let facts = [
        ("salt", u64::from(end.salt), u64::from(segment.header.salt)),
        (
            "number of records",
            end.records.into(),
            draft.records().into(),
        ),
        ("next position", end.next_position, seen.next_position),
        (
            "time of the last record",
            end.time_last_ms,
            ours.last_time_ms,
        ),
    ];
    for (what, theirs, ours) in facts {
        if theirs != ours {
            return Some(format!("its {what} is {theirs}, expected {ours}"));
        }
    }
    // The first record may be what is lost.
    if has_records && !seen.is_behind_loss && end.time_first_ms != times.0 {
        return Some(format!(
            "its time of the first record is {}, expected {}",
            end.time_first_ms, times.0
        ));
    }
    if end.epoch < seen.epoch {
        return Some(format!(
            "its epoch is {}, but the log has {}",
            end.epoch, seen.epoch
        ));
    }
    if let Some(what) = directories(&theirs.directory, &ours.directory, packs) {
        return Some(what);
    }
    let Some(block) = theirs.active_block(&segment.header) else {
        return Some("its index of the last segment does not check".to_owned());
    };
    let id_of = |number| ours.directory.streams().id_bytes(number);
    let has_holes = seen.is_behind_loss;
    blocks(&block.parts(), &draft.parts(id_of), has_holes, false)
        .into_iter()
        .next()
}

/// How a directory differs from ours: the first difference. One that is older than a pack names the segments it stands for,
/// and snapshots that it left out.
pub(super) fn directories(
    theirs: &Directory,
    ours: &Directory,
    packs: &[(SegmentId, SegmentId)],
) -> Option<String> {
    if theirs.streams().len() != ours.streams().len() {
        return Some(format!(
            "it has {} streams, expected {}",
            theirs.streams().len(),
            ours.streams().len()
        ));
    }
    let mut lists = Lists::default();
    for (number, (theirs, ours)) in
        (1_u32..).zip(theirs.streams().iter().zip(ours.streams().iter()))
    {
        if let Some(what) = streams(theirs, ours, &mut lists, packs) {
            return Some(format!("stream number {number} ({}): {what}", ours.id));
        }
    }
    let redacted = |directory: &Directory| directory.redacted().to_words();
    (redacted(theirs) != redacted(ours)).then(|| "other positions are redacted".to_owned())
}

fn streams(
    theirs: &Stream,
    ours: &Stream,
    lists: &mut Lists,
    packs: &[(SegmentId, SegmentId)],
) -> Option<String> {
    let tail = |stream: &Stream| (stream.tail_first_sequence, stream.tail_first_ordinal);
    let facts = [
        ("its id", theirs.id == ours.id),
        ("whether it was deleted", theirs.deleted == ours.deleted),
        (
            "the number of its records",
            theirs.ordinals == ours.ordinals,
        ),
        ("where its newest records begin", tail(theirs) == tail(ours)),
        (
            "which records its sequences are",
            lists.of(theirs) == lists.of(ours),
        ),
        (
            "in which segments its records are",
            packed_runs(theirs, packs) == packed_runs(ours, packs),
        ),
        (
            "what its snapshots are",
            have_same_snapshots(theirs, ours, packs),
        ),
        (
            "where it was forked from",
            forked(theirs, packs) == forked(ours, packs),
        ),
    ];
    let (what, _) = facts.into_iter().find(|(_, is_same)| !is_same)?;
    Some(format!("{what} is another than the records give"))
}

/// Where the records of a stream lie, with one run for a pack.
fn packed_runs(stream: &Stream, packs: &[(SegmentId, SegmentId)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::with_capacity(stream.runs.len());
    for run in &stream.runs {
        let segment = packed(packs, run.segment);
        if runs.last().is_none_or(|last| last.segment != segment) {
            runs.push(Run { segment, ..*run });
        }
    }
    runs
}

/// Where a stream was forked from; of a place in a pack only that.
fn forked(stream: &Stream, packs: &[(SegmentId, SegmentId)]) -> Option<Forked> {
    stream.forked.map(|forked| Forked {
        location: in_pack(forked.location, packs),
        ..forked
    })
}

fn in_pack(location: Location, packs: &[(SegmentId, SegmentId)]) -> Location {
    let is_in = packs
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&location.segment));
    let segment = packed(packs, location.segment);
    Location {
        segment,
        offset: if is_in { 0 } else { location.offset },
    }
}

/// Whether the snapshots are the same, but for those that a pack left out, of which only theirs may know.
fn have_same_snapshots(theirs: &Stream, ours: &Stream, packs: &[(SegmentId, SegmentId)]) -> bool {
    let place = |snapshot: &SnapshotRef| SnapshotRef {
        location: in_pack(snapshot.location, packs),
        ..*snapshot
    };
    let kept: HashSet<u64> = ours.snapshots.iter().map(|own| own.position).collect();
    let theirs = theirs.snapshots.iter().map(place);
    let theirs =
        theirs.filter(|other| other.location.offset != 0 || kept.contains(&other.position));
    theirs.eq(ours.snapshots.iter().map(place))
}

/// Gives equal lists of ranges equal numbers, however they are shared: in time linear in the ranges there are.
#[derive(Default)]
struct Lists {
    known: HashMap<*const Lineage, u32>,
    numbers: HashMap<(u32, u32, u32, u32), u32>,
}

impl Lists {
    fn of(&mut self, stream: &Stream) -> u32 {
        let mut fresh = Vec::new();
        let mut next = stream.lineage.as_ref();
        let mut below = 0;
        while let Some(range) = next {
            if let Some(number) = self.known.get(&std::sync::Arc::as_ptr(range)) {
                below = *number;
                break;
            }
            fresh.push(range);
            next = range.below();
        }
        for range in fresh.into_iter().rev() {
            let count = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
            let key = (
                range.first_sequence,
                range.source,
                range.first_ordinal,
                below,
            );
            below = *self.numbers.entry(key).or_insert(count);
            self.known.insert(std::sync::Arc::as_ptr(range), below);
        }
        below
    }
}
