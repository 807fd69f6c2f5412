//! [`Space`]: the key-value space that the assistants of a request share.

use std::collections::BTreeMap;

use crate::{RawJson, Result};

/// Values by key that the assistants of a request share. A snapshot of it is saved with every step, so that a
/// resumed request finds what it had.
///
/// ```
/// use runlog_model::{RawJson, Space};
///
/// let mut space = Space::new();
/// space.set("choose_prompt", RawJson::string("query"));
/// let snapshot = space.snapshot();
/// assert_eq!(space.get_and_delete("choose_prompt"), Some(RawJson::string("query")));
/// assert_eq!(space.get("choose_prompt"), None);
/// space.restore(&snapshot)?;
/// assert_eq!(space.get("choose_prompt"), Some(&RawJson::string("query")));
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Space {
    entries: BTreeMap<String, RawJson>,
}

impl Space {
    /// An empty space.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&RawJson> {
        self.entries.get(key)
    }

    /// Sets the value of a key, and returns the previous one.
    pub fn set(&mut self, key: impl Into<String>, value: RawJson) -> Option<RawJson> {
        self.entries.insert(key.into(), value)
    }

    /// Removes a key, and returns its value.
    pub fn get_and_delete(&mut self, key: &str) -> Option<RawJson> {
        self.entries.remove(key)
    }

    /// All keys and values, as a JSON object; each value byte for byte.
    pub fn snapshot(&self) -> RawJson {
        RawJson::from_value(&self.entries).expect("keys are strings and values are JSON")
    }

    /// Sets the keys of a snapshot; others stay as they are.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't a JSON object. Nothing is set then.
    pub fn restore(&mut self, snapshot: &RawJson) -> Result<()> {
        let entries: BTreeMap<String, RawJson> = snapshot.to_value()?;
        self.entries.extend(entries);
        Ok(())
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }
}
