//! [`Bounded`]: a cache, bounded by weight, of values that can be made again: open files, maps, index blocks.
//!
//! Each value has a [`Slot`] at its owner, so that finding it costs one uncontended lock. Eviction follows the clock
//! algorithm: first in, first out, but a value used since it was last inspected gets a second chance. A value in use is
//! an [`Arc`], and stays valid until its last user drops it; so the bound can be exceeded by the values in use.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

/// A cache whose values' total weight is bounded.
pub(crate) struct Bounded<T> {
    weight_max: usize,
    kept: Mutex<Kept<T>>,
}

struct Kept<T> {
    /// The next slot to inspect is the first. Of a slot whose owner was dropped only the weight stays here, until it is
    /// inspected.
    ring: VecDeque<(Weak<Slot<T>>, usize)>,
    weight: usize,
}

/// The place of one value.
pub(crate) struct Slot<T> {
    value: Mutex<Option<Arc<T>>>,
    used: AtomicBool,
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self {
            value: Mutex::new(None),
            used: AtomicBool::new(false),
        }
    }
}

impl<T> Slot<T> {
    fn get(&self) -> Option<Arc<T>> {
        let value = self
            .value
            .lock()
            .expect("no panic under this lock")
            .clone()?;
        // Read first: threads that share the slot would otherwise contend for its cache line with stores.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(value)
    }

    /// Whether its value is in the cache now.
    pub(crate) fn is_loaded(&self) -> bool {
        let value = self.value.lock().expect("no panic under this lock");
        value.is_some()
    }

    fn take(&self) -> Option<Arc<T>> {
        self.value.lock().expect("no panic under this lock").take()
    }
}

impl<T> Bounded<T> {
    /// An empty cache that keeps values up to a total weight of `weight_max`.
    pub(crate) const fn new(weight_max: usize) -> Self {
        Self {
            weight_max,
            kept: Mutex::new(Kept {
                ring: VecDeque::new(),
                weight: 0,
            }),
        }
    }

    /// The value of a slot; if it was evicted, `make` makes it again and gives its weight.
    pub(crate) fn get<E>(
        &self,
        slot: &Arc<Slot<T>>,
        make: impl FnOnce() -> Result<(T, usize), E>,
    ) -> Result<Arc<T>, E> {
        if let Some(value) = slot.get() {
            return Ok(value);
        }
        // No lock is held while it is made: two threads may make it at once, and one of the two values is dropped.
        let (made, weight) = make()?;
        let value = {
            let mut value = slot.value.lock().expect("no panic under this lock");
            match &*value {
                Some(other) => return Ok(other.clone()),
                None => value.insert(Arc::new(made)).clone(),
            }
        };
        drop(self.keep(slot, weight));
        Ok(value)
    }

    /// Whether a value of this weight would evict no other.
    pub(crate) fn has_room(&self, weight: usize) -> bool {
        let kept = self.kept.lock().expect("no panic under this lock");
        kept.weight.saturating_add(weight) <= self.weight_max
    }

    /// Adds a slot's value to the cache; returns the evicted values, to be dropped outside of the lock.
    fn keep(&self, slot: &Arc<Slot<T>>, weight: usize) -> Vec<Arc<T>> {
        let mut kept = self.kept.lock().expect("no panic under this lock");
        kept.weight = kept.weight.saturating_add(weight);
        let mut gone = Vec::new();
        // Each slot gets at most one second chance, so that the loop ends even while other threads use the values.
        let mut chances = kept.ring.len();
        while kept.weight > self.weight_max {
            let Some((other, weight)) = kept.ring.pop_front() else {
                break;
            };
            if let Some(other) = other.upgrade() {
                if chances > 0 && other.used.swap(false, Ordering::Relaxed) {
                    chances -= 1;
                    kept.ring.push_back((Arc::downgrade(&other), weight));
                    continue;
                }
                gone.extend(other.take());
            }
            kept.weight = kept.weight.saturating_sub(weight);
        }
        kept.ring.push_back((Arc::downgrade(slot), weight));
        gone
    }

    /// Drops every value; those in use live until their last user drops them.
    #[cfg_attr(
        target_family = "wasm",
        allow(dead_code, reason = "only files need it, when the system has no more")
    )]
    pub(crate) fn clear(&self) {
        let ring = {
            let mut kept = self.kept.lock().expect("no panic under this lock");
            kept.weight = 0;
            std::mem::take(&mut kept.ring)
        };
        ring.iter()
            .filter_map(|(slot, _)| slot.upgrade())
            .for_each(|slot| drop(slot.take()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(values: &Bounded<u32>, slot: &Arc<Slot<u32>>, value: u32, made: &mut u32) -> u32 {
        let make = || -> Result<_, ()> {
            *made += 1;
            Ok((value, 1))
        };
        *values.get(slot, make).unwrap()
    }

    #[test]
    fn no_more_are_kept_than_the_bound_and_those_in_use_stay_valid() {
        let values = Bounded::new(3);
        let slots: Vec<Arc<Slot<u32>>> = (0..10).map(|_| Arc::default()).collect();
        let mut made = 0;
        let held = values.get(&slots[0], || Ok::<_, ()>((0, 1))).unwrap();
        for (slot, value) in slots.iter().zip(0..) {
            assert_eq!(get(&values, slot, value, &mut made), value);
            assert!(slots.iter().filter(|slot| slot.get().is_some()).count() <= 3);
        }
        assert_eq!((*held, made), (0, 9));
    }

    #[test]
    fn a_value_that_is_used_again_and_again_is_kept() {
        let values = Bounded::new(3);
        let busy = Arc::default();
        let mut made = 0;
        for value in 0..50 {
            let mut other = 0;
            assert_eq!(get(&values, &busy, 7, &mut made), 7);
            assert_eq!(get(&values, &Arc::default(), value, &mut other), value);
        }
        // Once when it was first used, and once because it got no second chance yet.
        assert!(made <= 2, "{made}");
    }

    #[test]
    fn one_heavier_than_the_bound_is_kept_alone() {
        let values = Bounded::new(10);
        let (light, heavy) = (Arc::<Slot<u32>>::default(), Arc::<Slot<u32>>::default());
        values.get(&light, || Ok::<_, ()>((1, 1))).unwrap();
        values.get(&heavy, || Ok::<_, ()>((2, 1000))).unwrap();
        assert!(light.get().is_none() && heavy.get().is_some());
        values.clear();
        assert!(heavy.get().is_none());
    }
}
