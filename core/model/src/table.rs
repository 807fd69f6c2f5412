//! What lists of millions are kept in: [`Chunked`], a vector that grows without moving; [`PlaceIndex`], places by what is
//! found there, at a few bytes each; [`Interned`], texts that many share.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hash},
};

use hashbrown::{HashTable, hash_table::Entry};

use crate::checkpoint::CHUNK;

/// A vector in chunks: growing takes the room of one chunk, and copies nothing.
#[derive(Clone, Debug)]
pub(crate) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Chunked<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        let place = place as usize;
        self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)
    }

    /// All values, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// The first place whose value isn't one of those that the test holds for, which come first.
    pub(crate) fn partition_point(&self, is_first: impl Fn(&T) -> bool) -> u32 {
        let begins = |chunk: &Vec<T>| chunk.first().is_some_and(&is_first);
        let chunk = self.chunks.partition_point(begins).saturating_sub(1);
        let within = self
            .chunks
            .get(chunk)
            .map_or(0, |it| it.partition_point(is_first));
        // A place is a `u32`.
        u32::try_from(chunk * CHUNK + within).unwrap_or(u32::MAX)
    }

    /// The place that the next value gets; `None` when no place is left.
    pub(crate) fn next_place(&self) -> Option<u32> {
        let place = u32::try_from(self.len).ok();
        place.filter(|place| *place < u32::MAX)
    }

    /// Adds a value, and returns its place; `None` when no place is left.
    pub(crate) fn push(&mut self, value: T) -> Option<u32> {
        let place = self.next_place()?;
        if self.len.is_multiple_of(CHUNK) {
            self.chunks
                .push(Vec::with_capacity(if self.len == 0 { 16 } else { CHUNK }));
        }
        self.chunks.last_mut()?.push(value);
        self.len += 1;
        Some(place)
    }
}

/// Places by a key, which is kept by the caller with what is at the place; nine bytes each, a quarter more while it grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceIndex {
    slots: HashTable<Slot>,
    hasher: RandomState,
}

/// The hash keeps a search from looking up places that aren't the one, and growing from looking up any.
#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    place: u32,
}

impl Slot {
    /// The table takes the highest bits and the lowest ones.
    fn spread(hash: u32) -> u64 {
        u64::from(hash) << 32 | u64::from(hash)
    }
}

impl PlaceIndex {
    /// The place of a key, if `is_it` says that it is there: others have the same hash.
    pub(crate) fn find(&self, key: impl Hash, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = self.hash(key);
        let slot = self.slots.find(Slot::spread(hash), |slot| {
            slot.hash == hash && is_it(slot.place)
        })?;
        Some(slot.place)
    }

    /// Adds a key that isn't there.
    pub(crate) fn insert(&mut self, key: impl Hash, place: u32) {
        let hash = self.hash(key);
        let slot = Slot { hash, place };
        self.slots
            .insert_unique(Slot::spread(hash), slot, |slot| Slot::spread(slot.hash));
    }

    /// Adds a key, unless `is_it` says that it is at another place: that place.
    ///
    /// # Errors
    /// The place where it is.
    pub(crate) fn insert_new(
        &mut self,
        key: impl Hash,
        place: u32,
        is_it: impl Fn(u32) -> bool,
    ) -> Result<(), u32> {
        let hash = self.hash(key);
        let slot = self.slots.entry(
            Slot::spread(hash),
            |slot| slot.hash == hash && is_it(slot.place),
            |slot| Slot::spread(slot.hash),
        );
        match slot {
            Entry::Occupied(slot) => Err(slot.get().place),
            Entry::Vacant(slot) => {
                slot.insert(Slot { hash, place });
                Ok(())
            }
        }
    }

    /// Makes room for more keys, so that adding them moves none.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.slots.reserve(more, |slot| Slot::spread(slot.hash));
    }

    /// Removes a key with this place, if it is there.
    pub(crate) fn remove(&mut self, key: impl Hash, place: u32) {
        let hash = self.hash(key);
        let found = self
            .slots
            .find_entry(Slot::spread(hash), |slot| slot.place == place);
        if let Ok(slot) = found {
            slot.remove();
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "any half of a hash is as good as the other"
    )]
    fn hash(&self, key: impl Hash) -> u32 {
        self.hasher.hash_one(key) as u32
    }
}

/// Texts, each kept once, by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interned {
    texts: Vec<Box<str>>,
    numbers: PlaceIndex,
}

impl Interned {
    /// The number of a text, which is added if it is new; `None` when no number is left.
    pub(crate) fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(number) = self.find(text) {
            return Some(number);
        }
        let number = u32::try_from(self.texts.len()).ok()?;
        self.texts.push(text.into());
        self.numbers.insert(text, number);
        Some(number)
    }

    /// The number of a text, if it is there.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        let is_it = |number: u32| self.get(number) == Some(text);
        self.numbers.find(text, is_it)
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: u32) -> Option<&str> {
        self.texts.get(number as usize).map(|text| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_by_their_keys_until_they_are_removed() {
        let (mut index, mut keys) = (PlaceIndex::default(), Vec::new());
        for place in 0..5_000_u32 {
            let key = format!("key {place}");
            index.insert(&key, place);
            keys.push(key);
        }
        for place in (0..5_000).step_by(2) {
            index.remove(&keys[place as usize], place);
            index.remove(&keys[place as usize + 1], place);
        }
        for (place, key) in keys.iter().enumerate() {
            let found = index.find(key, |place| keys[place as usize] == *key);
            let is_there = place % 2 == 1;
            assert_eq!(found.map(|found| found as usize), is_there.then_some(place));
        }
    }

    #[test]
    fn a_partition_point_is_found_across_chunks() {
        let mut values = Chunked::default();
        assert_eq!(values.partition_point(|_: &u32| true), 0);
        let count = u32::try_from(3 * CHUNK).unwrap() + 2;
        for value in 0..count {
            values.push(value * 2);
        }
        for value in 0..count + 2 {
            let found = values.partition_point(|it| *it < value * 2);
            assert_eq!(found, value.min(count));
        }
    }

    #[test]
    fn a_text_is_kept_once() {
        let mut texts = Interned::default();
        let numbers = ["a", "b", "a"].map(|text| texts.number(text).unwrap());
        assert_eq!(
            (numbers, texts.get(1), texts.get(2)),
            ([0, 1, 0], Some("b"), None)
        );
    }
}
