//! The contexts of agent instances: events, and the messages that their models see.

use std::rc::Rc;

use runlog::{
    AgentInstance, ErrorKind, InstanceId, Message, RawJson, Role, RunId, Store,
    contexts::{
        AppendOptions, AppendResult, ContextEvent, ContextEventKind, DanglingToolCall,
        EventOptions, Followed, RawMessage, ToolMark,
    },
};
use serde::Serialize;

use crate::{
    Failure, Result,
    answers::{Packed, change, write_to},
    calls::calls,
    changes::Key,
    packed::Contents,
    store::StoreObject,
};

/// An event without its content.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ContextEventHead {
    position: u64,
    sequence_number: u64,
    event_type: ContextEventKind,
    tool_call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_results: Vec<ToolMark>,
    run_id: Option<RunId>,
    step_number: Option<u32>,
    created_at_ms: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    role_implied: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_continuation: bool,
    length: usize,
}

/// A page of events.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct EventHeads {
    instance: InstanceId,
    events: Vec<ContextEventHead>,
    /// Where the next page begins.
    next: Option<u64>,
}

/// A message without its content: its sequence, its role and its length.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(crate) struct MessageHead(u64, Role, usize);

/// What a follower of a context was given, as far as it is still there.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct StillThere(u64, u64, bool);

/// Messages: heads, with the contents separately.
pub(crate) fn pack_messages(messages: &[Message]) -> Result<Packed<Vec<MessageHead>>> {
    let mut contents = Contents::new();
    let heads = messages.iter().map(|message| {
        let length = contents.add(message.json.as_bytes());
        MessageHead(message.sequence_number, message.role, length)
    });
    let heads: Vec<_> = heads.collect();
    contents.packed(&heads)
}

fn pack_events(
    instance: InstanceId,
    events: Vec<ContextEvent>,
    next: Option<u64>,
) -> Result<Packed<EventHeads>> {
    let mut contents = Contents::new();
    let heads = events.into_iter().map(|event| ContextEventHead {
        position: event.position,
        sequence_number: event.sequence_number,
        event_type: event.event_type,
        tool_call_id: event.tool_call_id,
        tool_results: event.tool_results,
        run_id: event.run_id,
        step_number: event.step_number,
        created_at_ms: event.created_at_ms,
        redacted: event.redacted,
        role_implied: event.role_implied,
        is_continuation: event.is_continuation,
        length: contents.add(event.content.as_bytes()),
    });
    let events = heads.collect();
    contents.packed(&EventHeads {
        instance,
        events,
        next,
    })
}

/// Only the messages, as one JSON array: what is sent to a provider.
pub(crate) fn message_array(messages: &[Message]) -> Packed<RawJson> {
    let mut contents = Contents::new();
    for message in messages {
        contents.add(message.json.as_bytes());
    }
    Packed::new(contents.into_array())
}

async fn page_of_events(
    store: Store,
    instance: InstanceId,
    from: u64,
) -> Result<Packed<EventHeads>> {
    let mut pages = store.contexts().events(instance, from).await?;
    let page = pages.next_page().await?.unwrap_or_default();
    let next = page.last().map(|event| event.sequence_number + 1);
    pack_events(instance, page, next)
}

pub(crate) async fn replay(store: Store, instance: InstanceId, from: u64) -> Result<Vec<Message>> {
    let context = store.context(instance).await?;
    Ok(context.replay_from_sequence(from).await?)
}

async fn instance_there(store: Store, instance: InstanceId) -> Result<AgentInstance> {
    store.get_instance(instance).await?.ok_or_else(|| {
        Failure::new(
            ErrorKind::NotFound,
            format!("no agent instance {instance}; make it with createInstance"),
        )
    })
}

calls! {
    (of: &Rc<StoreObject>, _scope, input) { let store = of.store()?; }

    appendMessage { instance_id: InstanceId, #[serde(default)] options: AppendOptions }
        -> AppendResult => {
        let json = input.json()?;
        write_to(Key::of(instance_id), async move {
            let context = store.context(instance_id).await?;
            context.append_raw_message_with(json, &options).await
        })
    };
    appendMessages {
        instance_id: InstanceId,
        #[serde(default)]
        options: AppendOptions,
        /// What each message says beside its content.
        events: Vec<EventOptions>,
        lengths: Vec<usize>,
    } -> AppendResult => {
        let messages = input.json_list(&lengths)?.into_iter().zip(events);
        let messages: Vec<_> = messages.map(|(json, event)| RawMessage { json, event }).collect();
        write_to(Key::of(instance_id), async move {
            let context = store.context(instance_id).await?;
            context.append_raw_messages(messages, &options).await
        })
    };
    appendEvent {
        instance_id: InstanceId,
        event_type: ContextEventKind,
        tool_call_id: Option<String>,
        #[serde(default)]
        options: AppendOptions,
    } -> Packed<EventHeads> => {
        let json = input.json()?;
        write_to(Key::of(instance_id), async move {
            let (contexts, id) = (store.contexts(), tool_call_id.as_deref());
            let event = contexts.append_event_with(instance_id, event_type, json, id, &options).await?;
            pack_events(instance_id, vec![event], None)
        })
    };
    events { instance_id: InstanceId, #[serde(default)] from: u64 } -> Packed<EventHeads> =>
        of.read(page_of_events(store, instance_id, from));
    followed { instance_id: InstanceId, sequence: u64, position: u64 } -> StillThere =>
        of.read(async move {
            let followed = store.contexts().followed(instance_id, sequence, position).await?;
            let Followed { kept, position, is_deleted, .. } = followed;
            Ok::<_, Failure>(StillThere(kept, position, is_deleted))
        });
    event { instance_id: InstanceId, sequence: u64 } -> Packed<EventHeads> =>
        of.read(async move {
            let event = store.contexts().event(instance_id, sequence).await?;
            pack_events(instance_id, event.into_iter().collect(), None)
        });
    getMessages { instance_id: InstanceId, #[serde(default)] from: u64 } -> Packed<RawJson> =>
        of.read(async move {
            Ok::<_, Failure>(message_array(&replay(store, instance_id, from).await?))
        });
    getRawMessages { instance_id: InstanceId, #[serde(default)] from: u64 }
        -> Packed<Vec<MessageHead>> =>
        of.read(async move { pack_messages(&replay(store, instance_id, from).await?) });
    getLastSequence { instance_id: InstanceId } -> u64 =>
        of.read(async move { store.contexts().last_sequence(instance_id).await });
    deleteEventsAfter { instance_id: InstanceId, sequence: u64 } -> u64 =>
        change(Key::of(instance_id), async move { store.contexts().delete_events_after(instance_id, sequence).await });
    copyEvents { source: InstanceId, target: InstanceId, up_to_sequence: Option<u64> } -> u64 =>
        change(Key::All, async move { store.contexts().copy_events(source, target, up_to_sequence).await });
    danglingToolCalls { instance_id: InstanceId } -> Vec<DanglingToolCall> =>
        of.read(async move { store.context(instance_id).await?.dangling_tool_calls().await });
    closeDanglingToolCalls { instance_id: InstanceId, reason: String } -> Vec<DanglingToolCall> =>
        of.change(Key::of(instance_id), async move {
            store.context(instance_id).await?.close_dangling_tool_calls(&reason).await
        });
    context { instance_id: InstanceId } -> AgentInstance => of.read(instance_there(store, instance_id));
}
