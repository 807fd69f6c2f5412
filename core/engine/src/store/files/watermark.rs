//! The watermark file: the end of what the writer has published, for readers in other processes.

use super::small;
use crate::{
    Error, Result,
    format::files::{self, WATERMARK_BYTES, WATERMARK_BYTES_MAX, Watermark},
    storage::{Access, File, Storage},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// It may be read during a write, and then its CRC is wrong: it is read again, at most this often.
const READS_MAX: u32 = 100;

/// A reader that sees the same watermark this often in a row opens the file again: it may have been replaced.
const SAME_SEEN_MAX: u32 = 256;

/// The writer's side.
pub(crate) struct WatermarkFile {
    file: Arc<dyn File>,
    /// Held while it is written.
    state: Mutex<WrittenState>,
}

#[derive(Default)]
struct WrittenState {
    /// What was written last.
    written: Option<Watermark>,
    /// Counts what may have replaced files, on from what writers before counted.
    replacements: u64,
    /// The error since which readers in other processes are behind, while the writer continues.
    failed: Option<Error>,
}

impl WatermarkFile {
    /// Opens or creates the file. An error here fails the open, rather than leaving readers behind silently.
    pub(crate) fn open(storage: &dyn Storage) -> Result<Self> {
        let failed = |error| {
            let place = storage.describe();
            Error::from_io(
                error,
                format!(
                    "{place}: opening {}, by which readers in other processes follow",
                    files::WATERMARK
                ),
            )
        };
        let file = match storage.open(files::WATERMARK, Access::Write) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                // Whole from the start: a reader takes an empty one for none, and reads on without a limit.
                small::replace(storage, files::WATERMARK, &[0; WATERMARK_BYTES])?;
                storage
                    .open(files::WATERMARK, Access::Write)
                    .map_err(failed)?
            }
            Err(error) => return Err(failed(error)),
        };
        let before = look(&*file)?.ok().flatten();
        let state = WrittenState {
            // An opening removes files that packs replaced before a crash.
            replacements: before.map_or(0, |before| before.replacements.wrapping_add(1)),
            ..WrittenState::default()
        };
        Ok(Self {
            file,
            state: Mutex::new(state),
        })
    }

    /// Counts a pack that has replaced files; the next [`write`](Self::write) tells readers.
    pub(crate) fn count_replacement(&self) {
        let mut state = self.state();
        state.replacements = state.replacements.wrapping_add(1);
    }

    fn state(&self) -> MutexGuard<'_, WrittenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes to readers in other processes how far they may read. Not durable. If it fails they see the records
    /// later, and [`failure`](Self::failure) returns the error; the records are safe nevertheless.
    ///
    /// It never goes back: a compaction publishes without being the one who appends, and by then somebody may have
    /// published more. Its count of replacements is set here.
    pub(crate) fn write(&self, storage: &dyn Storage, watermark: &Watermark) {
        let mut state = self.state();
        let end = |of: &Watermark| (of.segment, of.offset);
        let further = state.written.filter(|it| end(watermark) < end(it));
        if further.is_some_and(|it| it.replacements == state.replacements) {
            return;
        }
        let watermark = Watermark {
            replacements: state.replacements,
            ..further.unwrap_or(*watermark)
        };
        state.written = Some(watermark);
        let written = self.file.write_at(0, &watermark.encode());
        state.failed = written.err().map(|error| {
            let place = storage.describe();
            let what = format!(
                "{place}: writing {}: readers in other processes don't see newer records",
                files::WATERMARK
            );
            Error::from_io(error, what)
        });
    }

    /// Why readers in other processes are behind, if they are.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state().failed.clone()
    }
}

/// The watermark, if it was written since the machine's last boot.
///
/// # Errors
/// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for one of a newer build.
pub(crate) fn read(storage: &dyn Storage, store: &[u8; 16]) -> Result<Option<Watermark>> {
    let boot = storage.boot_id().unwrap_or_default();
    WatermarkReader::default().open(storage, store, &boot)
}

/// The same, where a watermark that outlived a loss of power is distinguished from one that didn't: without a
/// boot id that is unknown, and it proves nothing.
pub(crate) fn read_proven(storage: &dyn Storage, store: &[u8; 16]) -> Result<Option<Watermark>> {
    match storage.boot_id() {
        Some(_) => read(storage, store),
        None => Ok(None),
    }
}

/// The reader's side, which keeps the file open between polls.
#[derive(Default)]
pub(crate) struct WatermarkReader {
    file: Option<Arc<dyn File>>,
    last: Option<Watermark>,
    same_seen: u32,
}

impl WatermarkReader {
    /// The open file, to be read without holding the reader's lock: read it with [`look`], and pass the result to
    /// [`seen`](Self::seen).
    pub(crate) fn file(&mut self) -> Option<Arc<dyn File>> {
        if self.same_seen >= SAME_SEEN_MAX {
            self.file = None;
            self.same_seen = 0;
        }
        self.file.clone()
    }

    /// Opens the file again, since it may have been replaced. Returns the watermark, if it was written since the
    /// machine's last boot.
    pub(crate) fn open(
        &mut self,
        storage: &dyn Storage,
        store: &[u8; 16],
        boot: &[u8; 16],
    ) -> Result<Option<Watermark>> {
        self.file = None;
        let file = match storage.open(files::WATERMARK, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            // Without the watermark a reader would miss the writer's records, or read beyond them.
            Err(error) => {
                return Err(Error::from_io(
                    error,
                    format!("{}: opening {}", storage.describe(), files::WATERMARK),
                ));
            }
        };
        let found = look(&*file)?.unwrap_or_default();
        self.file = found.is_some().then_some(file);
        Ok(self.seen(found, store, boot))
    }

    /// Records the result of a [`look`], and returns the watermark if it is valid.
    pub(crate) fn seen(
        &mut self,
        found: Option<Watermark>,
        store: &[u8; 16],
        boot: &[u8; 16],
    ) -> Option<Watermark> {
        self.same_seen = if found == self.last {
            self.same_seen.saturating_add(1)
        } else {
            0
        };
        self.last = found;
        found.filter(|found| found.store == *store && found.boot == *boot)
    }
}

/// The watermark in the file, not yet validated; `Ok(Err(_))` if the file can't be read.
pub(crate) fn look(file: &dyn File) -> Result<std::io::Result<Option<Watermark>>> {
    let mut bytes = vec![0; WATERMARK_BYTES];
    for _ in 0..READS_MAX {
        if let Err(error) = file.read_at(0, &mut bytes) {
            return Ok(Err(error));
        }
        if let Some(watermark) = Watermark::decode(&bytes)? {
            return Ok(Ok(Some(watermark)));
        }
        // A newer build may write a longer one.
        match file.len() {
            Ok(length) if length > bytes.len() as u64 => {
                bytes.resize(
                    usize::try_from(length)
                        .unwrap_or(usize::MAX)
                        .min(WATERMARK_BYTES_MAX),
                    0,
                );
            }
            Ok(_) => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(None))
}
