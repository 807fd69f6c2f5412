//! [`ToolOutcome`]: a tool's result, and the message it is recorded as.

use runlog_model::{
    DanglingToolCall, EventOptions, NewContextEvent, RawJson, ToolCallRequest, ToolCallStatus,
    ToolStyle,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, Unexpected},
};

use crate::{Error, Result, contexts::RawMessage};

/// The call that an outcome answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AnsweredCall {
    /// Its id; `None` with providers that set none.
    pub(super) id: Option<String>,
    /// How the provider wrote it.
    pub(super) style: ToolStyle,
    /// The tool.
    pub(super) name: String,
}

impl From<&ToolCallRequest> for AnsweredCall {
    fn from(call: &ToolCallRequest) -> Self {
        Self {
            id: call.id.clone(),
            style: call.style,
            name: call.name.clone(),
        }
    }
}

impl From<&DanglingToolCall> for AnsweredCall {
    fn from(call: &DanglingToolCall) -> Self {
        Self {
            id: call.id.clone(),
            style: call.style,
            name: call.name.clone(),
        }
    }
}

/// The longest duration in milliseconds that a JavaScript number represents exactly.
const MS_MAX: f64 = 9_007_199_254_740_991.0;

/// What a tool gave for one call.
///
/// ```
/// use runlog::{
///     RawJson,
///     runs::{ToolCallStatus, ToolOutcome},
/// };
///
/// let outcome = ToolOutcome::error("c1", RawJson::string("no such file")).took_ms(12);
/// assert_eq!((outcome.status, outcome.duration_ms), (ToolCallStatus::Error, Some(12)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolOutcome {
    /// The call it answers; of one to which its provider gave no id, the name of its tool.
    pub tool_call_id: String,
    /// What the tool gave, or the details of its error. Providers take text or an array of content parts: another value is put
    /// into the message as its JSON text, where the form of the provider has no place for it. The history
    /// ([`ToolCall::output`](super::ToolCall::output)) has it as it was given.
    #[serde(default = "RawJson::null")]
    pub output: RawJson,
    /// Whether it is an error; `completed` when left out.
    #[serde(default = "completed")]
    pub status: ToolCallStatus,
    /// How long the tool itself took, in milliseconds of wall clock, without the model's time.
    #[serde(default, deserialize_with = "whole_ms")]
    pub duration_ms: Option<u64>,
}

fn completed() -> ToolCallStatus {
    ToolCallStatus::Completed
}

/// Reads a duration: clocks may return fractions of a millisecond, the log stores whole ones.
fn whole_ms<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u64>, D::Error> {
    let Some(ms) = Option::<f64>::deserialize(deserializer)? else {
        return Ok(None);
    };
    if !(0.0..=MS_MAX).contains(&ms) {
        return Err(de::Error::invalid_value(
            Unexpected::Float(ms),
            &"a number of milliseconds from 0 on",
        ));
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is within both bounds"
    )]
    Ok(Some(ms.round() as u64))
}

impl ToolOutcome {
    /// The output of a tool that succeeded.
    pub fn completed(tool_call_id: impl Into<String>, output: RawJson) -> Self {
        Self {
            tool_call_id: tool_call_id.into(),
            output,
            status: ToolCallStatus::Completed,
            duration_ms: None,
        }
    }

    /// The details of a tool's error.
    pub fn error(tool_call_id: impl Into<String>, output: RawJson) -> Self {
        Self {
            status: ToolCallStatus::Error,
            ..Self::completed(tool_call_id, output)
        }
    }

    /// The same, with the time the tool took.
    #[must_use]
    pub fn took_ms(mut self, duration_ms: u64) -> Self {
        self.duration_ms = Some(duration_ms);
        self
    }

    /// The message that answers the call, as the provider that made it wants it.
    pub(super) fn message(&self, call: &AnsweredCall) -> RawMessage {
        let (id, output) = (RawJson::string(&self.tool_call_id), &self.output);
        let content = match self.is_said_as_json(call) {
            true => &RawJson::string(output.as_str()),
            false => output,
        };
        let is_error = self.status == ToolCallStatus::Error;
        let text = match call.style {
            // Without an id the tool is named, as where such calls are closed.
            ToolStyle::OpenAi | ToolStyle::OpenAiCamel | ToolStyle::Function
                if call.id.is_none() && !call.name.is_empty() =>
            {
                let role = match call.style {
                    ToolStyle::Function => "function",
                    _ => "tool",
                };
                let name = RawJson::string(&call.name);
                format!("{{\"role\":\"{role}\",\"name\":{name},\"content\":{content}}}")
            }
            ToolStyle::OpenAi | ToolStyle::Function => {
                format!("{{\"role\":\"tool\",\"tool_call_id\":{id},\"content\":{content}}}")
            }
            ToolStyle::OpenAiCamel => {
                format!("{{\"role\":\"tool\",\"toolCallId\":{id},\"content\":{content}}}")
            }
            ToolStyle::AiSdk => {
                let kind = match (output.as_str().starts_with('"'), is_error) {
                    (true, false) => "text",
                    (true, true) => "error-text",
                    (false, false) => "json",
                    (false, true) => "error-json",
                };
                part_message(
                    &id,
                    &call.name,
                    &format!("\"output\":{{\"type\":\"{kind}\",\"value\":{output}}}"),
                )
            }
            ToolStyle::OpenAiResponses => {
                format!(
                    "{{\"type\":\"function_call_output\",\"call_id\":{id},\"output\":{content}}}"
                )
            }
            ToolStyle::OpenAiResponsesCustom => {
                format!(
                    "{{\"type\":\"custom_tool_call_output\",\"call_id\":{id},\"output\":{content}}}"
                )
            }
            ToolStyle::Gemini | ToolStyle::Bedrock | ToolStyle::Anthropic => {
                user_message(call.style, &self.part(call))
            }
            ToolStyle::AiSdk4 => {
                let mark = if is_error { ",\"isError\":true" } else { "" };
                part_message(&id, &call.name, &format!("\"result\":{output}{mark}"))
            }
        };
        let json = RawJson::parse(text).expect("JSON put together from JSON is JSON");
        let event = EventOptions {
            tool_is_error: Some(is_error),
            tool_duration_ms: self.duration_ms,
            ..EventOptions::default()
        };
        RawMessage { json, event }
    }

    /// Whether the output is put into the message as its JSON text: the form has only text or content parts for it, and it is
    /// neither.
    fn is_said_as_json(&self, call: &AnsweredCall) -> bool {
        match call.style {
            ToolStyle::AiSdk | ToolStyle::AiSdk4 | ToolStyle::Gemini => false,
            ToolStyle::Bedrock => {
                !self.output.is_text()
                    && !self.output.as_str().starts_with('{')
                    && !self.output.is_converse_content()
            }
            _ => !self.output.is_text() && !self.output.is_content_parts(),
        }
    }

    /// The outcome as a part of the message that answers all calls of a turn.
    fn part(&self, call: &AnsweredCall) -> String {
        match call.style {
            ToolStyle::Anthropic => self.anthropic_block(call),
            ToolStyle::Bedrock => self.result_block(call),
            _ => self.response_part(call),
        }
    }

    /// The outcome as a block of Anthropic's.
    fn anthropic_block(&self, call: &AnsweredCall) -> String {
        let id = RawJson::string(&self.tool_call_id);
        let content = match self.is_said_as_json(call) {
            true => &RawJson::string(self.output.as_str()),
            false => &self.output,
        };
        let mark = match self.status {
            ToolCallStatus::Error => ",\"is_error\":true",
            _ => "",
        };
        format!("{{\"type\":\"tool_result\",\"tool_use_id\":{id}{mark},\"content\":{content}}}")
    }

    /// The outcome as a block of Bedrock's, whose content are blocks, too: of text, or of a JSON object.
    fn result_block(&self, call: &AnsweredCall) -> String {
        let (id, output) = (RawJson::string(&self.tool_call_id), &self.output);
        let content = if self.is_said_as_json(call) {
            format!("[{{\"text\":{}}}]", RawJson::string(output.as_str()))
        } else if output.is_text() {
            format!("[{{\"text\":{output}}}]")
        } else if output.as_str().starts_with('{') {
            format!("[{{\"json\":{output}}}]")
        } else {
            output.as_str().to_owned()
        };
        let status = match self.status {
            ToolCallStatus::Error => "error",
            _ => "success",
        };
        format!(
            "{{\"toolResult\":{{\"toolUseId\":{id},\"content\":{content},\"status\":\"{status}\"}}}}"
        )
    }

    /// The outcome as a part of a Gemini content, whose response must be an object.
    fn response_part(&self, call: &AnsweredCall) -> String {
        let (name, output) = (RawJson::string(&call.name), &self.output);
        let id = call.id.as_deref().map(RawJson::string);
        let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
        let response = match self.status {
            ToolCallStatus::Error => format!("{{\"error\":{output}}}"),
            _ if output.as_str().starts_with('{') => output.as_str().to_owned(),
            _ => format!("{{\"output\":{output}}}"),
        };
        format!("{{\"functionResponse\":{{{id}\"name\":{name},\"response\":{response}}}}}")
    }

    /// An error if the status isn't final.
    pub(super) fn check(&self) -> Result<()> {
        match self.status {
            ToolCallStatus::Pending => Err(Error::invalid(
                "an outcome is completed or error; record it once there is one",
            )),
            ToolCallStatus::Completed | ToolCallStatus::Error => Ok(()),
        }
    }
}

/// The results that answer calls, as events in the form of the provider that made the calls: those of one turn in one message
/// where the provider [takes no other](ToolStyle::is_answered_at_once), a message for each elsewhere.
pub(super) fn result_events(
    answers: &[(ToolOutcome, AnsweredCall)],
    options: &EventOptions,
) -> Result<Vec<NewContextEvent>> {
    let mut events = Vec::new();
    for (outcome, call) in answers {
        outcome.check()?;
        if call.style.is_answered_at_once() {
            continue;
        }
        let RawMessage { json, event } = outcome.message(call);
        let options = EventOptions {
            run_id: options.run_id,
            step_number: options.step_number,
            ..event
        };
        let mut made = NewContextEvent::of_message(json, &options)?;
        for mark in made.iter_mut().flat_map(|event| &mut event.meta.tools) {
            mark.output_is_json = outcome.is_said_as_json(call);
        }
        events.extend(made);
    }
    for style in [ToolStyle::Gemini, ToolStyle::Bedrock] {
        events.extend(answered_at_once(answers, style, options)?);
    }
    Ok(events)
}

/// The one message that answers all calls of a turn in a style.
fn answered_at_once(
    answers: &[(ToolOutcome, AnsweredCall)],
    style: ToolStyle,
    options: &EventOptions,
) -> Result<Vec<NewContextEvent>> {
    let of_style = || answers.iter().filter(|(_, call)| call.style == style);
    let parts: Vec<String> = of_style()
        .map(|(outcome, call)| outcome.part(call))
        .collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let json = RawJson::parse(user_message(style, &parts.join(",")))?;
    let mut results = NewContextEvent::of_message(json, options)?;
    let marks = results.iter_mut().flat_map(|event| &mut event.meta.tools);
    for (mark, (outcome, call)) in marks.zip(of_style()) {
        mark.is_error = outcome.status == ToolCallStatus::Error;
        mark.duration_ms = outcome.duration_ms;
        mark.output_is_json = outcome.is_said_as_json(call);
    }
    Ok(results)
}

/// The user's message with parts that answer calls.
fn user_message(style: ToolStyle, parts: &str) -> String {
    let field = match style {
        ToolStyle::Gemini => "parts",
        _ => "content",
    };
    format!("{{\"role\":\"user\",\"{field}\":[{parts}]}}")
}

/// A message of the Vercel AI SDK's with one result.
fn part_message(id: &RawJson, name: &str, output: &str) -> String {
    let name = RawJson::string(name);
    format!(
        "{{\"role\":\"tool\",\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":{id},\"toolName\":{name},{output}}}]}}"
    )
}
