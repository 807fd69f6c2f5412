//! Where a copy of a session ends: at a sequence of its root's context, or at a message of its chat.

use runlog_log::{Record, Sequence};
use runlog_model::{AgentInstance, InstanceId, SessionId};

use crate::{
    Error, ErrorKind, Result, Store,
    chats::{ChatEnd, Point},
    kernel::lookup::root_instance,
};

/// How far a context is copied.
pub(super) struct Written {
    pub(super) last: Sequence,
    /// Whether there is more that isn't copied.
    pub(super) is_more: bool,
}

/// The point up to which a session is copied.
pub(super) struct Cut {
    /// The root, with its last sequence, where that says where the copy ends.
    pub(super) root: Option<(InstanceId, Sequence)>,
    time_ms: u64,
    pub(super) point: Point,
    pub(super) chat: ChatEnd,
}

impl Cut {
    /// Whether an instance that wrote nothing before the cut was there. Its creation is compared by the clock, since a copy's
    /// instances are listed long after what they share was written.
    pub(super) fn is_before(&self, instance: &AgentInstance, written: Option<&Written>) -> bool {
        // One that wrote only after the cut must have an earlier creation time, not the same. A message is saved without any
        // agent's doing, and whoever is as old may have been there.
        match written {
            Some(written) if written.is_more && self.root.is_some() => {
                instance.created_at_ms < self.time_ms
            }
            _ => instance.created_at_ms <= self.time_ms,
        }
    }
}

impl Store {
    /// Where a copy ends that is made up to one of the two; `None` for all of it.
    pub(super) async fn cut_of(
        &self,
        session: SessionId,
        up_to_sequence: Option<u64>,
        up_to_message: Option<&str>,
    ) -> Result<Option<Cut>> {
        match (up_to_sequence, up_to_message) {
            (None, None) => Ok(None),
            (Some(up_to), None) => self.cut_at(session, up_to).await.map(Some),
            (None, Some(message)) => self.cut_at_message(session, message).await.map(Some),
            (Some(_), Some(_)) => Err(Error::invalid(
                "a copy ends at a sequence or at a message; give one of the two",
            )),
        }
    }

    /// The cut at a sequence of the root's context.
    async fn cut_at(&self, session: SessionId, up_to: u64) -> Result<Cut> {
        let root = self
            .shared
            .catalog
            .with_state(|catalog| root_instance(catalog, session))?;
        let contexts = self.contexts();
        let last = contexts.last_sequence(root.id).await?;
        if up_to > last {
            return Err(Error::invalid(format!(
                "the context of session {session} ends at sequence {last}, before {up_to}; copy up to at most {last}"
            )));
        }
        let event = contexts.event(root.id, up_to).await?;
        let next = contexts.event(root.id, up_to + 1).await;
        let next = next.map_err(|error| needs_next(error, up_to))?;
        let next = next.map(|event| event.position);
        let point = Point {
            last: event.as_ref().map_or(0, |event| event.position),
            next,
        };
        let time_ms = event.map_or(root.created_at_ms, |event| event.created_at_ms);
        Ok(Cut {
            root: Some((root.id, Sequence(up_to))),
            time_ms,
            point,
            chat: ChatEnd::Point(point),
        })
    }

    /// The cut at a message of the session's chat.
    pub(super) async fn cut_at_message(&self, session: SessionId, message_id: &str) -> Result<Cut> {
        let (end, saved, next) = self.chat_end_at(session, message_id).await?;
        let Record {
            time_ms, position, ..
        } = saved;
        let point = Point {
            last: position.0,
            next,
        };
        Ok(Cut {
            root: None,
            time_ms,
            point,
            chat: end,
        })
    }
}

/// The error for an event that can't be read, though it is the first one behind the part that is wanted.
pub(super) fn needs_next(error: Error, last: u64) -> Error {
    if error.kind() != ErrorKind::Damaged || last == 0 {
        return error;
    }
    let message = format!(
        "{error}; its place says how far the sub-agents were at {last}, so that {} is the last point that can be asked for",
        last - 1
    );
    Error::damaged(message)
}
