//! [`Chunked`]: a vector that grows without moving; [`IdIndex`]: places by id, at a few bytes each.

use std::{collections::hash_map::RandomState, hash::BuildHasher};

use uuid::Uuid;

/// Values per chunk.
pub(super) const CHUNK: usize = 1 << 12;

/// A vector in chunks: growing takes the room of one chunk, and copies nothing.
#[derive(Debug)]
pub(super) struct Chunked<T> {
    chunks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }
}

impl<T> Chunked<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        let place = place as usize;
        self.chunks.get_mut(place / CHUNK)?.get_mut(place % CHUNK)
    }

    /// Adds a value, and says its place; `None` when there is none left.
    pub(super) fn push(&mut self, value: T) -> Option<u32> {
        let place = u32::try_from(self.len).ok().filter(|place| *place < u32::MAX)?;
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(if self.len == 0 { 16 } else { CHUNK }));
        }
        self.chunks.last_mut()?.push(value);
        self.len += 1;
        Some(place)
    }

    pub(super) fn chunk(&self, number: usize) -> &[T] {
        self.chunks.get(number).map_or(&[], Vec::as_slice)
    }
}

/// Places of ids, which are kept by the caller: open addressing, four bytes a slot, at most three quarters full.
#[derive(Debug, Default)]
pub(super) struct IdIndex {
    /// A place plus one; 0 is free. The length is a power of two, or 0.
    slots: Vec<u32>,
    count: usize,
    hasher: RandomState,
}

impl IdIndex {
    pub(super) fn find(&self, id: Uuid, id_of: impl Fn(u32) -> Option<Uuid>) -> Option<u32> {
        let mut slot = self.first_slot(id)?;
        loop {
            let place = self.slots.get(slot)?.checked_sub(1)?;
            if id_of(place) == Some(id) {
                return Some(place);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds an id that isn't there.
    pub(super) fn insert(&mut self, id: Uuid, place: u32, id_of: impl Fn(u32) -> Option<Uuid>) {
        if (self.count + 1) * 4 > self.slots.len() * 3 {
            let grown = (self.slots.len() * 2).max(16);
            let old = std::mem::replace(&mut self.slots, vec![0; grown]);
            for place in old.into_iter().filter_map(|slot| slot.checked_sub(1)) {
                if let Some(id) = id_of(place) {
                    self.put(id, place);
                }
            }
        }
        self.put(id, place);
        self.count += 1;
    }

    fn put(&mut self, id: Uuid, place: u32) {
        let mut slot = self.first_slot(id).expect("there is room after growing");
        while self.slots[slot] != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = place + 1;
    }

    fn first_slot(&self, id: Uuid) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        // Only the low bits count, so that what a 32-bit machine cuts off doesn't matter.
        #[expect(clippy::cast_possible_truncation, reason = "a hash is cut to the size of the table")]
        let hash = self.hasher.hash_one(id.as_u128()) as usize;
        Some(hash & mask)
    }
}
