//! Writes: sessions, instances, events of contexts, chats and their messages, definitions of agents, and commands for flows.

use axum::http::StatusCode;
use runlog::{
    AgentDefinition, AgentInstance, InstanceId, NewInstance, NewSession, RawJson, Run, RunId,
    Session, Store,
    chats::{Chat, ChatMessage},
    contexts::{AppendOptions, AppendResult, ContextEvent, ContextEventKind, RawMessage},
    flows::RuntimeCommand,
    runs::RunDetails,
    sessions::{CopiedSession, CopySession},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::{
    chats::OfChat,
    flows::OfFlow,
    runs::OfRun,
    sessions::{OfInstance, OfSession},
};
use crate::serve::{
    endpoint::{Endpoint, NoPath, post},
    names::{Given, New},
    problem::{Answer, Problem},
};

pub(super) fn endpoints() -> Vec<Endpoint> {
    vec![
        post(
            "/v1/sessions",
            "Makes a session. Durable when it is answered, as all that is written.",
            StatusCode::CREATED,
            create_session,
        )
        .example_body(json!({"title": "Fix the parser", "metadata": {"from": "a form"}})),
        post(
            "/v1/sessions/{session_id}/instances",
            "Makes an agent instance in a session, with an empty context.",
            StatusCode::CREATED,
            create_instance,
        )
        .example_body(json!({"agent_name": "coder"})),
        post(
            "/v1/sessions/{session_id}/copies",
            "Copies a session, with its agents' contexts and its chat: whole, up to a sequence of its first agent's context, or up \
             to a message of its chat. No content is written twice.",
            StatusCode::CREATED,
            copy_session,
        )
        .example_body(json!({"title": "Another try"})),
        post(
            "/v1/sessions/{session_id}/truncations",
            "Deletes what the session's first agent has after a sequence, and what the agents below it wrote since. Its chat stays \
             as it is.",
            StatusCode::OK,
            truncate_session,
        )
        .example_body(json!({"after_sequence": 1})),
        post(
            "/v1/instances/{instance_id}/messages",
            "Appends messages to a context, all or none of them, in the provider's own JSON, which is kept byte for byte. \
             With the `idempotency_key` of an earlier request nothing is appended again.",
            StatusCode::CREATED,
            append_messages,
        )
        .example_body(json!({
            "messages": [{"role": "user", "content": "The parser drops the last line."}, {"role": "assistant", "content": "I'll look."}],
            "options": {"event": {"step_number": 1}}
        })),
        post(
            "/v1/instances/{instance_id}/events",
            "Appends one event to a context.",
            StatusCode::CREATED,
            append_event,
        )
        .example_body(json!({"event_type": "user_message", "content": {"content": "And the first?"}})),
        post(
            "/v1/chats",
            "Makes a chat. Without a `chat_id` it gets one.",
            StatusCode::CREATED,
            create_chat,
        )
        .example_body(json!({"assistant_id": "travel", "title": "Oslo"})),
        post(
            "/v1/chats/{chat_id}/messages",
            "Saves messages of a chat, all or none of them. A message whose `message_id` is taken is refused with 409, so that \
             a request with ids can be sent again; with `after`, so is one that doesn't answer the chat's last message.",
            StatusCode::CREATED,
            save_messages,
        )
        .example_body(json!({"messages": [{"role": "user", "type": "text", "props": {"content": "Oslo, please."}}]})),
        post(
            "/v1/chats/{chat_id}/copies",
            "Copies a chat: its session, as by the same of sessions.",
            StatusCode::CREATED,
            copy_chat,
        )
        .example_body(json!({"title": "Oslo, by ship"})),
        post(
            "/v1/agents",
            "Defines an agent, or replaces the definition that there is.",
            StatusCode::OK,
            define_agent,
        )
        .example_body(json!({"name": "coder", "description": "Writes programs.", "system_prompt": "You write programs."})),
        post(
            "/v1/runs/{run_id}/details",
            "Says of a run what it took, such as tokens and their cost, and anything else; what is left out stays as it was. \
             The run with its fields is answered.",
            StatusCode::OK,
            describe,
        )
        .example_body(json!({"usage": {"input_tokens": 812, "output_tokens": 97, "cost": 0.0041}, "metadata": {"user": "ann"}})),
        post(
            "/v1/flows/{run_id}/commands",
            "Records a command for a flow, which waits until the program that runs the flow resumes it: `resume`, or \
             `send` and `reply`, which need the `runId` of the node's run that they are for.",
            StatusCode::ACCEPTED,
            command,
        )
        .example_body(json!({"type": "resume", "message": "Go on with the tests."})),
    ]
}

/// An agent instance to make.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct InstanceToMake {
    /// The agent's name.
    agent_name: String,
    /// The instance that spawned it.
    parent_instance_id: Option<InstanceId>,
    /// Its id, where the caller has one already; else a fresh one.
    id: Option<InstanceId>,
}

/// Messages to append.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Messages {
    /// The messages, each as it was sent to the model or came from it.
    #[schemars(length(min = 1))]
    messages: Vec<RawJson>,
    /// How they are appended.
    #[serde(default, deserialize_with = "Given::options")]
    options: Given<AppendOptions>,
}

/// An event to append.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventToAppend {
    /// What it is.
    event_type: ContextEventKind,
    /// Its content: a JSON object, kept byte for byte.
    content: RawJson,
    /// The call that a tool result answers, where its content doesn't say.
    tool_call_id: Option<String>,
    /// How it is appended.
    #[serde(default, deserialize_with = "Given::options")]
    options: Given<AppendOptions>,
}

/// Where to truncate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Truncation {
    /// The last sequence of the first agent's context that stays.
    after_sequence: u64,
}

/// What was truncated.
#[derive(Serialize, JsonSchema)]
struct Truncated {
    /// How many events were deleted, those of agents below the first one included.
    deleted: u64,
}

/// Messages of a chat to save.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct MessagesToSave {
    /// The messages; what is left out of them is filled in.
    #[schemars(length(min = 1))]
    messages: Vec<New<ChatMessage>>,
    /// The id of the message that must be the chat's last one; `null`, or an empty text, where it must have none; left out, whatever
    /// there is.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Option<String>")]
    after: Option<Option<String>>,
}

/// What is given, `null` too, told apart from what is left out.
fn given<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(value).map(Some)
}

/// Messages of a chat that were saved.
#[derive(Serialize, JsonSchema)]
struct SavedMessages {
    /// The messages, whole, in the order in which they were given.
    messages: Vec<ChatMessage>,
}

/// The commands of a flow that nobody has taken yet.
#[derive(Serialize, JsonSchema)]
struct Waiting {
    /// The flow.
    run_id: RunId,
    /// The commands that wait, in the order in which they came.
    waiting: Vec<RuntimeCommand>,
}

async fn create_session(store: Store, _: NoPath, new: Given<NewSession>) -> Answer<Session> {
    Ok(store.create_session(new.0).await?)
}

async fn create_instance(
    store: Store,
    of: OfSession,
    new: InstanceToMake,
) -> Answer<AgentInstance> {
    let new = NewInstance {
        parent_instance_id: new.parent_instance_id,
        id: new.id,
        ..NewInstance::new(of.session_id, new.agent_name)
    };
    Ok(store.create_instance_with(new).await?)
}

async fn copy_session(
    store: Store,
    of: OfSession,
    options: Given<CopySession>,
) -> Answer<CopiedSession> {
    Ok(store.copy_session(of.session_id, &options.0).await?)
}

async fn copy_chat(store: Store, of: OfChat, options: Given<CopySession>) -> Answer<CopiedSession> {
    let session = store.chats().session_id(&of.chat_id).await?;
    Ok(store.copy_session(session, &options.0).await?)
}

async fn truncate_session(store: Store, of: OfSession, at: Truncation) -> Answer<Truncated> {
    let deleted = store
        .truncate_session(of.session_id, at.after_sequence)
        .await?;
    Ok(Truncated { deleted })
}

async fn create_chat(store: Store, _: NoPath, chat: New<Chat>) -> Answer<Chat> {
    Ok(store.chats().create_chat(chat.0).await?)
}

async fn save_messages(store: Store, of: OfChat, body: MessagesToSave) -> Answer<SavedMessages> {
    check_not_empty(&body.messages)?;
    let chats = store.chats();
    let messages = body.messages.into_iter().map(|message| message.0);
    let messages = messages.collect();
    let messages = match body.after {
        None => chats.save_messages(&of.chat_id, messages).await?,
        Some(last) => {
            chats
                .save_messages_after(&of.chat_id, messages, &last.unwrap_or_default())
                .await?
        }
    };
    Ok(SavedMessages { messages })
}

async fn define_agent(
    store: Store,
    _: NoPath,
    agent: Given<AgentDefinition>,
) -> Answer<AgentDefinition> {
    Ok(store.agents().put(agent.0).await?)
}

fn check_not_empty<T>(messages: &[T]) -> Answer<()> {
    if messages.is_empty() {
        return Err(Problem::invalid("`messages` is empty; give one at least"));
    }
    Ok(())
}

/// An error if an event is to be of a run that isn't one of its session.
async fn check_run(store: &Store, of: InstanceId, options: &AppendOptions) -> Answer<()> {
    let Some(id) = options.event.run_id else {
        return Ok(());
    };
    let instance = store.get_instance(of).await?;
    let run = store.runs().get(id).await?;
    let is_of_session = |session| run.as_ref().is_some_and(|run| run.session_id == session);
    if instance.is_none_or(|instance| is_of_session(instance.session_id)) {
        return Ok(());
    }
    let detail =
        format!("`options.event.run_id`: there is no run {id} in the session of instance {of}");
    Err(Problem::not_found(detail))
}

async fn append_messages(store: Store, of: OfInstance, body: Messages) -> Answer<AppendResult> {
    check_not_empty(&body.messages)?;
    let options = body.options.0;
    check_run(&store, of.instance_id, &options).await?;
    let messages = body.messages.into_iter().map(|json| RawMessage {
        json,
        event: options.event.clone(),
    });
    let context = store.context(of.instance_id).await?;
    Ok(context.append_raw_messages(messages, &options).await?)
}

async fn append_event(store: Store, of: OfInstance, body: EventToAppend) -> Answer<ContextEvent> {
    let call = body.tool_call_id.as_deref();
    let (contexts, options) = (store.contexts(), body.options.0);
    check_run(&store, of.instance_id, &options).await?;
    let appended = contexts.append_event_with(
        of.instance_id,
        body.event_type,
        body.content,
        call,
        &options,
    );
    Ok(appended.await?)
}

async fn describe(store: Store, of: OfRun, details: RunDetails) -> Answer<Run> {
    Ok(store.runs().describe(of.run_id, details).await?)
}

async fn command(store: Store, of: OfFlow, command: RawJson) -> Answer<Waiting> {
    let run_id = of.run_id;
    let waiting = store.flows().command(run_id, &command).await?;
    Ok(Waiting { run_id, waiting })
}
