//! The published state of the log, which readers see, and the threads and tasks that wait for it to grow.

pub(crate) mod batches;
pub(crate) mod durable;
pub(crate) mod keys;
pub(crate) mod watch;
