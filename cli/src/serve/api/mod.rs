//! The endpoints, by subject.

mod agents;
mod chats;
mod flows;
mod history;
mod pages;
mod runs;
mod sessions;
mod store;
mod writes;

pub(super) use flows::{FlowEvent, OfFlow, known_flow};

use super::endpoint::Endpoint;

/// Every endpoint.
pub(super) fn endpoints() -> Vec<Endpoint> {
    [
        history::endpoints(),
        runs::endpoints(),
        sessions::endpoints(),
        chats::endpoints(),
        flows::endpoints(),
        agents::endpoints(),
        store::endpoints(),
        writes::endpoints(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
