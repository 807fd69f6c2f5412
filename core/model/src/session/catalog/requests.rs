//! The open requests of all chats, so that interrupted and unanswered ones are found without scanning chats.

use std::collections::BTreeSet;

use super::Catalog;
use crate::{OpenRequest, Session, SessionId, limits::OPEN_REQUESTS_MAX};

impl Catalog {
    /// Applies a change of a request, and returns the place of its chat.
    pub(super) fn change_request(
        &mut self,
        sequence: u64,
        id: SessionId,
        changed: OpenRequest,
    ) -> Result<u32, String> {
        let (mut gone, mut come) = (None, None);
        let place = self.change(id, |session| {
            let open = &mut session.chat.get_or_insert_default().open_requests;
            let known = open
                .iter()
                .position(|request| request.request_id == changed.request_id);
            match known {
                Some(index) if changed.status.is_over() => gone = Some(open.remove(index).number),
                Some(index) => {
                    let number = open[index].number;
                    open[index] = OpenRequest { number, ..changed };
                }
                None if changed.status.is_over() => {}
                None => {
                    if open.len() >= OPEN_REQUESTS_MAX {
                        gone = Some(open.remove(0).number);
                    }
                    come = Some(sequence);
                    open.push(OpenRequest {
                        number: sequence,
                        ..changed
                    });
                }
            }
            Ok(())
        })?;
        gone.map(|number| self.open_requests.remove(&number));
        come.map(|number| self.open_requests.insert(number, id));
        Ok(place)
    }

    /// Rebuilds the index from the sessions.
    pub(super) fn index_requests(&mut self) {
        for Session { id, chat, .. } in self.sessions.iter().map(|entry| &entry.session) {
            let open = chat.iter().flat_map(|chat| &chat.open_requests);
            self.open_requests
                .extend(open.map(|request| (request.number, *id)));
        }
    }

    /// The chats that have requests that aren't over, deleted ones among them.
    pub fn with_open_requests(&self) -> BTreeSet<SessionId> {
        self.open_requests.values().copied().collect()
    }

    /// The requests that aren't over and were begun before a number, of chats that aren't deleted: each with its chat, the
    /// newest first.
    pub fn open_requests(&self, before: u64) -> impl Iterator<Item = (SessionId, &OpenRequest)> {
        let numbers = self.open_requests.range(..before).rev();
        numbers.filter_map(|(number, id)| {
            let session = self.session(*id).filter(|it| it.deleted_at_ms.is_none())?;
            let mut requests = session.chat.as_ref()?.open_requests.iter();
            Some((*id, requests.find(|request| request.number == *number)?))
        })
    }
}
