//! Checks of JSON values that are kept as values: what is written must be readable again.

use serde_json::{Map, Value};

use crate::{Error, Result, limits::JSON_DEPTH_MAX};

/// Checks fields that this build doesn't know: none has the name of one that it knows, and none is nested deeper
/// than can be read back from inside of whatever it is stored in.
pub(crate) fn check(what: &str, extra: &Map<String, Value>, known: &[&str]) -> Result<()> {
    for (name, value) in extra {
        if known.contains(&name.as_str()) {
            return Err(Error::invalid(format!(
                "{name:?} is a field of {what}; give it there, and not among the others"
            )));
        }
        check_depth(what, value)?;
    }
    Ok(())
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
}
