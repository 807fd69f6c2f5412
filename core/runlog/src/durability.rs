//! How a [`Durability`] is given as JSON: `"sync"`, `"os"`, or `{"intervalMs": 100}`.

use runlog_log::Durability;
use serde::{Deserialize, Deserializer};

/// How durable something is when it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Durability"))]
#[serde(
    rename_all = "camelCase",
    expecting = "\"sync\", \"os\", or { `intervalMs` }"
)]
pub enum Given {
    /// On the device: survives a crash of the process and a loss of power.
    Sync,
    /// Handed to the operating system: survives a crash of the process.
    Os,
    /// Handed to the operating system, and flushed at most so many milliseconds later.
    #[serde(untagged)]
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
        assert!(read(r#""never""#).is_err());
    }
}
