//! Claims run on a store in memory and on one in a folder.

#![allow(missing_docs, unreachable_pub, reason = "a module of test binaries")]

use runlog::{Durability, StoreOptions, blocking::Store};

pub fn in_memory(claim: impl Fn(&Store)) {
    claim(&Store::in_memory());
}

pub fn on_disk(claim: impl Fn(&Store)) {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        durability: Durability::Os,
        ..StoreOptions::default()
    };
    claim(&Store::open_with(folder.path().join("store"), options).unwrap());
}

/// `both!(claim …)`: each claim, a function that takes a store, is a test on memory and on disk.
#[macro_export]
macro_rules! both {
    ($($claim:ident)*) => {
        mod memory { $(#[test] fn $claim() { $crate::both::in_memory(super::$claim); })* }
        mod disk { $(#[test] fn $claim() { $crate::both::on_disk(super::$claim); })* }
    };
}
