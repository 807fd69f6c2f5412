//! [`OpenStore`]: every call of an open store.

use std::rc::Rc;

use runlog::engine::{Position, Store as Engine, Verification};
use serde::Serialize;
use uuid::Uuid;

use crate::{
    Failure, Result, agents,
    arguments::Input,
    calls::{calls, known, wait},
    chats, contexts, flows,
    object::{Object, Scope},
    orchestrator, runs, sessions,
    store::StoreObject,
    streams,
    tasks::Answer,
};

/// An open store, with what can be asked of it.
pub(crate) struct OpenStore(pub(crate) Rc<StoreObject>);

/// How large a store is and what is in it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Stat {
    /// The id of the store, given when it was made.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    store: Uuid,
    /// When it was made: milliseconds since 1970-01-01 UTC.
    created_ms: u64,
    /// How many segments it has, the active one included.
    segments: u64,
    /// How many streams it has, without those deleted.
    streams: u64,
    /// How many streams were deleted.
    streams_deleted: u64,
    /// The last position, which is also how many records were ever appended.
    last_position: u64,
    /// The time of the last record: milliseconds since 1970-01-01 UTC; 0 when there is none.
    last_time_ms: u64,
    /// How many bytes the segment files take, the space made ahead of need included.
    segment_bytes: u64,
    /// How many of these are records, their headers included, and index blocks.
    used_bytes: u64,
    /// Why readers in other processes don't see newer records, when this writer can't write the file by which they
    /// follow. The records are safe all the same. Never there for a reader.
    readers_behind: Option<String>,
}

/// What a backup did.
#[cfg(not(target_family = "wasm"))]
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Backup {
    /// Segments that were copied.
    segments_copied: u64,
    /// Segments that the backup had already, as they are.
    segments_kept: u64,
    /// The bytes that were copied.
    bytes_copied: u64,
    /// The last position that the backup has.
    last_position: u64,
}

/// What was found when every record was read.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Verification"))]
struct Verified {
    /// Whether nothing is damaged.
    sound: bool,
    /// How many segments there are.
    segments: u64,
    /// How many records were read and found whole.
    records: u64,
    /// How many bytes were read.
    bytes: u64,
    /// Bytes after the last whole batch that a crash cut off, never acknowledged: no damage.
    torn_bytes: u64,
    /// Each problem, at most 1,000 of them.
    problems: Vec<Problem>,
    /// How many problems there are.
    problems_count: u64,
}

/// Something that is damaged.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Problem {
    /// The file.
    file: String,
    /// Where in the file.
    offset: u64,
    /// What was expected and what was found, and which records are lost by it.
    message: String,
}

impl From<Verification> for Verified {
    fn from(found: Verification) -> Self {
        let problems = found.problems.into_iter().map(|problem| Problem {
            file: problem.file,
            offset: problem.offset,
            message: problem.message,
        });
        Self {
            sound: found.problems_count == 0,
            segments: found.segments,
            records: found.records,
            bytes: found.bytes,
            torn_bytes: found.torn_bytes,
            problems: problems.collect(),
            problems_count: found.problems_count,
        }
    }
}

fn stat(engine: &Engine) -> Result<Stat> {
    let stat = engine.stat()?;
    Ok(Stat {
        store: stat.store,
        created_ms: stat.created_ms,
        segments: stat.segments,
        streams: stat.streams,
        streams_deleted: stat.streams_deleted,
        last_position: stat.last_position.0,
        last_time_ms: stat.last_time_ms,
        segment_bytes: stat.segment_bytes,
        used_bytes: stat.used_bytes,
        readers_behind: stat.readers_behind,
    })
}

#[cfg(not(target_family = "wasm"))]
fn backup(engine: &Engine, folder: &str, verify: bool) -> Result<Backup> {
    use runlog::engine::{BackupOptions, storage::FsStorage};

    let done = engine.backup_with(&FsStorage::new(folder), BackupOptions { verify })?;
    Ok(Backup {
        segments_copied: done.copied,
        segments_kept: done.kept,
        bytes_copied: done.bytes,
        last_position: done.last_position.0,
    })
}

fn folder_of(folder: String) -> Result<String> {
    if folder.is_empty() || folder.contains('\0') {
        return Err(Failure::invalid("a backup needs the path of a folder"));
    }
    Ok(folder)
}

impl Object for OpenStore {
    fn name(&self) -> &'static str {
        "a store"
    }

    fn engine(&self) -> Result<Engine> {
        self.0.engine()
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.0.check()?;
        for table in [
            call,
            contexts::call,
            streams::call,
            sessions::call,
            runs::call,
            flows::call,
            chats::call,
            agents::call,
            orchestrator::call,
            #[cfg(not(target_family = "wasm"))]
            crate::archives::call,
        ] {
            if let Some(answer) = table(&self.0, scope, input)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }
}

calls! {
    (of: &Rc<StoreObject>, _scope, input) {}

    close {} -> () => Rc::clone(of).close()?;
    stat {} -> Stat => {
        let engine = of.engine()?;
        of.read(async move { stat(&engine) })
    };
    verify {} -> Verified => {
        let storage = of.storage()?;
        of.read(async move { runlog::engine::verify(&*storage).map(Verified::from) })
    };
    #[cfg(not(target_family = "wasm"))]
    backup { folder: String, #[serde(default)] verify: bool } -> Backup => {
        let (engine, folder) = (of.engine()?, folder_of(folder)?);
        of.read(async move { backup(&engine, &folder, verify) })
    };
    share {} -> u64 => known(of.share());
    waitPast { position: u64 } -> u64 => {
        let store = of.store()?;
        wait(async move { store.backend().wait_past(Position(position)).await.map(|at| at.0) })
    };
    sync {} -> () => {
        let engine = of.engine()?;
        of.read(async move { engine.sync() })
    };
    newId {} -> String => known(of.store().map(|store| store.backend().new_id().to_string()));
}
