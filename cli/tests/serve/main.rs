//! `runlog serve`: the real binary, asked over HTTP.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod description;
mod files;
mod history;
mod lists;
mod recorded;
mod safety;
mod schemathesis;
mod server;
mod tail;
mod viewer;
mod writes;
