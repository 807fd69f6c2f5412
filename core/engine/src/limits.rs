//! Every bound of the format and the engine, in one place. Checked on encode and on decode.

pub use runlog_log::limits::{
    BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KEY_BYTES_MAX, LABELS_MAX, META_BYTES_MAX, ORDINAL_MAX,
    PAYLOAD_BYTES_MAX, POSITION_MAX, SEQUENCE_MAX, STREAMS_MAX, TIME_MS_MAX,
};

/// The smallest segment: 64 KiB.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// The highest position that a segment may begin with. A segment has fewer than 2³² records, so that none of them passes
/// [`POSITION_MAX`], and sums of positions and counts can't overflow.
pub const BASE_POSITION_MAX: u64 = POSITION_MAX - u32::MAX as u64;
/// Whether this can be the position after a log's last record.
pub(crate) const fn is_next_position(position: u64) -> bool {
    0 < position && position <= POSITION_MAX + 1
}
/// The largest segment file: 1 GiB.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;
/// The largest size of a segment unless the options say otherwise: 32 MiB. After a crash the active one is read whole,
/// from the device if the page cache doesn't hold it.
pub const SEGMENT_BYTES_DEFAULT: u64 = 32 << 20;
/// The largest checkpoint that is read back: 1 GiB. A larger one is ignored and rebuilt from the log.
pub const CHECKPOINT_BYTES_MAX: u64 = 1 << 30;
