//! The limits of a record, a batch and a stream, the same in every backend.

/// The largest payload of one record: 64 MiB.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;
/// The largest metadata part of one record: 32 KiB.
pub const META_BYTES_MAX: usize = 32 << 10;
/// The longest idempotency key: 255 bytes.
pub const KEY_BYTES_MAX: usize = 255;
/// The most labels of one record: 8.
pub const LABELS_MAX: usize = 8;
/// The largest atomic batch, headers included: 128 MiB.
pub const BATCH_BYTES_MAX: usize = 128 << 20;
/// The most records of one batch: 1,048,576.
pub const BATCH_RECORDS_MAX: usize = 1 << 20;
/// The highest sequence of a stream: 2³² − 2.
pub const SEQUENCE_MAX: u64 = u32::MAX as u64 - 1;
/// The most data records ever appended to a stream, truncated ones included: 2³² − 2.
pub const ORDINAL_MAX: u32 = u32::MAX - 1;
/// The most streams of one store: 2³² − 2.
pub const STREAMS_MAX: u32 = u32::MAX - 1;
/// The highest position of a record: 2⁵³ − 1, which is the largest whole number that JavaScript counts to without a gap.
pub const POSITION_MAX: u64 = (1 << 53) - 1;
/// The latest time of a record: 2⁶³ ms after 1970-01-01 UTC, less 1. Times are sums of two fields, which then can't
/// overflow.
pub const TIME_MS_MAX: u64 = (1 << 63) - 1;
