//! [`ListSessions`] and [`ListInstances`]: which sessions and instances to list.

use serde::{Deserialize, Deserializer};

use crate::{Session, SessionStatus};

/// Which sessions to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListSessions {
    /// Only sessions of this status; `None` is both.
    pub status: Option<SessionStatus>,
    /// Only sessions of this project; `None` is all.
    pub project: Option<String>,
    /// Whether deleted sessions are listed too; `true` or `false` in JSON.
    #[serde(deserialize_with = "deleted")]
    #[cfg_attr(feature = "schema", schemars(with = "bool"))]
    pub deleted: Deleted,
    /// The maximum number of items.
    pub limit: usize,
    /// Where to continue: the [`next`](crate::Page::next) of the previous page.
    pub cursor: Option<String>,
}

/// Which of a session's instances to list.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListInstances {
    /// The maximum number of items.
    pub limit: usize,
    /// Where to continue: the [`next`](crate::Page::next) of the previous page.
    pub cursor: Option<String>,
}

impl Default for ListInstances {
    fn default() -> Self {
        Self {
            limit: 50,
            cursor: None,
        }
    }
}

/// Whether deleted items are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Deleted {
    /// They are hidden.
    #[default]
    Hidden,
    /// They are shown.
    Shown,
}

fn deleted<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Deleted, D::Error> {
    Ok(match Option::<bool>::deserialize(deserializer)? {
        Some(true) => Deleted::Shown,
        _ => Deleted::Hidden,
    })
}

impl Default for ListSessions {
    fn default() -> Self {
        Self {
            status: None,
            project: None,
            deleted: Deleted::Hidden,
            limit: 50,
            cursor: None,
        }
    }
}

impl ListSessions {
    pub(super) fn admits(&self, session: &Session) -> bool {
        (self.deleted == Deleted::Shown || session.deleted_at_ms.is_none())
            && self.status.is_none_or(|status| session.status == status)
            && self
                .project
                .as_ref()
                .is_none_or(|project| session.project.as_ref() == Some(project))
    }
}
