//! Runs: starting, resuming and looking back on them.

use std::rc::Rc;

use runlog::{
    InstanceId, NewMessage, NewRun, RawJson, Role, Run, RunId, RunRecorder, RunStatus, SessionId,
    runs::{
        Continuation, Dangling, ListRunMessages, ListRuns, ListToolCalls, Paged, ResumeOptions,
        RunMessage, RunPlace, ToolCall, ToolCallStatus, ToolOutcome,
    },
};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    Failure, Reply, Result,
    arguments::Input,
    contexts::pack_messages,
    object::Scope,
    packed::Contents,
    recorder::RecorderObject,
    sessions::{NewInstanceArgument, NewSessionArgument},
    store::StoreObject,
    tasks::Answer,
};

/// A run to start; the lengths of its first messages, whose contents are beside it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Start {
    instance: Option<InstanceId>,
    new_instance: Option<NewInstanceArgument>,
    session: Option<NewSessionArgument>,
    agent_name: Option<String>,
    id: Option<RunId>,
    agent_id: Option<String>,
    project: Option<String>,
    parent_run_id: Option<RunId>,
    #[serde(default, deserialize_with = "runlog::agents::max_steps::deserialize")]
    max_steps: Option<u32>,
    node_id: Option<String>,
    #[serde(default)]
    concurrent: bool,
    dangling: Option<DanglingArgument>,
    #[serde(default)]
    lengths: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    run: RunId,
    #[serde(default)]
    options: ResumeArgument,
}

/// `"close"`, `"report"`, `{"closeWith": "why"}`, or `{"answer": […]}`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum DanglingArgument {
    Close,
    Report,
    CloseWith(String),
    Answer(Vec<AnswerArgument>),
}

/// What a tool gave for a call that had no result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AnswerArgument {
    tool_call_id: String,
    output: RawJson,
    status: ToolCallStatus,
    duration_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunArgs {
    run: RunId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RunItemArgs {
    run: RunId,
    id: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct List {
    status: Option<RunStatus>,
    agent_id: Option<String>,
    parent_run_id: Option<RunId>,
    session_id: Option<SessionId>,
    project: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Children {
    run: RunId,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Messages {
    run: RunId,
    step_number: Option<u32>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolCalls {
    run: RunId,
    tool_name: Option<String>,
    status: Option<ToolCallStatus>,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// A message without its content.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageHead {
    id: u64,
    run_id: RunId,
    role: Role,
    step_number: u32,
    created_at_ms: u64,
    sequence_number: u64,
    length: usize,
}

/// A tool call without its input and output.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallHead<'a> {
    id: u64,
    run_id: RunId,
    message_id: Option<u64>,
    tool_call_id: Option<&'a str>,
    tool_name: &'a str,
    status: ToolCallStatus,
    duration_ms: Option<u64>,
    step_number: u32,
    created_at_ms: u64,
    sequence_number: u64,
    input_length: usize,
    output_length: Option<usize>,
}

#[derive(Serialize)]
struct Heads<T> {
    items: Vec<T>,
    next: Option<String>,
}

#[derive(Serialize)]
struct Resumed<'a> {
    run: &'a Run,
    dangling: &'a [runlog::contexts::DanglingToolCall],
}

impl Start {
    fn new_run(self, messages: Vec<RawJson>) -> Result<NewRun> {
        let place = match (
            self.instance,
            self.new_instance,
            self.session,
            self.agent_name,
        ) {
            (Some(instance), None, None, None) => RunPlace::Instance(instance),
            (None, Some(new), None, None) => RunPlace::NewInstance(new.into()),
            (None, None, Some(session), Some(agent)) => RunPlace::NewSession(session.into(), agent),
            _ => {
                return Err(Failure::invalid(
                    "a run is started in an instance, in a newInstance, or in a session with an agentName; give one of them",
                ));
            }
        };
        Ok(NewRun {
            place,
            id: self.id,
            agent_id: self.agent_id,
            project: self.project,
            parent_run_id: self.parent_run_id,
            max_steps: self.max_steps,
            node_id: self.node_id,
            concurrent: self.concurrent,
            dangling: self.dangling.map(Into::into).unwrap_or_default(),
            messages,
        })
    }
}

/// How to resume a run, beside which.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ResumeArgument {
    /// What the user says: text, or content parts; `null` for nothing.
    #[serde(deserialize_with = "given")]
    message: Option<RawJson>,
    #[serde(default, deserialize_with = "runlog::agents::max_steps::deserialize")]
    max_steps: Option<u32>,
    max_total_steps: Option<u32>,
    dangling: Option<DanglingArgument>,
    id: Option<RunId>,
    parent_run_id: Option<RunId>,
}

/// A field that may be `null`, which isn't the same as left out.
fn given<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

impl From<AnswerArgument> for ToolOutcome {
    fn from(argument: AnswerArgument) -> Self {
        let AnswerArgument {
            tool_call_id,
            output,
            status,
            duration_ms,
        } = argument;
        Self {
            tool_call_id,
            output,
            status,
            duration_ms,
        }
    }
}

impl From<DanglingArgument> for Dangling {
    fn from(argument: DanglingArgument) -> Self {
        match argument {
            DanglingArgument::Close => Self::Close,
            DanglingArgument::Report => Self::Report,
            DanglingArgument::CloseWith(reason) => Self::CloseWith(reason),
            DanglingArgument::Answer(outcomes) => {
                Self::Answer(outcomes.into_iter().map(Into::into).collect())
            }
        }
    }
}

impl From<ResumeArgument> for ResumeOptions {
    fn from(argument: ResumeArgument) -> Self {
        Self {
            message: match argument.message {
                None => Continuation::Default,
                Some(content) if content == RawJson::null() => Continuation::Nothing,
                Some(content) => Continuation::Message(NewMessage::new(Role::User, content)),
            },
            max_steps: argument.max_steps,
            max_total_steps: argument
                .max_total_steps
                .unwrap_or(Self::default().max_total_steps),
            dangling: argument.dangling.map(Into::into).unwrap_or_default(),
            id: argument.id,
            parent_run_id: argument.parent_run_id,
        }
    }
}

fn pack_run_messages(page: &Paged<RunMessage>) -> Result<Vec<u8>> {
    let mut contents = Contents::new();
    let items = page.items.iter().map(|message| MessageHead {
        id: message.id,
        run_id: message.run_id,
        role: message.role,
        step_number: message.step_number,
        created_at_ms: message.created_at_ms,
        sequence_number: message.sequence_number,
        length: contents.add(message.content.as_bytes()),
    });
    let items = items.collect();
    contents.pack(&Heads {
        items,
        next: page.next.clone(),
    })
}

fn pack_tool_calls(page: &Paged<ToolCall>) -> Result<Vec<u8>> {
    let mut contents = Contents::new();
    let items = page.items.iter().map(|call| CallHead {
        id: call.id,
        run_id: call.run_id,
        message_id: call.message_id,
        tool_call_id: call.tool_call_id.as_deref(),
        tool_name: &call.tool_name,
        status: call.status,
        duration_ms: call.duration_ms,
        step_number: call.step_number,
        created_at_ms: call.created_at_ms,
        sequence_number: call.sequence_number,
        input_length: contents.add(call.input.as_bytes()),
        output_length: call
            .output
            .as_ref()
            .map(|output| contents.add(output.as_bytes())),
    });
    let items = items.collect();
    contents.pack(&Heads {
        items,
        next: page.next.clone(),
    })
}

/// A page of what may be one thing.
fn one<T>(found: Option<T>) -> Paged<T> {
    Paged {
        items: found.into_iter().collect(),
        next: None,
    }
}

/// A handle of a recorder, and its run.
pub(crate) fn recorder_reply(
    of: &Rc<StoreObject>,
    scope: &Scope,
    recorder: RunRecorder,
) -> Result<Reply> {
    let reply = Reply::json(&recorder.run())?;
    let handle = scope
        .objects
        .add(Rc::new(RecorderObject::new(Rc::clone(of), recorder)))?;
    Ok(reply.with_handle(handle))
}

fn resume(of: &Rc<StoreObject>, scope: &Scope, input: Input<'_>) -> Result<Answer> {
    let Resume { run, options } = input.read()?;
    let options: ResumeOptions = options.into();
    let store = of.store()?;
    let (of, scope) = (Rc::clone(of), scope.clone());
    let resuming = of.run_blocking(async move { Ok(store.runs().resume(run, &options).await?) });
    Ok(Answer::wait(async move {
        let resumed = resuming.await?;
        let reply = Reply::json(&Resumed {
            run: &resumed.run,
            dangling: &resumed.dangling,
        })?;
        let reply = reply.with_bytes(pack_messages(&resumed.messages)?);
        let handle = scope
            .objects
            .add(Rc::new(RecorderObject::new(of, resumed.recorder)))?;
        Ok(reply.with_handle(handle))
    }))
}

/// Answers a call about runs.
pub(crate) fn call(
    of: &Rc<StoreObject>,
    scope: &Scope,
    input: Input<'_>,
) -> Result<Option<Answer>> {
    let store = of.store()?;
    Ok(Some(match input.method {
        "startRun" => {
            let arguments: Start = input.read()?;
            let messages = input.json_list(&arguments.lengths)?;
            let new = arguments.new_run(messages)?;
            let (of, scope) = (Rc::clone(of), scope.clone());
            Answer::write(
                async move { recorder_reply(&of, &scope, store.runs().start(new).await?) },
            )
        }
        "resumeRun" => resume(of, scope, input)?,
        "recorder" => {
            let RunArgs { run } = input.read()?;
            let (of, scope) = (Rc::clone(of), scope.clone());
            let loading = of.run_blocking(async move { Ok(store.runs().recorder(run).await?) });
            Answer::wait(async move { recorder_reply(&of, &scope, loading.await?) })
        }
        "recoverRuns" => of.offload(async move { Reply::json(&store.runs().recover().await?) }),
        "listRuns" => {
            let List {
                status,
                agent_id,
                parent_run_id,
                session_id,
                project,
                limit,
                cursor,
            } = input.read()?;
            let limit = limit.unwrap_or(ListRuns::default().limit);
            let options = ListRuns {
                status,
                agent_id,
                parent_run_id,
                session_id,
                project,
                limit,
                cursor,
            };
            of.offload(async move { Reply::json(&store.runs().list(&options).await?) })
        }
        "childRuns" => {
            let Children { run, limit, cursor } = input.read()?;
            let limit = limit.unwrap_or(ListRuns::default().limit);
            of.offload(
                async move { Reply::json(&store.runs().children(run, limit, cursor).await?) },
            )
        }
        "getRun" => {
            let RunArgs { run } = input.read()?;
            of.offload(async move { Reply::json(&store.runs().get(run).await?) })
        }
        "runMessages" => {
            let Messages {
                run,
                step_number,
                limit,
                cursor,
            } = input.read()?;
            let limit = limit.unwrap_or(ListRunMessages::default().limit);
            let options = ListRunMessages {
                step_number,
                limit,
                cursor,
            };
            of.offload(async move {
                Ok(Reply::bytes(pack_run_messages(
                    &store.runs().messages(run, &options).await?,
                )?))
            })
        }
        "runMessage" => {
            let RunItemArgs { run, id } = input.read()?;
            of.offload(async move {
                Ok(Reply::bytes(pack_run_messages(&one(store
                    .runs()
                    .message(run, id)
                    .await?))?))
            })
        }
        "toolCalls" => {
            let ToolCalls {
                run,
                tool_name,
                status,
                limit,
                cursor,
            } = input.read()?;
            let limit = limit.unwrap_or(ListToolCalls::default().limit);
            let options = ListToolCalls {
                tool_name,
                status,
                limit,
                cursor,
            };
            of.offload(async move {
                Ok(Reply::bytes(pack_tool_calls(
                    &store.runs().tool_calls(run, &options).await?,
                )?))
            })
        }
        "toolCall" => {
            let RunItemArgs { run, id } = input.read()?;
            of.offload(async move {
                Ok(Reply::bytes(pack_tool_calls(&one(store
                    .runs()
                    .tool_call(run, id)
                    .await?))?))
            })
        }
        _ => return Ok(None),
    }))
}
