//! One damage of each kind, and what can be read of a store before, after its repair, and by salvage.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use runlog_engine::{
    ErrorKind, Expected, NewRecord, OpenOptions, Position, ReadOptions, Repair, Sequence, Store,
    StreamId, Verification, storage::Storage,
};

use crate::{
    checker::{self, Checked, Files},
    damage::Victim,
    faulty::FaultyStorage,
    forge::{self, HEADER_BYTES, RECORDS_BEGIN, TRAILER_BYTES},
    host::TestHost,
    script,
};

/// A damaged store.
#[derive(Clone)]
pub struct Case {
    /// What was done to it.
    pub what: String,
    /// What is left.
    pub files: Files,
    /// The positions of the records that were hit: all others must be readable.
    pub hit: BTreeSet<u64>,
    /// Whether the index or the checkpoint says what was hit.
    pub is_known: bool,
}

fn name_of(segment: u32) -> String {
    format!("{segment:08}.seg")
}

fn place(offset: u64) -> usize {
    usize::try_from(offset).expect("small")
}

/// One damage of each kind, at many places.
pub fn cases(victim: &Victim) -> Vec<Case> {
    let checked = checker::check_files(&victim.files, None).expect("a sound store");
    let mut cases = Vec::new();
    let mut case =
        |what: String, hit: BTreeSet<u64>, is_known: bool, change: &dyn Fn(&mut Files)| {
            let mut files = victim.files.clone();
            change(&mut files);
            cases.push(Case {
                what,
                files,
                hit,
                is_known,
            });
        };
    let has_checkpoint = victim.files.contains_key("CHECKPOINT");
    let active = checked.segments.last().expect("segments").id;
    let last = checked.last_position();
    for record in &checked.records {
        let is_known = record.segment != active || has_checkpoint;
        // What is torn at the very end after a crash was never acknowledged, as far as anybody can tell.
        let is_last =
            record.segment == active && !has_checkpoint && in_last_batch(&checked, record.position);
        if is_last {
            continue;
        }
        case(
            format!("record {} flipped", record.position),
            [record.position].into(),
            is_known,
            &|files| {
                let bytes = files
                    .get_mut(&name_of(record.segment))
                    .expect("it has the file");
                bytes[place(record.offset + record.bytes) - 8] ^= 0x20;
            },
        );
    }
    for segment in &checked.segments {
        let name = name_of(segment.id);
        let within = |from: u64| -> BTreeSet<u64> {
            let of = checked
                .records
                .iter()
                .filter(|record| record.segment == segment.id);
            of.filter(|record| record.offset + record.bytes > from)
                .map(|record| record.position)
                .collect()
        };
        case(
            format!("{name}: start zeroed"),
            BTreeSet::new(),
            true,
            &|files| {
                files.get_mut(&name).expect("it has the file")[..RECORDS_BEGIN].fill(0);
            },
        );
        case(
            format!("{name}: one copy of the header flipped"),
            BTreeSet::new(),
            true,
            &|files| {
                files.get_mut(&name).expect("it has the file")[77] ^= 4;
            },
        );
        let is_known = segment.id == active && has_checkpoint;
        let is_proven = segment.id != active || has_checkpoint;
        if is_proven {
            case(format!("{name} missing"), within(0), is_known, &|files| {
                drop(files.remove(&name))
            });
            case(format!("{name} emptied"), within(0), is_known, &|files| {
                files.get_mut(&name).expect("it has the file").clear();
            });
            for part in [3, 2] {
                let middle =
                    (RECORDS_BEGIN as u64 + (segment.data_end - RECORDS_BEGIN as u64) / part) & !7;
                case(
                    format!("{name} cut to {middle}"),
                    within(middle),
                    is_known,
                    &|files| {
                        files
                            .get_mut(&name)
                            .expect("it has the file")
                            .truncate(place(middle));
                    },
                );
                case(
                    format!("{name} zero from {middle}"),
                    within(middle),
                    is_known,
                    &|files| {
                        files.get_mut(&name).expect("it has the file")[place(middle)..].fill(0);
                    },
                );
            }
        }
        if segment.sealed {
            let length = victim.files[&name].len();
            for at in [
                place(segment.data_end) + 5,
                length - TRAILER_BYTES - HEADER_BYTES - 9,
                length - 60,
            ] {
                case(
                    format!("{name}: index flipped at {at}"),
                    BTreeSet::new(),
                    true,
                    &|files| {
                        files.get_mut(&name).expect("it has the file")[at] ^= 1;
                    },
                );
            }
            case(
                format!("{name}: index cut off"),
                BTreeSet::new(),
                true,
                &|files| {
                    files
                        .get_mut(&name)
                        .expect("it has the file")
                        .truncate(place(segment.data_end) + 40);
                },
            );
            case(
                format!("{name}: start and end zeroed"),
                BTreeSet::new(),
                true,
                &|files| {
                    let bytes = files.get_mut(&name).expect("it has the file");
                    bytes[..RECORDS_BEGIN].fill(0);
                    bytes[length - TRAILER_BYTES - HEADER_BYTES..].fill(0);
                },
            );
            case(
                format!("{name}: false index"),
                BTreeSet::new(),
                true,
                &|files| {
                    let bytes = files.get_mut(&name).expect("it has the file");
                    let at = place(segment.data_end) + 4;
                    bytes[at] = bytes[at].wrapping_add(1);
                    forge::index(bytes, place(segment.data_end), segment.seed);
                },
            );
            for record in checked
                .records
                .iter()
                .filter(|record| record.segment == segment.id)
                .step_by(3)
            {
                case(
                    format!("{name}: index and record {} flipped", record.position),
                    [record.position].into(),
                    false,
                    &|files| {
                        let bytes = files.get_mut(&name).expect("it has the file");
                        bytes[length - 60] ^= 1;
                        bytes[place(record.offset) + 9] ^= 1;
                    },
                );
            }
        }
    }
    if has_checkpoint {
        for (back, record) in checked.records.iter().rev().enumerate().take(6) {
            let hit = (record.position..=last).collect();
            case(
                format!("last {} records zeroed", back + 1),
                hit,
                true,
                &|files| {
                    files.get_mut(&name_of(active)).expect("it has the file")
                        [place(record.offset)..]
                        .fill(0);
                },
            );
        }
        case("END flipped".to_owned(), BTreeSet::new(), true, &|files| {
            files.get_mut("END").expect("closed")[50] ^= 1
        });
        case(
            "END says a higher position".to_owned(),
            BTreeSet::new(),
            true,
            &|files| {
                let end = files.get_mut("END").expect("closed");
                end[48] += 9;
                forge::structure(end);
            },
        );
        case(
            "CHECKPOINT flipped".to_owned(),
            BTreeSet::new(),
            true,
            &|files| {
                files.get_mut("CHECKPOINT").expect("closed")[90] ^= 1;
            },
        );
        case(
            "CHECKPOINT says that the first stream is deleted".to_owned(),
            BTreeSet::new(),
            true,
            &|files| {
                let bytes = files.get_mut("CHECKPOINT").expect("closed");
                let place = forge::checkpoint_flags(bytes, script::stream(1).as_bytes());
                bytes[place.expect("a first stream")] ^= 1;
                forge::checkpoint(bytes);
            },
        );
    }
    for (what, change) in [
        ("RUNLOG missing", None),
        ("RUNLOG empty", Some(Vec::new())),
        ("RUNLOG of something else", Some(vec![7; 128])),
        ("RUNLOG cut", Some(victim.files["RUNLOG"][..100].to_vec())),
    ] {
        case(
            what.to_owned(),
            BTreeSet::new(),
            true,
            &|files| match &change {
                None => drop(files.remove("RUNLOG")),
                Some(bytes) => drop(files.insert("RUNLOG".to_owned(), bytes.clone())),
            },
        );
    }
    for name in ["00000004.seg", "00000005.seg", "99999999.seg"] {
        case(
            format!("a copy of the first segment as {name}"),
            BTreeSet::new(),
            true,
            &|files| {
                files.insert(name.to_owned(), files["00000001.seg"].clone());
            },
        );
    }
    case(
        "RUNLOG missing, and a record flipped".to_owned(),
        [1].into(),
        true,
        &|files| {
            files.remove("RUNLOG");
            files.get_mut("00000001.seg").expect("it has the file")
                [place(checked.records[0].offset) + 30] ^= 1;
        },
    );
    cases
}

fn in_last_batch(checked: &Checked, position: u64) -> bool {
    let first = checked
        .records
        .iter()
        .rev()
        .find(|record| record.is_batch_first())
        .expect("batches");
    position >= first.position
}

/// The options that the tests open such stores with.
pub fn options() -> OpenOptions {
    let host = Arc::new(TestHost::new(77));
    OpenOptions {
        segment_bytes_max: 64 << 10,
        host,
        ..OpenOptions::default()
    }
}

/// A record as it was read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Read {
    /// Its sequence, or the one it speaks of.
    pub sequence: u64,
    /// What it is.
    pub kind: u8,
    /// The small part; empty when it is redacted.
    pub meta: Vec<u8>,
    /// The large part; empty when it is redacted.
    pub payload: Vec<u8>,
}

/// A stream as it was read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StreamRead {
    /// Its last sequence.
    pub last: u64,
    /// The positions of its records, by sequence.
    pub positions: BTreeMap<u64, u64>,
}

/// Everything that could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Readable {
    /// By position.
    pub positions: BTreeMap<u64, Read>,
    /// The positions that reads of streams gave.
    pub in_streams: BTreeSet<u64>,
    /// The same, stream by stream.
    pub streams: BTreeMap<StreamId, StreamRead>,
    /// Every position that the log in its order gave.
    pub in_scan: BTreeSet<u64>,
    /// The last position.
    pub last: u64,
}

/// Reads all that can be read of an open store. Whatever can't be is told as damage.
///
/// # Errors
/// What isn't.
pub fn read(store: &Store) -> Result<Readable, String> {
    let told = |error: runlog_engine::Error| match error.kind() {
        ErrorKind::Damaged => Ok(()),
        kind => Err(format!("{kind:?}: {error}")),
    };
    let mut found = Readable {
        last: store.last_position().map_err(|error| error.to_string())?.0,
        ..Readable::default()
    };
    for position in 1..=found.last {
        match store.record(Position(position)) {
            Ok(Some(record)) => {
                let (meta, payload) = (record.meta.to_vec(), record.payload.to_vec());
                let read = Read {
                    sequence: record.sequence.0,
                    kind: record.kind.0,
                    meta,
                    payload,
                };
                found.positions.insert(position, read);
            }
            Ok(None) => {}
            Err(error) => told(error)?,
        }
    }
    for record in store
        .scan(Position::FIRST)
        .map_err(|error| error.to_string())?
    {
        match record {
            Ok(record) => _ = found.in_scan.insert(record.position.0),
            Err(error) => told(error)?,
        }
    }
    for stream in store.streams().map_err(|error| error.to_string())? {
        let mut positions = BTreeMap::new();
        for sequence in (1..=stream.last_sequence.0).map(Sequence) {
            let options = ReadOptions {
                first: sequence,
                last: sequence,
                ..ReadOptions::default()
            };
            for record in store
                .read(stream.id, options)
                .map_err(|error| error.to_string())?
            {
                match record {
                    Ok(record) => _ = positions.insert(record.sequence.0, record.position.0),
                    Err(error) => told(error)?,
                }
            }
        }
        found.in_streams.extend(positions.values());
        found.streams.insert(
            stream.id,
            StreamRead {
                last: stream.last_sequence.0,
                positions,
            },
        );
    }
    Ok(found)
}

/// Opens a store to write and reads it; `None` when it is refused as damaged.
///
/// # Errors
/// What else is wrong.
pub fn open_and_read(storage: &FaultyStorage) -> Result<Option<Readable>, String> {
    match Store::open_on(Arc::new(storage.clone()), options()) {
        Ok(store) => read(&store).map(Some),
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotAStore) => Ok(None),
        Err(error) => Err(format!("open: {:?}: {error}", error.kind())),
    }
}

/// Repairs a store.
///
/// # Errors
/// What the engine says.
pub fn repair(storage: &FaultyStorage) -> runlog_engine::Result<Repair> {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    runlog_engine::repair(&storage, "a person", &TestHost::new(5))
}

/// Verifies a store.
///
/// # Errors
/// What the engine says.
pub fn verify(storage: &FaultyStorage) -> Result<Verification, String> {
    runlog_engine::verify(storage as &dyn Storage).map_err(|error| format!("verify: {error}"))
}

/// The positions that salvage gives, and how many records.
///
/// # Errors
/// What the engine says.
pub fn salvage(files: &Files) -> Result<(BTreeSet<u64>, u64), String> {
    let mut positions = BTreeSet::new();
    let summary = runlog_engine::salvage(&FaultyStorage::from_files(files), &mut |record| {
        positions.extend(record.position.map(|position| position.0));
        ControlFlow::Continue(())
    });
    Ok((
        positions,
        summary
            .map_err(|error| format!("salvage: {error}"))?
            .records,
    ))
}

/// Appends a record, and gives its position.
///
/// # Errors
/// What the engine says.
pub fn append(storage: &FaultyStorage) -> Result<u64, String> {
    let store = Store::open_on(Arc::new(storage.clone()), options())
        .map_err(|error| format!("open: {error}"))?;
    let appended = store.append(
        script::stream(200),
        Expected::Any,
        &[NewRecord::data(b"after all")],
    );
    let position = appended
        .map_err(|error| format!("append: {error}"))?
        .last_position
        .0;
    store.close().map_err(|error| format!("close: {error}"))?;
    Ok(position)
}
