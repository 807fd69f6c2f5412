//! Lists of sessions, in pages.

use super::{
    Catalog,
    options::{Deleted, ListSessions},
};
use crate::Session;

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
