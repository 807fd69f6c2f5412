//! [`Runs`]: the runs of a store.

use std::fmt;

use crate::{Store, kernel::runs::RunsReader};

/// The runs of a store. [`blocking::Runs`](crate::blocking::Runs) is its blocking counterpart.
///
/// ```
/// use runlog::{NewMessage, NewRun, NewSession, Store, runs::ListRuns};
///
/// # pollster::block_on(async {
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::titled("Fix it"), "coder")).await?;
/// run.record_message(NewMessage::user("The parser drops the last line.")).await?;
/// run.next_step().await?;
/// run.record_message(NewMessage::assistant("Fixed.")).await?;
/// run.complete(Some("fixed")).await?;
/// assert_eq!(store.runs().list(&ListRuns::default()).await?.items[0].step_count, 1);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Runs {
    pub(crate) store: Store,
}

impl Runs {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// The store these runs are in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn index(&self) -> &RunsReader {
        &self.store.shared.runs
    }
}

impl Store {
    /// All runs of the store.
    pub fn runs(&self) -> Runs {
        Runs::new(self.clone())
    }
}

impl fmt::Debug for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runs").finish_non_exhaustive()
    }
}
