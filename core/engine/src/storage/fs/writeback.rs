//! Handing written bytes to the device early, on Linux.

#![allow(
    unsafe_code,
    reason = "rustix has no sync_file_range, and nothing else starts writing without waiting for it"
)]

use std::{fs, os::fd::AsRawFd};

/// Starts the writeback of a file's dirty pages before an offset, without waiting. The kernel reports a failure at the
/// next flush, which is what durability relies on: this call flushes nothing.
pub(super) fn start(file: &fs::File, end: u64) {
    let Ok(bytes) = libc::off64_t::try_from(end) else {
        return;
    };
    // With a length of 0 it would mean the whole file.
    if bytes > 0 {
        // SAFETY: the descriptor is open as long as `file` is, and no memory is handed over.
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, bytes, libc::SYNC_FILE_RANGE_WRITE) };
    }
}
