//! [`FlowObject`]: an active flow; [`PlaybackObject`]: one that is played back.

use std::rc::Rc;

use runlog::{
    Durability, RawJson, RunId, durability,
    flows::{
        FlowRun, FlowSummary, ListFlows, Playback, PlaybackOptions, RecordedEvent, Resumed,
        RunSnapshot, RuntimeCommand, RuntimeEvent,
    },
    pages::Page,
};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::{
    Failure, Result,
    answers::{IntoReply, Made, Packed, Typed, wait, write},
    arguments::Input,
    calls::calls,
    flow_records::RecordQueue,
    object::{Object, Scope},
    packed::Contents,
    store::StoreObject,
    tasks::Answer,
};

/// The most events in a page of a playback.
const PAGE_EVENTS: usize = 256;
/// A page ends once it has this many bytes.
const PAGE_BYTES: usize = 1 << 20;

/// An active flow. Its calls are executed one after the other, in the order of their arrival.
pub(crate) struct FlowObject {
    of: Rc<StoreObject>,
    driven: Rc<Mutex<Driven>>,
    records: Rc<RecordQueue>,
}

/// A flow, and what JavaScript knows of its inbox.
struct Driven {
    flow: FlowRun,
    sent: Vec<RuntimeCommand>,
    changes: u64,
}

/// A flow that is played back, one page after the other.
pub(crate) struct PlaybackObject {
    of: Rc<StoreObject>,
    playback: Mutex<Playback>,
}

/// A flow, and what it goes on with where it was resumed.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct FlowState {
    run: RunId,
    state: RunSnapshot,
    resumed: Option<Resumed>,
}

/// What has changed in a flow's inbox since the change before: so many of its first commands are still there, and these
/// follow. The inbox itself may be large. Answers may come in another order than their changes, which are numbered from 1.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct InboxChange {
    number: u64,
    kept: usize,
    added: Vec<RuntimeCommand>,
}

/// The commands that were taken from a flow's inbox, and what has changed in it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct Taken {
    taken: Vec<RuntimeCommand>,
    inbox: InboxChange,
}

/// An event that is played back, without its JSON: delay in milliseconds, sequence, position, when it was recorded,
/// length.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct PlayedHead(f64, u64, u64, u64, usize);

fn made(
    of: Rc<StoreObject>,
    scope: &Scope,
    flow: FlowRun,
    resumed: Option<Resumed>,
) -> Result<Made<FlowState>> {
    let state = FlowState {
        run: flow.run_id(),
        state: flow.state().clone(),
        resumed,
    };
    let driven = Driven {
        sent: flow.state().inbox.clone(),
        flow,
        changes: 0,
    };
    let object = FlowObject {
        of,
        driven: Rc::new(Mutex::new(driven)),
        records: Rc::default(),
    };
    Made::new(scope, Rc::new(object), &state)
}

calls! {
    (of: &Rc<StoreObject>, scope, input) {
        let store = of.store()?;
        let (maker, scope) = (Rc::clone(of), scope.clone());
    }

    createFlow { run_id: Option<RunId> } -> Made<FlowState> =>
        write(async move { made(maker, &scope, FlowRun::create(&store, run_id).await?, None) });
    resumeFlow { run_id: RunId, message: Option<String> } -> Made<FlowState> => {
        let resuming = of.run_blocking(async move {
            FlowRun::resume(&store, run_id, message.as_deref()).await
        });
        wait(async move {
            let (flow, resumed) = resuming.await?;
            made(maker, &scope, flow, Some(resumed))
        })
    };
    listFlows(options: ListFlows) -> Page<FlowSummary> =>
        of.read(async move { store.flows().list(&options).await });
    getFlow { run_id: RunId } -> Option<FlowSummary> =>
        of.read(async move { store.flows().get(run_id).await });
    playback { run_id: RunId, #[serde(default)] options: PlaybackOptions } -> Made<Option<RunSnapshot>> => {
        let opening = of.run_blocking(async move {
            Playback::new(&store, run_id, options).await
        });
        wait(async move {
            let playback = opening.await?;
            let snapshot = playback.snapshot().cloned();
            let object = PlaybackObject { of: maker, playback: Mutex::new(playback) };
            Made::new(&scope, Rc::new(object), &snapshot)
        })
    };
}

impl FlowObject {
    /// An answer that needs exclusive access to the flow.
    fn with<T: IntoReply + 'static>(
        &self,
        work: impl AsyncFnOnce(&mut Driven) -> runlog::Result<T> + 'static,
    ) -> Typed<T> {
        let driven = Rc::clone(&self.driven);
        self.records.end_turn();
        write(async move { work(&mut *driven.lock().await).await })
    }

    /// The same for what answers how it changed the inbox.
    fn changing(
        &self,
        work: impl AsyncFnOnce(&mut FlowRun) -> runlog::Result<()> + 'static,
    ) -> Typed<InboxChange> {
        self.with(async move |driven| {
            work(&mut driven.flow).await?;
            Ok(driven.change())
        })
    }
}

impl Driven {
    /// What JavaScript doesn't know of the inbox yet. It has to be sent once it is asked for.
    fn change(&mut self) -> InboxChange {
        let inbox = &self.flow.state().inbox;
        let pairs = inbox.iter().zip(&self.sent);
        let kept = pairs.take_while(|(now, sent)| now == sent).count();
        let added = inbox[kept..].to_vec();
        self.sent.truncate(kept);
        self.sent.extend_from_slice(&added);
        self.changes += 1;
        InboxChange {
            number: self.changes,
            kept,
            added,
        }
    }
}

/// The events sent by JavaScript; the error of one of several says which.
fn events_of(json: Vec<RawJson>) -> Result<Vec<RuntimeEvent>> {
    let count = json.len();
    let events = json.into_iter().enumerate().map(|(index, json)| {
        RuntimeEvent::of_json(json).map_err(|error| {
            let failure = Failure::from(error);
            match count {
                1 => failure,
                _ => Failure {
                    message: format!("`events[{index}]`: {}", failure.message),
                    ..failure
                },
            }
        })
    });
    events.collect()
}

/// The state sent by JavaScript.
fn state_of(input: Input<'_>) -> Result<RunSnapshot> {
    Ok(input.json()?.to_value()?)
}

/// Replaces the state, except the inbox, which is the flow's own. Calls answer what changed in that alone: the rest is what
/// JavaScript sent, and may be large.
fn replace(flow: &mut FlowRun, state: RunSnapshot) {
    let inbox = std::mem::take(&mut flow.state_mut().inbox);
    *flow.state_mut() = RunSnapshot { inbox, ..state };
}

/// Takes commands, those that other handles received included. `waits` is whether the caller waits for more if there are
/// none: that is refused when the flow takes none any more.
async fn taken(
    driven: &mut Driven,
    waits: Option<bool>,
    take: impl Fn(&mut FlowRun) -> Vec<RuntimeCommand>,
) -> runlog::Result<Taken> {
    let flow = &mut driven.flow;
    flow.refresh().await?;
    let mut taken = take(flow);
    if waits == Some(true) && taken.is_empty() {
        flow.check_open().await?;
        // None were given while somebody resumed the flow, and nobody would be woken where that failed.
        taken = take(flow);
    }
    let inbox = driven.change();
    Ok(Taken { taken, inbox })
}

impl Object for FlowObject {
    fn name(&self) -> &'static str {
        "a flow"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        calls_of_flow::call(&self, scope, input)
    }
}

pub(crate) mod calls_of_flow {
    use super::*;

    calls! {
        (of: &Rc<FlowObject>, _scope, input) {}

        record {
            lengths: Vec<usize>,
            durability: Option<durability::Given>,
        } -> u64 => {
            let json = input.json_list(&lengths)?;
            let events = events_of(json)?;
            let (driven, records) = (Rc::clone(&of.driven), Rc::clone(&of.records));
            let answer = records.add(events, durability.map(Durability::from));
            write(async move { records.record(&mut driven.lock().await.flow, answer).await })
        };
        saveSnapshot {} -> InboxChange => {
            let state = state_of(input)?;
            of.changing(async move |flow| {
                replace(flow, state);
                flow.save_snapshot().await
            })
        };
        startAgent { node_id: String, session_id: String } -> InboxChange => {
            let state = state_of(input)?;
            of.changing(async move |flow| {
                replace(flow, state);
                flow.start_agent(&node_id, &session_id).await
            })
        };
        finishNode { node_id: String, output: serde_json::Value } -> InboxChange => {
            let state = state_of(input)?;
            of.changing(async move |flow| {
                replace(flow, state);
                flow.finish_node(&node_id, output).await
            })
        };
        command {} -> InboxChange => {
            let command: RawJson = input.json()?;
            of.changing(async move |flow| flow.command(&command).await)
        };
        refresh {} -> InboxChange =>
            of.changing(async move |flow| flow.refresh().await);
        takeInbox { run_id: Option<String>, waits: Option<bool> } -> Taken =>
            of.with(async move |driven| {
                taken(driven, waits, |flow| match &run_id {
                    Some(run) => flow.take_inbox(run),
                    None => flow.take_own_inbox(),
                })
                .await
            });
        takeMessage { run_id: String } -> Taken =>
            of.with(async move |driven| {
                taken(driven, Some(true), |flow| flow.take_message(&run_id).into_iter().collect()).await
            });
        giveBack {} -> InboxChange => {
            let command: RuntimeCommand = input.json()?.to_value()?;
            of.changing(async move |flow| {
                flow.give_back(command);
                Ok(())
            })
        };
    }
}

impl PlaybackObject {
    /// The next page. If it can't be read, or the call is cancelled, the same page is returned next time.
    async fn next_page(&self) -> Result<Packed<Vec<PlayedHead>>> {
        let mut playback = self.playback.lock().await;
        let mut reading = playback.clone();
        let reading = async move {
            let (mut page, mut bytes) = (Vec::new(), 0);
            while page.len() < PAGE_EVENTS && bytes < PAGE_BYTES {
                let Some((delay, event)) = reading.next_event().await? else {
                    break;
                };
                bytes += event.event.json.as_bytes().len();
                page.push((delay.as_secs_f64() * 1000.0, event));
            }
            Ok::<_, Failure>((reading, page))
        };
        let (read, page) = self.of.run_blocking(reading).await?;
        *playback = read;
        pack_played(&page)
    }
}

impl Object for PlaybackObject {
    fn name(&self) -> &'static str {
        "a playback"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        self.of.store()?;
        calls_of_playback::call(&self, scope, input)
    }
}

pub(crate) mod calls_of_playback {
    use super::*;

    calls! {
        (of: &Rc<PlaybackObject>, _scope, input) { let of = Rc::clone(of); }

        seek { sequence: u64, backward: Option<bool> } -> () => wait(async move {
            let mut playback = of.playback.lock().await;
            if let Some(backward) = backward {
                playback.turn(backward);
            }
            playback.seek(sequence);
            Ok::<_, Failure>(())
        });
        nextPage {} -> Packed<Vec<PlayedHead>> => wait(async move { of.next_page().await });
    }
}

fn pack_played(page: &[(f64, RecordedEvent)]) -> Result<Packed<Vec<PlayedHead>>> {
    let mut contents = Contents::new();
    let heads: Vec<PlayedHead> = page
        .iter()
        .map(|(delay, recorded)| {
            let length = contents.add(recorded.event.json.as_bytes());
            PlayedHead(
                *delay,
                recorded.sequence,
                recorded.position,
                recorded.recorded_at_ms,
                length,
            )
        })
        .collect();
    contents.packed(&heads)
}
