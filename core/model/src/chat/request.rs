//! [`ChatRequest`]: one request of a chat with its status, and [`OpenRequest`]: one that hasn't ended.

use serde::{Deserialize, Serialize};

use crate::{
    RawJson, Result, RunId,
    check::{check_length, object},
    limits::REQUEST_DETAIL_BYTES_MAX,
    named::named,
};

/// The status of a request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestStatus {
    /// It was begun, and hasn't ended: a process is working on it, or died.
    Running,
    /// It was answered.
    Completed,
    /// It was stopped, and can be resumed.
    Interrupted,
    /// It failed, and can be resumed.
    Failed,
    /// It wasn't completed, and is not to be resumed.
    Dismissed,
}

named! {
    RequestStatus: "request status" {
        Running = "running",
        Completed = "completed",
        Interrupted = "interrupted",
        Failed = "failed",
        Dismissed = "dismissed",
    }
}

impl RequestStatus {
    /// Whether it is final: completed or dismissed.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Dismissed)
    }
}

/// A request of a chat: one message of its user, and its outcome.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatRequest {
    /// Its id.
    pub request_id: String,
    /// The chat it is in.
    pub chat_id: String,
    /// The assistant it is for: the root of its call stack.
    pub assistant_id: String,
    /// Its status.
    pub status: RequestStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The message that it answers, if it was begun for one that was there; otherwise its user's message has its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<String>,
    /// The messages that its answer replaces, if it was begun to, in their order then: they are deleted in the write that has its
    /// first message. Told by the first of its records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<String>,
    /// Whether the chat has it of the one that it is a copy of, where it was worked on: what it took is counted there. Once it is gone on
    /// with in the copy it is that one's own, and has the run, the usage and the metadata that are told of it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_copied: bool,
    /// The run that does its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<RawJson>,
    /// When it was begun: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at", deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub created_at_ms: u64,
    /// When it ended, or was last changed: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "updated_at", deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub updated_at_ms: u64,
}

/// Details that a caller records about a request.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RequestDetails {
    /// The run that does its work; `None` leaves it as it was.
    pub run_id: Option<RunId>,
    /// What it took, such as tokens and their cost: a JSON object; `None` leaves it as it was.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<crate::json::raw::JsonObject>")
    )]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON; `None` leaves it as it was.
    pub metadata: Option<RawJson>,
}

impl ChatRequest {
    /// Applies a caller's details.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the usage isn't an object,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for more than 64 KiB of it or of metadata. Nothing is changed then.
    pub fn describe(&mut self, details: RequestDetails) -> Result<()> {
        object("the request's usage", details.usage.as_ref())?;
        for (what, json) in [
            ("the request's usage", &details.usage),
            ("the request's metadata", &details.metadata),
        ] {
            check_length(
                what,
                json.as_ref().map(RawJson::as_str),
                REQUEST_DETAIL_BYTES_MAX,
            )?;
        }
        self.run_id = details.run_id.or(self.run_id);
        self.usage = details.usage.or(self.usage.take());
        self.metadata = details.metadata.or(self.metadata.take());
        Ok(())
    }
}

/// A request that hasn't ended: it runs, was never answered, was interrupted, or failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenRequest {
    /// The store's own number of it, in the order in which they were begun; given by the store.
    #[serde(default)]
    pub number: u64,
    /// Its id.
    pub request_id: String,
    /// The assistant it is for.
    pub assistant_id: String,
    /// Its status.
    pub status: RequestStatus,
    /// When it was begun: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at", deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub created_at_ms: u64,
    /// When it ended, or was last changed: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "updated_at", deserialize_with = "crate::time::read")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub updated_at_ms: u64,
}

impl From<&ChatRequest> for OpenRequest {
    fn from(request: &ChatRequest) -> Self {
        Self {
            number: 0,
            request_id: request.request_id.clone(),
            assistant_id: request.assistant_id.clone(),
            status: request.status,
            created_at_ms: request.created_at_ms,
            updated_at_ms: request.updated_at_ms,
        }
    }
}
