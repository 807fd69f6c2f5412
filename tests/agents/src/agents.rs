//! Agents whose every word is known beforehand, so that what was recorded of them can be told right from wrong.
//!
//! [`tasks`] makes the scripts: customers of an airline and the agents that serve them, with tools that take their
//! time, and helpers that work in runs of their own. [`work`] plays a script through the public interface, from
//! wherever a killed process left it. [`check`] holds a store against the scripts.

pub mod check;
pub mod seen;
pub mod tasks;
pub mod work;
