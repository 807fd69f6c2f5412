//! The one rule for names: Rust, files and the command line have `created_at`, JavaScript has `createdAt`.
//!
//! It is applied to fields of types of Runlog's, by name; what users put into their JSON is never looked at.

use std::borrow::Cow;

/// What the fields of a chat's owner begin with in files; JavaScript and Rust have the rest of their names.
const OWNER: &str = "__yao_";

/// The name that a field has in JavaScript.
pub(crate) fn in_javascript(name: &str) -> Cow<'_, str> {
    let name = name.strip_prefix(OWNER).unwrap_or(name);
    if !name.contains('_') || name.starts_with(['_', '$']) {
        return Cow::Borrowed(name);
    }
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    Cow::Owned(words.fold(first, |name, word| {
        let (head, rest) = word.split_at(word.len().min(1));
        name + &head.to_ascii_uppercase() + rest
    }))
}

/// The name of a time in JavaScript: one that is a number says its unit, `created_at` is `createdAtMs` then.
pub(crate) fn time_in_javascript(name: &str, is_number: bool) -> Cow<'_, str> {
    let own = in_javascript(name);
    if is_number && name.ends_with("_at") {
        return Cow::Owned(own.into_owned() + "Ms");
    }
    own
}

/// A message with the names of fields, which stand in backticks, as JavaScript has them.
pub(crate) fn told_in_javascript(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(place, part)| {
        let is_name = place % 2 == 1
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if is_name {
            in_javascript(part)
        } else {
            Cow::Borrowed(part)
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_as_javascript_has_them() {
        for (name, own) in [
            ("id", "id"),
            ("created_at_ms", "createdAtMs"),
            ("__yao_created_by", "createdBy"),
            ("_own", "_own"),
            ("alreadyCamel", "alreadyCamel"),
        ] {
            assert_eq!(in_javascript(name), own);
        }
        assert_eq!(time_in_javascript("created_at", true), "createdAtMs");
        assert_eq!(time_in_javascript("created_at", false), "createdAt");
        let told = told_in_javascript("`user_id` and `_x`, \"a_b\", `x`: `created_at_ms`");
        assert_eq!(told, "`userId` and `_x`, \"a_b\", `x`: `createdAtMs`");
    }
}
