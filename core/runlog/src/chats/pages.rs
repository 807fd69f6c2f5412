//! Pages of a chat's messages that are read directly from the log, so that a chat that isn't cached needs no folding.
//!
//! This works as long as the messages are in the order in which they were saved. A page is then a range of the stream,
//! with the later events that changed or deleted messages. A message that was saved without a sequence is counted from
//! the nearest one before it that was saved with one.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use bytes::Bytes;
use runlog_log::{Label, Record, Sequence, StreamInfo};
use runlog_model::{
    Catalog, ChatEvent, ChatFold, ChatIdOf, ChatMessage, MessageField, MessageFilter, SessionId,
    changed_messages_label, kinds, limits::CHAT_SEQUENCE_MAX, request_messages_label,
};

use super::{
    cache::{apply, named},
    lookup::{event_of, folded, in_order_of},
    saved_reader::{Passed, SavedReader, Stretch, explicit_sequence},
};
use crate::{
    Error, Result, Store,
    kernel::{
        chats::{Change, Changes, MessageChange, Outcome},
        records::chat_stream,
    },
};

/// The most events that changed or deleted messages; if there are more, the chat is folded.
const CHANGES_MAX: usize = 256;
/// How many additional records are read at once for a page, because some may be deleted.
const SPARE: usize = 4;
/// The most records of saved messages that a page skips because of its filter; if there are more, the chat is folded,
/// once for all later pages.
const PASSED_MAX: usize = 1_024;
/// The most records of a request, or of a few messages, that are read without folding the chat.
const RECORDS_MAX: usize = 4_096;

/// Messages that were read.
pub(super) struct Found {
    /// Each with its sequence in the stream.
    pub(super) messages: Vec<(u64, ChatMessage)>,
    pub(super) is_more: bool,
}

impl Store {
    /// Reads messages of a chat that isn't cached; `None` if its order isn't that of the stream, too many messages were
    /// changed, or too many would be skipped.
    pub(super) async fn messages_at(
        &self,
        session: SessionId,
        stretch: Stretch<'_>,
    ) -> Result<Option<Found>> {
        let Some(info) = self.stream_in_order(session).await? else {
            return Ok(None);
        };
        if info.last_sequence == Sequence::ZERO {
            return Ok(Some(Found {
                messages: Vec::new(),
                is_more: false,
            }));
        }
        self.messages_until(session, stretch, info).await
    }

    /// The same of a chat whose order is that of the stream, as it was when its stream was this.
    pub(super) async fn messages_until(
        &self,
        session: SessionId,
        stretch: Stretch<'_>,
        info: StreamInfo,
    ) -> Result<Option<Found>> {
        let Some(changes) = self.changes_of(session, info).await? else {
            return Ok(None);
        };
        let wanted = stretch.limit.saturating_add(1);
        let label = label_for(session, stretch.filter, &changes);
        let mut reader = SavedReader::new(self, session, stretch, label, info.last_sequence);
        let is_deletion = |record: &Record| record.kind.0 == kinds::MESSAGES_DELETED;
        let spare = match changes.records.iter().any(is_deletion) {
            true => SPARE,
            false => 0,
        };
        let mut count = wanted.saturating_add(spare);
        loop {
            reader.read(count).await?;
            let after = match stretch.passed {
                Some(passed) if !stretch.newest_first => passed.message,
                _ => 0,
            };
            let numbered = reader.numbered();
            // Without its neighbours, nothing says which sequence a message has that was saved without.
            if label.is_some() && numbered.len() < reader.records.len() {
                return Ok(None);
            }
            let found = match without_fold(numbered, &changes, after, stretch)? {
                Some(messages) => messages,
                None if label.is_some() => return Ok(None),
                None => {
                    let records = numbered.iter().chain(&changes.records).cloned().collect();
                    let fold = folded(ChatFold::after_message(after), records)?;
                    admitted(fold, numbered, stretch)
                }
            };
            if found.len() < wanted && !reader.is_over {
                if stretch.filter.is_narrow()
                    && reader.records.len() > wanted.saturating_add(PASSED_MAX)
                {
                    return Ok(None);
                }
                count = count.saturating_mul(2);
                continue;
            }
            let is_more = found.len() > stretch.limit;
            let mut messages = found;
            messages.truncate(stretch.limit);
            return Ok(Some(Found { messages, is_more }));
        }
    }

    /// Whether a chat's messages are in the order in which they were saved.
    pub(super) async fn is_chat_in_order(&self, session: SessionId) -> Result<bool> {
        let catalog = &self.shared.catalog;
        catalog.read(|it| is_in_order(it, session)).await
    }

    /// What the stream of a chat is whose messages are in the order in which they were saved; `None` if they aren't.
    pub(super) async fn stream_in_order(&self, session: SessionId) -> Result<Option<StreamInfo>> {
        let id = chat_stream(session);
        let info = self.backend().stream(id).await?;
        // Looked up after the stream: the messages may be put in another order between the two.
        let is_in_order = self.is_chat_in_order(session).await?;
        let empty = StreamInfo {
            id,
            last_sequence: Sequence::ZERO,
            appended: 0,
        };
        Ok(is_in_order.then(|| info.unwrap_or(empty)))
    }

    /// The events that changed or deleted messages of a chat, up to what its stream was; `None` if there are too many.
    pub(super) async fn changes_of(
        &self,
        session: SessionId,
        info: StreamInfo,
    ) -> Result<Option<Arc<Changes>>> {
        let read_at = (info, self.backend().redactions());
        if let Some(known) = self.chat_cache().changes(session, read_at) {
            return Ok(Some(known));
        }
        let mut records = Vec::new();
        let label = changed_messages_label(session);
        self.each_labelled(label, in_order_of(session), &mut |record| {
            // With what was written since, a page would be of no moment of the chat.
            if record.sequence > info.last_sequence {
                return Ok(false);
            }
            // Kept for later pages, without what else was read with it.
            records.push(Record {
                meta: Bytes::copy_from_slice(&record.meta),
                payload: Bytes::copy_from_slice(&record.payload),
                ..record.clone()
            });
            Ok(records.len() <= CHANGES_MAX)
        })
        .await?;
        if records.len() > CHANGES_MAX {
            return Ok(None);
        }
        let changes = Arc::new(Changes {
            read_at,
            of_messages: by_message(&records)?,
            records,
        });
        self.chat_cache().keep_changes(session, &changes);
        Ok(Some(changes))
    }

    /// A fold with the messages of a request, or with `None` as the request, those of some ids, of a chat that isn't
    /// cached. `None` if its order isn't that of the stream, or there are too many.
    pub(super) async fn messages_fold(
        &self,
        session: SessionId,
        request: Option<&str>,
        ids: &[&str],
    ) -> Result<Option<ChatFold>> {
        // An id that the store derived from a taken one is in no record; only the fold has it.
        if ids.len() > CHANGES_MAX || ids.iter().any(|id| id.contains('~')) {
            return Ok(None);
        }
        let Some(info) = self.stream_in_order(session).await? else {
            return Ok(None);
        };
        let mut labels: Vec<Label> = request.map(request_messages_label).into_iter().collect();
        labels.extend(ids.iter().map(|id| ChatIdOf::Message.label(id)));
        let mut records = Vec::new();
        for label in labels {
            self.each_labelled(label, in_order_of(session), &mut |record| {
                records.push(record.clone());
                Ok(records.len() <= RECORDS_MAX)
            })
            .await?;
        }
        let is_change = |record: &Record| record.kind.0 != kinds::MESSAGE_SAVED;
        if request.is_some() {
            // A message that was moved from another request was saved with that one's label.
            if records.iter().any(is_change) {
                return Ok(None);
            }
            let options = in_order_of(session);
            self.each_labelled(changed_messages_label(session), options, &mut |record| {
                records.push(record.clone());
                Ok(records.len() <= RECORDS_MAX)
            })
            .await?;
        }
        if records.len() > RECORDS_MAX {
            return Ok(None);
        }
        records.retain(|record| record.sequence <= info.last_sequence);
        self.fold_of_messages(session, records, info)
            .await
            .map(Some)
    }

    /// A fold of these records of messages, of a chat whose order is that of the stream.
    pub(super) async fn fold_of_messages(
        &self,
        session: SessionId,
        mut records: Vec<Record>,
        info: StreamInfo,
    ) -> Result<ChatFold> {
        runlog_log::order::sort_by_key(&mut records, |record| record.sequence);
        records.dedup_by_key(|record| record.sequence);
        let mut fold = ChatFold::new();
        let mut before = None;
        for record in &records {
            let is_saved = record.kind.0 == kinds::MESSAGE_SAVED;
            let follows = before == Some(Sequence(record.sequence.0 - 1));
            if is_saved && !follows && explicit_sequence(record) == 0 {
                let number = self.last_message_sequence(session, record.sequence).await?;
                fold.pass_messages_to(number.saturating_sub(1));
            }
            if is_saved {
                before = Some(record.sequence);
            }
            apply(&mut fold, record.stream, record)?;
        }
        fold.skip(info.last_sequence.0);
        Ok(fold)
    }

    /// The largest sequence of a message up to a sequence of the chat's stream, for a chat whose order is that of the stream.
    pub(super) async fn last_message_sequence(
        &self,
        session: SessionId,
        last: Sequence,
    ) -> Result<u64> {
        let filter = MessageFilter::default();
        let stretch = Stretch {
            filter: &filter,
            newest_first: true,
            limit: 1,
            passed: Some(Passed {
                message: 0,
                at: last.0.saturating_add(1),
                position: u64::MAX,
            }),
        };
        let mut reader = SavedReader::new(self, session, stretch, None, last);
        let mut more = 1;
        loop {
            reader.read(more).await?;
            let is_explicit = |record: &Record| explicit_sequence(record) != 0;
            let anchor = reader.records.iter().position(is_explicit);
            if anchor.is_none() && !reader.is_over {
                more = reader.records.len() + SPARE;
                continue;
            }
            let (sequence, behind) = match anchor {
                Some(at) => (explicit_sequence(&reader.records[at]), at),
                None => (0, reader.records.len()),
            };
            return Ok(sequence.saturating_add(behind as u64));
        }
    }
}

/// Whether a chat's messages are in the order in which they were saved.
pub(super) fn is_in_order(catalog: &Catalog, session: SessionId) -> bool {
    catalog.session(session).is_some_and(|session| {
        session.copied_from.is_none() && !session.chat.as_ref().is_some_and(|chat| chat.reordered)
    })
}

/// The label of the messages that a filter names by one of their fields; `None` where it names none, or where messages that were saved
/// with another value were given that one since.
pub(super) fn label_for(
    session: SessionId,
    filter: &MessageFilter,
    changes: &Changes,
) -> Option<Label> {
    MessageField::ALL.into_iter().find_map(|field| {
        let value = match field {
            MessageField::Block => filter.block_id.as_deref(),
            MessageField::Thread => filter.thread_id.as_deref(),
            MessageField::Type => filter.message_type.as_deref(),
        };
        let is_changed = |change: &Change| match &change.outcome {
            Outcome::Updated(all) => all.updates.get(field.name()).is_some(),
            Outcome::Deleted => false,
            Outcome::GivenAgain => true,
        };
        let value = value.filter(|_| !changes.of_messages.values().any(is_changed))?;
        Some(field.label(session, value))
    })
}

/// One more message than the page has, if there are so many: those of a fold that the filter admits, each with its sequence in
/// the stream.
fn admitted(fold: ChatFold, records: &[Record], stretch: Stretch<'_>) -> Vec<(u64, ChatMessage)> {
    let limit = stretch.limit.saturating_add(1);
    let messages = fold.into_admitted(stretch.filter, stretch.newest_first, limit);
    let at = |message: &ChatMessage| {
        let saved = records
            .iter()
            .find(|record| Some(record.position.0) == message.id);
        saved.map_or(0, |record| record.sequence.0)
    };
    let messages = messages.into_iter().map(|message| (at(&message), message));
    messages.collect()
}

/// What the records of changes made of each message. Redacted ones change nothing.
fn by_message(records: &[Record]) -> Result<HashMap<String, Change>> {
    let mut of_messages: HashMap<String, Change> = HashMap::new();
    for record in records.iter().filter(|record| !record.redacted) {
        let event = event_of(record).map_err(|error| named(error, record.stream, record))?;
        let (ids, outcome) = match event {
            ChatEvent::MessageUpdated {
                message_id,
                at_ms,
                updates,
                appended,
            } => {
                let change = MessageChange {
                    updates,
                    appended,
                    at_ms,
                };
                (vec![message_id], Outcome::Updated(change))
            }
            ChatEvent::MessagesDeleted { message_ids, .. } => (message_ids, Outcome::Deleted),
            _ => continue,
        };
        for id in ids {
            match of_messages.entry(id) {
                Entry::Vacant(entry) => {
                    let (first, outcome) = (record.sequence, outcome.clone());
                    entry.insert(Change { first, outcome });
                }
                Entry::Occupied(mut entry) => entry.get_mut().outcome.then(&outcome),
            }
        }
    }
    Ok(of_messages)
}

/// The same without a fold. `None` where only a fold tells: if two messages have one id, one of which gets another, or if the id of one
/// was changed before that was saved.
fn without_fold(
    records: &[Record],
    changes: &Changes,
    after: u64,
    stretch: Stretch<'_>,
) -> Result<Option<Vec<(u64, ChatMessage)>>> {
    let mut messages = Vec::with_capacity(records.len());
    let mut last = after;
    let mut add = |record: &Record| {
        let message = match record.redacted {
            true => None,
            false => saved_message(record)?.map(|message| *message),
        };
        let sequence = message.as_ref().map_or(0, |message| message.sequence);
        let sequence = match sequence {
            0 => last.saturating_add(1).min(CHAT_SEQUENCE_MAX),
            given => given,
        };
        last = last.max(sequence);
        if let Some(mut message) = message {
            (message.id, message.sequence) = (Some(record.position.0), sequence);
            messages.push((record.sequence.0, message));
        }
        Ok::<(), Error>(())
    };
    if stretch.newest_first {
        records.iter().rev().try_for_each(&mut add)?;
    } else {
        records.iter().try_for_each(&mut add)?;
    }
    let ids: HashSet<&str> = messages
        .iter()
        .map(|(_, message)| &*message.message_id)
        .collect();
    if ids.len() < messages.len() {
        return Ok(None);
    }
    // From the end, so that places before a deleted one stay.
    for place in (0..messages.len()).rev() {
        let (at, message) = &messages[place];
        let Some(change) = changes.of_messages.get(&message.message_id) else {
            continue;
        };
        if change.first.0 < *at {
            return Ok(None);
        }
        match &change.outcome {
            Outcome::Updated(all) => {
                messages[place].1 = message.changed(&all.updates, &all.appended, all.at_ms)?;
            }
            Outcome::Deleted => drop(messages.remove(place)),
            Outcome::GivenAgain => return Ok(None),
        }
    }
    messages.retain(|(_, message)| stretch.filter.admits(message));
    if stretch.newest_first {
        messages.reverse();
    }
    messages.truncate(stretch.limit.saturating_add(1));
    Ok(Some(messages))
}

/// The message that a record saves.
fn saved_message(record: &Record) -> Result<Option<Box<ChatMessage>>> {
    match event_of(record).map_err(|error| named(error, record.stream, record))? {
        ChatEvent::MessageSaved(message) => Ok(Some(message)),
        _ => Ok(None),
    }
}
