//! Maps of sealed segments, on Linux: with `sigbus.rs`, `writeback.rs` and `process.rs` the four modules with `unsafe`.
//!
//! Bytes are copied out of a map and never pointed into: the file may change, shrink or become unreadable at any time,
//! and what was given out must not. No reference to mapped memory is ever made.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "maps files, and copies from them"
)]

use std::{
    ffi::c_void,
    fs,
    os::fd::AsRawFd,
    ptr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use bytes::BytesMut;

use super::sigbus::{self, Guard};
use crate::{
    bounded::{Bounded, Slot},
    storage::Map,
};

/// The most files that are mapped at a time, in the whole process. The kernel allows 65,530 areas of memory for all
/// purposes.
const MAPS_MAX: usize = 512;
/// How much of a record is prefetched, one cache line at a time: for a longer record the hardware prefetcher takes
/// over.
#[cfg(target_arch = "x86_64")]
const PREFETCH_BYTES: usize = 1280;
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;
/// Two ranges at most this far apart are prefetched with one call, together with the gap.
const CLOSE_BYTES: usize = 8 << 10;
/// How many of the requested places are probed, or how many pages one call probes.
const PROBES: usize = 4;
const LOOKED_AT_PAGES: usize = 64;

/// Once requested places were found in memory, so many requests of few places aren't looked into: probing takes several
/// times as long as reading some records that are there. If one of them isn't, it waits for the device by itself.
const TRUSTED_REQUESTS: u32 = 32;
const TRUSTED_PLACES_MAX: usize = 64;

static MAPPED: Bounded<Mapped> = Bounded::new(MAPS_MAX);

/// A mapped file, with the length it had when it was mapped.
pub(super) struct Mapped {
    start: *const u8,
    length: usize,
    /// How many of the next requests are taken for ones of places in memory.
    trusted: AtomicU32,
    /// Dropped before the memory is unmapped: see `drop`.
    guard: Option<Guard>,
}

// SAFETY: the memory belongs to this value alone, is only read, and lives as long as it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// The place of a file's map.
#[derive(Default)]
pub(super) struct Place {
    slot: Arc<Slot<Mapped>>,
    /// Mapping failed or isn't supported: the file is read without a map from then on.
    is_refused: AtomicBool,
}

impl Place {
    /// The map, made at first use; `None` if that failed or isn't supported.
    pub(super) fn get(&self, file: impl FnOnce() -> Option<Arc<fs::File>>) -> Option<Arc<Mapped>> {
        if self.is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let made = MAPPED.get(&self.slot, || {
            file()
                .and_then(|file| Mapped::new(&file))
                .map(|map| (map, 1))
                .ok_or(())
        });
        let mapped = made.ok().filter(|mapped| !mapped.is_failed());
        if mapped.is_none() {
            self.is_refused.store(true, Ordering::Relaxed);
        }
        mapped
    }
}

fn page_bytes() -> usize {
    static PAGE_BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: asks for a constant of the system.
    *PAGE_BYTES.get_or_init(|| {
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
    })
}

impl Mapped {
    fn new(file: &fs::File) -> Option<Self> {
        let length = usize::try_from(file.metadata().ok()?.len())
            .ok()
            .filter(|length| *length > 0)?;
        let whole = length.checked_next_multiple_of(page_bytes())?;
        // SAFETY: a new map at a place of the kernel's choice touches nothing that is there.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return None;
        }
        let mut mapped = Self {
            start: start.cast(),
            length,
            trusted: AtomicU32::new(0),
            guard: None,
        };
        let address = start as usize;
        mapped.guard = Some(Guard::new(address, address.checked_add(whole)?)?);
        Some(mapped)
    }

    /// Whether bytes of it could not be read, so that it must not be used any more.
    pub(super) fn is_failed(&self) -> bool {
        self.guard.as_ref().is_none_or(Guard::has_failed)
    }

    /// Copies bytes of the file; `false` if a fault makes the copy invalid.
    ///
    /// # Safety
    /// There must be room for `bytes` bytes at `to`, outside of the map.
    unsafe fn copy_to(&self, offset: u64, bytes: usize, to: *mut u8) -> bool {
        let Ok(offset) = usize::try_from(offset) else {
            return false;
        };
        let is_inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.length);
        if !is_inside || !sigbus::is_deliverable() {
            return false;
        }
        // SAFETY: the range lies inside of the map, and the caller has made room for it. The memory may change
        // meanwhile, when the file does, and the copy is then garbage, which the check of the record's CRC in the copy
        // detects. A fault yields zeros and marks the map as failed.
        unsafe { ptr::copy_nonoverlapping(self.start.add(offset), to, bytes) };
        !self.is_failed()
    }

    /// Asks for the pages of a range, which must lie inside.
    fn will_need_range(&self, offset: usize, bytes: usize) {
        let start = offset - offset % page_bytes();
        // SAFETY: the range lies inside of the map. Advice only: a refusal costs time, never correctness.
        unsafe {
            libc::madvise(
                self.start.add(start) as *mut c_void,
                offset - start + bytes,
                libc::MADV_WILLNEED,
            )
        };
    }

    /// Whether bytes can be read without waiting for the device, which must lie inside of the map, and within
    /// [`LOOKED_AT_PAGES`]. For files that the caller doesn't own the kernel always reports yes.
    fn is_in_memory(&self, offset: usize, bytes: usize) -> bool {
        let mut pages = [0_u8; LOOKED_AT_PAGES];
        let start = offset - offset % page_bytes();
        let length = offset + bytes - start;
        let wanted = length.div_ceil(page_bytes());
        let Some(pages) = pages.get_mut(..wanted) else {
            return false;
        };
        // SAFETY: queries the state of pages of the map, one byte for each.
        let asked = unsafe {
            libc::mincore(
                self.start.add(start) as *mut c_void,
                length,
                pages.as_mut_ptr(),
            )
        };
        asked == 0 && pages.iter().all(|page| page & 1 == 1)
    }

    /// Whether a sample of these places, which lie inside of the map, can be read without waiting for the device: then
    /// usually all can.
    fn seem_in_memory(&self, offsets: &[usize]) -> bool {
        let (Some(first), Some(last)) = (offsets.iter().min(), offsets.iter().max()) else {
            return true;
        };
        let bytes = last - first + 1;
        if bytes <= (LOOKED_AT_PAGES - 1) * page_bytes() {
            return self.is_in_memory(*first, bytes);
        }
        // Probing a few tells whether the rest is worth a call each.
        let step = (offsets.len() / PROBES).max(1);
        let mut probes = offsets.iter().step_by(step);
        probes.all(|offset| self.is_in_memory(*offset, 1))
    }
}

impl Map for Mapped {
    fn copy(&self, offset: u64, bytes: &mut [u8]) -> bool {
        // SAFETY: `bytes` has room for its length.
        unsafe { self.copy_to(offset, bytes.len(), bytes.as_mut_ptr()) }
    }

    // Appends without zeroing the buffer first.
    fn append(&self, offset: u64, bytes: usize, to: &mut BytesMut) -> bool {
        to.reserve(bytes);
        // SAFETY: room for `bytes` more was just reserved.
        let copied =
            unsafe { self.copy_to(offset, bytes, to.spare_capacity_mut().as_mut_ptr().cast()) };
        if copied {
            // SAFETY: `bytes` bytes were just written after the existing ones.
            unsafe { to.set_len(to.len() + bytes) };
        }
        copied
    }

    #[cfg(target_arch = "x86_64")]
    fn prefetch(&self, offset: u64, bytes: u64) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let Ok(start) = usize::try_from(offset) else {
            return;
        };
        let bytes =
            usize::try_from(bytes).map_or(PREFETCH_BYTES, |bytes| bytes.min(PREFETCH_BYTES));
        let end = start.saturating_add(bytes).min(self.length);
        for at in (start..end).step_by(LINE_BYTES) {
            // SAFETY: the address lies inside of the map. A prefetch never faults, also where the page can't be read.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start.add(at).cast()) };
        }
    }

    fn will_need(&self, offsets: &[u64]) {
        let offsets = offsets
            .iter()
            .filter_map(|offset| usize::try_from(*offset).ok());
        let offsets: Vec<usize> = offsets.filter(|offset| *offset < self.length).collect();
        let trusted = self.trusted.load(Ordering::Relaxed);
        if trusted > 0 && offsets.len() <= TRUSTED_PLACES_MAX {
            // Of several threads one may count for all: it is a guess anyway.
            self.trusted.store(trusted - 1, Ordering::Relaxed);
            return;
        }
        if self.seem_in_memory(&offsets) {
            self.trusted.store(TRUSTED_REQUESTS, Ordering::Relaxed);
            return;
        }
        self.trusted.store(0, Ordering::Relaxed);
        // Ranges close to each other are requested with one call.
        let mut wanted: Option<(usize, usize)> = None;
        for offset in offsets {
            let end = (offset + 2 * page_bytes()).min(self.length);
            match &mut wanted {
                Some((from, to)) if offset >= *from && offset <= *to + CLOSE_BYTES => {
                    *to = end.max(*to);
                }
                wanted => {
                    let before = wanted.replace((offset, end));
                    before.inspect(|(from, to)| self.will_need_range(*from, to - from));
                }
            }
        }
        wanted.inspect(|(from, to)| self.will_need_range(*from, to - from));
    }

    fn will_need_all(&self, offset: u64, bytes: u64) {
        let (Ok(start), Ok(bytes)) = (usize::try_from(offset), usize::try_from(bytes)) else {
            return;
        };
        let end = start.saturating_add(bytes).min(self.length);
        if start >= end {
            return;
        }
        // The advice makes the kernel check each page, even those in memory already; a few probes avoid that.
        let step = ((end - start) / PROBES).max(1);
        if !(start..end)
            .step_by(step)
            .all(|offset| self.is_in_memory(offset, 1))
        {
            self.will_need_range(start, end - start);
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // It leaves the table first: once unmapped, the memory may belong to another map.
        self.guard = None;
        // SAFETY: the map was made with this length, and this is its last user.
        unsafe { libc::munmap(self.start as *mut c_void, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_gone_are_told_and_others_stay_readable_in_other_maps() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let mut options = fs::File::options();
            let file = options
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(folder.path().join(name))
                .unwrap();
            super::super::calls::write(&file, 0, &vec![7; 40_000]).unwrap();
            Arc::new(file)
        };
        let (short, whole) = (file("short"), file("whole"));
        let (place, other) = (Place::default(), Place::default());
        let map = place.get(|| Some(short.clone())).unwrap();
        let beside = other.get(|| Some(whole.clone())).unwrap();
        let mut bytes = [0; 1000];
        assert!(map.copy(39_000, &mut bytes) && bytes == [7; 1000]);
        assert!(!map.copy(39_001, &mut bytes));
        short.set_len(8192).unwrap();
        // Many threads meet it at once.
        std::thread::scope(|scope| {
            for place in 0..8 {
                let (map, beside) = (&map, &beside);
                scope.spawn(move || {
                    let mut bytes = [0; 1000];
                    for round in 0..1000 {
                        assert!(!map.copy(12_000 + place * 3000, &mut bytes));
                        assert!(
                            beside.copy(place * 4000 + round, &mut bytes) && bytes == [7; 1000]
                        );
                    }
                });
            }
        });
        assert!(map.is_failed() && !map.copy(0, &mut bytes));
        assert!(!beside.is_failed());
        assert!(place.get(|| Some(short.clone())).is_none());
        // One that is made after it fails by itself alone.
        let again = Place::default().get(|| Some(short.clone())).unwrap();
        assert!(again.copy(0, &mut bytes) && bytes == [7; 1000]);
    }

    #[test]
    fn maps_are_bounded_and_those_in_use_stay_valid() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        super::super::calls::write(&file, 0, &[9; 5000]).unwrap();
        // Fewer than the table takes, which other tests use too.
        let places: Vec<Place> = (0..MAPS_MAX + 100).map(|_| Place::default()).collect();
        let held: Vec<_> = places
            .iter()
            .filter_map(|place| place.get(|| Some(file.clone())))
            .collect();
        assert_eq!(held.len(), places.len());
        let mut bytes = [0; 100];
        assert!(
            held.iter()
                .all(|map| map.copy(4900, &mut bytes) && bytes == [9; 100])
        );
        drop(held);
        assert!(Place::default().get(|| Some(file.clone())).is_some());
    }
}
