//! Compaction: what is to be given back, and what was.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

/// How the records of a pack are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Codec {
    /// Not at all: reading costs nothing more than before.
    Plain,
    /// LZ4: a third to a half of the size, decoded at gigabytes a second. Where there is no Zstandard, this takes its place.
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
    /// Those of which nothing is in use any more. It costs next to nothing.
    Dead,
    /// Those of which less than half is in use.
    Sparse,
    /// All that are no longer written to.
    Sealed,
    /// All, and what was written last too: a new segment is begun for what comes.
    #[default]
    All,
}

/// What a compaction is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CompactOptions {
    /// Which segments.
    pub scope: CompactScope,
    /// How what stays is compressed.
    pub codec: Codec,
    /// Only say what it would do: nothing is written, no segment begun.
    pub dry_run: bool,
    /// At most so many bytes are read and written in a second, together; `None` for as fast as it goes.
    pub bytes_per_second: Option<u64>,
}

/// What a compaction did, or would do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compaction {
    /// How many files were rewritten.
    pub files_before: u64,
    /// How many are in their place.
    pub files_after: u64,
    /// How many bytes those had.
    pub bytes_before: u64,
    /// How many bytes these have. In a dry run as many as would be left without any compression; it is less then.
    pub bytes_after: u64,
    /// How many records were given up: data records that no stream has, and snapshots that no stream can use.
    pub records_dropped: u64,
    /// How many redacted payloads were erased from the disk.
    pub payloads_erased: u64,
    /// How many segments were left as they are, because a repair made them, a newer build wrote to them, or they are damaged.
    pub segments_left: u64,
    /// How many of those are damaged in what would have stayed; a verification says where. All others were compacted.
    pub segments_damaged: u64,
    /// Whether it ended because it was told to, with some of its work left.
    pub is_cancelled: bool,
}

/// How far a compaction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CompactProgress {
    /// So many bytes were rewritten, …
    pub bytes_done: u64,
    /// … of so many.
    pub bytes_total: u64,
}

/// Told now and then how far a compaction has come; says whether it goes on.
pub type OnCompactProgress<'a> = dyn FnMut(CompactProgress) -> ControlFlow<()> + Send + 'a;
