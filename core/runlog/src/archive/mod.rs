//! Archives: the whole content of a store, or of some sessions, as JSON lines that another store can import.
//!
//! A store consists of records in streams, so an archive is these records, one per line, with their payloads as JSON if
//! they are JSON. [`export`] writes one, [`import`] reads one. Version 2:
//!
//! ```text
//! {"runlog":"archive","version":2}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…"}
//! {"runlog":"record","stream":"…","sequence":1,"position":9,"time_ms":…,"kind":2,"what":"user_message","meta":"…","payload":{…}}
//! {"runlog":"stream","stream":"…","of":"context","session_id":"…","parent":"…","at":1}
//! {"runlog":"snapshot","stream":"…","sequence":1,"position":12,"time_ms":…,"meta":"…","payload":{…}}
//! {"runlog":"end","streams":2,"records":1,"snapshots":1,"crc":3735928559}
//! ```
//!
//! A `stream` line comes before the records of its stream. `of` is its content type: `context` (of an agent instance),
//! `chat` (messages and steps), `aside` (the JSON around imported messages), `run` (the events of a run, and its flow),
//! `import` (the progress of an import), `stream` (any other). A copy's stream names the stream that it shares its
//! first records with if that is in the archive too; otherwise its first records are lines of its own. Records come in
//! the order in which they were written; at the end come those that list sessions, runs and agents. `meta` is base64. A
//! payload with a line break in it, or that is no JSON, is a string under `payload_text`; one that is no text is base64
//! under `payload_base64`; an empty payload has no field. `what` and `of` are for people. `crc` is the CRC-32 of all lines before
//! it, each with a line feed at its end; an archive that was changed on purpose is imported without it.
//!
//! [`export_readable`] writes what can be read of a damaged store. In the place of records that can't be is a line that says so, and
//! `end` says how many of these there are. Behind it come the records of the stream that can be read; an import leaves those out, since no
//! context goes on without a part of it unseen, and says so:
//!
//! ```text
//! {"runlog":"lost","stream":"…","sequence":5,"last":7}
//! {"runlog":"lost","stream":"…","what":"snapshot","sequence":3,"last":9}
//! ```
//!
//! Preserved are ids, sequences, contents byte for byte, and times. Not preserved are: positions in the log (only their
//! order is), and so the numeric ids that are positions (`id` of a run's messages and tool calls, and of a chat's
//! messages and steps); truncated records; idempotency keys; snapshots that were replaced by a later one of the same
//! sequence. If the importing store has later records than the archive, or no [`ImportClock`], records get the time of
//! the import, which shows in a flow's playback and in your own streams; events of contexts, runs, chats and sessions
//! contain their own times, which are preserved.

mod ahead;
mod check;
mod clock;
mod erased_states;
mod export;
mod import;
mod lines;
mod listing;
mod lists;
#[cfg(not(target_family = "wasm"))]
mod new_file;
mod owners;
mod pending;
mod plan;
mod readable;
mod reader;
mod report;
mod write;

pub use clock::ImportClock;
pub use export::{export, export_readable};
pub use import::{ImportSource, import};
pub use lines::ARCHIVE_VERSION;
#[cfg(not(target_family = "wasm"))]
pub use new_file::NewFile;
pub use readable::LostRecords;
pub use reader::first_time;
pub use report::{Conflict, Exported, Imported, ImportedSession, Outcome, What};
