//! [`SavedReader`]: the records of saved messages, from one end of a part of a chat.

use runlog_log::{Direction, FindOptions, Kind, Label, Position, ReadOptions, Record, Sequence};
use runlog_model::{MessageFilter, SessionId, kinds};
use serde::Deserialize;

use crate::{ErrorKind, Result, Store, kernel::records::chat_stream};

/// Which messages to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch<'a> {
    /// Only messages that match it; its limit and offset are ignored.
    pub(super) filter: &'a MessageFilter,
    /// From the end of the chat to its beginning.
    pub(super) newest_first: bool,
    pub(super) limit: usize,
    /// The last one of the page before.
    pub(super) passed: Option<Passed>,
}

/// A message that a page ended with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    /// Its sequence in the chat.
    pub(super) message: u64,
    /// Its sequence in the stream.
    pub(super) at: u64,
    /// Its position in the log.
    pub(super) position: u64,
}

/// Reads the records of saved messages, from one end of a range: all of them, or those of a label.
pub(super) struct SavedReader<'a> {
    store: &'a Store,
    session: SessionId,
    newest_first: bool,
    /// The last sequence of the chat's stream that is read.
    last: Sequence,
    by: By,
    pub(super) records: Vec<Record>,
    pub(super) is_over: bool,
}

/// How the records are found, and where the next read begins; `None` at the end.
enum By {
    Sequence(Option<Sequence>),
    Label(Label, Option<Position>),
}

impl<'a> SavedReader<'a> {
    pub(super) fn new(
        store: &'a Store,
        session: SessionId,
        stretch: Stretch<'_>,
        label: Option<Label>,
        last: Sequence,
    ) -> Self {
        let newest_first = stretch.newest_first;
        let start = |begin: u64, passed: Option<u64>| match (passed, newest_first) {
            (None, true) => Some(u64::MAX),
            (None, false) => Some(begin),
            (Some(passed), true) => passed.checked_sub(1).filter(|at| *at > 0),
            (Some(passed), false) => Some(passed.saturating_add(1)),
        };
        let at = |of: fn(Passed) -> u64| stretch.passed.map(of);
        let by = match label {
            None => By::Sequence(start(1, at(|passed| passed.at)).map(Sequence)),
            Some(label) => By::Label(label, start(0, at(|passed| passed.position)).map(Position)),
        };
        Self {
            store,
            session,
            newest_first,
            last,
            is_over: matches!(by, By::Sequence(None) | By::Label(_, None)),
            by,
            records: Vec::new(),
        }
    }

    /// Reads `count` more.
    pub(super) async fn read(&mut self, count: usize) -> Result<()> {
        let wanted = self.records.len().saturating_add(count);
        while !self.is_over && self.records.len() < wanted {
            let limit = (wanted - self.records.len()) as u64;
            self.is_over = match self.by {
                By::Sequence(next) => self.read_page(next, limit).await?,
                By::Label(label, next) => self.find_page(label, next, limit).await?,
            };
        }
        Ok(())
    }

    /// Reads a page, and returns whether it was the last one.
    async fn read_page(&mut self, next: Option<Sequence>, limit: u64) -> Result<bool> {
        let next = next.unwrap_or(Sequence::FIRST);
        let (first, last, direction) = match self.newest_first {
            true => (Sequence::FIRST, next.min(self.last), Direction::Backward),
            false => (next, self.last, Direction::Forward),
        };
        let options = ReadOptions {
            first,
            last,
            direction,
            kinds: vec![Kind(kinds::MESSAGE_SAVED)],
            limit,
        };
        let stream = chat_stream(self.session);
        let page = self.store.backend().read(stream, options).await?;
        self.records.extend(page.records);
        let next = page.next.filter(|next| next.0 > 0);
        self.by = By::Sequence(next);
        Ok(next.is_none())
    }

    /// The same of the records of a label.
    async fn find_page(
        &mut self,
        label: Label,
        next: Option<Position>,
        limit: u64,
    ) -> Result<bool> {
        let mut options = FindOptions {
            stream: Some(chat_stream(self.session)),
            limit,
            ..FindOptions::default()
        };
        match self.newest_first {
            true => options.last = next.unwrap_or(options.last),
            false => {
                options.direction = Direction::Forward;
                options.first = next.unwrap_or(options.first);
            }
        }
        let page = match self.store.backend().find(label, options).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
            page => page?,
        };
        let is_saved =
            |record: &Record| record.kind.0 == kinds::MESSAGE_SAVED && record.sequence <= self.last;
        self.records
            .extend(page.records.into_iter().filter(is_saved));
        self.by = By::Label(label, page.next);
        Ok(page.next.is_none())
    }

    /// The records whose message sequences are known. Backwards these end at the last one that was saved with a
    /// sequence, or at the chat's first message; of a label, at the first one that was saved without.
    pub(super) fn numbered(&self) -> &[Record] {
        let is_explicit = |record: &Record| explicit_sequence(record) != 0;
        let count = match self.by {
            By::Label(..) => self.records.iter().take_while(|it| is_explicit(it)).count(),
            By::Sequence(_) if !self.newest_first || self.is_over => self.records.len(),
            By::Sequence(_) => {
                let anchor = self.records.iter().rposition(is_explicit);
                anchor.map_or(0, |at| at + 1)
            }
        };
        &self.records[..count]
    }
}

/// The sequence that a message was saved with; 0 for the next one.
pub(super) fn explicit_sequence(record: &Record) -> u64 {
    #[derive(Deserialize)]
    struct Saved {
        #[serde(default)]
        sequence: u64,
    }
    if record.redacted {
        return 0;
    }
    serde_json::from_slice(&record.payload).map_or(0, |Saved { sequence }| sequence)
}
