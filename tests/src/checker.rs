//! An independent reader of format v1, written from `docs/format-v1.md` alone: it shares no code and no type with
//! the engine, so that what the two agree on is what the page says.
//!
//! [`check`] reads a whole store into memory and verifies everything that the page promises: every CRC, every
//! reserved byte, the chain of segments, each index block against the records before it, what the records mean, and
//! the checkpoint and watermark against those. It stops at the first thing that is not as the page says.

use std::{collections::BTreeMap, fmt, fs, path::Path};

mod bytes;
mod checkpoint;
mod index;
mod meaning;
mod segment;

pub use checkpoint::CheckpointFacts;
pub use meaning::{Meaning, SnapshotFacts, StreamFacts};
pub use segment::{LogRecord, SegmentFacts};

/// The files of a store by name, as they are on disk.
pub type Files = BTreeMap<String, Vec<u8>>;

/// What is not as the format says, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The file.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// What was expected and what was found.
    pub message: String,
}

impl Problem {
    fn new(file: &str, offset: u64, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), offset, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.file, self.offset, self.message)
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
    /// Every record of the log, in order of position; the first has position 1.
    pub records: Vec<LogRecord>,
    /// What the records mean.
    pub meaning: Meaning,
    /// How many bytes after the last whole batch a crash cut off.
    pub torn_bytes: u64,
    /// The checkpoint, when there is one that checks.
    pub checkpoint: Option<CheckpointFacts>,
}

/// One data record of a stream: sequence, position, kind, metadata, payload.
pub type StreamRecord = (u64, u64, u8, Vec<u8>, Vec<u8>);

impl Checked {
    /// The position of the log's last record; 0 when it has none.
    pub fn last_position(&self) -> u64 {
        self.records.len() as u64
    }

    /// The records of every stream that is not deleted, in the order they were made. A redacted record has no
    /// metadata and no payload.
    pub fn streams(&self) -> Vec<([u8; 16], Vec<StreamRecord>)> {
        let living = self.meaning.streams.iter().filter(|stream| !stream.deleted);
        living.map(|stream| (stream.id, self.stream_records(stream))).collect()
    }

    fn stream_records(&self, stream: &StreamFacts) -> Vec<StreamRecord> {
        let numbered = stream.positions.iter().zip(1..);
        numbered.map(|(position, sequence)| self.stream_record(*position, sequence)).collect()
    }

    fn stream_record(&self, position: u64, sequence: u64) -> StreamRecord {
        let record = self.record(position).expect("a stream names positions of the log only");
        if self.meaning.redacted.contains(&position) {
            return (sequence, position, record.kind, Vec::new(), Vec::new());
        }
        (sequence, position, record.kind, record.meta.clone(), record.payload.clone())
    }

    /// The record with a position, as it was written.
    pub fn record(&self, position: u64) -> Option<&LogRecord> {
        self.records.get(usize::try_from(position.checked_sub(1)?).ok()?)
    }
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
    let failed = |error: std::io::Error| Problem::new(&folder.display().to_string(), 0, error.to_string());
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
    let store = check_identity(files)?;
    let names = segment_names(files)?;
    let log = segment::read_log(files, &names, &store)?;
    let checkpoint = checkpoint::read(files, &store)?;
    let meaning = apply(files, &names, &log, checkpoint.as_ref())?;
    check_watermark(files, &store, boot, &log)?;
    Ok(Checked { store, segments: log.segments, records: log.records, meaning, torn_bytes: log.torn_bytes, checkpoint })
}

/// Applies every record in order, and compares what was derived from them on the way.
fn apply(
    files: &Files,
    names: &[String],
    log: &segment::Log,
    checkpoint: Option<&CheckpointFacts>,
) -> Result<Meaning, Problem> {
    let mut meaning = Meaning::default();
    let mut reached = checkpoint.is_none();
    let last_is_empty = log.segments.last().is_some_and(|last| last.records == 0);
    for (segment, name) in log.segments.iter().zip(names) {
        let mut index = index::Builder::default();
        if segment.next_stream as usize != meaning.streams.len() + 1 {
            let message = format!("next stream: expected {}, found {}", meaning.streams.len() + 1, segment.next_stream);
            return Err(Problem::new(name, 64, message));
        }
        for count in 0..=segment.records {
            let applied = usize::try_from(segment.base_position - 1).expect("in memory") + count as usize;
            if let Some(checkpoint) = checkpoint.filter(|checkpoint| checkpoint.is_at(segment.id, count)) {
                checkpoint.check(segment, &log.records[..applied], &index, &meaning)?;
                reached = true;
            }
            if let Some(record) = log.records.get(applied).filter(|_| count < segment.records) {
                meaning.apply(record, &log.records).map_err(|message| Problem::new(name, record.offset, message))?;
                index.add(record, &meaning);
            }
        }
        if let Some(trailer) = &segment.trailer {
            let start = usize::try_from(trailer.data_end).expect("in memory");
            let checked = index::check_block(name, &files[name][start..], segment, trailer, &index, &meaning);
            // Only a record in the next segment proves that a seal was durable.
            let may_be_torn = last_is_empty && segment.id as usize + 1 == log.segments.len();
            checked.or_else(|problem| if may_be_torn { Ok(()) } else { Err(problem) })?;
        }
    }
    if !reached {
        return Err(Problem::new("CHECKPOINT", 0, "the log ends before it, so it is damaged"));
    }
    Ok(meaning)
}

fn check_identity(files: &Files) -> Result<[u8; 16], Problem> {
    const NAME: &str = "RUNLOG";
    let bytes = files.get(NAME).ok_or_else(|| Problem::new(NAME, 0, "missing: not a store"))?;
    let mut cursor = bytes::Cursor::new(NAME, 0, bytes);
    cursor.expect(b"RUNLOGST", "magic")?;
    cursor.expect(&1_u32.to_le_bytes(), "format version")?;
    cursor.zeros(4)?;
    let store = cursor.array()?;
    cursor.u64()?;
    cursor.zeros(20)?;
    cursor.crc()?;
    cursor.end()?;
    Ok(store)
}

/// The segments in order; a name that the page doesn't know is a problem.
fn segment_names(files: &Files) -> Result<Vec<String>, Problem> {
    let mut numbered = BTreeMap::new();
    for name in files.keys() {
        let number = name.strip_suffix(".seg").filter(|digits| {
            digits.len() >= 8 && digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with("000000000")
        });
        let cut = name.starts_with("cut-") && name.ends_with(".bin");
        let known = ["RUNLOG", "CHECKPOINT", "WATERMARK", "LOCK"].contains(&name.as_str());
        match number.and_then(|digits| digits.parse::<u32>().ok()) {
            Some(number) => drop(numbered.insert(number, name.clone())),
            None if known || cut || name.ends_with(".tmp") => {}
            None => return Err(Problem::new(name, 0, "no file of a store has this name")),
        }
    }
    for ((number, name), expected) in numbered.iter().zip(1..) {
        if *number != expected {
            return Err(Problem::new(name, 0, format!("segment {expected} is missing")));
        }
    }
    Ok(numbered.into_values().collect())
}

/// The watermark counts if it checks and was written since the system was started.
fn check_watermark(files: &Files, store: &[u8; 16], boot: Option<[u8; 16]>, log: &segment::Log) -> Result<(), Problem> {
    const NAME: &str = "WATERMARK";
    let Some((bytes, boot)) = files.get(NAME).zip(boot) else { return Ok(()) };
    let mut cursor = bytes::Cursor::new(NAME, 0, bytes);
    let Ok((found_store, found_boot)) = cursor.array().and_then(|store| Ok((store, cursor.array()?))) else {
        return Ok(());
    };
    let segment = cursor.u32()?;
    cursor.zeros(4)?;
    let position = cursor.u64()?;
    let offset = u64::from(cursor.u32()?) * 8;
    if cursor.crc().is_err() || found_boot != boot {
        return Ok(());
    }
    cursor.end()?;
    let facts = log.segments.iter().find(|facts| facts.id == segment);
    let is_here = |facts: &&SegmentFacts| {
        let last = log.records.iter().take_while(|record| record.position <= position).last();
        let end = last.filter(|last| last.segment == facts.id).map_or(4096, |last| last.offset + last.bytes);
        let whole = last.is_none_or(LogRecord::is_batch_last);
        whole && end == offset && last.map_or(0, |last| last.position) == position
    };
    if found_store == *store && facts.filter(is_here).is_some() {
        return Ok(());
    }
    let message = format!("it says segment {segment}, offset {offset}, position {position}: no batch ends there");
    Err(Problem::new(NAME, 32, message))
}
