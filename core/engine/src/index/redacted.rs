//! [`Redacted`]: the positions whose payloads reads don't return.

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::Position;

/// So many positions share a word.
const WORD: u64 = 64;

/// A set of positions that only grows. It has a lock of its own, held for a moment only, so that a read can ask at each
/// record without the lock of the directory; and where nothing is redacted, without any.
#[derive(Default)]
pub(crate) struct Redacted {
    count: AtomicU64,
    /// A bit for each of 64 positions, by the number of the 64: those that are redacted by the thousand lie close together.
    words: RwLock<HashMap<u64, u64>>,
}

impl Redacted {
    /// The set of these words, each with its number; `None` where one is empty, or comes twice.
    pub(crate) fn of_words(words: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let mut all = HashMap::new();
        let mut count = 0;
        for (number, word) in words {
            if word == 0 || number > u64::MAX / WORD || all.insert(number, word).is_some() {
                return None;
            }
            count += u64::from(word.count_ones());
        }
        Some(Self {
            count: AtomicU64::new(count),
            words: RwLock::new(all),
        })
    }

    /// Adds positions. It is called for one redaction at a time.
    pub(crate) fn insert_all(&self, positions: impl Iterator<Item = u64>) {
        let mut words = self.words.write().unwrap_or_else(PoisonError::into_inner);
        let mut count = self.count.load(Ordering::Acquire);
        for position in positions {
            let word = words.entry(position / WORD).or_default();
            let bit = 1 << (position % WORD);
            count += u64::from(*word & bit == 0);
            *word |= bit;
        }
        self.count.store(count, Ordering::Release);
    }

    fn words(&self) -> RwLockReadGuard<'_, HashMap<u64, u64>> {
        self.words.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn contains(&self, position: u64) -> bool {
        self.count.load(Ordering::Acquire) != 0
            && self
                .words()
                .get(&(position / WORD))
                .is_some_and(|word| word >> (position % WORD) & 1 == 1)
    }

    /// Whether reads pass over the record at a position that can't be read.
    pub(crate) fn passes_over(&self, position: u64) -> bool {
        self.contains(position) || self.contains(Position(position).if_lost().0)
    }

    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// The words, by rising number.
    pub(crate) fn to_words(&self) -> Vec<(u64, u64)> {
        let words = self.words();
        let mut all: Vec<_> = words
            .iter()
            .map(|(number, word)| (*number, *word))
            .collect();
        all.sort_unstable();
        all
    }

    /// The positions, rising.
    pub(crate) fn to_vec(&self) -> Vec<u64> {
        let positions = |(number, word): (u64, u64)| {
            let is_there = move |bit: &u64| word >> bit & 1 == 1;
            (0..WORD)
                .filter(is_there)
                .map(move |bit| number * WORD + bit)
        };
        self.to_words().into_iter().flat_map(positions).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_there_once_and_comes_back_from_its_words() {
        let redacted = Redacted::default();
        redacted.insert_all([1, 63, 64, 64, 1_000_000, u64::MAX].into_iter());
        let of_words = Redacted::of_words(redacted.to_words().into_iter()).unwrap();
        for redacted in [redacted, of_words] {
            assert_eq!(redacted.to_vec(), [1, 63, 64, 1_000_000, u64::MAX]);
            assert_eq!(redacted.len(), 5);
            assert!(redacted.contains(64) && !redacted.contains(65) && !redacted.contains(0));
        }
    }

    #[test]
    fn words_that_nobody_wrote_are_refused() {
        for words in [&[(1, 0)][..], &[(1, 1), (1, 2)], &[(u64::MAX, 1)]] {
            assert!(Redacted::of_words(words.iter().copied()).is_none());
        }
    }
}
