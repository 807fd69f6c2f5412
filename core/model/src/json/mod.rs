//! JSON: text kept byte for byte, slices of it, and error messages for its author.

pub(crate) mod chain;
pub(crate) mod diff;
pub(crate) mod extra;
mod own_id;
pub(crate) mod raw;
mod reading;
pub(crate) mod size;
pub mod slices;
mod updates;
mod wording;

pub use own_id::read_with_own_id;
pub use raw::{JsonText, RawJson};
pub(crate) use reading::read_bytes;
pub use reading::{read_fields, read_json, read_json_at, read_json_borrowed, read_value};
pub use size::string_bytes;
pub use updates::Updates;

pub(crate) use updates::overlay;
