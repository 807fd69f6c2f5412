//! [`Given`]: a value from JavaScript whose fields are in snake_case in Rust and in files.

use std::{fmt, marker::PhantomData};

use runlog::{
    AgentDefinition,
    chats::{Chat, ChatMessage, Step, Updates},
    contexts::read_with_own_id,
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, IntoDeserializer, MapAccess, Visitor},
    forward_to_deserialize_any,
};

use crate::names::in_javascript;

/// A type that keeps unknown fields, with the names of its known ones.
pub(crate) trait KnownFields {
    const NAMES: &'static [&'static str];
    /// The field that is its own id, which is a fresh one where it is left out.
    const ID: Option<&'static str>;
}

macro_rules! known_fields {
    ($($of:ty, $id:expr;)+) => {
        $(impl KnownFields for $of {
            const NAMES: &'static [&'static str] = &<$of>::NAMES;
            const ID: Option<&'static str> = $id;
        })+
    };
}

known_fields! {
    AgentDefinition, None;
    Chat, Some("chat_id");
    ChatMessage, Some("message_id");
    Step, Some("step_id");
}

/// A `T` whose JSON has the known fields in JavaScript's spelling. Unknown fields keep their names.
#[derive(Clone, Debug)]
pub(crate) struct Given<T>(pub(crate) T);

/// New values for some fields of an `Of`, by their names in JavaScript.
#[derive(Clone, Debug)]
pub(crate) struct GivenUpdates<Of> {
    pub(crate) updates: Updates,
    of: PhantomData<fn() -> Of>,
}

impl<'de, T: Deserialize<'de> + KnownFields> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let renamed = Renamed::of::<T>(deserializer);
        match T::ID {
            None => T::deserialize(renamed),
            Some(id) => read_with_own_id(id, &in_javascript(id), renamed),
        }
        .map(Self)
    }
}

impl<'de, Of: KnownFields> Deserialize<'de> for GivenUpdates<Of> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let updates = Updates::deserialize(Renamed::of::<Of>(deserializer))?;
        Ok(Self {
            updates,
            of: PhantomData,
        })
    }
}

/// A wrapper that renames an object's keys while deserializing: around a deserializer, a visitor, the fields, a key.
struct Renamed<T> {
    inner: T,
    names: &'static [&'static str],
}

impl<T> Renamed<T> {
    fn of<Of: KnownFields>(inner: T) -> Self {
        Self {
            inner,
            names: Of::NAMES,
        }
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Renamed<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let Self { inner, names } = self;
        inner.deserialize_map(Renamed {
            inner: visitor,
            names,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Renamed<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
        let names = self.names;
        self.inner.visit_map(Renamed {
            inner: fields,
            names,
        })
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Renamed<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.inner.next_key::<String>()? else {
            return Ok(None);
        };
        let known = self.names.iter().find(|name| in_javascript(name) == key);
        if known.is_none() {
            self.refuse_time_without_unit(&key)?;
        }
        let key = known.map_or(key, |name| (*name).to_owned());
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.inner.next_value_seed(seed)
    }
}

impl<T> Renamed<T> {
    /// Refuses `createdAt` where `createdAtMs` is known: as a field that isn't known it would be kept, and the time be lost.
    fn refuse_time_without_unit<E: de::Error>(&self, key: &str) -> Result<(), E> {
        let meant = self.names.iter().map(|name| in_javascript(name));
        match meant
            .into_iter()
            .find(|name| name.strip_suffix("Ms") == Some(key))
        {
            None => Ok(()),
            Some(meant) => Err(E::custom(format!(
                "`{key}` is not a field that is known here; a time is `{meant}`, in milliseconds since 1970-01-01 UTC"
            ))),
        }
    }
}

#[cfg(feature = "schema")]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator};

    use super::{Given, GivenUpdates};

    impl<T: JsonSchema> JsonSchema for Given<T> {
        fn inline_schema() -> bool {
            true
        }

        fn schema_name() -> Cow<'static, str> {
            T::schema_name()
        }

        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            generator.subschema_for::<T>()
        }
    }

    impl<Of: JsonSchema> JsonSchema for GivenUpdates<Of> {
        fn schema_name() -> Cow<'static, str> {
            format!("Updates_for_{}", Of::schema_name()).into()
        }

        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            schemars::json_schema!({ "type": "object" })
        }
    }
}

#[cfg(test)]
mod tests {
    use runlog::contexts::read_json;

    use super::*;

    #[test]
    fn known_fields_are_read_by_their_names_in_javascript() {
        let text =
            r#"{"chatId":"c","assistantId":"a","createdBy":"u","stackId":1,"user_s":{"teamId":2}}"#;
        let Given(chat) = read_json::<Given<Chat>>(text).unwrap();
        assert_eq!(
            (&*chat.assistant_id, chat.created_by.as_deref()),
            ("a", Some("u"))
        );
        assert_eq!(chat.extra.len(), 2);
        assert_eq!(chat.extra["user_s"]["teamId"], 2);
        let given = read_json::<GivenUpdates<Step>>(r#"{"stackDepth":1,"teamId":null}"#).unwrap();
        assert_eq!(
            given.updates,
            Updates::parse(r#"{"stack_depth":1,"teamId":null}"#).unwrap()
        );
    }

    #[test]
    fn an_id_of_its_own_that_is_given_is_not_empty() {
        let refusal = |text| read_json::<Vec<Given<ChatMessage>>>(text).map(drop);
        let given = r#"[{"role":"user","type":"text","props":{}},{"messageId":"","role":"user"}]"#;
        assert_eq!(
            refusal(given).unwrap_err(),
            "`[1].messageId` is empty; leave it out for a fresh one"
        );
        assert!(refusal(r#"[{"role":"user","type":"text","props":{}}]"#).is_ok());
        let of_chat = read_json::<Given<Chat>>(r#"{"assistantId":"a","chatId":""}"#).unwrap_err();
        assert_eq!(of_chat, "`chatId` is empty; leave it out for a fresh one");
        let of_step = read_json::<Given<Step>>(r#"{"stepId":""}"#).unwrap_err();
        assert!(of_step.starts_with("`stepId` is empty"), "{of_step}");
        let number = read_json::<Given<Chat>>(r#"{"chatId":5}"#).unwrap_err();
        assert_eq!(number, "`chatId`: 5 is not a text");
    }

    #[test]
    fn a_time_without_its_unit_is_refused() {
        let text = r#"{"chatId":"c","assistantId":"a","createdAtMs":5}"#;
        assert_eq!(read_json::<Given<Chat>>(text).unwrap().0.created_at_ms, 5);
        let text = text.replace("AtMs", "At");
        let refused = read_json::<Given<Chat>>(&text).unwrap_err();
        assert!(
            refused
                .contains("`createdAt` is not a field that is known here; a time is `createdAtMs`"),
            "{refused}"
        );
        let updates = read_json::<GivenUpdates<Step>>(r#"{"dismissedAt":"now"}"#);
        assert!(updates.unwrap_err().contains("`dismissedAtMs`"));
    }

    #[test]
    fn what_is_wrong_is_told_of_the_field_that_was_given() {
        let refusal = |text| read_json::<Vec<Given<Step>>>(text).map(drop).unwrap_err();
        assert!(
            refusal("[5]").contains("5 is not an object"),
            "{}",
            refusal("[5]")
        );
        let wrong = refusal(r#"[{"stackDepth":"x"}]"#);
        assert!(wrong.contains("\"x\" is not a whole number"), "{wrong}");
    }
}
