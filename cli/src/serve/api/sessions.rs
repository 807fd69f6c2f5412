//! Sessions, their agent instances, and the contexts of these.

use axum::http::StatusCode;
use runlog::{
    AgentInstance, InstanceId, RawJson, Session, SessionId, Store,
    contexts::ContextEvent,
    pages::Page,
    sessions::{ListInstances, ListSessions},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pages::PAGE_BYTES_MAX;
use crate::serve::{
    endpoint::{Endpoint, NoPath, NoQuery, get},
    problem::{Answer, Problem},
};

/// The most bytes of messages that are given at once: far more than any model reads.
const MESSAGES_BYTES_MAX: usize = 64 << 20;

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get(
            "/v1/sessions",
            "Lists sessions in pages, first the one that was added last.",
            list,
        )
        .example_query("status=active&limit=10"),
        get("/v1/sessions/{session_id}", "Gives a session.", session),
        get(
            "/v1/sessions/{session_id}/instances",
            "Lists the agent instances of a session in the order they were made, in pages.",
            instances,
        )
        .example_query("limit=10"),
        get(
            "/v1/instances/{instance_id}",
            "Gives an agent instance, with the last sequence of its context.",
            instance,
        ),
        get(
            "/v1/instances/{instance_id}/events",
            "Lists the events of an instance's context in order, in pages; `next` is the `first` of the page that follows.",
            events,
        )
        .example_query("first=1&limit=10"),
        get(
            "/v1/instances/{instance_id}/messages",
            "Gives the messages of an instance's context, all of them, as the next call of its model needs them: each as it was sent \
             or received.",
            messages,
        ),
    ]
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OfSession {
    /// The session.
    pub(super) session_id: SessionId,
}

#[derive(Deserialize, JsonSchema)]
pub(super) struct OfInstance {
    /// The agent instance.
    pub(super) instance_id: InstanceId,
}

/// The messages of a context.
#[derive(Serialize, JsonSchema)]
struct ContextMessages {
    /// Each in its provider's own form.
    messages: Vec<RawJson>,
    /// The last sequence of the context when they were read: the `expected_last_sequence` of an answer to them.
    last_sequence: u64,
}

/// Which events of a context to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListEvents {
    /// The sequence of the first one; 0 and 1 are the first there is.
    first: u64,
    /// At most so many.
    limit: usize,
}

impl Default for ListEvents {
    fn default() -> Self {
        Self {
            first: 1,
            limit: 50,
        }
    }
}

async fn list(store: Store, _: NoPath, options: ListSessions) -> Answer<Page<Session>> {
    Ok(store.list_sessions(&options).await?)
}

async fn session(store: Store, of: OfSession, _: NoQuery) -> Answer<Session> {
    let session = store.get_session(of.session_id).await?;
    session.ok_or_else(|| Problem::not_found(format!("no session {}", of.session_id)))
}

async fn instances(
    store: Store,
    of: OfSession,
    options: ListInstances,
) -> Answer<Page<AgentInstance>> {
    Ok(store.list_instances(of.session_id, &options).await?)
}

/// An agent instance with where its context ends.
#[derive(Serialize, JsonSchema)]
struct Instance {
    #[serde(flatten)]
    instance: AgentInstance,
    /// The last sequence of its context, 0 where it is empty: the `expected_last_sequence` of who appends next.
    last_sequence: u64,
}

async fn instance(store: Store, of: OfInstance, _: NoQuery) -> Answer<Instance> {
    let instance = store.get_instance(of.instance_id).await?;
    let unknown = || Problem::not_found(format!("no agent instance {}", of.instance_id));
    Ok(Instance {
        instance: instance.ok_or_else(unknown)?,
        last_sequence: store.contexts().last_sequence(of.instance_id).await?,
    })
}

async fn messages(store: Store, of: OfInstance, _: NoQuery) -> Answer<ContextMessages> {
    let context = store.context(of.instance_id).await?;
    // Before they are read: who writes an answer to fewer than there are is told so.
    let last_sequence = context.get_last_sequence().await?;
    check_size(&store, of.instance_id).await?;
    let messages = context.get_messages().await?;
    let messages = messages.into_iter().map(|message| message.json).collect();
    Ok(ContextMessages {
        messages,
        last_sequence,
    })
}

/// Refuses a context that is too large to be given at once, before all of it is in memory.
async fn check_size(store: &Store, instance: InstanceId) -> Answer<()> {
    let mut pages = store.contexts().events(instance, 1).await?;
    let mut bytes = 0;
    while let Some(page) = pages.next_page().await? {
        bytes += page
            .iter()
            .map(|event| event.content.as_bytes().len())
            .sum::<usize>();
        if bytes > MESSAGES_BYTES_MAX {
            let detail = format!(
                "the context has more than {MESSAGES_BYTES_MAX} bytes, which are not given at once; read its events, in pages"
            );
            return Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                detail,
            ));
        }
    }
    Ok(())
}

async fn events(
    store: Store,
    of: OfInstance,
    options: ListEvents,
) -> Answer<Page<ContextEvent, u64>> {
    let ListEvents { first, limit } = options;
    if limit == 0 {
        let detail = "a page of 0 events lists nothing; give a `limit` of 1 or more";
        return Err(Problem::invalid(detail));
    }
    let pages = store.contexts().events(of.instance_id, first).await?;
    let mut pages = pages.beginning_with(limit as u64 + 1);
    let (mut items, mut bytes): (Vec<ContextEvent>, usize) = (Vec::new(), 0);
    while let Some(page) = pages.next_page().await? {
        for event in page {
            if items.len() == limit || bytes > PAGE_BYTES_MAX {
                let next = Some(event.sequence_number);
                return Ok(Page { items, next });
            }
            bytes += event.content.as_bytes().len();
            items.push(event);
        }
    }
    Ok(Page { items, next: None })
}
