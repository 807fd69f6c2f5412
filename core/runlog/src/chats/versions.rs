//! Erasing a message that is given by the position of one of its versions.

use std::collections::BTreeSet;

use runlog_log::{Batch, Op, Record};
use runlog_model::{ChatEvent, ChatIdOf, SessionId};

use super::{Chats, lookup::is_about, redact::Shared};
use crate::{ErrorKind, Result, kernel::records::chat_stream};

/// A version of a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version {
    /// The chat that it was written to.
    chat: SessionId,
    position: u64,
    message_id: String,
}

impl Version {
    /// The version that a record is; `None` for any other record, and for a redacted one.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        if record.redacted || !record.kind.is_data() {
            return None;
        }
        let event = ChatEvent::decode(record.kind.0, &record.meta, &record.payload).ok()?;
        let message_id = match event {
            ChatEvent::MessageSaved(message) => message.message_id,
            ChatEvent::MessageUpdated { message_id, .. } => message_id,
            _ => return None,
        };
        Some(Self {
            chat: SessionId(record.stream.0),
            position: record.position.0,
            message_id,
        })
    }
}

impl Chats {
    /// Redacts all versions of the message that a version is of, in all chats that show it, or did: without its first one a message isn't
    /// there any more, and without its last one it would say what it said before.
    ///
    /// It is found by its position, not by its id: the chat that it was written to may have been deleted, or truncated before it, while
    /// copies show it, and another chat may have a message of its id.
    pub(crate) async fn erase_version(&self, version: &Version, reason: &str) -> Result<()> {
        let mut attempts = self.store.attempts(chat_stream(version.chat)).await;
        loop {
            let shown = self.shown(version).await?;
            if shown.is_empty() {
                return self.erase_unshown(version, reason).await;
            }
            match self.redact_shared(shown, reason).await? {
                Ok(()) => return Ok(()),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// The message in the chats that have this version of it.
    async fn shown(&self, version: &Version) -> Result<Vec<Shared>> {
        let chat = BTreeSet::from([version.chat]);
        let family = self.store.shared.catalog.read(|it| it.related(&chat));
        let mut shown = Vec::new();
        for chat in family.await? {
            let fold = match self.store.chat_fold(chat).await {
                // What can't be read shows nothing, and what was given up has nothing.
                Err(error) if [ErrorKind::Damaged, ErrorKind::NotFound].contains(&error.kind()) => {
                    continue;
                }
                fold => fold?,
            };
            let Some(kept) = fold.read().kept_message_at(version.position) else {
                continue;
            };
            let saved_at = kept.positions.first().copied();
            shown.push(Shared {
                chat,
                id: kept.id,
                saved_at: saved_at.unwrap_or(version.position),
            });
        }
        Ok(shown)
    }

    /// Redacts a version that no chat has, with the others that are left beside it: the message's first one was redacted before, or the
    /// chat is damaged.
    async fn erase_unshown(&self, version: &Version, reason: &str) -> Result<()> {
        let Version {
            chat,
            position,
            message_id,
        } = version;
        let label = ChatIdOf::Message.label(message_id);
        let records = match self.store.labelled_in(*chat, label).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            records => records?,
        };
        let versions = records.iter().filter(|record| {
            is_about(record, ChatIdOf::Message, message_id) && Version::of(record).is_some()
        });
        let positions: BTreeSet<_> = versions.map(|record| record.position).collect();
        // What was truncated is no version of what stands there now.
        if !positions.iter().any(|at| at.0 == *position) {
            return Ok(());
        }
        let ops = Op::redactions(&positions.into_iter().collect::<Vec<_>>(), reason);
        let backend = self.store.backend();
        backend.commit(Batch::new(ops)).await.map(drop)
    }
}
