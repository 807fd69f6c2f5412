//! Readings that compactions overtake: what a writer did, as a model, and readings of every kind that are held open meanwhile and
//! compared with it, step by step.

mod questions;
mod readings;
mod world;

pub use questions::Question;
pub use readings::Reading;
pub use world::{State, World, options};

/// How many labels there are.
pub const LABELS: u64 = 4;
/// How many kinds of data records there are.
pub const KINDS: u8 = 3;
