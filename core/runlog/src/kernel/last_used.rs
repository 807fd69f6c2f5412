//! When a stream was used last.

use runlog_log::{Direction, Kind, ReadOptions, Record, Sequence, StreamId};
use runlog_model::{ChatEvent, kinds};

use crate::{ErrorKind, Result, Store};

/// The most lost records at the end of a stream that are passed over for its time.
const LOST_MAX: usize = 64;

impl Store {
    /// When a stream was used last, up to a sequence: when its last record was written, or, if that tells of an erasure, when it was
    /// used before. If that is lost, the last one before it that can be read tells.
    pub(crate) async fn last_used_ms(&self, stream: StreamId, mut last: Sequence) -> Result<u64> {
        for _ in 0..LOST_MAX {
            let options = ReadOptions {
                last,
                direction: Direction::Backward,
                limit: 1,
                ..ReadOptions::default()
            };
            match self.backend().read(stream, options).await {
                Err(error) if error.kind() == ErrorKind::Damaged && last.0 > 1 => last.0 -= 1,
                Err(error) if error.kind() == ErrorKind::Damaged => break,
                page => return Ok(page?.records.first().map_or(0, used_ms)),
            }
        }
        Ok(0)
    }
}

/// When the stream of a record was used, as the record tells.
fn used_ms(record: &Record) -> u64 {
    let is_deletion = record.kind == Kind(kinds::MESSAGES_DELETED) && !record.redacted;
    let decode = || ChatEvent::decode(record.kind.0, &record.meta, &record.payload).ok();
    match is_deletion.then(decode).flatten() {
        Some(ChatEvent::MessagesDeleted {
            used_at_ms: Some(used_at_ms),
            ..
        }) => used_at_ms,
        _ => record.time_ms,
    }
}
