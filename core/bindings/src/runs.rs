//! Runs: starting and resuming them, and their history.

use std::rc::Rc;

use runlog::{
    NewRun, Role, Run, RunId, RunRecorder,
    contexts::DanglingToolCall,
    pages::Page,
    runs::{
        ListRunMessages, ListRuns, ListToolCalls, ResumeOptions, RunDetails, RunMessage,
        RunSummary, ToolCall, ToolCallStatus,
    },
};
use serde::Serialize;

use crate::{
    Result,
    answers::{Made, Packed, wait, write},
    calls::calls,
    contexts::pack_messages,
    object::Scope,
    packed::Contents,
    recorder::RecorderObject,
    store::StoreObject,
};

/// One message of a run, without its content.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct RunMessageHead {
    id: u64,
    run_id: RunId,
    role: Role,
    step_number: u32,
    created_at_ms: u64,
    sequence_number: u64,
    length: usize,
}

/// One invocation of a tool, without its input and output.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct ToolCallHead {
    id: u64,
    run_id: RunId,
    message_id: Option<u64>,
    tool_call_id: Option<String>,
    tool_name: String,
    status: ToolCallStatus,
    duration_ms: Option<u64>,
    step_number: u32,
    created_at_ms: u64,
    sequence_number: u64,
    input_length: usize,
    output_length: Option<usize>,
}

/// A run that goes on; its messages stand beside it.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ResumedRunHead"))]
struct Resumed {
    run: Run,
    dangling: Vec<DanglingToolCall>,
    /// How many of the last states of its flow couldn't be read, so that it goes on from an older one.
    unreadable_states: u32,
}

fn pack_run_messages(page: Page<RunMessage>) -> Result<Packed<Page<RunMessageHead>>> {
    let mut contents = Contents::new();
    let heads = page.map(|message| RunMessageHead {
        id: message.id,
        run_id: message.run_id,
        role: message.role,
        step_number: message.step_number,
        created_at_ms: message.created_at_ms,
        sequence_number: message.sequence_number,
        length: contents.add(message.content.as_bytes()),
    });
    contents.packed(&heads)
}

fn pack_tool_calls(page: Page<ToolCall>) -> Result<Packed<Page<ToolCallHead>>> {
    let mut contents = Contents::new();
    let heads = page.map(|call| ToolCallHead {
        id: call.id,
        run_id: call.run_id,
        message_id: call.message_id,
        tool_call_id: call.tool_call_id,
        tool_name: call.tool_name,
        status: call.status,
        duration_ms: call.duration_ms,
        step_number: call.step_number,
        created_at_ms: call.created_at_ms,
        sequence_number: call.sequence_number,
        input_length: contents.add(call.input.as_bytes()),
        output_length: call.output.map(|output| contents.add(output.as_bytes())),
    });
    contents.packed(&heads)
}

/// A page with the item, or an empty one.
fn one<T>(found: Option<T>) -> Page<T> {
    Page::only(found.into_iter().collect())
}

/// A recorder, and its run.
fn made(of: Rc<StoreObject>, scope: &Scope, recorder: RunRecorder) -> Result<Made<Run>> {
    let run = recorder.run();
    Made::new(scope, Rc::new(RecorderObject::new(of, recorder)), &run)
}

calls! {
    (of: &Rc<StoreObject>, scope, input) {
        let store = of.store()?;
        let (maker, scope) = (Rc::clone(of), scope.clone());
    }

    startRun {
        new: NewRun,
        /// How long each of the messages is, which stand beside it one after the other.
        lengths: Vec<usize>,
    } -> Made<Run> => {
        let new = NewRun { messages: input.json_list(&lengths)?, ..new };
        write(async move { made(maker, &scope, store.runs().start(new).await?) })
    };
    resumeRun { run_id: RunId, #[serde(default)] options: ResumeOptions } -> Made<Resumed> => {
        // A context of 50 MB is packed, and let go of, off the JavaScript thread too.
        let resuming = of.run_blocking(async move {
            let resumed = store.runs().resume(run_id, &options).await?;
            let messages = pack_messages(&resumed.messages)?;
            let resumed_as = Resumed {
                run: resumed.run,
                dangling: resumed.dangling,
                unreadable_states: resumed.unreadable_states,
            };
            Ok::<_, crate::Failure>((resumed.recorder, resumed_as, messages))
        });
        wait(async move {
            let (recorder, resumed_as, messages) = resuming.await?;
            let object = Rc::new(RecorderObject::new(maker, recorder));
            let made = Made::new(&scope, object, &resumed_as)?;
            Ok::<_, crate::Failure>(made.with_packed(messages))
        })
    };
    recorder { run_id: RunId } -> Made<Run> => {
        let loading = of.run_blocking(async move { store.runs().recorder(run_id).await });
        wait(async move { made(maker, &scope, loading.await?) })
    };
    describeRun { run_id: RunId, details: RunDetails } -> Run =>
        write(async move { store.runs().describe(run_id, details).await });
    recoverRuns {} -> Vec<RunId> => of.read(async move { store.runs().recover().await });
    listRuns(options: ListRuns) -> Page<RunSummary> =>
        of.read(async move { store.runs().list(&options).await });
    childRuns { run_id: RunId, limit: Option<usize>, cursor: Option<String> } -> Page<RunSummary> => {
        let limit = limit.unwrap_or(ListRuns::default().limit);
        of.read(async move { store.runs().children(run_id, limit, cursor).await })
    };
    getRun { run_id: RunId } -> Option<Run> => of.read(async move { store.runs().get(run_id).await });
    runMessages { run_id: RunId, #[serde(default)] options: ListRunMessages }
        -> Packed<Page<RunMessageHead>> =>
        of.read(async move { pack_run_messages(store.runs().messages(run_id, &options).await?) });
    runMessage { run_id: RunId, message_id: u64 } -> Packed<Page<RunMessageHead>> =>
        of.read(async move { pack_run_messages(one(store.runs().message(run_id, message_id).await?)) });
    toolCalls { run_id: RunId, #[serde(default)] options: ListToolCalls }
        -> Packed<Page<ToolCallHead>> =>
        of.read(async move { pack_tool_calls(store.runs().tool_calls(run_id, &options).await?) });
    toolCall { run_id: RunId, call_id: u64 } -> Packed<Page<ToolCallHead>> =>
        of.read(async move { pack_tool_calls(one(store.runs().tool_call(run_id, call_id).await?)) });
}
