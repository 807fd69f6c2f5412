//! What tells from outside where the log ends, END and WATERMARK, and the epochs of the writers.

use super::{
    CheckpointFacts, Files, Problem,
    bytes::Cursor,
    header::{Identity, RECORDS_BEGIN},
    parts::Part,
    record::{LogRecord, MARK, PADDING},
    segment::{Log, SegmentFacts},
};

const END: &str = "END";
const WATERMARK: &str = "WATERMARK";

/// Where the log stood at the last clean close.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EndFacts {
    /// The segment that the log ended in.
    pub segment: u32,
    /// Where its records ended.
    pub offset: u64,
    /// The position after the log's last record's.
    pub next_position: u64,
    /// The epoch of the writer that closed.
    pub epoch: u32,
    salt: u32,
    last_offset: u64,
    last_crc: u32,
}

impl EndFacts {
    pub(super) fn read(files: &Files, identity: &Identity) -> Result<Option<Self>, Problem> {
        let Some(bytes) = files.get(END) else {
            return Ok(None);
        };
        if bytes.len() != 128 {
            return Err(Problem::new(
                END,
                0,
                format!("expected 128 bytes, found {}", bytes.len()),
            ));
        }
        let mut cursor = Cursor::of_checked(END, 0, bytes, b"RUNLOGEN")?;
        cursor.known(&1_u32.to_le_bytes(), "format version")?;
        cursor.u32()?;
        cursor.expect(&identity.store, "store id")?;
        let segment = cursor.u32()?;
        let salt = cursor.u32()?;
        let offset = cursor.u64()?;
        let next_position = cursor.u64()?;
        let last_offset = cursor.u64()?;
        let last_crc = cursor.u32()?;
        let epoch = cursor.u32()?;
        cursor.time()?;
        cursor.zeros(44)?;
        cursor.end()?;
        Ok(Some(Self {
            segment,
            offset,
            next_position,
            epoch,
            salt,
            last_offset,
            last_crc,
        }))
    }

    /// That the log reaches this end, and is what it was up to there.
    pub(super) fn check(&self, log: &Log<'_>) -> Result<(), Problem> {
        let wrong = |at: u64, message: String| Err(Problem::new(END, at, message));
        // The log reached further than that.
        if let Some(pack) = log.packed(self.segment) {
            let positions = pack.base_position..=pack.next_position;
            return if positions.contains(&self.next_position) {
                Ok(())
            } else {
                let message = format!(
                    "next position: {} is not of the pack of segments {} to {}",
                    self.next_position, pack.id, pack.last_id
                );
                wrong(48, message)
            };
        }
        let Some(segment) = log
            .segments
            .iter()
            .find(|segment| segment.id == self.segment)
        else {
            return wrong(32, format!("segment {} is not there", self.segment));
        };
        if self.salt != segment.salt {
            return wrong(
                36,
                format!(
                    "salt: expected {:08x}, found {:08x}",
                    segment.salt, self.salt
                ),
            );
        }
        if self.offset > segment.data_end {
            return wrong(
                40,
                format!(
                    "the records ended at {}, now at {}",
                    self.offset, segment.data_end
                ),
            );
        }
        let Some(border) = Border::at(log, self.segment, self.offset) else {
            return wrong(40, format!("no batch ends at {}", self.offset));
        };
        let next_position = border
            .last
            .map_or(segment.base_position, |last| last.position + 1);
        // Positions behind a repaired segment's records may be given already.
        let is_within = segment.repaired
            && (next_position..=segment.next_position).contains(&self.next_position);
        if next_position != self.next_position && !is_within {
            return wrong(
                48,
                format!(
                    "next position: expected {next_position}, found {}",
                    self.next_position
                ),
            );
        }
        let (expected, found) = (
            border.last.map_or((0, 0), |last| (last.offset, last.crc)),
            (self.last_offset, self.last_crc),
        );
        if expected != found && !border.last.is_some_and(|last| last.lost) {
            return wrong(
                56,
                format!(
                    "offset and crc of the last record: expected {expected:?}, found {found:?}"
                ),
            );
        }
        Ok(())
    }
}

/// A place where batches end.
struct Border<'a> {
    /// The last record with a position before it, in the same segment.
    last: Option<&'a LogRecord>,
}

impl<'a> Border<'a> {
    fn at(log: &'a Log<'_>, segment: u32, offset: u64) -> Option<Self> {
        let mut before = log
            .records
            .iter()
            .filter(|record| record.segment == segment && record.offset < offset);
        let last = before.clone().next_back();
        let ends = last.map_or(RECORDS_BEGIN, LogRecord::end);
        let is_border = ends == offset && last.is_none_or(LogRecord::is_batch_last);
        let facts = log.segments.iter().find(|facts| facts.id == segment)?;
        if !is_border && !facts.repaired {
            return None;
        }
        Some(Self {
            last: before.rfind(|record| record.has_position()),
        })
    }
}

/// The watermark counts if it checks and was written since the system was started.
pub(super) fn check_watermark(
    files: &Files,
    identity: &Identity,
    boot: Option<[u8; 16]>,
    log: &Log<'_>,
) -> Result<(), Problem> {
    let Some(file) = files.get(WATERMARK) else {
        return Ok(());
    };
    // It is overwritten in place and never flushed: one that doesn't check is nothing.
    let length = file
        .get(12..16)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("4 bytes")));
    let length = length
        .and_then(|length| usize::try_from(length).ok())
        .filter(|length| (96..=4096).contains(length));
    let Some(bytes) = length.and_then(|length| file.get(..length)) else {
        return Ok(());
    };
    let Ok(mut cursor) = Cursor::of_checked(WATERMARK, 0, bytes, b"RUNLOGWM") else {
        return Ok(());
    };
    cursor.known(&1_u32.to_le_bytes(), "format version")?;
    cursor.u32()?;
    let store: [u8; 16] = cursor.array()?;
    let found_boot: [u8; 16] = cursor.array()?;
    let epoch = cursor.u32()?;
    let segment = cursor.u32()?;
    let position = cursor.u64()?;
    let offset = cursor.u64()?;
    // It counts replaced files for readers that are open; nothing in the folder follows from it.
    cursor.u64()?;
    cursor.zeros(bytes.len() - 84)?;
    cursor.end()?;
    if boot != Some(found_boot) {
        return Ok(());
    }
    if file.len() != bytes.len() {
        return Err(Problem::new(
            WATERMARK,
            12,
            format!("its length says {}, not {}", bytes.len(), file.len()),
        ));
    }
    if store != identity.store {
        return Err(Problem::new(WATERMARK, 16, "of another store"));
    }
    let facts = log.segments.iter().find(|facts| facts.id == segment);
    let border = facts.and_then(|facts| Some((facts, Border::at(log, segment, offset)?)));
    let is_right = border.is_some_and(|(facts, border)| {
        let last = border
            .last
            .map_or(facts.base_position - 1, |last| last.position);
        let before = log
            .records
            .iter()
            .rfind(|record| record.segment < segment && record.has_position());
        // In an empty segment behind lost records the last one that is there is as good.
        position == last
            || border.last.is_none() && position == before.map_or(0, |before| before.position)
    });
    let is_in_pack = log
        .packed(segment)
        .is_some_and(|pack| (pack.base_position - 1..pack.next_position).contains(&position));
    if !is_right && !is_in_pack {
        let message = format!(
            "it says segment {segment}, offset {offset}, position {position}: no batch ends there"
        );
        return Err(Problem::new(WATERMARK, 52, message));
    }
    let highest = epochs_until(log, segment, offset);
    if epoch < highest {
        return Err(Problem::new(
            WATERMARK,
            48,
            format!("epoch {epoch} published what epoch {highest} wrote"),
        ));
    }
    Ok(())
}

/// The highest epoch of a header or a mark up to a place.
fn epochs_until(log: &Log<'_>, segment: u32, offset: u64) -> u32 {
    let headers = log
        .segments
        .iter()
        .filter(|facts| facts.id <= segment)
        .map(|facts| facts.epoch);
    let before = log
        .records
        .iter()
        .filter(|record| (record.segment, record.offset) < (segment, offset));
    headers
        .chain(before.filter_map(LogRecord::mark_epoch))
        .max()
        .unwrap_or(0)
}

/// That each writer has an epoch above the ones before, and a mark before its first batch.
pub(super) fn check_epochs(
    parts: &[Part],
    log: &Log<'_>,
    end: Option<&EndFacts>,
    checkpoint: Option<&CheckpointFacts>,
) -> Result<(), Problem> {
    let (mut highest, mut marked) = (0, 0);
    let mut records = log.records.iter().peekable();
    let mut before: Option<&SegmentFacts> = None;
    // The mark of an epoch up to this one may have been in a pack, which keeps none.
    let mut packed = 0;
    for (segment, part) in log.segments.iter().zip(parts) {
        let name = part.name.as_str();
        if before.replace(segment).is_some_and(SegmentFacts::is_pack) || segment.is_pack() {
            packed = segment.epoch;
        }
        if segment.epoch < highest {
            let message = format!("epoch {}, after epoch {highest}", segment.epoch);
            return Err(Problem::new(name, 112, message));
        }
        highest = segment.epoch;
        while let Some(record) = records.next_if(|record| record.segment == segment.id) {
            let wrong = |message: String| Err(Problem::new(name, record.offset, message));
            match record.kind {
                MARK => {
                    let epoch = record.mark_epoch().unwrap_or(0);
                    if epoch < highest || epoch <= marked {
                        return wrong(format!("a mark of epoch {epoch}, after epoch {highest}"));
                    }
                    (highest, marked) = (epoch, epoch);
                }
                PADDING => {}
                // The mark may be what was lost.
                _ if segment.is_pack() => {}
                _ if marked.max(packed) < highest
                    && !log.segments.iter().any(|segment| segment.repaired) =>
                {
                    return wrong(format!("a batch of epoch {highest}, before its mark"));
                }
                _ => {}
            }
        }
    }
    let stood = end.map(|end| (END, 68, end.segment, end.offset, end.epoch));
    let checkpoint = checkpoint.map(|at| ("CHECKPOINT", 32, at.segment, at.offset, at.epoch));
    for (file, at, segment, offset, epoch) in stood.into_iter().chain(checkpoint) {
        let before = epochs_until(log, segment, offset);
        let after = log
            .records
            .iter()
            .filter(|record| (record.segment, record.offset) >= (segment, offset));
        let after = after.filter_map(LogRecord::mark_epoch).min();
        if epoch < before || after.is_some_and(|after| epoch > after) {
            let message = format!("epoch {epoch}, after epoch {before} and before {after:?}");
            return Err(Problem::new(file, at, message));
        }
    }
    Ok(())
}
