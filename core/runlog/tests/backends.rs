//! Every backend does the same: the conformance suite on each.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod conformance;

use std::sync::Arc;

use runlog::{
    StoreOptions,
    backend::Backend,
    engine::{Embedded, SystemHost, Wait},
};
use tempfile::TempDir;

conformance_tests!(embedded_blocking, in_folder(Wait::Block));
conformance_tests!(embedded_awaiting, in_folder(Wait::Await));
conformance_tests!(embedded_in_memory, in_memory(Wait::Block));

/// An engine in a folder of its own, with segments so small that a claim fills several.
fn in_folder(wait: Wait) -> (Arc<dyn Backend>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        segment_bytes_max: 64 << 10,
        ..StoreOptions::default()
    };
    let backend = Embedded::open(folder.path().join("store"), options, wait).unwrap();
    (Arc::new(backend), folder)
}

fn in_memory(wait: Wait) -> (Arc<dyn Backend>, ()) {
    (
        Arc::new(Embedded::in_memory(Arc::new(SystemHost), wait)),
        (),
    )
}
