//! [`Chunked`]: a vector that grows without moving; [`IdIndex`]: places by id, at a few bytes each.

use std::{collections::hash_map::RandomState, hash::BuildHasher};

use uuid::Uuid;

use crate::checkpoint::CHUNK;

/// A vector in chunks: growing takes the room of one chunk, and copies nothing.
#[derive(Debug)]
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

    /// Adds a value, and returns its place; `None` when no place is left.
    pub(crate) fn push(&mut self, value: T) -> Option<u32> {
        let place = u32::try_from(self.len)
            .ok()
            .filter(|place| *place < u32::MAX)?;
        if self.len.is_multiple_of(CHUNK) {
            self.chunks
                .push(Vec::with_capacity(if self.len == 0 { 16 } else { CHUNK }));
        }
        self.chunks.last_mut()?.push(value);
        self.len += 1;
        Some(place)
    }
}

/// Places of ids, which are kept by the caller: open addressing, eight bytes a slot, at most three quarters full.
#[derive(Debug, Default)]
pub(crate) struct IdIndex {
    /// The length is a power of two, or 0.
    slots: Vec<Slot>,
    count: usize,
    hasher: RandomState,
}

/// The hash keeps a search from looking up ids that aren't the one, and growing from looking up any.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    hash: u32,
    /// The place plus one; 0 is free.
    place: u32,
}

impl IdIndex {
    pub(crate) fn find(&self, id: Uuid, id_of: impl Fn(u32) -> Option<Uuid>) -> Option<u32> {
        let hash = self.hash(id);
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at)?;
            let place = slot.place.checked_sub(1)?;
            if slot.hash == hash && id_of(place) == Some(id) {
                return Some(place);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds an id that isn't there.
    pub(crate) fn insert(&mut self, id: Uuid, place: u32) {
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            let grown = (self.slots.len() * 2).max(16);
            let old = std::mem::replace(&mut self.slots, vec![Slot::default(); grown]);
            old.into_iter()
                .filter(|slot| slot.place > 0)
                .for_each(|slot| self.put(slot));
        }
        self.put(Slot {
            hash: self.hash(id),
            place: place + 1,
        });
        self.count += 1;
    }

    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = slot.hash as usize & mask;
        while self.slots[at].place != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "any half of a hash is as good as the other"
    )]
    fn hash(&self, id: Uuid) -> u32 {
        self.hasher.hash_one(id.as_u128()) as u32
    }
}
