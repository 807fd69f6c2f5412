//! [`BrowserHost`]: time and randomness of the browser, or of any other place that runs WebAssembly with JavaScript.

use std::{task::Waker, time::Duration};

use runlog::engine::Host;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues)]
    fn get_random_values(bytes: &mut [u8]);

    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(done: JsValue, ms: f64) -> JsValue;
}

/// `getRandomValues` fills no more at once.
const RANDOM_BYTES_MAX: usize = 65_536;

#[derive(Clone, Copy, Debug)]
pub(crate) struct BrowserHost;

impl Host for BrowserHost {
    fn now_ms(&self) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole milliseconds since 1970"
        )]
        let now = js_sys::Date::now() as u64;
        now
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes
            .chunks_mut(RANDOM_BYTES_MAX)
            .for_each(get_random_values);
    }

    fn has_threads(&self) -> bool {
        false
    }

    fn wake_after(&self, duration: Duration, waker: Waker) {
        let wake = Closure::once_into_js(move || waker.wake());
        set_timeout(wake, duration.as_secs_f64() * 1e3);
    }
}
