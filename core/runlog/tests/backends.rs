//! Every backend does the same: the conformance suite on each.

mod conformance;

use std::sync::Arc;

use runlog::memory::MemoryBackend;

conformance_tests!(memory, Arc::new(MemoryBackend::new()));
