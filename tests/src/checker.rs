//! An independent reader of format v1, written from `docs/format-v1.md` alone: it shares no code and no type with
//! the engine, so that what the two agree on is what the page says.
//!
//! [`check`] reads a whole store into memory and verifies everything that the page promises: every CRC, every
//! reserved byte, the chain of segments, each index block against the records before it, what the records mean, and
//! what END, the checkpoint and the watermark say against those. It stops at the first thing that is not as the page
//! says, and tells damage from what a newer build wrote.

use std::{collections::BTreeMap, fmt, fs, path::Path};

mod builder;
mod bytes;
mod checkpoint;
mod ends;
mod header;
mod index;
mod meaning;
mod pack;
mod packed;
mod parts;
mod record;
mod repaired;
mod replay;
mod segment;
mod siphash;
#[cfg(test)]
mod tests;

pub use checkpoint::CheckpointFacts;
pub use ends::EndFacts;
pub use meaning::{Meaning, SnapshotFacts, StreamFacts};
pub use packed::Receipt;
pub use record::LogRecord;
pub use segment::SegmentFacts;

use header::Identity;

/// The files of a store by name, as they are on disk.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Whose bytes they are that this version of the format doesn't allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// Nobody's: they are damaged, or were written wrongly.
    Damage,
    /// A newer build's: the checks are right, and what they cover means something unknown.
    NewerBuild,
}

/// What is not as the format says, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Whether it is damage, or only unknown.
    pub cause: Cause,
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What was expected and what was found.
    pub message: String,
}

impl Problem {
    fn new(file: &str, offset: u64, message: impl Into<String>) -> Self {
        Self {
            cause: Cause::Damage,
            file: file.to_owned(),
            offset,
            message: message.into(),
        }
    }

    fn of_newer_build(self) -> Self {
        Self {
            cause: Cause::NewerBuild,
            ..self
        }
    }

    /// Whether the bytes are right, and a newer build's.
    pub fn is_newer(&self) -> bool {
        self.cause == Cause::NewerBuild
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = if self.is_newer() {
            "written by a newer build: "
        } else {
            ""
        };
        write!(
            f,
            "{} at {}: {cause}{}",
            self.file, self.offset, self.message
        )
    }
}

impl std::error::Error for Problem {}

/// A store that is as the format says, read whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// The id of the store.
    pub store: [u8; 16],
    /// Its segments, in order.
    pub segments: Vec<SegmentFacts>,
    /// Every record of the log that has a position, in order of position: but for those that packs left out.
    pub records: Vec<LogRecord>,
    /// What is kept of batches with keys in packs.
    pub receipts: Vec<Receipt>,
    /// The padding and the marks between them.
    pub marks: Vec<LogRecord>,
    /// What the records mean.
    pub meaning: Meaning,
    /// How many bytes after the last whole batch a crash cut off.
    pub torn_bytes: u64,
    /// Where the log stood at the last clean close.
    pub end: Option<EndFacts>,
    /// The checkpoint, when there is one that checks.
    pub checkpoint: Option<CheckpointFacts>,
    /// Copies of headers that are damaged, while another copy checks.
    pub damaged_copies: Vec<Problem>,
    /// The names of files that are none of a store's.
    pub unlisted: Vec<String>,
}

/// One data record of a stream: sequence, position, kind, metadata, payload.
pub type StreamRecord = (u64, u64, u8, Vec<u8>, Vec<u8>);

impl Checked {
    /// The position of the log's last record; 0 when it has none. A pack tells it of one that was left out.
    pub fn last_position(&self) -> u64 {
        let last = self.records.last().map_or(0, |last| last.position);
        let packs = self.segments.iter().filter(|segment| segment.is_pack());
        let ends = packs.map(|segment| segment.next_position - 1);
        ends.chain([last]).max().unwrap_or(0)
    }

    /// The records of every stream that is not deleted, in the order they were made. A redacted record has no
    /// metadata and no payload.
    pub fn streams(&self) -> Vec<([u8; 16], Vec<StreamRecord>)> {
        let living = self.meaning.streams.iter().filter(|stream| !stream.deleted);
        living
            .map(|stream| (stream.id, self.stream_records(stream)))
            .collect()
    }

    fn stream_records(&self, stream: &StreamFacts) -> Vec<StreamRecord> {
        let numbered = stream.positions.iter().zip(1..);
        numbered
            .filter_map(|(position, sequence)| self.stream_record(*position, sequence))
            .collect()
    }

    /// `None` for one that was lost.
    fn stream_record(&self, position: u64, sequence: u64) -> Option<StreamRecord> {
        let record = self.record(position).filter(|record| !record.lost)?;
        if self.meaning.redacted.contains(&position) {
            return Some((sequence, position, record.kind, Vec::new(), Vec::new()));
        }
        Some((
            sequence,
            position,
            record.kind,
            record.meta.clone(),
            record.payload.clone(),
        ))
    }

    /// The positions of the records that have a label and are not redacted, in order.
    pub fn found(&self, label: u64) -> Vec<u64> {
        let has_it = self
            .records
            .iter()
            .filter(|record| record.labels.contains(&label));
        has_it
            .map(|record| record.position)
            .filter(|position| !self.meaning.redacted.contains(position))
            .collect()
    }

    /// The record with a position, as it was written.
    pub fn record(&self, position: u64) -> Option<&LogRecord> {
        at_position(&self.records, position)
    }
}

/// The record with a position, of records in order of position.
fn at_position(records: &[LogRecord], position: u64) -> Option<&LogRecord> {
    let place = records
        .binary_search_by_key(&position, |record| record.position)
        .ok()?;
    records.get(place)
}

/// Reads and verifies the store in a folder.
///
/// # Errors
/// The first thing that is not as the format says.
pub fn check(folder: &Path) -> Result<Checked, Problem> {
    check_files(&read_folder(folder)?, running_boot_id())
}

/// The files of a folder.
///
/// # Errors
/// A file that cannot be read.
pub fn read_folder(folder: &Path) -> Result<Files, Problem> {
    let failed =
        |error: std::io::Error| Problem::new(&folder.display().to_string(), 0, error.to_string());
    let mut files = Files::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Unfinished files come and go while a writer has the folder.
        if name.ends_with(".tmp") {
            continue;
        }
        files.insert(name, fs::read(entry.path()).map_err(failed)?);
    }
    Ok(files)
}

/// The id of the running system since it was started, as the page tells to find it.
pub fn running_boot_id() -> Option<[u8; 16]> {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digits: Vec<u8> = text.trim().bytes().filter(|byte| *byte != b'-').collect();
    let mut id = [0; 16];
    if digits.len() != 2 * id.len() {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(id)
}

/// Verifies a store given as its files. `boot` is the id of the running system, for the watermark.
///
/// # Errors
/// The first thing that is not as the format says.
pub fn check_files(files: &Files, boot: Option<[u8; 16]>) -> Result<Checked, Problem> {
    let identity = Identity::read(files)?;
    let (parts, unlisted) = parts::choose(files)?;
    let mut log = segment::read_log(files, &parts, &identity)?;
    let end = EndFacts::read(files, &identity)?;
    if let Some(end) = &end {
        end.check(&log)?;
    }
    let checkpoint = checkpoint::read(files, &identity.store)?;
    ends::check_epochs(&parts, &log, end.as_ref(), checkpoint.as_ref())?;
    ends::check_watermark(files, &identity, boot, &log)?;
    let replayed = replay::replay(&parts, &identity, &mut log, checkpoint.as_ref())?;
    Ok(Checked {
        store: identity.store,
        segments: log.segments,
        records: replayed.records,
        receipts: log.receipts,
        marks: replayed.marks,
        meaning: replayed.meaning,
        torn_bytes: log.torn_bytes,
        end,
        checkpoint,
        damaged_copies: log.damaged_copies,
        unlisted,
    })
}
