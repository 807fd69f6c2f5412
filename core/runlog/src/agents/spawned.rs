//! [`Spawned`]: running sub-agents, whose results are received as they end.

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

/// Sends the results, each with the index of its request.
pub(super) type ResultSender = mpsc::UnboundedSender<(usize, SpawnResult)>;

/// Receives the run ids once all runs of a spawn are created, and then the results.
pub(super) struct Began {
    created: oneshot::Sender<Vec<Option<RunId>>>,
    ended_results: ResultSender,
}

impl Began {
    /// Sends the ids of the runs, and the results of refused requests; returns the sender for the other results.
    pub(super) fn notify(self, places: &[Option<Place>]) -> ResultSender {
        let runs = places.iter().enumerate().map(|(index, place)| match place {
            Some(Place::Spawned(live)) => Some(live.id()),
            Some(Place::Refused(result)) => {
                // An error, here and below, means that the receiver was dropped.
                let _ = self.ended_results.send((index, result.clone()));
                None
            }
            None => None,
        });
        let _ = self.created.send(runs.collect());
        self.ended_results
    }
}

/// Running sub-agents of one spawn. Dropping it before they have ended cancels them.
#[derive(Debug)]
pub struct Spawned {
    run_ids: Vec<Option<RunId>>,
    ended_results: mpsc::UnboundedReceiver<(usize, SpawnResult)>,
    results: oneshot::Receiver<Result<Vec<SpawnResult>>>,
    _wanted: DropGuard,
}

impl Spawned {
    /// The run of each request, in order; `None` where it was refused.
    pub fn run_ids(&self) -> &[Option<RunId>] {
        &self.run_ids
    }

    /// The next result, with the index of its request: refused requests first, then each as its run ends or pauses.
    /// `None` after all results, or if the spawn was stopped with its parent.
    pub async fn next(&mut self) -> Option<(usize, SpawnResult)> {
        self.ended_results.recv().await
    }

    /// Waits until all results are recorded in the parent's context, and returns them in the order of the requests.
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
        let (created, is_created) = oneshot::channel();
        let (ended_results, receiver) = mpsc::unbounded_channel();
        let (done, results) = oneshot::channel();
        let given_up = CancellationToken::new();
        let wanted = given_up.clone().drop_guard();
        let inner = Arc::clone(self);
        self.spawn_task(async move {
            let began = Some(Began {
                created,
                ended_results,
            });
            let spawning = inner.spawn_notifying(parent.live(), call_id, requests, began);
            // Dropping `spawning` cancels the spawned runs.
            if let Some(results) = given_up.run_until_cancelled(spawning).await {
                let _ = done.send(results);
            }
        });
        let Ok(run_ids) = is_created.await else {
            let refused = results.await.ok().and_then(Result::err);
            return Err(refused.unwrap_or_else(runtime_gone));
        };
        Ok(Spawned {
            run_ids,
            ended_results: receiver,
            results,
            _wanted: wanted,
        })
    }
}
