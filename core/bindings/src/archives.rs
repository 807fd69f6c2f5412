//! Archives: what `runlog export` writes, to a file or piece by piece, and back.

#![allow(
    clippy::disallowed_methods,
    reason = "an archive is a file of the caller's, and not one of a store's storage"
)]

use std::{
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError, mpsc},
};

use runlog::{
    ErrorKind, RunId, SessionId, Store,
    archive::{self, Exported, Imported, LostRecords, What},
    blocking,
};
use serde::{Deserialize, Serialize};

use crate::{
    Failure, Result,
    answers::{Made, Packed, wait},
    arguments::Input,
    calls::calls,
    object::{Object, Scope},
    store::StoreObject,
    tasks::Answer,
    upload::Upload,
};

/// Pieces of an archive have about this size.
const PIECE_BYTES: usize = 256 << 10;
/// How many pieces are produced ahead of the reader.
#[cfg(not(target_family = "wasm"))]
const PIECES_AHEAD: usize = 4;

/// What to write: all there is, or some of it.
#[derive(Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ExportSelection"))]
#[serde(default, deny_unknown_fields)]
struct GivenWhat {
    /// Sessions, by their ids, the beginning of them, or their names.
    sessions: Option<Vec<String>>,
    /// The sessions of these runs, by their ids.
    runs: Option<Vec<String>>,
    /// Whether records that can't be read any more are passed over, and named by lines of the archive; else they are an error.
    #[serde(rename = "skipDamaged")]
    skip_damaged: bool,
}

/// What to write, looked up.
struct Chosen {
    /// `None` for the whole store.
    sessions: Option<Vec<SessionId>>,
    skip_damaged: bool,
}

/// What was written.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Exported"))]
struct ExportedTo {
    /// The sessions, in the order they were made.
    sessions: Vec<SessionId>,
    /// How many streams.
    streams: u64,
    /// How many records.
    records: u64,
    /// How many snapshots.
    snapshots: u64,
    /// What couldn't be read, and was passed over.
    lost: Vec<Lost>,
}

/// Records of a stream that couldn't be read, or states saved in it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "LostRecords"))]
struct Lost {
    /// The stream.
    stream: String,
    /// What the stream holds, as its line in the archive says, such as `context` or `run`.
    of: &'static str,
    /// The session that it belongs to.
    session_id: Option<SessionId>,
    /// The first sequence; of saved states the first at which one may be.
    first: u64,
    /// The last sequence.
    last: u64,
    /// Whether it is states saved at these sequences, and not the records.
    is_snapshot: bool,
}

impl From<LostRecords> for Lost {
    fn from(lost: LostRecords) -> Self {
        Self {
            stream: lost.stream.0.to_string(),
            of: lost.of,
            session_id: lost.session,
            first: lost.first,
            last: lost.last,
            is_snapshot: lost.is_snapshot,
        }
    }
}

/// An archive that is being written, piece by piece. Dropping it stops the writing.
pub(crate) struct ExportObject {
    pieces: Arc<Mutex<mpsc::Receiver<Result<Vec<u8>>>>>,
}

/// An archive that arrives piece by piece: stored in a file until it is complete, because it is read twice.
pub(crate) struct ImportObject {
    of: Rc<StoreObject>,
    file: Arc<Mutex<Upload>>,
}

calls! {
    (of: &Rc<StoreObject>, scope, input) {
        let store = of.store()?;
        let (maker, at) = (Rc::clone(of), scope.clone());
    }

    exportTo { path: String, #[serde(default)] what: GivenWhat } -> ExportedTo => {
        let path = path_of(path, "the path of an export")?;
        wait(scope.host.offload(Box::pin(async move {
            let chosen = what.chosen(&store).await?;
            export_to(&store.to_blocking(), &path, &chosen)
        })))
    };
    export { #[serde(default)] what: GivenWhat } -> Made<()> => {
        let beginning = scope.host.offload(Box::pin(async move {
            let chosen = what.chosen(&store).await?;
            export_pieces(store.to_blocking(), chosen)
        }));
        wait(async move {
            let pieces = Arc::new(Mutex::new(beginning.await?));
            Made::new(&at, Rc::new(ExportObject { pieces }), &())
        })
    };
    importFrom { path: String, #[serde(default)] strict: bool } -> Imported => {
        let path = path_of(path, "the path of an archive")?;
        wait(scope.host.offload(Box::pin(async move { import_from(&store.to_blocking(), &path, strict) })))
    };
    import {} -> Made<()> => {
        let making = scope.host.offload(Box::pin(async move { Upload::create() }));
        wait(async move {
            let file = Arc::new(Mutex::new(making.await?));
            Made::new(&at, Rc::new(ImportObject { of: maker, file }), &())
        })
    };
}

impl GivenWhat {
    async fn chosen(self, store: &Store) -> Result<Chosen> {
        let skip_damaged = self.skip_damaged;
        let sessions = self.sessions(store).await?;
        Ok(Chosen {
            sessions,
            skip_damaged,
        })
    }

    /// The selected sessions; `None` for the whole store.
    async fn sessions(self, store: &Store) -> Result<Option<Vec<SessionId>>> {
        if self.sessions.is_none() && self.runs.is_none() {
            return Ok(None);
        }
        let mut chosen = Vec::new();
        for text in self.sessions.into_iter().flatten() {
            let found = store.find_session(&text).await;
            chosen.push(match (found, text.parse()) {
                (Ok(session), _) => session.id,
                // One that was deleted is named by its whole id; whether there was one is told by the export.
                (Err(error), Ok(id)) if error.kind() == ErrorKind::NotFound => id,
                (Err(error), _) => return Err(error.into()),
            });
        }
        for text in self.runs.into_iter().flatten() {
            let id: RunId = text
                .parse()
                .map_err(|_| Failure::invalid(format!("`runs`: {text:?} is not an id (a UUID)")))?;
            let run = store.runs().get(id).await?;
            let run = run.ok_or_else(|| {
                Failure::new(ErrorKind::NotFound, format!("no run {id} to export"))
            })?;
            chosen.push(run.session_id);
        }
        runlog::log::order::sort(&mut chosen);
        chosen.dedup();
        if chosen.is_empty() {
            return Err(Failure::invalid(
                "neither `sessions` nor `runs` names any; leave both out for the whole store",
            ));
        }
        Ok(Some(chosen))
    }
}

fn path_of(path: String, what: &str) -> Result<PathBuf> {
    if cfg!(target_family = "wasm") {
        return Err(Failure::invalid(
            "there are no files here; use `export` and `import`, which give and take the bytes",
        ));
    }
    if path.is_empty() || path.contains('\0') {
        return Err(Failure::invalid(format!(
            "{what} is {path:?}; give the path of a file"
        )));
    }
    Ok(PathBuf::from(path))
}

impl Chosen {
    /// Writes the archive, line by line.
    fn export(
        &self,
        store: &blocking::Store,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<ExportedTo> {
        let what = self.sessions.as_deref().map_or(What::All, What::Sessions);
        let written = if self.skip_damaged {
            archive::export_readable(store, what, write)
        } else {
            archive::export(store, what, write).map(|written| (written, Vec::new()))
        };
        let (exported, lost) = written.map_err(|failure| self.advised(failure))?;
        let Exported {
            sessions,
            streams,
            records,
            snapshots,
        } = exported;
        Ok(ExportedTo {
            sessions,
            streams,
            records,
            snapshots,
            lost: lost.into_iter().map(Lost::from).collect(),
        })
    }

    /// What can't be read, with what to do about it.
    fn advised(&self, mut failure: Failure) -> Failure {
        if failure.code == ErrorKind::Damaged.name() {
            failure.message += if self.skip_damaged {
                "; it is in one of the store's lists, which `runlog verify --repair` lets go on; then export again"
            } else {
                "; `skipDamaged` writes everything else"
            };
        }
        failure
    }
}

/// Writes an archive to a file, which gets its name once it is complete.
#[cfg(not(target_family = "wasm"))]
fn export_to(store: &blocking::Store, path: &Path, chosen: &Chosen) -> Result<ExportedTo> {
    use std::io::Write as _;

    let unwritten = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            let message = format!(
                "{} is there already; remove it, or give another name",
                path.display()
            );
            Failure::new(ErrorKind::AlreadyExists, message)
        }
        _ => failed(error, "write", path),
    };
    let mut file = archive::NewFile::create(path).map_err(unwritten)?;
    let done = chosen.export(store, &mut |line| file.write_all(line).map_err(unwritten))?;
    file.finish().map_err(unwritten)?;
    Ok(done)
}

#[cfg(target_family = "wasm")]
fn export_to(_: &blocking::Store, _: &Path, _: &Chosen) -> Result<ExportedTo> {
    Err(Failure::invalid("there are no files here to export to"))
}

/// Writes an archive in a thread of its own, which waits for the reader without blocking other work. Without threads,
/// all of it is written before it is read.
fn export_pieces(
    store: blocking::Store,
    chosen: Chosen,
) -> Result<mpsc::Receiver<Result<Vec<u8>>>> {
    #[cfg(target_family = "wasm")]
    {
        let (send, receive) = mpsc::channel();
        send_pieces(&store, &chosen, &|piece| send.send(piece).is_ok());
        Ok(receive)
    }
    #[cfg(not(target_family = "wasm"))]
    {
        let (send, receive) = mpsc::sync_channel(PIECES_AHEAD);
        let work = move || {
            send_pieces(&store, &chosen, &|piece| send.send(piece).is_ok());
        };
        let thread = std::thread::Builder::new()
            .name("runlog-export".to_owned())
            .spawn(work);
        thread.map_err(|error| {
            Failure::new(ErrorKind::Io, format!("no thread for the export: {error}"))
        })?;
        Ok(receive)
    }
}

/// Writes an archive piece by piece to `send`, which returns whether the reader still exists.
fn send_pieces(store: &blocking::Store, chosen: &Chosen, send: &dyn Fn(Result<Vec<u8>>) -> bool) {
    let mut piece = Vec::with_capacity(PIECE_BYTES);
    let mut write = |line: &[u8]| {
        piece.extend_from_slice(line);
        if piece.len() < PIECE_BYTES {
            return Ok(());
        }
        let full = std::mem::replace(&mut piece, Vec::with_capacity(PIECE_BYTES));
        let given_up = || Failure::new(ErrorKind::Closed, "nobody reads the export any more");
        send(Ok(full)).then_some(()).ok_or_else(given_up)
    };
    let done = chosen.export(store, &mut write);
    // The reader may be gone before the end.
    match done {
        Ok(_) if piece.is_empty() => true,
        Ok(_) => send(Ok(piece)),
        Err(failure) => send(Err(failure)),
    };
}

fn import_from(store: &blocking::Store, path: &Path, strict: bool) -> Result<Imported> {
    if path.is_dir() {
        let message = format!("can't read {}: it is a folder", path.display());
        return Err(Failure::new(ErrorKind::Io, message));
    }
    let mut source = || {
        let file = File::open(path).map_err(|error| {
            let message = format!("can't read {}: {error}", path.display());
            let kind = if error.kind() == std::io::ErrorKind::NotFound {
                ErrorKind::NotFound
            } else {
                ErrorKind::Io
            };
            runlog::Error::with_source(kind, message, error)
        })?;
        Ok(Box::new(BufReader::with_capacity(PIECE_BYTES, file)) as Box<dyn BufRead>)
    };
    Ok(archive::import(store, None, strict, &mut source)?)
}

#[cfg(not(target_family = "wasm"))]
fn failed(error: std::io::Error, what: &str, path: &Path) -> Failure {
    let message = format!("can't {what} {}: {error}", path.display());
    runlog::Error::with_source(ErrorKind::Io, message, error).into()
}

impl Object for ExportObject {
    fn name(&self) -> &'static str {
        "an export"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        calls_of_export::call(&self, scope, input)
    }
}

pub(crate) mod calls_of_export {
    use super::*;

    calls! {
        (of: &Rc<ExportObject>, scope, input) {}

        // No contents at the end.
        next {} -> Packed<()> => {
            let pieces = Arc::clone(&of.pieces);
            wait(scope.host.offload(Box::pin(async move {
                let pieces = pieces.lock().unwrap_or_else(PoisonError::into_inner);
                pieces.recv().unwrap_or_else(|_| Ok(Vec::new())).map(Packed::new)
            })))
        };
    }
}

impl Object for ImportObject {
    fn name(&self) -> &'static str {
        "an import"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        calls_of_import::call(&self, scope, input)
    }
}

pub(crate) mod calls_of_import {
    use super::*;

    calls! {
        (of: &Rc<ImportObject>, scope, input) {
            let store = of.of.store()?;
            let file = Arc::clone(&of.file);
        }

        write {} -> () => {
            let piece = input.data.to_vec();
            wait(scope.host.offload(Box::pin(async move {
                file.lock().unwrap_or_else(PoisonError::into_inner).write(&piece)
            })))
        };
        finish { #[serde(default)] strict: bool } -> Imported => {
            wait(scope.host.offload(Box::pin(async move {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.import(&store.to_blocking(), strict)
            })))
        };
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, sync::Barrier};

    use runlog::NewSession;

    use super::*;

    fn of(sessions: Option<Vec<SessionId>>) -> Chosen {
        Chosen {
            sessions,
            skip_damaged: false,
        }
    }

    #[test]
    fn of_two_exports_to_one_file_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = blocking::Store::open(folder.path().join("store")).unwrap();
        let one = store.create_session(NewSession::titled("one")).unwrap().id;
        for number in 0..50 {
            store
                .create_session(NewSession::titled(format!("session {number}")))
                .unwrap();
        }
        let text = |chosen: &Chosen| {
            let mut text = Vec::new();
            let done = chosen.export(&store, &mut |line| {
                text.extend_from_slice(line);
                Ok(())
            });
            done.unwrap();
            text
        };
        let chosen = [None, Some(vec![one])].map(of);
        let chosen = [&chosen[0], &chosen[1]];
        for round in 0..20 {
            let (path, barrier) = (
                folder.path().join(format!("{round}.jsonl")),
                Barrier::new(2),
            );
            let export = |chosen| {
                barrier.wait();
                export_to(&store, &path, chosen)
            };
            let done = std::thread::scope(|scope| {
                let started = chosen.map(|chosen| scope.spawn(move || export(chosen)));
                started.map(|thread| thread.join().unwrap())
            });
            let winner = usize::from(done[0].is_err());
            assert!(done[winner].is_ok(), "round {round}");
            let Err(refused) = &done[1 - winner] else {
                panic!("round {round}: both have written it")
            };
            assert!(
                format!("{refused:?}").contains("already_exists"),
                "{refused:?}"
            );
            assert!(
                std::fs::read(&path).unwrap() == text(chosen[winner]),
                "round {round}"
            );
        }
    }

    #[test]
    fn a_file_beside_an_export_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let store = blocking::Store::open(folder.path().join("store")).unwrap();
        let (path, beside) = (
            folder.path().join("a.jsonl"),
            folder.path().join("a.jsonl.partial"),
        );
        std::fs::write(&beside, "notes").unwrap();
        export_to(&store, &path, &of(None)).map(drop).unwrap();
        assert_eq!(std::fs::read(&beside).unwrap(), b"notes");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            3,
            "the store, the file, and the one beside it"
        );
    }

    #[test]
    fn what_is_given_piece_by_piece_has_no_name_and_is_read_as_often_as_needed() {
        let folder = tempfile::tempdir().unwrap();
        let mut upload = Upload::create_in(folder.path().to_owned()).unwrap();
        let read = |upload: &mut Upload| {
            let mut text = String::new();
            upload.read().unwrap().read_to_string(&mut text).unwrap();
            text
        };
        upload.write(b"one ").unwrap();
        upload.write(b"two ").unwrap();
        #[cfg(unix)]
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "nothing is left, however the process ends"
        );
        assert_eq!(
            [read(&mut upload), read(&mut upload)],
            ["one two ", "one two "]
        );
        // After a refusal, the upload can be continued.
        let store = blocking::Store::in_memory();
        assert_eq!(
            upload.import(&store, false).unwrap_err().code,
            "invalid_input"
        );
        upload.write(b"three").unwrap();
        assert_eq!(read(&mut upload), "one two three");
    }

    #[test]
    fn an_archive_is_imported_from_a_file_without_a_name() {
        let store = blocking::Store::in_memory();
        let session = store.create_session(NewSession::named("trip")).unwrap();
        let mut upload = Upload::create().unwrap();
        archive::export(&store, What::All, &mut |line| upload.write(line)).unwrap();
        let other = blocking::Store::in_memory();
        let imported = upload.import(&other, false).unwrap();
        assert_eq!((imported.sessions.len(), imported.conflicts.len()), (1, 0));
        assert_eq!(other.find_session("trip").unwrap(), session);
        assert_eq!(
            upload.import(&other, false).unwrap().sessions[0]
                .outcome
                .name(),
            "unchanged"
        );
    }
}
