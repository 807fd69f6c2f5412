//! An id that a caller gives to what is made, told apart from one that is left out.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor},
    forward_to_deserialize_any,
};

/// How the error of an empty one ends, behind its name.
pub(super) const EMPTY: &str = " is empty; leave it out for a fresh one";

/// Reads a value from a caller, in whose type an empty id stands for a fresh one: `field`, where it is given, may not be
/// empty; `named` is what the caller calls it. One that gives one believes that it has an id, and wouldn't find again what is made.
///
/// ```
/// use runlog_model::{Chat, read_with_own_id};
///
/// let read = |text| read_with_own_id::<Chat, _>("chat_id", "chatId", &mut serde_json::Deserializer::from_str(text));
/// assert!(read(r#"{"assistant_id":"a"}"#).is_ok());
/// assert!(read(r#"{"assistant_id":"a","chat_id":""}"#).is_err());
/// ```
///
/// # Errors
/// Those of the deserializer, and one of the field.
pub fn read_with_own_id<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    field: &'static str,
    named: &str,
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize(Watched {
        inner: deserializer,
        field,
        named,
        is_next: false,
    })
}

/// A wrapper that looks at one field while deserializing: around a deserializer, a visitor, the fields.
struct Watched<'n, T> {
    inner: T,
    field: &'static str,
    /// What the caller calls it.
    named: &'n str,
    /// Whether the next value is that of the field.
    is_next: bool,
}

impl<'n, T> Watched<'n, T> {
    fn around<U>(&self, inner: U) -> Watched<'n, U> {
        Watched {
            inner,
            field: self.field,
            named: self.named,
            is_next: false,
        }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Watched<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let visitor = self.around(visitor);
        self.inner.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Watched<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let fields = self.around(fields);
        self.inner.visit_map(fields)
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Watched<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.inner.next_key::<String>()? else {
            return Ok(None);
        };
        self.is_next = key == self.field;
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        if !self.is_next {
            return self.inner.next_value_seed(seed);
        }
        let id: String = self.inner.next_value()?;
        if id.is_empty() {
            return Err(A::Error::custom(format!("`{}`{EMPTY}", self.named)));
        }
        seed.deserialize(id.into_deserializer())
    }
}
