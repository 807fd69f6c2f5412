//! [`Outcome`]: the result of importing one session, and the batches in which it is written.

use runlog::{Session, contexts::ContextEventKind, transcripts::Entry};

/// A batch is committed once it has this many entries,
pub(super) const BATCH_ENTRIES: usize = 1000;
/// or this many bytes.
pub(super) const BATCH_BYTES: usize = 4 << 20;

/// The result of importing one session.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The session; `None` when it could be neither found nor created.
    pub(crate) session: Option<Session>,
    /// `created`, `continued`, `completed`, `unchanged` or `conflict`.
    pub(crate) what: &'static str,
    /// Whether anything was written.
    pub(crate) has_changed: bool,
    /// Messages that were added.
    pub(crate) messages: u64,
    /// Tool calls that were added.
    pub(crate) tool_calls: u64,
    /// Other entries that were added.
    pub(crate) other: u64,
    /// Entries that were there already,
    pub(crate) skipped: u64,
    /// and how many of these are messages.
    pub(crate) skipped_messages: u64,
    /// Where the session in the store differs, and how.
    pub(crate) conflict: Option<(u64, String)>,
}

/// Which part of a session is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// More follows.
    Inner,
    /// Nothing follows: the session is complete.
    Last,
    /// Nothing follows from this file, which ended before the session was complete.
    BrokenOff,
}

impl Outcome {
    pub(super) fn count(&mut self, entry: &Entry) {
        self.messages += u64::from(entry.is_message());
        self.tool_calls += entry
            .events
            .iter()
            .filter(|event| event.kind == ContextEventKind::ToolCall)
            .count() as u64;
        self.other += u64::from(entry.events.is_empty());
    }

    pub(super) fn add(&mut self, written: &Self) {
        self.messages += written.messages;
        self.tool_calls += written.tool_calls;
        self.other += written.other;
    }
}
