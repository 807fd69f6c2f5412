//! Lists of sessions: which ones, and in pages.

use serde::{Deserialize, Deserializer};

use super::Catalog;
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

impl Catalog {
    /// One page of sessions, newest first, of those that were made before a place; and the place before which the next
    /// page continues, `None` on the last page. It costs the sessions of the page, and those that pass one of the
    /// filters and not another: the most selective filter is followed.
    pub fn list(&self, options: &ListSessions, before: Option<u64>) -> (Vec<Session>, Option<u64>) {
        let (mut sessions, mut last_seen) = (Vec::new(), None);
        let before = before.map_or(u32::MAX, |created| self.number_made_from(created));
        for entry in self
            .walk(options, before)
            .filter_map(|number| self.look_at(number))
        {
            if !options.admits(&entry.session) {
                continue;
            }
            if sessions.len() == options.limit {
                return (sessions, last_seen);
            }
            sessions.push(entry.session.clone());
            last_seen = Some(entry.created);
        }
        (sessions, None)
    }

    /// The sessions of a list before a number, newest first, some others among them.
    fn walk(&self, options: &ListSessions, before: u32) -> Box<dyn Iterator<Item = u32> + '_> {
        let mut lists = Vec::new();
        if let Some(project) = &options.project {
            let Some(of_project) = self.by_project.get(&**project) else {
                return Box::new(std::iter::empty());
            };
            lists.push(of_project);
        }
        if options.deleted == Deleted::Hidden {
            lists.push(match options.status {
                Some(status) => self.listed.of_status(status),
                None => self.listed.all(),
            });
        }
        match lists.into_iter().min_by_key(|list| list.len()) {
            Some(list) => Box::new(list.range(..before).rev()),
            None => {
                let count = u32::try_from(self.sessions.len()).unwrap_or(u32::MAX);
                Box::new((0..before.min(count)).rev())
            }
        }
    }

    /// The number of the first session that was made at a sequence or after it.
    pub(super) fn number_made_from(&self, created: u64) -> u32 {
        self.sessions
            .partition_point(|entry| entry.created < created)
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
