//! [`Store`]: [`AsyncStore`] for callers that wait.

use std::sync::Arc;

use pollster::block_on;
use runlog_engine::storage::Storage;
use runlog_model::{AgentInstance, InstanceId, ListSessions, Session, SessionChanges, SessionId, SessionPage};

use super::{ContextRepository, ContextService};
use crate::{
    AsyncStore, CopiedSession, CopySession, NewInstance, NewSession, Result, StoreOptions,
    backend::Backend,
    embedded::{Embedded, Wait},
};

/// A store: the sessions, agent instances and contexts of one log.
///
/// Cheap to clone, and usable from many threads; all clones are the same store. [`AsyncStore`] is the same
/// for callers that await.
///
/// ```
/// use runlog::{NewMessage, NewSession, Store};
///
/// let store = Store::in_memory();
/// let session = store.create_session(NewSession::titled("Weather"))?;
/// let agent = store.create_instance(session.id, "planner", None)?;
/// let context = store.context(agent.id)?;
/// context.append_message(NewMessage::system("Answer briefly."))?;
/// context.append_message(NewMessage::user("Will it rain?"))?;
/// assert_eq!(context.get_last_sequence()?, 2);
/// assert_eq!(context.get_messages()?[1].json.as_str(), r#"{"role":"user","content":"Will it rain?"}"#);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    inner: AsyncStore,
}

impl Store {
    /// A store in memory, gone with its last handle.
    #[cfg(not(target_family = "wasm"))]
    pub fn in_memory() -> Self {
        Self { inner: AsyncStore::in_memory() }
    }

    /// A store in memory, on this clock and randomness.
    pub fn in_memory_with(host: Arc<dyn runlog_engine::Host>) -> Self {
        Self { inner: AsyncStore::in_memory_with(host) }
    }

    /// Opens the store in a folder, or makes one there. What a crash left is recovered.
    ///
    /// # Errors
    /// As [`AsyncStore::open`].
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, Store};
    ///
    /// # fn main() -> runlog::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// let store = Store::open(&path)?;
    /// let (session, agent) = store.start_session(NewSession::named("trip"), "planner")?;
    /// // On the device when this returns: the process may die now.
    /// store.context(agent.id)?.append_message(NewMessage::user("Oslo, please."))?;
    /// drop(store);
    ///
    /// let store = Store::open(&path)?;
    /// let agent = store.root_instance(store.find_session("trip")?.id)?;
    /// assert_eq!(store.context(agent.id)?.get_messages()?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(not(target_family = "wasm"))]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default())
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// As [`AsyncStore::open`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: StoreOptions) -> Result<Self> {
        Ok(Self::with_embedded(&Embedded::open(path, options, Wait::Block)?))
    }

    /// Opens the store in a folder for reading, beside its writer or without one. No file is changed.
    ///
    /// # Errors
    /// As [`AsyncStore::open_read_only`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_read_only(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default().read_only())
    }

    /// Opens the store on a storage.
    ///
    /// # Errors
    /// As [`AsyncStore::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: StoreOptions) -> Result<Self> {
        Ok(Self::with_embedded(&Embedded::open_on(storage, options, Wait::Block)?))
    }

    /// A store on this backend, whose calls are waited for.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        Self { inner: AsyncStore::with_backend(backend) }
    }

    /// A store on the engine in this process. The calling thread waits itself, whatever `embedded` says.
    pub fn with_embedded(embedded: &Embedded) -> Self {
        Self { inner: AsyncStore::with_embedded(embedded.with_wait(Wait::Block)) }
    }

    /// The engine in this process, for what only it has. `None` on another backend.
    pub fn embedded(&self) -> Option<&Embedded> {
        self.inner.embedded()
    }

    /// The same open store, for callers that await.
    pub fn to_async(&self) -> AsyncStore {
        self.inner.waiting(Wait::Await)
    }

    /// See [`AsyncStore::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(&self) -> Result<()> {
        block_on(self.inner.close())
    }

    /// Where the log is kept.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// See [`AsyncStore::create_session`].
    ///
    /// # Errors
    /// As there.
    pub fn create_session(&self, new: NewSession) -> Result<Session> {
        block_on(self.inner.create_session(new))
    }

    /// See [`AsyncStore::get_session`].
    ///
    /// # Errors
    /// As there.
    pub fn get_session(&self, id: SessionId) -> Result<Option<Session>> {
        block_on(self.inner.get_session(id))
    }

    /// See [`AsyncStore::find_session`].
    ///
    /// # Errors
    /// As there.
    pub fn find_session(&self, text: &str) -> Result<Session> {
        block_on(self.inner.find_session(text))
    }

    /// See [`AsyncStore::list_sessions`].
    ///
    /// # Errors
    /// As there.
    pub fn list_sessions(&self, options: &ListSessions) -> Result<SessionPage> {
        block_on(self.inner.list_sessions(options))
    }

    /// See [`AsyncStore::update_session`].
    ///
    /// # Errors
    /// As there.
    pub fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session> {
        block_on(self.inner.update_session(id, changes))
    }

    /// See [`AsyncStore::archive_session`].
    ///
    /// # Errors
    /// As there.
    pub fn archive_session(&self, id: SessionId) -> Result<Session> {
        block_on(self.inner.archive_session(id))
    }

    /// See [`AsyncStore::unarchive_session`].
    ///
    /// # Errors
    /// As there.
    pub fn unarchive_session(&self, id: SessionId) -> Result<Session> {
        block_on(self.inner.unarchive_session(id))
    }

    /// See [`AsyncStore::delete_session`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_session(&self, id: SessionId) -> Result<()> {
        block_on(self.inner.delete_session(id))
    }

    /// See [`AsyncStore::create_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        block_on(self.inner.create_instance(session_id, agent_name, parent))
    }

    /// See [`AsyncStore::create_instance_with`].
    ///
    /// # Errors
    /// As there.
    pub fn create_instance_with(&self, new: NewInstance) -> Result<AgentInstance> {
        block_on(self.inner.create_instance_with(new))
    }

    /// See [`AsyncStore::get_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        block_on(self.inner.get_instance(id))
    }

    /// See [`AsyncStore::instances`].
    ///
    /// # Errors
    /// As there.
    pub fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>> {
        block_on(self.inner.instances(session))
    }

    /// See [`AsyncStore::root_instance`].
    ///
    /// # Errors
    /// As there.
    pub fn root_instance(&self, session: SessionId) -> Result<AgentInstance> {
        block_on(self.inner.root_instance(session))
    }

    /// See [`AsyncStore::start_session`].
    ///
    /// # Errors
    /// As there.
    pub fn start_session(&self, new: NewSession, agent_name: &str) -> Result<(Session, AgentInstance)> {
        block_on(self.inner.start_session(new, agent_name))
    }

    /// See [`AsyncStore::copy_session`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_session(&self, source: SessionId, options: &CopySession) -> Result<CopiedSession> {
        block_on(self.inner.copy_session(source, options))
    }

    /// See [`AsyncStore::truncate_session`].
    ///
    /// # Errors
    /// As there.
    pub fn truncate_session(&self, session: SessionId, after_sequence: u64) -> Result<u64> {
        block_on(self.inner.truncate_session(session, after_sequence))
    }

    /// All contexts of the store, by instance id.
    pub fn contexts(&self) -> ContextRepository {
        ContextRepository::new(self.inner.contexts())
    }

    /// See [`AsyncStore::context`].
    ///
    /// # Errors
    /// As there.
    pub fn context(&self, instance: InstanceId) -> Result<ContextService> {
        ContextService::new(&self.contexts(), instance)
    }
}
