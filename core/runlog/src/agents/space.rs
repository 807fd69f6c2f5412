//! [`SharedSpace`]: the values that all runs of a tree share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use runlog_model::{EncodedEvent, RawJson, RunId, Space, SpaceRecord};

use crate::{Error, Result, kernel::erased_runs::ForgetsErased};

/// The largest space: 16 MiB of JSON.
const SPACE_BYTES_MAX: usize = 16 << 20;

/// Values by key that all runs of a tree share: a run, those that it spawned, and so on. Clones are the same space.
///
/// Changes are saved with the next message, step or end of any of the runs, in the same batch; a resumed run has them again,
/// whichever run of the tree made them.
///
/// ```
/// use runlog::{RawJson, agents::SharedSpace};
///
/// let space = SharedSpace::default();
/// space.set("topic", RawJson::string("rain"))?;
/// assert_eq!(space.clone().get("topic"), Some(RawJson::string("rain")));
/// assert_eq!(space.get_and_delete("topic"), Some(RawJson::string("rain")));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct SharedSpace {
    state: Arc<Mutex<State>>,
}

/// A space that is dropped with the last run that has it.
pub(super) type WeakSpace = Weak<Mutex<State>>;

/// The spaces of trees that somebody has, by the run that each tree began with.
#[derive(Default)]
pub(super) struct Spaces(Mutex<HashMap<RunId, WeakSpace>>);

impl Spaces {
    pub(super) fn lock(&self) -> MutexGuard<'_, HashMap<RunId, WeakSpace>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ForgetsErased for Spaces {
    fn forget(&self, runs: &[RunId]) {
        let spaces = self.lock();
        let kept = runs.iter().filter_map(|run| spaces.get(run));
        for space in kept.filter_map(SharedSpace::upgrade) {
            space.forget();
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The tree that it is saved for; `None` for one that is never saved.
    tree: Option<RunId>,
    space: Space,
    /// How many bytes its JSON has, or a few more.
    bytes: usize,
    /// Counts changes, those before a resume included.
    version: u64,
    /// The newest version that is saved.
    saved: u64,
}

/// A space to save, and the version to mark as saved afterwards.
pub(super) struct Unsaved {
    pub(super) record: EncodedEvent,
    version: u64,
}

impl State {
    /// How many bytes an entry takes in the JSON of the space.
    fn length(key: &str, value: &RawJson) -> usize {
        RawJson::string(key).as_bytes().len() + value.as_bytes().len() + ":,".len()
    }

    fn set(&mut self, key: String, value: RawJson) -> Result<Option<RawJson>> {
        let former = self.space.get(&key);
        let without = self.bytes - former.map_or(0, |former| Self::length(&key, former));
        let bytes = without + Self::length(&key, &value);
        check_size(bytes)?;
        self.bytes = bytes;
        self.version += 1;
        Ok(self.space.set(key, value))
    }
}

/// A space without entries is `{}`.
fn check_size(bytes: usize) -> Result<()> {
    let length = bytes + "{}".len();
    if length <= SPACE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "the space would have {length} bytes of JSON, at most {SPACE_BYTES_MAX} are allowed; keep large values elsewhere"
    )))
}

impl SharedSpace {
    /// The empty space of a tree.
    pub(super) fn of_tree(tree: RunId) -> Self {
        let state = State {
            tree: Some(tree),
            ..State::default()
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Makes it what was saved last, or empty if nothing was, unless it has changes that aren't saved yet.
    pub(super) fn reload(&self, record: Option<&SpaceRecord>) -> Result<()> {
        let mut space = Space::new();
        if let Some(record) = record {
            space.restore(&record.space)?;
        }
        let mut state = self.state();
        if state.version > state.saved {
            return Ok(());
        }
        let entries = space.keys().filter_map(|key| Some((key, space.get(key)?)));
        state.bytes = entries.map(|(key, value)| State::length(key, value)).sum();
        state.space = space;
        // It goes on counting, also where newer records were erased.
        state.version = state.version.max(record.map_or(0, |record| record.version));
        state.saved = state.version;
        Ok(())
    }

    /// Makes it empty, also of what isn't saved yet.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        (state.space, state.bytes) = (Space::new(), 0);
        state.saved = state.version;
    }

    /// The same space as long as somebody else has it.
    pub(super) fn downgrade(&self) -> WeakSpace {
        Arc::downgrade(&self.state)
    }

    /// The space, if somebody still has it.
    pub(super) fn upgrade(space: &WeakSpace) -> Option<Self> {
        space.upgrade().map(|state| Self { state })
    }

    /// The tree that it is saved for.
    pub(super) fn tree(&self) -> Option<RunId> {
        self.state().tree
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<RawJson> {
        self.state().space.get(key).cloned()
    }

    /// Sets the value of a key, and returns the previous one.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when the space would have more than 16 MiB of JSON. Nothing is set then.
    pub fn set(&self, key: impl Into<String>, value: RawJson) -> Result<Option<RawJson>> {
        self.state().set(key.into(), value)
    }

    /// Removes a key, and returns its value.
    pub fn get_and_delete(&self, key: &str) -> Option<RawJson> {
        let mut state = self.state();
        let value = state.space.get_and_delete(key)?;
        state.bytes -= State::length(key, &value);
        state.version += 1;
        Some(value)
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
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't a JSON object, [`TooLarge`](crate::ErrorKind::TooLarge) when the space
    /// would have more than 16 MiB of JSON. Nothing is set then.
    pub fn restore(&self, snapshot: &RawJson) -> Result<()> {
        let mut given = Space::new();
        given.restore(snapshot)?;
        self.take_over(&given, true)
    }

    /// Adds the values of another tree's space whose keys aren't there: one of its runs goes on in this tree.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub(super) fn add_missing(&self, record: &SpaceRecord) -> Result<()> {
        let mut given = Space::new();
        given.restore(&record.space)?;
        self.take_over(&given, false)
    }

    fn take_over(&self, given: &Space, replaces: bool) -> Result<()> {
        let mut state = self.state();
        let taken: Vec<(&str, &RawJson)> = given
            .keys()
            .filter(|key| replaces || state.space.get(key).is_none())
            .filter_map(|key| Some((key, given.get(key)?)))
            .collect();
        if taken.is_empty() {
            return Ok(());
        }
        let former = |key| state.space.get(key).map_or(0, |it| State::length(key, it));
        let replaced: usize = taken.iter().map(|(key, _)| former(*key)).sum();
        let added: usize = taken
            .iter()
            .map(|(key, value)| State::length(key, value))
            .sum();
        check_size(state.bytes - replaced + added)?;
        for (key, value) in taken {
            state.set(key.to_owned(), value.clone())?;
        }
        Ok(())
    }

    /// The space to save, if it changed since it was saved last.
    pub(super) fn unsaved(&self, now_ms: u64) -> Result<Option<Unsaved>> {
        let state = self.state();
        let Some(tree) = state.tree.filter(|_| state.version > state.saved) else {
            return Ok(None);
        };
        let record = SpaceRecord {
            tree: Some(tree),
            version: state.version,
            space: state.space.snapshot(),
            at_ms: now_ms,
        }
        .encode_labelled()?;
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

    /// The lock is never held across a wait.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("a space was left broken by a panic")
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ErrorKind;

    fn record(version: u64, json: &str) -> SpaceRecord {
        SpaceRecord {
            tree: Some(RunId(Uuid::from_u128(1))),
            version,
            space: RawJson::parse(json.to_owned()).unwrap(),
            at_ms: 1,
        }
    }

    #[test]
    fn what_changed_is_written_down_once() {
        let space = SharedSpace::of_tree(RunId(Uuid::from_u128(1)));
        assert!(space.unsaved(1).unwrap().is_none());
        space.set("a", RawJson::null()).unwrap();
        let unsaved = space.unsaved(1).unwrap().unwrap();
        space.set("b", RawJson::null()).unwrap();
        space.saved(&unsaved);
        let unsaved = space.unsaved(1).unwrap().unwrap();
        space.saved(&unsaved);
        assert!(space.unsaved(1).unwrap().is_none());
        assert!(space.get_and_delete("c").is_none() && space.unsaved(1).unwrap().is_none());
        assert!(space.get_and_delete("a").is_some() && space.unsaved(1).unwrap().is_some());
    }

    #[test]
    fn what_was_saved_is_there_again_and_needs_no_saving() {
        let space = SharedSpace::of_tree(RunId(Uuid::from_u128(1)));
        space.reload(Some(&record(9, r#"{"a":"new"}"#))).unwrap();
        assert_eq!(space.get("a"), Some(RawJson::string("new")));
        assert!(space.unsaved(1).unwrap().is_none());
        space
            .add_missing(&record(3, r#"{"a":"old","b":1}"#))
            .unwrap();
        assert_eq!(space.snapshot().as_str(), r#"{"a":"new","b":1}"#);
        let unsaved = space.unsaved(1).unwrap().unwrap();
        let saved = SpaceRecord::decode(
            unsaved.record.kind,
            &unsaved.record.meta,
            &unsaved.record.payload,
        );
        assert_eq!(saved.unwrap().version, 10, "it goes on counting");
        space.reload(Some(&record(9, "{}"))).unwrap();
        assert_eq!(space.keys(), ["a", "b"], "what isn't saved stays");
        space.saved(&unsaved);
        space.reload(None).unwrap();
        assert!(space.keys().is_empty() && space.unsaved(1).unwrap().is_none());
    }

    #[test]
    fn what_would_be_too_large_to_save_is_not_set() {
        let space = SharedSpace::of_tree(RunId(Uuid::from_u128(1)));
        let half = RawJson::string(&"x".repeat(SPACE_BYTES_MAX / 2));
        space.set("a", half.clone()).unwrap();
        let refused = space.set("b", half.clone()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge);
        let both = RawJson::parse(format!(r#"{{"c":1,"b":{half}}}"#)).unwrap();
        assert_eq!(
            space.restore(&both).unwrap_err().kind(),
            ErrorKind::TooLarge
        );
        assert_eq!(space.keys(), ["a"]);
        space.set("a", half.clone()).unwrap();
        space.get_and_delete("a");
        space.set("b", half).unwrap();
        assert_eq!(space.keys(), ["b"]);
        let left = space.state().bytes + 2;
        assert_eq!(
            left,
            space.snapshot().as_bytes().len() + 1,
            "a comma too many"
        );
    }
}
