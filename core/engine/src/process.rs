//! The id of this process, without a system call each time: every append asks for it.

#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "only the C library tells a child that it was forked; hosts ask for the id here"
)]

use std::sync::{
    OnceLock,
    atomic::{AtomicU32, Ordering},
};

/// The id of this process; 0 while it isn't known.
static KNOWN: AtomicU32 = AtomicU32::new(0);

/// The id of this process, also in a child that was forked by `fork()` of the C library.
pub(crate) fn id() -> u32 {
    match KNOWN.load(Ordering::Relaxed) {
        0 => ask(),
        known => known,
    }
}

fn ask() -> u32 {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the handler only stores into an atomic, which is allowed in a forked child.
    let is_registered = *IS_REGISTERED
        .get_or_init(|| unsafe { libc::pthread_atfork(None, None, Some(forget)) } == 0);
    let id = std::process::id();
    if is_registered {
        KNOWN.store(id, Ordering::Relaxed);
    }
    id
}

/// Called in a child right after a fork.
extern "C" fn forget() {
    KNOWN.store(0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_that_of_this_process_and_is_asked_for_again_after_a_fork() {
        let own = std::process::id();
        assert_eq!((id(), id()), (own, own));
        forget();
        assert_eq!(KNOWN.load(Ordering::Relaxed), 0);
        assert_eq!(id(), own);
    }
}
