//! The part of a chat that a copy of its session contains: messages and steps, up to the point of the copy.

use runlog_log::{Direction, Expected, Op, ReadOptions, Record, Sequence};
use runlog_model::{
    ChatEvent, ChatRequest, ChatRole, EncodedEvent, RawJson, RequestStatus, SessionId, Updates,
    id_in_copy,
};

use super::copy_end::{ChatEnd, MessageEnd, Point};
use crate::{Result, Store, journal::follow::read_while, kernel::records::chat_stream};

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
        let options = ReadOptions {
            first: at.next(),
            last,
            limit: FEW,
            ..ReadOptions::default()
        };
        read_while(&**self.backend(), stream, options, &mut |record| {
            let is_later = point.next.is_some_and(|next| record.position.0 > next);
            let belongs = !is_later && !begins_request(record);
            if belongs {
                at = record.sequence;
            }
            Ok(belongs)
        })
        .await?;
        Ok(at)
    }

    /// When the last message was saved, up to a sequence of a chat.
    async fn last_message_at_ms(&self, source: SessionId, at: Sequence) -> Result<Option<u64>> {
        let options = ReadOptions {
            last: at,
            direction: Direction::Backward,
            limit: FEW,
            ..ReadOptions::default()
        };
        let mut saved_at_ms = None;
        let stream = chat_stream(source);
        read_while(&**self.backend(), stream, options, &mut |record| {
            let event = event_of_chat(record);
            if let Some(ChatEvent::MessageSaved(_)) = event {
                saved_at_ms = Some(record.time_ms);
            }
            Ok(saved_at_ms.is_none())
        })
        .await?;
        Ok(saved_at_ms)
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
            used_at_ms: None,
        });
    }
    for moved in &end.moved {
        events.push(ChatEvent::MessageUpdated {
            message_id: id_in_copy(copy.0, &moved.id),
            at_ms: moved.updated_at_ms,
            updates: Updates::new().with("sequence", RawJson::from_value(&moved.sequence)?),
            appended: String::new(),
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
            replaces: Vec::new(),
            is_copied: true,
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

/// Whether a record is the first one of a request: its user's message, or its own record if it answers one that was there.
fn begins_request(record: &Record) -> bool {
    match event_of_chat(record) {
        Some(ChatEvent::MessageSaved(message)) => message.role == ChatRole::User,
        Some(ChatEvent::RequestSaved(request)) => {
            let is_new = request.created_at_ms == request.updated_at_ms;
            is_new && request.status == RequestStatus::Running && request.answers.is_some()
        }
        _ => false,
    }
}

/// The event of a chat's record; `None` for other records, and redacted ones.
fn event_of_chat(record: &Record) -> Option<ChatEvent> {
    if record.redacted || !ChatEvent::KINDS.contains(&record.kind.0) {
        return None;
    }
    ChatEvent::decode(record.kind.0, &record.meta, &record.payload).ok()
}
