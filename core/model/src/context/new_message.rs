//! [`NewMessage`]: a message to append, where the caller has no provider's JSON of its own.

use super::message::{ToolStyle, is_bedrocks, is_geminis};
use crate::{Error, RawJson, Result, Role};

/// A message given in parts. It is written in OpenAI's form, and from then on kept as written.
///
/// ```
/// use runlog_model::{NewMessage, NewToolCall};
///
/// let call = NewToolCall::new("call_1", "get_weather", r#"{"city":"Oslo"}"#);
/// let message = NewMessage::assistant("Let me look.").with_tool_calls([call]);
/// assert_eq!(
///     message.to_json()?.as_str(),
///     r#"{"role":"assistant","content":"Let me look.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}}]}"#
/// );
///
/// let (city, degrees) = ("Oslo", 7);
/// let result = NewMessage::tool("call_1", format!("{degrees} °C in {city}")); // any text, borrowed or owned
/// assert_eq!(result.content.as_str(), r#""7 °C in Oslo""#);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMessage {
    /// Who it is from.
    pub role: Role,
    /// What it says: mostly a JSON string, or an array of content parts, or `null`.
    pub content: RawJson,
    /// The tool calls it asks for, as a JSON array in the provider's form; an assistant's only.
    pub tool_calls: Option<RawJson>,
    /// The tool call it answers; needed by a tool's message, refused in any other.
    pub tool_call_id: Option<String>,
}

/// A tool call of a [`NewMessage`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewToolCall {
    /// Its id, which the result names.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments, as the text the model wrote: mostly JSON, kept byte for byte.
    pub arguments: String,
}

impl NewToolCall {
    /// A call of this tool.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
        }
    }
}

impl NewMessage {
    /// A message of this role and content, with no tool calls.
    pub fn new(role: Role, content: RawJson) -> Self {
        Self {
            role,
            content,
            tool_calls: None,
            tool_call_id: None,
        }
    }

    /// A system prompt.
    pub fn system(text: impl AsRef<str>) -> Self {
        Self::new(Role::System, RawJson::string(text.as_ref()))
    }

    /// What the user says.
    pub fn user(text: impl AsRef<str>) -> Self {
        Self::new(Role::User, RawJson::string(text.as_ref()))
    }

    /// What the model answers.
    pub fn assistant(text: impl AsRef<str>) -> Self {
        Self::new(Role::Assistant, RawJson::string(text.as_ref()))
    }

    /// The result of a tool call.
    pub fn tool(tool_call_id: impl Into<String>, text: impl AsRef<str>) -> Self {
        Self {
            tool_call_id: Some(tool_call_id.into()),
            ..Self::new(Role::Tool, RawJson::string(text.as_ref()))
        }
    }

    /// The same message, asking for these tool calls in OpenAI's form.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: impl IntoIterator<Item = NewToolCall>) -> Self {
        let calls: Vec<String> = calls.into_iter().map(|call| openai_call(&call)).collect();
        self.tool_calls = Some(RawJson::from_own_text(format!("[{}]", calls.join(","))));
        self
    }

    /// What the user says as JSON, in the form of the context that it is appended to, whose newest message is given: text becomes
    /// a content of Gemini's, or a block of Bedrock's Converse, behind one of those, which take no others.
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub fn to_json_behind(&self, newest: Option<&RawJson>) -> Result<RawJson> {
        let style = newest.and_then(|newest| match newest {
            newest if is_geminis(newest) => Some(ToolStyle::Gemini),
            newest if is_bedrocks(newest) => Some(ToolStyle::Bedrock),
            _ => None,
        });
        self.to_json_in(style)
    }

    /// What the user says as JSON, in a provider's form; anything else as [`to_json`](Self::to_json).
    ///
    /// # Errors
    /// As [`to_json`](Self::to_json).
    pub fn to_json_in(&self, style: Option<ToolStyle>) -> Result<RawJson> {
        let json = self.to_json()?;
        let field = match style {
            _ if self.role != Role::User => None,
            Some(ToolStyle::Gemini) => Some("parts"),
            Some(ToolStyle::Bedrock) => Some("content"),
            _ => None,
        };
        let parts = field.zip(text_parts(&self.content));
        Ok(parts.map_or(json, |(field, parts)| {
            RawJson::from_own_text(format!("{{\"role\":\"user\",\"{field}\":{parts}}}"))
        }))
    }

    /// The message as JSON: role, content, and the tool fields where there are any.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the tool fields don't fit the role.
    pub fn to_json(&self) -> Result<RawJson> {
        let role = self.role;
        if role == Role::Tool && self.tool_call_id.is_none() {
            return Err(Error::invalid(
                "a message of role \"tool\" needs the tool_call_id of the call it answers",
            ));
        }
        if role != Role::Tool && self.tool_call_id.is_some() {
            return Err(Error::invalid(format!(
                "a message of role \"{role}\" answers no tool call; leave tool_call_id out, or use role \"tool\""
            )));
        }
        if role != Role::Assistant && self.tool_calls.is_some() {
            return Err(Error::invalid(format!(
                "a message of role \"{role}\" can't ask for tool calls; leave tool_calls out, or use role \"assistant\""
            )));
        }
        let mut text = format!("{{\"role\":\"{role}\"");
        if let Some(id) = &self.tool_call_id {
            text.push_str(",\"tool_call_id\":");
            text.push_str(RawJson::string(id).as_str());
        }
        text.push_str(",\"content\":");
        text.push_str(self.content.as_str());
        if let Some(calls) = &self.tool_calls {
            text.push_str(",\"tool_calls\":");
            text.push_str(calls.as_str());
        }
        text.push('}');
        Ok(RawJson::from_own_text(text))
    }
}

/// A message's content as the parts of Gemini's, or the blocks of Bedrock's; `None` where it is neither text nor such parts.
fn text_parts(content: &RawJson) -> Option<String> {
    let content = content.as_str();
    match content.as_bytes().first() {
        Some(b'"') => Some(format!("[{{\"text\":{content}}}]")),
        Some(b'[') => Some(content.to_owned()),
        _ => None,
    }
}

fn openai_call(call: &NewToolCall) -> String {
    let (id, name, arguments) = (
        RawJson::string(&call.id),
        RawJson::string(&call.name),
        RawJson::string(&call.arguments),
    );
    format!(
        "{{\"id\":{id},\"type\":\"function\",\"function\":{{\"name\":{name},\"arguments\":{arguments}}}}}"
    )
}
