//! [`Input`]: what a call was given, and reading it. All of it is hostile.

use bytes::Bytes;
use runlog::RawJson;
use serde::de::DeserializeOwned;

use crate::{Failure, Result, names::told_in_javascript};

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
        runlog::contexts::read_json(text)
            .map_err(|told| Failure::invalid(told_in_javascript(&told)))
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

#[cfg(test)]
mod tests {
    use super::*;

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
