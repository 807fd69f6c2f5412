//! [`Store`]: [`crate::Store`] for callers that wait.

use std::sync::Arc;

use pollster::block_on;
use runlog_engine::{Embedded, Wait, storage::Storage};
use runlog_model::{
    AgentInstance, InstanceId, ListSessions, Page, RunId, Session, SessionChanges, SessionId,
};
use uuid::Uuid;

use super::{Agents, Context, Contexts, Runs};
use crate::{
    Result, StoreOptions,
    backend::Backend,
    sessions::{CopiedSession, CopySession, NewInstance, NewSession},
    transcripts::{ImportMark, keep::EntryBatch},
};

/// A store: the sessions, agent instances and contexts of one log.
///
/// Cheap to clone, and usable from many threads; all clones are the same store. [`crate::Store`] is the same
/// for callers that await.
///
/// ```
/// use runlog::{NewMessage, NewSession, blocking::Store};
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
    inner: crate::Store,
}

impl Store {
    /// A store in memory, gone with its last handle.
    #[cfg(not(target_family = "wasm"))]
    pub fn in_memory() -> Self {
        Self::in_memory_with(Arc::new(runlog_engine::SystemHost))
    }

    /// A store in memory, on this clock and randomness.
    pub fn in_memory_with(host: Arc<dyn runlog_engine::Host>) -> Self {
        Self::with_backend(Arc::new(Embedded::in_memory(host, Wait::Block)))
    }

    /// Opens the store in a folder, or makes one there. What a crash left is recovered.
    ///
    /// # Errors
    /// As [`crate::Store::open`].
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, blocking::Store};
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
    /// As [`crate::Store::open`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_with(path: impl AsRef<std::path::Path>, options: StoreOptions) -> Result<Self> {
        let mode = options.mode;
        Ok(Self {
            inner: crate::Store::opened(Embedded::open(path, options, Wait::Block)?, mode)?,
        })
    }

    /// Opens the store in a folder for reading, beside its writer or without one. No file is changed.
    ///
    /// # Errors
    /// As [`crate::Store::open_read_only`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_read_only(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default().read_only())
    }

    /// Opens the store on a storage.
    ///
    /// # Errors
    /// As [`crate::Store::open`].
    pub fn open_on(storage: Arc<dyn Storage>, options: StoreOptions) -> Result<Self> {
        let mode = options.mode;
        Ok(Self {
            inner: crate::Store::opened(Embedded::open_on(storage, options, Wait::Block)?, mode)?,
        })
    }

    /// A store on this backend. The calling thread waits itself where the backend can do that.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        crate::Store::with_backend(backend).to_blocking()
    }

    /// The store that does the work, which blocks the thread that polls it.
    pub(crate) fn as_async(&self) -> &crate::Store {
        &self.inner
    }

    /// The same open store, for callers that await.
    pub fn to_async(&self) -> crate::Store {
        self.inner.waiting(Wait::Await)
    }

    /// Makes everything that was acknowledged durable, and lets another process write. Other handles of the
    /// store are closed by it too. Dropping the last handle does the same, but can't tell whether it worked.
    ///
    /// # Errors
    /// Those of the file system; what was acknowledged is safe all the same.
    pub fn close(&self) -> Result<()> {
        block_on(self.inner.close())
    }

    /// Where the log is kept.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        self.inner.backend()
    }

    /// Makes a session. Durable when it returns.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when its name or id is taken,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that
    /// is refused.
    pub fn create_session(&self, new: NewSession) -> Result<Session> {
        block_on(self.inner.create_session(new))
    }

    /// The session with this id; `None` when there is none, or it was deleted.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn get_session(&self, id: SessionId) -> Result<Option<Session>> {
        block_on(self.inner.get_session(id))
    }

    /// The session with this id, this external name, or an id that begins so.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when none fits, [`Ambiguous`](crate::ErrorKind::Ambiguous) when the
    /// beginning of an id fits several.
    pub fn find_session(&self, text: &str) -> Result<Session> {
        block_on(self.inner.find_session(text))
    }

    /// One page of sessions, newest first. Pages stay right while sessions are made.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list; else those of
    /// reading the store.
    pub fn list_sessions(&self, options: &ListSessions) -> Result<Page<Session>> {
        block_on(self.inner.list_sessions(options))
    }

    /// Changes a session's title, status or metadata. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session> {
        block_on(self.inner.update_session(id, changes))
    }

    /// Puts a session away: it is listed as archived, and can still be read and written.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub fn archive_session(&self, id: SessionId) -> Result<Session> {
        block_on(self.inner.archive_session(id))
    }

    /// Takes an archived session back into use.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub fn unarchive_session(&self, id: SessionId) -> Result<Session> {
        block_on(self.inner.unarchive_session(id))
    }

    /// Deletes a session, softly: it is no longer found or listed, its name is free again, and nothing can be
    /// appended to its contexts; its events stay in the log, for the copies that share them too.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted already.
    pub fn delete_session(&self, id: SessionId) -> Result<()> {
        block_on(self.inner.delete_session(id))
    }

    /// Makes an agent instance in a session, with an empty context. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session or parent,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the parent is in another session, or the name is empty.
    pub fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        block_on(self.inner.create_instance(session_id, agent_name, parent))
    }

    /// [`create_instance`](Self::create_instance) with an id or a time of the caller's.
    ///
    /// # Errors
    /// As [`create_instance`](Self::create_instance); [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the id
    /// is taken.
    pub fn create_instance_with(&self, new: NewInstance) -> Result<AgentInstance> {
        block_on(self.inner.create_instance_with(new))
    }

    /// The instance with this id, `None` when there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        block_on(self.inner.get_instance(id))
    }

    /// The instances of a session, in the order they were made.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>> {
        block_on(self.inner.instances(session))
    }

    /// The first instance of a session that nobody spawned: the one a session is resumed with.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it has no instance yet.
    pub fn root_instance(&self, session: SessionId) -> Result<AgentInstance> {
        block_on(self.inner.root_instance(session))
    }

    /// Makes a session and its root instance together. Durable when it returns.
    ///
    /// # Errors
    /// As [`create_session`](Self::create_session) and [`create_instance`](Self::create_instance).
    pub fn start_session(
        &self,
        new: NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)> {
        block_on(self.inner.start_session(new, agent_name))
    }

    /// Copies a session with its contexts and its chat. As [`crate::Store::copy_session`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_session(&self, source: SessionId, options: &CopySession) -> Result<CopiedSession> {
        block_on(self.inner.copy_session(source, options))
    }

    /// Deletes the events of a session's root instance after a sequence, and says how many they were: the
    /// session then goes on from there. The contexts of other instances stay. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it has no instance;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the root's context ends before the sequence.
    pub fn truncate_session(&self, session: SessionId, after_sequence: u64) -> Result<u64> {
        block_on(self.inner.truncate_session(session, after_sequence))
    }

    /// Writes a batch of entries, with the session and the instances that it makes. As
    /// [`crate::Store::write_entries`].
    ///
    /// # Errors
    /// As there.
    pub fn write_entries(&self, batch: &EntryBatch) -> Result<()> {
        block_on(self.inner.write_entries(batch))
    }

    /// How far an import of this session has come that took more than one batch. As [`crate::Store::import_mark`].
    ///
    /// # Errors
    /// As there.
    pub fn import_mark(&self, session: SessionId) -> Result<Option<ImportMark>> {
        block_on(self.inner.import_mark(session))
    }

    /// Whether a new session or instance may have this id. As [`crate::Store::is_id_free`].
    ///
    /// # Errors
    /// As there.
    pub fn is_id_free(&self, id: Uuid) -> Result<bool> {
        block_on(self.inner.is_id_free(id))
    }

    /// All contexts of the store, by instance id.
    pub fn contexts(&self) -> Contexts {
        Contexts::new(self.inner.contexts())
    }

    /// The definitions of the agents of each project.
    pub fn agents(&self) -> Agents {
        Agents::new(self.inner.agents())
    }

    /// All runs of the store.
    pub fn runs(&self) -> Runs {
        Runs::new(self.inner.runs())
    }

    /// Pauses the runs that a process which is gone left running, and says which they were. Opening for writing
    /// has done it.
    ///
    /// # Errors
    /// As [`crate::runs::Runs::recover`](crate::runs::Runs::recover).
    pub fn recover_runs(&self) -> Result<Vec<RunId>> {
        block_on(self.inner.recover_runs())
    }

    /// The runs that opening the store has paused. As [`crate::Store::recovered_runs`].
    pub fn recovered_runs(&self) -> &[RunId] {
        self.inner.recovered_runs()
    }

    /// The context of one agent instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub fn context(&self, instance: InstanceId) -> Result<Context> {
        Context::new(&self.contexts(), instance)
    }
}

impl crate::Store {
    /// The same open store, for callers that wait.
    pub fn to_blocking(&self) -> Store {
        Store {
            inner: self.waiting(Wait::Block),
        }
    }
}
