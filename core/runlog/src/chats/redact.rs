//! Redacting a message, in all chats that share it.

use std::collections::{BTreeSet, HashSet};

use runlog_log::{Batch, ErrorKind, Expected, Kind, Op, Position, ReadOptions, Record, Sequence};
use runlog_model::{
    ChatEvent, ChatFold, ChatIdOf, ChatMessage, ChatRole, KeptMessage, MessageFilter, RawJson,
    SessionId, Updates, id_in_copy, kinds,
};

use super::{
    Chats, cache::apply, lookup::is_about, pages::is_in_order, store::not_found, write::Prepared,
};
use crate::{Error, Result, journal::follow::read_each, kernel::records::chat_stream};

/// A message in one of the chats that share it.
pub(super) struct Shared {
    pub(super) chat: SessionId,
    /// Its id there, if it is known; a deleted message has none.
    pub(super) id: Option<String>,
    /// The position of the event that saved it, which is the same in all chats that share that event.
    pub(super) saved_at: u64,
}

/// What the log has of a message.
enum Kept {
    /// The message, which may be deleted.
    Message(Shared),
    /// Some of its updates, at these positions, but not what was saved first.
    Updates(Vec<Position>),
    /// Nothing that wasn't redacted.
    Nothing,
}

/// A chat that shares the message.
struct Found {
    chat: SessionId,
    /// The last sequence of its stream when it was read.
    last: Sequence,
    kept: KeptMessage,
}

/// A time that makes no chat younger.
const BEGINNING: u64 = 1;

fn deleted(id: String, at_ms: u64) -> ChatEvent {
    ChatEvent::MessagesDeleted {
        message_ids: vec![id],
        at_ms,
        used_at_ms: None,
    }
}

/// Says behind events that they are no use of their chat, for those who ask when it was used last.
fn unused(events: &mut Vec<ChatEvent>, at_ms: u64, last_used_ms: u64) {
    if events.is_empty() {
        return;
    }
    if !matches!(events.last(), Some(ChatEvent::MessagesDeleted { .. })) {
        events.push(ChatEvent::MessagesDeleted {
            message_ids: Vec::new(),
            at_ms,
            used_at_ms: None,
        });
    }
    if let Some(ChatEvent::MessagesDeleted { used_at_ms, .. }) = events.last_mut() {
        *used_at_ms = Some(last_used_ms);
    }
}

impl Chats {
    /// Removes the content of a message, in all its versions, from every read. The message is then deleted, and no
    /// import restores it; its sequence isn't reused, and its bytes stay on disk. Durable when it returns; the reason
    /// is stored.
    ///
    /// **A message and its copies are one message here.** A copy of a chat shares the records of what it copied, so
    /// that redacting the message in any of these chats redacts it in all of them: in the one where it was saved, in
    /// its copies, and in their copies, each with the versions of the message there, even where it was deleted.
    /// Otherwise its text could still be read in the other chats. A message that was saved in a copy after the copying
    /// is shared only with the copies of that copy. To remove a message from one chat and leave it in the others, use
    /// [`delete_messages`](Self::delete_messages).
    ///
    /// ```
    /// use runlog::{
    ///     blocking::Store,
    ///     chats::{Chat, ChatMessage, ChatRole, MessageFilter},
    ///     sessions::CopySession,
    /// };
    ///
    /// let store = Store::in_memory();
    /// let chats = store.chats();
    /// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
    /// chats.save_messages(&chat_id, vec![ChatMessage::text(ChatRole::User, "My PIN is 1234.")])?;
    /// let copy = store.copy_session(chat_id.parse()?, &CopySession::default())?.session.id.to_string();
    /// let of_copy = chats.get_messages(&copy, &MessageFilter::default())?;
    /// chats.redact_message(&of_copy[0].message_id, "a PIN")?;
    /// assert!(chats.get_messages(&chat_id, &MessageFilter::default())?.is_empty(), "gone in the original, too");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`update_message`](Self::update_message).
    pub async fn redact_message(&self, message_id: &str, reason: &str) -> Result<()> {
        let chat = self.store.chat_with(ChatIdOf::Message, message_id).await?;
        let mut attempts = self.store.attempts(chat_stream(chat)).await;
        loop {
            let named = self.named(chat, message_id).await?;
            match self.redact_shared(vec![named], reason).await? {
                Ok(()) => return Ok(()),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// Checks that [`erase_message`](Self::erase_message) finds a message.
    pub(crate) async fn check_is_known(&self, message_id: &str) -> Result<()> {
        self.kept(message_id).await.map(drop)
    }

    /// Redacts a message as [`redact_message`](Self::redact_message), also one that was deleted, and what is left of one of which
    /// some versions were redacted. One that was redacted already stays so, so that the call can be repeated.
    pub(crate) async fn erase_message(&self, message_id: &str, reason: &str) -> Result<()> {
        let backend = &**self.store.backend();
        let mut attempts = None;
        loop {
            let (chat, kept) = self.kept(message_id).await?;
            let error = match kept {
                Kept::Nothing => return Ok(()),
                Kept::Updates(positions) => {
                    let ops = Op::redactions(&positions, reason);
                    return backend.commit(Batch::new(ops)).await.map(drop);
                }
                Kept::Message(named) => match self.redact_shared(vec![named], reason).await? {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                },
            };
            if attempts.is_none() {
                attempts = Some(self.store.attempts(chat_stream(chat)).await);
            }
            if let Some(attempts) = &mut attempts {
                attempts.again(error).await?;
            }
        }
    }

    /// What the log has of a message, in its chat.
    async fn kept(&self, message_id: &str) -> Result<(SessionId, Kept)> {
        let unknown = |error: Error| match error.kind() {
            ErrorKind::NotFound => Error::not_found(format!(
                "{error}; what was deleted is erased by its position, and what was redacted is taken off the disk by a compaction"
            )),
            _ => error,
        };
        let chat = self.store.chat_with(ChatIdOf::Message, message_id).await;
        let chat = chat.map_err(unknown)?;
        match self.named(chat, message_id).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            named => return Ok((chat, Kept::Message(named?))),
        }
        let label = ChatIdOf::Message.label(message_id);
        let records = self.store.labelled_in(chat, label).await?;
        let is_of = |record: &&Record| is_about(record, ChatIdOf::Message, message_id);
        let mut updates = Vec::new();
        for record in records.iter().filter(is_of) {
            match record.kind.0 {
                kinds::MESSAGE_SAVED => {
                    let saved_at = record.position.0;
                    let id = None;
                    return Ok((chat, Kept::Message(Shared { chat, id, saved_at })));
                }
                kinds::MESSAGE_UPDATED => updates.push(record.position),
                _ => {}
            }
        }
        if !updates.is_empty() {
            return Ok((chat, Kept::Updates(updates)));
        }
        if self
            .store
            .chat_fold(chat)
            .await?
            .read()
            .had_message(message_id)
        {
            return Ok((chat, Kept::Nothing));
        }
        Err(unknown(not_found("message", message_id)))
    }

    /// Redacts a message in all chats that share it, given as it is in one of them, or in several where nothing else says that it is the
    /// same. The inner error is one of writing, after which it may be tried again.
    pub(super) async fn redact_shared(
        &self,
        named: Vec<Shared>,
        reason: &str,
    ) -> Result<Result<()>> {
        let backend = &**self.store.backend();
        let at_ms = backend.now_ms();
        let found = self.sharing(named).await?;
        let all = found.iter().flat_map(|found| &found.kept.positions);
        let positions: BTreeSet<u64> = all.copied().collect();
        let mut gone = Vec::new();
        for Found { chat, last, kept } in found {
            // The id can't be read any more once the record is redacted, so the deletion is recorded separately.
            let mut events = Vec::new();
            if !self.follows_another(chat, &kept).await? {
                events = self.kept_sequences(chat, last, &positions, at_ms).await?;
            }
            events.extend(kept.id.map(|id| deleted(id, at_ms)));
            let used_ms = self.store.last_used_ms(chat_stream(chat), last).await?;
            unused(&mut events, at_ms, used_ms);
            gone.push((last, Prepared::new(chat, events, None, at_ms)?));
        }
        // A chat that was changed since it was read may have another version of the message.
        let mut ops: Vec<Op<'_>> = gone
            .iter()
            .flat_map(|(last, prepared)| prepared.ops(Expected::Last(*last)))
            .collect();
        ops.extend(positions.into_iter().map(|position| Op::Redact {
            position: Position(position),
            reason,
        }));
        match backend.commit(Batch::new(ops)).await {
            Ok(_) => {
                for (_, prepared) in &gone {
                    prepared.written(&self.store).await;
                }
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// Whether a message has the sequence after that of the one before it, which its redacted record counts as, too.
    async fn follows_another(&self, chat: SessionId, kept: &KeptMessage) -> Result<bool> {
        let catalog = &self.store.shared.catalog;
        if !catalog.read(|it| is_in_order(it, chat)).await? {
            return Ok(false);
        }
        let shared = self.store.chat_fold(chat).await?;
        let fold = shared.read();
        let message = kept.id.as_deref().and_then(|id| fold.message(id));
        Ok(message.is_some_and(|message| {
            let before = message.sequence.saturating_sub(1);
            before == 0 || fold.message_with_sequence(before).is_some()
        }))
    }

    /// What is written so that the other messages of a chat keep their sequences, and none gets that of a redacted one.
    ///
    /// A message that was saved without a sequence has the next one after those before it. Of a redacted record the
    /// sequence can't be read any more: it counts as one more than those before it. That is another one where the chat has
    /// gaps, as an imported one may.
    async fn kept_sequences(
        &self,
        chat: SessionId,
        last: Sequence,
        redacted: &BTreeSet<u64>,
        at_ms: u64,
    ) -> Result<Vec<ChatEvent>> {
        let backend = &**self.store.backend();
        let mut then = ChatFold::new();
        let options = ReadOptions {
            last,
            kinds: kinds::CHAT_EVENTS.map(Kind).collect(),
            ..ReadOptions::default()
        };
        let stream = chat_stream(chat);
        read_each(backend, stream, options, &mut |record| {
            if redacted.contains(&record.position.0) {
                then.skip_redacted(record.sequence.0, record.kind.0);
                return Ok(());
            }
            apply(&mut then, stream, record)
        })
        .await?;
        let shared = self.store.chat_fold(chat).await?;
        let now = shared.read();
        let mut events = Vec::new();
        for message in then.messages(&MessageFilter::default()) {
            let Some(kept) = now.message(&message.message_id) else {
                continue;
            };
            if kept.sequence != message.sequence {
                events.push(ChatEvent::MessageUpdated {
                    message_id: kept.message_id.clone(),
                    at_ms: kept.updated_at_ms,
                    updates: Updates::new().with("sequence", RawJson::from_value(&kept.sequence)?),
                    appended: String::new(),
                });
            }
        }
        if then.last_message_sequence() < now.last_message_sequence() {
            // Holds the place of the largest sequence; nobody sees it, because it is deleted at once.
            let place = ChatMessage {
                sequence: now.last_message_sequence(),
                message_id: backend.new_id().to_string(),
                created_at_ms: BEGINNING,
                ..ChatMessage::text(ChatRole::User, "")
            };
            let id = place.message_id.clone();
            events.extend([ChatEvent::MessageSaved(Box::new(place)), deleted(id, at_ms)]);
        }
        Ok(events)
    }

    /// The message with this id in its chat.
    async fn named(&self, chat: SessionId, message_id: &str) -> Result<Shared> {
        let shared = self.store.chat_fold(chat).await?;
        let fold = shared.read();
        let kept = fold
            .message(message_id)
            .and_then(|_| fold.kept_message(message_id));
        let saved_at = kept.and_then(|kept| kept.positions.first().copied());
        Ok(Shared {
            chat,
            id: Some(message_id.to_owned()),
            saved_at: saved_at.ok_or_else(|| not_found("message", message_id))?,
        })
    }

    /// The chats that share a message, each with the message's records there.
    async fn sharing(&self, named: Vec<Shared>) -> Result<Vec<Found>> {
        let (mut found, mut next) = (Vec::new(), Vec::new());
        for named in named {
            next.push(self.first_saved(named).await?);
        }
        // An archive that was imported may claim that two sessions are copies of each other.
        let mut seen = HashSet::new();
        while let Some(Shared {
            chat,
            mut id,
            saved_at,
        }) = next.pop()
        {
            if !seen.insert(chat) {
                continue;
            }
            let shared = self.store.chat_fold(chat).await?;
            let (last, kept) = {
                let fold = shared.read();
                let kept = fold.kept_message_at(saved_at);
                (Sequence(fold.last_sequence()), kept)
            };
            if let Some(kept) = kept {
                id = kept.id.clone().or(id);
                found.push(Found { chat, last, kept });
            }
            let copies = self
                .store
                .shared
                .catalog
                .read(|catalog| catalog.copies_of(chat))
                .await?;
            for copy in copies.into_iter().filter(|copy| !seen.contains(copy)) {
                let of_copy = self.store.chat_fold(copy).await?;
                let id = id.as_deref();
                let (original, fold) = (shared.read(), of_copy.read());
                let kept = fold.kept_of_original(copy, &original, saved_at, id);
                let there = kept.and_then(|kept| kept.positions.first().copied());
                next.push(Shared {
                    chat: copy,
                    id: id.map(|id| id_in_copy(copy.0, id)),
                    saved_at: there.unwrap_or(saved_at),
                });
            }
        }
        Ok(found)
    }

    /// The message in the chat where it was first saved, or in the oldest copy that the store has.
    async fn first_saved(&self, mut message: Shared) -> Result<Shared> {
        let mut seen = HashSet::from([message.chat]);
        loop {
            let chat = message.chat;
            let source = self
                .store
                .shared
                .catalog
                .read(|catalog| catalog.session(chat)?.copied_from)
                .await?;
            let Some(source) = source.filter(|source| seen.insert(*source)) else {
                return Ok(message);
            };
            let of_copy = self.store.chat_fold(chat).await?;
            let shared = self.store.chat_fold(source).await?;
            let (copy, original) = (of_copy.read(), shared.read());
            let id = message.id.as_deref();
            let Some(kept) = copy.kept_in_original(chat, &original, message.saved_at, id) else {
                return Ok(message);
            };
            let saved_at = kept.positions.first().copied().unwrap_or(message.saved_at);
            message = Shared {
                chat: source,
                id: kept.id,
                saved_at,
            };
        }
    }
}
