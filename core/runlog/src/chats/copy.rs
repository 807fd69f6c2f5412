//! The part of a chat that a copy of its session contains: messages and steps, up to the point of the copy.

use runlog_log::{Direction, Expected, Op, ReadOptions, Record, Sequence};
use runlog_model::{ChatEvent, ChatRole, EncodedEvent, SessionId};

use crate::{Result, Store, kernel::records::chat_stream};

/// How many records are read at a time around the point of a copy.
const FEW: u64 = 32;

/// The point up to which a session is copied: the positions of the last context event that is copied, and of the first
/// that isn't.
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
    /// Marks for the copy's fold that the events before it are another chat's.
    mark: EncodedEvent,
    /// When the last copied message was saved.
    pub(crate) last_message_at_ms: Option<u64>,
}

impl Store {
    /// The part of a session's chat to copy; `None` if it has no messages and no steps. Nothing is written.
    ///
    /// Up to a point, this is everything that was saved before the first event that isn't copied, without the requests
    /// that began after the last event that is. (A request's answer is saved at its end, after the context events of
    /// its work.)
    pub(crate) async fn chat_to_copy(
        &self,
        source: SessionId,
        copy: SessionId,
        chat_id: String,
        point: Option<Point>,
    ) -> Result<Option<CopiedChat>> {
        let Some(info) = self.backend().stream(chat_stream(source)).await? else {
            return Ok(None);
        };
        let at = match point {
            Some(point) => {
                self.saved_by_then(source, info.last_sequence, point)
                    .await?
            }
            None => info.last_sequence,
        };
        if at == Sequence::ZERO {
            return Ok(None);
        }
        let mark = ChatEvent::Copied {
            session_id: copy,
            chat_id,
        }
        .encode()?;
        let last_message_at_ms = if point.is_some() {
            self.last_message_at_ms(source, at).await?
        } else {
            None
        };
        Ok(Some(CopiedChat {
            source,
            copy,
            at,
            mark,
            last_message_at_ms,
        }))
    }

    /// The last sequence of a chat that belongs to a point: searched for, and then read from there on.
    async fn saved_by_then(
        &self,
        source: SessionId,
        last: Sequence,
        point: Point,
    ) -> Result<Sequence> {
        let stream = chat_stream(source);
        let copied = self
            .last_before(stream, last, point.last.saturating_add(1))
            .await?;
        let mut at = copied.map_or(Sequence::ZERO, |record| record.sequence);
        let mut next = Some(Sequence(at.0 + 1));
        while let Some(first) = next.filter(|first| *first <= last) {
            let options = ReadOptions {
                first,
                last,
                limit: FEW,
                ..ReadOptions::default()
            };
            let page = self.backend().read(stream, options).await?;
            next = page.next;
            for record in &page.records {
                let is_later = point.next.is_some_and(|next| record.position.0 > next);
                if is_later || saved_by(record) == Some(ChatRole::User) {
                    return Ok(at);
                }
                at = record.sequence;
            }
        }
        Ok(at)
    }

    /// When the last message was saved, up to a sequence of a chat.
    async fn last_message_at_ms(&self, source: SessionId, at: Sequence) -> Result<Option<u64>> {
        let mut next = Some(at);
        while let Some(last) = next {
            let direction = Direction::Backward;
            let options = ReadOptions {
                last,
                direction,
                limit: FEW,
                ..ReadOptions::default()
            };
            let page = self.backend().read(chat_stream(source), options).await?;
            next = page.next;
            let saved = page
                .records
                .iter()
                .find(|record| saved_by(record).is_some());
            if let Some(record) = saved {
                return Ok(Some(record.time_ms));
            }
        }
        Ok(None)
    }
}

impl CopiedChat {
    /// The operations that create the copy.
    pub(crate) fn ops(&self) -> [Op<'_>; 2] {
        let (parent, child) = (chat_stream(self.source), chat_stream(self.copy));
        [
            Op::Fork {
                parent,
                expected: Expected::Any,
                at: self.at,
                child,
            },
            Op::Append {
                stream: child,
                expected: Expected::Last(self.at),
                records: vec![self.mark.record()],
            },
        ]
    }
}

/// The role of the message that a record saves; `None` for other records.
fn saved_by(record: &Record) -> Option<ChatRole> {
    if record.redacted || !ChatEvent::KINDS.contains(&record.kind.0) {
        return None;
    }
    match ChatEvent::decode(record.kind.0, &record.meta, &record.payload) {
        Ok(ChatEvent::MessageSaved(message)) => Some(message.role),
        _ => None,
    }
}
