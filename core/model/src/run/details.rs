//! [`RunDetails`]: the details that a caller records about a run.

use serde::{Deserialize, Deserializer};

use super::Run;
use crate::{
    RawJson, Result,
    check::{check_length, object},
    limits::RUN_DETAIL_BYTES_MAX,
};

/// The details that a caller records about a run, with the same names as of a chat's request.
///
/// ```
/// use runlog_model::{RawJson, RunDetails};
///
/// let tokens = RunDetails { usage: Some(RawJson::parse(r#"{"input_tokens":812}"#)?), ..RunDetails::default() };
/// let ticket = RunDetails { metadata: Some(RawJson::parse(r#"{"ticket":7}"#)?), ..RunDetails::default() };
/// assert_eq!(tokens.clone().and(ticket.clone()), ticket.and(tokens));
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RunDetails {
    /// What it took, such as tokens and their cost: a JSON object; `None` leaves it as it was, `null` removes it.
    #[serde(deserialize_with = "said")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "crate::json::raw::JsonObjectOrNull")
    )]
    pub usage: Option<RawJson>,
    /// Anything else, as JSON; `None` leaves it as it was, `null` removes it.
    #[serde(deserialize_with = "said")]
    pub metadata: Option<RawJson>,
}

/// Reads a given value, also `null`, which removes the earlier one.
fn said<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

fn is_null(json: &RawJson) -> bool {
    *json == RawJson::null()
}

fn now(new: Option<RawJson>, before: Option<RawJson>) -> Option<RawJson> {
    new.or(before).filter(|json| !is_null(json))
}

impl RunDetails {
    /// The current details of a run.
    pub fn of(run: &Run) -> Self {
        Self {
            usage: run.usage.clone(),
            metadata: run.metadata.clone(),
        }
    }

    /// These details, overwritten by the new ones.
    pub fn and(self, new: Self) -> Self {
        Self {
            usage: now(new.usage, self.usage),
            metadata: now(new.metadata, self.metadata),
        }
    }

    /// Whether no details are given.
    pub fn is_empty(&self) -> bool {
        self.usage.is_none() && self.metadata.is_none()
    }

    /// Checks a caller's details.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the usage isn't an object,
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for more than 64 KiB of it or of metadata.
    pub fn check(&self) -> Result<()> {
        let usage = self.usage.as_ref().filter(|usage| !is_null(usage));
        object("the run's usage", usage)?;
        for (what, json) in [
            ("the run's usage", &self.usage),
            ("the run's metadata", &self.metadata),
        ] {
            check_length(
                what,
                json.as_ref().map(RawJson::as_str),
                RUN_DETAIL_BYTES_MAX,
            )?;
        }
        Ok(())
    }
}
