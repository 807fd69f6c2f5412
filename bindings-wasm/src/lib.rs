//! Runlog in WebAssembly: a shell around one `Hub`, as `bindings-node` is for Node.
//!
//! Every function is free and takes numbers, text and bytes. None of them waits: a call is answered at once or gets a
//! ticket. When answers are ready the function given to `start` is called, which is to call `poll` soon, but not from
//! inside: the hub is in use then.
//!
//! A panic can't be caught in WebAssembly. It ends the instance with an error that JavaScript sees, and every later call
//! is refused with what it said; what was acknowledged before is where it was written.
#![cfg(target_family = "wasm")]
#![allow(missing_docs, reason = "the macros make functions of their own")]
#![allow(
    unsafe_code,
    reason = "the macros make the functions that JavaScript calls"
)]

mod files;
mod host;
mod parts;

use std::{cell::RefCell, sync::Arc};

use js_sys::{Array, Function};
use runlog_bindings::{Host, Hub, Started};
use wasm_bindgen::prelude::*;

use crate::{files::Files, host::BrowserHost};

thread_local! {
    static HUB: RefCell<Option<Hub>> = const { RefCell::new(None) };
    static WAKE: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Leaves what a panic said where the wrapper in JavaScript finds it: the error that ends the instance says `unreachable`.
fn leave_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let (name, message) = ("__runlogPanic", panic.to_string());
    // There is nobody to tell that this failed.
    let _ = js_sys::Reflect::set(&js_sys::global(), &name.into(), &message.into());
}

/// Prepares the module. `wake` is called whenever there is something to poll; it must not call anything of this module.
#[wasm_bindgen]
pub fn start(wake: Function) {
    std::panic::set_hook(Box::new(leave_panic));
    WAKE.with(|cell| *cell.borrow_mut() = Some(wake));
    let host = Host {
        engine: Arc::new(BrowserHost),
        // There is one thread: what blocks is done at once.
        offload: Arc::new(|work| work()),
        storage: Arc::new(files::storage),
    };
    let hub = Hub::new(host, || {
        WAKE.with(|cell| {
            if let Some(wake) = cell.borrow().as_ref() {
                // It only schedules a poll, which does not fail.
                let _ = wake.call0(&JsValue::UNDEFINED);
            }
        });
    });
    HUB.with(|cell| *cell.borrow_mut() = Some(hub));
}

/// Closes all that is open, so that it can be opened again without recovering.
#[wasm_bindgen]
pub fn end() {
    drop(HUB.with(|cell| cell.borrow_mut().take()));
}

/// Makes a folder of files reachable: the path by which `open` of the root finds it.
#[wasm_bindgen]
pub fn mount(files: Files) -> String {
    files::mount(files)
}

/// Lets go of a folder in which no store could be opened.
#[wasm_bindgen]
pub fn unmount(path: &str) {
    files::unmount(path);
}

/// Calls a method of the object with this handle: the ticket under which the answer comes, or the answer itself, as
/// `[ok, handle, json, bytes]`.
#[wasm_bindgen]
pub fn call(
    handle: u32,
    method: &str,
    arguments: &str,
    data: Option<Box<[u8]>>,
) -> Result<JsValue, JsValue> {
    let data = data.as_deref().unwrap_or_default();
    match with_hub(|hub| hub.call(handle, method, arguments, data))? {
        Started::Pending(ticket) => Ok(JsValue::from(ticket as f64)),
        Started::Done(result) => {
            let answer = Array::new();
            parts::push(&answer, result);
            Ok(answer.into())
        }
    }
}

/// Appends many batches, each for itself: the ticket of the first, those of the others follow it, and what is answered
/// already, as by [`poll`].
#[wasm_bindgen]
pub fn append(packed: &[u8]) -> Result<Array, JsValue> {
    let (first, ready) = with_hub(|hub| hub.append(packed))?
        .map_err(|failure| js_sys::Error::new(&failure.to_string()))?;
    let answer = Array::of1(&JsValue::from(first as f64));
    parts::push_all(&answer, ready);
    Ok(answer)
}

/// The answers that have come: `[ticket, ok, handle, json, bytes, …]`, five parts for each. Under ticket 0 is what is asked.
#[wasm_bindgen]
pub fn poll() -> Result<Array, JsValue> {
    let answers = Array::new();
    parts::push_all(&answers, with_hub(Hub::poll)?);
    Ok(answers)
}

/// Whether there is something to do that nobody awaits.
#[wasm_bindgen(js_name = isBusy)]
pub fn is_busy() -> Result<bool, JsValue> {
    with_hub(|hub| hub.is_busy())
}

/// Gives up waiting for an answer; whether there was one to wait for.
#[wasm_bindgen]
pub fn cancel(ticket: f64) -> Result<bool, JsValue> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ticket that is none names nothing"
    )]
    with_hub(|hub| hub.cancel(ticket as u64))
}

/// Forgets an object.
#[wasm_bindgen]
pub fn release(handle: u32) -> Result<(), JsValue> {
    with_hub(|hub| hub.release(handle))
}

fn with_hub<T>(work: impl FnOnce(&mut Hub) -> T) -> Result<T, JsValue> {
    HUB.with(|cell| {
        let mut hub = cell
            .try_borrow_mut()
            .map_err(|_| js_sys::Error::new("called from inside of another call"))?;
        let hub = hub
            .as_mut()
            .ok_or_else(|| js_sys::Error::new("start() was not called, or it has ended"))?;
        Ok(work(hub))
    })
}
