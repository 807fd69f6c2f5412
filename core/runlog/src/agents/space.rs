//! [`SharedSpace`]: the values that all runs of a tree share.

use std::sync::{Arc, Mutex, MutexGuard};

use runlog_model::{EncodedEvent, RawJson, Space, SpaceRecord};

use crate::{Error, ErrorKind, Result};

/// The largest space that is saved: 16 MiB of JSON.
const SPACE_BYTES_MAX: usize = 16 << 20;

/// Values by key that all runs of a tree share: a run, those that it spawned, and so on. Clones are the same space.
///
/// Changes are saved with the next message, step or end of any of the runs, in the same batch; a resumed run has them again.
///
/// ```
/// use runlog::{RawJson, agents::SharedSpace};
///
/// let space = SharedSpace::default();
/// space.set("topic", RawJson::string("rain"));
/// assert_eq!(space.clone().get("topic"), Some(RawJson::string("rain")));
/// assert_eq!(space.get_and_delete("topic"), Some(RawJson::string("rain")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct SharedSpace {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    space: Space,
    /// Counts changes.
    version: u64,
    /// The newest version that is saved.
    saved: u64,
    /// The position of the newest record that was applied.
    restored: u64,
}

/// A space to save, and the version to mark as saved afterwards.
pub(super) struct Unsaved {
    pub(super) record: EncodedEvent,
    version: u64,
}

impl SharedSpace {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<RawJson> {
        self.state().space.get(key).cloned()
    }

    /// Sets the value of a key, and returns the previous one.
    pub fn set(&self, key: impl Into<String>, value: RawJson) -> Option<RawJson> {
        let mut state = self.state();
        state.version += 1;
        state.space.set(key, value)
    }

    /// Removes a key, and returns its value.
    pub fn get_and_delete(&self, key: &str) -> Option<RawJson> {
        let mut state = self.state();
        let value = state.space.get_and_delete(key);
        state.version += u64::from(value.is_some());
        value
    }

    /// The keys, in their order.
    pub fn keys(&self) -> Vec<String> {
        self.state().space.keys().map(str::to_owned).collect()
    }

    /// All keys and values, as a JSON object.
    pub fn snapshot(&self) -> RawJson {
        self.state().space.snapshot()
    }

    /// Sets the keys of a snapshot; others stay as they are.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when it isn't a JSON object. Nothing is set then.
    pub fn restore(&self, snapshot: &RawJson) -> Result<()> {
        let mut state = self.state();
        state.space.restore(snapshot)?;
        state.version += 1;
        Ok(())
    }

    /// The space to save, if it changed since it was saved last.
    pub(super) fn unsaved(&self, now_ms: u64) -> Result<Option<Unsaved>> {
        let state = self.state();
        if state.version == state.saved {
            return Ok(None);
        }
        let space = state.space.snapshot();
        let length = space.as_bytes().len();
        if length > SPACE_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the space has {length} bytes of JSON, at most {SPACE_BYTES_MAX} are allowed; keep large values elsewhere"
                ),
            ));
        }
        let record = SpaceRecord {
            space,
            at_ms: now_ms,
        }
        .encode()?;
        Ok(Some(Unsaved {
            record,
            version: state.version,
        }))
    }

    /// Marks this version as saved.
    pub(super) fn saved(&self, unsaved: &Unsaved) {
        let mut state = self.state();
        state.saved = state.saved.max(unsaved.version);
    }

    /// Applies a record that a run saved at a position, unless a newer one was applied already.
    pub(super) fn apply_saved(&self, position: u64, record: &SpaceRecord) -> Result<()> {
        let mut state = self.state();
        if position > state.restored {
            state.space.restore(&record.space)?;
            state.restored = position;
        }
        Ok(())
    }

    /// The lock is never held across a wait.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("a space was left broken by a panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_written_down_once() {
        let space = SharedSpace::default();
        assert!(space.unsaved(1).unwrap().is_none());
        space.set("a", RawJson::null());
        let unsaved = space.unsaved(1).unwrap().unwrap();
        space.set("b", RawJson::null());
        space.saved(&unsaved);
        let unsaved = space.unsaved(1).unwrap().unwrap();
        space.saved(&unsaved);
        assert!(space.unsaved(1).unwrap().is_none());
        assert!(space.get_and_delete("c").is_none() && space.unsaved(1).unwrap().is_none());
        assert!(space.get_and_delete("a").is_some() && space.unsaved(1).unwrap().is_some());
    }

    #[test]
    fn the_newest_that_was_written_down_counts() {
        let space = SharedSpace::default();
        let record = |json: &str| SpaceRecord {
            space: RawJson::parse(json.to_owned()).unwrap(),
            at_ms: 1,
        };
        space.apply_saved(9, &record(r#"{"a":"new"}"#)).unwrap();
        space.apply_saved(5, &record(r#"{"a":"old"}"#)).unwrap();
        assert_eq!(space.get("a"), Some(RawJson::string("new")));
        assert!(
            space.unsaved(1).unwrap().is_none(),
            "what was read needn't be written"
        );
    }
}
