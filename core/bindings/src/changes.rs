//! [`Changes`]: what is being changed, so that writes which depend on each other are done in the order of their calls.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

/// What a write changes, by the hash of its id. Two ids with one hash only wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Key {
    /// One thing: a session, an agent's context.
    Of(u64),
    /// One chat, or what is added to it.
    Chat(u64),
    /// A message, a step or a request, of which the call doesn't say in which chat it is.
    InSomeChat(u64),
    /// Several, which the call doesn't name.
    All,
}

impl Key {
    pub(crate) fn of(id: impl Hash) -> Self {
        Self::Of(hash(id))
    }

    pub(crate) fn chat(id: &str) -> Self {
        Self::Chat(hash(id))
    }

    pub(crate) fn in_some_chat(id: &str) -> Self {
        Self::InSomeChat(hash(id))
    }
}

fn hash(id: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    hasher.finish()
}

/// Keys, each as often as it was added.
#[derive(Clone, Default)]
pub(crate) struct Changes {
    keys: HashMap<Key, usize>,
    chats: usize,
    in_some_chat: usize,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether something is changed that has this key, or may have it.
    pub(crate) fn has(&self, key: Key) -> bool {
        let may_have = match key {
            Key::Of(_) => false,
            Key::Chat(_) => self.in_some_chat > 0,
            Key::InSomeChat(_) => self.chats > 0,
            Key::All => !self.is_empty(),
        };
        may_have || self.keys.contains_key(&key) || self.keys.contains_key(&Key::All)
    }

    pub(crate) fn add(&mut self, key: Key) {
        *self.keys.entry(key).or_default() += 1;
        if let Some(count) = self.of_its_kind(key) {
            *count += 1;
        }
    }

    pub(crate) fn remove(&mut self, key: Key) {
        let Some(count) = self.keys.get_mut(&key) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.keys.remove(&key);
        }
        if let Some(count) = self.of_its_kind(key) {
            *count -= 1;
        }
    }

    fn of_its_kind(&mut self, key: Key) -> Option<&mut usize> {
        match key {
            Key::Chat(_) => Some(&mut self.chats),
            Key::InSomeChat(_) => Some(&mut self.in_some_chat),
            Key::Of(_) | Key::All => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_some_chat_may_be_in_any() {
        let (chat, other) = (Key::chat("c"), Key::chat("d"));
        let (message, step) = (Key::in_some_chat("m"), Key::in_some_chat("s"));
        let waits_for = |changed: Key, key: Key| {
            let mut changes = Changes::default();
            changes.add(changed);
            let has = changes.has(key);
            changes.remove(changed);
            assert!(changes.is_empty() && !changes.has(Key::All));
            has
        };
        assert!(waits_for(message, chat) && waits_for(chat, message));
        assert!(waits_for(chat, chat) && !waits_for(chat, other));
        assert!(waits_for(message, message) && !waits_for(message, step));
        let session = Key::of("c");
        assert!(!waits_for(session, chat) && !waits_for(message, session));
        for key in [chat, message, session, Key::All] {
            assert!(waits_for(key, Key::All) && waits_for(Key::All, key));
        }
    }
}
