//! How many bytes a value has as JSON, without writing it: who bounds what waits asks that of all of it, again for each
//! that comes.

use serde_json::{Map, Value};

/// As many as [`serde_json::to_vec`] writes.
pub(crate) fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => 2 + string_bytes(text),
        Value::Array(items) => 1 + items.len().max(1) + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => 1 + fields.len().max(1) + fields_bytes(fields),
    }
}

/// Those of an object's fields, with their colons, without commas and braces.
pub(crate) fn fields_bytes(fields: &Map<String, Value>) -> usize {
    let field = |(name, value): (&String, &Value)| string_bytes(name) + 3 + json_bytes(value);
    fields.iter().map(field).sum()
}

/// How many bytes a text has in a string of JSON, without the quotes.
pub fn string_bytes(text: &str) -> usize {
    // What a chunk's escapes add fits into a byte, so that the compiler makes one instruction of many additions.
    let added = text.as_bytes().chunks(32).map(|chunk| {
        let added = chunk.iter().fold(0_u8, |sum, byte| {
            let is_short = matches!(byte, b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12);
            // `\u0001`, but for those that have a letter.
            let is_long = *byte < b' ' && !is_short;
            sum + u8::from(is_short) + 5 * u8::from(is_long)
        });
        usize::from(added)
    });
    text.len() + added.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[\u{0}-\u{7f}\"\\\\]{0,100}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map("[\u{0}-\u{7f}]{0,9}", inner, 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_size_is_that_of_the_json_that_is_written(value in any_value()) {
            prop_assert_eq!(json_bytes(&value), serde_json::to_vec(&value).unwrap().len());
        }
    }

    #[test]
    fn every_character_is_counted_as_it_is_written() {
        let all: String = (0..=0x2_ff_u32).filter_map(char::from_u32).collect();
        let controls = "\u{1}".repeat(100);
        for text in ["", &all, &controls, "日本語 \u{7f}\u{2028}"] {
            let written = serde_json::to_vec(text).unwrap();
            assert_eq!(2 + string_bytes(text), written.len());
        }
    }
}
