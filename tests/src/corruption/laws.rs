//! What must hold of a store that was damaged, before a repair and after it. Each law answers with what breaks it.

use std::collections::BTreeMap;

use runlog_engine::{Expected, NewRecord, Problem, Store, StreamId};

use super::truth::Truth;
use crate::{
    faulty::FaultyStorage,
    mend::{self, Read, Readable, StreamRead},
    model::{Entry, Model, ModelStream},
};

/// What a law says.
pub type Law = Result<(), String>;

fn is_as_written(read: &Read, entry: &Entry) -> bool {
    (read.sequence, read.kind) == (entry.sequence, entry.kind)
        && (&read.meta[..], &read.payload[..]) == (&entry.meta[..], &entry.payload[..])
}

/// What is read is what was written, or was redacted since.
pub fn nothing_is_invented(truth: &Truth<'_>, found: &Readable) -> Law {
    for (position, read) in &found.positions {
        let entry = truth
            .model
            .entry(*position)
            .ok_or_else(|| format!("position {position} never was"))?;
        let is_hidden = read.meta.is_empty() && read.payload.is_empty() && entry.redacted;
        if is_hidden
            || is_as_written(read, entry) && (!entry.redacted || truth.is_redaction_lost(*position))
        {
            continue;
        }
        return Err(format!(
            "position {position} reads as {read:?}, expected {entry:?}"
        ));
    }
    Ok(())
}

/// Every record that wasn't hit is read by its position and in the log's order.
pub fn what_was_not_hit_is_there(truth: &Truth<'_>, found: &Readable) -> Law {
    let lacks = |there: &dyn Fn(&u64) -> bool| -> Vec<u64> {
        truth
            .readable
            .iter()
            .filter(|position| !there(position))
            .copied()
            .collect()
    };
    let by_position = lacks(&|position| found.positions.contains_key(position));
    let in_scan = lacks(&|position| found.in_scan.contains(position));
    if by_position.is_empty() && in_scan.is_empty() {
        return Ok(());
    }
    Err(format!(
        "positions {by_position:?} can't be read, the scan leaves out {in_scan:?}"
    ))
}

/// Every stream has what wasn't hit of it, at its sequence, and nothing else; what was deleted stays so.
pub fn streams_hold_what_is_theirs(truth: &Truth<'_>, found: &Readable) -> Law {
    let mut made_up = found.streams.clone();
    for stream in &truth.model.streams {
        let read = made_up.remove(&stream.id);
        if stream.deleted {
            if read.is_some() && !truth.is_deletion_lost(stream) {
                return Err(format!("stream {} was deleted, and is there", stream.id));
            }
            continue;
        }
        holds_its_own(truth, found, stream, read.as_ref())?;
        holds_no_other(truth, stream, read.as_ref())?;
    }
    // One whose creation is lost may have another id.
    let lost = truth
        .model
        .streams
        .iter()
        .filter(|stream| truth.is_creation_lost(stream))
        .count();
    if made_up.len() > lost {
        return Err(format!(
            "streams {:?} never were, and {lost} have lost their creation",
            made_up.keys()
        ));
    }
    Ok(())
}

fn holds_its_own(
    truth: &Truth<'_>,
    found: &Readable,
    stream: &ModelStream,
    read: Option<&StreamRead>,
) -> Law {
    for (position, sequence) in stream.positions.iter().zip(1_u64..) {
        if !truth.readable.contains(position) {
            continue;
        }
        let is_there = |read: &StreamRead| read.positions.get(&sequence) == Some(position);
        let is_own = truth
            .model
            .entry(*position)
            .is_some_and(|entry| entry.stream == stream.id);
        let is_elsewhere = || found.streams.values().any(is_there);
        if read.is_some_and(is_there)
            || is_own && truth.is_creation_lost(stream) && is_elsewhere()
            // What a stream shared is not in it when nothing tells any more what it was forked from.
            || !is_own && truth.is_fork_lost(stream)
        {
            continue;
        }
        return Err(format!(
            "position {position} is not sequence {sequence} of stream {}: {read:?}",
            stream.id
        ));
    }
    Ok(())
}

fn holds_no_other(truth: &Truth<'_>, stream: &ModelStream, read: Option<&StreamRead>) -> Law {
    let Some(read) = read else { return Ok(()) };
    for (sequence, position) in &read.positions {
        let expected = usize::try_from(*sequence - 1)
            .ok()
            .and_then(|place| stream.positions.get(place));
        // Which of several lost records of one damaged range was redacted isn't known, if their index block is lost too.
        let is_one_of_the_lost = !truth.readable.contains(position)
            && truth
                .model
                .entry(*position)
                .is_some_and(|entry| entry.redacted)
            && expected.is_none_or(|expected| !truth.readable.contains(expected));
        // What a truncation that is lost had taken away may be back.
        if expected != Some(position) && !truth.is_truncation_lost(stream) && !is_one_of_the_lost {
            return Err(format!(
                "sequence {sequence} of stream {} is position {position}: {expected:?}",
                stream.id
            ));
        }
    }
    Ok(())
}

/// Nothing is left to tell but what is lost, and where that can't be placed, what has no place behind it.
pub fn only_losses_are_left(truth: &Truth<'_>, left: &[Problem]) -> Law {
    let is_unplaced = |problem: &Problem| {
        truth.is_placing_unsure() && problem.message.ends_with("it is left out of its stream")
    };
    let problem = left
        .iter()
        .find(|problem| !problem.is_loss && !is_unplaced(problem));
    problem.map_or(Ok(()), |problem| Err(format!("left: {problem:?}")))
}

/// Salvage gives every record that wasn't hit, whatever else is lost.
pub fn salvage_gives_what_was_not_hit(truth: &Truth<'_>, storage: &FaultyStorage) -> Law {
    let mut expected = truth.salvageable();
    let mut wrong = None;
    let done = runlog_engine::salvage(storage, &mut |record| {
        let place = (record.segment.0, record.offset);
        if let Some(position) = expected.remove(&place) {
            wrong = wrong
                .take()
                .or_else(|| is_salvaged(truth.model, position, &record));
        }
        std::ops::ControlFlow::Continue(())
    });
    done.map_err(|error| format!("salvage: {error}"))?;
    match wrong {
        Some(wrong) => Err(wrong),
        None if expected.is_empty() => Ok(()),
        None => Err(format!(
            "salvage leaves out positions {:?}",
            expected.values()
        )),
    }
}

fn is_salvaged(model: &Model, position: u64, found: &runlog_engine::Salvaged) -> Option<String> {
    let entry = model.entry(position).expect("in the model");
    let is_right = (found.sequence.0, found.kind.0) == (entry.sequence, entry.kind)
        && (found.redacted
            || (&found.meta[..], &found.payload[..]) == (&entry.meta[..], &entry.payload[..]))
        && found.position.is_none_or(|found| found.0 == position);
    (!is_right).then(|| format!("salvage gives position {position} as {found:?}"))
}

/// What is appended to every stream comes behind all that anything tells of: no position and no sequence is given twice.
/// Gives the positions that were given.
///
/// # Errors
/// What is given twice, or refused.
pub fn nothing_is_given_twice(
    truth: &Truth<'_>,
    storage: &FaultyStorage,
    found: &Readable,
) -> Result<u64, String> {
    let store = Store::open_on(std::sync::Arc::new(storage.clone()), mend::options());
    let store = store.map_err(|error| format!("open: {error}"))?;
    let mut last = truth.told_position().max(found.last);
    for (id, read) in &found.streams {
        let appended = store.append(*id, Expected::Any, &[NewRecord::data(b"after all")]);
        let given = appended.map_err(|error| format!("append to {id}: {error}"))?;
        if given.last_position.0 <= last {
            return Err(format!(
                "position {} is given again, after {last}",
                given.last_position
            ));
        }
        last = given.last_position.0;
        let least = read.last.max(least_sequence(truth, *id));
        let sequence = given.ops.first().map_or(0, |op| op.last_sequence.0);
        if sequence <= least {
            return Err(format!(
                "sequence {sequence} of stream {id} is given again, after {least}"
            ));
        }
    }
    let other = store.append(
        StreamId::from_bytes([250; 16]),
        Expected::Absent,
        &[NewRecord::data(b"after all")],
    );
    let position = other
        .map_err(|error| format!("append to a new stream: {error}"))?
        .last_position
        .0;
    if position <= last {
        return Err(format!("position {position} is given again, after {last}"));
    }
    store.close().map_err(|error| format!("close: {error}"))?;
    Ok(position)
}

/// The highest sequence of a stream that anything tells of.
fn least_sequence(truth: &Truth<'_>, id: StreamId) -> u64 {
    let Some(stream) = truth
        .model
        .stream(id)
        .filter(|_| !truth.is_placing_unsure())
    else {
        return 0;
    };
    if truth.is_all_saved() {
        return stream.last();
    }
    let is_own = |position: &u64| {
        truth
            .model
            .entry(*position)
            .is_some_and(|entry| entry.stream == id)
    };
    let there = stream
        .positions
        .iter()
        .zip(1..)
        .filter(|(position, _)| truth.readable.contains(position) && is_own(position));
    there.map(|(_, sequence)| sequence).max().unwrap_or(0)
}

/// What two readings differ in, if they do.
pub fn same_content(found: &Readable, expected: &Readable) -> Law {
    fn differ<K: Ord + std::fmt::Debug, V: PartialEq>(
        what: &str,
        found: &BTreeMap<K, V>,
        expected: &BTreeMap<K, V>,
    ) -> Law {
        let keys = found.keys().chain(expected.keys());
        let other: Vec<_> = keys
            .filter(|key| found.get(key) != expected.get(key))
            .collect();
        if other.is_empty() {
            Ok(())
        } else {
            Err(format!("{what} {other:?} differ"))
        }
    }
    differ("positions", &found.positions, &expected.positions)?;
    differ("streams", &found.streams, &expected.streams)
}
