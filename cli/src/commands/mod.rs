//! The commands, one a file.

pub(crate) mod agents;
pub(crate) mod backup;
pub(crate) mod cancel;
pub(crate) mod chats;
pub(crate) mod completions;
pub(crate) mod copy;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod flow;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod record_fixtures;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod salvage;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod stat;
pub(crate) mod tail;
pub(crate) mod truncate;
pub(crate) mod verify;
