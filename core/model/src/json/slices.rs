//! Slices of JSON: which part of a text is a field's value or an array's element, byte for byte.
//!
//! Invariant: what is returned is a slice of what was given, and nothing is allocated per field or element that the caller
//! didn't ask for, so that hostile input costs no more memory than its own size.

use std::{fmt, ops::Range};

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The values of the fields of these names in a JSON object, `null`s too; of a repeated name, the last.
///
/// # Errors
/// When the text isn't one JSON object.
pub fn fields<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> serde_json::Result<[Option<&'a str>; N]> {
    read_fields(text, &names, Repeated::LastCounts)
}

/// The values of the fields of these names in a JSON object that a caller gave, and `None` for a `null`.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't an object, or has one of the names twice.
pub(crate) fn unique_fields<'a, const N: usize>(
    text: &'a str,
    what: &str,
    names: [&str; N],
) -> Result<[Option<&'a str>; N]> {
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Error::invalid(format!(
            "{what} should be a JSON object, but begins {:?}",
            beginning(text)
        )));
    }
    let found = read_fields(text, &names, Repeated::Refused)
        .map_err(|source| Error::invalid(format!("{what} can't be read: {source}")))?;
    Ok(found.map(|value| value.filter(|value| *value != "null")))
}

/// Whether a text is an object with a field of this name, `null` or not.
pub(crate) fn has_field(text: &str, name: &str) -> bool {
    fields(text, [name]).is_ok_and(|[value]| value.is_some())
}

/// Where text is put into an object, to stand at the end of a field that is a string: how many bytes stand behind it. A field that there
/// isn't is to be put in empty, which is told, too. `None` where the field is something else. Of a repeated name, the last counts.
pub(crate) fn end_of_text(object: &str, name: &str) -> Option<(usize, Option<String>)> {
    let [value] = fields(object, [name]).ok()?;
    match value {
        Some(string) if string.starts_with('"') => {
            Some((object.len() - span(object, string).end + 1, None))
        }
        Some(_) => None,
        None => {
            let end = object.rfind('}')?;
            let comma = match object[..end].trim_ascii_end().ends_with('{') {
                true => "",
                false => ",",
            };
            let name = serde_json::to_string(name).ok()?;
            Some((object.len() - end, Some(format!("{comma}{name}:\"\""))))
        }
    }
}

/// Calls `each` with every element of a JSON array.
///
/// # Errors
/// When the text isn't one JSON array.
pub fn for_each_element<'a>(text: &'a str, each: impl FnMut(&'a str)) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.deserialize_seq(Elements { each })?;
    deserializer.end()
}

/// Gives every element of a JSON array to `take`, until that fails.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't an array; else what `take` returns.
pub(crate) fn each_element<'a>(
    text: &'a str,
    what: &str,
    mut take: impl FnMut(&'a str) -> Result<()>,
) -> Result<()> {
    if !text.starts_with('[') {
        return Err(Error::invalid(format!(
            "{what} should be an array, but begins {:?}",
            beginning(text)
        )));
    }
    let mut taken = Ok(());
    for_each_element(text, |element| {
        if taken.is_ok() {
            taken = take(element);
        }
    })
    .map_err(|source| Error::invalid(format!("{what} can't be read: {source}")))?;
    taken
}

/// The text of a JSON string; `None` when the value is something else, or no Unicode text.
pub fn string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

/// What kind of JSON value it is, for a message.
pub fn kind_of(value: &str) -> &'static str {
    match value.trim_start().bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(b'-' | b'0'..=b'9') => "a number",
        _ => "nothing",
    }
}

/// The first characters of a text, for a message.
pub(crate) fn beginning(text: &str) -> &str {
    match text.char_indices().nth(40) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Where `part`, a slice of `whole`, lies in it.
///
/// # Panics
/// When it is no slice of it.
pub fn span(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    assert!(
        start <= whole.len() && part.len() <= whole.len() - start,
        "not a slice of the text"
    );
    start..start + part.len()
}

/// What to do with a second field of a name that is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeated {
    Refused,
    LastCounts,
}

fn read_fields<'a, const N: usize>(
    text: &'a str,
    names: &[&str; N],
    repeated: Repeated,
) -> serde_json::Result<[Option<&'a str>; N]> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Fields { names, repeated })?;
    deserializer.end()?;
    Ok(found)
}

struct Fields<'n, const N: usize> {
    names: &'n [&'n str; N],
    repeated: Repeated,
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(place) = map.next_key_seed(Name(self.names))? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if found[place].is_some() && self.repeated == Repeated::Refused {
                let name = self.names[place];
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            found[place] = Some(map.next_value::<&'de RawValue>()?.get());
        }
        Ok(found)
    }
}

/// Which of the names a key is. A key is read as bytes: it may be spelt with escapes that are no text.
struct Name<'n, const N: usize>(&'n [&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Name<'_, N> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<const N: usize> Visitor<'_> for Name<'_, N> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> std::result::Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

struct Elements<F> {
    each: F,
}

impl<'de, F: FnMut(&'de str)> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        mut self,
        mut elements: A,
    ) -> std::result::Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&'de RawValue>()? {
            (self.each)(element.get());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::end_of_text;

    #[test]
    fn text_is_added_where_the_field_ends_and_nothing_else_changes() {
        let added = |object: &str| {
            let (tail, field) = end_of_text(object, "content")?;
            let (before, after) = object.split_at(object.len() - tail);
            let (begins, ends) = field
                .as_deref()
                .map_or(("", ""), |field| field.split_at(field.len() - 1));
            Some([before, begins, "b\\\"", ends, after].concat())
        };
        for (object, expected) in [
            (r#"{"content":"a"}"#, r#"{"content":"ab\""}"#),
            (r#" { "content" : "" } "#, r#" { "content" : "b\"" } "#),
            (r#"{"content":"\"\\"}"#, r#"{"content":"\"\\b\""}"#),
            (
                r#"{"x":{"content":"a"},"content":"a","y":"}"}"#,
                r#"{"x":{"content":"a"},"content":"ab\"","y":"}"}"#,
            ),
            (
                r#"{"content":1,"content":"a"}"#,
                r#"{"content":1,"content":"ab\""}"#,
            ),
            (r#"{"content":"\ud800"}"#, r#"{"content":"\ud800b\""}"#),
            (r#"{"\u0063ontent":"a"}"#, r#"{"\u0063ontent":"ab\""}"#),
            ("{}", r#"{"content":"b\""}"#),
            ("{ \n}", "{ \n\"content\":\"b\\\"\"}"),
            (r#"{"x":"}"} "#, r#"{"x":"}","content":"b\""} "#),
        ] {
            assert_eq!(added(object).as_deref(), Some(expected), "{object}");
        }
        for object in [
            r#"{"content":null}"#,
            r#"{"content":["a"]}"#,
            "[]",
            "",
            r#"{"content":"a"#,
        ] {
            assert_eq!(added(object), None, "{object}");
        }
    }
}
