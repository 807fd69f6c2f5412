//! Messages that the store makes itself: one completed by its role, and the placeholder of a redacted one.

use super::message::ToolStyle;
use crate::{
    Error, RawJson, Result, Role,
    json::slices::{self, beginning, has_field},
};

/// The same message with its role in front; and the id of the call that it answers, where it doesn't name one itself.
pub(crate) fn with_role(
    content: &RawJson,
    role: Role,
    tool_call_id: Option<&str>,
) -> Result<RawJson> {
    let text = content.as_str();
    let fields = text.trim_start().strip_prefix('{').ok_or_else(|| {
        Error::damaged(format!(
            "a message should be a JSON object, but begins {:?}",
            beginning(text)
        ))
    })?;
    let comma = if fields.trim_start().starts_with('}') {
        ""
    } else {
        ","
    };
    let is_named = || {
        let names = ["tool_call_id", "tool_call_ids", "toolCallId", "call_id"];
        let content = slices::fields(text, ["content"])
            .ok()
            .and_then(|[content]| content);
        // Blocks and parts name their calls themselves.
        names.iter().any(|name| has_field(text, name))
            || has_field(text, "parts")
            || content.is_some_and(|content| content.starts_with('['))
    };
    let id = match tool_call_id {
        Some(id) if !is_named() => format!(",\"tool_call_id\":{}", RawJson::string(id)),
        _ => String::new(),
    };
    let message = format!("{{\"role\":\"{role}\"{id}{comma}{fields}");
    RawJson::parse(message).map_err(|error| Error::damaged(error.to_string()))
}

/// What a redacted message says.
pub(crate) const REDACTED: &str = "[redacted]";

/// The placeholder of a redacted message that is no result, in a provider's form.
pub(crate) fn redacted_in(style: Option<ToolStyle>, role: Role) -> RawJson {
    match style {
        Some(ToolStyle::Gemini) if role != Role::System => {
            let role = match role {
                Role::Assistant => "model",
                _ => "user",
            };
            RawJson::from_own_text(format!(
                "{{\"role\":\"{role}\",\"parts\":[{{\"text\":\"{REDACTED}\"}}]}}"
            ))
        }
        Some(ToolStyle::Bedrock) => RawJson::from_own_text(format!(
            "{{\"role\":\"{role}\",\"content\":[{{\"text\":\"{REDACTED}\"}}]}}"
        )),
        _ => redacted(role, None),
    }
}

/// The placeholder of a redacted message in a context.
pub(crate) fn redacted(role: Role, tool_call_id: Option<&str>) -> RawJson {
    let mut text = format!("{{\"role\":\"{role}\",");
    if let Some(id) = tool_call_id {
        text.push_str("\"tool_call_id\":");
        text.push_str(RawJson::string(id).as_str());
        text.push(',');
    }
    text.push_str("\"content\":\"[redacted]\"}");
    RawJson::from_own_text(text)
}
