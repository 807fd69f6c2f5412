//! Whether a store, or what the checker read of it, is what the model says. Each answers with the first difference.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Display},
    ops::ControlFlow,
};

use runlog_engine::{
    Direction, ErrorKind, FindOptions, Kind, Label, Position, ReadOptions, Record, RecordRef,
    Sequence, Store,
};

use crate::{
    checker::{Checked, SegmentFacts},
    model::{Entry, Model, ModelStream},
};

/// The first difference, told for a person.
pub type Same = Result<(), String>;

/// Fails with `what` unless both are equal. It is formatted only then: a harness compares millions of records.
///
/// # Errors
/// What differs.
pub fn same<T: PartialEq + fmt::Debug>(what: impl Display, found: &T, expected: &T) -> Same {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

fn told<T>(what: impl Display, result: runlog_engine::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error} ({:?})", error.kind()))
}

/// A record as the model has it.
///
/// # Errors
/// What differs.
pub fn same_record(found: &Record, position: u64, entry: &Entry) -> Same {
    let hidden = entry.redacted;
    let place = (
        found.position.0,
        found.stream,
        found.sequence.0,
        found.kind.0,
        found.redacted,
    );
    let seen = (place, found.meta.clone(), found.payload.len());
    let place = (position, entry.stream, entry.sequence, entry.kind, hidden);
    let expected = if hidden {
        (place, Default::default(), 0)
    } else {
        (place, entry.meta.clone(), entry.payload.len())
    };
    same("record", &seen, &expected)?;
    if hidden || found.payload == entry.payload {
        Ok(())
    } else {
        Err(format!("payload of position {position}"))
    }
}

/// Reads everything that can be read of a store.
///
/// # Errors
/// The first difference.
pub fn store_equals(store: &Store, model: &Model) -> Same {
    same(
        "last position",
        &told("last position", store.last_position())?.0,
        &model.last_position(),
    )?;
    let streams = told("streams", store.streams())?;
    let streams: Vec<_> = streams
        .iter()
        .map(|stream| (stream.id, stream.last_sequence.0))
        .collect();
    let living = model.streams.iter().filter(|stream| !stream.deleted);
    same(
        "streams",
        &streams,
        &living.map(|stream| (stream.id, stream.last())).collect(),
    )?;
    scan_equals(store, model, 1)?;
    for stream in &model.streams {
        stream_equals(store, model, stream)?;
    }
    let entries = model.log.iter();
    let mut labels: BTreeSet<Label> = entries.flat_map(|entry| entry.labels.clone()).collect();
    labels.insert(Label(0));
    labels
        .into_iter()
        .try_for_each(|label| find_equals(store, model, label))
}

/// Finds the records that have a label, in the store and in each stream.
///
/// # Errors
/// The first difference.
pub fn find_equals(store: &Store, model: &Model, label: Label) -> Same {
    let living = model.streams.iter().filter(|stream| !stream.deleted);
    for stream in std::iter::once(None).chain(living.map(Some)) {
        let expected = model.find(label, stream);
        for direction in [Direction::Forward, Direction::Backward] {
            let options = FindOptions {
                stream: stream.map(|stream| stream.id),
                direction,
                ..FindOptions::default()
            };
            let what = format_args!("find {label:?} with {options:?}");
            let mut found = Vec::new();
            for record in told(what, store.find(label, options.clone()))? {
                let record = told(what, record)?;
                let entry = model
                    .entry(record.position.0)
                    .ok_or_else(|| format!("{what}: {} was never written", record.position.0))?;
                same_record(&record, record.position.0, entry)
                    .map_err(|difference| format!("{what}: {difference}"))?;
                found.push(record.position.0);
            }
            if direction == Direction::Backward {
                found.reverse();
            }
            same(what, &found, &expected)?;
        }
    }
    Ok(())
}

/// Scans the log from a position on.
///
/// # Errors
/// The first difference.
pub fn scan_equals(store: &Store, model: &Model, first: u64) -> Same {
    let mut position = first.max(1);
    let mut time_ms = 0;
    for record in told("scan", store.scan(Position(first)))? {
        let record = told(format_args!("scan at {position}"), record)?;
        while position < record.position.0 && model.may_be_gone(position) {
            position += 1;
        }
        let entry = model
            .entry(position)
            .ok_or_else(|| format!("scan: position {position} was never written"))?;
        same_record(&record, position, entry)?;
        if record.time_ms < time_ms {
            return Err(format!(
                "position {position} is earlier than the one before"
            ));
        }
        time_ms = record.time_ms;
        position += 1;
    }
    while model.may_be_gone(position) {
        position += 1;
    }
    same(
        "end of the scan",
        &position,
        &first.max(1).max(model.last_position() + 1),
    )?;
    let scan = || told("scan", store.scan(Position(first)));
    shown_equals("scan", scan()?, |see| {
        scan()?.for_each_ref(see);
        Ok(())
    })
}

/// That records which are shown are those that are given.
///
/// # Errors
/// The first difference.
pub fn shown_equals(
    what: &str,
    given: impl Iterator<Item = runlog_engine::Result<Record>>,
    show: impl FnOnce(&mut dyn FnMut(runlog_engine::Result<RecordRef<'_>>) -> ControlFlow<()>) -> Same,
) -> Same {
    let mut given = given.map(|record| record.map_err(|error| error.to_string()));
    let mut differs = Ok(());
    show(&mut |shown| {
        let shown = shown.map(|record| record.to_record());
        let shown = Some(shown.map_err(|error| error.to_string()));
        differs = same(format_args!("{what}, shown"), &shown, &given.next());
        match differs {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    differs?;
    same(
        format_args!("{what}, shown to its end"),
        &None,
        &given.next(),
    )
}

fn stream_equals(store: &Store, model: &Model, stream: &ModelStream) -> Same {
    let found = told("stream", store.stream(stream.id))?;
    if stream.deleted {
        let kind = store
            .read(stream.id, ReadOptions::default())
            .err()
            .map(|error| error.kind());
        same(
            "read of a deleted stream",
            &kind,
            &Some(ErrorKind::NotFound),
        )?;
        return same("deleted stream", &found, &None);
    }
    same(
        "last sequence",
        &found.map(|found| found.last_sequence.0),
        &Some(stream.last()),
    )?;
    read_equals(store, model, stream, &ReadOptions::default())?;
    let backward = ReadOptions {
        direction: Direction::Backward,
        ..ReadOptions::default()
    };
    read_equals(store, model, stream, &backward)?;
    let mut asked: Vec<u64> = stream
        .snapshots
        .iter()
        .flat_map(|(at, _)| [at.saturating_sub(1), *at, at + 1])
        .collect();
    asked.extend([0, u64::MAX]);
    asked
        .into_iter()
        .try_for_each(|at| snapshot_equals(store, model, stream, at))
}

/// Which record of a reading is told of.
struct OfRead<'a> {
    stream: &'a ModelStream,
    options: &'a ReadOptions,
    record: usize,
}

impl Display for OfRead<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stream,
            options,
            record,
        } = self;
        write!(
            out,
            "read of {} with {options:?}, record {record}",
            stream.id
        )
    }
}

/// Reads a stream.
///
/// # Errors
/// The first difference.
pub fn read_equals(
    store: &Store,
    model: &Model,
    stream: &ModelStream,
    options: &ReadOptions,
) -> Same {
    let expected = model.read(stream, options);
    let what = |record: usize| OfRead {
        stream,
        options,
        record,
    };
    let mut count = 0;
    for record in told("read", store.read(stream.id, options.clone()))? {
        let record = told(what(count), record)?;
        let position = *expected
            .get(count)
            .ok_or_else(|| format!("{}: one too many", what(count)))?;
        let entry = model.entry(position).expect("a stream's position");
        same_record(&record, position, entry)
            .map_err(|difference| format!("{}: {difference}", what(count)))?;
        count += 1;
    }
    same(
        format_args!("records of {}", what(count)),
        &count,
        &expected.len(),
    )?;
    let read = || told("read", store.read(stream.id, options.clone()));
    shown_equals("read", read()?, |see| {
        read()?.for_each_ref(see);
        Ok(())
    })
}

/// Reads the newest snapshot at or before a sequence.
///
/// # Errors
/// The first difference.
pub fn snapshot_equals(
    store: &Store,
    model: &Model,
    stream: &ModelStream,
    at_or_before: u64,
) -> Same {
    let found = told(
        "snapshot",
        store.latest_snapshot(stream.id, Sequence(at_or_before)),
    )?;
    let expected = model
        .latest_snapshot(stream, at_or_before)
        .map(|(sequence, position)| {
            let entry = model.entry(position).expect("a snapshot's position");
            (
                sequence,
                position,
                (entry.meta.clone(), entry.payload.clone()),
            )
        });
    let found = found.map(|found| {
        (
            found.sequence.0,
            found.position.0,
            (found.meta, found.payload),
        )
    });
    let short = |found: &Option<(u64, u64, _)>| {
        found
            .as_ref()
            .map(|(sequence, position, _)| (*sequence, *position))
    };
    let what = format_args!("snapshot of {} at or before {at_or_before}", stream.id);
    same(what, &short(&found), &short(&expected))?;
    if found == expected {
        Ok(())
    } else {
        Err(format!("{what}: other bytes"))
    }
}

/// Reads one record by its position.
///
/// # Errors
/// The first difference.
pub fn position_equals(store: &Store, model: &Model, position: u64) -> Same {
    match (
        told("record", store.record(Position(position)))?,
        model.entry(position),
    ) {
        (None, None) => Ok(()),
        (None, Some(_)) if model.may_be_gone(position) => Ok(()),
        (Some(found), Some(entry)) => same_record(&found, position, entry),
        (found, entry) => Err(format!(
            "position {position}: expected {entry:?}, found {found:?}"
        )),
    }
}

/// What the independent checker read.
///
/// # Errors
/// The first difference.
pub fn checked_equals(checked: &Checked, model: &Model) -> Same {
    same(
        "checker: last position",
        &checked.last_position(),
        &model.last_position(),
    )?;
    let there: BTreeSet<u64> = checked
        .records
        .iter()
        .map(|record| record.position)
        .collect();
    let written = 1..=model.last_position();
    let missing = written.filter(|position| !there.contains(position));
    let missing: Vec<u64> = missing
        .filter(|position| !model.may_be_gone(*position))
        .collect();
    same("checker: records that are missing", &missing, &Vec::new())?;
    same(
        "checker: damaged copies of headers",
        &checked.damaged_copies,
        &Vec::new(),
    )?;
    same(
        "checker: files that are no store's",
        &checked.unlisted,
        &Vec::new(),
    )?;
    for found in &checked.records {
        let position = found.position;
        let entry = model
            .entry(position)
            .ok_or_else(|| format!("checker: position {position} was never written"))?;
        let segments = checked.segments.iter();
        let is_packed = segments
            .filter(|segment| segment.is_pack())
            .any(|pack| pack.id == found.segment);
        // A pack has no more of a record that was redacted before than its place and its key.
        let is_erased = entry.redacted
            && is_packed
            && found.meta.is_empty()
            && found.payload.is_empty()
            && found.labels.is_empty();
        let stream = checked
            .meaning
            .streams
            .get(found.stream as usize - 1)
            .map(|stream| stream.id);
        let seen = (
            found.position,
            stream,
            u64::from(found.sequence),
            found.kind,
            &found.key,
            &found.labels,
        );
        let labels = entry.labels.iter().filter(|_| !is_erased);
        let labels = labels.map(|label| label.0).collect();
        let expected = (
            position,
            Some(*entry.stream.as_bytes()),
            entry.sequence,
            entry.kind,
            &entry.key,
            &labels,
        );
        same("checker: record", &seen, &expected)?;
        let bytes = (&found.meta[..], &found.payload[..]);
        if bytes != (&entry.meta[..], &entry.payload[..]) && !is_erased {
            return Err(format!("checker: other bytes at position {position}"));
        }
        same(
            "checker: redacted",
            &checked.meaning.redacted.contains(&position),
            &entry.redacted,
        )?;
    }
    same(
        "checker: streams",
        &checked.meaning.streams.len(),
        &model.streams.len(),
    )?;
    for (found, stream) in checked.meaning.streams.iter().zip(&model.streams) {
        same(
            "checker: stream",
            &(&found.id, found.deleted),
            &(stream.id.as_bytes(), stream.deleted),
        )?;
        if stream.deleted && checked.segments.iter().any(SegmentFacts::is_pack) {
            continue;
        }
        same(
            "checker: records of a stream",
            &found.positions,
            &stream.positions,
        )?;
        let snapshots: Vec<_> = found
            .snapshots
            .iter()
            .map(|(at, snapshot)| (u64::from(*at), snapshot.position))
            .collect();
        // The newest of each sequence.
        let expected: BTreeMap<u64, u64> = stream.snapshots.iter().copied().collect();
        let expected: Vec<_> = expected.into_iter().collect();
        same("checker: snapshots", &snapshots, &expected)?;
    }
    Ok(())
}

/// Kinds as the engine names them.
pub fn kinds(numbers: &[u8]) -> Vec<Kind> {
    numbers.iter().copied().map(Kind).collect()
}
