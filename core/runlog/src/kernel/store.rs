//! [`Store`]: a backend, and the in-memory state that all handles of a store share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use runlog_engine::{Embedded, Wait};
use runlog_log::StreamId;
use runlog_model::{Catalog, RunId};

use super::{
    agents::AgentsFold,
    catalog::CatalogReader,
    chats::ChatCache,
    claims::Claims,
    flows::{FlowsReader, FlowsShared},
    often::Often,
    runs::{RunsReader, RunsShared},
};
use crate::{
    Result,
    backend::Backend,
    journal::{
        attempts::{Attempts, Queues},
        projection::Folded,
    },
};

/// A store. [`blocking::Store`](crate::blocking::Store) is its blocking counterpart.
///
/// Cheap to clone; all clones are the same store.
///
/// ```
/// use runlog::{NewMessage, NewSession, Store};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::titled("Weather")).await?;
/// let agent = store.create_instance(session.id, "planner", None).await?;
/// let context = store.context(agent.id).await?;
/// context.append_message(NewMessage::user("Will it rain?")).await?;
/// assert_eq!(context.get_messages().await?.len(), 1);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) catalog: CatalogReader,
    pub(crate) runs: RunsReader,
    pub(crate) flows: FlowsReader,
    pub(crate) folds: Folds,
}

/// The state that all handles of a store share, blocking and async ones.
#[derive(Clone, Default)]
pub(crate) struct Folds {
    catalog: Arc<Folded<Catalog>>,
    runs: Arc<RunsShared>,
    flows: Arc<FlowsShared>,
    chats: Arc<ChatCache>,
    often: Arc<Often>,
    claims: Arc<Claims>,
    /// Held during an import: its checks of the store must still be valid when it writes.
    pub(crate) importing: Arc<std::sync::Mutex<()>>,
    agents: Arc<AgentsFold>,
    /// Held while runs that a crash interrupted are resumed: another orchestrator of the store would mistake runs that
    /// this one has resumed for ended ones.
    pub(crate) reviving: Arc<tokio::sync::Mutex<()>>,
    /// Held for writing while an erasure finds and redacts what it erases; for reading by who writes again what was read before,
    /// such as a copy, which else would bring erased content back.
    erasing: Arc<tokio::sync::RwLock<()>>,
    /// Who is told which runs were erased.
    pub(crate) erased_runs: Arc<super::erased_runs::ErasedRuns>,
    /// The sessions that are being given up.
    pub(crate) removals: Arc<super::removals::Removals>,
    /// The queues of writers that lost to another.
    pub(crate) queues: Arc<Queues>,
    /// Who executes what other processes ask this one for.
    #[cfg(not(target_family = "wasm"))]
    pub(crate) receivers: Arc<super::writer_requests::Receivers>,
    /// The runs that were paused when the store was opened.
    pub(crate) recovered: Arc<OnceLock<Vec<RunId>>>,
}

impl Store {
    /// A store in memory; its content is dropped with its last handle.
    #[cfg(not(target_family = "wasm"))]
    pub fn in_memory() -> Self {
        Self::in_memory_with(Arc::new(runlog_engine::SystemHost))
    }

    /// A store in memory, with the clock and randomness of this host.
    pub fn in_memory_with(host: Arc<dyn runlog_engine::Host>) -> Self {
        Self::with_backend(Arc::new(Embedded::in_memory(host, Wait::Await)))
    }

    /// A store on this backend.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        Self::on(backend, Folds::default())
    }

    fn on(backend: Arc<dyn Backend>, folds: Folds) -> Self {
        let catalog = CatalogReader::new(
            Arc::clone(&backend),
            Arc::clone(&folds.catalog),
            Arc::clone(&folds.queues),
        );
        let runs = RunsReader::new(Arc::clone(&backend), Arc::clone(&folds.runs));
        let flows = FlowsReader::new(Arc::clone(&backend), Arc::clone(&folds.flows));
        Self {
            shared: Arc::new(Shared {
                backend,
                catalog,
                runs,
                flows,
                folds,
            }),
        }
    }

    /// A writer's attempts to write a decision to a stream; ready when the first may be made.
    pub(crate) async fn attempts(&self, stream: StreamId) -> Attempts<'_> {
        let queues = &self.shared.folds.queues;
        queues.attempts(&**self.backend(), stream).await
    }

    /// Keeps erasures waiting until it is dropped. What was read before it may have been erased meanwhile, which
    /// [`redactions`](Backend::redactions) tell. Not to be asked for by who has one, because an erasure that waits in between would be
    /// waited for.
    pub(crate) async fn beside_erasures(&self) -> tokio::sync::RwLockReadGuard<'_, ()> {
        self.shared.folds.erasing.read().await
    }

    /// Waits for those who have [`beside_erasures`](Self::beside_erasures), and keeps others waiting until it is dropped.
    pub(crate) async fn erasing(&self) -> tokio::sync::RwLockWriteGuard<'_, ()> {
        self.shared.folds.erasing.write().await
    }

    pub(crate) fn chat_cache(&self) -> &ChatCache {
        &self.shared.folds.chats
    }

    /// What is kept of ids that many records are about.
    pub(crate) fn often(&self) -> &Often {
        &self.shared.folds.often
    }

    pub(crate) fn claims(&self) -> &Arc<Claims> {
        &self.shared.folds.claims
    }

    pub(crate) fn agents_fold(&self) -> &AgentsFold {
        &self.shared.folds.agents
    }

    /// The same open store with another way to wait.
    pub(crate) fn waiting(&self, wait: Wait) -> Self {
        match self.backend().waiting(wait) {
            Some(backend) => Self::on(backend, self.shared.folds.clone()),
            None => self.clone(),
        }
    }

    /// A handle for several reads that together answer one query. If another process is writing, this call picks up
    /// what it has written: everything that was acknowledged before is visible. Reads of the handle don't refresh
    /// again, because each refresh reads a file; they may see what other handles have picked up since.
    ///
    /// # Errors
    /// Those of reading what the writer has written.
    ///
    /// ```
    /// use runlog::{NewSession, Store};
    ///
    /// # pollster::block_on(async {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// let writer = Store::open(&path)?;
    /// let reader = Store::open_read_only(&path)?;
    /// let session = writer.create_session(NewSession::titled("Weather")).await?;
    /// let now = reader.as_of_now().await?;
    /// assert!(now.get_session(session.id).await?.is_some());
    /// # Ok::<(), runlog::Error>(()) }).unwrap();
    /// ```
    pub async fn as_of_now(&self) -> Result<Self> {
        let looked = self.backend().as_of_now().await?;
        Ok(match looked {
            Some(backend) => Self::on(backend, self.shared.folds.clone()),
            None => self.clone(),
        })
    }

    /// The same store by a backend that wraps [its own](Self::backend), with what was read into memory already: to count calls, say,
    /// or to end them. Its handles are other ones, and work as before.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use runlog::{NewSession, Store, backend::{Backend, Decorator}};
    ///
    /// struct Plain(Arc<dyn Backend>);
    ///
    /// impl Decorator for Plain {
    ///     fn inner(&self) -> &dyn Backend {
    ///         &*self.0
    ///     }
    /// }
    ///
    /// # pollster::block_on(async {
    /// let store = Store::in_memory();
    /// let session = store.create_session(NewSession::titled("Weather")).await?;
    /// let same = store.through(|backend| Arc::new(Plain(backend)));
    /// assert!(same.get_session(session.id).await?.is_some());
    /// # Ok::<(), runlog::Error>(()) }).unwrap();
    /// ```
    pub fn through(&self, wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>) -> Self {
        let backend = wrap(Arc::clone(self.backend()));
        Self::on(backend, self.shared.folds.clone())
    }

    /// Makes everything that was acknowledged durable, and lets another process write. This closes the other handles of
    /// the store too: later writes are refused, and reads tell what there was at the close. Dropping the last handle does the same, but can't report errors.
    ///
    /// # Errors
    /// Those of the file system; acknowledged writes are safe nevertheless.
    pub async fn close(&self) -> Result<()> {
        #[cfg(not(target_family = "wasm"))]
        self.shared.folds.receivers.close();
        if !self.backend().is_read_only() {
            self.shared.catalog.before_close().await;
            self.shared.runs.before_close().await;
        }
        self.backend().close().await
    }

    /// Whether it was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.backend().is_read_only()
    }

    /// Who may be at work on what is in the store.
    pub(crate) fn at_work(&self) -> AtWork {
        if !self.backend().is_read_only() {
            return AtWork::Own;
        }
        match self.backend().maintenance().has_writer() {
            Some(false) => AtWork::Nobody,
            _ => AtWork::Another,
        }
    }

    /// The log's storage.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// Who may be at work on what is in a store.
#[derive(Clone, Copy)]
pub(crate) enum AtWork {
    /// This process, which writes it.
    Own,
    /// Another one, which this one knows nothing of.
    Another,
    Nobody,
}

impl AtWork {
    /// Whether somebody is at work on something, of which this process knows whether it is itself; `None` where that isn't known.
    pub(crate) fn is(self, is_own: impl FnOnce() -> bool) -> Option<bool> {
        match self {
            Self::Own => Some(is_own()),
            Self::Another => None,
            Self::Nobody => Some(false),
        }
    }
}
