//! Memory maps of sealed segments: the one module with `unsafe`.
#![allow(unsafe_code, clippy::disallowed_methods, reason = "this is the one place that maps files")]

use std::{fs, sync::Arc};

use bytes::Bytes;
use memmap2::{Advice, Mmap};

use crate::storage::{Advise, Map};

/// The smallest piece worth a call to the operating system.
const PAGE_BYTES: usize = 4096;

/// Maps the whole file, or says `None` where the operating system won't.
pub(super) fn map(file: &fs::File) -> Option<Map> {
    // SAFETY: the engine maps sealed segments only. It never writes to a sealed segment or shortens it, and
    // it holds the folder's lock against other writers of its own kind; it unlinks such files but does not
    // truncate them. A foreign process that truncates one makes a read raise SIGBUS, which docs/durability.md
    // names as outside what is promised.
    let map = Arc::new(unsafe { Mmap::map(file) }.ok()?);
    Some(Map { bytes: Bytes::from_owner(Owner(map.clone())), advise: Some(Arc::new(Advised(map))) })
}

struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

struct Advised(Arc<Mmap>);

impl Advise for Advised {
    fn will_need(&self, offset: u64, bytes: usize) {
        let Ok(offset) = usize::try_from(offset) else { return };
        let start = offset - offset % PAGE_BYTES;
        let length = (offset - start).saturating_add(bytes).min(self.0.len().saturating_sub(start));
        // Advice only: a refusal costs time, never correctness.
        #[cfg(unix)]
        let _ = self.0.advise_range(Advice::WillNeed, start, length);
        #[cfg(not(unix))]
        let _ = length;
    }
}
