//! Starting sessions: with their root instance, and idempotently for programs that restart.

use runlog_model::{AgentInstance, CatalogEvent, InstanceId, Session, SessionId};

use crate::{
    Error, NewSession, Result, Store,
    kernel::{
        catalog::{Change, Guard},
        lookup::{check_free, check_unused},
    },
};

impl Store {
    /// Creates a session and its root instance together. Durable when it returns.
    ///
    /// # Errors
    /// As [`create_session`](Self::create_session) and [`create_instance`](Self::create_instance).
    pub async fn start_session(
        &self,
        new: NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)> {
        let (session, instance) = self.session_and_root(&new, agent_name)?;
        check_unused(&**self.backend(), new.id.map(SessionId::as_uuid)).await?;
        let guard = Guard::of_new(&new);
        let created = [
            CatalogEvent::SessionCreated(session.clone()),
            CatalogEvent::InstanceCreated(instance.clone()),
        ];
        self.shared
            .catalog
            .add(&created, guard, |catalog| check_free(catalog, &session))
            .await?;
        Ok((session, instance))
    }

    /// The session with this name and its root instance, created if they don't exist: for a program that continues in
    /// its own session after a restart. Of several concurrent calls, one creates them. Durable when it returns. An
    /// existing session is unchanged, and so is its root instance, also if another agent is named; a missing root instance is created.
    ///
    /// ```
    /// use runlog::{NewSession, blocking::Store};
    ///
    /// let store = Store::in_memory();
    /// let (session, root) = store.get_or_start_session(NewSession::named("nightly"), "coder")?;
    /// let again = store.get_or_start_session(NewSession::named("nightly"), "coder")?;
    /// assert_eq!(again, (session, root));
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) without a name, or with an id; else as
    /// [`start_session`](Self::start_session).
    pub async fn get_or_start_session(
        &self,
        new: NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)> {
        let (Some(name), None) = (&new.name, new.id) else {
            return Err(Error::invalid(
                "a session that is made once is found by its name; give a name, and no id",
            ));
        };
        let (fresh, root) = self.session_and_root(&new, agent_name)?;
        self.shared
            .catalog
            .change(|catalog| {
                let Some(session) = catalog.session_named(name) else {
                    check_free(catalog, &fresh)?;
                    let made = vec![
                        CatalogEvent::SessionCreated(fresh.clone()),
                        CatalogEvent::InstanceCreated(root.clone()),
                    ];
                    return Ok((Change::of(made), (fresh.clone(), root.clone())));
                };
                let mut instances = catalog.instances(session.id);
                let known = instances.find(|instance| instance.parent_instance_id.is_none());
                if let Some(known) = known {
                    return Ok((Change::default(), (session.clone(), known.clone())));
                }
                let root = AgentInstance {
                    session_id: session.id,
                    ..root.clone()
                };
                let made = vec![CatalogEvent::InstanceCreated(root.clone())];
                Ok((Change::of(made), (session.clone(), root)))
            })
            .await
    }

    /// A session and its root instance, checked but not created yet.
    fn session_and_root(
        &self,
        new: &NewSession,
        agent_name: &str,
    ) -> Result<(Session, AgentInstance)> {
        let session = self.session_from(new);
        let instance = AgentInstance {
            id: InstanceId(self.backend().new_id()),
            session_id: session.id,
            agent_name: agent_name.to_owned(),
            parent_instance_id: None,
            created_at_ms: session.created_at_ms,
        };
        session.check()?;
        instance.check()?;
        Ok((session, instance))
    }
}
