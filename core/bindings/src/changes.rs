//! [`Changes`]: what is being changed, so that writes which depend on each other are done in the order of their calls.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What a write changes, by the hash of its id. Two ids with one hash only wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key {
    /// One thing: a chat, a message, an agent's context.
    Of(u64),
    /// Several, which the call doesn't name.
    All,
}

impl Key {
    pub(crate) fn of(id: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Self::Of(hasher.finish())
    }
}

/// Keys, each as often as it was added.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    of: HashMap<u64, usize>,
    all: usize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.all == 0 && self.of.is_empty()
    }

    /// Whether something is changed that has this key.
    pub(crate) fn has(&self, key: Key) -> bool {
        match key {
            Key::Of(id) => self.all > 0 || self.of.contains_key(&id),
            Key::All => !self.is_empty(),
        }
    }

    pub(crate) fn add(&mut self, key: Key) {
        match key {
            Key::Of(id) => *self.of.entry(id).or_default() += 1,
            Key::All => self.all += 1,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        match key {
            Key::Of(id) => {
                if let Some(count) = self.of.get_mut(&id) {
                    *count -= 1;
                    if *count == 0 {
                        self.of.remove(&id);
                    }
                }
            }
            Key::All => self.all = self.all.saturating_sub(1),
        }
    }
}
