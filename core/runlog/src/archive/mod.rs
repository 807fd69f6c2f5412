//! Archives: everything that a store has, or that it has of some sessions, as JSON lines that another store can take.
//!
//! All that a store knows is records of streams, so that an archive is these records, each a line, with its payload as
//! JSON where it is JSON. [`export`] writes one, [`import`] reads one. Version 2:
//!
//! ```text
//! {"runlog":"archive","version":2}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…"}
//! {"runlog":"record","stream":"…","sequence":1,"position":9,"time_ms":…,"kind":2,"what":"user_message","meta":"…","payload":{…}}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…","parent":"…","at":1}
//! {"runlog":"snapshot","stream":"…","sequence":1,"position":12,"time_ms":…,"meta":"…","payload":{…}}
//! {"runlog":"end","streams":2,"records":1,"snapshots":1}
//! ```
//!
//! A `stream` line comes before the records of its stream. `of` says what is kept in it: `context` (of an agent instance),
//! `chat` (messages and steps), `aside` (what stood around messages where they came from), `run` (what happened to a run, and
//! its flow), `import` (how far an import came), `stream` (any other). A copy's stream names the stream that it shares its
//! first records with where that is in the archive too; else its first records are lines of its own. Records come in the
//! order in which they were written; at the end come those that list sessions, runs and agents. `meta` is base64. A payload
//! with a line break in it, or that is no JSON, is a string under `payload_text`, and one that is no text is base64 under
//! `payload_base64`; none is an empty one. `what` and `of` are for people.
//!
//! What is kept: ids, sequences, contents byte for byte, and times. What isn't: positions in the log (their order is), and with
//! them the numbers that are positions (`id` of a run's messages and tool calls, and of a chat's messages and steps); records that were truncated; idempotency keys; and of a store that has later
//! records than the archive, or no [`ImportClock`], the time that a record itself has, as in a flow's playback and in streams of
//! your own. Events of contexts, runs, chats and sessions tell their own times, which stay.
//! A snapshot that a later one of the same sequence replaced is not there any more.

mod check;
mod clock;
mod export;
mod import;
mod lines;
mod lists;
#[cfg(not(target_family = "wasm"))]
mod new_file;
mod reader;
mod write;

use runlog_model::SessionId;
use serde::Serialize;

pub use clock::ImportClock;
pub use export::export;
pub use import::{ImportSource, import};
pub use lines::ARCHIVE_VERSION;
#[cfg(not(target_family = "wasm"))]
pub use new_file::NewFile;
pub use reader::first_time;

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// The whole store: every session, deleted ones too, and every stream beside them.
    All,
    /// These sessions, and those of the runs that theirs were spawned by or go on from.
    Sessions(&'a [SessionId]),
}

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exported {
    /// The sessions, in the order they were made.
    pub sessions: Vec<SessionId>,
    /// How many streams.
    pub streams: u64,
    /// How many records.
    pub records: u64,
    /// How many snapshots.
    pub snapshots: u64,
}

/// What became of an archive.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Imported {
    /// Its sessions, in its order.
    pub sessions: Vec<ImportedSession>,
    /// How many messages were added.
    pub messages: u64,
    /// How many tool calls were added.
    pub tool_calls: u64,
    /// How many other records were added, snapshots among them.
    pub other: u64,
    /// How many records and snapshots were there already.
    pub skipped: u64,
    /// What was left out, and why.
    pub conflicts: Vec<Conflict>,
}

/// A session of an archive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ImportedSession {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It wasn't there.
    Created,
    /// It was there, and has got what was new.
    Continued,
    /// An import that was interrupted had begun it.
    Completed,
    /// Nothing of it was new.
    Unchanged,
    /// The store has something else, so that nothing of it was written.
    Conflict,
}

/// Something that was left out, because the store has something else in its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ImportConflict"))]
pub struct Conflict {
    /// The line of the archive, from 1.
    pub line: u64,
    /// What is in the way.
    pub what: String,
}

impl Outcome {
    /// Its name in snake_case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Continued => "continued",
            Self::Completed => "completed",
            Self::Unchanged => "unchanged",
            Self::Conflict => "conflict",
        }
    }
}
