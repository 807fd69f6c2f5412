//! The events of the tail, from records.

use axum::body::Bytes;
use runlog::{
    AgentInstance, InstanceId, RunId, SessionId, Store,
    contexts::{ContextEvent, ContextEventKind},
    log::Record,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    owners::{Owner, Owners, Topic},
    record_line::RecordLine,
    serve::{problem::Answer, sse},
};

/// An encoded record, ready to be sent.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) position: u64,
    pub(super) topic: Topic,
    pub(super) session: Option<SessionId>,
    pub(super) instance: Option<InstanceId>,
    pub(super) run: Option<RunId>,
    pub(super) frame: Bytes,
}

impl Item {
    /// The subjects that it belongs to.
    pub(super) fn subjects(&self) -> impl Iterator<Item = uuid::Uuid> {
        let session = self.session.map(|id| id.0);
        let instance = self.instance.map(|id| id.0);
        let run = self.run.map(|id| id.0);
        [session, instance, run].into_iter().flatten()
    }
}

/// An event of an agent's context.
#[derive(Serialize, JsonSchema)]
pub(in crate::serve) struct ContextLine<'a> {
    #[serde(flatten)]
    event: &'a ContextEvent,
    /// The session of the instance.
    session_id: SessionId,
    /// The name of the agent.
    agent_name: &'a str,
}

/// Records that can't be read.
#[derive(Serialize, JsonSchema)]
pub(in crate::serve) struct DamagedLine<'a> {
    /// The place of the first of them in the log.
    position: u64,
    /// The place of the last of them.
    last_position: u64,
    /// What is wrong, and what to do.
    detail: &'a str,
}

/// The event about unreadable records, at these positions, both inclusive.
pub(super) fn damaged(first: u64, last: u64, why: &str) -> Answer<Item> {
    let detail = format!("{why}; `runlog verify` says what is damaged, and what to do");
    let line = DamagedLine {
        position: first,
        last_position: last,
        detail: &detail,
    };
    Ok(Item {
        position: last,
        topic: Topic::Damaged,
        session: None,
        instance: None,
        run: None,
        frame: sse::frame(Some(last), Topic::Damaged.name(), &line)?,
    })
}

/// The event about a record.
pub(super) async fn item(store: &Store, owners: &mut Owners, record: &Record) -> Answer<Item> {
    match whole(store, owners, record).await {
        // Its content, or the record of its owner, can't be read.
        Err(problem) if problem.is_damage() => {
            damaged(record.position.0, record.position.0, problem.detail())
        }
        item => item,
    }
}

async fn whole(store: &Store, owners: &mut Owners, record: &Record) -> Answer<Item> {
    let owner = owners.of(store, record.stream).await?;
    if let Owner::Instance(instance) = &owner
        && ContextEventKind::from_byte(record.kind.0).is_some()
    {
        return of_context(instance, record);
    }
    let (session, run) = (owner.session(), owner.run(record));
    let topic = Topic::of(&owner, record);
    let line = RecordLine::of(&owner, record);
    Ok(Item {
        position: record.position.0,
        topic,
        session,
        instance: owner.instance().map(|instance| instance.id),
        run,
        frame: sse::frame(Some(record.position.0), topic.name(), &line)?,
    })
}

fn of_context(instance: &AgentInstance, record: &Record) -> Answer<Item> {
    let event = ContextEvent::decode(instance.id, record)?;
    let line = ContextLine {
        event: &event,
        session_id: instance.session_id,
        agent_name: &instance.agent_name,
    };
    Ok(Item {
        position: event.position,
        topic: Topic::Context,
        session: Some(instance.session_id),
        instance: Some(instance.id),
        run: event.run_id,
        frame: sse::frame(Some(event.position), Topic::Context.name(), &line)?,
    })
}
