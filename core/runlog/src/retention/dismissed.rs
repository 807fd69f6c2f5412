//! The requests of chats whose contents are removed.

use runlog_model::{CatalogEvent, EncodedEvent, OpenRequest, RequestStatus, Session};

use crate::Result;

/// The events by which the requests of a chat that were to be resumed are in no list any more: their contents are gone, so that
/// nobody could resume or dismiss them.
pub(super) fn dismissals(session: &Session) -> Result<Vec<EncodedEvent>> {
    let open = session.chat.iter().flat_map(|chat| &chat.open_requests);
    let dismissed = open.map(|request| {
        let request = OpenRequest {
            status: RequestStatus::Dismissed,
            ..request.clone()
        };
        CatalogEvent::ChatRequestChanged {
            id: session.id,
            request,
        }
    });
    dismissed.map(|event| event.encode()).collect()
}
