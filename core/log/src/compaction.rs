//! Compaction: options, report and progress.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

/// How the records of a pack are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Codec {
    /// Not compressed: reads cost no more than before.
    Plain,
    /// LZ4: a third to a half of the size, decoded at gigabytes a second. Also used where Zstandard isn't available.
    Lz4,
    /// Zstandard: the smallest.
    #[default]
    Zstd,
}

/// Which segments are rewritten.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CompactScope {
    /// Those without a live record. This costs next to nothing.
    Dead,
    /// Those of which less than half is live.
    Sparse,
    /// All that are no longer written to.
    Sealed,
    /// All, the active segment included: a new one is started for later appends.
    #[default]
    All,
}

/// The options of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CompactOptions {
    /// Which segments are rewritten.
    pub scope: CompactScope,
    /// How the live records are compressed.
    pub codec: Codec,
    /// Only report what it would do: nothing is written, no segment is started, and a store opened for reading is enough,
    /// also while another process writes. It doesn't read the records, so it counts a damaged
    /// segment, which a compaction leaves unchanged, as one that would be rewritten.
    pub dry_run: bool,
    /// The maximum number of bytes read and written per second, together; `None` for no limit.
    pub bytes_per_second: Option<u64>,
}

/// What a compaction did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compaction {
    /// How many files were rewritten.
    pub files_before: u64,
    /// How many files replace them.
    pub files_after: u64,
    /// The size of the rewritten files, in bytes.
    pub bytes_before: u64,
    /// The size of the files that replace them, in bytes. In a dry run the size without compression, so an upper bound.
    pub bytes_after: u64,
    /// How many records were dropped: data records that no stream contains, and snapshots that no stream can use.
    pub records_dropped: u64,
    /// How many redacted payloads were erased from the disk.
    pub payloads_erased: u64,
    /// How many segments were left unchanged, because a repair made them, a newer build wrote to them, or they are
    /// damaged.
    pub segments_left: u64,
    /// How many of those are damaged in live records; a verification reports where. All others were compacted.
    pub segments_damaged: u64,
    /// Whether it was cancelled, with some of its work left.
    pub is_cancelled: bool,
}

/// The progress of a compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactProgress {
    /// The number of bytes rewritten so far.
    pub bytes_done: u64,
    /// The number of bytes to rewrite in all.
    pub bytes_total: u64,
}

/// Called now and then with a compaction's progress; its result decides whether the compaction continues.
pub type OnCompactProgress<'a> = dyn FnMut(CompactProgress) -> ControlFlow<()> + Send + 'a;
