//! Requests to the process that writes: a command for a run, or that a run be cancelled or paused.
//!
//! One process writes a store. Another that has it open for reading asks that one through files in a folder beside the
//! log: they need no port, no permissions but the store's, and work on every system. In the process that writes, a
//! thread looks for them from the time on that it works on runs: from its first orchestrator or flow.
//!
//! A request is executed at most once: the writer claims it by renaming its file, who asks withdraws it in the same way,
//! and only one of the two succeeds.

mod ask;
mod claimant;
mod mailbox;
mod names;
mod receive;
mod request;

pub(crate) use ask::ask;
pub(crate) use receive::{
    CommandTaker, Receiver, Receivers, Reply, clean_requests, withdraw_requests,
};
pub(crate) use request::{WriterCall, WriterRequest};
