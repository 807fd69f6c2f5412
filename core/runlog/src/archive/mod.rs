//! Archives: everything that a store has, or that it has of some sessions, as JSON lines that another store can take.
//!
//! All that a store knows is records of streams, so that an archive is these records, each a line, with its payload as
//! JSON where it is JSON. [`export`] writes one, [`import`] reads one. Version 2:
//!
//! ```text
//! {"runlog":"archive","version":2}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…"}
//! {"runlog":"record","stream":"…","sequence":1,"position":9,"time_ms":…,"kind":2,"what":"user_message","meta":"…","payload":{…}}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…","parent":"…","at":1}
//! {"runlog":"snapshot","stream":"…","sequence":1,"position":12,"time_ms":…,"meta":"…","payload":{…}}
//! {"runlog":"end","streams":2,"records":1,"snapshots":1}
//! ```
//!
//! A `stream` line comes before the records of its stream. `of` says what is kept in it: `context` (of an agent instance),
//! `chat` (messages and steps), `aside` (what stood around messages where they came from), `run` (what happened to a run, and
//! its flow), `import` (how far an import came), `stream` (any other). A copy's stream names the stream that it shares its
//! first records with where that is in the archive too; else its first records are lines of its own. Records come in the
//! order in which they were written; at the end come those that list sessions, runs and agents. `meta` is base64. A payload
//! with a line break in it, or that is no JSON, is a string under `payload_text`, and one that is no text is base64 under
//! `payload_base64`; none is an empty one. `what` and `of` are for people.
//!
//! What is kept: ids, sequences, contents byte for byte, and times. What isn't: positions in the log (their order is), and with
//! them the numbers that are positions (`id` of a run's messages and tool calls, and of a chat's messages and steps); records that were truncated; idempotency keys; and of a store that has later
//! records than the archive, or no [`ImportClock`], the time that a record itself has, as in a flow's playback and in streams of
//! your own. Events of contexts, runs, chats and sessions tell their own times, which stay.
//! A snapshot that a later one of the same sequence replaced is not there any more.

mod check;
mod clock;
mod export;
mod import;
mod lines;
mod lists;
#[cfg(not(target_family = "wasm"))]
mod new_file;
mod plan;
mod reader;
mod report;
mod write;

pub use clock::ImportClock;
pub use export::export;
pub use import::{ImportSource, import};
pub use lines::ARCHIVE_VERSION;
#[cfg(not(target_family = "wasm"))]
pub use new_file::NewFile;
pub use reader::first_time;
pub use report::{Conflict, Exported, Imported, ImportedSession, Outcome, What};
