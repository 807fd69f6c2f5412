//! [`ChatEvent`]: the events of a chat.

use super::{ChatMessage, ChatRequest, Step, StepDiff};
use crate::{
    SessionId, Updates,
    encoding::{Event, events},
    limits::CHAT_EVENT_BYTES_MAX,
};

events! {
    /// One event of a chat's stream. Messages and steps are stored without the number that the store assigns.
    pub enum ChatEvent {
        /// A message was saved.
        MESSAGE_SAVED => MessageSaved(message: Box<ChatMessage>),
        /// A message was changed.
        MESSAGE_UPDATED => MessageUpdated {
            /// The message.
            message_id: String,
            /// When: milliseconds since 1970-01-01 UTC.
            #[serde(rename = "at", deserialize_with = "crate::time::read")]
            at_ms: u64,
            /// The new values.
            updates: Updates,
            /// Text that follows what its `content` has with the new values: of an answer that grows, only what is new is
            /// written.
            #[serde(default, skip_serializing_if = "String::is_empty")]
            appended: String,
        },
        /// Messages were deleted.
        MESSAGES_DELETED => MessagesDeleted {
            /// The messages.
            message_ids: Vec<String>,
            /// When: milliseconds since 1970-01-01 UTC.
            #[serde(rename = "at", deserialize_with = "crate::time::read")]
            at_ms: u64,
            /// When the chat was last used before, where this is no use of it: its messages were erased.
            #[serde(rename = "used_at", default, skip_serializing_if = "Option::is_none")]
            used_at_ms: Option<u64>,
        },
        /// A step was saved.
        STEP_SAVED => StepSaved(step: Box<Step>),
        /// A step was changed.
        STEP_UPDATED => StepUpdated {
            /// The step.
            step_id: String,
            /// When: milliseconds since 1970-01-01 UTC.
            #[serde(rename = "at", deserialize_with = "crate::time::read")]
            at_ms: u64,
            /// The new values.
            updates: Updates,
        },
        /// Marks a copy: the events before it are the original chat's. Its messages, steps, requests and nodes of the
        /// call stack get new ids from here on, since an id is unique in the whole store.
        CHAT_COPIED => Copied {
            /// The copy's session.
            session_id: SessionId,
            /// The copy.
            chat_id: String,
        },
        /// A request was begun, or has ended.
        REQUEST_SAVED => RequestSaved(request: Box<ChatRequest>),
        /// A step was saved, with its input or its space as the difference from an earlier step's.
        STEP_DIFF_SAVED => StepDiffSaved(step: Box<StepDiff>),
    }
}

impl ChatEvent {
    /// The step that was saved, if it is about that: in a difference, without the texts that differ.
    pub fn saved_step(&self) -> Option<&Step> {
        match self {
            Self::StepSaved(step) => Some(step),
            Self::StepDiffSaved(diff) => Some(&diff.step),
            _ => None,
        }
    }
}

impl Event for ChatEvent {
    const NAME: &'static str = "a chat's message or step";
    const VERSION: u8 = 2;
    const BYTES_MAX: usize = CHAT_EVENT_BYTES_MAX;

    fn version(&self) -> u8 {
        match self {
            // A build that doesn't know of appended text would read the message without it.
            Self::MessageUpdated { appended, .. } if !appended.is_empty() => 2,
            _ => 1,
        }
    }
}
