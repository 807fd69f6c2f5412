//! Checks of JSON values that are stored as values: they must be readable again.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::{Error, Result, limits::JSON_DEPTH_MAX};

/// Checks fields that this build doesn't know: none has the name of one that it knows, nor that name in other letters
/// (`chatID` would be kept, and the chat would have another id), and none is nested deeper than can be read back from inside
/// of whatever it is stored in.
pub(crate) fn check(what: &str, extra: &Map<String, Value>, known: &[&str]) -> Result<()> {
    for (name, value) in extra {
        if known.contains(&name.as_str()) {
            return Err(Error::invalid(format!(
                "{name:?} is a field of {what}; give it there, and not among the others"
            )));
        }
        check_name(what, name, known)?;
        check_depth(what, value)?;
    }
    Ok(())
}

/// Checks the name of a field that isn't there: that it isn't nearly that of one that is known.
pub(crate) fn check_name(what: &str, name: &str, known: &[&str]) -> Result<()> {
    match known
        .iter()
        .find(|known| name != **known && is_alike(name, known))
    {
        None => Ok(()),
        Some(known) => Err(Error::invalid(format!(
            "{name:?} is not a field of {what}, `{known}` is; call it that, or by a name that isn't so alike"
        ))),
    }
}

/// Whether two names differ in nothing but capitals and what stands between words.
pub(crate) fn is_alike(name: &str, other: &str) -> bool {
    let letters = |name: &str| -> String {
        let kept = name.chars().filter(|letter| letter.is_alphanumeric());
        kept.flat_map(char::to_lowercase).collect()
    };
    letters(name) == letters(other)
}

/// Writes fields that this build doesn't know beside those that it does, for serde's `flatten`. Each name is marked as
/// the caller's (`ExtraName`), so that serializers that rename fields leave it unchanged.
pub(crate) fn serialize<S: Serializer>(
    extra: &Map<String, Value>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    struct ExtraName<'a>(&'a str);

    impl Serialize for ExtraName<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
            serializer.serialize_newtype_struct("ExtraName", self.0)
        }
    }

    serializer.collect_map(extra.iter().map(|(name, value)| (ExtraName(name), value)))
}

/// Checks that a value is nested at most [`JSON_DEPTH_MAX`] deep.
pub(crate) fn check_depth(what: &str, value: &Value) -> Result<()> {
    if is_within(value, JSON_DEPTH_MAX) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} has a value that is nested deeper than {JSON_DEPTH_MAX}; make it flatter"
    )))
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(fields) => {
            depth > 0 && fields.values().all(|field| is_within(field, depth - 1))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(Value::Null, |value, _| Value::Array(vec![value]))
    }

    #[test]
    fn a_value_is_nested_to_the_limit_and_no_deeper() {
        assert!(check_depth("x", &nested(JSON_DEPTH_MAX)).is_ok());
        assert!(check_depth("x", &nested(JSON_DEPTH_MAX + 1)).is_err());
        assert!(
            check_depth(
                "x",
                &serde_json::json!({"a": {"b": nested(JSON_DEPTH_MAX - 1)}})
            )
            .is_err()
        );
    }

    #[test]
    fn a_field_that_is_known_is_refused_among_the_others() {
        let extra = Map::from_iter([("role".to_owned(), Value::Null)]);
        assert!(check("x", &extra, &["role"]).is_err() && check("x", &extra, &["type"]).is_ok());
    }

    #[test]
    fn a_field_that_is_known_in_other_letters_is_refused() {
        for name in ["chatID", "ChatId", "chatid", "chat-id", "CHAT_ID"] {
            let extra = Map::from_iter([(name.to_owned(), Value::Null)]);
            let refused = check("a chat", &extra, &["title", "chat_id"]).unwrap_err();
            assert_eq!(
                refused.to_string(),
                format!(
                    "{name:?} is not a field of a chat, `chat_id` is; call it that, or by a name that isn't so alike"
                )
            );
        }
        for name in ["chat_ids", "my_chat_id", "idchat", "Ч"] {
            let extra = Map::from_iter([(name.to_owned(), Value::Null)]);
            assert!(
                check("a chat", &extra, &["title", "chat_id"]).is_ok(),
                "{name}"
            );
        }
    }
}
