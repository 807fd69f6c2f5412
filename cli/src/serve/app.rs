//! [`App`]: what every request is answered from.

use std::{path::Path, path::PathBuf, sync::Arc};

use runlog::Store;
use tokio_util::sync::CancellationToken;

use super::{tail::Follower, tokens::Tokens};

/// What every request is answered from. Cheap to clone.
#[derive(Clone)]
pub(super) struct App {
    shared: Arc<Shared>,
}

struct Shared {
    store: Store,
    folder: PathBuf,
    tokens: Tokens,
    hosts: Vec<String>,
    cookie_name: String,
    follower: Follower,
    stopped: CancellationToken,
}

impl App {
    /// `port` is the one that is listened at; `hosts` are the names by which the server may be reached.
    pub(super) fn new(
        store: Store,
        folder: PathBuf,
        tokens: Tokens,
        hosts: Vec<String>,
        port: u16,
    ) -> Self {
        let shared = Shared {
            store,
            folder,
            tokens,
            hosts,
            // A host's cookies go to all of its ports.
            cookie_name: format!("runlog-{port}"),
            follower: Follower::new(),
            stopped: CancellationToken::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The folder of the store.
    pub(super) fn folder(&self) -> &Path {
        &self.shared.folder
    }

    pub(super) fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// The names by which the server may be reached, besides addresses.
    pub(super) fn hosts(&self) -> &[String] {
        &self.shared.hosts
    }

    pub(super) fn cookie_name(&self) -> &str {
        &self.shared.cookie_name
    }

    /// Tells of what is appended.
    pub(super) fn follower(&self) -> &Follower {
        &self.shared.follower
    }

    /// Is cancelled when the server ends: what would go on for ever ends then.
    pub(super) fn stopped(&self) -> &CancellationToken {
        &self.shared.stopped
    }
}
