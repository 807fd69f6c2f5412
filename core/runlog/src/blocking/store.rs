//! [`Store`]: the blocking [`crate::Store`].

#[cfg(not(target_family = "wasm"))]
use std::path::Path;
use std::{ops::ControlFlow, sync::Arc};

use runlog_engine::{Embedded, Wait, storage::Storage};
#[cfg(not(target_family = "wasm"))]
use runlog_log::{Backup, BackupOptions};
use runlog_log::{CompactOptions, CompactProgress, Compaction};
use runlog_model::{
    AgentInstance, InstanceId, ListInstances, ListSessions, Page, RunId, Session, SessionChanges,
    SessionId,
};
use uuid::Uuid;

use super::{Agents, Chats, Context, Contexts, Flows, Runs};
use crate::{
    Result, StoreOptions,
    backend::Backend,
    log::Position,
    retention::{Erase, Erased, RetainProgress, Retained, RetentionPolicy},
    scan::{HeadsPage, SearchPage, TextQuery},
    sessions::{CopiedSession, CopySession, NewInstance, NewSession},
    transcripts::{ImportMark, keep::EntryBatch},
    watch::{Mark, Watched},
};

/// A store: the sessions, agent instances and contexts of one log.
///
/// Cheap to clone, and usable from many threads; all clones are the same store. [`crate::Store`] is its async counterpart.
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
    /// A store in memory; its content is dropped with its last handle.
    #[cfg(not(target_family = "wasm"))]
    pub fn in_memory() -> Self {
        Self::in_memory_with(Arc::new(runlog_engine::SystemHost))
    }

    /// A store in memory, with the clock and randomness of this host.
    pub fn in_memory_with(host: Arc<dyn runlog_engine::Host>) -> Self {
        Self::with_backend(Arc::new(Embedded::in_memory(host, Wait::Block)))
    }

    /// Opens the store in a folder, or creates one there, and recovers from a crash.
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
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, StoreOptions::default())
    }

    /// [`open`](Self::open) with options.
    ///
    /// # Errors
    /// As [`crate::Store::open`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_with(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self> {
        let mode = options.mode;
        Ok(Self {
            inner: crate::Store::opened(Embedded::open(path, options, Wait::Block)?, mode)?,
        })
    }

    /// Opens the store in a folder for reading, whether or not another process has it open for writing. No file is changed.
    ///
    /// # Errors
    /// As [`crate::Store::open_read_only`].
    #[cfg(not(target_family = "wasm"))]
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
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

    /// A store on this backend. The calling thread itself waits for the storage if the backend supports that.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Self {
        crate::Store::with_backend(backend).to_blocking()
    }

    /// The wrapped async store; polling its futures blocks the thread.
    pub(crate) fn as_async(&self) -> &crate::Store {
        &self.inner
    }

    /// The same open store, with the async API.
    pub fn to_async(&self) -> crate::Store {
        self.inner.waiting(Wait::Await)
    }
}

waiting! {
    Store: crate::Store;

    /// All contexts of the store, by instance id.
    now fn contexts(&self) -> Contexts;

    /// The definitions of the agents of each project.
    now fn agents(&self) -> Agents;

    /// All runs of the store.
    now fn runs(&self) -> Runs;

    /// The flows of this store.
    now fn flows(&self) -> Flows;

    /// The chats of this store: its sessions as their users see them.
    now fn chats(&self) -> Chats;

    /// The context of one agent instance.
    fn context(&self, instance: InstanceId) -> Result<Context>;

    /// Whether it was opened for reading only.
    now fn is_read_only(&self) -> bool;

    /// Where the log is kept.
    now fn backend(&self) -> &Arc<dyn Backend>;

    /// The runs that were paused when the store was opened.
    now fn recovered_runs(&self) -> &[RunId];

    /// Copies the store to another folder while it is used: everything that was acknowledged when it begins. The folder
    /// is a store: open it, or copy it back to restore it. An earlier backup in the folder is extended.
    ///
    /// ```
    /// use runlog::{NewSession, blocking::Store};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let store = Store::open(folder.path().join("store"))?;
    /// store.create_session(NewSession::titled("trip"))?;
    /// store.backup(folder.path().join("backup"))?;
    /// let restored = Store::open_read_only(folder.path().join("backup"))?;
    /// assert_eq!(restored.list_sessions(&Default::default())?.items.len(), 1);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    #[cfg(not(target_family = "wasm"))]
    now fn backup(&self, folder: impl AsRef<Path>) -> Result<Backup>;

    /// [`backup`](Self::backup) with options.
    #[cfg(not(target_family = "wasm"))]
    now fn backup_with(&self, folder: impl AsRef<Path>, options: BackupOptions) -> Result<Backup>;

    /// Frees the disk space of unreferenced data and compresses the rest, while the store is used. Truncated or deleted
    /// records that no copy shares are removed for good; reads return the same as before.
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, blocking::Store, log::CompactOptions};
    ///
    /// let store = Store::in_memory();
    /// let (session, agent) = store.start_session(NewSession::titled("trip"), "planner")?;
    /// let context = store.context(agent.id)?;
    /// for text in ["Oslo?", "Bergen?"] {
    ///     context.append_message(NewMessage::user(text))?;
    /// }
    /// store.truncate_session(session.id, 1)?;
    /// let planned = store.compact(CompactOptions { dry_run: true, ..CompactOptions::default() })?;
    /// let done = store.compact(CompactOptions::default())?;
    /// assert!(planned.records_dropped <= done.records_dropped && done.records_dropped > 0);
    /// assert_eq!(context.get_messages()?.len(), 1);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    now fn compact(&self, options: CompactOptions) -> Result<Compaction>;

    /// [`compact`](Self::compact); `progress` is called about once a megabyte, and returns whether to continue.
    now fn compact_with(&self, options: CompactOptions, progress: impl FnMut(CompactProgress) -> ControlFlow<()> + Send) -> Result<Compaction>;

    /// Removes the sessions that a policy doesn't keep, and returns which, and their size. Records that a copy shares
    /// are kept.
    ///
    /// ```
    /// use runlog::{NewSession, blocking::Store, retention::RetentionPolicy};
    ///
    /// let store = Store::in_memory();
    /// let (first, _) = store.start_session(NewSession::titled("first"), "planner")?;
    /// store.start_session(NewSession::titled("second"), "planner")?;
    /// let policy = RetentionPolicy { keep_last: Some(1), compact: true, ..RetentionPolicy::default() };
    /// let retained = store.retain(&policy)?;
    /// assert_eq!(retained.session_ids, [first.id]);
    /// assert!(store.get_session(first.id)?.is_none());
    /// # Ok::<(), runlog::Error>(())
    /// ```
    fn retain(&self, policy: &RetentionPolicy) -> Result<Retained>;

    /// [`retain`](Self::retain); `progress` is called for each session, and returns whether to continue.
    fn retain_with(&self, policy: &RetentionPolicy, progress: impl FnMut(RetainProgress) -> ControlFlow<()> + Send) -> Result<Retained>;

    /// Removes content from every read, in copies too, then compacts the store to remove its bytes from the disk, and
    /// returns whether they are gone. This can't be undone.
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, blocking::Store, retention::Erase};
    ///
    /// let store = Store::in_memory();
    /// let (session, agent) = store.start_session(NewSession::titled("trip"), "planner")?;
    /// let context = store.context(agent.id)?;
    /// context.append_message(NewMessage::user("My PIN is 1234."))?;
    /// let what = Erase { sessions: vec![session.id], reason: "a PIN".to_owned(), ..Erase::default() };
    /// let erased = store.erase(&what)?;
    /// // The message, and the title.
    /// assert!(erased.is_gone && erased.records == 2);
    /// assert!(!context.get_messages()?[0].json.as_str().contains("My PIN"));
    /// # Ok::<(), runlog::Error>(())
    /// ```
    fn erase(&self, what: &Erase) -> Result<Erased>;

    /// [`erase`](Self::erase); `progress` is called about once a megabyte while it compacts, and returns whether to continue.
    fn erase_with(&self, what: &Erase, progress: impl FnMut(CompactProgress) -> ControlFlow<()> + Send) -> Result<Erased>;

    /// Makes everything that was acknowledged durable, and lets another process write. This closes the other handles of
    /// the store too: later writes are refused, and reads tell what there was at the close. Dropping the last handle does the same, but can't report errors.
    fn close(&self) -> Result<()>;

    /// Notes what there is of a context or a flow now, for [`changed`](Self::changed). Mark before reading.
    fn mark(&self, watched: Watched) -> Result<Mark>;

    /// Blocks until something was written since `mark` of what it watches.
    fn changed(&self, mark: &Mark) -> Result<()>;

    /// Reads some records from a position on, and returns their heads.
    fn scan_heads(&self, first: Position) -> Result<HeadsPage>;

    /// Searches for a text in the content of the records from a position on, about 4 MiB of contents at a time.
    fn search(&self, query: &TextQuery, first: Position) -> Result<SearchPage>;

    /// Creates a session. Durable when it returns.
    fn create_session(&self, new: NewSession) -> Result<Session>;

    /// The session with this id; `None` when there is none, or it was deleted.
    fn get_session(&self, id: SessionId) -> Result<Option<Session>>;

    /// The session with this id, this external name, or an id with this prefix.
    fn find_session(&self, text: &str) -> Result<Session>;

    /// One page of sessions, newest first. Sessions created meanwhile don't shift later pages.
    fn list_sessions(&self, options: &ListSessions) -> Result<Page<Session>>;

    /// One page of a session's instances, in the order of their creation. Instances created meanwhile don't shift
    /// earlier pages.
    fn list_instances(&self, session: SessionId, options: &ListInstances) -> Result<Page<AgentInstance>>;

    /// Changes a session's title, status or metadata. Durable when it returns.
    fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session>;

    /// Archives a session: it is listed as archived, and can still be read and written.
    fn archive_session(&self, id: SessionId) -> Result<Session>;

    /// Makes an archived session active again.
    fn unarchive_session(&self, id: SessionId) -> Result<Session>;

    /// Soft-deletes a session: it is no longer found or listed, its name is free again, and nothing can be appended to
    /// its contexts. Its events stay in the log, because copies may share them.
    fn delete_session(&self, id: SessionId) -> Result<()>;

    /// Creates an agent instance in a session, with an empty context. Durable when it returns.
    fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance>;

    /// [`create_instance`](Self::create_instance) with an id or a time chosen by the caller.
    fn create_instance_with(&self, new: NewInstance) -> Result<AgentInstance>;

    /// The instance with this id, `None` when there is none.
    fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>>;

    /// The instances of a session, in the order of their creation.
    fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>>;

    /// The first instance of a session that wasn't spawned by another: the one a session is resumed with.
    fn root_instance(&self, session: SessionId) -> Result<AgentInstance>;

    /// Creates a session and its root instance together. Durable when it returns.
    fn start_session(&self, new: NewSession, agent_name: &str) -> Result<(Session, AgentInstance)>;

    /// The session with this name and its root instance, created if they don't exist.
    fn get_or_start_session(
        &self,
        new: NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)>;

    /// The instances that an instance spawned, in the order of their creation.
    fn child_instances(&self, parent: InstanceId) -> Result<Vec<AgentInstance>>;

    /// Copies a session: a new one with a fork of every instance's context, of its aside if it was imported, and of its
    /// chat, atomically.
    fn copy_session(&self, source: SessionId, options: &CopySession) -> Result<CopiedSession>;

    /// Deletes the events of a session's root instance after a sequence, with their asides if they were imported, and
    /// everything that its sub-agents wrote after the first of them: the session then continues from there. A run at
    /// work in it goes on behind what is left. Returns how many events were deleted, those of sub-agents included.
    fn truncate_session(&self, session: SessionId, after_sequence: u64) -> Result<u64>;

    /// How far a session's agents were when a message of its chat was saved: the last sequence that the root's context had then.
    fn sequence_at_message(&self, session: SessionId, message_id: &str) -> Result<u64>;

    /// Writes a batch of entries, with the session and the instances that it creates, atomically. Durable when it returns.
    fn write_entries(&self, batch: &EntryBatch) -> Result<()>;

    /// The progress of an import of this session in several batches; `None` if one batch sufficed, or the session
    /// wasn't imported.
    fn import_mark(&self, session: SessionId) -> Result<Option<ImportMark>>;

    /// Whether a new session or instance may have this id: nothing has it, nor had it before a deletion.
    fn is_id_free(&self, id: Uuid) -> Result<bool>;

    /// Pauses the runs that an ended process left running, and returns their ids. Opening for writing has done this already.
    fn recover_runs(&self) -> Result<Vec<RunId>>;
}

impl crate::Store {
    /// The same open store, with the blocking API.
    pub fn to_blocking(&self) -> Store {
        Store {
            inner: self.waiting(Wait::Block),
        }
    }
}
