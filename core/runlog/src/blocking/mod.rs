//! The same calls for callers that wait: each runs its asynchronous twin on the calling thread, so that
//! behaviour is written once.

mod agents;
mod chats;
mod context;
mod contexts;
mod flows;
mod runs;
mod store;

pub use agents::Agents;
pub use chats::{Chats, RequestBuffer};
pub use context::Context;
pub use contexts::{Contexts, Events};
pub use flows::{FlowRun, Flows, Playback};
pub use runs::{ResumedRun, RunRecorder, Runs};
pub use store::Store;
