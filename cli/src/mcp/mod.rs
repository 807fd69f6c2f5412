//! `runlog mcp`: agents that are programs, and the history of runs, as the tools of a Model Context Protocol server on
//! standard input and output.

mod config;
mod executor;
mod progress;
mod queries;
mod server;
mod transport;

pub(crate) use config::AgentsFile;
pub(crate) use executor::{AGENTS_MAX, CommandAgent, runtime};
pub(crate) use server::Server;
pub(crate) use transport::Lines;
