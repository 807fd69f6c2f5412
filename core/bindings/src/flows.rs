//! [`FlowObject`]: a flow under way; [`PlaybackObject`]: one that is played back.

use std::rc::Rc;

use runlog::{
    Durability, RawJson, RunId,
    flows::{
        FlowRun, ListFlows, Playback, PlaybackOptions, RecordedEvent, Resumed, RunSnapshot,
        RuntimeCommand, RuntimeEvent, Speed,
    },
};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::{
    Reply, Result,
    arguments::{DurabilityArgument, Input},
    flow_records::RecordQueue,
    object::{Object, Scope},
    packed::Contents,
    store::StoreObject,
    tasks::Answer,
};

/// At most so many events in a page of a playback.
const PAGE_EVENTS: usize = 256;
/// A page ends once it has so many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// A flow under way. Its calls are done one after the other, in the order in which they come.
pub(crate) struct FlowObject {
    of: Rc<StoreObject>,
    flow: Rc<Mutex<FlowRun>>,
    records: Rc<RecordQueue>,
}

/// A flow that is played back, one page after the other.
pub(crate) struct PlaybackObject {
    of: Rc<StoreObject>,
    playback: Mutex<Playback>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    run: Option<RunId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    run: RunId,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    lengths: Vec<usize>,
    durability: Option<DurabilityArgument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct StartAgent {
    node_id: String,
    session_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FinishNode {
    node_id: String,
    output: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct TakeInbox {
    run_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Play {
    run: RunId,
    first: Option<u64>,
    last: Option<u64>,
    #[serde(default)]
    types: Vec<String>,
    /// How many times as fast as recorded; 0 for at once.
    #[serde(default)]
    speed: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    status: Option<String>,
    parent_run_id: Option<RunId>,
    #[serde(default)]
    resumable: bool,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    run: RunId,
}

#[derive(Serialize)]
struct FlowReply<'a> {
    run: RunId,
    state: &'a RunSnapshot,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed: Option<Resumed>,
}

#[derive(Serialize)]
struct InboxReply<'a> {
    taken: Vec<RuntimeCommand>,
    state: &'a RunSnapshot,
}

/// An event that is played back, without its JSON: delay in milliseconds, sequence, position, when it was recorded,
/// length.
#[derive(Serialize)]
struct EventHead(f64, u64, u64, u64, usize);

fn flow_reply(
    of: Rc<StoreObject>,
    scope: &Scope,
    flow: FlowRun,
    resumed: Option<Resumed>,
) -> Result<Reply> {
    let reply = Reply::json(&FlowReply {
        run: flow.run_id(),
        state: flow.state(),
        resumed,
    })?;
    let flow = Rc::new(Mutex::new(flow));
    Ok(reply.with_handle(scope.objects.add(Rc::new(FlowObject {
        of,
        flow,
        records: Rc::default(),
    }))?))
}

/// Answers a call about flows.
pub(crate) fn call(
    of: &Rc<StoreObject>,
    scope: &Scope,
    input: Input<'_>,
) -> Result<Option<Answer>> {
    let store = of.store()?;
    let (of, scope) = (Rc::clone(of), scope.clone());
    Ok(Some(match input.method {
        "createFlow" => {
            let Create { run } = input.read()?;
            Answer::write(async move {
                flow_reply(of, &scope, FlowRun::create(&store, run).await?, None)
            })
        }
        "resumeFlow" => {
            let Resume { run, message } = input.read()?;
            let resuming = of.run_blocking(async move {
                Ok(FlowRun::resume(&store, run, message.as_deref()).await?)
            });
            Answer::wait(async move {
                let (flow, resumed) = resuming.await?;
                flow_reply(of, &scope, flow, Some(resumed))
            })
        }
        "listFlows" => {
            let List {
                status,
                parent_run_id,
                resumable,
                limit,
                cursor,
            } = input.read()?;
            let limit = limit.unwrap_or(ListFlows::default().limit);
            let options = ListFlows {
                status,
                parent_run_id,
                resumable,
                limit,
                cursor,
            };
            of.offload(async move { Reply::json(&store.flows().list(&options).await?) })
        }
        "getFlow" => {
            let Of { run } = input.read()?;
            of.offload(async move { Reply::json(&store.flows().get(run).await?) })
        }
        "playback" => {
            let Play {
                run,
                first,
                last,
                types,
                speed,
            } = input.read()?;
            let speed = if speed == 0.0 {
                Speed::AtOnce
            } else {
                Speed::Multiple(speed)
            };
            let options = PlaybackOptions {
                first: first.unwrap_or(1),
                last,
                types,
                speed,
            };
            let opening =
                of.run_blocking(async move { Ok(Playback::new(&store, run, options).await?) });
            Answer::wait(async move {
                let playback = opening.await?;
                let reply = Reply::json(&playback.snapshot())?;
                let object = PlaybackObject {
                    of,
                    playback: Mutex::new(playback),
                };
                Ok(reply.with_handle(scope.objects.add(Rc::new(object))?))
            })
        }
        _ => return Ok(None),
    }))
}

impl FlowObject {
    /// An answer that needs the flow to itself.
    fn with<T>(
        &self,
        work: impl AsyncFnOnce(&mut FlowRun) -> Result<T> + 'static,
        reply: impl FnOnce(T, &FlowRun) -> Result<Reply> + 'static,
    ) -> Answer {
        let flow = Rc::clone(&self.flow);
        self.records.end_turn();
        Answer::write(async move {
            let mut flow = flow.lock().await;
            let done = work(&mut flow).await?;
            reply(done, &flow)
        })
    }
}

/// The state as JavaScript has it.
fn state_of(input: Input<'_>) -> Result<RunSnapshot> {
    Ok(input.json()?.to_value()?)
}

/// Takes over the state; the inbox is the flow's own.
fn replace(flow: &mut FlowRun, state: RunSnapshot) {
    let inbox = std::mem::take(&mut flow.state_mut().inbox);
    *flow.state_mut() = RunSnapshot { inbox, ..state };
}

fn state_reply((): (), flow: &FlowRun) -> Result<Reply> {
    Reply::json(flow.state())
}

impl Object for FlowObject {
    fn name(&self) -> &'static str {
        "a flow"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        Ok(Some(match input.method {
            "record" => {
                let Record {
                    lengths,
                    durability,
                } = input.read()?;
                let json = input.json_list(&lengths)?;
                let events = json
                    .into_iter()
                    .map(RuntimeEvent::of_json)
                    .collect::<std::result::Result<Vec<_>, _>>();
                let events = events?;
                let durability = durability.map(Durability::from);
                let (flow, records) = (Rc::clone(&self.flow), Rc::clone(&self.records));
                let answer = records.add(events, durability);
                Answer::write(async move {
                    let mut flow = flow.lock().await;
                    Reply::json(&records.record(&mut flow, answer).await?)
                })
            }
            "saveSnapshot" => {
                let state = state_of(input)?;
                self.with(
                    async move |flow| {
                        replace(flow, state);
                        Ok(flow.save_snapshot().await?)
                    },
                    state_reply,
                )
            }
            "startAgent" => {
                let (
                    state,
                    StartAgent {
                        node_id,
                        session_id,
                    },
                ) = (state_of(input)?, input.read()?);
                self.with(
                    async move |flow| {
                        replace(flow, state);
                        Ok(flow.start_agent(&node_id, &session_id).await?)
                    },
                    state_reply,
                )
            }
            "finishNode" => {
                let (state, FinishNode { node_id, output }) = (state_of(input)?, input.read()?);
                self.with(
                    async move |flow| {
                        replace(flow, state);
                        Ok(flow.finish_node(&node_id, output).await?)
                    },
                    state_reply,
                )
            }
            "command" => {
                let command: RawJson = input.json()?;
                self.with(
                    async move |flow| Ok(flow.command(&command).await?),
                    state_reply,
                )
            }
            "takeInbox" => {
                let TakeInbox { run_id } = input.read()?;
                self.with(
                    async move |flow| {
                        Ok(match run_id {
                            Some(run) => flow.take_inbox(&run),
                            None => flow.take_own_inbox(),
                        })
                    },
                    |taken, flow| {
                        Reply::json(&InboxReply {
                            taken,
                            state: flow.state(),
                        })
                    },
                )
            }
            _ => return Ok(None),
        }))
    }
}

impl Object for PlaybackObject {
    fn name(&self) -> &'static str {
        "a playback"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        if input.method != "nextPage" {
            return Ok(None);
        }
        Ok(Some(Answer::wait(async move {
            // One page after the other. One that can't be read, or that nobody waits for any more, is still to come.
            let mut playback = self.playback.lock().await;
            let mut reading = playback.clone();
            let (read, page) = self
                .of
                .run_blocking(async move {
                    let (mut page, mut bytes) = (Vec::new(), 0);
                    while page.len() < PAGE_EVENTS && bytes < PAGE_BYTES {
                        let Some((delay, event)) = reading.next_event().await? else {
                            break;
                        };
                        bytes += event.event.json.as_bytes().len();
                        page.push((delay.as_secs_f64() * 1000.0, event));
                    }
                    Ok((reading, page))
                })
                .await?;
            *playback = read;
            Ok(Reply::bytes(pack_played(&page)?))
        })))
    }
}

fn pack_played(page: &[(f64, RecordedEvent)]) -> Result<Vec<u8>> {
    let mut contents = Contents::new();
    let heads: Vec<EventHead> = page
        .iter()
        .map(|(delay, recorded)| {
            let length = contents.add(recorded.event.json.as_bytes());
            EventHead(
                *delay,
                recorded.sequence,
                recorded.position,
                recorded.recorded_at_ms,
                length,
            )
        })
        .collect();
    contents.pack(&heads)
}
