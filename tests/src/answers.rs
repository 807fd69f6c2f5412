//! Everything that can be asked of a store, as lines of text: so that two moments of it can be compared, and the first
//! difference can be shown.

use std::{collections::BTreeSet, ops::ControlFlow};

use runlog_engine::{
    Direction, FindOptions, Kind, Label, Position, ReadOptions, Record, Result, Sequence, Store,
    StreamInfo,
};

/// A record in a line.
pub fn line(record: &Record) -> String {
    format!(
        "{} {} {} {} {} {} {:08x} {} {:08x}",
        record.position.0,
        record.stream,
        record.sequence.0,
        record.kind.0,
        record.time_ms,
        record.redacted,
        crc32fast::hash(&record.meta),
        record.payload.len(),
        crc32fast::hash(&record.payload),
    )
}

/// What the streams, the snapshots, the positions, the labels from 0 up to `labels` and the scan answer. Of the scan, the
/// records that some stream has, and those of the engine but for snapshots: a compaction leaves out others.
///
/// # Errors
/// What the store's.
pub fn answers(store: &Store, labels: u64) -> Result<Vec<String>> {
    let mut told = Vec::new();
    let mut live = BTreeSet::new();
    for info in store.streams()? {
        stream(store, &info, labels, &mut told, &mut live)?;
    }
    for label in 0..labels {
        let found = find(store, label, FindOptions::default())?;
        let backward = FindOptions {
            direction: Direction::Backward,
            ..FindOptions::default()
        };
        let mut backward = find(store, label, backward)?;
        backward.reverse();
        told.push(format!("label {label}: {found:?}"));
        if backward != found {
            told.push(format!("label {label}, backward: {backward:?}"));
        }
        in_pages(store, label, &found, &mut told)?;
    }
    scan(store, &live, &mut told)?;
    Ok(told)
}

fn stream(
    store: &Store,
    info: &StreamInfo,
    labels: u64,
    told: &mut Vec<String>,
    live: &mut BTreeSet<u64>,
) -> Result<()> {
    told.push(format!("stream {} {}", info.id, info.last_sequence.0));
    let read = |direction| -> Result<Vec<Record>> {
        let options = ReadOptions {
            direction,
            ..ReadOptions::default()
        };
        store.read(info.id, options)?.collect()
    };
    let records = read(Direction::Forward)?;
    let mut backward = read(Direction::Backward)?;
    backward.reverse();
    told.push(format!("forward is backward: {}", records == backward));
    let mut shown = Vec::new();
    store
        .read(info.id, ReadOptions::default())?
        .for_each_ref(|record| {
            shown.push(record.map(|record| line(&record.to_record())));
            ControlFlow::Continue(())
        });
    let shown = shown.into_iter().collect::<Result<Vec<_>>>()?;
    told.push(format!(
        "shown as read: {}",
        shown == records.iter().map(line).collect::<Vec<_>>()
    ));
    for record in &records {
        live.insert(record.position.0);
        told.push(line(record));
        let again = store.record(record.position)?;
        let again = again.map_or("none".to_owned(), |again| {
            format!(
                "{} {:08x}",
                again.sequence.0,
                crc32fast::hash(&again.payload)
            )
        });
        told.push(format!("at {}: {again}", record.position.0));
    }
    for at in 0..=info.last_sequence.0 {
        if let Some(found) = store.latest_snapshot(info.id, Sequence(at))? {
            told.push(format!(
                "snapshot for {at}: {} {} {} {:08x} {:08x}",
                found.sequence.0,
                found.position.0,
                found.time_ms,
                crc32fast::hash(&found.meta),
                crc32fast::hash(&found.payload)
            ));
        }
    }
    for label in 0..labels {
        let options = FindOptions {
            stream: Some(info.id),
            ..FindOptions::default()
        };
        told.push(format!(
            "label {label} here: {:?}",
            find(store, label, options)?
        ));
    }
    Ok(())
}

fn find(store: &Store, label: u64, options: FindOptions) -> Result<Vec<u64>> {
    store
        .find(Label(label), options)?
        .map(|record| record.map(|record| record.position.0))
        .collect()
}

/// Pages of three records each, either way, are the whole.
fn in_pages(store: &Store, label: u64, all: &[u64], told: &mut Vec<String>) -> Result<()> {
    let mut forward = Vec::new();
    loop {
        let first = forward.last().map_or(1, |last| last + 1);
        let options = FindOptions {
            first: Position(first),
            limit: 3,
            ..FindOptions::default()
        };
        let page = find(store, label, options)?;
        if page.is_empty() {
            break;
        }
        forward.extend(page);
    }
    let mut backward: Vec<u64> = Vec::new();
    while backward.last() != Some(&1) {
        let last = backward.last().map_or(u64::MAX, |last| last - 1);
        let options = FindOptions {
            direction: Direction::Backward,
            last: Position(last),
            limit: 3,
            ..FindOptions::default()
        };
        let page = find(store, label, options)?;
        if page.is_empty() {
            break;
        }
        backward.extend(page);
    }
    backward.reverse();
    if forward != all || backward != all {
        told.push(format!("label {label}, in pages: {forward:?} {backward:?}"));
    }
    Ok(())
}

fn scan(store: &Store, live: &BTreeSet<u64>, told: &mut Vec<String>) -> Result<()> {
    let is_kept = |kind: Kind, position: u64| {
        live.contains(&position) || (!kind.is_data() && kind != Kind::SNAPSHOT)
    };
    let mut scanned = Vec::new();
    for record in store.scan(Position::FIRST)? {
        let record = record?;
        if is_kept(record.kind, record.position.0) {
            scanned.push(line(&record));
        }
    }
    let mut shown = Vec::new();
    let mut failed = None;
    store
        .scan(Position::FIRST)?
        .for_each_ref(|record| match record {
            Ok(record) => {
                if is_kept(record.kind, record.position.0) {
                    shown.push(line(&record.to_record()));
                }
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
    if let Some(error) = failed {
        return Err(error);
    }
    told.push(format!("scan is as shown: {}", scanned == shown));
    told.extend(scanned);
    Ok(())
}

/// The first difference of what was told at two moments.
pub fn difference(one: &[String], other: &[String]) -> Option<String> {
    let place = one.iter().zip(other).position(|(one, other)| one != other);
    let place =
        place.or_else(|| (one.len() != other.len()).then_some(one.len().min(other.len())))?;
    let at = |told: &[String]| told.get(place).cloned().unwrap_or("nothing".to_owned());
    Some(format!("{} / {}", at(one), at(other)))
}
