//! Tests of the whole system, and what they stand on.

pub mod checker;
