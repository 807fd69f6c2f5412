//! Flows of nodes and agents, and their events.

use runlog::{
    RawJson, RunId, Store,
    flows::{
        FlowRun, FlowSummary, ListFlows, Playback, PlaybackOptions, RecordedEvent, RunSnapshot,
        Speed,
    },
    pages::Page,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pages::PAGE_BYTES_MAX;
use crate::serve::{
    endpoint::{Endpoint, NoPath, NoQuery, get},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        get("/v1/flows", "Lists flows, newest first, in pages.", list)
            .example_query("resumable=false&limit=10"),
        get("/v1/flows/{run_id}", "Gives a flow in short.", flow),
        get(
            "/v1/flows/{run_id}/state",
            "Gives the latest state of a flow: its newest snapshot, with the commands that wait since.",
            state,
        ),
        get(
            "/v1/flows/{run_id}/events",
            "Lists the events of a flow, in order, in pages; `next` is the `first` of the page that follows.",
            events,
        )
        .example_query("types=node:*&types=agent:*&limit=10"),
    ]
}

#[derive(Deserialize, JsonSchema)]
pub(in crate::serve) struct OfFlow {
    /// The run whose flow it is, or the flow's own id.
    pub(in crate::serve) run_id: RunId,
}

/// Which events of a flow to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ListFlowEvents {
    /// The first sequence; 0 and 1 are the first event.
    first: u64,
    /// The last sequence, inclusive; the last there is when left out.
    last: Option<u64>,
    /// Only events of these types; a type that ends in `*` stands for all that begin so.
    types: Vec<String>,
    /// At most so many.
    limit: usize,
}

impl Default for ListFlowEvents {
    fn default() -> Self {
        Self {
            first: 1,
            last: None,
            types: Vec::new(),
            limit: 50,
        }
    }
}

/// An event of a flow, as it was recorded.
#[derive(Serialize, JsonSchema)]
pub(in crate::serve) struct FlowEvent {
    /// Its place in the stream of the run.
    sequence_number: u64,
    /// Its place in the log.
    position: u64,
    /// When it was recorded: milliseconds since 1970-01-01 UTC.
    recorded_at: u64,
    /// The event, byte for byte.
    event: RawJson,
}

impl From<RecordedEvent> for FlowEvent {
    fn from(recorded: RecordedEvent) -> Self {
        Self {
            sequence_number: recorded.sequence,
            position: recorded.position,
            recorded_at: recorded.recorded_at_ms,
            event: recorded.event.json,
        }
    }
}

async fn list(store: Store, _: NoPath, options: ListFlows) -> Answer<Page<FlowSummary>> {
    Ok(store.flows().list(&options).await?)
}

async fn flow(store: Store, of: OfFlow, _: NoQuery) -> Answer<FlowSummary> {
    known_flow(&store, of.run_id).await
}

/// The flow in short.
///
/// # Errors
/// A problem of status 404 when there is no such flow, also where there is such a run.
pub(in crate::serve) async fn known_flow(store: &Store, id: RunId) -> Answer<FlowSummary> {
    let flow = store.flows().get(id).await?;
    flow.ok_or_else(|| Problem::not_found(format!("no flow {id}")))
}

async fn state(store: Store, of: OfFlow, _: NoQuery) -> Answer<RunSnapshot> {
    Ok(FlowRun::inspect(&store, of.run_id).await?)
}

async fn events(store: Store, of: OfFlow, options: ListFlowEvents) -> Answer<Page<FlowEvent, u64>> {
    if options.limit == 0 {
        let detail = "a page of 0 events lists nothing; give a `limit` of 1 or more";
        return Err(Problem::invalid(detail));
    }
    let played = PlaybackOptions {
        first: options.first,
        last: options.last,
        types: options.types,
        speed: Speed::AtOnce,
        ..PlaybackOptions::default()
    };
    known_flow(&store, of.run_id).await?;
    let mut playback = Playback::new(&store, of.run_id, played).await?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some((_, event)) = playback.next_event().await? {
        if items.len() == options.limit || bytes > PAGE_BYTES_MAX {
            let next = Some(event.sequence);
            return Ok(Page { items, next });
        }
        bytes += event.event.json.as_bytes().len();
        items.push(event.into());
    }
    Ok(Page { items, next: None })
}
