//! [`Chat`]: a session with every field of a chat.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::status::SessionStatus;
use crate::{
    Error, OpenRequest, RawJson, Result, Updates,
    check::{given_time, length, required},
    json::{extra, overlay},
    limits::{
        CHAT_ID_CHARS_MAX, CHAT_OWNER_CHARS_MAX, CHAT_TITLE_CHARS_MAX, CHAT_WORD_CHARS_MAX,
        SESSION_METADATA_BYTES_MAX,
    },
};

const MODE: &str = "chat";

/// With whom a chat is shared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ChatShare {
    /// With nobody.
    #[default]
    Private,
    /// With the team.
    Team,
}

/// A chat: a conversation as its user sees it.
///
/// The JSON has exactly these names. Fields that aren't known are kept.
///
/// ```
/// use runlog_model::Chat;
///
/// let chat = Chat { title: Some("Trip".into()), ..Chat::new("travel") };
/// assert_eq!((chat.mode.as_str(), chat.preset, chat.sort), ("chat", false, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chat {
    /// The store's own number of it, in the order of creation; given by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(extend("x-always-present" = true)))]
    pub id: Option<u64>,
    /// Its id: the session's name, or the session's id where it has no name. Empty for a fresh one.
    #[serde(default)]
    pub chat_id: String,
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The assistant it is with.
    pub assistant_id: String,
    /// Its mode.
    #[serde(default = "mode")]
    pub mode: String,
    /// Whether it is in use.
    #[serde(default)]
    pub status: SessionStatus,
    /// Whether it came with the product.
    #[serde(default)]
    pub preset: bool,
    /// Whether all teams see it.
    #[serde(default)]
    pub public: bool,
    /// With whom it is shared.
    #[serde(default)]
    pub share: ChatShare,
    /// Its rank in lists, for display.
    #[serde(default)]
    pub sort: i64,
    /// When its last message was made: milliseconds since 1970-01-01 UTC; kept by the store.
    #[serde(
        rename = "last_message_at",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::read_option"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub last_message_at_ms: Option<u64>,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0.
    #[serde(rename = "created_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub created_at_ms: u64,
    /// When it was last changed, of a deleted one when it was deleted: milliseconds since 1970-01-01 UTC; kept by the store.
    #[serde(rename = "updated_at", default, deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub updated_at_ms: u64,
    /// The user who made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The user who changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// The team it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// The tenant it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Fields that aren't known here.
    #[serde(flatten, serialize_with = "crate::json::extra::serialize")]
    pub extra: Map<String, Value>,
}

/// What a [`Session`](crate::Session) has as a chat, beside its own fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatFields {
    /// As [`Chat::assistant_id`].
    pub assistant_id: String,
    /// As [`Chat::mode`].
    pub mode: String,
    /// As [`Chat::preset`].
    pub preset: bool,
    /// As [`Chat::public`].
    pub public: bool,
    /// As [`Chat::share`].
    pub share: ChatShare,
    /// As [`Chat::sort`].
    pub sort: i64,
    /// As [`Chat::last_message_at_ms`].
    #[serde(
        rename = "last_message_at",
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::time::read_option"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub last_message_at_ms: Option<u64>,
    /// As [`Chat::created_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// As [`Chat::updated_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_by: Option<String>,
    /// As [`Chat::team_id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// As [`Chat::tenant_id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// As [`Chat::extra`].
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
    /// The requests that aren't over, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_requests: Vec<OpenRequest>,
    /// Whether messages may be in another order than that in which they were saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reordered: bool,
}

/// Makes a `Chat` or a `ChatFields` with the fields that both have, from the other one.
macro_rules! with_fields_of {
    ($from:ident => $Type:ident { $($more:tt)* }) => {
        $Type {
            assistant_id: $from.assistant_id,
            mode: $from.mode,
            preset: $from.preset,
            public: $from.public,
            share: $from.share,
            sort: $from.sort,
            last_message_at_ms: $from.last_message_at_ms,
            created_by: $from.created_by,
            updated_by: $from.updated_by,
            team_id: $from.team_id,
            tenant_id: $from.tenant_id,
            extra: $from.extra,
            $($more)*
        }
    };
}

pub(super) use with_fields_of;

impl Default for ChatFields {
    fn default() -> Self {
        let chat = Chat::new("");
        with_fields_of!(chat => ChatFields { open_requests: Vec::new(), reordered: false })
    }
}

impl Chat {
    /// The fields that no update changes.
    pub const FIXED: [&'static str; 5] = [
        "id",
        "chat_id",
        "created_at",
        "created_by",
        "last_message_at",
    ];

    /// The names of its fields in JSON.
    pub const NAMES: [&'static str; 18] = [
        "id",
        "chat_id",
        "title",
        "assistant_id",
        "mode",
        "status",
        "preset",
        "public",
        "share",
        "sort",
        "last_message_at",
        "metadata",
        "created_at",
        "updated_at",
        "created_by",
        "updated_by",
        "team_id",
        "tenant_id",
    ];

    /// A chat with an assistant, and defaults for all other fields.
    pub fn new(assistant_id: impl Into<String>) -> Self {
        Self {
            assistant_id: assistant_id.into(),
            mode: mode(),
            ..Self::default()
        }
    }

    /// The chat with updates.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a field that can't be changed, or a value of another
    /// type; as [`check`](Self::check).
    pub fn updated(&self, updates: &Updates, at_ms: u64) -> Result<Self> {
        let chat = Self {
            updated_at_ms: at_ms,
            ..overlay(self, updates, &Self::FIXED, "a chat", |name| {
                extra::check_name("a chat", name, &Self::NAMES)
            })?
        };
        chat.check()?;
        Ok(chat)
    }

    /// Checks what a caller may have put into a chat.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty mode, or unknown fields that couldn't be read
    /// back; [`TooLarge`](crate::ErrorKind::TooLarge) for
    /// a field over its limit.
    pub fn check(&self) -> Result<()> {
        length(
            "the chat's title",
            self.title.as_deref(),
            CHAT_TITLE_CHARS_MAX,
        )?;
        length(
            "the chat's assistant_id",
            Some(&self.assistant_id),
            CHAT_OWNER_CHARS_MAX,
        )?;
        required("the chat's mode", &self.mode, CHAT_WORD_CHARS_MAX)?;
        for (what, owner) in [
            ("the chat's created_by", &self.created_by),
            ("the chat's updated_by", &self.updated_by),
            ("the chat's team_id", &self.team_id),
            ("the chat's tenant_id", &self.tenant_id),
        ] {
            length(what, owner.as_deref(), CHAT_OWNER_CHARS_MAX)?;
        }
        check_extra(&self.extra)
    }

    /// [`check`](Self::check) of a chat that is new.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`InvalidInput`](crate::ErrorKind::InvalidInput) when the assistant is missing, an owner has an empty
    /// id, or a field `user_id` is given in place of `created_by`.
    pub fn check_new(&self) -> Result<()> {
        length("the chat_id", Some(&self.chat_id), CHAT_ID_CHARS_MAX)?;
        required(
            "the chat's assistant_id",
            &self.assistant_id,
            CHAT_OWNER_CHARS_MAX,
        )?;
        given_time("the chat's created_at", self.created_at_ms)?;
        self.check_owners()?;
        // Lists and erasures look for it by that name: kept as a field of the caller's own, the chat would be nobody's.
        if let Some(name) = self
            .extra
            .keys()
            .find(|name| extra::is_alike(name, "user_id"))
        {
            return Err(Error::invalid(format!(
                "{name:?} is what chats are listed by; whose a new chat is, is said by `created_by`"
            )));
        }
        self.check()
    }

    /// Checks whose it is, where a caller says so.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty id.
    pub fn check_owners(&self) -> Result<()> {
        // All whose id is missing would have one chat in common, and none could be erased by its user.
        for (name, owner) in [
            ("created_by", &self.created_by),
            ("team_id", &self.team_id),
            ("tenant_id", &self.tenant_id),
        ] {
            if owner.as_deref() == Some("") {
                return Err(Error::invalid(format!(
                    "`{name}` is empty; give an id, or leave it out where the chat is to be nobody's"
                )));
            }
        }
        Ok(())
    }
}

impl ChatFields {
    /// Checks what can't be checked as it is read.
    pub(crate) fn check(&self) -> Result<()> {
        check_extra(&self.extra)
    }
}

fn check_extra(fields: &Map<String, Value>) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    extra::check("a chat", fields, &Chat::NAMES)?;
    let bytes = serde_json::to_vec(fields).map_or(0, |json| json.len());
    if bytes <= SESSION_METADATA_BYTES_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "the chat's unknown fields have {bytes} bytes, at most {SESSION_METADATA_BYTES_MAX} are allowed"
    )))
}

fn mode() -> String {
    MODE.to_owned()
}
