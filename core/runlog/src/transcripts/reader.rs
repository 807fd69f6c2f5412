//! The parts shared by the readers of all formats: the numbering of sessions and instances, and the output.

use bytes::Bytes;
use runlog_model::RawJson;

use super::{
    message::Message,
    values::{Entry, Format, Instance, Issue, Item, Session, Severity},
};

/// Turns whole JSON values, mostly lines, into items.
pub(super) trait Reader: Send {
    /// Reads one value that begins on `line` and is one JSON value.
    fn value(&mut self, line: u64, value: &Bytes, out: &mut Output);

    /// Called when everything was read.
    fn finish(&mut self, out: &mut Output);
}

/// The output: items, with the next free numbers.
#[derive(Default)]
pub(super) struct Output {
    pub(super) items: Vec<Item>,
    sessions: usize,
    instances: usize,
}

/// The data of a session when it begins.
#[derive(Default)]
pub(super) struct Head {
    pub(super) id: Option<uuid::Uuid>,
    pub(super) name: Option<String>,
    pub(super) wrapper: Option<RawJson>,
    pub(super) record: Option<runlog_model::Session>,
}

impl Output {
    pub(super) fn session(&mut self, format: Format, head: Head) -> usize {
        let number = self.sessions;
        self.sessions += 1;
        let Head {
            id,
            name,
            wrapper,
            record,
        } = head;
        self.items.push(Item::Session(Session {
            number,
            format,
            id,
            name,
            wrapper,
            record,
        }));
        number
    }

    pub(super) fn instance(
        &mut self,
        session: usize,
        parent: Option<usize>,
        agent: String,
    ) -> usize {
        self.recorded_instance(session, parent, agent, None)
    }

    /// An instance with the id and the time from a store.
    pub(super) fn recorded_instance(
        &mut self,
        session: usize,
        parent: Option<usize>,
        agent: String,
        recorded: Option<(uuid::Uuid, u64)>,
    ) -> usize {
        let number = self.instances;
        self.instances += 1;
        let (id, created_at_ms) = recorded.unzip();
        self.items.push(Item::Instance(Instance {
            number,
            session,
            parent,
            id,
            agent,
            created_at_ms,
        }));
        number
    }

    pub(super) fn end(&mut self, session: usize) {
        self.items.push(Item::End { session });
    }

    pub(super) fn warn(&mut self, line: u64, column: u64, what: String) {
        self.items.push(Item::Issue(Issue {
            line,
            column,
            severity: Severity::Warning,
            what,
        }));
    }

    pub(super) fn error(&mut self, line: u64, column: u64, what: String) {
        self.items.push(Item::Issue(Issue {
            line,
            column,
            severity: Severity::Error,
            what,
        }));
    }
}

/// The entry of a message, or of something else to keep, if it is no message. `raw` is JSON.
pub(super) fn entry(
    session: usize,
    instance: usize,
    line: u64,
    raw: &Bytes,
    time_ms: Option<u64>,
    message: Option<Message>,
) -> Entry {
    let raw = RawJson::from_stored(raw.clone()).unwrap_or(RawJson::null());
    let events = message.map(|message| message.events).unwrap_or_default();
    Entry {
        session,
        instance,
        line,
        raw,
        envelope: None,
        time_ms,
        events,
    }
}

/// A text that was made from JSON in a way that keeps it JSON.
pub(super) fn json_text(text: String) -> RawJson {
    RawJson::from_stored(Bytes::from(text)).unwrap_or(RawJson::null())
}
