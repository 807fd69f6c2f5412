//! [`Chat`]: a session with every field of a chat.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Session, SessionStatus};
use crate::{
    Error, RawJson, Result, Timestamp, Updates,
    check::{length, required},
    json::{extra, overlay},
    limits::{
        CHAT_ID_CHARS_MAX, CHAT_OWNER_CHARS_MAX, CHAT_TITLE_CHARS_MAX, CHAT_WORD_CHARS_MAX,
        SESSION_METADATA_BYTES_MAX,
    },
};

const MODE: &str = "chat";

/// With whom a chat is shared.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
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
/// The JSON has exactly these names, with the owner's as `__yao_created_by`, `__yao_updated_by`, `__yao_team_id` and
/// `__yao_tenant_id`. Fields that aren't known are kept.
///
/// ```
/// use runlog_model::Chat;
///
/// let chat = Chat { title: Some("Trip".into()), ..Chat::new("travel") };
/// assert_eq!((chat.mode.as_str(), chat.preset, chat.sort), ("chat", false, 0));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Chat {
    /// The store's own number of it, in the order of creation; given by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// Its id: the session's name, or the session's id where it has no name. Empty for a fresh one.
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
    /// Its place in lists, for display.
    #[serde(default)]
    pub sort: i64,
    /// When its last message was made; kept by the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<Timestamp>,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was made; unset for now.
    #[serde(default)]
    pub created_at: Timestamp,
    /// When it was last changed; kept by the store.
    #[serde(default)]
    pub updated_at: Timestamp,
    /// The user who made it.
    #[serde(
        default,
        rename = "__yao_created_by",
        skip_serializing_if = "Option::is_none"
    )]
    pub created_by: Option<String>,
    /// The user who changed it last.
    #[serde(
        default,
        rename = "__yao_updated_by",
        skip_serializing_if = "Option::is_none"
    )]
    pub updated_by: Option<String>,
    /// The team it belongs to.
    #[serde(
        default,
        rename = "__yao_team_id",
        skip_serializing_if = "Option::is_none"
    )]
    pub team_id: Option<String>,
    /// The tenant it belongs to.
    #[serde(
        default,
        rename = "__yao_tenant_id",
        skip_serializing_if = "Option::is_none"
    )]
    pub tenant_id: Option<String>,
    /// Fields that aren't known here.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What a [`Session`] has as a chat, beside its own fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
    /// As [`Chat::last_message_at`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_message_at: Option<Timestamp>,
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
}

impl Default for ChatFields {
    fn default() -> Self {
        Self {
            assistant_id: String::new(),
            mode: mode(),
            preset: false,
            public: false,
            share: ChatShare::Private,
            sort: 0,
            last_message_at: None,
            created_by: None,
            updated_by: None,
            team_id: None,
            tenant_id: None,
            extra: Map::new(),
        }
    }
}

impl Chat {
    /// The fields that no update changes.
    pub const FIXED: [&'static str; 5] = [
        "id",
        "chat_id",
        "created_at",
        "__yao_created_by",
        "last_message_at",
    ];

    /// The names of its fields in JSON.
    const NAMES: [&'static str; 18] = [
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
        "__yao_created_by",
        "__yao_updated_by",
        "__yao_team_id",
        "__yao_tenant_id",
    ];

    /// A chat with an assistant, everything else as S4 has it by default.
    pub fn new(assistant_id: impl Into<String>) -> Self {
        let assistant_id = assistant_id.into();
        Self::from_parts(
            String::new(),
            ChatFields {
                assistant_id,
                ..ChatFields::default()
            },
        )
    }

    /// A session as a chat; `id` is the store's number of it.
    pub fn of(session: &Session, id: u64) -> Self {
        let chat_id = session
            .name
            .clone()
            .unwrap_or_else(|| session.id.to_string());
        let fields = session.chat.as_deref().cloned().unwrap_or_default();
        Self {
            id: Some(id),
            title: session.title.clone(),
            status: session.status,
            metadata: session.metadata.clone(),
            created_at: Timestamp(session.created_at_ms),
            updated_at: Timestamp(session.updated_at_ms),
            ..Self::from_parts(chat_id, fields)
        }
    }

    /// Writes the chat's fields into its session; ids and the time of creation stay.
    pub fn write_to(self, session: &mut Session) {
        session.title = self.title.filter(|title| !title.is_empty());
        session.status = self.status;
        session.metadata = self.metadata;
        session.updated_at_ms = self.updated_at.0;
        session.chat = Some(Box::new(ChatFields {
            assistant_id: self.assistant_id,
            mode: self.mode,
            preset: self.preset,
            public: self.public,
            share: self.share,
            sort: self.sort,
            last_message_at: self.last_message_at,
            created_by: self.created_by,
            updated_by: self.updated_by,
            team_id: self.team_id,
            tenant_id: self.tenant_id,
            extra: self.extra,
        }));
    }

    /// The chat with updates.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a field that can't be changed, or a value of another
    /// type; as [`check`](Self::check).
    pub fn updated(&self, updates: &Updates, at: Timestamp) -> Result<Self> {
        let chat = Self {
            updated_at: at,
            ..overlay(self, updates, &Self::FIXED, "chat")?
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
            ("the chat's __yao_created_by", &self.created_by),
            ("the chat's __yao_updated_by", &self.updated_by),
            ("the chat's __yao_team_id", &self.team_id),
            ("the chat's __yao_tenant_id", &self.tenant_id),
        ] {
            length(what, owner.as_deref(), CHAT_OWNER_CHARS_MAX)?;
        }
        check_extra(&self.extra)
    }

    /// [`check`](Self::check) of a chat that is new.
    ///
    /// # Errors
    /// As [`check`](Self::check); [`InvalidInput`](crate::ErrorKind::InvalidInput) when the assistant is missing.
    pub fn check_new(&self) -> Result<()> {
        length("the chat_id", Some(&self.chat_id), CHAT_ID_CHARS_MAX)?;
        required(
            "the chat's assistant_id",
            &self.assistant_id,
            CHAT_OWNER_CHARS_MAX,
        )?;
        self.check()
    }

    fn from_parts(chat_id: String, fields: ChatFields) -> Self {
        Self {
            id: None,
            chat_id,
            title: None,
            assistant_id: fields.assistant_id,
            mode: fields.mode,
            status: SessionStatus::Active,
            preset: fields.preset,
            public: fields.public,
            share: fields.share,
            sort: fields.sort,
            last_message_at: fields.last_message_at,
            metadata: None,
            created_at: Timestamp::UNSET,
            updated_at: Timestamp::UNSET,
            created_by: fields.created_by,
            updated_by: fields.updated_by,
            team_id: fields.team_id,
            tenant_id: fields.tenant_id,
            extra: fields.extra,
        }
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
