//! Blocking versions of the async API: each call runs the async one on the calling thread, so that behaviour is written once.
//!
//! ```
//! use runlog::{NewMessage, NewSession, blocking::Store};
//!
//! let store = Store::in_memory();
//! let (_, agent) = store.start_session(NewSession::titled("Weather"), "planner")?;
//! store.context(agent.id)?.append_message(NewMessage::user("Will it rain?"))?;
//! # Ok::<(), runlog::Error>(())
//! ```

#[macro_use]
mod table;

mod agents;
mod chats;
mod context;
mod contexts;
mod flow_run;
mod flows;
mod items;
mod runs;
mod store;

pub use agents::Agents;
pub use chats::{Chats, RequestBuffer};
pub use context::Context;
pub use contexts::{Contexts, Events};
pub use flow_run::{FlowRun, Playback};
pub use flows::Flows;
pub use items::{Items, items};
pub use runs::{ResumedRun, RunRecorder, Runs};
pub use store::Store;
