//! The options and results of exports and imports.

use runlog_model::SessionId;
use serde::Serialize;

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What<'a> {
    /// The whole store: every session, deleted ones too, and every other stream.
    All,
    /// These sessions, and those of the runs that spawned their runs or were resumed by them.
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
    /// How many messages were added to contexts.
    pub messages: u64,
    /// How many messages were added to chats.
    pub chat_messages: u64,
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

/// Something that was left out, because the store has something else under its id, or because the archive lacks it or what comes
/// before it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ImportConflict"))]
pub struct Conflict {
    /// The line of the archive, from 1.
    pub line: u64,
    /// What it is, and what is in the way.
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
