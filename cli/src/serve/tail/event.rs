//! The events of the tail, from records.

use axum::body::Bytes;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use runlog::{
    AgentInstance, InstanceId, RawJson, RunId, SessionId, Store,
    contexts::{ContextEvent, ContextEventKind},
    flows::RuntimeEvent,
    log::Record,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    owners::{Owner, Owners, Topic},
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

/// Any other record.
#[derive(Serialize, JsonSchema)]
pub(in crate::serve) struct RecordLine {
    /// Its place in the log.
    position: u64,
    /// The stream that it is of, or about.
    #[schemars(with = "String")]
    stream_id: uuid::Uuid,
    /// Its place in the stream; of what the log was asked to do, the sequence that it speaks of.
    sequence_number: u64,
    /// Its kind byte.
    kind: u8,
    /// When it was recorded: milliseconds since 1970-01-01 UTC.
    recorded_at: u64,
    /// Whether its content was taken out of the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    /// The session that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<SessionId>,
    /// The run that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    /// Its content, where that is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<RawJson>,
    /// Its content, where that is something else and the stream is nobody's.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
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
    let payload = payload(record, topic);
    // Binary payloads are only included for streams of users: others are derived, or useless without the rest of the log.
    let bytes = (topic == Topic::Stream && payload.is_none() && !record.payload.is_empty())
        .then(|| BASE64_STANDARD.encode(&record.payload));
    let line = RecordLine {
        position: record.position.0,
        stream_id: record.stream.0,
        sequence_number: record.sequence.0,
        kind: record.kind.0,
        recorded_at: record.time_ms,
        redacted: record.redacted,
        session_id: session,
        run_id: run,
        payload,
        payload_base64: bytes,
    };
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

fn payload(record: &Record, topic: Topic) -> Option<RawJson> {
    if record.payload.is_empty() {
        return None;
    }
    if topic == Topic::Flow {
        let event = RuntimeEvent::decode(&record.meta, &record.payload);
        return event.ok().map(|event| event.json);
    }
    let text = std::str::from_utf8(&record.payload).ok()?;
    RawJson::parse(text).ok()
}
