//! [`Input`]: what a call was given, and reading it. All of it is hostile.

use bytes::Bytes;
use runlog::{Durability, RawJson};
use serde::{Deserialize, de::DeserializeOwned};

use crate::{Failure, Result};

/// What a call was given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    /// The method, for messages.
    pub(crate) method: &'a str,
    /// The arguments: a JSON object, or nothing.
    pub(crate) arguments: &'a str,
    /// Contents beside them.
    pub(crate) data: &'a [u8],
}

impl Input<'_> {
    /// The arguments as a type.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let text = if self.arguments.is_empty() {
            "{}"
        } else {
            self.arguments
        };
        runlog::contexts::read_json(text).map_err(|told| Failure::invalid(in_camel_case(&told)))
    }

    /// The contents as one JSON value, byte for byte.
    pub(crate) fn json(&self) -> Result<RawJson> {
        RawJson::parse(Bytes::copy_from_slice(self.data)).map_err(|error| error.into())
    }

    /// The contents as several JSON values of these lengths, each byte for byte.
    pub(crate) fn json_list(&self, lengths: &[usize]) -> Result<Vec<RawJson>> {
        let all = Bytes::copy_from_slice(self.data);
        let mut start = 0_usize;
        let mut values = Vec::with_capacity(lengths.len());
        for length in lengths {
            let end = start.checked_add(*length).filter(|end| *end <= all.len());
            let end = end.ok_or_else(|| {
                Failure::invalid(format!("{}: contents are missing", self.method))
            })?;
            values.push(RawJson::parse(all.slice(start..end))?);
            start = end;
        }
        Ok(values)
    }
}

/// Gives the names of fields, in backticks, as JavaScript has them: `limit_ms` is `limitMs` there.
fn in_camel_case(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(place, part)| {
        // Every other part stands in backticks. A name that begins with a line is somebody's own.
        let is_ours = place % 2 == 1
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if !is_ours || part.starts_with('_') {
            return part.to_owned();
        }
        let mut words = part.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| {
            let (head, rest) = word.split_at(word.len().min(1));
            name + &head.to_ascii_uppercase() + rest
        })
    });
    parts.collect::<Vec<_>>().join("`")
}

/// How durable an append is: `"sync"`, `"os"`, or `{"intervalMs": 100}`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(
    rename_all = "camelCase",
    expecting = "\"sync\", \"os\", or { intervalMs }"
)]
pub(crate) enum DurabilityArgument {
    Sync,
    Os,
    #[serde(untagged)]
    Interval(Interval),
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Interval {
    interval_ms: u32,
}

impl From<DurabilityArgument> for Durability {
    fn from(argument: DurabilityArgument) -> Self {
        match argument {
            DurabilityArgument::Sync => Self::Sync,
            DurabilityArgument::Os => Self::Os,
            DurabilityArgument::Interval(interval) => Self::Interval(interval.interval_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durability_has_three_forms() {
        let read =
            |text: &str| serde_json::from_str::<DurabilityArgument>(text).map(Durability::from);
        assert_eq!(read(r#""sync""#).unwrap(), Durability::Sync);
        assert_eq!(read(r#""os""#).unwrap(), Durability::Os);
        assert_eq!(
            read(r#"{"intervalMs":7}"#).unwrap(),
            Durability::Interval(7)
        );
        assert!(read(r#""never""#).is_err());
    }

    #[test]
    fn names_of_fields_are_told_as_javascript_has_them() {
        let told = in_camel_case("`user_id` and `__yao_x`, \"a_b\", `x`: `created_at_ms`");
        assert_eq!(told, "`userId` and `__yao_x`, \"a_b\", `x`: `createdAtMs`");
    }

    #[test]
    fn contents_that_are_too_short_are_refused() {
        let input = Input {
            method: "it",
            arguments: "",
            data: b"1[2]",
        };
        let found = input.json_list(&[1, 3]).unwrap();
        assert_eq!(
            found.iter().map(RawJson::as_str).collect::<Vec<_>>(),
            ["1", "[2]"]
        );
        for lengths in [&[1, 4][..], &[usize::MAX, 2], &[5]] {
            assert_eq!(input.json_list(lengths).unwrap_err().code, "invalid_input");
        }
    }
}
