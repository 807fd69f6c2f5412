//! [`StoreObject`]: an open store.

use std::{
    cell::Cell,
    collections::HashMap,
    fmt::Write,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use runlog::{Store, backend::Backend, log::CompactProgress, retention::RetainProgress};

use crate::{
    Failure, Host, Result,
    answers::{IntoReply, Typed, known, read, wait},
    changes::Key,
    host::Movable,
    progress::{Reporter, Watch},
    reads::Reads,
    tasks::{Answer, Lane},
};

/// Stores that are shared by threads of this process, by token.
static SHARED: Mutex<Option<HashMap<u64, SharedStore>>> = Mutex::new(None);
static LAST_TOKEN: AtomicU64 = AtomicU64::new(0);
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);

/// The part of an open store that can be shared by threads.
#[derive(Clone)]
pub(crate) struct SharedStore {
    pub(crate) store: Store,
    pub(crate) in_memory: bool,
    unfinished: Arc<UnfinishedObjects>,
}

impl SharedStore {
    pub(crate) fn new(store: Store, in_memory: bool) -> Self {
        Self {
            store,
            in_memory,
            unfinished: Arc::default(),
        }
    }
}

/// What was begun on a store by all its threads, and is written when it ends.
#[derive(Default)]
struct UnfinishedObjects {
    begun: Mutex<Vec<Begun>>,
    /// How many nobody held any more, and are being written.
    leaving: watch::Sender<usize>,
}

struct Begun {
    /// The number of the store's object that it was begun on.
    on: u64,
    object: Weak<dyn Unfinished>,
}

/// Marks that something is being written, until it is dropped.
struct Leaving(Arc<UnfinishedObjects>);

impl Leaving {
    fn of(unfinished: &Arc<UnfinishedObjects>) -> Self {
        unfinished.leaving.send_modify(|leaving| *leaving += 1);
        Self(Arc::clone(unfinished))
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.leaving.send_modify(|leaving| *leaving -= 1);
    }
}

impl UnfinishedObjects {
    /// Waits until what nobody held any more is written.
    async fn left(&self) {
        // An error would mean that the sender, which is held here, was dropped.
        let _ = self
            .leaving
            .subscribe()
            .wait_for(|leaving| *leaving == 0)
            .await;
    }
}

/// Something that is only in memory until it ends.
pub(crate) trait Unfinished: Send + Sync {
    /// Takes it out if it hasn't ended. What it gives writes it, as well as may be also where it is only dropped.
    fn leave(&self) -> Option<Movable<()>>;
}

/// An open store.
pub(crate) struct StoreObject {
    shared: Option<SharedStore>,
    host: Host,
    closed: Cell<bool>,
    token: Cell<Option<u64>>,
    /// Whether closing it closes the store for everyone.
    owns: bool,
    /// Tells it from those of other threads that share the store.
    number: u64,
    pub(crate) compactions: Watch<CompactProgress>,
    pub(crate) retentions: Watch<RetainProgress>,
}

impl StoreObject {
    pub(crate) fn new(shared: SharedStore, host: Host, owns: bool) -> Self {
        Self {
            shared: Some(shared),
            host,
            closed: Cell::new(false),
            token: Cell::new(None),
            owns,
            number: LAST_NUMBER.fetch_add(1, Ordering::Relaxed),
            compactions: Watch::default(),
            retentions: Watch::default(),
        }
    }

    /// The store that another thread shares with this token.
    pub(crate) fn attach(token: u64) -> Result<SharedStore> {
        let found = shared_stores(|stores| stores.get(&token).cloned());
        found.ok_or_else(|| Failure::closed("the store that was shared"))
    }

    fn shared(&self) -> Result<&SharedStore> {
        match &self.shared {
            Some(shared) if !self.closed.get() => Ok(shared),
            _ => Err(Failure::closed("the store")),
        }
    }

    /// The store.
    pub(crate) fn store(&self) -> Result<Store> {
        Ok(self.shared()?.store.clone())
    }

    /// The answer of a read, which may block, off the JavaScript thread.
    pub(crate) fn read<T: IntoReply, E: Into<Failure>>(
        &self,
        future: impl Future<Output = std::result::Result<T, E>> + Send + 'static,
    ) -> Typed<T> {
        read(&self.reads(), future)
    }

    /// The answer of a call that looks at a thing, which may block, and changes it: off the JavaScript thread.
    pub(crate) fn change<T: IntoReply, E: Into<Failure>>(
        &self,
        key: Key,
        future: impl Future<Output = std::result::Result<T, E>> + Send + 'static,
    ) -> Typed<T> {
        let reads = self.reads();
        let future = Box::pin(async move { future.await.map_err(Into::into)?.into_reply() });
        // What is offloaded begins at once, so it is made when it is polled.
        Answer::change(key, async move { reads.run(future).await }).into()
    }

    /// Where its reads run.
    pub(crate) fn reads(&self) -> Reads {
        let in_memory = self.shared.as_ref().is_some_and(|shared| shared.in_memory);
        Reads::new(self.host.clone(), in_memory)
    }

    /// Runs a read, which may block, off the JavaScript thread.
    pub(crate) fn run_blocking<T: Send + 'static, E: Into<Failure>>(
        &self,
        future: impl Future<Output = std::result::Result<T, E>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<T>>>> {
        let future = Box::pin(async move { future.await.map_err(Into::into) });
        self.reads().run(future)
    }

    /// Runs long work off the JavaScript thread. It reports its progress under a number, and ends early when its call is
    /// cancelled or the store is closed.
    pub(crate) fn run_watched<P, T, W>(
        &self,
        watched: &Watch<P>,
        number: Option<u64>,
        work: impl FnOnce(Store, Reporter<P>) -> W,
    ) -> Result<Typed<T>>
    where
        P: Copy + Default + 'static,
        T: IntoReply + Send + 'static,
        W: Future<Output = runlog::Result<T>> + Send + 'static,
    {
        Ok(wait(self.watched(watched, number, work)?))
    }

    /// The long work of [`run_watched`](Self::run_watched), which begins at once.
    pub(crate) fn watched<P, T, W>(
        &self,
        watched: &Watch<P>,
        number: Option<u64>,
        work: impl FnOnce(Store, Reporter<P>) -> W,
    ) -> Result<impl Future<Output = Result<T>> + 'static>
    where
        P: Copy + Default + 'static,
        T: Send + 'static,
        W: Future<Output = runlog::Result<T>> + Send + 'static,
    {
        let store = self.store()?;
        let (reporter, stop) = watched.begin(number);
        let work = self.run_blocking(work(store, reporter));
        Ok(async move {
            let _stop = stop;
            work.await
        })
    }

    /// Registers an object that was begun, so that it is written if the store is closed before it ends.
    pub(crate) fn begun(&self, object: Weak<dyn Unfinished>) {
        let Some(shared) = &self.shared else {
            return;
        };
        let mut begun = lock(&shared.unfinished.begun);
        if begun.len() == begun.capacity() {
            begun.retain(|it| it.object.strong_count() > 0);
        }
        let on = self.number;
        begun.push(Begun { on, object });
    }

    /// Writes something that nobody holds any more, which waits for the storage; closing waits for that.
    pub(crate) fn leave(&self, write: impl FnOnce() + Send + 'static) {
        let leaving = self.shared.as_ref().map(|it| Leaving::of(&it.unfinished));
        (self.host.offload)(Box::new(move || {
            let _leaving = leaving;
            write();
        }));
    }

    /// An error if the store was closed.
    pub(crate) fn check(&self) -> Result<()> {
        self.shared().map(drop)
    }

    pub(crate) fn close(self: Rc<Self>) -> Result<Typed<()>> {
        let shared = self.shared()?.clone();
        self.closed.set(true);
        self.unshare();
        let open = self.leave_unfinished(&shared);
        let owns = self.owns;
        if !owns && open.is_empty() {
            return Ok(known(Ok::<_, Failure>(())));
        }
        let long_work = owns.then(|| (self.compactions.stop_all(), self.retentions.stop_all()));
        // Writes of one object wait for each other, and are staged one by one: those that were called before are done first. What is
        // offloaded begins at once, so it is made when it is polled.
        let closing = async move {
            if let Some((compactions, retentions)) = long_work {
                compactions.await;
                retentions.await;
            }
            // What was being begun when it was called.
            let late = self.leave_unfinished(&shared);
            // In this thread: where it ends meanwhile, those that are left are dropped, and so written, before the process goes on to end.
            let mut lost = Vec::new();
            for request in open.into_iter().chain(late) {
                lost.extend(request.await.err());
            }
            shared.unfinished.left().await;
            let closing = async move {
                if owns {
                    shared.store.close().await?;
                }
                ().into_reply()
            };
            let closed = self.reads().run(Box::pin(closing)).await;
            // That something wasn't written is said first: nobody else tells of it.
            first_of(lost).map_or(closed, Err)
        };
        Ok(Answer {
            lane: Lane::AfterWrites,
            key: None,
            future: Box::pin(closing),
        }
        .into())
    }

    /// The objects that were begun and haven't ended, which are nobody's then: where it closes the store for everyone, those of all
    /// threads, which couldn't write them any more.
    fn leave_unfinished(&self, shared: &SharedStore) -> Vec<Movable<()>> {
        let mut begun = lock(&shared.unfinished.begun);
        let left = begun.extract_if(.., |it| self.owns || it.on == self.number);
        let left: Vec<_> = left.filter_map(|it| it.object.upgrade()).collect();
        drop(begun);
        left.iter().filter_map(|object| object.leave()).collect()
    }

    /// A token with which other threads of this process can attach to the store.
    pub(crate) fn share(&self) -> Result<u64> {
        let shared = self.shared()?.clone();
        let token = self
            .token
            .get()
            .unwrap_or_else(|| LAST_TOKEN.fetch_add(1, Ordering::Relaxed) + 1);
        self.token.set(Some(token));
        shared_stores(|stores| stores.insert(token, shared));
        Ok(token)
    }

    /// Its storage.
    pub(crate) fn backend(&self) -> Result<Arc<dyn Backend>> {
        Ok(Arc::clone(self.shared()?.store.backend()))
    }

    fn unshare(&self) {
        if let Some(token) = self.token.take() {
            shared_stores(|stores| stores.remove(&token));
        }
    }
}

impl Drop for StoreObject {
    fn drop(&mut self) {
        self.unshare();
        // The last one closes the store, which waits for the storage. Where the thread is ending this is done in it, and the process goes
        // on to end after it: what is still being written elsewhere would be lost.
        if let Some(shared) = self.shared.take() {
            (self.host.offload)(Box::new(move || {
                pollster::block_on(shared.unfinished.left());
                drop(shared);
            }));
        }
    }
}

/// The first of several failures, which says how many others there are.
fn first_of(failures: Vec<Failure>) -> Option<Failure> {
    let others = failures.len().saturating_sub(1);
    let mut first = failures.into_iter().next()?;
    if others > 0 {
        let _ = write!(first.message, "; {others} more could not be written");
    }
    Some(first)
}

fn shared_stores<T>(with: impl FnOnce(&mut HashMap<u64, SharedStore>) -> T) -> T {
    with(lock(&SHARED).get_or_insert_default())
}

/// A panic while it was held ended one call only, which left it whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
