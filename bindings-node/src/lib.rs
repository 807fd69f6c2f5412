//! Runlog as a Node addon: a thin layer around one [`Hub`] for each JavaScript thread.
//!
//! Every function is free, takes numbers, text and bytes, and catches panics. None of them blocks: a call is answered
//! at once or returns a ticket, and when answers are ready the function given to [`start`] is called, which has to call
//! [`poll`]. The addon references no JavaScript object but that function, and doesn't keep the process alive.

#![allow(missing_docs, reason = "the macros make functions of their own")]
#![allow(
    unsafe_code,
    reason = "the macros make the C functions that Node calls"
)]

mod parts;

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use napi::{
    Env, Error, Result,
    bindgen_prelude::{Either, Function},
    threadsafe_function::ThreadsafeFunctionCallMode,
};
use napi_derive::napi;
use runlog::engine::storage::FsStorage;
use runlog_bindings::{Host, Hub, Started, Work};

use parts::{Part, push, push_all};

thread_local! {
    static HUB: RefCell<Option<Hub>> = const { RefCell::new(None) };
    /// Set when the thread is ending.
    static ENDING: RefCell<Arc<AtomicBool>> = RefCell::default();
}

/// Prepares this JavaScript thread. `wake` is called on it, later, whenever there is something to poll.
#[napi(catch_unwind)]
pub fn start(env: Env, wake: Function<'_, (), ()>) -> Result<()> {
    let wake = wake.build_threadsafe_function().weak::<true>().build()?;
    let ending = Arc::new(AtomicBool::new(false));
    let host = Host {
        engine: Arc::new(runlog::engine::SystemHost),
        offload: offload(Arc::clone(&ending)),
        storage: Arc::new(|path| Ok(Arc::new(FsStorage::new(path)))),
    };
    let hub = Hub::new(host, move || {
        // It fails when the thread is ending, and then there is nothing to wake.
        let _ = wake.call((), ThreadsafeFunctionCallMode::NonBlocking);
    });
    HUB.with(|cell| *cell.borrow_mut() = Some(hub));
    ENDING.with(|cell| *cell.borrow_mut() = Arc::clone(&ending));
    // A thread that is terminated runs no JavaScript any more; process.exit() in the main thread runs no such hook.
    env.add_env_cleanup_hook((), move |()| close_all(&ending))?;
    Ok(())
}

/// Closes what this JavaScript thread has open, and waits for it: the thread is about to end.
#[napi(catch_unwind)]
pub fn end() {
    let ending = ENDING.with(|cell| Arc::clone(&cell.borrow()));
    close_all(&ending);
}

fn close_all(ending: &AtomicBool) {
    ending.store(true, Ordering::SeqCst);
    let hub = HUB.try_with(|cell| cell.try_borrow_mut().ok().and_then(|mut hub| hub.take()));
    drop(hub);
}

/// Work that may block goes to a thread of its own, of those that are kept for it; at the end of the JavaScript thread
/// nobody would see it done, so that it is done here.
fn offload(ending: Arc<AtomicBool>) -> Arc<dyn Fn(Work) + Send + Sync> {
    Arc::new(move |work| {
        if ending.load(Ordering::SeqCst) {
            work();
        } else {
            blocking::unblock(work).detach();
        }
    })
}

/// Calls a method of the object with this handle: the ticket under which the answer comes, or the answer itself, as
/// `[ok, handle, json, bytes]`.
#[napi(catch_unwind)]
pub fn call(
    env: Env,
    handle: u32,
    method: String,
    arguments: String,
    data: Option<&[u8]>,
) -> Result<Either<f64, Vec<Part<'static>>>> {
    let started = with_hub(|hub| hub.call(handle, &method, &arguments, data.unwrap_or_default()))?;
    match started {
        Started::Pending(ticket) => Ok(Either::A(ticket as f64)),
        Started::Done(result) => {
            let mut parts = Vec::with_capacity(4);
            push(&env, &mut parts, result)?;
            Ok(Either::B(parts))
        }
    }
}

/// Appends many batches, each for itself: the ticket of the first, those of the others follow it, and what is answered
/// already, as by [`poll`].
#[napi(catch_unwind)]
pub fn append(env: Env, packed: &[u8]) -> Result<Vec<Part<'static>>> {
    let (first, ready) = with_hub(|hub| hub.append(packed))?
        .map_err(|failure| Error::from_reason(failure.to_string()))?;
    let mut parts = Vec::with_capacity(1 + 5 * ready.len());
    parts.push(Part::A(first as f64));
    push_all(&env, &mut parts, ready)?;
    Ok(parts)
}

/// The answers that have come: `[ticket, ok, handle, json, bytes, …]`, five parts for each. Under ticket 0 is what is asked.
#[napi(catch_unwind)]
pub fn poll(env: Env) -> Result<Vec<Part<'static>>> {
    let ready = with_hub(Hub::poll)?;
    let mut parts = Vec::with_capacity(5 * ready.len());
    push_all(&env, &mut parts, ready)?;
    Ok(parts)
}

/// Whether there is something to do that nobody awaits.
#[napi(catch_unwind)]
pub fn is_busy() -> Result<bool> {
    with_hub(|hub| hub.is_busy())
}

/// Gives up waiting for an answer; whether there was one to wait for.
#[napi(catch_unwind)]
pub fn cancel(ticket: f64) -> Result<bool> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ticket that is none names nothing"
    )]
    with_hub(|hub| hub.cancel(ticket as u64))
}

/// Forgets an object.
#[napi(catch_unwind)]
pub fn release(handle: u32) -> Result<()> {
    with_hub(|hub| hub.release(handle))
}

fn with_hub<T>(work: impl FnOnce(&mut Hub) -> T) -> Result<T> {
    HUB.with(|cell| {
        let mut hub = cell.borrow_mut();
        let hub = hub.as_mut().ok_or_else(|| {
            Error::from_reason("start() was not called on this thread, or it is ending")
        })?;
        Ok(work(hub))
    })
}
