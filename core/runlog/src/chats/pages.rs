//! Pages of a chat's messages that are read from where they are in the log, so that a chat that isn't in memory needn't be folded
//! for them.
//!
//! That is possible as long as the order of the messages is that in which they were saved. A page is then a stretch of the
//! stream, with what changed or deleted messages since; what a message's sequence is follows from the nearest one before it that
//! was saved with its sequence.

use runlog_log::{Direction, Kind, ReadOptions, Record, Sequence};
use runlog_model::{
    Catalog, ChatFold, ChatMessage, MessageFilter, SessionId, changed_messages_label, kinds,
};
use serde::Deserialize;

use super::lookup::{folded, in_order_of};
use crate::{Result, Store, kernel::records::chat_stream};

/// The most events that changed or deleted messages which a page takes into account; where there are more, the chat is folded.
const CHANGES_MAX: usize = 256;
/// How many records more than a page has are read at once, for those that are deleted.
const SPARE: usize = 4;

/// Which messages to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
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
}

/// Messages that were read.
pub(super) struct Found {
    /// Each with its sequence in the stream.
    pub(super) messages: Vec<(u64, ChatMessage)>,
    pub(super) is_more: bool,
}

impl Store {
    /// Reads messages of a chat that isn't in memory; `None` where its order isn't that of the stream, or much was changed.
    pub(super) async fn messages_at(
        &self,
        session: SessionId,
        stretch: Stretch,
    ) -> Result<Option<Found>> {
        if !self
            .shared
            .catalog
            .read(|it| is_in_order(it, session))
            .await?
        {
            return Ok(None);
        }
        if self.backend().stream(chat_stream(session)).await?.is_none() {
            return Ok(Some(Found {
                messages: Vec::new(),
                is_more: false,
            }));
        }
        let mut changes = Vec::new();
        let options = in_order_of(session);
        self.each_labelled(changed_messages_label(session), options, |record| {
            changes.push(record.clone());
            Ok(changes.len() <= CHANGES_MAX)
        })
        .await?;
        if changes.len() > CHANGES_MAX {
            return Ok(None);
        }
        let wanted = stretch.limit.saturating_add(1);
        let mut reader = SavedReader::new(self, session, stretch);
        let mut count = wanted.saturating_add(SPARE);
        loop {
            reader.read(count).await?;
            if stretch.newest_first {
                reader.reach_anchor().await?;
            }
            let after = match stretch.passed {
                Some(passed) if !stretch.newest_first => passed.message,
                _ => 0,
            };
            let records = reader.records.iter().chain(&changes).cloned().collect();
            let fold = folded(ChatFold::after_message(after), records)?;
            let found = fold.message_count(&MessageFilter::default());
            if found < wanted && !reader.is_over {
                count = count.saturating_mul(2);
                continue;
            }
            return Ok(Some(found_in(&fold, &reader.records, stretch)));
        }
    }

    /// The largest sequence that a message has up to a sequence of the chat's stream, of a chat whose order is that of the stream.
    pub(super) async fn last_message_sequence(
        &self,
        session: SessionId,
        last: Sequence,
    ) -> Result<u64> {
        let stretch = Stretch {
            newest_first: true,
            limit: 1,
            passed: Some(Passed {
                message: 0,
                at: last.0.saturating_add(1),
            }),
        };
        let mut reader = SavedReader::new(self, session, stretch);
        reader.read(1).await?;
        reader.reach_anchor().await?;
        let mut number = 0;
        for record in reader.records.iter().rev() {
            number = match sequence_told(record) {
                0 => number + 1,
                told => told,
            };
        }
        Ok(number)
    }
}

/// Whether the order of a chat's messages is that in which they were saved.
pub(super) fn is_in_order(catalog: &Catalog, session: SessionId) -> bool {
    catalog.session(session).is_some_and(|session| {
        session.copied_from.is_none() && !session.chat.as_ref().is_some_and(|chat| chat.reordered)
    })
}

fn found_in(fold: &ChatFold, records: &[Record], stretch: Stretch) -> Found {
    let filter = MessageFilter::default();
    let all = fold
        .admitted(&filter, None..None)
        .map(|(_, message)| message);
    let messages: Vec<&ChatMessage> = if stretch.newest_first {
        all.rev().take(stretch.limit.saturating_add(1)).collect()
    } else {
        all.take(stretch.limit.saturating_add(1)).collect()
    };
    let is_more = messages.len() > stretch.limit;
    let at = |message: &ChatMessage| {
        let saved = records
            .iter()
            .find(|record| Some(record.position.0) == message.id);
        saved.map_or(0, |record| record.sequence.0)
    };
    let messages = messages.into_iter().take(stretch.limit);
    Found {
        messages: messages
            .map(|message| (at(message), message.clone()))
            .collect(),
        is_more,
    }
}

/// Reads the records that saved messages, from one end of a stretch on.
struct SavedReader<'a> {
    store: &'a Store,
    session: SessionId,
    newest_first: bool,
    /// Where to go on; nothing is read from 0 on.
    next: Option<Sequence>,
    records: Vec<Record>,
    is_over: bool,
}

impl<'a> SavedReader<'a> {
    fn new(store: &'a Store, session: SessionId, stretch: Stretch) -> Self {
        let next = match (stretch.passed, stretch.newest_first) {
            (None, true) => Some(Sequence::MAX),
            (None, false) => Some(Sequence::FIRST),
            (Some(passed), true) => passed.at.checked_sub(1).filter(|at| *at > 0).map(Sequence),
            (Some(passed), false) => Some(Sequence(passed.at).next()),
        };
        Self {
            store,
            session,
            newest_first: stretch.newest_first,
            next,
            records: Vec::new(),
            is_over: next.is_none(),
        }
    }

    /// Reads so many more.
    async fn read(&mut self, count: usize) -> Result<()> {
        let wanted = self.records.len().saturating_add(count);
        while let Some(next) = self.next.filter(|_| self.records.len() < wanted) {
            let (first, last, direction) = if self.newest_first {
                (Sequence::FIRST, next, Direction::Backward)
            } else {
                (next, Sequence::MAX, Direction::Forward)
            };
            let options = ReadOptions {
                first,
                last,
                direction,
                kinds: vec![Kind(kinds::MESSAGE_SAVED)],
                limit: (wanted - self.records.len()) as u64,
            };
            let page = self
                .store
                .backend()
                .read(chat_stream(self.session), options)
                .await?;
            self.records.extend(page.records);
            self.next = page.next.filter(|next| next.0 > 0);
        }
        self.is_over = self.next.is_none();
        Ok(())
    }

    /// Reads on backwards to a message that was saved with its sequence, or to the first one.
    async fn reach_anchor(&mut self) -> Result<()> {
        let mut more = SPARE;
        while !self.is_over && self.records.last().is_none_or(|it| sequence_told(it) == 0) {
            self.read(more).await?;
            more = more.saturating_mul(2);
        }
        Ok(())
    }
}

/// The sequence that a message was saved with; 0 for the next one.
fn sequence_told(record: &Record) -> u64 {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        sequence: u64,
    }
    if record.redacted {
        return 0;
    }
    serde_json::from_slice(&record.payload).map_or(0, |Told { sequence }| sequence)
}
