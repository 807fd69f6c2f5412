//! The content of messages and events, for people.

use runlog::{
    RawJson,
    chats::{ChatMessage, ChatRole},
    contexts::{ContextEvent, ContextEventKind},
};

use crate::{json::Json, text};

/// What a message of a chat says: the text of its props, or all of them.
pub(crate) fn chat_content(message: &ChatMessage) -> String {
    let props: Option<serde_json::Value> = message.props.to_value().ok();
    let content = props.as_ref().and_then(|props| props["content"].as_str());
    content.unwrap_or(message.props.as_str()).to_owned()
}

/// Who says a message of a chat.
pub(crate) fn chat_role(message: &ChatMessage) -> &'static str {
    match message.role {
        ChatRole::User => "user",
        ChatRole::Assistant => "assistant",
    }
}

/// A part of a message.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Part {
    Text(String),
    /// The model's thinking before its answer.
    Thinking(String),
    /// A tool call.
    Call {
        /// The id that the result names.
        id: Option<String>,
        name: String,
        arguments: Json,
    },
    /// The result of a tool call.
    Result {
        /// The id of the call.
        id: Option<String>,
        /// Whether the tool failed.
        is_error: bool,
        text: String,
    },
    /// Something else, by its name.
    Other(String),
}

/// The parts of a message. One that can't be parsed is shown unchanged.
pub(crate) fn parts(message: &RawJson) -> Vec<Part> {
    let Some(fields @ Json::Object(_)) = Json::read(message.as_str()) else {
        return vec![Part::Text(message.as_str().to_owned())];
    };
    if let Some(part) = item(&fields) {
        return vec![part];
    }
    let mut parts = Vec::new();
    let role = fields
        .get("role")
        .and_then(Json::as_str)
        .unwrap_or_default();
    // Gemini's contents have `parts` instead.
    let content = fields.get("content").or_else(|| fields.get("parts"));
    let content = content.unwrap_or(&Json::Null);
    let is_result = |block: &Json| block.get("type").and_then(Json::as_str) == Some("tool-result");
    match (role, content) {
        (_, Json::Array(blocks)) if blocks.iter().any(is_result) => {
            parts.extend(blocks.iter().map(block));
        }
        ("tool" | "function", content) => {
            let id = fields
                .get("tool_call_id")
                .or_else(|| fields.get("toolCallId"));
            let id = id.and_then(Json::as_str);
            let ids = fields
                .get("tool_call_ids")
                .and_then(|ids| ids.elements().first())
                .and_then(Json::as_str);
            let id = id.or(ids).map(str::to_owned);
            parts.push(Part::Result {
                id,
                is_error: false,
                text: content_text(content),
            });
        }
        (_, Json::Array(blocks)) => parts.extend(blocks.iter().map(block)),
        (_, Json::Null) => {}
        (_, content) => parts.push(Part::Text(content_text(content))),
    }
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    parts.extend(
        fields
            .get("tool_calls")
            .or_else(|| fields.get("toolCalls"))
            .map(Json::elements)
            .unwrap_or_default()
            .iter()
            .filter_map(call),
    );
    parts.extend(fields.get("function_call").and_then(call));
    parts
}

/// What an item of OpenAI's Responses is, which has no role; `None` for what is none.
fn item(fields: &Json) -> Option<Part> {
    let has = |name: &&str| fields.get(name).is_some();
    let text = |name: &str| fields.get(name).and_then(Json::as_str).map(str::to_owned);
    let kind = text("type")?;
    // A message whose role is left out says what it says as any other.
    let is_other = has(&"role") || (kind != "reasoning" && ["content", "parts"].iter().any(has));
    if is_other {
        return None;
    }
    Some(match kind.as_str() {
        "function_call" | "custom_tool_call" => match call(fields)? {
            Part::Call {
                name, arguments, ..
            } => Part::Call {
                id: text("call_id"),
                name,
                arguments,
            },
            other => other,
        },
        "function_call_output" | "custom_tool_call_output" => Part::Result {
            id: text("call_id"),
            is_error: false,
            text: content_text(fields.get("output")?),
        },
        "reasoning" => Part::Thinking(content_text(fields.get("summary")?)),
        _ => {
            let Json::Object(all) = fields else {
                return None;
            };
            // What it did, without what only its provider needs to know.
            let said = all
                .iter()
                .filter(|(name, _)| !["type", "id", "status"].contains(&name.as_str()));
            let said = Json::Object(said.cloned().collect());
            Part::Text(format!("[{kind}] {}", said.plain()))
        }
    })
}

/// The tool call of a tool_call event.
pub(crate) fn call_part(content: &RawJson) -> Option<Part> {
    call(&Json::read(content.as_str())?)
}

fn call(call: &Json) -> Option<Part> {
    let function = call
        .get("function")
        .or_else(|| call.get("custom"))
        .unwrap_or(call);
    let name = function.get("name")?.as_str()?.to_owned();
    let arguments = function
        .get("arguments")
        .or_else(|| function.get("input"))
        .cloned()
        .unwrap_or_default();
    // A custom tool's input is a text, whatever it looks like.
    let is_json = function.get("arguments").is_some();
    let read = arguments.as_str().filter(|_| is_json).and_then(Json::read);
    let arguments = read.unwrap_or(arguments);
    Some(Part::Call {
        id: call.get("id").and_then(Json::as_str).map(str::to_owned),
        name,
        arguments,
    })
}

fn block(block: &Json) -> Part {
    let text = |name: &str| block.get(name).and_then(Json::as_str).map(str::to_owned);
    match block.get("type").and_then(Json::as_str) {
        Some("text" | "input_text" | "output_text") => Part::Text(text("text").unwrap_or_default()),
        Some("thinking") => Part::Thinking(text("thinking").unwrap_or_default()),
        Some("tool_use" | "server_tool_use") => Part::Call {
            id: text("id"),
            name: text("name").unwrap_or_default(),
            arguments: block.get("input").cloned().unwrap_or_default(),
        },
        Some("tool_result") => Part::Result {
            id: text("tool_use_id"),
            is_error: block.get("is_error") == Some(&Json::Bool(true)),
            text: content_text(block.get("content").unwrap_or(&Json::Null)),
        },
        Some("tool-call") => Part::Call {
            id: text("toolCallId"),
            name: text("toolName").unwrap_or_default(),
            arguments: block
                .get("input")
                .or_else(|| block.get("args"))
                .cloned()
                .unwrap_or_default(),
        },
        Some("tool-result") => {
            let output = block.get("output").or_else(|| block.get("result"));
            let output = output.unwrap_or(&Json::Null);
            let kind = output.get("type").and_then(Json::as_str);
            Part::Result {
                id: text("toolCallId"),
                is_error: block.get("isError") == Some(&Json::Bool(true))
                    || kind.is_some_and(|kind| kind.starts_with("error-")),
                text: content_text(output.get("value").unwrap_or(output)),
            }
        }
        Some(other) => Part::Other(other.to_owned()),
        None => untyped_block(block),
    }
}

/// A part of Gemini's or a block of Bedrock's: what it is has its name.
fn untyped_block(block: &Json) -> Part {
    let object = |names: [&str; 2]| {
        let found = block.get(names[0]).or_else(|| block.get(names[1]));
        found.filter(|found| matches!(found, Json::Object(_)))
    };
    let text = |of: &Json, name: &str| of.get(name).and_then(Json::as_str).map(str::to_owned);
    let call = |of: &Json, id: &str, arguments: &str| Part::Call {
        id: text(of, id),
        name: text(of, "name").unwrap_or_default(),
        arguments: of.get(arguments).cloned().unwrap_or_default(),
    };
    if let Some(found) = object(["toolUse", "toolUse"]) {
        return call(found, "toolUseId", "input");
    }
    if let Some(found) = object(["functionCall", "function_call"]) {
        return call(found, "id", "args");
    }
    if let Some(found) = object(["toolResult", "toolResult"]) {
        return Part::Result {
            id: text(found, "toolUseId"),
            is_error: text(found, "status").is_some_and(|status| status == "error"),
            text: content_text(found.get("content").unwrap_or(&Json::Null)),
        };
    }
    if let Some(found) = object(["functionResponse", "function_response"]) {
        let response = found.get("response").unwrap_or(&Json::Null);
        return Part::Result {
            id: text(found, "id"),
            is_error: response.get("error").is_some(),
            text: content_text(response),
        };
    }
    match block.get("text").and_then(Json::as_str) {
        Some(said) => Part::Text(said.to_owned()),
        None => Part::Text(content_text(block)),
    }
}

/// The text of a content: the string itself, the text of its blocks, or the JSON.
fn content_text(content: &Json) -> String {
    match content {
        Json::Null => String::new(),
        Json::Array(blocks) => {
            let texts = blocks
                .iter()
                .map(|block| match block.get("text").and_then(Json::as_str) {
                    Some(text) => text.to_owned(),
                    None => match block.get("type").and_then(Json::as_str) {
                        Some(kind) => format!("[{kind}]"),
                        None => content_text(block.get("json").unwrap_or(block)),
                    },
                });
            texts.collect::<Vec<_>>().join("\n")
        }
        other => other.plain(),
    }
}

/// An event in one line of at most `width` columns: its text, call or result.
pub(crate) fn summary(event: &ContextEvent, width: usize) -> String {
    if event.redacted {
        return "[redacted]".to_owned();
    }
    summary_of(event.event_type, &event.content, width)
}

/// The summary of an event of this kind and content, in one line of at most `width` columns.
pub(crate) fn summary_of(kind: ContextEventKind, content: &RawJson, width: usize) -> String {
    let parts = match kind {
        ContextEventKind::ToolCall => call_part(content).into_iter().collect(),
        _ => parts(content),
    };
    let line = parts.iter().map(|part| match part {
        Part::Text(text) | Part::Thinking(text) => text.clone(),
        Part::Call {
            name, arguments, ..
        } => format!("{name} {}", arguments_line(arguments)),
        Part::Result {
            is_error: true,
            text,
            ..
        } => format!("error: {text}"),
        Part::Result { text, .. } => text.clone(),
        Part::Other(kind) => format!("[{kind}]"),
    });
    text::one_line(&line.collect::<Vec<_>>().join(" · "), width)
}

/// Arguments in one line: the only one's value, or `name=value` of each.
fn arguments_line(arguments: &Json) -> String {
    match arguments {
        Json::Null => String::new(),
        Json::Object(fields) if fields.len() == 1 => {
            fields.iter().map(|(_, value)| value.plain()).collect()
        }
        Json::Object(fields) => {
            let each = fields
                .iter()
                .map(|(name, value)| format!("{name}={}", value.plain()));
            each.collect::<Vec<_>>().join(" ")
        }
        other => other.plain(),
    }
}

/// The name of an event's kind, in words and padded to the longest.
pub(crate) fn kind_name(kind: ContextEventKind) -> &'static str {
    match kind {
        ContextEventKind::SystemMessage => "system",
        ContextEventKind::UserMessage => "user",
        ContextEventKind::AssistantMessage => "assistant",
        ContextEventKind::ToolCall => "tool call",
        ContextEventKind::ToolResult => "tool result",
    }
}

/// The text in the colour of a kind of event, if colours are on.
pub(crate) fn styled(kind: ContextEventKind, text: &str) -> String {
    let style = console::style(text);
    let style = match kind {
        ContextEventKind::SystemMessage => style.dim(),
        ContextEventKind::UserMessage => style.green(),
        ContextEventKind::AssistantMessage => style.cyan(),
        ContextEventKind::ToolCall => style.yellow(),
        ContextEventKind::ToolResult => style.magenta(),
    };
    style.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_results_and_texts_are_shown_in_the_form_of_every_provider() {
        let asks = [
            r#"{"role":"assistant","content":"I look.","tool_calls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#,
            r#"{"role":"assistant","content":"I look.","toolCalls":[{"id":"c","function":{"name":"ls","arguments":"{}"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c","name":"ls","input":{}}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool-call","toolCallId":"c","toolName":"ls","input":{}}]}"#,
            r#"{"role":"assistant","content":[{"text":"I look."},{"toolUse":{"toolUseId":"c","name":"ls","input":{}}}]}"#,
            r#"{"role":"model","parts":[{"text":"I look."},{"functionCall":{"id":"c","name":"ls","args":{}}}]}"#,
        ];
        for text in asks {
            let [Part::Text(said), Part::Call { id, name, .. }] =
                &parts(&RawJson::parse(text.to_owned()).unwrap())[..]
            else {
                panic!("{text}");
            };
            assert_eq!(
                (said.as_str(), id.as_deref(), name.as_str()),
                ("I look.", Some("c"), "ls"),
                "{text}"
            );
        }
        let answers = [
            r#"{"role":"tool","toolCallId":"c","content":"no"}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"}]}"#,
            r#"{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"ls","output":{"type":"error-text","value":"no"}}]}"#,
            r#"{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"text":"no"}],"status":"error"}}]}"#,
        ];
        for (place, text) in answers.into_iter().enumerate() {
            let [Part::Result { id, is_error, text }] =
                &parts(&RawJson::parse(text.to_owned()).unwrap())[..]
            else {
                panic!("{text}");
            };
            assert_eq!((id.as_deref(), text.as_str()), (Some("c"), "no"));
            assert_eq!(*is_error, place > 0);
        }
        let item = |text: &str| parts(&RawJson::parse(text.to_owned()).unwrap()).remove(0);
        assert!(
            matches!(item(r#"{"type":"custom_tool_call","id":"x","call_id":"c","name":"sql","input":"select 1"}"#),
            Part::Call { id, name, .. } if id.as_deref() == Some("c") && name == "sql")
        );
        assert!(
            matches!(item(r#"{"type":"function_call_output","call_id":"c","output":"no"}"#),
            Part::Result { id, text, .. } if id.as_deref() == Some("c") && text == "no")
        );
        let thought =
            r#"{"type":"reasoning","summary":[{"type":"summary_text","text":"I look."}]}"#;
        assert!(matches!(item(thought), Part::Thinking(text) if text == "I look."));
        let search = r#"{"type":"web_search_call","id":"ws","status":"completed","action":{"query":"oslo"}}"#;
        assert!(
            matches!(item(search), Part::Text(text) if text.starts_with("[web_search_call]") && text.contains("oslo") && !text.contains("ws"))
        );
        let of_gemini = r#"{"role":"user","parts":[{"functionResponse":{"name":"ls","response":{"error":"no"}}}]}"#;
        let [Part::Result { id, is_error, text }] =
            &parts(&RawJson::parse(of_gemini.to_owned()).unwrap())[..]
        else {
            panic!();
        };
        assert_eq!((id.as_deref(), *is_error), (None, true));
        assert!(text.contains("\"no\""), "{text}");
    }
}
