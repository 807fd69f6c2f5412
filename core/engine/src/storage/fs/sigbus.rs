//! Faults in maps, on Linux: with `map.rs`, `writeback.rs` and `process.rs` the four modules with `unsafe`.
//!
//! A page of a mapped file that can't be read, because the device fails or the file was shortened, raises `SIGBUS` in
//! the thread that touches it, which ends the process unless it is handled. The handler here looks the address up in a
//! fixed table of the existing maps. For one of ours it marks the map as failed and replaces all of it with zeros, so
//! that the thread continues; the code that copied bytes out of the map then sees the mark, discards them and reads the
//! file, which returns an ordinary error. Every other fault goes to the previously installed handler.
//!
//! The handler uses atomics, `mmap` and `sigaction` only, and can run at any place of any thread.
#![allow(
    unsafe_code,
    clippy::disallowed_methods,
    reason = "a signal handler that maps zeros"
)]

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
    mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
};

/// The most maps that can exist at once. Further files are read without a map.
const ENTRIES: usize = 1024;

static TABLE: [Entry; ENTRIES] = [const { Entry::free() }; ENTRIES];
/// The previously installed handler; set before ours can be called.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Where to begin looking for a free entry.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// One map.
///
/// `start` and `end` are read by handlers in other threads while they are changed. `version` is odd during a change and
/// different after it, which tells such a handler that this entry is not the one it looks for: the entry of the
/// faulting map doesn't change, since the thread that met the fault is using it.
struct Entry {
    is_taken: AtomicBool,
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    failed: AtomicBool,
}

impl Entry {
    const fn free() -> Self {
        Self {
            is_taken: AtomicBool::new(false),
            version: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    fn set(&self, start: usize, end: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.end.store(end, Ordering::SeqCst);
        self.failed.store(false, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The range of the map that an address lies in, if it is this one's.
    fn range_with(&self, address: usize) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::SeqCst);
        let (start, end) = (
            self.start.load(Ordering::SeqCst),
            self.end.load(Ordering::SeqCst),
        );
        let is_stable = version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        (is_stable && (start..end).contains(&address)).then_some((start, end))
    }
}

/// A map whose faults are handled, until this is dropped.
pub(super) struct Guard {
    entry: &'static Entry,
}

impl Guard {
    /// Handles faults in the range of whole pages from `start` to `end`; `None` if that isn't possible.
    pub(super) fn new(start: usize, end: usize) -> Option<Self> {
        if !is_installed() {
            return None;
        }
        let first = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = (0..ENTRIES)
            .map(|index| &TABLE[first.wrapping_add(index) % ENTRIES])
            .find(|entry| {
                entry
                    .is_taken
                    .compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
            })?;
        entry.set(start, end);
        Some(Self { entry })
    }

    /// Whether a page of the map could not be read. Check it after copying bytes: if it is `false`, they are the
    /// file's.
    pub(super) fn has_failed(&self) -> bool {
        // The copy happens before this load: the handler sets the mark before it puts zeros in place.
        fence(Ordering::Acquire);
        self.entry.failed.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.entry.set(0, 0);
        self.entry.is_taken.store(false, Ordering::SeqCst);
    }
}

/// Whether faults can be handled in this thread: one that blocks the signal would end the process. Queried once per
/// thread.
pub(super) fn is_deliverable() -> bool {
    thread_local! {
        static DELIVERABLE: Cell<Option<bool>> = const { Cell::new(None) };
    }
    DELIVERABLE.with(|known| {
        known.get().unwrap_or_else(|| {
            // SAFETY: both are plain calls on a set of signals that lives here; nothing is changed.
            let deliverable = unsafe {
                let mut blocked: libc::sigset_t = mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &raw mut blocked) == 0
                    && libc::sigismember(&raw const blocked, libc::SIGBUS) == 0
            };
            known.set(Some(deliverable));
            deliverable
        })
    })
}

/// Whether the handler is installed, which the first call does. A handler that another library has installed since is
/// left in place, and makes this `false`: it may not forward faults that aren't its own.
fn is_installed() -> bool {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(install);
    current().is_some_and(|current| current.sa_sigaction == address_of_handler())
}

fn address_of_handler() -> usize {
    handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize
}

fn current() -> Option<libc::sigaction> {
    // SAFETY: asks for the action of a signal and changes nothing; all bit patterns of the structure are valid.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        (libc::sigaction(libc::SIGBUS, ptr::null(), &raw mut action) == 0).then_some(action)
    }
}

fn install() {
    let Some(before) = current() else { return };
    // Before ours can be called.
    let _ = BEFORE.set(before);
    stay_loaded();
    // SAFETY: the handler keeps to what is allowed in one, and stays loaded. It runs on the thread's own signal stack
    // where there is one, as hosts such as Go demand.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = address_of_handler();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut());
    }
}

/// Prevents unloading. A host may unload this library, as Node does when a worker ends; the installed handler would
/// then point to unmapped code.
fn stay_loaded() {
    // SAFETY: asks for the file the handler was loaded from, and opens that file again without loading anything. The
    // handle is given up on purpose.
    unsafe {
        let mut place: libc::Dl_info = mem::zeroed();
        if libc::dladdr(address_of_handler() as *const c_void, &raw mut place) != 0
            && !place.dli_fname.is_null()
        {
            libc::dlopen(
                place.dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            );
        }
    }
}

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid `info`, which has an address for these codes. `errno` belongs to the code that
    // was interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let is_fault = matches!((*info).si_code, libc::BUS_ADRERR | libc::BUS_MCEERR_AR);
        if !is_fault || !replace((*info).si_addr() as usize) {
            hand_on(signal, info, context);
        }
        *libc::__errno_location() = errno;
    }
}

/// Puts zeros in the place of the map that an address lies in; `false` when it lies in none.
fn replace(address: usize) -> bool {
    for entry in &TABLE {
        let Some((start, end)) = entry.range_with(address) else {
            continue;
        };
        // First the mark, then the zeros: see `has_failed`.
        entry.failed.store(true, Ordering::SeqCst);
        // The whole map, not only the page: a marked map is never used again, and one call leaves one memory area, of
        // which the kernel limits the number per process. SAFETY: the range is a map of ours, which the thread that met
        // the fault keeps from being unmapped. No reference points into it.
        let replaced = unsafe {
            libc::mmap(
                start as *mut c_void,
                end - start,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        return replaced != libc::MAP_FAILED;
    }
    false
}

/// Forwards a signal to the previously installed handler.
///
/// # Safety
/// To be called from the handler, with its arguments.
unsafe fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let before = BEFORE.get();
    let action = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    // SAFETY: the action is what `sigaction` gave: one of two constants, or a function of the type its flags say.
    unsafe {
        // A signal sent by a process, not raised by a fault: only such a one can be ignored, and doesn't recur by
        // itself.
        let is_sent = (*info).si_code <= 0;
        match action {
            libc::SIG_IGN if is_sent => {}
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                // A fault recurs on return; a sent signal is sent again, and delivered on return.
                if is_sent {
                    libc::raise(signal);
                }
            }
            function if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) => {
                let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                    mem::transmute(function);
                function(signal, info, context);
            }
            function => {
                let function: extern "C" fn(c_int) = mem::transmute(function);
                function(signal);
            }
        }
    }
}
