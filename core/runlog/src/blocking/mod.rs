//! The same calls for callers that wait: each runs its asynchronous twin on the calling thread, so that
//! behaviour is written once.

mod agents;
mod chats;
mod flows;
mod repository;
mod runs;
mod service;
mod store;

pub use agents::Agents;
pub use chats::{ChatStore, RequestBuffer};
pub use flows::{FlowRun, Flows, Playback};
pub use repository::{ContextRepository, Events};
pub use runs::{ResumedRun, RunRecorder, Runs};
pub use service::ContextService;
pub use store::Store;
