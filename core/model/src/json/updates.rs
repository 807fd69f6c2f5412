//! [`Updates`]: new values for some fields.

use std::{borrow::Cow, collections::BTreeMap};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{RawJson, read_json, read_json_borrowed};
use crate::{Error, Result};

/// New values for some fields of a chat, a message or a step, by the field's name in JSON. `null` removes a value. An
/// unknown field is kept as given.
///
/// ```
/// use runlog_model::{RawJson, Updates};
///
/// let updates = Updates::new().with("title", RawJson::string("Trip")).with("metadata", RawJson::null());
/// assert_eq!(updates, Updates::parse(r#"{"title":"Trip","metadata":null}"#)?);
/// assert!(Updates::parse("[]").is_err());
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Updates(BTreeMap<String, RawJson>);

impl Updates {
    /// No updates.
    pub fn new() -> Self {
        Self::default()
    }

    /// The updates of a JSON object.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't a JSON object.
    pub fn parse(json: &str) -> Result<Self> {
        read_json(json).map_err(|message| {
            Error::invalid(format!(
                "updates should be a JSON object of fields: {message}"
            ))
        })
    }

    /// The same updates, with one more.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: RawJson) -> Self {
        self.0.insert(field.into(), value);
        self
    }

    /// The new value of a field; `null` removes the old one.
    pub fn get(&self, field: &str) -> Option<&RawJson> {
        self.0.get(field)
    }

    /// Adds later updates: a field that both have gets the later value.
    pub fn extend(&mut self, later: &Self) {
        let later = later.0.iter();
        self.0
            .extend(later.map(|(field, value)| (field.clone(), value.clone())));
    }

    /// The updates of the fields that are chosen, and the others.
    pub(crate) fn partition(self, is_chosen: impl Fn(&str) -> bool) -> (Self, Self) {
        let (chosen, others) = self.0.into_iter().partition(|(field, _)| is_chosen(field));
        (Self(chosen), Self(others))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `what`, such as "a chat", with the updates laid over it; `fixed` fields can't be updated. What is given is checked with what
/// comes of it, and the name of a field that is taken away and isn't there by `check_absent`.
pub(crate) fn overlay<T: Serialize + DeserializeOwned>(
    item: &T,
    updates: &Updates,
    fixed: &[&str],
    what: &str,
    check_absent: impl Fn(&str) -> Result<()>,
) -> Result<T> {
    let stored = RawJson::from_value(item)?;
    let mut fields: BTreeMap<Cow<'_, str>, &RawValue> = read_json_borrowed(stored.as_str())
        .map_err(|message| Error::invalid(format!("{what} can't be read: {message}")))?;
    for (field, value) in &updates.0 {
        if fixed.contains(&field.as_str()) {
            return Err(Error::invalid(format!(
                "`{field}` of {what} can't be changed; leave it out of the updates"
            )));
        }
        if value.as_str() == "null" {
            if fields.remove(field.as_str()).is_none() {
                check_absent(field)?;
            }
        } else {
            let value = read_json_borrowed(value.as_str()).map_err(|message| {
                Error::invalid(format!(
                    "the new value of {field:?} can't be read: {message}"
                ))
            })?;
            fields.insert(Cow::Borrowed(field), value);
        }
    }
    let text = RawJson::from_value(&fields)?;
    read_json(text.as_str())
        .map_err(|message| Error::invalid(format!("the updates don't make {what}: {message}")))
}
