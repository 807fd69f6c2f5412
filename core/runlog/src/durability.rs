//! How a [`Durability`] is given as JSON: `"sync"`, `"os"`, or `{"intervalMs": 100}`.

use std::fmt;

use runlog_log::Durability;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Unexpected, Visitor, value::MapAccessDeserializer},
};

/// How durable something is when it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(rename = "Durability", rename_all = "camelCase")
)]
pub enum Given {
    /// On the device: survives a crash of the process and a loss of power.
    Sync,
    /// Handed to the operating system: survives a crash of the process.
    Os,
    /// Handed to the operating system, and flushed at most so many milliseconds later.
    #[cfg_attr(feature = "schema", schemars(untagged))]
    Interval(Interval),
}

/// When what was handed to the operating system is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FlushInterval"))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interval {
    /// At most so many milliseconds later.
    pub interval_ms: u32,
}

// By hand, because what serde derives says of a value that fits none of the forms neither what it is nor where.
impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Forms;

        impl<'de> Visitor<'de> for Forms {
            type Value = Given;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("\"sync\", \"os\", or an object with `intervalMs`")
            }

            fn visit_str<E: Error>(self, given: &str) -> Result<Given, E> {
                match given {
                    "sync" => Ok(Given::Sync),
                    "os" => Ok(Given::Os),
                    _ => Err(E::invalid_value(Unexpected::Str(given), &self)),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, given: A) -> Result<Given, A::Error> {
                Interval::deserialize(MapAccessDeserializer::new(given)).map(Given::Interval)
            }
        }

        deserializer.deserialize_any(Forms)
    }
}

impl From<Given> for Durability {
    fn from(given: Given) -> Self {
        match given {
            Given::Sync => Self::Sync,
            Given::Os => Self::Os,
            Given::Interval(interval) => Self::Interval(interval.interval_ms),
        }
    }
}

/// Reads a durability that may be left out, for serde's `deserialize_with`.
///
/// # Errors
/// Those of the deserializer for anything else.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Durability>, D::Error> {
    Ok(Option::<Given>::deserialize(deserializer)?.map(Durability::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_has_three_forms() {
        let read = |text: &str| serde_json::from_str::<Given>(text).map(Durability::from);
        assert_eq!(read(r#""sync""#).unwrap(), Durability::Sync);
        assert_eq!(read(r#""os""#).unwrap(), Durability::Os);
        assert_eq!(
            read(r#"{"intervalMs":7}"#).unwrap(),
            Durability::Interval(7)
        );
    }

    #[test]
    fn another_form_is_refused_by_its_place() {
        #[derive(Deserialize, Debug)]
        struct Options {
            #[serde(default)]
            #[allow(dead_code, reason = "only read")]
            durability: Option<Given>,
        }
        for (text, says) in [
            (
                r#"{"durability":"never"}"#,
                r#"`options.durability`: "never" is not "sync", "os", or an object with `intervalMs`"#,
            ),
            (
                r#"{"durability":7}"#,
                r#"`options.durability`: 7 is not "sync", "os", or an object with `intervalMs`"#,
            ),
            (
                r#"{"durability":{"intervalMs":-1}}"#,
                "`options.durability.intervalMs`: -1 is not a whole number, 0 or more",
            ),
            (
                r#"{"durability":{"interval":1}}"#,
                "`options.durability`: `interval` is not a field that is known here; known are `intervalMs`",
            ),
            (
                r#"{"durability":{}}"#,
                "`options.durability`: `intervalMs` is missing",
            ),
        ] {
            let message = runlog_model::read_json_at::<Options>("options", text).unwrap_err();
            assert_eq!(message, says);
        }
    }
}
