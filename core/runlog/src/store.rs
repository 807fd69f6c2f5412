//! [`Store`]: sessions and agent instances, and the way to their contexts.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use runlog_engine::{Embedded, Mode, Wait, storage::Storage};
use runlog_model::{
    AgentInstance, Catalog, CatalogEvent, Deleted, InstanceId, ListSessions, RunId, Session,
    SessionChanges, SessionDeleted, SessionId, SessionPage, SessionStatus, SessionUpdated,
};

use crate::{
    Error, Result, StoreOptions,
    agents::{Agents, AgentsFold},
    backend::Backend,
    chats::{ChatCache, Claims},
    contexts::{Context, Contexts},
    flows::{FlowsReader, FlowsShared},
    journal::{
        attempts::Queues,
        cursor::{Cursor, Kind as CursorKind},
        projection::Folded,
    },
    runs::{Runs, RunsReader, RunsShared, check_limit},
    sessions::{
        NewInstance, NewSession,
        catalog::{CatalogReader, Change, Guard},
        lookup::{
            check_free, check_instance, check_unused, find_session, live_session, root_instance,
        },
    },
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
    /// Held by the archive that is being imported: what one finds out of the store has to stay so until it is written.
    pub(crate) importing: Arc<std::sync::Mutex<()>>,
    agents: Arc<AgentsFold>,
    /// Where writers that lost to another wait.
    pub(crate) queues: Arc<Queues>,
    /// The runs that opening the store has paused.
    recovered: Arc<OnceLock<Vec<RunId>>>,
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

    /// Opens the store in a folder, or makes one there. What a crash left is recovered. The calling thread is
    /// blocked for so long: milliseconds, or seconds where much has to be recovered.
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

    /// Opens the store in a folder for reading, beside its writer or without one. No file is changed.
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

    /// A store just opened: the runs that its last writer left running are paused.
    pub(crate) fn opened(embedded: Embedded, mode: Mode) -> Result<Self> {
        let store = Self::with_backend(Arc::new(embedded));
        if mode == Mode::Write {
            // The same runs, on a backend that waits by blocking: its futures are ready at the first poll.
            let recovered = pollster::block_on(store.waiting(Wait::Block).recover_runs())?;
            let _ = store.shared.folds.recovered.set(recovered);
        }
        Ok(store)
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

    /// Makes everything that was acknowledged durable, and lets another process write. Other handles of the
    /// store are closed by it too. Dropping the last handle does the same, but can't tell whether it worked.
    ///
    /// # Errors
    /// Those of the file system; what was acknowledged is safe all the same.
    pub async fn close(&self) -> Result<()> {
        self.backend().close().await
    }

    /// Where the log is kept.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.shared.backend
    }

    /// Makes a session. Durable when it returns.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when its name or id is taken,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that is refused.
    pub async fn create_session(&self, new: NewSession) -> Result<Session> {
        let session = self.session_from(&new);
        session.check()?;
        check_unused(&**self.backend(), new.id.map(SessionId::as_uuid)).await?;
        let guard = Guard::of_new(&new);
        self.shared
            .catalog
            .change(|catalog| {
                check_free(catalog, &session)?;
                let events = vec![CatalogEvent::SessionCreated(session.clone())];
                Ok((
                    Change {
                        events,
                        guard,
                        ..Change::default()
                    },
                    session.clone(),
                ))
            })
            .await
    }

    pub(crate) fn session_from(&self, new: &NewSession) -> Session {
        let created_at_ms = new.created_at_ms.unwrap_or_else(|| self.backend().now_ms());
        Session {
            id: new.id.unwrap_or_else(|| SessionId(self.backend().new_id())),
            name: new.name.clone(),
            project: new.project.clone(),
            title: new.title.clone(),
            status: SessionStatus::Active,
            metadata: new.metadata.clone(),
            copied_from: None,
            created_at_ms,
            updated_at_ms: created_at_ms,
            deleted_at_ms: None,
            chat: None,
        }
    }

    /// The session with this id; `None` when there is none, or it was deleted.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_session(&self, id: SessionId) -> Result<Option<Session>> {
        self.shared
            .catalog
            .read(|catalog| live_session(catalog, id).ok().cloned())
            .await
    }

    /// The session with this id, this external name, or an id that begins so.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when none fits, [`Ambiguous`](crate::ErrorKind::Ambiguous) when the beginning
    /// of an id fits several.
    pub async fn find_session(&self, text: &str) -> Result<Session> {
        self.shared
            .catalog
            .read(|catalog| find_session(catalog, text))
            .await?
    }

    /// One page of sessions, newest first. Pages stay right while sessions are made.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list; else those of
    /// reading the store.
    pub async fn list_sessions(&self, options: &ListSessions) -> Result<SessionPage> {
        check_limit(options.limit)?;
        let filter = (
            options.status,
            &options.project,
            options.deleted == Deleted::Shown,
        );
        let before = Cursor::read(options.cursor.as_deref(), CursorKind::Sessions, &filter)?;
        let before = before.map(|cursor| cursor.first);
        let (sessions, next) = self
            .shared
            .catalog
            .read(|catalog| catalog.list(options, before))
            .await?;
        let next =
            next.map(|first| Cursor { first, second: 0 }.encode(CursorKind::Sessions, &filter));
        Ok(SessionPage { sessions, next })
    }

    /// Changes a session's title, status or metadata. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub async fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session> {
        let at_ms = self.backend().now_ms();
        self.change_session(id, |session| {
            if let Some(title) = &changes.title {
                session.title = Some(title.clone());
            }
            session.metadata = changes.metadata.clone().or(session.metadata.take());
            session.check()?;
            Ok(CatalogEvent::SessionUpdated(SessionUpdated {
                id,
                at_ms,
                changes: changes.clone(),
            }))
        })
        .await?;
        self.shared
            .catalog
            .with_state(|catalog| live_session(catalog, id).cloned())
    }

    /// Puts a session away: it is listed as archived, and can still be read and written.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub async fn archive_session(&self, id: SessionId) -> Result<Session> {
        self.update_session(id, status(SessionStatus::Archived))
            .await
    }

    /// Takes an archived session back into use.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub async fn unarchive_session(&self, id: SessionId) -> Result<Session> {
        self.update_session(id, status(SessionStatus::Active)).await
    }

    /// Deletes a session, softly: it is no longer found or listed, its name is free again, and nothing can be
    /// appended to its contexts; its events stay in the log, for the copies that share them too.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted already.
    pub async fn delete_session(&self, id: SessionId) -> Result<()> {
        let at_ms = self.backend().now_ms();
        self.change_session(id, |_| {
            Ok(CatalogEvent::SessionDeleted(SessionDeleted { id, at_ms }))
        })
        .await
    }

    async fn change_session(
        &self,
        id: SessionId,
        event: impl Fn(&mut Session) -> Result<CatalogEvent>,
    ) -> Result<()> {
        self.shared
            .catalog
            .change(|catalog| {
                let mut session = live_session(catalog, id)?.clone();
                Ok((
                    Change {
                        events: vec![event(&mut session)?],
                        ..Change::default()
                    },
                    (),
                ))
            })
            .await
    }

    /// Makes an agent instance in a session, with an empty context. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session or parent,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the parent is in another session, or the name is empty.
    pub async fn create_instance(
        &self,
        session_id: SessionId,
        agent_name: &str,
        parent: Option<InstanceId>,
    ) -> Result<AgentInstance> {
        let new = NewInstance {
            parent_instance_id: parent,
            ..NewInstance::new(session_id, agent_name)
        };
        self.create_instance_with(new).await
    }

    /// [`create_instance`](Self::create_instance) with an id or a time of the caller's.
    ///
    /// # Errors
    /// As [`create_instance`](Self::create_instance); [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the id is taken.
    pub async fn create_instance_with(&self, new: NewInstance) -> Result<AgentInstance> {
        let instance = AgentInstance {
            id: new
                .id
                .unwrap_or_else(|| InstanceId(self.backend().new_id())),
            session_id: new.session_id,
            agent_name: new.agent_name,
            parent_instance_id: new.parent_instance_id,
            created_at_ms: new.created_at_ms.unwrap_or_else(|| self.backend().now_ms()),
        };
        instance.check()?;
        check_unused(&**self.backend(), new.id.map(InstanceId::as_uuid)).await?;
        let guard = if new.id.is_some() {
            Guard::Unchanged
        } else {
            Guard::Any
        };
        self.shared
            .catalog
            .change(|catalog| {
                check_instance(catalog, &instance)?;
                let events = vec![CatalogEvent::InstanceCreated(instance.clone())];
                Ok((
                    Change {
                        events,
                        guard,
                        ..Change::default()
                    },
                    instance.clone(),
                ))
            })
            .await
    }

    /// The instance with this id, `None` when there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        self.shared
            .catalog
            .read(|catalog| catalog.instance(id).cloned())
            .await
    }

    /// The instances of a session, in the order they were made.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub async fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>> {
        self.shared
            .catalog
            .read(|catalog| {
                live_session(catalog, session)?;
                Ok(catalog.instances(session).cloned().collect())
            })
            .await?
    }

    /// The first instance of a session that nobody spawned: the one a session is resumed with.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it has no instance yet.
    pub async fn root_instance(&self, session: SessionId) -> Result<AgentInstance> {
        self.shared
            .catalog
            .read(|catalog| root_instance(catalog, session).cloned())
            .await?
    }

    /// All contexts of the store, by instance id.
    pub fn contexts(&self) -> Contexts {
        Contexts::new(self.clone())
    }

    /// The context of one agent instance.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance.
    pub async fn context(&self, instance: InstanceId) -> Result<Context> {
        Context::new(self.contexts(), instance).await
    }

    /// All runs of the store.
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }

    /// The definitions of the agents of each project.
    pub fn agents(&self) -> Agents {
        Agents::new(self.clone())
    }

    /// Pauses the runs that a process which is gone left running, and says which they were. Opening for writing
    /// has done it.
    ///
    /// # Errors
    /// As [`Runs::recover`].
    pub async fn recover_runs(&self) -> Result<Vec<RunId>> {
        self.runs().recover().await
    }

    /// The runs that a process which is gone had left running when this store was opened for writing: they were paused
    /// by that.
    pub fn recovered_runs(&self) -> &[RunId] {
        self.shared.folds.recovered.get().map_or(&[], Vec::as_slice)
    }

    /// The instance, found without a catch-up where it is known already; refused when its session was deleted.
    pub(crate) async fn writable_instance(&self, id: InstanceId) -> Result<AgentInstance> {
        let instance = self.known_instance(id).await?;
        self.shared
            .catalog
            .with_state(|catalog| live_session(catalog, instance.session_id).map(|_| ()))?;
        Ok(instance)
    }

    /// The instance, found without a catch-up where it is known already.
    pub(crate) async fn known_instance(&self, id: InstanceId) -> Result<AgentInstance> {
        if let Some(instance) = self
            .shared
            .catalog
            .with_state(|catalog| catalog.instance(id).cloned())
        {
            return Ok(instance);
        }
        self.get_instance(id).await?.ok_or_else(|| {
            Error::not_found(format!(
                "no agent instance {id}; make it with create_instance"
            ))
        })
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

fn status(status: SessionStatus) -> SessionChanges {
    SessionChanges {
        status: Some(status),
        ..SessionChanges::default()
    }
}
