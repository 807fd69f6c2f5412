//! Small stores to damage, and what a damaged one may be: told as damaged, the same, or where that is allowed a
//! prefix; never anything else.

use std::sync::Arc;

use runlog_engine::{
    Error, ErrorKind, OpenOptions, Position, ReadOptions, Sequence, Store, storage::Storage,
};

use crate::{
    checker::{self, Files},
    compare::{self, same_record},
    driver::{Driver, Leave, Place},
    faulty::FaultyStorage,
    host::TestHost,
    model::{Model, Work},
    script::{self, Line},
};

/// A store to damage.
pub struct Victim {
    /// Its files.
    pub files: Files,
    /// Its state after each of its batches; the first is empty.
    pub states: Vec<Model>,
    host: TestHost,
}

/// How the store was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Closed, so that the end marker and a checkpoint tell where it ends.
    Closed,
    /// By a crash, without either.
    Crashed,
}

/// What is found where a store was damaged.
#[derive(Debug)]
pub enum Found {
    /// It does not open.
    Refused(Error),
    /// It opens, as it was after so many batches. Some reads may have told damage, as often as is said.
    Opened {
        /// The batches that are there.
        batches: usize,
        /// How many reads were refused.
        refused: usize,
    },
}

pub(crate) const PASS: Line = Line::Pass(60 * 24 * 3_600_000);

/// Records of every kind in three segments, the last of them active. Segments are ended by time, so they are short.
pub fn victim(left: Left) -> Victim {
    let host = TestHost::new(3);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let storage = FaultyStorage::new();
    let mut driver =
        Driver::new(Place::Faulty(storage.clone()), host.clone(), options).expect("a new store");
    let mut states = vec![Model::default()];
    for line in script::in_three_segments(&PASS) {
        match line {
            Line::Commit(work) => commit(&mut driver, &work, &mut states),
            Line::Pass(ms) => host.pass_ms(ms),
            _ => unreachable!("no other lines"),
        }
    }
    let mut files = storage.files();
    if left == Left::Closed {
        driver.leave(Leave::Close).expect("it closes");
        files = storage.files();
    } else {
        // As after a loss of power: what was published is known of the running system alone.
        files.remove("CHECKPOINT");
        files.remove("WATERMARK");
        assert!(!files.contains_key("END"), "it was never closed");
    }
    files.remove("LOCK");
    let mut victim = Victim {
        files,
        states,
        host,
    };
    // Some free space behind the records is as good as much.
    let end = victim.active_borders().last().expect("batches").0;
    let active = victim.active().to_owned();
    let bytes = victim.files.get_mut(&active).expect("it has the file");
    bytes.truncate(usize::try_from(end).expect("small") + 600);
    victim
}

fn commit(driver: &mut Driver, work: &Work, states: &mut Vec<Model>) {
    driver.commit(work).expect("it is as the model says");
    if driver.model.last_position() > states.last().expect("never empty").last_position() {
        states.push(driver.model.clone());
    }
}

impl Victim {
    /// What the store is.
    pub fn whole(&self) -> &Model {
        self.states.last().expect("never empty")
    }

    /// The name of its last segment.
    pub fn active(&self) -> &str {
        let names = self.files.keys().filter(|name| name.ends_with(".seg"));
        names.max().expect("it has segments")
    }

    /// The names of its sealed segments.
    pub fn sealed(&self) -> Vec<&str> {
        let names = self.files.keys().map(String::as_str);
        names
            .filter(|name| name.ends_with(".seg") && *name != self.active())
            .collect()
    }

    /// Where the batches of the active segment end, and how many batches there are up to each.
    pub fn active_borders(&self) -> Vec<(u64, usize)> {
        let checked = checker::check_files(&self.files, None).expect("it is whole");
        let active = checked.segments.last().expect("it has segments").id;
        let ends = checked
            .records
            .iter()
            .filter(|record| record.segment == active && record.is_batch_last());
        let batches = |position| {
            self.states
                .iter()
                .position(|state| state.last_position() == position)
        };
        ends.map(|last| {
            (
                last.offset + last.bytes,
                batches(last.position).expect("the end of a batch"),
            )
        })
        .collect()
    }

    /// A copy with one file changed.
    #[must_use]
    pub fn changed(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> FaultyStorage {
        let mut files = self.files.clone();
        change(files.get_mut(name).expect("it has the file"));
        FaultyStorage::from_files(&files)
    }

    fn options(&self) -> OpenOptions {
        let host = Arc::new(self.host.clone());
        OpenOptions {
            segment_bytes_max: 64 << 10,
            host,
            ..OpenOptions::default()
        }
    }

    /// Opens what is left, and reads everything.
    ///
    /// # Errors
    /// Whatever is neither right nor told as damage.
    pub fn examine(&self, storage: &FaultyStorage) -> Result<Found, String> {
        let store = match Store::open_on(Arc::new(storage.clone()), self.options()) {
            Ok(store) => store,
            Err(error) => return is_told(error).map(Found::Refused),
        };
        let last = store.last_position().map_err(|error| error.to_string())?.0;
        let batches = self
            .states
            .iter()
            .position(|state| state.last_position() == last);
        let batches = batches.ok_or_else(|| format!("position {last} is no end of a batch"))?;
        let refused = read_all(&store, &self.states[batches])?;
        Ok(Found::Opened { batches, refused })
    }

    /// Opens what is left for reading only, and reads everything.
    ///
    /// # Errors
    /// As [`Victim::examine`].
    pub fn examine_as_reader(&self, storage: &FaultyStorage) -> Result<(), String> {
        match Store::open_on(Arc::new(storage.clone()), self.options().read_only()) {
            Ok(store) => {
                let last = store.last_position().map_err(|error| error.to_string())?.0;
                let state = self
                    .states
                    .iter()
                    .find(|state| state.last_position() == last);
                let state =
                    state.ok_or_else(|| format!("reader: position {last} is no end of a batch"))?;
                read_all(&store, state)
                    .map(drop)
                    .map_err(|error| format!("reader: {error}"))
            }
            Err(error) => is_told(error).map(drop),
        }
    }

    /// Whether all is there and reads as it was.
    pub fn is_whole(&self, found: &Found) -> bool {
        matches!(found, Found::Opened { batches, refused: 0 } if *batches + 1 == self.states.len())
    }
}

/// An error that tells damage.
fn is_told(error: Error) -> Result<Error, String> {
    match error.kind() {
        ErrorKind::Damaged | ErrorKind::UnsupportedVersion | ErrorKind::NotAStore => Ok(error),
        kind => Err(format!("unexpected kind {kind:?}: {error}")),
    }
}

/// Reads everything; each read is right or refused. How many were refused.
fn read_all(store: &Store, model: &Model) -> Result<usize, String> {
    let mut refused = 0;
    let streams = store.streams().map_err(|error| error.to_string())?;
    let living: Vec<_> = model
        .streams
        .iter()
        .filter(|stream| !stream.deleted)
        .collect();
    compare::same(
        "streams",
        &streams
            .iter()
            .map(|stream| (stream.id, stream.last_sequence.0))
            .collect::<Vec<_>>(),
        &living
            .iter()
            .map(|stream| (stream.id, stream.last()))
            .collect(),
    )?;
    let mut record = |found: runlog_engine::Result<_>, position: u64| match found {
        Ok(found) => same_record(
            &found,
            position,
            model.entry(position).ok_or("a record that never was")?,
        ),
        Err(error) => {
            refused += 1;
            is_told(error).map(drop)
        }
    };
    match store.scan(Position::FIRST) {
        // One error may stand for several records.
        Ok(scan) => {
            let mut last = 0;
            for found in scan {
                let position = found.as_ref().map_or(0, |found| found.position.0);
                if position != 0 && position <= last {
                    return Err(format!("scan: position {position} after {last}"));
                }
                last = last.max(position);
                record(found, position)?;
            }
            let scan = || {
                store
                    .scan(Position::FIRST)
                    .map_err(|error| error.to_string())
            };
            compare::shown_equals("scan", scan()?, |see| {
                scan()?.for_each_ref(see);
                Ok(())
            })?;
        }
        Err(error) => drop(is_told(error)?),
    }
    for position in 1..=model.last_position() {
        record(
            store
                .record(Position(position))
                .map(|found| found.expect("it was published")),
            position,
        )?;
    }
    for stream in &living {
        let read = store
            .read(stream.id, ReadOptions::default())
            .map_err(|error| error.to_string())?;
        let mut rest = &stream.positions[..];
        for found in read {
            let position = found.as_ref().map_or(0, |found| found.position.0);
            if position != 0 {
                let place = rest.iter().position(|other| *other == position);
                let place = place
                    .ok_or_else(|| format!("stream: position {position} is none of the rest"))?;
                rest = &rest[place + 1..];
            }
            record(found, position)?;
        }
        let read = || {
            store
                .read(stream.id, ReadOptions::default())
                .map_err(|error| error.to_string())
        };
        compare::shown_equals("stream", read()?, |see| {
            read()?.for_each_ref(see);
            Ok(())
        })?;
    }
    for stream in living {
        match store.latest_snapshot(stream.id, Sequence::MAX) {
            Err(error) => {
                refused += 1;
                is_told(error)?;
            }
            Ok(found) => {
                let expected = model.latest_snapshot(stream, u64::MAX);
                let found = found.map(|found| (found.sequence.0, found.position.0));
                compare::same("latest snapshot", &found, &expected)?;
            }
        }
    }
    Ok(refused)
}

/// What `verify` says: how many problems, or that it cannot even begin.
///
/// # Errors
/// An error that does not tell damage.
pub fn verify(storage: &FaultyStorage) -> Result<u64, String> {
    match runlog_engine::verify(storage as &dyn Storage) {
        Ok(verification) => Ok(verification.problems_count),
        Err(error) => is_told(error).map(|_| 1),
    }
}
