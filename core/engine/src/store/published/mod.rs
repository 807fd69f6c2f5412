//! What is published: the state of the log that readers see, and who waits for it to grow.

pub(crate) mod batches;
pub(crate) mod durable;
pub(crate) mod keys;
pub(crate) mod watch;
