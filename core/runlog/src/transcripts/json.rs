//! Slices of JSON: which part of a text is a field's value or an array's element, byte for byte.
//!
//! Invariant: what is returned is a slice of what was given, and nothing is allocated per field or element
//! that the caller didn't ask for, so that hostile input costs no more memory than its own size.

use std::{borrow::Cow, fmt, ops::Range};

use bytes::Bytes;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// The values of the fields called `names` in the JSON object `text`; of a repeated name, the last.
///
/// # Errors
/// When `text` isn't one JSON object.
pub(super) fn fields<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> Result<[Option<&'a str>; N], serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = Fields { names }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

/// Calls `each` with every element of the JSON array `text`.
///
/// # Errors
/// When `text` isn't one JSON array.
pub(super) fn for_each_element<'a>(
    text: &'a str,
    each: impl FnMut(&'a str),
) -> Result<(), serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    Elements { each }.deserialize(&mut deserializer)?;
    deserializer.end()
}

/// The text of a JSON string; `None` when the value is something else, or no Unicode text.
pub(super) fn string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

/// What kind of JSON value `value` is, for a message.
pub(super) fn kind_of(value: &str) -> &'static str {
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

/// Where `part`, a slice of `whole`, lies in it.
pub(super) fn span(whole: &str, part: &str) -> Range<usize> {
    let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    assert!(
        start <= whole.len() && part.len() <= whole.len() - start,
        "not a slice of the text"
    );
    start..start + part.len()
}

/// The same slice as [`Bytes`] that share `whole`'s memory.
pub(super) fn share(whole: &Bytes, part: &str) -> Bytes {
    whole.slice_ref(part.as_bytes())
}

struct Fields<'n, const N: usize> {
    names: [&'n str; N],
}

impl<'de, const N: usize> DeserializeSeed<'de> for Fields<'_, N> {
    type Value = [Option<&'de str>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de str>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(Key(key)) = map.next_key()? {
            match self.names.iter().position(|name| *name == key) {
                Some(slot) => found[slot] = Some(map.next_value::<&'de RawValue>()?.get()),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

struct Elements<F> {
    each: F,
}

impl<'de, F: FnMut(&'de str)> DeserializeSeed<'de> for Elements<F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(&'de str)> Visitor<'de> for Elements<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(element) = sequence.next_element::<&'de RawValue>()? {
            (self.each)(element.get());
        }
        Ok(())
    }
}
