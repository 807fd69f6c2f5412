//! The requests of chats whose contents are removed.

use runlog_model::{CatalogEvent, EncodedEvent, OpenRequest, RequestStatus, Session};

use crate::Result;

/// The events by which the requests of a chat that were to be resumed, and whose contents are gone, are in no list any more: nobody
/// could resume or dismiss them.
pub(super) fn dismissals(
    session: &Session,
    is_gone: impl Fn(&OpenRequest) -> bool,
) -> Result<Vec<EncodedEvent>> {
    let open = session.chat.iter().flat_map(|chat| &chat.open_requests);
    let dismissed = open.filter(|request| is_gone(request)).map(|request| {
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
