//! The API of a store for JavaScript, independent of the binding: a Node addon, or WebAssembly in a worker.
//!
//! A binding is a thin wrapper around one [`Hub`] per JavaScript thread. It passes on [calls](Hub::call): the handle of
//! an object, the name of a method, arguments as JSON, and separate bytes. A call is answered at once, or gets a ticket
//! whose answer a later [poll](Hub::poll) returns. Nothing here calls JavaScript, blocks for long, or panics into its caller.
//!
//! Contents (messages, payloads) are never converted to a JSON value in Rust: they are passed as raw bytes.

mod agents;
mod answers;
mod appends;
mod archives;
mod arguments;
mod calls;
mod changes;
mod chats;
mod contexts;
mod failure;
mod flow_records;
mod flows;
mod given;
mod host;
mod hub;
mod names;
mod object;
mod open_store;
mod orchestrator;
mod packed;
mod progress;
mod reads;
mod recorder;
mod remote;
mod reply;
mod requests;
mod root;
mod run_context;
mod runs;
#[cfg(feature = "schema")]
pub mod schema;
mod sessions;
mod space;
mod spawn;
mod store;
mod streams;
#[cfg(feature = "schema")]
mod tables;
mod tasks;
mod upload;
mod watched;
mod written;

pub use failure::{Failure, Result};
pub use host::{Host, StorageAt, Work};
pub use hub::{Answers, Hub, Started};
pub use reply::Reply;
#[cfg(feature = "schema")]
pub use tables::all_calls;
