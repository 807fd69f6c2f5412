//! [`Redacted`]: the positions whose payloads no read gives.

use std::{
    collections::HashSet,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A set of positions that only grows. It has a lock of its own, held for a moment only, so that a read can ask at each
/// record without the lock of the directory; and where nothing is redacted, without any.
#[derive(Default)]
pub(crate) struct Redacted {
    count: AtomicUsize,
    positions: RwLock<HashSet<u64>>,
}

impl Redacted {
    pub(crate) fn of(positions: Vec<u64>) -> Self {
        let positions: HashSet<u64> = positions.into_iter().collect();
        Self {
            count: AtomicUsize::new(positions.len()),
            positions: RwLock::new(positions),
        }
    }

    pub(crate) fn insert(&self, position: u64) {
        let mut positions = self
            .positions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        positions.insert(position);
        self.count.store(positions.len(), Ordering::Release);
    }

    pub(crate) fn contains(&self, position: u64) -> bool {
        self.count.load(Ordering::Acquire) != 0
            && self
                .positions
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&position)
    }

    pub(crate) fn len(&self) -> u64 {
        self.count.load(Ordering::Acquire) as u64
    }

    pub(crate) fn to_vec(&self) -> Vec<u64> {
        self.positions
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .copied()
            .collect()
    }
}
