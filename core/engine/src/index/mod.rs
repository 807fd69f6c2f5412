//! The indexes: the [`directory`] of streams over the whole store, and the index of a segment that isn't sealed yet
//! ([`memory`]). Both can be rebuilt from the log alone; a [`checkpoint`] saves that work.

pub(crate) mod checkpoint;
pub(crate) mod directory;
pub(crate) mod ids;
pub(crate) mod lineage;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod piece;
pub(crate) mod ranges;
pub(crate) mod redacted;
pub(crate) mod stream;
pub(crate) mod streams;

use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by numbers that the engine itself gave out, so that no caller can choose them to collide.
pub(crate) type NumberMap<V> = std::collections::HashMap<u32, V, BuildHasherDefault<NumberHasher>>;

/// Spreads small consecutive numbers over the table.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}
