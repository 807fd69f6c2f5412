//! Writing to a chat: one batch of its events, and of the catalog events about them.

use runlog_log::{Appended, Batch, Expected, Op, Sequence};
use runlog_model::{
    CatalogEvent, ChatEvent, ChatFold, EncodedEvent, OpenRequest, SessionId,
    limits::CHAT_SEQUENCE_MAX, time,
};

use super::store::Chats;
use crate::{
    Error, ErrorKind, Result, Store,
    kernel::{
        catalog::CATALOG_STREAM,
        records::{append, chat_stream},
        shared_fold::SharedFold,
    },
};

/// A message, with the position at which it was saved.
pub(super) type SavedAt = (String, u64);

/// The part of a chat that a decision to write depends on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// Everything.
    Chat,
    /// These messages.
    Messages(&'a [&'a str]),
    /// This step, and the others of its request.
    Step(&'a str),
}

impl Chats {
    /// A fold with this part of a chat, caught up: the whole chat's fold if it is cached or needed.
    pub(super) async fn fold_of(&self, session: SessionId, part: Of<'_>) -> Result<SharedFold> {
        let store = &self.store;
        if let Some(fold) = store.kept_chat_fold(session).await? {
            return Ok(fold);
        }
        match part {
            Of::Chat => store.chat_fold(session).await,
            Of::Messages([id]) => store.message_fold(session, id).await,
            Of::Messages(ids) => match store.messages_fold(session, None, ids).await? {
                Some(fold) => Ok(SharedFold::of(fold)),
                None => store.chat_fold(session).await,
            },
            Of::Step(id) => store.step_fold(session, id).await,
        }
    }

    /// Decides what to write by the fold of the chat, or of a part of it, and writes it unless the chat was changed in
    /// between; then it decides again.
    pub(super) async fn write(
        &self,
        session: SessionId,
        part: Of<'_>,
        decide: &mut (dyn FnMut(&ChatFold) -> Result<Vec<ChatEvent>> + Send),
    ) -> Result<()> {
        if self.store.backend().is_read_only() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store is open for reading only; open it for writing to change it",
            ));
        }
        // A decision writes again what it read: of a request all that is known of it. Before the turn, which an erasure takes after it keeps
        // others waiting.
        let _beside = self.store.beside_erasures().await;
        let mut attempts = self.store.attempts(chat_stream(session)).await;
        loop {
            self.store.shared.catalog.check_live(session).await?;
            let shared = self.fold_of(session, part).await?;
            let (prepared, last) = {
                let fold = shared.read();
                let events = decide(&fold)?;
                if events.is_empty() {
                    return Ok(());
                }
                let after = Some(fold.last_message_sequence());
                let now = self.store.backend().now_ms();
                let prepared = Prepared::new(session, events, after, now)?;
                (prepared, Sequence(fold.last_sequence()))
            };
            let batch = Batch::new(prepared.ops(Expected::Last(last)));
            match self.store.backend().commit(batch).await {
                Ok(_) => {
                    prepared.written(&self.store).await;
                    return Ok(());
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// Encoded events of a chat, with the catalog events about them.
#[derive(Clone)]
pub(super) struct Prepared {
    session: SessionId,
    events: Vec<EncodedEvent>,
    /// The messages that are saved, each with the index of its event.
    messages: Vec<(u64, String)>,
    catalog_events: Vec<EncodedEvent>,
}

impl Prepared {
    /// Events to write after the message with the largest sequence of the chat, `after`; `None` if they are appended
    /// without knowing that.
    pub(super) fn new(
        session: SessionId,
        events: Vec<ChatEvent>,
        after: Option<u64>,
        at_ms: u64,
    ) -> Result<Self> {
        let events = numbered(events, after);
        let made = events.iter().filter_map(|event| match event {
            ChatEvent::MessageSaved(message) => Some(time::or(message.created_at_ms, at_ms)),
            _ => event.saved_step().map(|_| 0),
        });
        let touched = made
            .max()
            .map(|at_ms| CatalogEvent::ChatTouched { id: session, at_ms }.encode());
        let requests = events.iter().filter_map(|event| match event {
            ChatEvent::RequestSaved(request) => Some(CatalogEvent::ChatRequestChanged {
                id: session,
                request: OpenRequest::from(&**request),
            }),
            _ => None,
        });
        let reordered =
            reorders(&events, after).then(|| CatalogEvent::ChatReordered { id: session }.encode());
        let catalog_events = touched
            .into_iter()
            .chain(reordered)
            .chain(requests.map(|event| event.encode()))
            .collect::<Result<_>>()?;
        let messages = (0..).zip(&events).filter_map(|(index, event)| match event {
            ChatEvent::MessageSaved(message) => Some((index, message.message_id.clone())),
            _ => None,
        });
        let messages = messages.collect();
        let encoded = |event: &ChatEvent| {
            let labels = event.labels(session);
            event.encode().map(|event| EncodedEvent { labels, ..event })
        };
        let events = events.iter().map(encoded).collect::<Result<_>>()?;
        Ok(Self {
            session,
            events,
            messages,
            catalog_events,
        })
    }

    /// Where its messages are, once it is written. Of a repeat that isn't known: the earlier batch may have had other events before them.
    pub(super) fn saved_at(&self, appended: &Appended) -> Vec<SavedAt> {
        let first = match appended.ops.first() {
            Some(op) if !appended.repeated => op.position.0,
            _ => return Vec::new(),
        };
        let messages = self.messages.iter();
        messages
            .map(|(index, id)| (id.clone(), first + index))
            .collect()
    }

    /// The same, marking the chat as possibly reordered by it.
    pub(super) fn reordered(mut self) -> Result<Self> {
        let event = CatalogEvent::ChatReordered { id: self.session };
        self.catalog_events.push(event.encode()?);
        Ok(self)
    }

    /// To be called once they are written. Drops the chat's cached tail, which doesn't have them: saves that were staged on it
    /// would all conflict, and be decided again in any order. A save itself moves the tail instead.
    pub(super) async fn written(&self, store: &Store) {
        store.chat_cache().forget_tail_of(self.session);
        self.notify_catalog(store).await;
    }

    /// Applies the catalog events to the catalog.
    pub(super) async fn notify_catalog(&self, store: &Store) {
        if !self.catalog_events.is_empty() {
            store.shared.catalog.after_commit().await;
        }
    }

    pub(super) fn ops(&self, expected: Expected) -> Vec<Op<'_>> {
        let records = self.events.iter().map(EncodedEvent::record);
        let mut ops = vec![Op::Append {
            stream: chat_stream(self.session),
            expected,
            records: records.collect(),
        }];
        if !self.catalog_events.is_empty() {
            let records = self.catalog_events.iter().map(EncodedEvent::record);
            ops.push(append(CATALOG_STREAM, records.collect()));
        }
        ops
    }
}

/// Stores each message's sequence in it, so that it stays the same whatever is redacted: a message without a stored one
/// is counted from the one before it, and the sequence of a redacted message can't be read any more. Without `after`,
/// the events are unchanged.
fn numbered(mut events: Vec<ChatEvent>, after: Option<u64>) -> Vec<ChatEvent> {
    let Some(mut last) = after else {
        return events;
    };
    for event in &mut events {
        let ChatEvent::MessageSaved(message) = event else {
            continue;
        };
        if message.sequence == 0 {
            message.sequence = last.saturating_add(1).min(CHAT_SEQUENCE_MAX);
        }
        last = last.max(message.sequence);
    }
    events
}

/// Whether some events put messages in another order than that in which they were saved.
fn reorders(events: &[ChatEvent], after: Option<u64>) -> bool {
    let mut last = after;
    events.iter().any(|event| match event {
        ChatEvent::MessageSaved(message) if message.sequence == 0 => {
            last = last.map(|last| last + 1);
            false
        }
        ChatEvent::MessageSaved(message) => {
            let is_next = last.is_some_and(|last| message.sequence > last);
            last = Some(message.sequence);
            !is_next
        }
        ChatEvent::MessageUpdated { updates, .. } => updates.get("sequence").is_some(),
        _ => false,
    })
}
