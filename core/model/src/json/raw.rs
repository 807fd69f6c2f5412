//! [`RawJson`]: JSON text kept byte for byte.
//!
//! Invariant: the bytes are UTF-8, and exactly those that were given, white space, key order, number spelling and
//! escapes included.

use std::{borrow::Cow, fmt};

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    read_json,
    slices::{fields, for_each_element, has_field},
};
use crate::{Error, Result};

/// JSON text, validated once and never re-serialised.
///
/// ```
/// use runlog_model::RawJson;
///
/// let json = RawJson::parse(r#"{ "b": 1.0, "a": "\u00e9" }"#)?;
/// assert_eq!(json.as_str(), r#"{ "b": 1.0, "a": "\u00e9" }"#);
/// let title = "Fix it";
/// assert_eq!(RawJson::parse(&format!(r#"{{"title":"{title}"}}"#))?.as_str(), r#"{"title":"Fix it"}"#);
/// assert!(RawJson::parse("{ not json").is_err());
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RawJson(#[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))] Bytes);

/// The schema of JSON that has to be an object.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
pub(crate) struct JsonObject {}

/// The schema of JSON that has to be an object, or `null`, which removes it.
#[cfg(feature = "schema")]
pub(crate) struct JsonObjectOrNull;

#[cfg(feature = "schema")]
impl schemars::JsonSchema for JsonObjectOrNull {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "JsonObjectOrNull".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let object = generator.subschema_for::<JsonObject>();
        schemars::json_schema!({"anyOf": [object, {"const": null}]})
    }
}

/// The types that JSON text is accepted as: text or bytes, owned without a copy, or borrowed with any lifetime.
pub trait JsonText {
    /// The bytes of the text.
    fn into_bytes(self) -> Bytes;
}

impl JsonText for Bytes {
    fn into_bytes(self) -> Bytes {
        self
    }
}

impl JsonText for String {
    fn into_bytes(self) -> Bytes {
        self.into()
    }
}

impl JsonText for Vec<u8> {
    fn into_bytes(self) -> Bytes {
        self.into()
    }
}

impl<T: AsRef<[u8]> + ?Sized> JsonText for &T {
    fn into_bytes(self) -> Bytes {
        Bytes::copy_from_slice(self.as_ref())
    }
}

impl RawJson {
    /// JSON text as given, after a check that it is one whole JSON value.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't, with line and column.
    pub fn parse(text: impl JsonText) -> Result<Self> {
        let bytes = text.into_bytes();
        serde_json::from_slice::<&RawValue>(&bytes).map_err(|source| {
            Error::invalid(format!(
                "content is not valid JSON: {source}; give one whole JSON value in UTF-8"
            ))
        })?;
        // The check above reads the value only; the white space around it must be text too, and it is JSON's own.
        Ok(Self(bytes))
    }

    /// JSON text that was validated before it was stored: only that it is UTF-8 is checked here, so that
    /// replaying costs no second parse. Text that isn't JSON after all is an error where it is used.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the bytes aren't UTF-8.
    pub fn from_stored(bytes: Bytes) -> Result<Self> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(Self(bytes)),
            Err(source) => Err(Error::damaged(format!(
                "stored content should be UTF-8, but {source}"
            ))),
        }
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the value has no JSON form, such as a map with
    /// keys that aren't strings.
    pub fn from_value(value: &impl Serialize) -> Result<Self> {
        match serde_json::to_vec(value) {
            Ok(bytes) => Ok(Self(bytes.into())),
            Err(source) => Err(Error::invalid(format!(
                "the value can't be written as JSON: {source}"
            ))),
        }
    }

    /// A JSON string of this text.
    pub fn string(text: &str) -> Self {
        let json = serde_json::to_vec(text).expect("a string always has a JSON form");
        Self(json.into())
    }

    /// The JSON value `null`.
    pub const fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// Whether it is a JSON string.
    pub fn is_text(&self) -> bool {
        self.0.trim_ascii_start().starts_with(b"\"")
    }

    /// Whether it is an array of content parts as providers take them: objects that each have a `type`, at least one.
    pub fn is_content_parts(&self) -> bool {
        #[derive(Deserialize)]
        struct Part<'a> {
            #[serde(borrow, rename = "type")]
            _type: Cow<'a, str>,
        }
        self.0.trim_ascii_start().starts_with(b"[")
            && serde_json::from_slice::<Vec<Part<'_>>>(&self.0).is_ok_and(|parts| !parts.is_empty())
    }

    /// Whether it is an array of blocks as a tool result of Bedrock's Converse has them: objects with one of their fields and no
    /// `type`.
    pub fn is_converse_content(&self) -> bool {
        const BLOCKS: [&str; 5] = ["text", "json", "image", "document", "video"];
        let (mut count, mut fit) = (0_usize, self.as_str().starts_with('['));
        let read = for_each_element(self.as_str(), |block| {
            count += 1;
            // A text is a string; what the others hold is theirs.
            let is_text = |[text]: [Option<&str>; 1]| text.is_none_or(|raw| raw.starts_with('"'));
            fit = fit
                && block.starts_with('{')
                && !has_field(block, "type")
                && BLOCKS.iter().any(|name| has_field(block, name))
                && fields(block, ["text"]).is_ok_and(is_text);
        });
        fit && read.is_ok() && count > 0
    }

    /// The JSON that a JSON string has as its text; `None` where it isn't one, or its text is no JSON.
    pub(crate) fn in_text(&self) -> Option<Self> {
        let text: String = serde_json::from_slice(&self.0).ok()?;
        Self::parse(text).ok()
    }

    /// The text, exactly as given.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("raw JSON is checked to be UTF-8 when it is made")
    }

    /// The bytes, exactly as given.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, exactly as given, without a copy.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The value of the text as a type of the caller's.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the text doesn't have that shape: which field, and its value.
    pub fn to_value<T: DeserializeOwned>(&self) -> Result<T> {
        read_json(self.as_str()).map_err(|message| {
            Error::invalid(format!(
                "the JSON doesn't have the expected shape: {message}"
            ))
        })
    }

    /// A copy of a slice of JSON text that is one whole value.
    pub(crate) fn from_slice(value: &str) -> Self {
        Self(Bytes::copy_from_slice(value.as_bytes()))
    }

    /// Puts bytes in before the last `tail` ones; the caller makes sure that it is JSON again. In place where nobody else has the text: one
    /// that grows by many small parts isn't copied for each.
    pub(crate) fn insert(&mut self, tail: usize, bytes: &[u8]) {
        let text = std::mem::take(&mut self.0);
        let mut text = text.try_into_mut().unwrap_or_else(|shared| {
            let mut own = BytesMut::with_capacity(shared.len() + bytes.len());
            own.extend_from_slice(&shared);
            own
        });
        let at = text.len() - tail;
        let end = text[at..].to_vec();
        text.truncate(at);
        text.extend_from_slice(bytes);
        text.extend_from_slice(&end);
        self.0 = text.freeze();
    }

    pub(crate) fn from_own_text(text: String) -> Self {
        debug_assert!(
            serde_json::from_str::<&RawValue>(&text).is_ok(),
            "made text should be JSON: {text}"
        );
        Self(text.into())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.0).map_err(serde::ser::Error::custom)?;
        // Its name tells serializers that write more than JSON that this text stays as it is.
        serializer.serialize_newtype_struct("RawJson", raw)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Self(String::from(Box::<str>::from(raw)).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kept_byte_for_byte() {
        for text in [
            " {\"a\" : 1.50}\n",
            "\"\\u00e9\\/\"",
            "1e5",
            "[ ]",
            "null",
            "\"\\ud800\"",
        ] {
            assert_eq!(RawJson::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_not_one_json_value_is_refused() {
        for bytes in [
            &b""[..],
            b"{",
            b"{} {}",
            b"\xff",
            b"\"\xff\"",
            b"nul",
            b"\xef\xbb\xbf{}",
            b"{}\xff",
        ] {
            let error = RawJson::parse(Bytes::from_static(bytes)).unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{bytes:?}");
        }
    }

    #[test]
    fn nesting_of_any_depth_is_read_without_recursion() {
        let deep = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
        assert_eq!(RawJson::parse(deep.clone()).unwrap().as_str(), deep);
    }

    #[test]
    fn a_value_of_another_shape_is_told_by_field_and_value() {
        let json = RawJson::parse(r#"{"a":1,"b":"x"}"#).unwrap();
        let message = json
            .to_value::<std::collections::BTreeMap<String, u32>>()
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            r#"the JSON doesn't have the expected shape: `b`: "x" is not a whole number, 0 or more"#
        );
    }

    #[test]
    fn an_embedded_value_is_written_verbatim() {
        let json = RawJson::parse(r#"{"x":1.0}"#).unwrap();
        assert_eq!(serde_json::to_string(&[&json]).unwrap(), r#"[{"x":1.0}]"#);
        let back: Vec<RawJson> = serde_json::from_str(r#"[{ "x":1.0}]"#).unwrap();
        assert_eq!(back[0].as_str(), r#"{ "x":1.0}"#);
    }
}
