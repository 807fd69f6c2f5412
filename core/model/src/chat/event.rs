//! [`ChatEvent`]: what happens in a chat.

use serde::{Deserialize, Serialize};

use crate::{
    ChatMessage, Error, ErrorKind, Result, SessionId, Step, Timestamp, Updates, codec,
    limits::CHAT_EVENT_BYTES_MAX,
};

pub(super) const MESSAGE_SAVED: u8 = 64;
const MESSAGE_UPDATED: u8 = 65;
const MESSAGES_DELETED: u8 = 66;
const STEP_SAVED: u8 = 67;
const STEP_UPDATED: u8 = 68;
const CHAT_COPIED: u8 = 69;

/// One event of a chat's stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChatEvent {
    /// A message was saved.
    MessageSaved(Box<ChatMessage>),
    /// A message was changed.
    MessageUpdated {
        /// The message.
        message_id: String,
        /// When.
        at: Timestamp,
        /// The new values.
        updates: Updates,
    },
    /// Messages were deleted.
    MessagesDeleted {
        /// The messages.
        message_ids: Vec<String>,
        /// When.
        at: Timestamp,
    },
    /// A step was saved.
    StepSaved(Box<Step>),
    /// A step was changed.
    StepUpdated {
        /// The step.
        step_id: String,
        /// When.
        at: Timestamp,
        /// The new values.
        updates: Updates,
    },
    /// What comes before is another chat's: this one is a copy of it. Messages, steps, requests and nodes of the call
    /// stack have ids of their own from here on, since an id names one thing in the whole store.
    Copied {
        /// The copy's session.
        session_id: SessionId,
        /// The copy.
        chat_id: String,
    },
}

/// A chat event as the parts of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncodedChatEvent {
    /// Its kind byte, one of 64 to 95.
    pub kind: u8,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Its payload: JSON.
    pub payload: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct MessageUpdated {
    message_id: String,
    at: Timestamp,
    updates: Updates,
}

#[derive(Serialize, Deserialize)]
struct StepUpdated {
    step_id: String,
    at: Timestamp,
    updates: Updates,
}

#[derive(Serialize, Deserialize)]
struct Copied {
    session_id: SessionId,
    chat_id: String,
}

#[derive(Serialize, Deserialize)]
struct MessagesDeleted {
    message_ids: Vec<String>,
    at: Timestamp,
}

impl ChatEvent {
    /// The kind bytes of chat events: a chat's stream may have others too, which its fold passes over.
    pub const KINDS: std::ops::RangeInclusive<u8> = 64..=95;

    /// The event as the parts of a record.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) over [`CHAT_EVENT_BYTES_MAX`].
    pub fn encode(self) -> Result<EncodedChatEvent> {
        let (kind, payload) = match self {
            Self::MessageSaved(mut message) => {
                message.id = None;
                (MESSAGE_SAVED, serde_json::to_vec(&message))
            }
            Self::MessageUpdated {
                message_id,
                at,
                updates,
            } => (
                MESSAGE_UPDATED,
                serde_json::to_vec(&MessageUpdated {
                    message_id,
                    at,
                    updates,
                }),
            ),
            Self::MessagesDeleted { message_ids, at } => (
                MESSAGES_DELETED,
                serde_json::to_vec(&MessagesDeleted { message_ids, at }),
            ),
            Self::StepSaved(mut step) => {
                step.id = None;
                (STEP_SAVED, serde_json::to_vec(&step))
            }
            Self::StepUpdated {
                step_id,
                at,
                updates,
            } => (
                STEP_UPDATED,
                serde_json::to_vec(&StepUpdated {
                    step_id,
                    at,
                    updates,
                }),
            ),
            Self::Copied {
                session_id,
                chat_id,
            } => (
                CHAT_COPIED,
                serde_json::to_vec(&Copied {
                    session_id,
                    chat_id,
                }),
            ),
        };
        let payload = payload
            .map_err(|source| Error::invalid(format!("a chat event has no JSON form: {source}")))?;
        if payload.len() > CHAT_EVENT_BYTES_MAX {
            return Err(Error::too_large(format!(
                "a message or step has {} bytes of JSON, at most {CHAT_EVENT_BYTES_MAX} are allowed; keep large content elsewhere",
                payload.len()
            )));
        }
        Ok(EncodedChatEvent {
            kind,
            meta: codec::encode_chat_meta(),
            payload,
        })
    }

    /// Reads an event from the parts of a record.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for a kind or a version that this build doesn't
    /// know, [`Damaged`](ErrorKind::Damaged) for a payload of another shape.
    pub fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<Self> {
        let payload = codec::open_chat(meta, payload)?;
        let event = match kind {
            MESSAGE_SAVED => serde_json::from_slice(&payload).map(Self::MessageSaved),
            MESSAGE_UPDATED => serde_json::from_slice(&payload).map(
                |MessageUpdated {
                     message_id,
                     at,
                     updates,
                 }| Self::MessageUpdated {
                    message_id,
                    at,
                    updates,
                },
            ),
            MESSAGES_DELETED => {
                serde_json::from_slice(&payload).map(|MessagesDeleted { message_ids, at }| {
                    Self::MessagesDeleted { message_ids, at }
                })
            }
            STEP_SAVED => serde_json::from_slice(&payload).map(Self::StepSaved),
            STEP_UPDATED => serde_json::from_slice(&payload).map(
                |StepUpdated {
                     step_id,
                     at,
                     updates,
                 }| Self::StepUpdated {
                    step_id,
                    at,
                    updates,
                },
            ),
            CHAT_COPIED => serde_json::from_slice(&payload).map(
                |Copied {
                     session_id,
                     chat_id,
                 }| Self::Copied {
                    session_id,
                    chat_id,
                },
            ),
            _ => {
                return Err(Error::new(
                    ErrorKind::UnsupportedVersion,
                    format!(
                        "chat event of kind {kind} is not known to this build; use a newer one"
                    ),
                ));
            }
        };
        event.map_err(|source| {
            Error::damaged(format!("chat event of kind {kind} can't be read: {source}"))
        })
    }
}
