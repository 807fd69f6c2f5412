//! [`BackendFuture`]: what the calls of a backend return.

use std::{future::Future, pin::Pin};

use crate::Result;

/// The future that a backend's calls return. Ready at the first poll on a backend that waits by blocking its thread.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;
