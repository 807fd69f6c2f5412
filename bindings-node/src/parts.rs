//! Replies as flat lists of values, which cost less to make and to read than objects.

use napi::{
    Env, Result,
    bindgen_prelude::{BufferSlice, Either4, Undefined},
};
use runlog_bindings::Reply;

/// A number, text, bytes, or nothing.
pub(crate) type Part<'env> = Either4<f64, String, BufferSlice<'env>, Undefined>;

/// Adds `ok` (1 or 0), handle, JSON and bytes. A failure is its JSON.
pub(crate) fn push(env: &Env, parts: &mut Vec<Part<'static>>, result: runlog_bindings::Result<Reply>) -> Result<()> {
    match result {
        Ok(Reply { handle, json, bytes }) => {
            parts.push(Part::A(1.0));
            parts.push(handle.map_or(Part::D(()), |handle| Part::A(f64::from(handle))));
            parts.push(json.map_or(Part::D(()), Part::B));
            let bytes = bytes.map(|bytes| BufferSlice::copy_from(env, bytes)).transpose()?;
            parts.push(bytes.map_or(Part::D(()), Part::C));
        }
        Err(failure) => {
            parts.extend([Part::A(0.0), Part::D(()), Part::B(failure.to_json()), Part::D(())]);
        }
    }
    Ok(())
}
