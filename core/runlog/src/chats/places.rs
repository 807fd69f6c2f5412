//! Pages at an offset, pages behind a message, and counts, of a chat that isn't cached: from where its messages lie, without a fold.
//!
//! Where they lie says nothing of what they say, so that a chat of 100,000 messages takes 800 KB instead of all its texts. As with
//! other [pages](super::pages), the chat's order has to be that of its stream, and few messages changed.

use std::sync::Arc;

use runlog_log::{Kind, ReadOptions, Sequence};
use runlog_model::{ChatIdOf, ChatMessage, MessageFilter, SessionId, kinds};

use super::{
    lookup::{in_order_of, is_about},
    pages::label_for,
    saved_reader::{Passed, SavedReader, Stretch, explicit_sequence},
};
use crate::{
    Result, Store,
    journal::follow::read_each,
    kernel::{
        chats::{Changes, Outcome},
        places::Places,
        records::chat_stream,
    },
};

/// The most records of a label that are read for a count; if there are more, the chat is folded, once for all later ones.
const COUNTED_MAX: usize = 4_096;

impl Store {
    /// The messages at the offset of a filter that admits all messages. `None` where only the chat's fold tells.
    pub(super) async fn messages_from(
        &self,
        session: SessionId,
        filter: &MessageFilter,
    ) -> Result<Option<Vec<ChatMessage>>> {
        let Some(places) = self.places(session).await? else {
            return Ok(None);
        };
        let Some(at) = places.at(filter.offset) else {
            return Ok(Some(Vec::new()));
        };
        let before = self
            .last_message_sequence(session, Sequence(at - 1))
            .await?;
        let stretch = Stretch {
            filter,
            newest_first: false,
            limit: filter.limit,
            passed: Some(Passed {
                message: before,
                at: at - 1,
                position: 0,
            }),
        };
        // Where it begins is known of this moment: one that was deleted since would be passed over, and counted.
        let (info, _) = places.read_at;
        let found = self.messages_until(session, stretch, info).await?;
        Ok(found.map(|found| found.messages.into_iter().map(|(_, it)| it).collect()))
    }

    /// How many messages a filter admits. `None` where only the chat's fold tells.
    pub(super) async fn count_of_messages(
        &self,
        session: SessionId,
        filter: &MessageFilter,
    ) -> Result<Option<usize>> {
        if !filter.is_narrow() {
            let places = self.places(session).await?;
            return Ok(places.map(|places| places.count()));
        }
        let Some(info) = self.stream_in_order(session).await? else {
            return Ok(None);
        };
        if info.last_sequence == Sequence::ZERO {
            return Ok(Some(0));
        }
        let Some(changes) = self.changes_of(session, info).await? else {
            return Ok(None);
        };
        let Some(label) = label_for(session, filter, &changes) else {
            return Ok(None);
        };
        // All of them, but read up to the limit first: their contents are of no use here.
        let stretch = Stretch {
            filter,
            newest_first: false,
            limit: usize::MAX,
            passed: None,
        };
        let mut reader = SavedReader::new(self, session, stretch, Some(label), info.last_sequence);
        reader.read(COUNTED_MAX).await?;
        if !reader.is_over {
            return Ok(None);
        }
        let found = self.messages_until(session, stretch, info).await?;
        Ok(found.map(|found| found.messages.len()))
    }

    /// The place of a message that a list goes on behind. `None` where only the chat's fold tells, also that there is none.
    pub(super) async fn passed_message(
        &self,
        session: SessionId,
        id: &str,
    ) -> Result<Option<Passed>> {
        let Some(info) = self.stream_in_order(session).await? else {
            return Ok(None);
        };
        let Some(changes) = self.changes_of(session, info).await? else {
            return Ok(None);
        };
        let change = changes.of_messages.get(id).map(|change| &change.outcome);
        if matches!(change, Some(Outcome::Deleted | Outcome::GivenAgain)) {
            return Ok(None);
        }
        let saved = self.saved_once(session, id).await?;
        Ok(saved.filter(|passed| passed.message != 0))
    }

    /// Where the messages of a chat lie. `None` if its order isn't that of the stream, or only its fold tells which were deleted.
    async fn places(&self, session: SessionId) -> Result<Option<Arc<Places>>> {
        // One task at a time: a second one would read the whole chat, too.
        let turn = self.chat_cache().folds().turn_of(session);
        let _alone = turn.lock().await;
        // The chat's fold was being caught up.
        if self.chat_cache().known(session).is_some() {
            return Ok(None);
        }
        let redactions = self.backend().redactions();
        let Some(info) = self.stream_in_order(session).await? else {
            return Ok(None);
        };
        if info.last_sequence == Sequence::ZERO {
            return Ok(None);
        }
        let read_at = (info, redactions);
        let known = self.chat_cache().places.known(session);
        if let Some(known) = known.as_ref().filter(|known| known.read_at == read_at) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(changes) = self.changes_of(session, info).await? else {
            return Ok(None);
        };
        drop(known);
        let known = self.chat_cache().places.take(session);
        let known = known
            .filter(|known| known.read_at.1 == redactions && info.goes_on_from(&known.read_at.0));
        let mut places = known.map_or_else(|| Places::new(read_at), Arc::unwrap_or_clone);
        let options = ReadOptions {
            first: match places.saved.is_empty() {
                true => Sequence::FIRST,
                false => places.read_at.0.last_sequence.next(),
            },
            last: info.last_sequence,
            kinds: vec![Kind(kinds::MESSAGE_SAVED)],
            ..ReadOptions::default()
        };
        let stream = chat_stream(session);
        read_each(&**self.backend(), stream, options, &mut |record| {
            if !record.redacted {
                places.saved.push(record.sequence.0);
            }
            Ok(())
        })
        .await?;
        if !self
            .pass_deleted(session, &changes, info.last_sequence, &mut places)
            .await?
        {
            return Ok(None);
        }
        places.read_at = read_at;
        let places = Arc::new(places);
        self.chat_cache().places.keep(session, &places);
        Ok(Some(places))
    }

    /// Adds where the messages lie that were deleted; `false` where that isn't known.
    async fn pass_deleted(
        &self,
        session: SessionId,
        changes: &Changes,
        last: Sequence,
        places: &mut Places,
    ) -> Result<bool> {
        for (id, change) in &changes.of_messages {
            match change.outcome {
                Outcome::Updated(_) => continue,
                Outcome::Deleted if places.deleted_ids.contains(id) => continue,
                Outcome::Deleted => {}
                Outcome::GivenAgain => return Ok(false),
            }
            let Some(saved) = self.saved_once(session, id).await? else {
                return Ok(false);
            };
            // The deleted message was redacted, and its id given again.
            if saved.at > change.first.0 {
                return Ok(false);
            }
            // Saved and deleted since the chat's end was looked up.
            if saved.at > last.0 {
                continue;
            }
            // Truncated meanwhile.
            if places.saved.binary_search(&saved.at).is_err() {
                return Ok(false);
            }
            places.deleted.push(saved.at);
            places.deleted_ids.insert(id.clone());
        }
        runlog_log::order::sort(&mut places.deleted);
        Ok(true)
    }

    /// Where the message of an id was saved; its number is 0 if it was saved without one. `None` unless it was saved once, and not
    /// redacted since.
    async fn saved_once(&self, session: SessionId, id: &str) -> Result<Option<Passed>> {
        let (mut found, mut count) = (None, 0);
        let label = ChatIdOf::Message.label(id);
        self.each_labelled(label, in_order_of(session), &mut |record| {
            let is_saved = record.kind.0 == kinds::MESSAGE_SAVED;
            if is_saved && is_about(record, ChatIdOf::Message, id) {
                count += 1;
                found = Some(Passed {
                    message: explicit_sequence(record),
                    at: record.sequence.0,
                    position: record.position.0,
                });
            }
            Ok(count < 2)
        })
        .await?;
        Ok(found.filter(|_| count == 1))
    }
}
