//! [`OpenOptions`]: how a store is opened.

use std::{sync::Arc, time::Duration};

use crate::{Durability, Host, limits};

/// How a store is opened. The defaults suit an agent: durable appends, segments of up to 32 MiB, created if it doesn't
/// exist.
#[derive(Clone)]
pub struct OpenOptions {
    /// How durable an append is when acknowledged, unless its batch says otherwise.
    pub durability: Durability,
    /// The largest size of a segment file, from 64 KiB to 1 GiB. A small store has smaller ones.
    pub segment_bytes_max: u64,
    /// What to do if the store doesn't exist.
    pub missing: Missing,
    /// Whether this handle writes.
    pub mode: Mode,
    /// How the space of segments is allocated.
    pub preallocation: Preallocation,
    /// How long an open for writing waits for another writer to release the store, before it is refused with
    /// [`Locked`](crate::ErrorKind::Locked). Zero by default, which doesn't wait. Set it for a service that is
    /// restarted while its previous process may still be ending.
    pub lock_timeout: Duration,
    /// Whether segments without live records are removed in the background as the log grows, and when the device has no
    /// room for it to grow. Nothing else is rewritten
    /// unless [`Store::compact`](crate::Store::compact) is called.
    pub auto_compact: bool,
    /// Time, randomness and threads.
    pub host: Arc<dyn Host>,
}

/// What to do if the store doesn't exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Make one.
    Create,
    /// Fail with [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
    Fail,
}

/// Whether a handle writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The writer: refused while another one has the store open.
    Write,
    /// A reader, with or without a concurrent writer. It changes no file.
    ReadOnly,
}

/// How the space of segments is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preallocation {
    /// By durability: zero-filled for [`Durability::Sync`], reserved for the others.
    Auto,
    /// Files grow as they are written.
    None,
}

impl OpenOptions {
    /// The defaults with this host.
    pub fn with_host(host: Arc<dyn Host>) -> Self {
        Self {
            durability: Durability::Sync,
            segment_bytes_max: limits::SEGMENT_BYTES_DEFAULT,
            missing: Missing::Create,
            mode: Mode::Write,
            preallocation: Preallocation::Auto,
            lock_timeout: Duration::ZERO,
            auto_compact: true,
            host,
        }
    }

    /// The same options for a reader, which never creates a store.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.mode = Mode::ReadOnly;
        self.missing = Missing::Fail;
        self
    }
}

#[cfg(not(target_family = "wasm"))]
impl Default for OpenOptions {
    fn default() -> Self {
        Self::with_host(Arc::new(crate::SystemHost))
    }
}

impl std::fmt::Debug for OpenOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenOptions")
            .field("durability", &self.durability)
            .field("segment_bytes_max", &self.segment_bytes_max)
            .field("missing", &self.missing)
            .field("mode", &self.mode)
            .field("preallocation", &self.preallocation)
            .finish_non_exhaustive()
    }
}
