//! [`read_json`]: parses a caller's JSON as a type; errors name the field and the value that the caller wrote, not a
//! line and a column of a text that the caller never sees.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Visitor},
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::wording::{MISSING, NOT_ONE_TEXT, explain};

/// Reads JSON as a type.
///
/// # Errors
/// A message for the caller: which field, its value, and what is expected.
///
/// ```
/// #[derive(serde::Deserialize, Debug)]
/// struct Asked { run: uuid::Uuid, limit: u32 }
///
/// let message = runlog_model::read_json::<Asked>(r#"{"run":"junk","limit":3}"#).unwrap_err();
/// assert_eq!(message, r#"`run`: "junk" is not an id (a UUID)"#);
/// ```
pub fn read_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    read_json_at("", text)
}

/// The same of a value that is the field `place` of what was given, or a field of its fields; errors name it as such.
///
/// # Errors
/// As [`read_json`].
///
/// ```
/// let message = runlog_model::read_json_at::<Vec<u32>>("limits", "[1,-2]").unwrap_err();
/// assert_eq!(message, "`limits[1]`: -2 is not a whole number, 0 or more");
/// ```
pub fn read_json_at<T: DeserializeOwned>(place: &str, text: &str) -> Result<T, String> {
    if text.trim_ascii_start().starts_with('[') && is_object::<T>() {
        return Err(list_refused(place, text));
    }
    let again = |text: &str| serde_json::from_str::<T>(text).err();
    serde_json::from_str(text).map_err(|error| explained(place, text, &error, &again))
}

/// [`read_json`] of a type that refers to the text.
///
/// # Errors
/// As [`read_json`]; for an enum the error doesn't list the values.
pub fn read_json_borrowed<'t, T: Deserialize<'t>>(text: &'t str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| explained("", text, &error, &|_| None))
}

/// Whether a type is one of an object's fields. serde takes an array for them too, one value for each field in their order, which
/// nobody means.
fn is_object<T: DeserializeOwned>() -> bool {
    matches!(T::deserialize(Probe), Err(Wanted::Object))
}

fn list_refused(place: &str, text: &str) -> String {
    let given = serde_json::from_str::<Value>(text);
    match given {
        Ok(given) => explain(
            place,
            Some(&given),
            "invalid type: sequence, expected a map",
        ),
        Err(error) => not_json(place, &error),
    }
}

/// A deserializer that has no value: it only tells what a type asks it for.
struct Probe;

/// What a type asked for.
#[derive(Debug)]
enum Wanted {
    Object,
    Else,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl std::error::Error for Wanted {}

impl serde::de::Error for Wanted {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Else
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Wanted;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wanted> {
        Err(Wanted::Else)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Wanted> {
        Err(Wanted::Object)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wanted> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wanted> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// The same of bytes that were written as JSON. All JSON is read as text: for bytes, every type's decoder would be compiled
/// once more.
pub(crate) fn read_bytes<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> serde_json::Result<T> {
    serde_json::from_str(text_of(bytes)?)
}

fn text_of(bytes: &[u8]) -> serde_json::Result<&str> {
    std::str::from_utf8(bytes).map_err(serde::de::Error::custom)
}

/// As [`read_json`], from a parsed value.
///
/// # Errors
/// As [`read_json`].
pub fn read_value<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    read_json(&value.to_string())
}

/// As [`read_value`], from the fields of an object whose type has flattened parts: of those serde says neither the field nor,
/// where they are many, that one isn't known. `known` are the fields of all parts.
///
/// # Errors
/// As [`read_json`].
///
/// ```
/// # use serde_json::json;
/// #[derive(serde::Deserialize, Debug)]
/// struct Page { limit: Option<u32> }
/// #[derive(serde::Deserialize, Debug)]
/// struct Asked { run: uuid::Uuid, #[serde(flatten)] page: Page }
///
/// let given = json!({"run": "01a21d63-ac52-7f0d-a8aa-7b69399e1c9c", "limit": -1});
/// let message = runlog_model::read_fields::<Asked>(given.as_object().unwrap(), &["run", "limit"]).unwrap_err();
/// assert_eq!(message, "`limit`: -1 is not a whole number, 0 or more");
/// ```
pub fn read_fields<T: DeserializeOwned>(
    given: &Map<String, Value>,
    known: &[&str],
) -> Result<T, String> {
    if let Some(name) = given.keys().find(|name| !known.contains(&name.as_str())) {
        if known.is_empty() {
            return Err(format!("there is no field `{name}`: none is taken here"));
        }
        let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        return Err(format!(
            "`{name}` is not a field that is known here; known are {known}"
        ));
    }
    let read = |fields: &Map<String, Value>| {
        let read = serde_json::from_str(&Value::Object(fields.clone()).to_string());
        read.map_err(|error: serde_json::Error| without_place(&error))
    };
    read(given).map_err(|said| {
        if said.starts_with(MISSING) {
            return explain("", None, &said);
        }
        // The field without which something else is said: best if nothing is, or else not that it is missing itself.
        let without = |name: &String| {
            let mut rest = given.clone();
            rest.remove(name);
            match read(&rest) {
                Ok(_) => 0,
                Err(other) if other == said => 3,
                Err(other) if other.starts_with(MISSING) => 2,
                Err(_) => 1,
            }
        };
        let wrong = given.iter().min_by_key(|(name, _)| without(name));
        let (name, value) = wrong.filter(|(name, _)| without(name) < 3).unzip();
        explain(name.map_or("", String::as_str), value, &said)
    })
}

/// What an error says, naming the field that it is about; `again` reads another text as the same type. Not generic: it would be
/// compiled for every type that is read.
fn explained(
    place: &str,
    text: &str,
    error: &serde_json::Error,
    again: &dyn Fn(&str) -> Option<serde_json::Error>,
) -> String {
    let said = without_place(error);
    let mut read = &text[..offset_of(text, error, &said)];
    // serde places what a field's own function refuses behind the end of the object.
    const OF_SCALARS: [&str; 4] = ["floating point", "integer", "string", "boolean"];
    let refused = said.strip_prefix("invalid value: ");
    if refused.is_some_and(|rest| OF_SCALARS.iter().any(|kind| rest.starts_with(kind))) {
        read = read.strip_suffix('}').unwrap_or(read);
    }
    let path = path_at(read);
    match serde_json::from_str::<Value>(text) {
        Ok(whole) => {
            let given = value_at(&whole, &path);
            // serde says no more of a value that is none of an enum's texts. Of a text that is none of them it says which there are.
            let known = said.starts_with("expected value").then(|| {
                let mut probed = whole.clone();
                *value_at_mut(&mut probed, &path)? = Value::String(String::new());
                let message = without_place(&again(&probed.to_string())?);
                let (_, known) = message.strip_prefix("unknown variant ")?.split_once(", ")?;
                Some(format!("{NOT_ONE_TEXT}{known}"))
            });
            let said = known.flatten().unwrap_or(said);
            explain(&joined(place, &path), given, &said)
        }
        Err(error) => not_json(&joined(place, &path), &error),
    }
}

/// Of text that is JSON for JavaScript and none here, the reason; of any other what is wrong with it.
fn not_json(path: &str, error: &serde_json::Error) -> String {
    let at = match path {
        "" => String::new(),
        path => format!("`{path}`: "),
    };
    let said = error.to_string();
    if said.contains("surrogate") || said.contains("hex escape") {
        return format!("{at}the text has half of a surrogate pair, for which UTF-8 has no form");
    }
    if said.contains("recursion limit") {
        return "it is nested too deeply, with more than a hundred levels".to_owned();
    }
    format!("it is not JSON: {said}")
}

/// A path of what is at another one.
fn joined(place: &str, path: &str) -> String {
    let is_name = !path.is_empty() && !path.starts_with('[');
    let dot = if is_name && !place.is_empty() {
        "."
    } else {
        ""
    };
    format!("{place}{dot}{path}")
}

/// What an error says, without the line and the column at its end.
fn without_place(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    said.strip_suffix(&place).unwrap_or(&said).to_owned()
}

/// How many bytes were read when an error was found: behind a value that is of another type, or before one that is an array
/// or an object; behind an object in which something is missing.
fn offset_of(text: &str, error: &serde_json::Error, said: &str) -> usize {
    let lines_before = error.line().saturating_sub(1);
    let before: usize = text
        .split_inclusive('\n')
        .take(lines_before)
        .map(str::len)
        .sum();
    // For a value of an impossible type, only the first byte was read.
    let looked_ahead = usize::from(said.starts_with("expected value"));
    let offset = (before + error.column()).saturating_sub(looked_ahead);
    let is_boundary = |offset: &usize| text.is_char_boundary(*offset);
    (0..=offset.min(text.len()))
        .rev()
        .find(is_boundary)
        .unwrap_or(0)
}

/// The path, such as `requests[1].timeout`, of the value that JSON ends in or behind.
fn path_at(read: &str) -> String {
    /// An object or an array that is still open.
    enum Open<'t> {
        Object { key: Option<&'t str> },
        Array { index: usize },
    }
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut text = "";
    let mut places = read.char_indices();
    while let Some((start, char)) = places.next() {
        match (char, open.last_mut()) {
            ('{', _) => open.push(Open::Object { key: None }),
            ('[', _) => open.push(Open::Array { index: 0 }),
            ('}' | ']', _) => drop(open.pop()),
            (':', Some(Open::Object { key })) => *key = Some(text),
            (',', Some(Open::Object { key })) => *key = None,
            (',', Some(Open::Array { index })) => *index += 1,
            ('"', _) => {
                while let Some((end, char)) = places.next() {
                    match char {
                        '\\' => drop(places.next()),
                        '"' => {
                            text = &read[start + 1..end];
                            break;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let mut path = String::new();
    for place in open {
        match place {
            Open::Object { key: None } => {}
            Open::Object { key: Some(key) } if path.is_empty() => path.push_str(key),
            Open::Object { key: Some(key) } => path.extend([".", key]),
            Open::Array { index } => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// The value at a path such as `requests[1].timeout`.
fn value_at<'v>(whole: &'v Value, path: &str) -> Option<&'v Value> {
    let mut value = whole;
    for part in parts_of(path) {
        value = match part.strip_suffix(']') {
            Some(index) => value.get(index.parse::<usize>().ok()?)?,
            None => value.get(part)?,
        };
    }
    Some(value)
}

/// The same, to be changed.
fn value_at_mut<'v>(whole: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    let mut value = whole;
    for part in parts_of(path) {
        value = match part.strip_suffix(']') {
            Some(index) => value.get_mut(index.parse::<usize>().ok()?)?,
            None => value.get_mut(part)?,
        };
    }
    Some(value)
}

fn parts_of(path: &str) -> impl Iterator<Item = &str> {
    path.split(['.', '[']).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, Debug)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Asked {
        run: Option<uuid::Uuid>,
        #[serde(default)]
        limit: usize,
        #[serde(default)]
        requests: Vec<Request>,
        #[serde(default, deserialize_with = "positive")]
        took: f64,
        mode: Option<Mode>,
    }

    fn positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        let given = f64::deserialize(deserializer)?;
        let refused = || {
            let given = serde::de::Unexpected::Float(given);
            serde::de::Error::invalid_value(given, &"a positive number")
        };
        (given > 0.0).then_some(given).ok_or_else(refused)
    }

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "only read")]
    struct Request {
        name: String,
        wait: Option<f64>,
        tries: Option<u32>,
        of: Option<Mode>,
    }

    #[derive(Deserialize, Debug)]
    #[serde(rename_all = "camelCase")]
    enum Mode {
        Write,
        ReadOnly,
    }

    #[derive(Deserialize, Debug)]
    #[serde(rename_all = "camelCase")]
    #[allow(dead_code, reason = "only read")]
    enum End {
        Completed,
        Failed(String),
    }

    #[derive(Deserialize, Debug)]
    #[allow(dead_code, reason = "only read")]
    struct Ended {
        end: End,
        note: Option<String>,
    }

    #[test]
    fn a_name_that_needs_a_value_says_so() {
        let needed = r#""failed" needs a value: give it as an object, {"failed": …}"#;
        let refused = |text| read_json::<Ended>(text).unwrap_err();
        assert_eq!(refused(r#"{"end":"failed"}"#), format!("`end`: {needed}"));
        assert_eq!(
            refused(r#"{"end":"failed","note":null}"#),
            format!("`end`: {needed}")
        );
        assert!(!refused(r#"{"note":"x","end":"failed"}"#).contains("variant"));
        assert_eq!(read_json::<End>(r#""failed""#).unwrap_err(), needed);
        let at = read_json_at::<End>("end", r#""failed""#).unwrap_err();
        assert_eq!(at, format!("`end`: {needed}"));
    }

    #[test]
    fn what_is_wrong_is_told_of_field_and_value() {
        for (text, says) in [
            (
                r#"{"run":"junk"}"#,
                r#"`run`: "junk" is not an id (a UUID)"#,
            ),
            (r#"{"run":{}}"#, "`run`: {} is not an id (a UUID)"),
            (
                r#"{"limit":-1}"#,
                "`limit`: -1 is not a whole number, 0 or more",
            ),
            (
                r#"{"limit":"10"}"#,
                r#"`limit`: "10" is not a whole number, 0 or more"#,
            ),
            (
                r#"{"limit":1.5}"#,
                "`limit`: 1.5 is not a whole number, 0 or more",
            ),
            (
                r#"{"lmit":1}"#,
                "`lmit` is not a field that is known here; known are `run`, `limit`, `requests`, `took`, `mode`",
            ),
            (
                r#"{"requests":[{"name":"a"},{"wait":1}]}"#,
                "`requests[1]`: `name` is missing",
            ),
            (
                r#"{"requests":[{"name":"a","wat":1}]}"#,
                "`requests[0]`: `wat` is not a field that is known here; known are `name`, `wait`, `tries`, `of`",
            ),
            (
                r#"{"requests":[{"name":"a","wait":"30s"}]}"#,
                r#"`requests[0].wait`: "30s" is not a number"#,
            ),
            (
                r#"{"requests":[{"name":"a","tries":4294967296}]}"#,
                "`requests[0].tries`: 4294967296 is too large: at most 4294967295",
            ),
            (r#"{"requests":{}}"#, "`requests`: {} is not an array"),
            (
                "{\"é\\\"\\\\\": [0, {}],\n \"requests\": [ {\"name\": \"[\"}, {\"name\":\n 7} ] }",
                "`é\"\\` is not a field that is known here; known are `run`, `limit`, `requests`, `took`, `mode`",
            ),
            (
                "{\"limit\": 3,\n \"requests\": [ {\"name\": \"[{\\\"\"}, {\"wait\": 0, \"name\":\n 7} ] }",
                "`requests[1].name`: 7 is not a text",
            ),
            (r#" [null, 3]"#, "[null,3] is not an object"),
            (
                r#"{"limit":1,"limit":2}"#,
                "`limit` is given twice; give it once",
            ),
            (
                r#"{"requests":[{"name":"a","name":"b"}]}"#,
                "`requests[0]`: `name` is given twice; give it once",
            ),
            (r#"{"requests":[5]}"#, "`requests[0]`: 5 is not an object"),
            (
                r#"{"limit":1,"took":-5}"#,
                "`took`: -5 is not a positive number",
            ),
            (
                r#"{"took":-5,"limit":1}"#,
                "`took`: -5 is not a positive number",
            ),
            (
                r#"{"mode":"ro"}"#,
                r#"`mode`: "ro" is not known here; expected `write` or `readOnly`"#,
            ),
            (
                r#"{"mode":["write"]}"#,
                r#"`mode`: ["write"] is not one text; expected `write` or `readOnly`"#,
            ),
            (
                r#"{"limit":1,"mode":5,"took":1}"#,
                "`mode`: 5 is not one text; expected `write` or `readOnly`",
            ),
            (
                r#"{"requests":[{"name":"a","of":[null]}]}"#,
                "`requests[0].of`: [null] is not one text; expected `write` or `readOnly`",
            ),
            (
                r#"{"requests":[{"name":"a\ud83d"}]}"#,
                "`requests[0].name`: the text has half of a surrogate pair, for which UTF-8 has no form",
            ),
            (
                r#"{"requests":[{"name":"a\ud83d b"}]}"#,
                "`requests[0].name`: the text has half of a surrogate pair, for which UTF-8 has no form",
            ),
            (
                "[",
                "it is not JSON: EOF while parsing a list at line 1 column 1",
            ),
        ] {
            assert_eq!(read_json::<Asked>(text).unwrap_err(), says, "{text}");
        }
        let list = read_json_at::<Option<Box<Asked>>>("options", "[null,3]").unwrap_err();
        assert_eq!(list, "`options`: [null,3] is not an object");
        let long = format!(r#"{{"run":"{}"}}"#, "é".repeat(100));
        assert!(read_json::<Asked>(&long).unwrap_err().contains("é…"));
    }
}
