//! Sessions and agent instances of a [`Store`]: creating, finding, listing and changing them.

use runlog_model::{
    AgentInstance, CatalogEvent, Deleted, InstanceId, ListInstances, ListSessions, Page, Session,
    SessionChanges, SessionId, SessionStatus,
};

use super::{
    catalog::{Change, Guard},
    lookup::{check_free, check_instance, check_unused, find_session, live_session, root_instance},
    new_session::{NewInstance, NewSession},
    store::Store,
};
use crate::{
    Error, Result,
    journal::{
        cursor::{Cursor, Kind as CursorKind},
        page::check_limit,
    },
};

impl Store {
    /// Creates a session. Durable when it returns.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when its name or id is taken,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for a field that is refused.
    pub async fn create_session(&self, new: NewSession) -> Result<Session> {
        let session = self.session_from(&new);
        session.check()?;
        check_unused(&**self.backend(), new.id.map(SessionId::as_uuid)).await?;
        let guard = Guard::of_new(&new);
        let created = CatalogEvent::SessionCreated(session.clone());
        self.shared
            .catalog
            .add(&[created], guard, |catalog| check_free(catalog, &session))
            .await?;
        Ok(session)
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

    /// The session with this id, this external name, or an id with this prefix.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when none matches, [`Ambiguous`](crate::ErrorKind::Ambiguous) when the
    /// prefix matches several ids.
    pub async fn find_session(&self, text: &str) -> Result<Session> {
        self.shared
            .catalog
            .read(|catalog| find_session(catalog, text))
            .await?
    }

    /// One page of sessions, newest first. Sessions created meanwhile don't shift later pages.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list; else those of
    /// reading the store.
    pub async fn list_sessions(&self, options: &ListSessions) -> Result<Page<Session>> {
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
        let next = next.map(|first| {
            Cursor {
                first,
                ..Cursor::default()
            }
            .encode(CursorKind::Sessions, &filter)
        });
        Ok(Page {
            items: sessions,
            next,
        })
    }

    /// Changes a session's title, status or metadata. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub async fn update_session(&self, id: SessionId, changes: SessionChanges) -> Result<Session> {
        let at_ms = self.backend().now_ms();
        self.change_session(id, |session| {
            let is_described = changes.title.is_some() || changes.metadata.is_some();
            if let Some(title) = &changes.title {
                session.title = Some(title.clone()).filter(|title| !title.is_empty());
            }
            session.metadata = changes.metadata.clone().or(session.metadata.take());
            session.check()?;
            let updated = CatalogEvent::SessionUpdated {
                id,
                at_ms,
                changes: SessionChanges {
                    status: changes.status,
                    ..SessionChanges::default()
                },
            };
            let described =
                is_described.then(|| CatalogEvent::SessionDescribed(session.description()));
            Ok(std::iter::once(updated).chain(described).collect())
        })
        .await?;
        self.shared
            .catalog
            .with_state(|catalog| live_session(catalog, id).cloned())
    }

    /// Archives a session: it is listed as archived, and can still be read and written.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub async fn archive_session(&self, id: SessionId) -> Result<Session> {
        self.update_session(id, status(SessionStatus::Archived))
            .await
    }

    /// Makes an archived session active again.
    ///
    /// # Errors
    /// As [`update_session`](Self::update_session).
    pub async fn unarchive_session(&self, id: SessionId) -> Result<Session> {
        self.update_session(id, status(SessionStatus::Active)).await
    }

    /// Soft-deletes a session: it is no longer found or listed, its name is free again, and nothing can be appended to
    /// its contexts. Its events stay in the log, because copies may share them.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted already.
    pub async fn delete_session(&self, id: SessionId) -> Result<()> {
        let at_ms = self.backend().now_ms();
        self.change_session(id, |_| Ok(vec![CatalogEvent::SessionDeleted { id, at_ms }]))
            .await
    }

    async fn change_session(
        &self,
        id: SessionId,
        events: impl Fn(&mut Session) -> Result<Vec<CatalogEvent>>,
    ) -> Result<()> {
        self.shared
            .catalog
            .change(|catalog| {
                let mut session = live_session(catalog, id)?.clone();
                Ok((Change::of(events(&mut session)?), ()))
            })
            .await
    }

    /// Creates an agent instance in a session, with an empty context. Durable when it returns.
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

    /// [`create_instance`](Self::create_instance) with an id or a time chosen by the caller.
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
        let created = CatalogEvent::InstanceCreated(instance.clone());
        self.shared
            .catalog
            .add(&[created], guard, |catalog| {
                check_instance(catalog, &instance)
            })
            .await?;
        Ok(instance)
    }

    /// The instance with this id, `None` when there is none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get_instance(&self, id: InstanceId) -> Result<Option<AgentInstance>> {
        self.shared
            .catalog
            .read(|catalog| catalog.instance(id))
            .await
    }

    /// The instances of a session, in the order of their creation.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it was deleted.
    pub async fn instances(&self, session: SessionId) -> Result<Vec<AgentInstance>> {
        self.shared
            .catalog
            .read(|catalog| {
                live_session(catalog, session)?;
                Ok(catalog.instances(session).collect())
            })
            .await?
    }

    /// The instances that an instance spawned, in the order of their creation.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such instance, or its session was deleted.
    pub async fn child_instances(&self, parent: InstanceId) -> Result<Vec<AgentInstance>> {
        self.shared
            .catalog
            .read(|catalog| {
                let session = catalog.instance(parent).map(|instance| instance.session_id);
                let missing = || Error::not_found(format!("no agent instance {parent}"));
                let session = session.ok_or_else(missing)?;
                live_session(catalog, session)?;
                let instances = catalog.instances(session);
                let children = instances.filter(|it| it.parent_instance_id == Some(parent));
                Ok(children.collect())
            })
            .await?
    }

    /// One page of a session's instances, in the order of their creation. Instances created meanwhile don't shift
    /// earlier pages.
    ///
    /// # Errors
    /// As [`instances`](Self::instances), and [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of
    /// another list.
    pub async fn list_instances(
        &self,
        session: SessionId,
        options: &ListInstances,
    ) -> Result<Page<AgentInstance>> {
        check_limit(options.limit)?;
        let cursor = Cursor::read(options.cursor.as_deref(), CursorKind::Instances, &session)?;
        let first = cursor.map(|cursor| u32::try_from(cursor.first).unwrap_or(u32::MAX));
        let (items, next) = self
            .shared
            .catalog
            .read(|catalog| {
                live_session(catalog, session)?;
                let page = catalog.instances_page(session, first, options.limit);
                page.ok_or_else(|| Error::invalid("the cursor names no place of the list"))
            })
            .await??;
        let next = next.map(|number| {
            let cursor = Cursor {
                first: u64::from(number),
                ..Cursor::default()
            };
            cursor.encode(CursorKind::Instances, &session)
        });
        Ok(Page { items, next })
    }

    /// The first instance of a session that wasn't spawned by another: the one a session is resumed with.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it has no instance yet.
    pub async fn root_instance(&self, session: SessionId) -> Result<AgentInstance> {
        self.shared
            .catalog
            .read(|catalog| root_instance(catalog, session))
            .await?
    }

    /// As [`known_instance`](Self::known_instance); an error when its session was deleted.
    pub(crate) async fn writable_instance(&self, id: InstanceId) -> Result<AgentInstance> {
        let instance = self.known_instance(id).await?;
        self.shared
            .catalog
            .with_state(|catalog| live_session(catalog, instance.session_id).map(|_| ()))?;
        Ok(instance)
    }

    /// An error if no instance has this id.
    pub(crate) async fn check_known(&self, id: InstanceId) -> Result<()> {
        let catalog = &self.shared.catalog;
        if catalog.with_state(|catalog| catalog.has_instance(id)) {
            return Ok(());
        }
        self.known_instance(id).await.map(drop)
    }

    /// The instance: from the fold if it has it, otherwise after catching up.
    pub(crate) async fn known_instance(&self, id: InstanceId) -> Result<AgentInstance> {
        if let Some(instance) = self
            .shared
            .catalog
            .with_state(|catalog| catalog.instance(id))
        {
            return Ok(instance);
        }
        self.get_instance(id)
            .await?
            .ok_or_else(|| Error::not_found(format!("no agent instance {id}; create it first")))
    }
}

fn status(status: SessionStatus) -> SessionChanges {
    SessionChanges {
        status: Some(status),
        ..SessionChanges::default()
    }
}
