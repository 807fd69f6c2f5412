//! The one validation of step limits, wherever they are given.

use std::fmt;

use serde::{
    Deserializer,
    de::{Unexpected, Visitor},
};

use crate::{Error, Result};

/// The valid values of a step limit.
const EXPECTED: &str = "a whole number from 1 to 4294967295";

/// Checks a step limit that a caller gave as a number: with 0 steps, a run would end before it began.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) for 0.
pub fn check(max_steps: Option<u32>) -> Result<()> {
    match max_steps {
        Some(0) => Err(Error::invalid(format!("`max_steps`: 0 is not {EXPECTED}"))),
        _ => Ok(()),
    }
}

/// Reads an optional step limit, for serde's `deserialize_with`.
///
/// # Errors
/// Those of the deserializer for anything but a whole number from 1 on.
pub fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u32>, D::Error> {
    deserializer.deserialize_option(Bound)
}

struct Bound;

impl<'de> Visitor<'de> for Bound {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(EXPECTED)
    }

    fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_u64<E: serde::de::Error>(self, bound: u64) -> std::result::Result<Self::Value, E> {
        let refused = || E::invalid_value(Unexpected::Unsigned(bound), &self);
        u32::try_from(bound)
            .ok()
            .filter(|bound| *bound > 0)
            .map(Some)
            .ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AgentDefinition, Updates, read_json};

    #[test]
    fn a_bound_of_steps_is_refused_by_one_rule_with_one_message() {
        for given in [
            "0",
            "-1",
            "1.5",
            "1e12",
            "1000000000000",
            "4294967296",
            "\"3\"",
            "true",
            "[]",
        ] {
            let value = serde_json::from_str::<serde_json::Value>(given).unwrap();
            let expected =
                format!("`max_steps`: {value} is not a whole number from 1 to 4294967295");
            let text = format!(r#"{{"name":"a","max_steps":{given}}}"#);
            assert_eq!(read_json::<AgentDefinition>(&text).unwrap_err(), expected);
            let updates = Updates::parse(&format!(r#"{{"max_steps":{given}}}"#)).unwrap();
            let error = AgentDefinition::new("a", "")
                .with_updates(&updates)
                .unwrap_err();
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
        for (given, bound) in [
            ("1", Some(1)),
            ("4294967295", Some(u32::MAX)),
            ("null", None),
        ] {
            let text = format!(r#"{{"name":"a","max_steps":{given}}}"#);
            assert_eq!(
                read_json::<AgentDefinition>(&text).unwrap().max_steps,
                bound
            );
        }
        let error = AgentDefinition {
            max_steps: Some(0),
            ..AgentDefinition::new("a", "")
        }
        .check()
        .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`max_steps`: 0 is not a whole number from 1 to 4294967295"),
            "{error}"
        );
    }
}
