//! Messages that the store makes itself: one completed by its role, and the placeholder of a redacted one.

use crate::{Error, RawJson, Result, Role, json::slices::beginning};

/// The same message with its role in front.
pub(crate) fn with_role(content: &RawJson, role: Role) -> Result<RawJson> {
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
    let message = format!("{{\"role\":\"{role}\"{comma}{fields}");
    RawJson::parse(message).map_err(|error| Error::damaged(error.to_string()))
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
