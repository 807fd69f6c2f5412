//! [`Input`]: the input of a call, and decoding it. All of it is untrusted.

use std::{borrow::Cow, fmt, marker::PhantomData};

use bytes::Bytes;
use runlog::{
    RawJson,
    contexts::{read_json, read_json_at, read_json_borrowed},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    Failure, Result,
    names::{in_javascript, message_in_javascript},
};

/// The input of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// The method, for messages.
    pub(crate) method: &'a str,
    /// The arguments: a JSON object, or nothing.
    pub(crate) arguments: &'a str,
    /// The contents, separate from the arguments.
    pub(crate) data: &'a [u8],
}

impl<'a> Input<'a> {
    /// The arguments as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        read_json(self.text()).map_err(refused)
    }

    /// The arguments by name; `names` are those allowed, in Rust's spelling.
    pub(crate) fn named(&self, names: &'static [&'static str]) -> Result<Named<'a>> {
        let Fields(fields) = read_json_borrowed(self.text()).map_err(refused)?;
        for (place, (name, _)) in fields.iter().enumerate() {
            if !names.iter().any(|known| in_javascript(known) == *name) {
                return Err(refused(unknown(name, names)));
            }
            if fields.iter().take(place).any(|(before, _)| before == name) {
                return Err(refused(format!("`{name}` is given twice")));
            }
        }
        Ok(Named { fields })
    }

    fn text(&self) -> &'a str {
        if self.arguments.is_empty() {
            "{}"
        } else {
            self.arguments
        }
    }

    /// The contents as one JSON value, byte for byte.
    pub(crate) fn json(&self) -> Result<RawJson> {
        RawJson::parse(Bytes::copy_from_slice(self.data)).map_err(|error| error.into())
    }

    /// The contents as several JSON values of these lengths, each byte for byte.
    pub(crate) fn json_list(&self, lengths: &[usize]) -> Result<Vec<RawJson>> {
        let all = Bytes::copy_from_slice(self.data);
        let mut start = 0_usize;
        let mut values = Vec::with_capacity(lengths.len());
        for length in lengths {
            let end = start.checked_add(*length).filter(|end| *end <= all.len());
            let end = end.ok_or_else(|| {
                Failure::invalid(format!("{}: contents are missing", self.method))
            })?;
            values.push(RawJson::parse(all.slice(start..end))?);
            start = end;
        }
        Ok(values)
    }
}

/// The arguments that a call's table lists, by name. Each is read by its type: a decoder of all of them together would be
/// compiled for every call.
pub(crate) struct Named<'a> {
    fields: Vec<(String, &'a RawValue)>,
}

impl Named<'_> {
    /// The argument with a name, in Rust's spelling; `absent` returns the value of a missing one.
    #[inline(never)]
    pub(crate) fn take<T: DeserializeOwned>(
        &self,
        name: &str,
        absent: fn() -> Option<T>,
    ) -> Result<T> {
        let (name, value) = self.find(name);
        match value {
            Some(value) => read_json_at(&name, value).map_err(refused),
            None => absent().ok_or_else(|| refused(format!("`{name}` is missing"))),
        }
    }

    /// The name in JavaScript, and the JSON that was given.
    fn find<'n>(&self, name: &'n str) -> (Cow<'n, str>, Option<&str>) {
        let name = in_javascript(name);
        let found = self.fields.iter().find(|(given, _)| *given == name);
        (name, found.map(|(_, value)| value.get()))
    }
}

/// The value of a missing argument of this type: `None` if it is an option.
pub(crate) struct Absent<T>(PhantomData<T>);

/// A missing argument of any other type is an error.
pub(crate) trait Required<T> {
    fn value(&self) -> Option<T>;
}

impl<T> Absent<T> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<T> Absent<Option<T>> {
    #[expect(clippy::unused_self, reason = "`Required` has the same method")]
    #[expect(clippy::option_option, reason = "one that is given to be nothing")]
    pub(crate) fn value(&self) -> Option<Option<T>> {
        Some(None)
    }
}

impl<T> Required<T> for Absent<T> {
    fn value(&self) -> Option<T> {
        None
    }
}

/// The fields of an object, by their names in the input.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Fields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}

fn unknown(name: &str, names: &[&str]) -> String {
    let known: Vec<_> = names
        .iter()
        .map(|name| format!("`{}`", in_javascript(name)))
        .collect();
    let known = if known.is_empty() {
        "none are".to_owned()
    } else {
        format!("known are {}", known.join(", "))
    };
    format!("`{name}` is not a field that is known here; {known}")
}

fn refused(message: String) -> Failure {
    Failure::invalid(message_in_javascript(&message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(arguments: &str) -> Input<'_> {
        Input {
            method: "it",
            arguments,
            data: b"",
        }
    }

    /// What a call answers that takes `run`, `stackDepth` and, where it is given, `limit`.
    fn called(arguments: &str) -> std::result::Result<(String, u32, Option<u32>), String> {
        let read = || {
            let given = input(arguments).named(&["run", "stack_depth", "limit"])?;
            let run = given.take("run", || Absent::<String>::NEW.value())?;
            let depth = given.take("stack_depth", || Some(7))?;
            let limit = given.take("limit", || Absent::<Option<u32>>::NEW.value())?;
            Ok((run, depth, limit))
        };
        read().map_err(|failure: Failure| failure.message)
    }

    #[test]
    fn arguments_are_read_by_their_names_in_javascript() {
        assert_eq!(
            called(r#"{"limit":2,"stackDepth":1,"ru\u006e":"a"}"#),
            Ok(("a".into(), 1, Some(2)))
        );
        assert_eq!(called(r#"{"run":"a"}"#), Ok(("a".into(), 7, None)));
        assert_eq!(
            called(r#"{"run":"a","limit":null}"#),
            Ok(("a".into(), 7, None))
        );
        assert!(input("").named(&[]).is_ok());
    }

    #[test]
    fn what_is_wrong_with_an_argument_is_told_by_its_name() {
        for (arguments, message) in [
            ("{}", "`run` is missing"),
            ("5", "5 is not an object"),
            (
                r#"{"run":"a","stackDepth":-1}"#,
                "`stackDepth`: -1 is not a whole number, 0 or more",
            ),
            (
                r#"{"run":"a","stack_depth":1}"#,
                "`stack_depth` is not a field that is known here; known are `run`, `stackDepth`, `limit`",
            ),
            (r#"{"run":"a","run":"b"}"#, "`run` is given twice"),
            (
                r#"{"run":"#,
                "it is not JSON: EOF while parsing a value at line 1 column 7",
            ),
        ] {
            assert_eq!(called(arguments), Err(message.to_owned()), "{arguments}");
        }
        let none = input(r#"{"a":1}"#).named(&[]).map(drop).unwrap_err();
        assert_eq!(
            none.message,
            "`a` is not a field that is known here; none are"
        );
    }

    #[test]
    fn contents_that_are_too_short_are_refused() {
        let input = Input {
            method: "it",
            arguments: "",
            data: b"1[2]",
        };
        let found = input.json_list(&[1, 3]).unwrap();
        assert_eq!(
            found.iter().map(RawJson::as_str).collect::<Vec<_>>(),
            ["1", "[2]"]
        );
        for lengths in [&[1, 4][..], &[usize::MAX, 2], &[5]] {
            assert_eq!(input.json_list(lengths).unwrap_err().code, "invalid_input");
        }
    }
}
