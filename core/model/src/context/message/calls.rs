//! The tool calls that an assistant message asks for.

use serde::Serialize;

use super::envelope::{Envelope, Item, is_bedrocks, is_geminis, named, push, string};
use crate::{
    Error, RawJson, Result,
    json::slices::{each_element, unique_fields},
};

/// How a provider writes tool calls, and so how it wants their results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ToolStyle {
    /// `tool_calls` in the assistant message; each result is a message of role `tool`.
    #[serde(rename = "openai")]
    OpenAi,
    /// `tool_use` blocks in the assistant message; all results are blocks of one user message.
    Anthropic,
    /// The older `function_call` in the assistant message; the result is a message of role `function`.
    Function,
    /// `tool-call` parts with an `input`, as the Vercel AI SDK writes model messages since version 5; all results are
    /// `tool-result` parts of one message of role `tool`.
    AiSdk,
    /// The same with `args` and `result`, as versions 3 and 4 of the Vercel AI SDK wrote them.
    #[serde(rename = "ai_sdk_4")]
    AiSdk4,
    /// An item `function_call` of OpenAI's Responses for each call; each result is an item `function_call_output`.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// An item `custom_tool_call` of OpenAI's Responses, whose input is a text; its result is an item `custom_tool_call_output`.
    #[serde(rename = "openai_responses_custom")]
    OpenAiResponsesCustom,
    /// `functionCall` parts in a content of the model's, as Gemini writes them; all results are `functionResponse` parts of
    /// one content of the user's.
    Gemini,
    /// OpenAI's form with `toolCalls` and `toolCallId`, as the TypeScript clients of Mistral and Cohere name the fields.
    #[serde(rename = "openai_camel")]
    OpenAiCamel,
    /// `toolUse` blocks, as Amazon Bedrock's Converse writes them; all results are `toolResult` blocks of one user message.
    Bedrock,
}

impl ToolStyle {
    /// Whether each call is an item of its own, as in OpenAI's Responses: the items of one answer follow one another.
    pub fn is_item(self) -> bool {
        matches!(self, Self::OpenAiResponses | Self::OpenAiResponsesCustom)
    }

    /// Whether the results of one answer's calls must be in one message: its provider takes no two messages of the user's in a row.
    pub fn is_answered_at_once(self) -> bool {
        matches!(self, Self::Gemini | Self::Bedrock)
    }
}

/// One tool call that an assistant message asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCallRequest {
    /// Its id, `None` with the providers that give none.
    pub id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments as the provider wrote them: a JSON string (OpenAI) or an object (Anthropic, Gemini).
    pub arguments: RawJson,
    /// Whether they are a text of any form, as a custom tool has, and not JSON.
    pub is_text: bool,
    /// How the provider writes tool calls.
    pub style: ToolStyle,
}

/// The tool calls that an assistant message asks for, in order.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a tool call has no name, or an id that isn't a string.
pub fn tool_calls_of(json: &RawJson) -> Result<Vec<ToolCallRequest>> {
    Envelope::of(json)?.calls()
}

/// The provider's form that a message is in, where it tells: by its tool calls, or as one that Gemini or Bedrock alone have.
pub fn style_of(json: &RawJson) -> Option<ToolStyle> {
    let calls = tool_calls_of(json).unwrap_or_default();
    match calls.first() {
        // Its calls have no ids.
        Some(call) if call.style == ToolStyle::Function => Some(ToolStyle::OpenAi),
        Some(call) => Some(call.style),
        None if is_geminis(json) => Some(ToolStyle::Gemini),
        None if is_bedrocks(json) => Some(ToolStyle::Bedrock),
        None => None,
    }
}

/// The call that a tool_call event's content is; `None` when it can't be read.
pub(crate) fn plain_call(content: &RawJson) -> Option<ToolCallRequest> {
    let [id, name, arguments, input] = unique_fields(
        content.as_str(),
        "a tool_call event",
        ["id", "name", "arguments", "input"],
    )
    .ok()?;
    request_of(id, name, arguments, input, ToolStyle::OpenAi).ok()
}

impl Envelope<'_> {
    pub(in crate::context) fn calls(&self) -> Result<Vec<ToolCallRequest>> {
        let mut calls = Vec::new();
        if let Some(raw) = self.tool_calls {
            let (name, style) = match self.is_camel {
                true => ("toolCalls", ToolStyle::OpenAiCamel),
                false => ("tool_calls", ToolStyle::OpenAi),
            };
            each_element(raw, name, |item| {
                push(&mut calls, openai_call(item, style)?, "tool calls")
            })?;
        }
        if let Some(raw) = self.function_call {
            let [name, arguments] = unique_fields(raw, "function_call", ["name", "arguments"])?;
            push(
                &mut calls,
                request(None, name, arguments, ToolStyle::Function)?,
                "tool calls",
            )?;
        }
        self.each_block("tool_use", |block| {
            let [id, name, input] =
                unique_fields(block, "a tool_use block", ["id", "name", "input"])?;
            push(
                &mut calls,
                request(id, name, input, ToolStyle::Anthropic)?,
                "tool calls",
            )
        })?;
        self.each_block("tool-call", |part| {
            let names = [
                "toolCallId",
                "toolName",
                "input",
                "args",
                "providerExecuted",
            ];
            let [id, name, input, args, by_provider] =
                unique_fields(part, "a tool-call part", names)?;
            // Its result stands in the same message.
            if by_provider.is_some_and(|raw| raw == "true") {
                return Ok(());
            }
            let style = if input.is_none() && args.is_some() {
                ToolStyle::AiSdk4
            } else {
                ToolStyle::AiSdk
            };
            push(
                &mut calls,
                request(id, name, input.or(args), style)?,
                "tool calls",
            )
        })?;
        let of_item = match self.item {
            Some(Item::FunctionCall) => {
                Some(("function_call", "arguments", ToolStyle::OpenAiResponses))
            }
            Some(Item::CustomCall) => Some((
                "custom_tool_call",
                "input",
                ToolStyle::OpenAiResponsesCustom,
            )),
            _ => None,
        };
        if let Some((what, arguments, style)) = of_item {
            let field = arguments;
            let [id, name, arguments] = self.fields(["call_id", "name", arguments])?;
            if named(id, &format!("the call_id of a {what} item"))?.is_none() {
                return Err(Error::invalid(format!(
                    "a {what} item has no call_id; its result names it"
                )));
            }
            let call = request(id, name, arguments, style)?;
            if !arguments.is_some_and(|raw| raw.starts_with('"')) {
                return Err(Error::invalid(format!(
                    "the `{field}` of a {what} item must be text, as the model wrote it; its provider takes nothing else"
                )));
            }
            push(&mut calls, call, "tool calls")?;
        }
        self.each_part(["functionCall", "function_call"], |part| {
            let [id, name, args] =
                unique_fields(part, "a functionCall part", ["id", "name", "args"])?;
            let id = id.filter(|id| *id != "null");
            named(id, "the id of a functionCall part")?;
            push(
                &mut calls,
                request(id, name, args, ToolStyle::Gemini)?,
                "tool calls",
            )
        })?;
        self.each_untyped_block("toolUse", |block| {
            let [id, name, input] =
                unique_fields(block, "a toolUse block", ["toolUseId", "name", "input"])?;
            if named(id, "the toolUseId of a toolUse block")?.is_none() {
                return Err(Error::invalid(
                    "a toolUse block has no toolUseId; its result names it",
                ));
            }
            push(
                &mut calls,
                request(id, name, input, ToolStyle::Bedrock)?,
                "tool calls",
            )
        })?;
        Ok(calls)
    }
}

fn openai_call(raw: &str, style: ToolStyle) -> Result<ToolCallRequest> {
    let names = ["id", "function", "custom", "name", "arguments", "input"];
    let [id, function, custom, name, arguments, input] = unique_fields(raw, "a tool call", names)?;
    let Some(inner) = function.or(custom) else {
        return request_of(id, name, arguments, input, style);
    };
    let [name, arguments, input] = unique_fields(
        inner,
        "the function of a tool call",
        ["name", "arguments", "input"],
    )?;
    request_of(id, name, arguments, input, style)
}

/// A call with arguments, or with an input: of a custom tool, where it is a text.
fn request_of(
    id: Option<&str>,
    name: Option<&str>,
    arguments: Option<&str>,
    input: Option<&str>,
    style: ToolStyle,
) -> Result<ToolCallRequest> {
    let is_text = arguments.is_none() && input.is_some_and(|input| input.starts_with('"'));
    let call = request(id, name, arguments.or(input), style)?;
    Ok(ToolCallRequest { is_text, ..call })
}

fn request(
    id: Option<&str>,
    name: Option<&str>,
    arguments: Option<&str>,
    style: ToolStyle,
) -> Result<ToolCallRequest> {
    let name = name.ok_or_else(|| Error::invalid("a tool call of the message has no name"))?;
    let name = string(name, "the name of a tool call")?;
    if name.is_empty() {
        return Err(Error::invalid(
            "the name of a tool call is empty; it names the tool",
        ));
    }
    Ok(ToolCallRequest {
        id: named(id, "the id of a tool call")?,
        name: name.into_owned(),
        arguments: arguments.map_or_else(RawJson::null, RawJson::from_slice),
        is_text: style == ToolStyle::OpenAiResponsesCustom,
        style,
    })
}
