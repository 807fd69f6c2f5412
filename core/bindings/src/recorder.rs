//! [`RecorderObject`]: writes one run while it happens.

use std::rc::Rc;

use runlog::{
    RawJson, Run, RunRecorder,
    contexts::AppendOptions,
    runs::{Recorded, RunDetails, Stop, StopKind, ToolOutcome},
};

use crate::{
    Result,
    answers::{known, wait, write},
    arguments::Input,
    calls::calls,
    object::{Object, Scope},
    store::StoreObject,
    tasks::Answer,
};

/// Writes one run while it happens.
pub(crate) struct RecorderObject {
    of: Rc<StoreObject>,
    recorder: RunRecorder,
}

impl RecorderObject {
    pub(crate) fn new(of: Rc<StoreObject>, recorder: RunRecorder) -> Self {
        Self { of, recorder }
    }
}

/// The first content is a message; the others are the outputs of its tool calls' outcomes.
pub(crate) fn with_outputs(
    input: Input<'_>,
    lengths: &[usize],
    outcomes: Vec<ToolOutcome>,
) -> Result<(RawJson, Vec<ToolOutcome>)> {
    let mut contents = input.json_list(lengths)?.into_iter();
    let message = contents.next().unwrap_or(RawJson::null());
    Ok((message, with_output(outcomes, contents)))
}

/// The outcomes, each with its output.
pub(crate) fn with_output(
    outcomes: Vec<ToolOutcome>,
    outputs: impl IntoIterator<Item = RawJson>,
) -> Vec<ToolOutcome> {
    let outcomes = outcomes.into_iter().zip(outputs);
    let outcomes = outcomes.map(|(outcome, output)| ToolOutcome { output, ..outcome });
    outcomes.collect()
}

impl Object for RecorderObject {
    fn name(&self) -> &'static str {
        "a run's recorder"
    }

    fn call(self: Rc<Self>, scope: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        // Calls are refused once the store is closed.
        self.of.store()?;
        call(&self.recorder, scope, input)
    }
}

/// The reason of a pause, as given by JavaScript.
pub(crate) fn stop_of(kind: Option<StopKind>, reason: Option<String>) -> Stop {
    let kind = kind.unwrap_or(StopKind::Requested);
    match reason {
        Some(reason) => Stop::new(kind, reason),
        None => kind.into(),
    }
}

calls! {
    (of: &RunRecorder, _scope, input) { let recorder = of.clone(); }

    run {} -> Run => known(Ok::<_, crate::Failure>(recorder.run()));
    nextStep {} -> u32 => write(async move { recorder.next_step().await });
    recordMessage(options: AppendOptions) -> Recorded => {
        let message = input.json()?;
        write(async move { recorder.record_raw_message_with(message, &options).await })
    };
    recordMessages { lengths: Vec<usize>, #[serde(default)] options: AppendOptions } -> Recorded => {
        let messages = input.json_list(&lengths)?;
        write(async move { recorder.record_raw_messages(messages, &options).await })
    };
    checkToolCall { tool_call_id: String } -> usize =>
        wait(async move { recorder.check_tool_call(&tool_call_id).await });
    recordToolResult(outcome: ToolOutcome) -> Recorded => {
        let outcome = ToolOutcome { output: input.json()?, ..outcome };
        write(async move { recorder.record_tool_result(&outcome).await })
    };
    recordToolResults { outcomes: Vec<ToolOutcome>, lengths: Vec<usize> } -> Recorded => {
        let outcomes = with_output(outcomes, input.json_list(&lengths)?);
        write(async move { recorder.record_tool_results(&outcomes).await })
    };
    recordToolCall { outcomes: Vec<ToolOutcome>, lengths: Vec<usize> } -> Recorded => {
        let (message, outcomes) = with_outputs(input, &lengths, outcomes)?;
        write(async move { recorder.record_tool_call(message, &outcomes).await })
    };
    describe(details: RunDetails) -> Run => write(async move { recorder.describe(details).await });
    pause { reason: Option<String>, kind: Option<StopKind> } -> Run => {
        let stop = stop_of(kind, reason);
        write(async move { recorder.pause(stop).await })
    };
    complete { summary: Option<String> } -> Run =>
        write(async move { recorder.complete(summary.as_deref()).await });
    fail { error: String } -> Run =>
        write(async move { recorder.fail(&error).await });
    cancel { summary: Option<String> } -> Run =>
        write(async move { recorder.cancel(summary.as_deref()).await });
}
