//! Tests of the whole system, and what they stand on.

pub mod checker;
pub mod faulty;
pub mod host;
pub mod random;
pub mod script;
pub mod compare;
pub mod model;
pub mod driver;
pub mod budget;
