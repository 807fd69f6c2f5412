//! Orchestration: each scenario of the requirements, and what becomes of trees of agents that are stopped.
//!
//! Every claim runs in memory on a runtime of one thread, and in a folder on one of several.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod inbox;
mod pausing;
mod recorders;
mod resuming;
mod spaces;
mod spawning;
mod stopping;
mod support;
mod tools;
mod unrecorded;
#[path = "../watched/mod.rs"]
mod watched;
