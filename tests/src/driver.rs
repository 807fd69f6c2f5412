//! [`Driver`]: an open store and the model beside it, which says after each step what the store must be.

use std::{path::PathBuf, sync::Arc};

use runlog_engine::{
    Appended, Commit, CompactOptions, Durability, ErrorKind, OpenOptions, Store,
    storage::{FsStorage, Storage},
};

use crate::{
    checker,
    compare::{self, Same, same},
    faulty::FaultyStorage,
    host::TestHost,
    model::{Model, Work},
};

/// Where the store is.
#[derive(Clone)]
pub enum Place {
    /// On a storage that can crash.
    Faulty(FaultyStorage),
    /// In a folder of the file system.
    Folder(PathBuf),
}

impl Place {
    fn storage(&self) -> Arc<dyn Storage> {
        match self {
            Self::Faulty(storage) => Arc::new(storage.as_process()),
            Self::Folder(path) => Arc::new(FsStorage::new(path)),
        }
    }
}

/// How a store is left and opened again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// It is closed.
    Close,
    /// Its last handle is dropped.
    Drop,
    /// It is closed, and somebody removes the checkpoint.
    CloseWithoutCheckpoint,
    /// The process is gone at once. On a folder, the handle is dropped.
    Kill,
    /// The power is gone at once; what is left depends on the seed. On a folder, the handle is dropped.
    Crash(u64),
}

/// A store and its model.
pub struct Driver {
    /// Where it is.
    pub place: Place,
    /// Its clock and randomness.
    pub host: TestHost,
    /// How it is opened.
    pub options: OpenOptions,
    /// What it must be.
    pub model: Model,
    store: Option<Store>,
    /// Every batch that wrote something.
    history: Vec<Work>,
    /// The last position after so many batches.
    borders: Vec<u64>,
    /// So many batches survive a crash of the process.
    acknowledged: usize,
    /// So many batches survive a loss of power.
    durable: usize,
    /// So many batches survived how the store was left last.
    floor: usize,
    /// Whether what is there when a store was opened is durable from then on. It is not where there is more than the
    /// engine cares to flush before it is asked to.
    pub opening_proves: bool,
}

impl Driver {
    /// Makes a store.
    ///
    /// # Errors
    /// What the engine says.
    pub fn new(place: Place, host: TestHost, options: OpenOptions) -> runlog_engine::Result<Self> {
        let options = OpenOptions {
            host: Arc::new(host.clone()),
            ..options
        };
        let store = Store::open_on(place.storage(), options.clone())?;
        Ok(Self::with_store(place, host, options, Some(store)))
    }

    /// One that has made no store yet: [`Driver::reopen`] does.
    pub fn unopened(place: Place, host: TestHost, options: OpenOptions) -> Self {
        let options = OpenOptions {
            host: Arc::new(host.clone()),
            ..options
        };
        Self::with_store(place, host, options, None)
    }

    fn with_store(
        place: Place,
        host: TestHost,
        options: OpenOptions,
        store: Option<Store>,
    ) -> Self {
        Self {
            place,
            host,
            options,
            model: Model::default(),
            store,
            history: Vec::new(),
            borders: vec![0],
            acknowledged: 0,
            durable: 0,
            floor: 0,
            opening_proves: true,
        }
    }

    /// The open store.
    pub fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open")
    }

    /// Whether the store is open.
    pub fn is_open(&self) -> bool {
        self.store.is_some()
    }

    /// A reader of the same store, as another process would open one.
    ///
    /// # Errors
    /// What the engine says.
    pub fn reader(&self) -> runlog_engine::Result<Store> {
        Store::open_on(self.place.storage(), self.options.clone().read_only())
    }

    fn durability(&self, work: &Work) -> Durability {
        work.durability.unwrap_or(self.options.durability)
    }

    /// Commits a batch, and holds what comes back against the model.
    ///
    /// # Errors
    /// What differs.
    pub fn commit(&mut self, work: &Work) -> Same {
        let found = self.store().commit(&work.batch());
        let expected = self.expect(work);
        let is_done = found.is_ok();
        compare_outcomes(work, found, expected)?;
        if is_done {
            self.acknowledge(self.history.len(), self.durability(work));
        }
        Ok(())
    }

    /// Commits a batch on a storage that may fail: an error is as good as what the model says, if its kind tells
    /// the truth about what was written. Gives that kind.
    ///
    /// # Errors
    /// What differs.
    pub fn try_commit(&mut self, work: &Work) -> Result<Option<ErrorKind>, String> {
        let found = match self.store().commit(&work.batch()) {
            Ok(found) => Ok(found),
            Err(error) => match error.kind() {
                // What may or may not be there is in the history, but not acknowledged.
                ErrorKind::OutcomeUnknown => {
                    let _ = self.expect(work);
                    return Ok(Some(ErrorKind::OutcomeUnknown));
                }
                kind @ (ErrorKind::Io
                | ErrorKind::StorageFull
                | ErrorKind::Poisoned
                | ErrorKind::Damaged) => {
                    return Ok(Some(kind));
                }
                _ => Err(error),
            },
        };
        let expected = self.expect(work);
        let is_done = found.is_ok();
        compare_outcomes(work, found, expected)?;
        if is_done {
            self.acknowledge(self.history.len(), self.durability(work));
        }
        Ok(None)
    }

    /// Puts batches in line one after the other; whether and how each is waited for is the caller's.
    ///
    /// # Errors
    /// What differs.
    pub fn stage(&mut self, work: &Work) -> Result<Option<Staged>, String> {
        let found = self.store().stage(&work.batch());
        let expected = self.expect(work);
        match found {
            Ok(commit) => {
                compare_outcomes(work, Ok(commit.appended().clone()), expected)?;
                Ok(Some(Staged {
                    commit,
                    count: self.history.len(),
                    durability: self.durability(work),
                }))
            }
            Err(error) => compare_outcomes(work, Err(error), expected).map(|()| None),
        }
    }

    /// Waits for a staged batch.
    ///
    /// # Errors
    /// That it failed.
    pub fn wait(&mut self, staged: Staged) -> Same {
        staged
            .commit
            .wait()
            .map_err(|error| format!("waiting: {error}"))?;
        self.acknowledge(staged.count, staged.durability);
        Ok(())
    }

    /// Flushes.
    ///
    /// # Errors
    /// That it failed.
    pub fn sync(&mut self) -> Same {
        self.store()
            .sync()
            .map_err(|error| format!("sync: {error}"))?;
        self.acknowledge(self.history.len(), Durability::Sync);
        Ok(())
    }

    /// Flushes on a storage that may fail. Gives the kind of error.
    pub fn try_sync(&mut self) -> Option<ErrorKind> {
        match self.store().sync() {
            Ok(()) => {
                self.acknowledge(self.history.len(), Durability::Sync);
                None
            }
            Err(error) => Some(error.kind()),
        }
    }

    /// Rewrites what is in use on a storage that may fail, and gives up the rest. Gives the kind of error.
    ///
    /// # Errors
    /// What it reports that isn't so.
    pub fn try_compact(&mut self, options: CompactOptions) -> Result<Option<ErrorKind>, String> {
        if options.dry_run {
            // It changes nothing, and flushes nothing.
            return Ok(self
                .store()
                .compact(options)
                .err()
                .map(|error| error.kind()));
        }
        // Whatever comes of it, some of it may be done.
        self.model.compacted_to = self.model.compacted_to.max(self.model.last_position());
        match self.store().compact(options) {
            Ok(_) => {
                self.acknowledge(self.history.len(), Durability::Sync);
                Ok(None)
            }
            Err(error) => Ok(Some(error.kind())),
        }
    }

    /// What the model says of a batch; one that writes something joins the history.
    fn expect(&mut self, work: &Work) -> Result<Appended, ErrorKind> {
        let expected = self.model.apply(work);
        if Some(&self.model.last_position()) != self.borders.last() {
            self.history.push(work.clone());
            self.borders.push(self.model.last_position());
        }
        expected
    }

    /// Batches are acknowledged in order: one stands for all before it. A flushed one also for all that were only
    /// written before it.
    fn acknowledge(&mut self, count: usize, durability: Durability) {
        self.acknowledged = self.acknowledged.max(count);
        if durability == Durability::Sync {
            self.durable = self.durable.max(count);
        }
    }

    /// Everything that can be read, by a writer's handle.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self) -> Same {
        compare::store_equals(self.store(), &self.model)
    }

    /// What the independent checker reads from what is on disk now. The store is closed or idle.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_files(&self) -> Same {
        let checked = match &self.place {
            Place::Faulty(storage) => checker::check_files(&storage.files(), storage.boot_id()),
            Place::Folder(path) => checker::check(path),
        };
        compare::checked_equals(
            &checked.map_err(|problem| format!("checker: {problem}"))?,
            &self.model,
        )?;
        self.verify()
    }

    /// That the engine's own `verify` finds nothing damaged: what a crash left is no damage.
    ///
    /// # Errors
    /// What it finds.
    pub fn verify(&self) -> Same {
        let verification = runlog_engine::verify(&*self.place.storage())
            .map_err(|error| format!("verify: {error}"))?;
        if verification.is_sound() {
            Ok(())
        } else {
            Err(format!("verify: {:?}", verification.problems))
        }
    }

    /// Leaves the store. What it must be when it is opened again is then in the history.
    ///
    /// # Errors
    /// That closing failed.
    pub fn leave(&mut self, leave: Leave) -> Same {
        let Some(store) = self.store.take() else {
            return Ok(());
        };
        match (leave, self.place.clone()) {
            (Leave::Close | Leave::CloseWithoutCheckpoint, place) => {
                store.close().map_err(|error| format!("close: {error}"))?;
                self.acknowledge_all();
                if leave == Leave::CloseWithoutCheckpoint {
                    let removed = place.storage().remove("CHECKPOINT");
                    removed.map_err(|error| format!("removing the checkpoint: {error}"))?;
                }
            }
            (Leave::Kill, Place::Faulty(storage)) => {
                storage.kill();
                // Its writes and its unlock fail: there is no process to do them.
                drop(store);
                self.floor = self.acknowledged;
            }
            (Leave::Crash(seed), Place::Faulty(storage)) => {
                storage.cut_power();
                let next = storage.crashed(seed);
                drop(store);
                self.place = Place::Faulty(next);
                self.floor = self.durable;
            }
            (Leave::Drop | Leave::Kill | Leave::Crash(_), _) => {
                drop(store);
                self.acknowledge_all();
            }
        }
        Ok(())
    }

    /// What a loss of power now would leave, beside this one, which goes on; not opened yet.
    #[must_use]
    pub fn after_crash(&self, storage: &FaultyStorage, seed: u64) -> Self {
        Self {
            place: Place::Faulty(storage.crashed(seed)),
            host: self.host.clone(),
            options: self.options.clone(),
            model: self.model.clone(),
            store: None,
            history: self.history.clone(),
            borders: self.borders.clone(),
            acknowledged: self.acknowledged,
            durable: self.durable,
            floor: self.durable,
            opening_proves: self.opening_proves,
        }
    }

    fn acknowledge_all(&mut self) {
        (self.acknowledged, self.durable, self.floor) =
            (self.history.len(), self.history.len(), self.history.len());
    }

    /// Opens the store again, finds which of the allowed prefixes it is, and compares everything with that. What
    /// is there then stays: opening makes it durable.
    ///
    /// # Errors
    /// The first difference.
    pub fn reopen(&mut self) -> Same {
        match self.try_reopen()? {
            None => self.check_files(),
            Some(error) => Err(format!("open: {error}")),
        }
    }

    /// As [`Driver::reopen`] on a storage that may fail; gives the error of opening.
    ///
    /// # Errors
    /// The first difference.
    pub fn try_reopen(&mut self) -> Result<Option<runlog_engine::Error>, String> {
        let store = match Store::open_on(self.place.storage(), self.options.clone()) {
            Ok(store) => store,
            Err(error) => return Ok(Some(error)),
        };
        let last = store.last_position().map_err(|error| error.to_string())?.0;
        self.store = Some(store);
        self.unharmed(|driver| driver.settle(last))?;
        Ok(None)
    }

    /// Opens the store, sees that it could be one of the allowed prefixes, and leaves it: a quick look.
    ///
    /// # Errors
    /// That it could not.
    pub fn peek(&self) -> Same {
        let store = Store::open_on(self.place.storage(), self.options.clone())
            .map_err(|e| format!("open: {e}"))?;
        let last = store.last_position().map_err(|error| error.to_string())?.0;
        let allowed = &self.borders[self.floor..];
        if allowed.contains(&last) {
            Ok(())
        } else {
            Err(format!("position {last} is none of {allowed:?}"))
        }
    }

    /// Does something on a storage that is well meanwhile.
    fn unharmed(&mut self, work: impl FnOnce(&mut Self) -> Same) -> Same {
        match self.place.clone() {
            Place::Faulty(storage) => storage.unharmed(|| work(self)),
            Place::Folder(_) => work(self),
        }
    }

    /// Everything that can be read, on a storage that may fail: then it is told, and nothing wrong is read.
    ///
    /// # Errors
    /// The first difference.
    pub fn try_check(&mut self) -> Same {
        match self.check() {
            Err(difference)
                if ["injected:", "the file ends", "the power is gone"]
                    .iter()
                    .any(|told| difference.contains(told)) =>
            {
                self.unharmed(|driver| driver.check())
            }
            result => result,
        }
    }

    /// Finds which of the allowed prefixes the store is that was just opened.
    fn settle(&mut self, last: u64) -> Same {
        let count = self.borders.iter().rposition(|border| *border == last);
        let count = count
            .ok_or_else(|| format!("position {last} is no end of a batch: {:?}", self.borders))?;
        if count < self.floor {
            return Err(format!(
                "{count} batches are there, but {} were acknowledged",
                self.floor
            ));
        }
        self.rewind(count);
        self.check()
    }

    /// Takes back all but the first batches.
    fn rewind(&mut self, count: usize) {
        let whole = count == self.history.len();
        self.history.truncate(count);
        self.borders.truncate(count + 1);
        if self.opening_proves {
            self.acknowledge_all();
        }
        (self.acknowledged, self.floor) = (count, count);
        if !whole {
            let compacted_to = self.model.compacted_to;
            self.model = Model::default();
            self.model.compacted_to = compacted_to;
            for work in &self.history {
                self.model.apply(work).expect("it was applied before");
            }
        }
    }

    /// Leaves and opens again.
    ///
    /// # Errors
    /// The first difference.
    pub fn leave_and_reopen(&mut self, leave: Leave) -> Same {
        self.leave(leave)?;
        if matches!(
            leave,
            Leave::Close | Leave::CloseWithoutCheckpoint | Leave::Drop
        ) {
            self.check_files()?;
        }
        self.reopen()?;
        let scanned = self.store().recovery().records_scanned;
        if leave == Leave::Close {
            same("records read to open a store that was closed", &scanned, &0)?;
        }
        Ok(())
    }
}

/// A batch in line.
pub struct Staged {
    commit: Commit,
    count: usize,
    durability: Durability,
}

fn compare_outcomes(
    work: &Work,
    found: runlog_engine::Result<Appended>,
    expected: Result<Appended, ErrorKind>,
) -> Same {
    let told = found
        .as_ref()
        .err()
        .map(ToString::to_string)
        .unwrap_or_default();
    same(
        format_args!("outcome of {work:?} ({told})"),
        &found.map_err(|error| error.kind()),
        &expected,
    )
}
