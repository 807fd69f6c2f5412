//! [`to_javascript`]: an answer as JSON, with JavaScript's names.
//!
//! Serde distinguishes a field of a struct from a key of a map, so exactly the fields of Rust types are renamed; keys
//! of users' JSON are unchanged. A field that is `None` is left out, even if its type writes it to files.

use serde::ser::{
    self, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde_json::Error;

use crate::{Failure, Result, names::in_javascript};

/// The serde name of JSON text that is written unchanged: [`runlog::RawJson`].
const RAW: &str = "RawJson";
/// The serde name of a field name that a caller added to a chat or a run, unknown to Runlog.
const EXTRA: &str = "ExtraName";

type Done<T = Kind> = std::result::Result<T, Error>;

/// A value as JSON for JavaScript.
pub(crate) fn to_javascript<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    let mut text = String::new();
    let written = value.serialize(Writer { text: &mut text });
    written.map_err(|error| Failure::invalid(format!("the answer has no JSON form: {error}")))?;
    Ok(text)
}

/// The kind of a written value, which decides how its field is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `None`: the field is left out.
    Nothing,
    /// The key of a field that is unknown to Runlog.
    Extra,
    /// Anything else.
    Other,
}

/// Writes one value at the end of a text.
struct Writer<'t> {
    text: &'t mut String,
}

/// The items of a list, or the fields of an object, that are being written.
struct Items<'t> {
    text: &'t mut String,
    is_first: bool,
    /// Whether keys are names of Rust fields. A struct with flattened fields is serialized as a map of unknown length.
    has_names: bool,
    /// The key whose value comes next, as JSON, and whether it is the name of a Rust field.
    key: (String, bool),
    end: &'static str,
}

macro_rules! scalars {
    ($kind:expr; $($method:ident $type:ty),+) => {
        $(fn $method(self, value: $type) -> Done {
            self.text.push_str(&serde_json::to_string(&value)?);
            Ok($kind)
        })+
    };
}

impl<'t> Writer<'t> {
    fn items(self, begin: &str, end: &'static str) -> Items<'t> {
        self.text.push_str(begin);
        Items {
            text: self.text,
            is_first: true,
            has_names: false,
            key: (String::new(), false),
            end,
        }
    }

    /// An object of one field: how a variant with contents is written.
    fn variant(self, name: &str, begin: &str, end: &'static str) -> Done<Items<'t>> {
        let key = serde_json::to_string(name)?;
        Ok(self.items(&format!("{{{key}:{begin}"), end))
    }
}

impl<'t> ser::Serializer for Writer<'t> {
    type Ok = Kind;
    type Error = Error;
    type SerializeSeq = Items<'t>;
    type SerializeTuple = Items<'t>;
    type SerializeTupleStruct = Items<'t>;
    type SerializeTupleVariant = Items<'t>;
    type SerializeMap = Items<'t>;
    type SerializeStruct = Items<'t>;
    type SerializeStructVariant = Items<'t>;

    scalars!(Kind::Other; serialize_i8 i8, serialize_i16 i16, serialize_i32 i32, serialize_i64 i64);
    scalars!(Kind::Other; serialize_u8 u8, serialize_u16 u16, serialize_u32 u32, serialize_u64 u64);
    scalars!(Kind::Other; serialize_f32 f32, serialize_f64 f64);
    scalars!(Kind::Other; serialize_bool bool, serialize_char char, serialize_str &str, serialize_bytes &[u8]);

    fn serialize_none(self) -> Done {
        self.text.push_str("null");
        Ok(Kind::Nothing)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Done {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Done {
        self.text.push_str("null");
        Ok(Kind::Other)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Done {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Done {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Done {
        match name {
            RAW => {
                self.text.push_str(&serde_json::to_string(value)?);
                Ok(Kind::Other)
            }
            EXTRA => value.serialize(self).map(|_| Kind::Extra),
            _ => value.serialize(self),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Done {
        let mut items = self.variant(variant, "", "}")?;
        SerializeSeq::serialize_element(&mut items, value)?;
        SerializeSeq::end(items)
    }

    fn serialize_seq(self, _: Option<usize>) -> Done<Items<'t>> {
        Ok(self.items("[", "]"))
    }

    fn serialize_tuple(self, _: usize) -> Done<Items<'t>> {
        Ok(self.items("[", "]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Done<Items<'t>> {
        Ok(self.items("[", "]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Done<Items<'t>> {
        self.variant(variant, "[", "]}")
    }

    fn serialize_map(self, length: Option<usize>) -> Done<Items<'t>> {
        let items = self.items("{", "}");
        Ok(Items {
            has_names: length.is_none(),
            ..items
        })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Done<Items<'t>> {
        Ok(self.items("{", "}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Done<Items<'t>> {
        self.variant(variant, "{", "}}")
    }
}

impl Items<'_> {
    fn begin_item(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.text.push(',');
        }
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Done<()> {
        self.begin_item();
        value.serialize(Writer { text: self.text })?;
        Ok(())
    }

    /// A field with its name in Rust.
    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Done<()> {
        let mut text = String::new();
        let kind = value.serialize(Writer { text: &mut text })?;
        if kind == Kind::Nothing {
            return Ok(());
        }
        self.begin_item();
        let own = in_javascript(name);
        self.text.push_str(&serde_json::to_string(&own)?);
        self.text.push(':');
        self.text.push_str(&text);
        Ok(())
    }

    fn close(self) -> Done {
        self.text.push_str(self.end);
        Ok(Kind::Other)
    }
}

macro_rules! lists {
    ($($list:ident $method:ident),+) => {
        $(impl $list for Items<'_> {
            type Ok = Kind;
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Done<()> {
                self.item(value)
            }

            fn end(self) -> Done {
                self.close()
            }
        })+
    };
}

lists!(SerializeSeq serialize_element, SerializeTuple serialize_element);
lists!(SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

macro_rules! objects {
    ($($object:ident),+) => {
        $(impl $object for Items<'_> {
            type Ok = Kind;
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Done<()> {
                self.field(name, value)
            }

            fn end(self) -> Done {
                self.close()
            }
        })+
    };
}

objects!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Items<'_> {
    type Ok = Kind;
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Done<()> {
        let mut text = String::new();
        let kind = key.serialize(Writer { text: &mut text })?;
        self.key = (text, self.has_names && kind != Kind::Extra);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Done<()> {
        let (key, is_name) = std::mem::take(&mut self.key);
        if is_name {
            return self.field(key.trim_matches('"'), value);
        }
        self.begin_item();
        self.text.push_str(&key);
        self.text.push(':');
        value.serialize(Writer { text: self.text })?;
        Ok(())
    }

    fn end(self) -> Done {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use runlog::{RawJson, chats::Chat};
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[derive(Serialize)]
    struct Told {
        run_id: u32,
        left_out: Option<u32>,
        created_at_ms: u64,
        of_user: BTreeMap<&'static str, u32>,
        raw_json: RawJson,
        nothing: RawJson,
        kind: Shape,
        others: Vec<Shape>,
    }

    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        HookNext,
        Closed { by_whom: &'static str },
        Named(&'static str),
    }

    #[test]
    fn fields_are_renamed_and_what_users_named_is_not() {
        let answer = Told {
            run_id: 1,
            left_out: None,
            created_at_ms: 5,
            of_user: BTreeMap::from([("a_b", 1), ("null_it", 2)]),
            raw_json: RawJson::parse(r#"{ "c_d": 1.0 }"#).unwrap(),
            nothing: RawJson::null(),
            kind: Shape::HookNext,
            others: vec![Shape::Closed { by_whom: "\"" }, Shape::Named("x_y")],
        };
        assert_eq!(
            to_javascript(&answer).unwrap(),
            r#"{"runId":1,"createdAtMs":5,"ofUser":{"a_b":1,"null_it":2},"rawJson":{ "c_d": 1.0 },"nothing":null,"#.to_owned()
                + r#""kind":"hook_next","others":[{"closed":{"byWhom":"\""}},{"named":"x_y"}]}"#
        );
        assert_eq!(to_javascript(&None::<u8>).unwrap(), "null");
        assert_eq!(
            to_javascript(&json!([1.5, {"a_b": null}])).unwrap(),
            r#"[1.5,{"a_b":null}]"#
        );
    }

    #[test]
    fn unknown_fields_of_a_chat_keep_their_names() {
        let mut chat = Chat::new("a");
        chat.team_id = Some("t".into());
        chat.extra.insert("user_s_own".into(), json!({"a_b": 1}));
        let text = to_javascript(&chat).unwrap();
        assert!(text.contains(r#""teamId":"t""#), "{text}");
        assert!(text.contains(r#""user_s_own":{"a_b":1}"#), "{text}");
    }
}
