//! Replies as flat arrays of values, which cost less to make and to read than objects.

use js_sys::{Array, Uint8Array};
use runlog_bindings::{Answers, Reply};
use wasm_bindgen::JsValue;

/// Adds the ticket of each reply, and its parts.
pub(crate) fn push_all(parts: &Array, ready: Answers) {
    for (ticket, result) in ready {
        parts.push(&JsValue::from(ticket as f64));
        push(parts, result);
    }
}

/// Adds `ok` (1 or 0), handle, JSON and bytes. A failure is its JSON.
pub(crate) fn push(parts: &Array, result: runlog_bindings::Result<Reply>) {
    let (is_ok, reply) = match result {
        Ok(reply) => (1, reply),
        Err(failure) => (
            0,
            Reply {
                handle: None,
                json: Some(failure.to_json()),
                bytes: None,
            },
        ),
    };
    let bytes = reply.bytes.map(|bytes| Uint8Array::from(bytes.as_slice()));
    parts.push(&JsValue::from(is_ok));
    parts.push(&reply.handle.into());
    parts.push(&reply.json.into());
    parts.push(&bytes.into());
}
