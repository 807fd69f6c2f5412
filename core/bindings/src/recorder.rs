//! [`RecorderObject`]: writes one run while it happens.

use std::rc::Rc;

use runlog::{
    RawJson, RunRecorder,
    runs::{ToolCallStatus, ToolOutcome},
};
use serde::Deserialize;

use crate::{
    Reply, Result,
    arguments::Input,
    contexts::AppendArgument,
    object::{Object, Scope},
    store::StoreObject,
    tasks::Answer,
};

/// Writes one run while it happens.
pub(crate) struct RecorderObject {
    of: Rc<StoreObject>,
    recorder: RunRecorder,
}

/// What a tool gave, without its output.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OutcomeArgument {
    tool_call_id: String,
    status: ToolCallStatus,
    duration_ms: Option<u64>,
    length: usize,
}

/// A message, the first content, and what its tools gave, the others.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CallArgument {
    message_length: usize,
    outcomes: Vec<OutcomeArgument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TextArgument {
    text: Option<String>,
}

impl RecorderObject {
    pub(crate) fn new(of: Rc<StoreObject>, recorder: RunRecorder) -> Self {
        Self { of, recorder }
    }
}

impl OutcomeArgument {
    pub(crate) fn outcome(self, output: RawJson) -> ToolOutcome {
        let Self {
            tool_call_id,
            status,
            duration_ms,
            ..
        } = self;
        ToolOutcome {
            tool_call_id,
            output,
            status,
            duration_ms,
        }
    }
}

impl CallArgument {
    /// The message, and what its tools gave.
    pub(crate) fn read(input: Input<'_>) -> Result<(RawJson, Vec<ToolOutcome>)> {
        let Self {
            message_length,
            outcomes,
        } = input.read()?;
        let lengths: Vec<usize> = std::iter::once(message_length)
            .chain(outcomes.iter().map(|outcome| outcome.length))
            .collect();
        let mut contents = input.json_list(&lengths)?.into_iter();
        let message = contents.next().unwrap_or(RawJson::null());
        let outcomes = outcomes
            .into_iter()
            .zip(contents)
            .map(|(outcome, output)| outcome.outcome(output));
        Ok((message, outcomes.collect()))
    }
}

impl Object for RecorderObject {
    fn name(&self) -> &'static str {
        "a run's recorder"
    }

    fn call(self: Rc<Self>, _: &Scope, input: Input<'_>) -> Result<Option<Answer>> {
        // A recorder is of no use once its store is closed.
        self.of.store()?;
        let recorder = self.recorder.clone();
        Ok(Some(match input.method {
            "run" => Answer::known(Reply::json(&recorder.run())),
            "nextStep" => Answer::write(async move { Reply::json(&recorder.next_step().await?) }),
            "recordMessage" => {
                let (json, options) = (input.json()?, input.read::<AppendArgument>()?.options());
                Answer::write(async move {
                    Reply::json(&recorder.record_raw_message_with(json, &options).await?)
                })
            }
            "recordToolResult" => {
                let outcome = input.read::<OutcomeArgument>()?.outcome(input.json()?);
                Answer::write(
                    async move { Reply::json(&recorder.record_tool_result(&outcome).await?) },
                )
            }
            "recordToolCall" => {
                let (message, outcomes) = CallArgument::read(input)?;
                Answer::write(async move {
                    Reply::json(&recorder.record_tool_call(message, &outcomes).await?)
                })
            }
            "pause" => {
                let TextArgument { text } = input.read()?;
                let reason =
                    text.unwrap_or_else(|| runlog::runs::pause_reason::REQUESTED.to_owned());
                Answer::write(async move { Reply::json(&recorder.pause(&reason).await?) })
            }
            "complete" => {
                let TextArgument { text } = input.read()?;
                Answer::write(
                    async move { Reply::json(&recorder.complete(text.as_deref()).await?) },
                )
            }
            "fail" => {
                let TextArgument { text } = input.read()?;
                Answer::write(async move {
                    Reply::json(&recorder.fail(text.as_deref().unwrap_or_default()).await?)
                })
            }
            "cancel" => {
                let TextArgument { text } = input.read()?;
                Answer::write(async move { Reply::json(&recorder.cancel(text.as_deref()).await?) })
            }
            _ => return Ok(None),
        }))
    }
}
