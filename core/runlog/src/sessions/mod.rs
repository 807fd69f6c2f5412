//! Sessions and the agent instances in them: which there are, making, finding, changing and copying them.
//!
//! They are listed from a well-known stream, the catalog, to which every creation is appended in the same batch as the
//! thing itself; folded in memory, and written down now and then to open faster.

mod copy;
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
