//! Whether a text is left: in the files of a store, and in its records.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    unreachable_pub,
    dead_code,
    reason = "a module of tests, which looks at the files of a store"
)]

use std::{fs, path::Path};

use runlog::{blocking::Store, log::Position};

/// Whether a file of a folder has a text as it is, not compressed.
pub fn holds(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(&path).unwrap();
        let mut windows = bytes.windows(text.len());
        windows.any(|window| window == text.as_bytes())
    })
}

/// Whether any record of the log has a text, also in blocks that reading decodes.
pub fn tells(store: &Store, text: &str) -> bool {
    let mut next = Some(Position(1));
    while let Some(first) = next {
        let page = pollster::block_on(store.backend().scan(first, 1_000)).unwrap();
        let has = |bytes: &[u8]| bytes.windows(text.len()).any(|at| at == text.as_bytes());
        let tells = |record: &runlog::log::Record| has(&record.payload) || has(&record.meta);
        if page.records.iter().any(tells) {
            return true;
        }
        next = page.next;
    }
    false
}
