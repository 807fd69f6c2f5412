//! Fields of a JSON object and elements of a JSON array, as slices of the text: nothing else is read, kept or
//! allocated, so that what this build doesn't know can't make it refuse a message or use up memory.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The values of the fields called `names` in a JSON object; `None` for one that isn't there, or is `null`.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't an object, or has one of the names twice.
pub(crate) fn fields<'a, const N: usize>(
    text: &'a str,
    what: &str,
    names: [&'static str; N],
) -> Result<[Option<&'a RawValue>; N]> {
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Error::invalid(format!(
            "{what} should be a JSON object, but begins {:?}",
            beginning(text)
        )));
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let found = deserializer.deserialize_map(Fields { names });
    found.map_err(|source| Error::invalid(format!("{what} can't be read: {source}")))
}

/// Whether an object that was checked to be one has a field of this name, null or not.
pub(crate) fn has_field(text: &str, name: &'static str) -> bool {
    serde_json::Deserializer::from_str(text)
        .deserialize_map(Has { name })
        .unwrap_or(false)
}

/// Gives every element of a JSON array to `take`, until that fails.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't an array; else what `take` returns.
pub(crate) fn each_element<'a>(
    array: &'a RawValue,
    what: &str,
    take: impl FnMut(&'a RawValue) -> Result<()>,
) -> Result<()> {
    let text = array.get();
    if !text.starts_with('[') {
        return Err(Error::invalid(format!(
            "{what} should be an array, but begins {:?}",
            beginning(text)
        )));
    }
    let mut failed = None;
    let read = serde_json::Deserializer::from_str(text).deserialize_seq(Elements {
        take,
        failed: &mut failed,
    });
    match (failed, read) {
        (Some(error), _) => Err(error),
        (None, read) => {
            read.map_err(|source| Error::invalid(format!("{what} can't be read: {source}")))
        }
    }
}

/// The first characters of a text, for a message.
pub(crate) fn beginning(text: &str) -> &str {
    match text.char_indices().nth(40) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

struct Fields<const N: usize> {
    names: [&'static str; N],
}

impl<'de, const N: usize> Visitor<'de> for Fields<N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut found = [None; N];
        let mut seen = [false; N];
        while let Some(place) = map.next_key_seed(Name { names: &self.names })? {
            let Some(place) = place else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            if std::mem::replace(&mut seen[place], true) {
                return Err(A::Error::custom(format_args!(
                    "duplicate field `{}`",
                    self.names[place]
                )));
            }
            found[place] =
                Some(map.next_value::<&'de RawValue>()?).filter(|value| value.get() != "null");
        }
        Ok(found)
    }
}

/// Which of the names a key is. A key is read as bytes: it may be spelt with escapes that are no text.
struct Has {
    name: &'static str,
}

impl<'de> Visitor<'de> for Has {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<bool, A::Error> {
        let mut found = false;
        while let Some(place) = map.next_key_seed(Name {
            names: &[self.name],
        })? {
            found |= place.is_some();
            map.next_value::<IgnoredAny>()?;
        }
        Ok(found)
    }
}

struct Name<'n, const N: usize> {
    names: &'n [&'static str; N],
}

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
        Ok(self.names.iter().position(|name| name.as_bytes() == key))
    }
}

struct Elements<'f, F> {
    take: F,
    failed: &'f mut Option<Error>,
}

impl<'de, F: FnMut(&'de RawValue) -> Result<()>> Visitor<'de> for Elements<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON array")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        mut self,
        mut elements: A,
    ) -> std::result::Result<(), A::Error> {
        while let Some(element) = elements.next_element::<&'de RawValue>()? {
            if let Err(error) = (self.take)(element) {
                *self.failed = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
