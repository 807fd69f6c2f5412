//! [`Store`]: [`crate::Store`] for callers that wait.

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

    /// Opens the store in a folder for reading, beside its writer or without one. No file is changed.
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

    /// Where the log is kept.
    now fn backend(&self) -> &Arc<dyn Backend>;

    /// The runs that opening the store has paused.
    now fn recovered_runs(&self) -> &[RunId];

    /// Copies the store to another folder while it is used: all that is acknowledged when it begins. The folder is a
    /// store: open it, or copy it back to restore it. What an earlier backup to the folder has is kept.
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

    /// Gives the disk space back of what nothing refers to any more, and compresses the rest, while the store is used. What
    /// was truncated or deleted and no copy shares is gone for good; every answer is as before.
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

    /// [`compact`](Self::compact); `progress` is told how far it is about once a megabyte, and says whether it goes on.
    now fn compact_with(&self, options: CompactOptions, progress: impl FnMut(CompactProgress) -> ControlFlow<()> + Send) -> Result<Compaction>;

    /// Gives up the sessions that a policy doesn't keep, and says which and how much that was. What a copy sees stays.
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

    /// [`retain`](Self::retain); `progress` is told how far it is with each session, and says whether it goes on.
    fn retain_with(&self, policy: &RetentionPolicy, progress: impl FnMut(RetainProgress) -> ControlFlow<()> + Send) -> Result<Retained>;

    /// Takes content out of every read, in copies too, then compacts the store, so that its bytes are gone from the disk; and
    /// says whether they are. It can't be undone.
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
    /// assert!(erased.is_gone && erased.records == 1);
    /// assert!(!context.get_messages()?[0].json.as_str().contains("1234"));
    /// # Ok::<(), runlog::Error>(())
    /// ```
    fn erase(&self, what: &Erase) -> Result<Erased>;

    /// Makes everything that was acknowledged durable, and lets another process write. Other handles of the store
    /// are closed by it too. Dropping the last handle does the same, but can't tell whether it worked.
    fn close(&self) -> Result<()>;

    /// Reads some records from a position on, and tells what lists show of them.
    fn scan_heads(&self, first: Position) -> Result<HeadsPage>;

    /// Looks for a text in the content of the records from a position on, about 4 MiB of contents at a time.
    fn search(&self, query: &TextQuery, first: Position) -> Result<SearchPage>;

    /// Makes a session. Durable when it returns.
    fn create_session(&self, new: NewSession) -> Result<Session>;

    /// The session with this id; `None` when there is none, or it was deleted.
    fn get_session(&self, id: SessionId) -> Result<Option<Session>>;

    /// The session with this id, this external name, or an id that begins so.
    fn find_session(&self, text: &str) -> Result<Session>;

    /// One page of sessions, newest first. Pages stay right while sessions are made.
    fn list_sessions(&self, options: &ListSessions) -> Result<Page<Session>>;

    /// One page of a session's instances, in the order they were made. Pages stay right while instances are made.
    fn list_instances(&self, session: SessionId, options: &ListInstances) -> Result<Page<AgentInstance>>;

    /// Changes a session's title, status or metadata. Durable when it returns.
    fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session>;

    /// Puts a session away: it is listed as archived, and can still be read and written.
    fn archive_session(&self, id: SessionId) -> Result<Session>;

    /// Takes an archived session back into use.
    fn unarchive_session(&self, id: SessionId) -> Result<Session>;

    /// Deletes a session, softly: it is no longer found or listed, its name is free again, and nothing can be
    /// appended to its contexts; its events stay in the log, for the copies that share them too.
    fn delete_session(&self, id: SessionId) -> Result<()>;

    /// Makes an agent instance in a session, with an empty context. Durable when it returns.
    fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance>;

    /// [`create_instance`](Self::create_instance) with an id or a time of the caller's.
    fn create_instance_with(&self, new: NewInstance) -> Result<AgentInstance>;

    /// The instance with this id, `None` when there is none.
    fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>>;

    /// The instances of a session, in the order they were made.
    fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>>;

    /// The first instance of a session that nobody spawned: the one a session is resumed with.
    fn root_instance(&self, session: SessionId) -> Result<AgentInstance>;

    /// Makes a session and its root instance together. Durable when it returns.
    fn start_session(&self, new: NewSession, agent_name: &str) -> Result<(Session, AgentInstance)>;

    /// The session with this name and its root instance, made where they aren't there.
    fn get_or_start_session(
        &self,
        new: NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)>;

    /// The instances that an instance spawned, in the order they were made.
    fn child_instances(&self, parent: InstanceId) -> Result<Vec<AgentInstance>>;

    /// Copies a session: a new one with a fork of every instance's context, of what was kept beside them where it
    /// was imported, and of what it has as a chat, all of it or nothing.
    fn copy_session(&self, source: SessionId, options: &CopySession) -> Result<CopiedSession>;

    /// Deletes the events of a session's root instance after a sequence, with what was kept beside them where they
    /// were imported, and what its sub-agents wrote behind the first of them: the session then goes on from there. Returns how
    /// many events were deleted, those of sub-agents included.
    fn truncate_session(&self, session: SessionId, after_sequence: u64) -> Result<u64>;

    /// Writes a batch of entries, with the session and the instances that it makes: all of it or nothing. Durable
    /// when it returns.
    fn write_entries(&self, batch: &EntryBatch) -> Result<()>;

    /// How far an import of this session has come that took more than one batch; `None` where one was enough, or
    /// the session wasn't imported.
    fn import_mark(&self, session: SessionId) -> Result<Option<ImportMark>>;

    /// Whether a new session or instance may have this id: nothing has it, or had it before it was deleted.
    fn is_id_free(&self, id: Uuid) -> Result<bool>;

    /// Pauses the runs that a process which is gone left running, and says which they were. Opening for writing has
    /// done it.
    fn recover_runs(&self) -> Result<Vec<RunId>>;
}

impl crate::Store {
    /// The same open store, for callers that wait.
    pub fn to_blocking(&self) -> Store {
        Store {
            inner: self.waiting(Wait::Block),
        }
    }
}
