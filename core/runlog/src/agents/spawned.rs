//! [`Spawned`]: sub-agents at work, whose results are told as they come.

use std::sync::Arc;

use runlog_model::RunId;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    SpawnRequest, SpawnResult,
    call::Place,
    inner::{Entered, Inner, runtime_gone},
};
use crate::Result;

/// What became of a request, counted from 0.
pub(super) type News = mpsc::UnboundedSender<(usize, SpawnResult)>;

/// Who is told that all runs of a spawn are made.
pub(super) struct Began {
    made: oneshot::Sender<Vec<Option<RunId>>>,
    news: News,
}

impl Began {
    /// Tells the ids of the runs, and of the requests that were refused what became of them; gives who is told of the others.
    pub(super) fn tell(self, places: &[Option<Place>]) -> News {
        let runs = places.iter().enumerate().map(|(index, place)| match place {
            Some(Place::Spawned(live)) => Some(live.id()),
            Some(Place::Refused(result)) => {
                // Nobody may want to know any more, here and below.
                let _ = self.news.send((index, result.clone()));
                None
            }
            None => None,
        });
        let _ = self.made.send(runs.collect());
        self.news
    }
}

/// Sub-agents that were spawned and are at work. Dropping it before they have ended cancels them.
#[derive(Debug)]
pub struct Spawned {
    run_ids: Vec<Option<RunId>>,
    news: mpsc::UnboundedReceiver<(usize, SpawnResult)>,
    results: oneshot::Receiver<Result<Vec<SpawnResult>>>,
    _wanted: DropGuard,
}

impl Spawned {
    /// The run of each request, in order; `None` where it was refused.
    pub fn run_ids(&self) -> &[Option<RunId>] {
        &self.run_ids
    }

    /// What became of the request whose run ends next, with its place among the requests, counted from 0: refused ones
    /// first, then each as its run is over or paused. `None` once all are told, or the spawn was stopped with its parent.
    pub async fn next(&mut self) -> Option<(usize, SpawnResult)> {
        self.news.recv().await
    }

    /// What became of all of them, in the order of the requests, once that is recorded in the parent's context.
    ///
    /// # Errors
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus) when the parent is being stopped; else those of the storage.
    pub async fn results(self) -> Result<Vec<SpawnResult>> {
        self.results.await.map_err(|_| runtime_gone())?
    }
}

impl Inner {
    /// Spawns sub-agents of a run, and doesn't wait for them.
    pub(super) async fn spawn(
        self: &Arc<Self>,
        parent: Entered,
        call_id: Option<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Spawned> {
        let (made, is_made) = oneshot::channel();
        let (news, told) = mpsc::unbounded_channel();
        let (done, results) = oneshot::channel();
        let given_up = CancellationToken::new();
        let wanted = given_up.clone().drop_guard();
        let inner = Arc::clone(self);
        self.spawn_task(async move {
            let began = Some(Began { made, news });
            let spawning = inner.spawn_telling(parent.live(), call_id, requests, began);
            // Given up, it cancels what it spawned.
            if let Some(results) = given_up.run_until_cancelled(spawning).await {
                let _ = done.send(results);
            }
        });
        let Ok(run_ids) = is_made.await else {
            let refused = results.await.ok().and_then(Result::err);
            return Err(refused.unwrap_or_else(runtime_gone));
        };
        Ok(Spawned {
            run_ids,
            news: told,
            results,
            _wanted: wanted,
        })
    }
}
