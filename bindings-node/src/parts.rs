//! Replies as flat lists of values, which cost less to make and to read than objects.

use napi::{
    Env, Result,
    bindgen_prelude::{BufferSlice, Either4, Undefined},
};
use runlog_bindings::{Answers, Reply};

/// A number, text, bytes, or nothing.
pub(crate) type Part<'env> = Either4<f64, String, BufferSlice<'env>, Undefined>;

/// Adds the ticket of each reply, and its parts.
pub(crate) fn push_all(env: &Env, parts: &mut Vec<Part<'static>>, ready: Answers) -> Result<()> {
    for (ticket, result) in ready {
        parts.push(Part::A(ticket as f64));
        push(env, parts, result)?;
    }
    Ok(())
}

/// Adds `ok` (1 or 0), handle, JSON and bytes. A failure is its JSON.
pub(crate) fn push(
    env: &Env,
    parts: &mut Vec<Part<'static>>,
    result: runlog_bindings::Result<Reply>,
) -> Result<()> {
    match result {
        Ok(Reply {
            handle,
            json,
            bytes,
        }) => {
            parts.push(Part::A(1.0));
            parts.push(handle.map_or(Part::D(()), |handle| Part::A(f64::from(handle))));
            parts.push(json.map_or(Part::D(()), Part::B));
            let bytes = bytes.map(|bytes| buffer(env, bytes)).transpose()?;
            parts.push(bytes.map_or(Part::D(()), Part::C));
        }
        Err(failure) => {
            parts.extend([
                Part::A(0.0),
                Part::D(()),
                Part::B(failure.to_json()),
                Part::D(()),
            ]);
        }
    }
    Ok(())
}

/// From here on handing memory over costs less than a copy: that would be memory touched for the first time.
const HANDED_OVER_BYTES: usize = 128 << 10;

fn buffer(env: &Env, bytes: Vec<u8>) -> Result<BufferSlice<'static>> {
    if bytes.len() < HANDED_OVER_BYTES {
        BufferSlice::copy_from(env, bytes)
    } else {
        BufferSlice::from_data(env, bytes)
    }
}
