//! [`ChatMessage`]: a message of a chat, as its user sees it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Error, RawJson, Result, Updates,
    check::{chosen_sequence, given_sequence, given_time, length, object, required, sequence},
    json::{
        extra, overlay,
        slices::{end_of_text, fields},
    },
    limits::{CHAT_ID_CHARS_MAX, CHAT_OWNER_CHARS_MAX, CHAT_WORD_CHARS_MAX},
};

/// Who a message of a chat is from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    /// The user.
    User,
    /// An assistant.
    Assistant,
}

/// Where the content of a message ends, for [`ChatMessage::append`]: how many bytes of its properties stand behind it. By default it isn't
/// known yet.
#[derive(Clone, Copy, Default, Debug)]
pub struct ContentEnd(Option<usize>);

impl ContentEnd {
    /// Whether it is known, and so the content is text.
    pub fn is_known(self) -> bool {
        self.0.is_some()
    }
}

/// A message of a chat, as its user sees it. Its type is open: `text`, `image`, `loading`, `error`, `action`, `file`,
/// or any other.
///
/// ```
/// use runlog_model::{ChatMessage, ChatRole, RawJson};
///
/// let message = ChatMessage::new(ChatRole::Assistant, "image", RawJson::parse(r#"{"url":"a.png","alt":"A"}"#)?);
/// assert_eq!(ChatMessage::text(ChatRole::User, "hi").props.as_str(), r#"{"content":"hi"}"#);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatMessage {
    /// The store's own number of it: its position in the log; given by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-always-present" = true)))]
    pub id: Option<u64>,
    /// Its id; empty for a fresh one.
    #[serde(default)]
    pub message_id: String,
    /// The chat it is in; given by the store.
    #[serde(default)]
    pub chat_id: String,
    /// The request it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Who it is from.
    pub role: ChatRole,
    /// What it is.
    #[serde(rename = "type")]
    pub message_type: String,
    /// What it shows, a JSON object kept byte for byte.
    #[cfg_attr(feature = "schema", schemars(with = "crate::json::raw::JsonObject"))]
    pub props: RawJson,
    /// The block it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_id: Option<String>,
    /// The thread it is part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The assistant it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assistant_id: Option<String>,
    /// Its sequence in the chat, from 1; 0 for the next one.
    #[serde(default)]
    pub sequence: u64,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0.
    #[serde(rename = "created_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub created_at_ms: u64,
    /// When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store.
    #[serde(rename = "updated_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub updated_at_ms: u64,
    /// Fields that aren't known here.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

impl ChatMessage {
    /// The fields that no update changes.
    pub const FIXED: [&'static str; 4] = ["id", "message_id", "chat_id", "created_at"];

    /// The names of its fields in JSON.
    pub const NAMES: [&'static str; 14] = [
        "id",
        "message_id",
        "chat_id",
        "request_id",
        "role",
        "type",
        "props",
        "block_id",
        "thread_id",
        "assistant_id",
        "sequence",
        "metadata",
        "created_at",
        "updated_at",
    ];

    /// A message of this type; the store gives what is left out.
    pub fn new(role: ChatRole, message_type: impl Into<String>, props: RawJson) -> Self {
        Self {
            id: None,
            message_id: String::new(),
            chat_id: String::new(),
            request_id: None,
            role,
            message_type: message_type.into(),
            props,
            block_id: None,
            thread_id: None,
            assistant_id: None,
            sequence: 0,
            metadata: None,
            created_at_ms: 0,
            updated_at_ms: 0,
            extra: Map::new(),
        }
    }

    /// A message of type `text`.
    pub fn text(role: ChatRole, content: &str) -> Self {
        let props = RawJson::from_own_text(format!("{{\"content\":{}}}", RawJson::string(content)));
        Self::new(role, "text", props)
    }

    /// The message with updates.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a field that can't be changed, or a value of another
    /// type; as [`check`](Self::check).
    pub fn updated(&self, updates: &Updates, at_ms: u64) -> Result<Self> {
        let message = Self {
            updated_at_ms: at_ms,
            ..overlay(self, updates, &Self::FIXED, "a message", |name| {
                extra::check_name("a message", name, &Self::NAMES)
            })?
        };
        message.check()?;
        Ok(message)
    }

    /// The JSON of its `content`, as it is in its properties.
    pub fn content(&self) -> Option<&str> {
        let [content] = fields(self.props.as_str(), ["content"]).ok()?;
        content
    }

    /// The message with updates, and then with more text at the end of its `content`.
    ///
    /// # Errors
    /// As [`updated`](Self::updated) and [`appended`](Self::appended).
    pub fn changed(&self, updates: &Updates, appended: &str, at_ms: u64) -> Result<Self> {
        if appended.is_empty() {
            return self.updated(updates, at_ms);
        }
        if updates.is_empty() {
            return self.appended(appended, at_ms);
        }
        self.updated(updates, at_ms)?.appended(appended, at_ms)
    }

    /// The message with more text at the end of its `content`; its other properties stay as they are, byte for byte.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when its content is something else than text.
    pub fn appended(&self, text: &str, at_ms: u64) -> Result<Self> {
        let mut message = self.clone();
        message.append(text, at_ms, &mut ContentEnd::default())?;
        Ok(message)
    }

    /// The same in place. Those who append often keep the `end`: without it the properties are read to find it. It is theirs of this
    /// message, until its properties are changed in another way.
    ///
    /// # Errors
    /// As [`appended`](Self::appended); nothing is changed then.
    pub fn append(&mut self, text: &str, at_ms: u64, end: &mut ContentEnd) -> Result<()> {
        let tail = match end.0 {
            Some(tail) => tail,
            None => {
                let found = end_of_text(self.props.as_str(), "content");
                let (tail, empty) = found.ok_or_else(|| {
                    Error::invalid(format!(
                        "the content of message {:?} isn't text, so that none can be appended; replace it",
                        self.message_id
                    ))
                })?;
                match empty {
                    None => tail,
                    Some(field) => {
                        self.props.insert(tail, field.as_bytes());
                        // The field's closing quote.
                        tail + 1
                    }
                }
            }
        };
        let quoted = serde_json::to_vec(text).expect("text has a JSON form");
        self.props.insert(tail, &quoted[1..quoted.len() - 1]);
        self.updated_at_ms = at_ms;
        end.0 = Some(tail);
        Ok(())
    }

    /// Checks what a caller may have put into a message.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty type, properties that aren't an object, or
    /// unknown fields that couldn't be read back;
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a field over its limit.
    pub fn check(&self) -> Result<()> {
        required(
            "the message's type",
            &self.message_type,
            CHAT_WORD_CHARS_MAX,
        )?;
        object("the message's props", Some(&self.props))?;
        length("the message_id", Some(&self.message_id), CHAT_ID_CHARS_MAX)?;
        length(
            "the message's assistant_id",
            self.assistant_id.as_deref(),
            CHAT_OWNER_CHARS_MAX,
        )?;
        for (what, id) in [
            ("the message's request_id", &self.request_id),
            ("the message's block_id", &self.block_id),
            ("the message's thread_id", &self.thread_id),
        ] {
            length(what, id.as_deref(), CHAT_ID_CHARS_MAX)?;
        }
        sequence("the message's sequence", self.sequence)?;
        extra::check("a message", &self.extra, &Self::NAMES)
    }

    /// As [`check`](Self::check), of a message that a caller makes, or gives another sequence: that leaves room for those after
    /// it.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`InvalidInput`](crate::ErrorKind::InvalidInput) for a sequence over
    /// [`CHAT_SEQUENCE_GIVEN_MAX`](crate::limits::CHAT_SEQUENCE_GIVEN_MAX).
    pub fn check_new(&self) -> Result<()> {
        given_sequence("message", &self.message_id, self.sequence)?;
        given_time("the message's created_at", self.created_at_ms)?;
        given_time("the message's updated_at", self.updated_at_ms)?;
        self.check()
    }

    /// As [`check_new`](Self::check_new), of one that is given another sequence: that isn't left to the store.
    ///
    /// # Errors
    /// As [`check_new`](Self::check_new); [`InvalidInput`](crate::ErrorKind::InvalidInput) for the sequence 0.
    pub fn check_moved(&self) -> Result<()> {
        chosen_sequence("message", &self.message_id, self.sequence)?;
        self.check_new()
    }
}
