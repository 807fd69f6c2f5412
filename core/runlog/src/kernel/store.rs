//! [`Store`]: a backend, and what all handles of a store have in memory of it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use runlog_engine::{Embedded, Wait};
use runlog_model::{Catalog, RunId};

use super::{
    agents::AgentsFold,
    catalog::CatalogReader,
    chats::ChatCache,
    claims::Claims,
    flows::{FlowsReader, FlowsShared},
    runs::{RunsReader, RunsShared},
};
use crate::{
    Result,
    backend::Backend,
    journal::{attempts::Queues, projection::Folded},
};

/// A store. [`blocking::Store`](crate::blocking::Store) is the same for callers that wait.
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

/// What all handles of a store have together, those that wait and those that await.
#[derive(Clone, Default)]
pub(crate) struct Folds {
    catalog: Arc<Folded<Catalog>>,
    runs: Arc<RunsShared>,
    flows: Arc<FlowsShared>,
    chats: Arc<ChatCache>,
    claims: Arc<Claims>,
    /// Held during an import: what it has checked in the store must still hold when it writes.
    pub(crate) importing: Arc<std::sync::Mutex<()>>,
    agents: Arc<AgentsFold>,
    /// Held while runs that a crash cut off are gone on with: another orchestrator of the store would take those that this one
    /// has resumed, but not ended, for over.
    pub(crate) reviving: Arc<tokio::sync::Mutex<()>>,
    /// Where writers that lost to another wait.
    pub(crate) queues: Arc<Queues>,
    /// The runs that opening the store has paused.
    pub(crate) recovered: Arc<OnceLock<Vec<RunId>>>,
}

impl Store {
    /// A store in memory, gone with its last handle.
    #[cfg(not(target_family = "wasm"))]
    pub fn in_memory() -> Self {
        Self::in_memory_with(Arc::new(runlog_engine::SystemHost))
    }

    /// A store in memory, on this clock and randomness.
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

    pub(crate) fn chat_cache(&self) -> &ChatCache {
        &self.shared.folds.chats
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

    /// A handle for several reads that together answer one question, such as those of a request. Beside a writer in another
    /// process it has looked, now, at what that has written: everything that was acknowledged before this call is seen. Its
    /// reads don't look again, each of which would read a file; they may see what other handles have come to see since.
    ///
    /// # Errors
    /// Those of following the writer.
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

    /// Makes everything that was acknowledged durable, and lets another process write. Other handles of the
    /// store are closed by it too. Dropping the last handle does the same, but can't tell whether it worked.
    ///
    /// # Errors
    /// Those of the file system; what was acknowledged is safe all the same.
    pub async fn close(&self) -> Result<()> {
        if !self.backend().is_read_only() {
            self.shared.catalog.before_close().await;
            self.shared.runs.before_close().await;
        }
        self.backend().close().await
    }

    /// Where the log is kept.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}
