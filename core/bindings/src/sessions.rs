//! Sessions and agent instances.

use std::rc::Rc;

use runlog::{
    InstanceId, NewInstance, NewSession, RawJson, SessionId,
    sessions::{CopySession, Deleted, ListSessions, SessionChanges, SessionStatus},
};
use serde::Deserialize;

use crate::{Reply, Result, arguments::Input, object::Scope, store::StoreObject, tasks::Answer};

/// A session to make.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewSessionArgument {
    id: Option<SessionId>,
    name: Option<String>,
    project: Option<String>,
    title: Option<String>,
    metadata: Option<RawJson>,
    created_at_ms: Option<u64>,
}

/// An agent instance to make.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewInstanceArgument {
    session_id: SessionId,
    agent_name: String,
    parent_instance_id: Option<InstanceId>,
    id: Option<InstanceId>,
    created_at_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Id<T> {
    id: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ListArgument {
    status: Option<SessionStatus>,
    project: Option<String>,
    deleted: Option<bool>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateArgument {
    id: SessionId,
    title: Option<String>,
    status: Option<SessionStatus>,
    metadata: Option<RawJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartArgument {
    session: NewSessionArgument,
    agent_name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CopyArgument {
    id: SessionId,
    up_to_sequence: Option<u64>,
    name: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TruncateArgument {
    id: SessionId,
    after_sequence: u64,
}

impl From<NewSessionArgument> for NewSession {
    fn from(given: NewSessionArgument) -> Self {
        let NewSessionArgument {
            id,
            name,
            project,
            title,
            metadata,
            created_at_ms,
        } = given;
        Self {
            id,
            name,
            project,
            title,
            metadata,
            created_at_ms,
        }
    }
}

impl From<NewInstanceArgument> for NewInstance {
    fn from(given: NewInstanceArgument) -> Self {
        let NewInstanceArgument {
            session_id,
            agent_name,
            parent_instance_id,
            id,
            created_at_ms,
        } = given;
        Self {
            session_id,
            agent_name,
            parent_instance_id,
            id,
            created_at_ms,
        }
    }
}

impl From<ListArgument> for ListSessions {
    fn from(given: ListArgument) -> Self {
        let ListArgument {
            status,
            project,
            deleted,
            limit,
            cursor,
        } = given;
        let deleted = if deleted == Some(true) {
            Deleted::Shown
        } else {
            Deleted::Hidden
        };
        Self {
            status,
            project,
            deleted,
            limit: limit.unwrap_or(Self::default().limit),
            cursor,
        }
    }
}

/// Answers a call about sessions and instances.
pub(crate) fn call(of: &Rc<StoreObject>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
    let store = of.store()?;
    Ok(Some(match input.method {
        "createSession" => {
            let new: NewSessionArgument = input.read()?;
            Answer::write(async move { Reply::json(&store.create_session(new.into()).await?) })
        }
        "startSession" => {
            let StartArgument {
                session,
                agent_name,
            } = input.read()?;
            Answer::write(async move {
                Reply::json(&store.start_session(session.into(), &agent_name).await?)
            })
        }
        "getSession" => {
            let Id { id } = input.read()?;
            of.offload(async move { Reply::json(&store.get_session(id).await?) })
        }
        "findSession" => {
            let Text { text } = input.read()?;
            of.offload(async move { Reply::json(&store.find_session(&text).await?) })
        }
        "listSessions" => {
            let options: ListArgument = input.read()?;
            of.offload(async move { Reply::json(&store.list_sessions(&options.into()).await?) })
        }
        "updateSession" => {
            let UpdateArgument {
                id,
                title,
                status,
                metadata,
            } = input.read()?;
            let changes = SessionChanges {
                title,
                status,
                metadata,
            };
            Answer::write(async move { Reply::json(&store.update_session(id, changes).await?) })
        }
        "archiveSession" => {
            let Id { id } = input.read()?;
            Answer::write(async move { Reply::json(&store.archive_session(id).await?) })
        }
        "unarchiveSession" => {
            let Id { id } = input.read()?;
            Answer::write(async move { Reply::json(&store.unarchive_session(id).await?) })
        }
        "deleteSession" => {
            let Id { id } = input.read()?;
            Answer::write(async move {
                store.delete_session(id).await?;
                Ok(Reply::DONE)
            })
        }
        "copySession" => {
            let CopyArgument {
                id,
                up_to_sequence,
                name,
                title,
            } = input.read()?;
            let options = CopySession {
                up_to_sequence,
                name,
                title,
            };
            Answer::write(async move { Reply::json(&store.copy_session(id, &options).await?) })
        }
        "truncateSession" => {
            let TruncateArgument { id, after_sequence } = input.read()?;
            Answer::write(
                async move { Reply::json(&store.truncate_session(id, after_sequence).await?) },
            )
        }
        "createInstance" => {
            let new: NewInstanceArgument = input.read()?;
            Answer::write(
                async move { Reply::json(&store.create_instance_with(new.into()).await?) },
            )
        }
        "getInstance" => {
            let Id { id } = input.read()?;
            of.offload(async move { Reply::json(&store.get_instance(id).await?) })
        }
        "instances" => {
            let Id { id } = input.read()?;
            of.offload(async move { Reply::json(&store.instances(id).await?) })
        }
        "rootInstance" => {
            let Id { id } = input.read()?;
            of.offload(async move { Reply::json(&store.root_instance(id).await?) })
        }
        _ => return Ok(None),
    }))
}
