//! What the tests share that damage a store.

#![allow(missing_docs, unreachable_pub, reason = "a module of test binaries")]

use runlog::engine::storage::{Access, MemoryStorage, Storage};

/// A copy that shares nothing with its original.
pub fn copy(storage: &MemoryStorage) -> MemoryStorage {
    let copy = MemoryStorage::new();
    for name in storage.list().unwrap() {
        let from = storage.open(&name, Access::Read).unwrap();
        let mut bytes = vec![0; usize::try_from(from.len().unwrap()).unwrap()];
        from.read_at(0, &mut bytes).unwrap();
        copy.create(&name).unwrap().write_at(0, &bytes).unwrap();
    }
    copy
}
