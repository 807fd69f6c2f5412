//! Sessions and the agent instances in them: creating, finding, listing, changing and copying them.
//!
//! They are listed from a well-known stream, the catalog, to which every creation is appended in the same batch as the
//! session or instance itself. Its fold is in memory; periodic checkpoints of the fold make opening fast.

mod copy;
mod cut;
mod start;
mod truncate;

pub use runlog_model::{
    AgentInstance, Deleted, InstanceId, ListInstances, ListSessions, Page, Session, SessionChanges,
    SessionId, SessionStatus,
};

pub use crate::kernel::{
    catalog::CATALOG_STREAM,
    new_session::{NewInstance, NewSession},
};
pub use copy::{CopiedInstance, CopiedSession, CopySession};
