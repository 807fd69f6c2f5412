//! JSON: text kept byte for byte, slices of it, and error messages for its author.

pub(crate) mod chain;
pub(crate) mod diff;
pub(crate) mod extra;
pub(crate) mod raw;
mod reading;
pub mod slices;
mod updates;

pub use raw::{JsonText, RawJson};
pub(crate) use reading::read_bytes;
pub use reading::{read_fields, read_json, read_json_at, read_json_borrowed, read_value};
pub use updates::Updates;

pub(crate) use updates::overlay;

/// An upper bound of a text's size in a string of JSON, without the quotes.
pub fn string_bytes(text: &str) -> usize {
    let bytes = |byte| match byte {
        b'"' | b'\\' => 2,
        // As `\u0000`.
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(bytes).sum()
}
