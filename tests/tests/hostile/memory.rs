//! An allocator that remembers the largest piece of memory that each thread asked for.

#![allow(unsafe_code, reason = "an allocator can't be written without")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator.
pub(crate) struct Watched;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
}

/// The size of the largest piece since the last call.
pub(crate) fn take_largest() -> usize {
    LARGEST.take()
}

fn note(bytes: usize) {
    // A thread that ends has no cell any more.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller keeps to what `GlobalAlloc` asks, which is what `System` asks.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer is one that `System` gave.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        note(bytes);
        // SAFETY: as above; the pointer is one that `System` gave.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}
