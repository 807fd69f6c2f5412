//! JSON: text that is kept byte for byte, slices of it, and what is wrong with it in words for whoever wrote it.

pub(crate) mod extra;
mod raw;
mod reading;
pub mod slices;
mod updates;

pub use raw::{JsonText, RawJson};
pub use reading::{read_json, read_value};
pub use updates::Updates;

pub(crate) use updates::overlay;
