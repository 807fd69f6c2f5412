//! The part of a chat that a copy of its session contains: messages and steps, up to the point of the copy.

use runlog_log::{Direction, Expected, Op, ReadOptions, Record, Sequence};
use runlog_model::{
    ChatEvent, ChatRequest, ChatRole, EncodedEvent, RawJson, RequestStatus, SessionId, Updates,
    id_in_copy,
};

use super::copy_end::{ChatEnd, MessageEnd, Point};
use crate::{Result, Store, kernel::records::chat_stream};

/// How many records are read at a time around the point of a copy.
const FEW: u64 = 32;

/// A chat to copy: its own stream, up to a sequence.
#[derive(Debug)]
pub(crate) struct CopiedChat {
    source: SessionId,
    copy: SessionId,
    at: Sequence,
    /// The first events of its own, of which the first marks for its fold that those before it are another chat's.
    own: Vec<EncodedEvent>,
    /// When the last copied message was saved.
    pub(crate) last_message_at_ms: Option<u64>,
}

impl Store {
    /// The part of a session's chat to copy; `None` if it has no messages and no steps. Nothing is written.
    ///
    /// Up to a point, this is everything that was saved before the first event that isn't copied, without the requests
    /// that began after the last event that is. (A request's answer is saved at its end, after the context events of
    /// its work.) Without an end, it is all of it.
    pub(crate) async fn chat_to_copy(
        &self,
        source: SessionId,
        copy: SessionId,
        chat_id: String,
        end: Option<&ChatEnd>,
    ) -> Result<Option<CopiedChat>> {
        let Some(info) = self.backend().stream(chat_stream(source)).await? else {
            return Ok(None);
        };
        let last = info.last_sequence;
        let at = match end {
            Some(ChatEnd::Point(point)) => self.saved_by_then(source, last, *point).await?,
            Some(ChatEnd::Message(end)) => end.at,
            None => last,
        };
        if at == Sequence::ZERO {
            return Ok(None);
        }
        let mark = ChatEvent::Copied {
            session_id: copy,
            chat_id: chat_id.clone(),
        };
        let mut own = vec![mark.encode()?];
        let mut last_message_at_ms = None;
        if let Some(end) = end {
            last_message_at_ms = self.last_message_at_ms(source, at).await?;
            if let ChatEnd::Message(end) = end {
                for event in of_message_end(end, copy, &chat_id, self.backend().now_ms())? {
                    own.push(event.encode()?);
                }
            }
        }
        Ok(Some(CopiedChat {
            source,
            copy,
            at,
            own,
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
                records: self.own.iter().map(EncodedEvent::record).collect(),
            },
        ]
    }
}

/// The events of a copy that leave out messages which the copied part has, and put others in their places.
fn of_message_end(
    end: &MessageEnd,
    copy: SessionId,
    chat_id: &str,
    now_ms: u64,
) -> Result<Vec<ChatEvent>> {
    let mut events = Vec::new();
    for ids in end.left_out.chunks(ChatEvent::DELETED_TOGETHER_MAX) {
        events.push(ChatEvent::MessagesDeleted {
            message_ids: ids.iter().map(|id| id_in_copy(copy.0, id)).collect(),
            at_ms: now_ms,
        });
    }
    for moved in &end.moved {
        events.push(ChatEvent::MessageUpdated {
            message_id: id_in_copy(copy.0, &moved.id),
            at_ms: moved.updated_at_ms,
            updates: Updates::new().with("sequence", RawJson::from_value(&moved.sequence)?),
        });
    }
    for id in &end.dismissed_steps {
        events.push(ChatEvent::StepUpdated {
            step_id: id_in_copy(copy.0, id),
            at_ms: now_ms,
            updates: Updates::new().with("dismissed_at", RawJson::from_value(&now_ms)?),
        });
    }
    for request in &end.dismissed {
        events.push(ChatEvent::RequestSaved(Box::new(ChatRequest {
            request_id: id_in_copy(copy.0, &request.request_id),
            chat_id: chat_id.to_owned(),
            answers: request.answers.as_deref().map(|id| id_in_copy(copy.0, id)),
            status: RequestStatus::Dismissed,
            updated_at_ms: now_ms,
            // What was said of it isn't the copy's.
            error: None,
            run_id: None,
            usage: None,
            metadata: None,
            ..request.clone()
        })));
    }
    Ok(events)
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
