//! Record, replay, resume, truncate and fork AI-agent runs.

pub mod backend;
mod error;

pub use error::{Error, ErrorKind, Result};
