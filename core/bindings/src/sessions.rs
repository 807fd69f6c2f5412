//! Sessions and agent instances.

use std::rc::Rc;

use runlog::{
    AgentInstance, InstanceId, NewInstance, NewSession, RawJson, Session, SessionId,
    pages::Page,
    sessions::{CopiedSession, CopySession, ListSessions, SessionChanges, SessionStatus},
};

use crate::{
    answers::{change, write},
    calls::calls,
    changes::Key,
    store::StoreObject,
};

calls! {
    (of: &Rc<StoreObject>, _scope, input) { let store = of.store()?; }

    createSession(new: NewSession) -> Session => {
        // Only an id that was given can be used before the session is there.
        let is_named = new.id.is_some();
        let created = async move { store.create_session(new).await };
        if is_named { change(Key::All, created) } else { write(created) }
    };
    startSession { session: NewSession, agent_name: String } -> (Session, AgentInstance) =>
        write(async move { store.start_session(session, &agent_name).await });
    getOrStartSession { session: NewSession, agent_name: String } -> (Session, AgentInstance) =>
        write(async move { store.get_or_start_session(session, &agent_name).await });
    getSession { id: SessionId } -> Option<Session> =>
        of.read(async move { store.get_session(id).await });
    findSession { text: String } -> Session =>
        of.read(async move { store.find_session(&text).await });
    listSessions(options: ListSessions) -> Page<Session> =>
        of.read(async move { store.list_sessions(&options).await });
    updateSession {
        id: SessionId,
        /// The title; an empty one takes the title away.
        title: Option<String>,
        /// Whether it is in use.
        status: Option<SessionStatus>,
        /// The metadata, replaced as a whole.
        metadata: Option<RawJson>,
    } -> Session => {
        let changes = SessionChanges { title, status, metadata };
        change(Key::of(id), async move { store.update_session(id, changes).await })
    };
    archiveSession { id: SessionId } -> Session =>
        change(Key::of(id), async move { store.archive_session(id).await });
    unarchiveSession { id: SessionId } -> Session =>
        change(Key::of(id), async move { store.unarchive_session(id).await });
    deleteSession { id: SessionId } -> () =>
        change(Key::All, async move { store.delete_session(id).await });
    copySession { id: SessionId, #[serde(default)] options: CopySession } -> CopiedSession =>
        change(Key::All, async move { store.copy_session(id, &options).await });
    truncateSession { id: SessionId, after_sequence: u64 } -> u64 =>
        change(Key::All, async move { store.truncate_session(id, after_sequence).await });
    sequenceAtMessage { id: SessionId, message_id: String } -> u64 =>
        of.read(async move { store.sequence_at_message(id, &message_id).await });
    createInstance(new: NewInstance) -> AgentInstance => {
        let is_named = new.id.is_some();
        let created = async move { store.create_instance_with(new).await };
        if is_named { change(Key::All, created) } else { write(created) }
    };
    getInstance { id: InstanceId } -> Option<AgentInstance> =>
        of.read(async move { store.get_instance(id).await });
    instances { session_id: SessionId } -> Vec<AgentInstance> =>
        of.read(async move { store.instances(session_id).await });
    childInstances { instance_id: InstanceId } -> Vec<AgentInstance> =>
        of.read(async move { store.child_instances(instance_id).await });
    rootInstance { session_id: SessionId } -> AgentInstance =>
        of.read(async move { store.root_instance(session_id).await });
}
