//! The names of fields over HTTP: `created_at`, as in answers, files and on the command line.
//!
//! What callers give is read by the types of the library, whose fields have JavaScript's names. A type's own JSON schema
//! tells which keys are names of fields, so that what users put into their JSON is never looked at.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::problem::{Answer, Problem};

/// The schema of what callers give, with everything in place, under JavaScript's names.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_deserialize()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
    settings.into_generator().into_root_schema_for::<T>().into()
}

/// The name that a field of JavaScript has over HTTP.
fn over_http(name: &str) -> String {
    let mut own = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            own.push('_');
        }
        own.push(letter.to_ascii_lowercase());
    }
    own
}

/// The same schema under the names that fields have over HTTP.
pub(super) fn schema_over_http(mut schema: Value) -> Value {
    rename(&mut schema);
    schema
}

fn rename(schema: &mut Value) {
    match schema {
        Value::Object(schema) => {
            if let Some(Value::Object(fields)) = schema.get_mut("properties") {
                let fields_over_http = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, field)| (over_http(&name), field));
                *fields = fields_over_http.collect();
            }
            if let Some(Value::Array(required)) = schema.get_mut("required") {
                for name in required {
                    *name = Value::String(over_http(name.as_str().unwrap_or_default()));
                }
            }
            schema
                .iter_mut()
                // What a field is when it is left out is a value, not a schema.
                .filter(|(keyword, _)| !matches!(keyword.as_str(), "default" | "const" | "enum"))
                .for_each(|(_, part)| rename(part));
        }
        Value::Array(parts) => parts.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Reads what a caller gave under the names of HTTP.
pub(super) fn read<T: DeserializeOwned>(given: Value, schema: &Value) -> Answer<T> {
    let given = for_library(given, schema)?;
    serde_json::from_value(given).map_err(|error| Problem::invalid(told(&error.to_string())))
}

/// A message of the library's under the names of HTTP: those of fields stand in backticks.
fn told(message: &str) -> String {
    let parts = message
        .split('`')
        .enumerate()
        .map(|(place, part)| match place % 2 {
            1 if part.bytes().all(|byte| byte.is_ascii_alphanumeric()) => over_http(part),
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("`")
}

fn for_library(given: Value, schema: &Value) -> Answer<Value> {
    match given {
        Value::Object(given) => {
            let Some(fields) = fields_of(schema) else {
                return Ok(Value::Object(given));
            };
            let mut named = Map::new();
            for (name, value) in given {
                let field = fields.iter().find(|(own, _)| over_http(own) == name);
                let Some((own, field)) = field else {
                    return Err(unknown(&name, fields));
                };
                named.insert(own.clone(), for_library(value, field)?);
            }
            Ok(Value::Object(named))
        }
        Value::Array(items) => {
            let of_items = schema.get("items").unwrap_or(&Value::Null);
            let items = items.into_iter().map(|item| for_library(item, of_items));
            Ok(Value::Array(items.collect::<Answer<_>>()?))
        }
        plain => Ok(plain),
    }
}

/// The fields of an object, also of one that may be left out; `None` for JSON that is the user's own.
pub(super) fn fields_of(schema: &Value) -> Option<&Map<String, Value>> {
    let own = schema.get("properties").and_then(Value::as_object);
    own.or_else(|| {
        let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
        choices.as_array()?.iter().find_map(fields_of)
    })
}

/// Refuses a name that no field has.
pub(super) fn unknown(name: &str, fields: &Map<String, Value>) -> Problem {
    if fields.is_empty() {
        return Problem::invalid(format!("there is no field `{name}`: none is taken here"));
    }
    let names = fields.keys().map(|name| format!("`{}`", over_http(name)));
    let names = names.collect::<Vec<_>>().join(", ");
    Problem::invalid(format!(
        "there is no field `{name}`; those that are taken are {names}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::{chats::ChatFilter, contexts::AppendOptions};
    use serde_json::json;

    #[test]
    fn what_is_given_is_read_under_the_names_of_http_at_any_depth() {
        let schema = schema_of::<AppendOptions>();
        let given = json!({"expected_last_sequence": 3, "event": {"step_number": 2}, "durability": {"interval_ms": 5}});
        let read: AppendOptions = read(given, &schema).unwrap();
        assert_eq!(
            (read.expected_last_sequence, read.event.step_number),
            (Some(3), Some(2))
        );
        assert_eq!(read.durability, Some(runlog::Durability::Interval(5)));
    }

    #[test]
    fn other_names_are_refused_those_of_javascript_too() {
        let schema = schema_of::<AppendOptions>();
        let refused = read::<AppendOptions>(json!({"expectedLastSequence": 3}), &schema);
        let detail = refused.unwrap_err().detail().to_owned();
        assert!(detail.contains("`expectedLastSequence`"), "{detail}");
        assert!(detail.contains("`expected_last_sequence`"), "{detail}");
    }

    #[test]
    fn schemas_have_the_names_of_http() {
        let schema = schema_over_http(schema_of::<ChatFilter>());
        let fields = schema["properties"].as_object().unwrap();
        assert!(fields.contains_key("page_size") && fields.contains_key("user_id"));
        assert!(!fields.keys().any(|name| name.contains(char::is_uppercase)));
    }
}
