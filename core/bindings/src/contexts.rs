//! The contexts of agent instances: events, and the messages that their models see.

use std::rc::Rc;

use runlog::{
    InstanceId, Message, Role, RunId, Store,
    contexts::{
        AppendOptions, Context, ContextEvent, ContextEventKind, EventOptions, RawMessage, ToolMark,
    },
};
use serde::{Deserialize, Serialize};

use crate::{
    Failure, Reply, Result,
    arguments::{DurabilityArgument, Input},
    object::Scope,
    packed::Contents,
    store::StoreObject,
    tasks::Answer,
};

/// What an append asks for beside its contents.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct AppendArgument {
    expected_last_sequence: Option<u64>,
    idempotency_key: Option<String>,
    durability: Option<DurabilityArgument>,
    event: EventArgument,
}

/// What an event says beside its content.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct EventArgument {
    run_id: Option<RunId>,
    step_number: Option<u32>,
    created_at_ms: Option<u64>,
    tool_is_error: Option<bool>,
    tool_duration_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppendMessage {
    instance: InstanceId,
    #[serde(default)]
    options: AppendArgument,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AppendMessages {
    instance: InstanceId,
    #[serde(default)]
    options: AppendArgument,
    messages: Vec<MessageArgument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageArgument {
    length: usize,
    #[serde(default)]
    event: EventArgument,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AppendEvent {
    instance: InstanceId,
    event_type: ContextEventKind,
    tool_call_id: Option<String>,
    #[serde(default)]
    options: AppendArgument,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    instance: InstanceId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FromArgs {
    instance: InstanceId,
    #[serde(default)]
    from: u64,
}

/// What a follower was given last.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Follow {
    instance: InstanceId,
    sequence: u64,
    position: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct At {
    instance: InstanceId,
    sequence: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct CopyArgs {
    source: InstanceId,
    target: InstanceId,
    up_to_sequence: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CloseCalls {
    instance: InstanceId,
    reason: String,
}

/// An event without its content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventHead<'a> {
    position: u64,
    sequence_number: u64,
    event_type: ContextEventKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tool_results: &'a [ToolMark],
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<RunId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step_number: Option<u32>,
    created_at_ms: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    role_implied: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_continuation: bool,
    length: usize,
}

/// A page of events.
#[derive(Serialize)]
struct EventPage<'a> {
    instance: InstanceId,
    events: Vec<EventHead<'a>>,
    /// Where the next page begins.
    next: Option<u64>,
}

/// A message without its content: its sequence, its role and its length.
#[derive(Serialize)]
pub(crate) struct MessageHead(u64, Role, usize);

impl AppendArgument {
    pub(crate) fn options(self) -> AppendOptions {
        AppendOptions {
            expected_last_sequence: self.expected_last_sequence,
            idempotency_key: self.idempotency_key,
            durability: self.durability.map(Into::into),
            event: self.event.options(),
        }
    }
}

impl EventArgument {
    fn options(self) -> EventOptions {
        let Self {
            run_id,
            step_number,
            created_at_ms,
            tool_is_error,
            tool_duration_ms,
        } = self;
        EventOptions {
            run_id,
            step_number,
            created_at_ms,
            tool_is_error,
            tool_duration_ms,
        }
    }
}

/// Messages, each with its content beside it.
pub(crate) fn pack_messages(messages: &[Message]) -> Result<Vec<u8>> {
    let mut contents = Contents::new();
    let heads: Vec<MessageHead> = messages
        .iter()
        .map(|message| {
            MessageHead(
                message.sequence_number,
                message.role,
                contents.add(message.json.as_bytes()),
            )
        })
        .collect();
    contents.pack(&heads)
}

fn pack_events(
    instance: InstanceId,
    events: &[ContextEvent],
    next: Option<u64>,
) -> Result<Vec<u8>> {
    let mut contents = Contents::new();
    let heads = events.iter().map(|event| EventHead {
        position: event.position,
        sequence_number: event.sequence_number,
        event_type: event.event_type,
        tool_call_id: event.tool_call_id.as_deref(),
        tool_results: &event.tool_results,
        run_id: event.run_id,
        step_number: event.step_number,
        created_at_ms: event.created_at_ms,
        redacted: event.redacted,
        role_implied: event.role_implied,
        is_continuation: event.is_continuation,
        length: contents.add(event.content.as_bytes()),
    });
    let events = heads.collect();
    contents.pack(&EventPage {
        instance,
        events,
        next,
    })
}

async fn page_of_events(store: Store, instance: InstanceId, from: u64) -> Result<Reply> {
    let page = store
        .contexts()
        .events(instance, from)
        .await?
        .next_page()
        .await?
        .unwrap_or_default();
    let next = page.last().map(|event| event.sequence_number + 1);
    Ok(Reply::bytes(pack_events(instance, &page, next)?))
}

/// The service of a context, without asking whether the instance is there: every call of it does.
async fn service(store: &Store, instance: InstanceId) -> Result<Context> {
    Ok(store.context(instance).await?)
}

/// Answers a call about contexts.
pub(crate) fn call(of: &Rc<StoreObject>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
    let store = of.store()?;
    Ok(Some(match input.method {
        "appendMessage" => {
            let AppendMessage { instance, options } = input.read()?;
            let (json, options) = (input.json()?, options.options());
            Answer::write(async move {
                let context = service(&store, instance).await?;
                Reply::json(&context.append_raw_message_with(json, &options).await?)
            })
        }
        "appendMessages" => {
            let AppendMessages {
                instance,
                options,
                messages,
            } = input.read()?;
            let lengths: Vec<usize> = messages.iter().map(|message| message.length).collect();
            let contents = input.json_list(&lengths)?.into_iter().zip(messages);
            let messages: Vec<RawMessage> = contents
                .map(|(json, message)| RawMessage {
                    json,
                    event: message.event.options(),
                })
                .collect();
            let options = options.options();
            Answer::write(async move {
                let context = service(&store, instance).await?;
                Reply::json(&context.append_raw_messages(messages, &options).await?)
            })
        }
        "appendEvent" => {
            let AppendEvent {
                instance,
                event_type,
                tool_call_id,
                options,
            } = input.read()?;
            let (json, options) = (input.json()?, options.options());
            Answer::write(async move {
                let contexts = store.contexts();
                let id = tool_call_id.as_deref();
                let event = contexts
                    .append_event_with(instance, event_type, json, id, &options)
                    .await?;
                Ok(Reply::bytes(pack_events(instance, &[event], None)?))
            })
        }
        "events" => {
            let FromArgs { instance, from } = input.read()?;
            of.offload(page_of_events(store, instance, from))
        }
        "followed" => {
            let Follow {
                instance,
                sequence,
                position,
            } = input.read()?;
            of.offload(async move {
                let followed = store
                    .contexts()
                    .followed(instance, sequence, position)
                    .await?;
                Reply::json(&(followed.kept, followed.position, followed.is_deleted))
            })
        }
        "event" => {
            let At { instance, sequence } = input.read()?;
            of.offload(async move {
                let event = store.contexts().event(instance, sequence).await?;
                Ok(Reply::bytes(pack_events(instance, event.as_slice(), None)?))
            })
        }
        // The messages alone, as one JSON array: what a provider is sent.
        "getMessages" => {
            let FromArgs { instance, from } = input.read()?;
            of.offload(async move {
                let mut contents = Contents::new();
                for message in service(&store, instance)
                    .await?
                    .replay_from_sequence(from)
                    .await?
                {
                    contents.add(message.json.as_bytes());
                }
                Ok(Reply::bytes(contents.into_array()))
            })
        }
        "getRawMessages" => {
            let FromArgs { instance, from } = input.read()?;
            of.offload(async move {
                let messages = service(&store, instance)
                    .await?
                    .replay_from_sequence(from)
                    .await?;
                Ok(Reply::bytes(pack_messages(&messages)?))
            })
        }
        "getLastSequence" => {
            let Of { instance } = input.read()?;
            of.offload(async move { Reply::json(&store.contexts().last_sequence(instance).await?) })
        }
        "deleteEventsAfter" => {
            let At { instance, sequence } = input.read()?;
            Answer::write(async move {
                Reply::json(
                    &store
                        .contexts()
                        .delete_events_after(instance, sequence)
                        .await?,
                )
            })
        }
        "copyEvents" => {
            let CopyArgs {
                source,
                target,
                up_to_sequence,
            } = input.read()?;
            Answer::write(async move {
                Reply::json(
                    &store
                        .contexts()
                        .copy_events(source, target, up_to_sequence)
                        .await?,
                )
            })
        }
        "danglingToolCalls" => {
            let Of { instance } = input.read()?;
            of.offload(async move {
                Reply::json(
                    &service(&store, instance)
                        .await?
                        .dangling_tool_calls()
                        .await?,
                )
            })
        }
        "closeDanglingToolCalls" => {
            let CloseCalls { instance, reason } = input.read()?;
            of.offload(async move {
                Reply::json(
                    &service(&store, instance)
                        .await?
                        .close_dangling_tool_calls(&reason)
                        .await?,
                )
            })
        }
        "context" => {
            let Of { instance } = input.read()?;
            of.offload(async move {
                let found = store.get_instance(instance).await?;
                let missing = || {
                    Failure::new(
                        runlog::ErrorKind::NotFound,
                        format!("no agent instance {instance}; make it with createInstance"),
                    )
                };
                Reply::json(&found.ok_or_else(missing)?)
            })
        }
        _ => return Ok(None),
    }))
}
