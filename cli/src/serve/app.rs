//! [`App`]: the state shared by all requests.

use std::{path::Path, path::PathBuf, sync::Arc};

use runlog::Store;
use tokio_util::sync::CancellationToken;

use super::{cache::AnswerCache, tail::Follower, tokens::Tokens};

/// The state shared by all requests. Cheap to clone.
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
    answers: AnswerCache,
    stopped: CancellationToken,
}

impl App {
    /// `port` is the port that the server listens on; `hosts` are the names by which it may be reached.
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
            // Browsers send a host's cookies to all of its ports, so the name contains the port.
            cookie_name: format!("runlog-{port}"),
            follower: Follower::new(),
            answers: AnswerCache::new(),
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

    /// Follows the log, for the tail.
    pub(super) fn follower(&self) -> &Follower {
        &self.shared.follower
    }

    /// Answers that were given, for as long as they are right.
    pub(super) fn answers(&self) -> &AnswerCache {
        &self.shared.answers
    }

    /// Cancelled when the server ends, to end streams that would go on for ever.
    pub(super) fn stopped(&self) -> &CancellationToken {
        &self.shared.stopped
    }
}
