//! What a copy of a session takes of its chat: messages and steps, up to where the session is copied.

use runlog_engine::{Expected, Kind, NewRecord, Op, ReadOptions, Record, Sequence};
use runlog_model::{ChatEvent, ChatRole, EncodedChatEvent, SessionId, Timestamp};

use super::cache::stream_of;
use crate::{AsyncStore, Result};

/// The part of a log that a session is copied up to: the positions of the last context event that is copied, and of
/// the first that isn't.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) last: u64,
    pub(crate) next: Option<u64>,
}

/// A chat to copy: its own stream, up to a sequence.
#[derive(Debug)]
pub(crate) struct CopiedChat {
    source: SessionId,
    copy: SessionId,
    at: Sequence,
    /// Tells the fold of the copy that what comes before is another chat's.
    mark: EncodedChatEvent,
    /// When the last message was saved that is copied.
    pub(crate) last_message_at: Option<Timestamp>,
}

impl AsyncStore {
    /// What to copy of a session's chat, `None` where it has no messages and no steps. Nothing is written.
    ///
    /// Up to a point that is what had been saved before the first event that isn't copied, without the requests that
    /// began after the last one that is: the answer to a request is saved at its end, after the events that it took.
    pub(crate) async fn chat_to_copy(
        &self,
        source: SessionId,
        copy: SessionId,
        chat_id: String,
        point: Option<Point>,
    ) -> Result<Option<CopiedChat>> {
        let Some(info) = self.backend().stream(stream_of(source)).await? else { return Ok(None) };
        let (mut at, mut last_message_at) = (info.last_sequence, None);
        if let Some(point) = point {
            at = Sequence::ZERO;
            let mut next = Some(Sequence::FIRST);
            'pages: while let Some(first) = next {
                let page =
                    self.backend().read(stream_of(source), ReadOptions { first, ..ReadOptions::default() }).await?;
                next = page.next;
                for record in &page.records {
                    let is_later = point.next.is_some_and(|next| record.position.0 > next);
                    let saved = saved_by(record);
                    if is_later || (record.position.0 > point.last && saved == Some(ChatRole::User)) {
                        break 'pages;
                    }
                    at = record.sequence;
                    last_message_at = saved.map(|_| Timestamp(record.time_ms)).or(last_message_at);
                }
            }
        }
        if at == Sequence::ZERO {
            return Ok(None);
        }
        let mark = ChatEvent::Copied { session_id: copy, chat_id }.encode()?;
        Ok(Some(CopiedChat { source, copy, at, mark, last_message_at }))
    }
}

impl CopiedChat {
    /// What makes the copy.
    pub(crate) fn ops(&self) -> [Op<'_>; 2] {
        let (parent, child) = (stream_of(self.source), stream_of(self.copy));
        let EncodedChatEvent { kind, meta, payload } = &self.mark;
        let records = vec![NewRecord { kind: Kind(*kind), meta, payload }];
        [
            Op::Fork { parent, at: self.at, child },
            Op::Append { stream: child, expected: Expected::Last(self.at), records },
        ]
    }
}

/// Whose message a record saves, `None` for any other.
fn saved_by(record: &Record) -> Option<ChatRole> {
    if record.redacted || !ChatEvent::KINDS.contains(&record.kind.0) {
        return None;
    }
    match ChatEvent::decode(record.kind.0, &record.meta, &record.payload) {
        Ok(ChatEvent::MessageSaved(message)) => Some(message.role),
        _ => None,
    }
}
