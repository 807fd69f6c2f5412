//! Transcripts of agent runs in the formats of other tools: read into sessions, instances and messages, and written back.
//!
//! Pure: bytes in, values out. The content of a source is preserved byte for byte: a message is exactly the slice of
//! the source, and the JSON around it (a Claude Code line's envelope, a run's task and reward) is stored with a `null`
//! in the message's place, so that [`render`] reproduces the source.
//!
//! | format | recognized by | a session is |
//! | --- | --- | --- |
//! | [`Runlog`](Format::Runlog) | `"runlog"` in each line | what it was in the store |
//! | [`OpenAi`](Format::OpenAi) | `messages` (or `traj`), or a `role` in each line | a run, or the whole source |
//! | [`ClaudeCode`](Format::ClaudeCode) | `type` with `sessionId`, `uuid` or `leafUuid` | the lines of a `sessionId` |
//! | [`SweAgent`](Format::SweAgent) | `history` or `trajectory` | one object |
//!
//! What can't be read is an [`Issue`] with its place. A line that is no JSON is left out (an error); one that is JSON
//! but no message is kept separately (a warning). No input makes this panic, recurse or hold more than a few times its
//! own size; no line is longer than [`LINE_BYTES_MAX`].

mod about;
mod chat;
mod claude_code;
mod detect;
pub mod keep;
mod message;
mod parser;
mod python_literal;
mod reader;
pub mod render;
pub mod runlog_lines;
mod template;
mod values;
mod write;

pub use about::ImportMark;
pub(crate) use detect::compressed;
pub use detect::detect;
pub use parser::{LINE_BYTES_MAX, Options, Parser, parse};
pub use runlog_model::NewContextEvent;
pub use values::{Entry, Format, Instance, Issue, Item, Session, Severity, ToolCall, Transcript};
pub(crate) use write::marks_of as marks_stream;

#[cfg(test)]
mod tests;
