//! Opening a [`Store`], which pauses the runs that its last writer left running.

use std::sync::Arc;

use runlog_engine::{Embedded, Mode, Wait, storage::Storage};
use runlog_model::RunId;

use crate::{Result, Store, StoreOptions};

impl Store {
    /// Opens the store in a folder, or creates one there, and recovers from a crash. The calling thread is blocked
    /// meanwhile: for milliseconds, or for seconds if much has to be recovered.
    ///
    /// # Errors
    /// [`Locked`](crate::ErrorKind::Locked) when another process has it open for writing,
    /// [`NotAStore`](crate::ErrorKind::NotAStore) when the folder holds something else,
    /// [`Damaged`](crate::ErrorKind::Damaged) when what was durable is damaged; else those of the file system.
    #[cfg(not(target_family = "wasm"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default())
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[cfg(not(target_family = "wasm"))]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: StoreOptions) -> Result<Self> {
        let mode = options.mode;
        Self::opened(Embedded::open(path, options, Wait::Await)?, mode)
    }

    /// Opens the store in a folder for reading, whether or not another process has it open for writing. No file is changed.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`NotFound`](crate::ErrorKind::NotFound) when there is none.
    #[cfg(not(target_family = "wasm"))]
    pub fn open_read_only(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default().read_only())
    }

    /// Opens the store on a storage.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(storage: Arc<dyn Storage>, options: StoreOptions) -> Result<Self> {
        let mode = options.mode;
        Self::opened(Embedded::open_on(storage, options, Wait::Await)?, mode)
    }

    /// Pauses the runs that the last writer of a store left running.
    pub(crate) fn opened(embedded: Embedded, mode: Mode) -> Result<Self> {
        let store = Self::with_backend(Arc::new(embedded));
        if mode == Mode::Write {
            #[cfg(not(target_family = "wasm"))]
            crate::kernel::writer_requests::clean_requests(&**store.backend());
            // On a blocking backend, whose futures are ready at the first poll.
            let recovered = pollster::block_on(store.waiting(Wait::Block).recover_runs())?;
            let _ = store.shared.folds.recovered.set(recovered);
        }
        Ok(store)
    }

    /// Pauses the runs that an ended process left running, and returns their ids. Opening for writing has done this already.
    ///
    /// # Errors
    /// As [`Runs::recover`](crate::runs::Runs::recover).
    pub async fn recover_runs(&self) -> Result<Vec<RunId>> {
        self.runs().recover().await
    }

    /// The runs that an ended process had left running when this store was opened for writing, which paused them.
    pub fn recovered_runs(&self) -> &[RunId] {
        self.shared.folds.recovered.get().map_or(&[], Vec::as_slice)
    }
}
