//! [`Ids`]: the map from a stream's id to its number.

use crate::{StreamId, checksum, large};

/// How many ids are sorted at a time when a table is made of many: half a megabyte, which the processor keeps at hand.
const SORTED_TOGETHER: usize = 1 << 16;

/// Numbers of streams by their ids: a table with open addressing that holds a part of each hash and the number. The ids themselves are
/// in the directory, so that a million streams take 12 MB here, and are entered in milliseconds when a store is opened.
pub(crate) struct Ids {
    keys: [u64; 5],
    /// Hash in the upper half, number in the lower; 0 is empty. Ordered by hash, except for collisions.
    slots: Vec<u64>,
    len: usize,
}

impl Ids {
    /// An empty table, with hash keys derived from the store's secret.
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        Self {
            keys: [1, 2, 3, 4, 5].map(|key: u8| checksum::key_hash(secret, &[key])),
            slots: Vec::new(),
            len: 0,
        }
    }

    /// The table of the ids of the streams 1, 2, 3, …, which are `len`.
    pub(crate) fn of<'a>(
        secret: &[u8; 16],
        ids: impl Iterator<Item = &'a [u8; 16]>,
        len: usize,
    ) -> Self {
        let mut table = Self::new(secret);
        table.slots = large::zeros(room_for(len));
        table.len = len;
        // Some are sorted by the top of their hashes at a time, so that consecutive inserts are close in the table. In any
        // other order each insert would be a cache miss; all of them at once would take as much memory again.
        let mut ids = ids.zip(1..);
        let mut slots: Vec<u64> = Vec::with_capacity(len.min(SORTED_TOGETHER));
        let mut sorted = vec![0; slots.capacity()];
        loop {
            slots.clear();
            let next = ids.by_ref().take(SORTED_TOGETHER);
            slots.extend(next.map(|(id, number)| slot(table.hash(id), number)));
            if slots.is_empty() {
                return table;
            }
            let mut ends = [0; 257];
            slots.iter().for_each(|slot| ends[top(*slot) + 1] += 1);
            for index in 1..ends.len() {
                ends[index] += ends[index - 1];
            }
            for slot in &slots {
                let end = &mut ends[top(*slot)];
                sorted[*end] = *slot;
                *end += 1;
            }
            let sorted = &sorted[..slots.len()];
            sorted.iter().for_each(|slot| table.enter(*slot));
        }
    }

    /// The number of an id; `id_of` returns the id of a number.
    pub(crate) fn find(&self, id: &StreamId, id_of: impl Fn(u32) -> [u8; 16]) -> Option<u32> {
        let hash = self.hash(id.as_bytes());
        let mut place = self.place(hash);
        loop {
            let (slot_hash, number) = parts(*self.slots.get(place)?);
            if number == 0 {
                return None;
            }
            if slot_hash == hash && id_of(number) == *id.as_bytes() {
                return Some(number);
            }
            place = self.after(place);
        }
    }

    /// Inserts an id that the table doesn't contain.
    pub(crate) fn insert(&mut self, id: &[u8; 16], number: u32) {
        if room_for(self.len + 1) > self.slots.len() {
            self.grow();
        }
        self.enter(slot(self.hash(id), number));
        self.len += 1;
    }

    fn enter(&mut self, slot: u64) {
        let mut place = self.place(parts(slot).0);
        while self.slots[place] != 0 {
            place = self.after(place);
        }
        self.slots[place] = slot;
    }

    fn grow(&mut self) {
        let room = room_for(self.len + self.len / 2 + 8);
        let slots = std::mem::replace(&mut self.slots, vec![0; room]);
        let filled = slots.into_iter().filter(|slot| *slot != 0);
        filled.for_each(|slot| self.enter(slot));
    }

    /// The multilinear hash: two different ids collide with a probability of 2⁻³², even if an attacker chose them, as
    /// long as the keys are secret.
    fn hash(&self, id: &[u8; 16]) -> u32 {
        let words = id.as_chunks::<4>().0;
        let part = |index: usize| {
            let word = u32::from_le_bytes(words[index]);
            self.keys[index].wrapping_mul(u64::from(word))
        };
        let parts = [part(0), part(1), part(2), part(3)];
        let sum = parts.into_iter().fold(self.keys[4], u64::wrapping_add);
        (sum >> 32) as u32
    }

    /// Where a hash belongs.
    fn place(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.slots.len() {
            0
        } else {
            place + 1
        }
    }
}

/// The number of slots for this many streams: at most two thirds are used.
fn room_for(streams: usize) -> usize {
    streams + streams / 2 + usize::from(streams > 0)
}

/// The upper eight bits of a slot's hash.
fn top(slot: u64) -> usize {
    usize::from(slot.to_be_bytes()[0])
}

fn slot(hash: u32, number: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(number)
}

fn parts(slot: u64) -> (u32, u32) {
    ((slot >> 32) as u32, (slot & 0xffff_ffff) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> [u8; 16] {
        let mut id = [0; 16];
        id[12..].copy_from_slice(&number.to_le_bytes());
        id
    }

    #[test]
    fn every_id_that_was_entered_is_found_and_no_other() {
        for known in [0, 1, 5_000, 10_000] {
            let all: Vec<_> = (1..=known).map(id).collect();
            let mut ids = Ids::of(&[7; 16], all.iter(), all.len());
            for number in known + 1..=10_000 {
                assert_eq!(ids.find(&StreamId::from_bytes(id(number)), id), None);
                ids.insert(&id(number), number);
            }
            for number in 1..=20_000 {
                let found = ids.find(&StreamId::from_bytes(id(number)), id);
                assert_eq!(found, Some(number).filter(|number| *number <= 10_000));
            }
            assert!(
                ids.slots.len() <= 10_000 * 9 / 4 + 16,
                "{}",
                ids.slots.len()
            );
        }
    }

    #[test]
    fn every_id_is_found_of_more_than_are_sorted_together() {
        for known in [
            SORTED_TOGETHER,
            SORTED_TOGETHER + 1,
            2 * SORTED_TOGETHER + 300,
        ] {
            let last = u32::try_from(known).expect("few");
            let all: Vec<_> = (1..=last).map(id).collect();
            let ids = Ids::of(&[7; 16], all.iter(), all.len());
            for number in 1..=last {
                let found = ids.find(&StreamId::from_bytes(id(number)), id);
                assert_eq!(found, Some(number), "of {known}");
            }
            assert_eq!(ids.find(&StreamId::from_bytes(id(last + 1)), id), None);
        }
    }

    #[test]
    fn ids_in_a_row_are_spread() {
        let mut ids = Ids::new(&[7; 16]);
        (1..=10_000).for_each(|number| ids.insert(&id(number), number));
        let away = |(place, slot): (usize, &u64)| {
            let (hash, number) = parts(*slot);
            (number != 0).then(|| (place + ids.slots.len() - ids.place(hash)) % ids.slots.len())
        };
        let steps: usize = ids.slots.iter().enumerate().filter_map(away).sum();
        assert!(steps < 10 * 10_000, "{steps} steps for 10,000 ids");
    }
}
