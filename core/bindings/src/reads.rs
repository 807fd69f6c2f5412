//! [`Reads`]: where the reads of a store run.

use std::{future::Future, pin::Pin};

use crate::{Host, Result, host::Movable};

/// Where the reads of a store run: off the JavaScript thread, unless it is in memory, where nothing blocks.
#[derive(Clone)]
pub(crate) struct Reads {
    host: Host,
    in_memory: bool,
}

impl Reads {
    pub(crate) fn new(host: Host, in_memory: bool) -> Self {
        Self { host, in_memory }
    }

    /// The result of a read, which may block.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        future: Movable<T>,
    ) -> Pin<Box<dyn Future<Output = Result<T>>>> {
        if self.in_memory {
            future
        } else {
            Box::pin(self.host.offload(future))
        }
    }
}
