//! [`JsRuntime`]: tasks on the event loop of a browser, a worker or Node.

use std::{cell::Cell, future::poll_fn, rc::Rc, task::Poll, time::Duration};

use wasm_bindgen::prelude::*;

use super::{Runtime, Task};

/// The longest delay that `setTimeout` supports: 2³¹ − 1 ms, or 24 days.
const TIMEOUT_MS_MAX: i32 = i32::MAX;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(closure: &Closure<dyn FnMut()>, ms: i32) -> JsValue;

    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: &JsValue);
}

/// Tasks and timers of JavaScript's event loop: a task is a chain of promises, a timer a `setTimeout`.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsRuntime;

impl Runtime for JsRuntime {
    fn spawn(&self, task: Task) {
        wasm_bindgen_futures::spawn_local(task);
    }

    fn sleep(&self, duration: Duration) -> Task {
        let ms = i32::try_from(duration.as_millis()).unwrap_or(TIMEOUT_MS_MAX);
        Box::pin(async move { Timer::new(ms).over().await })
    }
}

/// A timer that is cleared when it is dropped.
struct Timer {
    id: JsValue,
    state: Rc<State>,
    _callback: Closure<dyn FnMut()>,
}

#[derive(Default)]
struct State {
    is_over: Cell<bool>,
    waker: Cell<Option<std::task::Waker>>,
}

impl Timer {
    fn new(ms: i32) -> Self {
        let state = Rc::new(State::default());
        let fired = Rc::clone(&state);
        let callback = Closure::new(move || {
            fired.is_over.set(true);
            if let Some(waker) = fired.waker.take() {
                waker.wake();
            }
        });
        Self {
            id: set_timeout(&callback, ms),
            state,
            _callback: callback,
        }
    }

    async fn over(&self) {
        poll_fn(|context| {
            if self.state.is_over.get() {
                return Poll::Ready(());
            }
            self.state.waker.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if !self.state.is_over.get() {
            clear_timeout(&self.id);
        }
    }
}
