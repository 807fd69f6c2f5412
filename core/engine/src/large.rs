//! Memory of many megabytes, in large pages where the system has them.
//!
//! The system hands out memory page by page, each when it is first written to. For a checkpoint of a million streams and the table of
//! their ids those are ten thousand pages of 4 KiB, whose first use takes longer than what is written to them.

#![cfg_attr(
    target_os = "linux",
    allow(unsafe_code, reason = "nothing in Rust asks for large pages")
)]

/// Below this many bytes large pages gain nothing.
#[cfg(all(target_os = "linux", not(miri)))]
const LEAST_BYTES: usize = 4 << 20;

/// A list of zeros, which isn't touched before it is used.
pub(crate) fn zeros<T: Copy + Default>(len: usize) -> Vec<T> {
    let list = vec![T::default(); len];
    #[cfg(all(target_os = "linux", not(miri)))]
    ask_for_large_pages(&list);
    list
}

/// Linux takes this as advice: where large pages are turned off, or there are none, it changes nothing.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large_pages<T>(list: &[T]) {
    /// Advice is for whole pages, which have at most this size on the machines there are.
    const PAGE_BYTES: usize = 64 << 10;
    let bytes = size_of_val(list);
    if bytes < LEAST_BYTES {
        return;
    }
    let start = list.as_ptr().cast::<u8>();
    let before = start.align_offset(PAGE_BYTES);
    let length = bytes.saturating_sub(before) / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: these pages are within the list, and the advice changes nothing of what is in them.
    unsafe {
        libc::madvise(
            start.add(before).cast_mut().cast(),
            length,
            libc::MADV_HUGEPAGE,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_of_any_length_are_there_and_can_be_written() {
        for len in [0, 1, 4096, (4 << 20) - 1, (4 << 20) + 1, 9 << 20] {
            let mut list: Vec<u8> = zeros(len);
            assert_eq!(list.len(), len);
            assert!(list.iter().all(|byte| *byte == 0));
            list.fill(7);
            list.truncate(len / 2);
            list.shrink_to_fit();
            assert!(list.iter().all(|byte| *byte == 7));
        }
    }
}
