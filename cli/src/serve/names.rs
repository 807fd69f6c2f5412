//! The names of fields over HTTP: snake_case, such as `created_at`, as in files and on the command line.
//!
//! The input of callers is read as the library's types, whose fields have JavaScript's names. A type's JSON schema
//! defines which keys are field names, so users' own JSON is never changed.

use std::{borrow::Cow, collections::BTreeMap};

use runlog::{
    chats::{Chat, ChatMessage},
    contexts::{read_json_at, read_with_own_id},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
use serde_json::{
    Map, Value,
    value::{RawValue, to_raw_value},
};

use super::problem::{Answer, Problem};

/// The schema of callers' input, with everything inlined, with JavaScript's names.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .for_deserialize()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
    settings.into_generator().into_root_schema_for::<T>().into()
}

/// The name over HTTP of a field with a JavaScript name.
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

/// The same schema with the names over HTTP.
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
                // These keywords contain values, not schemas.
                .filter(|(keyword, _)| !matches!(keyword.as_str(), "default" | "const" | "enum"))
                .for_each(|(_, part)| rename(part));
        }
        Value::Array(parts) => parts.iter_mut().for_each(rename),
        _ => {}
    }
}

/// Reads a caller's input, which has the names over HTTP. The user's own JSON is preserved byte for byte.
pub(super) fn read<T: DeserializeOwned>(given: &RawValue, schema: &Value) -> Answer<T> {
    read_at("", given, schema)
}

/// The same of the field `place` of what was given; errors name that.
fn read_at<T: DeserializeOwned>(place: &str, given: &RawValue, schema: &Value) -> Answer<T> {
    let given = for_library(given, schema).map_err(|problem| match place {
        "" => problem,
        place => Problem::invalid(format!("`{place}`: {}", problem.detail())),
    })?;
    read_json_at(place, given.get()).map_err(|message| Problem::invalid(named_over_http(&message)))
}

/// A message of the library with the names over HTTP: fields, and paths to them, are in backticks.
fn named_over_http(message: &str) -> String {
    let parts = message
        .split('`')
        .enumerate()
        .map(|(place, part)| match place % 2 {
            1 if part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"[].".contains(&byte)) =>
            {
                over_http(part)
            }
            _ => part.to_owned(),
        });
    parts.collect::<Vec<_>>().join("`")
}

fn for_library<'a>(given: &'a RawValue, schema: &Value) -> Answer<Cow<'a, RawValue>> {
    let text = given.get();
    let unread = |error: serde_json::Error| Problem::invalid(error.to_string());
    let whole = match text.as_bytes().first() {
        Some(b'{') => {
            let Some(fields) = fields_of(schema) else {
                return Ok(Cow::Borrowed(given));
            };
            let given: Fields<'_> = serde_json::from_str(text).map_err(unread)?;
            let mut named = BTreeMap::new();
            for (name, value) in given.0 {
                let field = fields.iter().find(|(own, _)| over_http(own) == name);
                let Some((own, field)) = field else {
                    return Err(unknown(&name, fields));
                };
                // Readers differ in which of two values they use.
                if named.insert(own, for_library(value, field)?).is_some() {
                    let message = format!("`{name}` is given twice; give it once");
                    return Err(Problem::invalid(message));
                }
            }
            to_raw_value(&named)
        }
        // Serde would accept a list of the fields' values in order.
        Some(b'[') if fields_of(schema).is_some() => {
            return Err(Problem::invalid("a list stands where an object has to be"));
        }
        Some(b'[') => {
            let Some(of_items) = schema.get("items") else {
                return Ok(Cow::Borrowed(given));
            };
            let given: Vec<&RawValue> = serde_json::from_str(text).map_err(unread)?;
            let items = given.into_iter().map(|item| for_library(item, of_items));
            to_raw_value(&items.collect::<Answer<Vec<_>>>()?)
        }
        _ => return Ok(Cow::Borrowed(given)),
    };
    whole.map(Cow::Owned).map_err(unread)
}

/// The fields of an object, as they were given.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfFields;

        impl<'de> Visitor<'de> for OfFields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut given: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = given.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(OfFields).map(Self)
    }
}

/// The fields of an object, optional or not; `None` for the user's own JSON.
pub(super) fn fields_of(schema: &Value) -> Option<&Map<String, Value>> {
    let own = schema.get("properties").and_then(Value::as_object);
    own.or_else(|| {
        let choices = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
        choices.as_array()?.iter().find_map(fields_of)
    })
}

/// The error of an unknown field name.
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

/// What is made with an id of its own, which is a fresh one where it is left out.
pub(super) trait OwnId {
    const FIELD: &'static str;
}

impl OwnId for Chat {
    const FIELD: &'static str = "chat_id";
}

impl OwnId for ChatMessage {
    const FIELD: &'static str = "message_id";
}

/// A library's type whose fields have the same names over HTTP; its id, where it is given, isn't empty.
#[derive(Clone, Debug)]
pub(super) struct New<T>(pub(super) T);

impl<'de, T: Deserialize<'de> + OwnId> Deserialize<'de> for New<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_with_own_id(T::FIELD, T::FIELD, deserializer).map(Self)
    }
}

impl<T: JsonSchema> JsonSchema for New<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

/// A library's type, read with the names over HTTP.
#[derive(Clone, Debug, Default)]
pub(super) struct Given<T>(pub(super) T);

impl<'de, T: DeserializeOwned + JsonSchema> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::at("", deserializer)
    }
}

impl<T: DeserializeOwned + JsonSchema> Given<T> {
    /// Reads the field `options` of a body.
    pub(super) fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::at("options", deserializer)
    }

    fn at<'de, D: Deserializer<'de>>(place: &str, deserializer: D) -> Result<Self, D::Error> {
        let given = Box::<RawValue>::deserialize(deserializer)?;
        let read = read_at(place, &given, &schema_of::<T>());
        read.map(Self)
            .map_err(|problem| serde::de::Error::custom(problem.detail()))
    }
}

impl<T: JsonSchema> JsonSchema for Given<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::try_from(schema_over_http(schema_of::<T>())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runlog::{NewSession, chats::ChatFilter, contexts::AppendOptions};
    use serde_json::json;

    fn read<T: DeserializeOwned + JsonSchema>(given: &Value) -> Answer<T> {
        super::read(&to_raw_value(given).unwrap(), &schema_of::<T>())
    }

    #[test]
    fn what_is_the_users_is_kept_byte_for_byte() {
        let given = r#"{"title":"t","metadata":{ "a_b":12345678901234567890123, "a_b_c" : 1.50 }}"#;
        let given: Given<NewSession> = serde_json::from_str(given).unwrap();
        let metadata = given.0.metadata.unwrap();
        assert_eq!(
            metadata.as_str(),
            r#"{ "a_b":12345678901234567890123, "a_b_c" : 1.50 }"#
        );
    }

    #[test]
    fn what_is_given_is_read_under_the_names_of_http_at_any_depth() {
        let given = json!({"expected_last_sequence": 3, "event": {"step_number": 2}, "durability": {"interval_ms": 5}});
        let read: AppendOptions = read(&given).unwrap();
        assert_eq!(
            (read.expected_last_sequence, read.event.step_number),
            (Some(3), Some(2))
        );
        assert_eq!(read.durability, Some(runlog::Durability::Interval(5)));
        let refused = super::read::<AppendOptions>(
            &to_raw_value(&json!({"durability": "never"})).unwrap(),
            &schema_of::<AppendOptions>(),
        );
        let detail = refused.unwrap_err().detail().to_owned();
        assert!(detail.contains("`interval_ms`"), "{detail}");
    }

    #[test]
    fn other_names_are_refused_those_of_javascript_too() {
        assert!(read::<AppendOptions>(&json!([null, null])).is_err());
        let refused = read::<AppendOptions>(&json!({"expectedLastSequence": 3}));
        let detail = refused.unwrap_err().detail().to_owned();
        assert!(detail.contains("`expectedLastSequence`"), "{detail}");
        assert!(detail.contains("`expected_last_sequence`"), "{detail}");
    }

    #[test]
    fn what_is_refused_is_named() {
        let given = json!({"event": {"step_number": "x"}});
        let refused = read::<AppendOptions>(&given).unwrap_err();
        let detail = refused.detail();
        assert_eq!(
            detail,
            r#"`event.step_number`: "x" is not a whole number, 0 or more"#
        );
    }

    #[test]
    fn schemas_have_the_names_of_http() {
        let schema = schema_over_http(schema_of::<ChatFilter>());
        let fields = schema["properties"].as_object().unwrap();
        assert!(fields.contains_key("page_size") && fields.contains_key("user_id"));
        assert!(!fields.keys().any(|name| name.contains(char::is_uppercase)));
    }
}
