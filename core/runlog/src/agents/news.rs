//! [`SpawnNews`]: what is told of a spawn while it is under way.

use runlog_model::RunId;

use super::{MaybeSend, MaybeSync, SpawnResult};

/// What is told of a spawn while it is under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SpawnNews {
    /// All runs are made, durably, and begin: that of each request, in order; `None` where it was refused.
    Begun(Vec<Option<RunId>>),
    /// The run of a request, counted from 0, is over or paused, with what became of it. Requests come in the order in which
    /// their runs end.
    Ended(usize, SpawnResult),
}

/// Who is told of a spawn while it is under way: a function that takes [`SpawnNews`], and doesn't wait.
pub trait SpawnObserver: MaybeSend + MaybeSync + 'static {
    /// Takes what is new.
    fn news(&self, news: SpawnNews);
}

impl<F: Fn(SpawnNews) + MaybeSend + MaybeSync + 'static> SpawnObserver for F {
    fn news(&self, news: SpawnNews) {
        self(news);
    }
}
