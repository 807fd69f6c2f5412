//! The rule for names: `step_count` in Rust, files and the command line is `stepCount` in JavaScript.
//!
//! It is applied to fields of Runlog's types, by name, and never to users' JSON.

use std::borrow::Cow;

/// The prefix of a chat's owner fields in files; JavaScript and Rust use the names without it.
const OWNER: &str = "__yao_";

/// A field's name in JavaScript. A time has its unit in the name there: `created_at` is `createdAtMs`.
pub(crate) fn in_javascript(name: &str) -> Cow<'_, str> {
    let name = name.strip_prefix(OWNER).unwrap_or(name);
    if !name.contains('_') || name.starts_with(['_', '$']) {
        return Cow::Borrowed(name);
    }
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    let own = words.fold(first, |name, word| {
        let (head, rest) = word.split_at(word.len().min(1));
        name + &head.to_ascii_uppercase() + rest
    });
    let unit = if name.ends_with("_at") { "Ms" } else { "" };
    Cow::Owned(own + unit)
}

/// A message whose field names, which are in backticks, are replaced by those of JavaScript; but for the one that isn't known, which
/// is kept as it was given, and the values that a field may have.
pub(crate) fn message_in_javascript(message: &str) -> String {
    let parts: Vec<&str> = message.split('`').collect();
    let is_unknown = |place: usize| {
        let behind = parts.get(place + 1);
        behind.is_some_and(|text| text.starts_with(" is not a field that is known here"))
    };
    let mut is_value = false;
    let quoted = parts.iter().copied().enumerate().map(|(place, part)| {
        if place % 2 == 0 {
            is_value = ["expected ", "expected one of "]
                .iter()
                .any(|end| part.ends_with(end))
                || (is_value && [", ", " or "].contains(&part));
        }
        let is_name = place % 2 == 1
            && !is_value
            && !is_unknown(place)
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if is_name {
            in_javascript(part)
        } else {
            Cow::Borrowed(part)
        }
    });
    quoted.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_as_javascript_has_them() {
        for (name, own) in [
            ("id", "id"),
            ("created_at_ms", "createdAtMs"),
            ("created_at", "createdAtMs"),
            ("__yao_created_by", "createdBy"),
            ("_own", "_own"),
            ("alreadyCamel", "alreadyCamel"),
        ] {
            assert_eq!(in_javascript(name), own);
        }
        let message = message_in_javascript("`user_id` and `_x`, \"a_b\", `x`: `created_at_ms`");
        assert_eq!(message, "`userId` and `_x`, \"a_b\", `x`: `createdAtMs`");
        let message = message_in_javascript(
            "`tool_call_id` is not a field that is known here; known are `tool_call_id`",
        );
        assert_eq!(
            message,
            "`tool_call_id` is not a field that is known here; known are `toolCallId`"
        );
        let message = message_in_javascript(
            "`event_type`: \"x\" is not known here; expected one of `user_message`, `tool_call`; see `event_type`",
        );
        assert_eq!(
            message,
            "`eventType`: \"x\" is not known here; expected one of `user_message`, `tool_call`; see `eventType`"
        );
        let message =
            message_in_javascript("\"x\" is not known here; expected `last_message` or `by_id`");
        assert!(
            message.ends_with("expected `last_message` or `by_id`"),
            "{message}"
        );
    }
}
