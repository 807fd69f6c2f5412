//! Memory maps of sealed segments: the one module with `unsafe`.
#![allow(unsafe_code, clippy::disallowed_methods, reason = "this is the one place that maps files")]

use std::{fs, sync::Arc};

use bytes::Bytes;
#[cfg(unix)]
use memmap2::Advice;
use memmap2::Mmap;

use crate::storage::{Advise, Map};

/// The smallest piece worth a call to the operating system.
const PAGE_BYTES: usize = 4096;
/// So many of the places asked for are looked at.
const PROBES: usize = 4;

/// Maps the whole file, or says `None` where the operating system won't.
pub(super) fn map(file: &Arc<fs::File>) -> Option<Map> {
    // SAFETY: the engine maps sealed segments only. It never writes to a sealed segment or shortens it, and
    // it holds the folder's lock against other writers of its own kind; it unlinks such files but does not
    // truncate them. A foreign process that truncates one makes a read raise SIGBUS, which docs/durability.md
    // names as outside what is promised.
    let map = Arc::new(unsafe { Mmap::map(&**file) }.ok()?);
    Some(Map {
        bytes: Bytes::from_owner(Owner(map.clone())),
        advise: Some(Arc::new(Advised { map, file: file.clone() })),
    })
}

struct Owner(Arc<Mmap>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

struct Advised {
    map: Arc<Mmap>,
    file: Arc<fs::File>,
}

impl Advise for Advised {
    fn will_need(&self, offsets: &[u64]) {
        // A look at a few tells whether the rest is worth a call each.
        let step = (offsets.len() / PROBES).max(1);
        if offsets.iter().step_by(step).all(|offset| is_in_memory(&self.file, *offset)) {
            return;
        }
        offsets.iter().for_each(|offset| self.advise(*offset, 2 * PAGE_BYTES as u64));
    }

    fn will_need_range(&self, offset: u64, bytes: u64) {
        if !is_in_memory(&self.file, offset) || !is_in_memory(&self.file, offset + bytes.saturating_sub(1)) {
            self.advise(offset, bytes);
        }
    }
}

impl Advised {
    fn advise(&self, offset: u64, bytes: u64) {
        let (Ok(offset), Ok(bytes)) = (usize::try_from(offset), usize::try_from(bytes)) else { return };
        let start = offset - offset % PAGE_BYTES;
        let length = (offset - start).saturating_add(bytes).min(self.map.len().saturating_sub(start));
        // Advice only: a refusal costs time, never correctness.
        #[cfg(unix)]
        let _ = self.map.advise_range(Advice::WillNeed, start, length);
        #[cfg(not(unix))]
        let _ = (start, length, &self.map);
    }
}

/// Whether a byte of the file can be read without waiting for the device. `false` where nobody can tell.
#[cfg(target_os = "linux")]
fn is_in_memory(file: &fs::File, offset: u64) -> bool {
    let mut byte = [0; 1];
    let mut parts = [std::io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file, &mut parts, offset, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn is_in_memory(_file: &fs::File, _offset: u64) -> bool {
    false
}
