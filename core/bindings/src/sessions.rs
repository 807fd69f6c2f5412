//! Sessions and agent instances.

use std::rc::Rc;

use runlog::{
    AgentInstance, InstanceId, NewInstance, NewSession, Page, RawJson, Session, SessionId,
    sessions::{CopiedSession, CopySession, ListSessions, SessionChanges, SessionStatus},
};

use crate::{answers::write, calls::calls, store::StoreObject};

calls! {
    (of: &Rc<StoreObject>, _scope, input) { let store = of.store()?; }

    createSession(new: NewSession) -> Session =>
        write(async move { store.create_session(new).await });
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
        write(async move { store.update_session(id, changes).await })
    };
    archiveSession { id: SessionId } -> Session =>
        write(async move { store.archive_session(id).await });
    unarchiveSession { id: SessionId } -> Session =>
        write(async move { store.unarchive_session(id).await });
    deleteSession { id: SessionId } -> () => write(async move { store.delete_session(id).await });
    copySession { id: SessionId, #[serde(default)] options: CopySession } -> CopiedSession =>
        write(async move { store.copy_session(id, &options).await });
    truncateSession { id: SessionId, after_sequence: u64 } -> u64 =>
        write(async move { store.truncate_session(id, after_sequence).await });
    createInstance(new: NewInstance) -> AgentInstance =>
        write(async move { store.create_instance_with(new).await });
    getInstance { id: InstanceId } -> Option<AgentInstance> =>
        of.read(async move { store.get_instance(id).await });
    instances { id: SessionId } -> Vec<AgentInstance> =>
        of.read(async move { store.instances(id).await });
    childInstances { id: InstanceId } -> Vec<AgentInstance> =>
        of.read(async move { store.child_instances(id).await });
    rootInstance { id: SessionId } -> AgentInstance =>
        of.read(async move { store.root_instance(id).await });
}
