//! The work of one run: its permit, its executor, and how that ends.

use super::{AgentEnd, active_run::ActiveRun, defect::Defect, inner::AgentWork, stop::Ending};
use std::{
    any::Any,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, future::Either};
use runlog_model::{Stop, StopKind};
use tokio::sync::OwnedSemaphorePermit;

use crate::{Error, ErrorKind, agents::inner::Inner};

impl Inner {
    /// Starts the task of a run, which first waits for a permit.
    pub(super) fn begin(
        self: &Arc<Self>,
        live: Arc<ActiveRun>,
        executor: Arc<dyn AgentWork>,
        timeout: Option<Duration>,
        permit: Option<OwnedSemaphorePermit>,
    ) {
        let inner = Arc::clone(self);
        self.spawn_task(async move {
            let unended = FailOnDrop {
                inner: Arc::clone(&inner),
                live: Some(Arc::clone(&live)),
            };
            let ending = inner.work(&live, executor, timeout, permit).await;
            live.stop_working();
            live.over.cancel();
            if let Some(ending) = ending {
                // A failure is stored in the run, and returned to callers that ask for its result.
                let _ = inner.end(vec![(Arc::clone(&live), ending)]).await;
            } else {
                // The task that stopped it writes its end.
                live.ended.cancelled().await;
            }
            unended.disarm();
        });
    }

    /// Runs the executor; returns how the run ends, `None` when the task that stopped it writes its end.
    async fn work(
        self: &Arc<Self>,
        live: &Arc<ActiveRun>,
        executor: Arc<dyn AgentWork>,
        timeout: Option<Duration>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Option<Ending> {
        let permit = match permit {
            Some(permit) => permit,
            None => {
                let turn = Arc::clone(&self.slots).acquire_owned();
                let stopped = first(live.token.cancelled(), live.recorder.stopped());
                match first(turn, stopped).await {
                    Either::Left(permit) => permit.ok()?,
                    Either::Right(Either::Left(())) => return None,
                    Either::Right(Either::Right(())) => return stopped_by_recorder(live).await,
                }
            }
        };
        if self.is_broken(Defect::IgnoresTurns) {
            drop(permit);
        } else {
            live.work_with(permit);
        }
        let (inner, own) = (Arc::clone(self), Arc::clone(live));
        // What an error says is the executor's code, too.
        let execution = async move {
            let outcome = executor.work(inner, own).await;
            outcome.map_err(|error| error.to_string())
        };
        let mut execution = Box::pin(AssertUnwindSafe(execution).catch_unwind());
        let time = async {
            match timeout {
                Some(timeout) => self.sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let spent = async {
            live.spent.cancelled().await;
            StopKind::Budget
        };
        let time = async {
            time.await;
            StopKind::Timeout
        };
        let stopped = first(live.token.cancelled(), live.recorder.stopped());
        let ended = first(&mut execution, first(stopped, first(spent, time))).await;
        let ending = match ended {
            // Another task is stopping it right now.
            Either::Left(_) if live.token.is_cancelled() || !live.claim_end_for_itself() => None,
            Either::Left(outcome) => Some(match outcome {
                Ok(Ok(AgentEnd::Completed(summary))) => Ending::Completed(summary),
                Ok(Ok(AgentEnd::Paused(reason))) => {
                    let stop = Stop::from(reason);
                    // Before anything else learns that it stops: what it spawned is paused with it, and recorded.
                    live.pausing();
                    live.request_stop(stop.clone());
                    Ending::Paused(stop)
                }
                Ok(Err(error)) => Ending::Failed(error),
                Err(panic) => {
                    let message = format!("the agent panicked: {}", message_of(&*panic));
                    let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
                    Ending::Failed(message)
                }
            }),
            Either::Right(Either::Left(Either::Left(()))) => {
                first(&mut execution, live.abandoned.cancelled()).await;
                None
            }
            Either::Right(Either::Left(Either::Right(()))) => {
                let ending = stopped_by_recorder(live).await;
                first(&mut execution, self.sleep(self.options.stop_grace)).await;
                ending
            }
            Either::Right(Either::Right(Either::Left(kind) | Either::Right(kind))) => {
                let by_itself = live.claim_end_for_itself();
                live.pausing();
                live.request_stop(kind.into());
                first(&mut execution, self.sleep(self.options.stop_grace)).await;
                by_itself.then(|| Ending::Paused(kind.into()))
            }
        };
        // Dropping an unfinished executor runs the last of its code, which may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(execution)));
        ending
    }
}

/// Asks a run to stop that its recorder has ended or paused; returns that end, which the runs below it get too. `None`
/// when another task has stopped it and writes its end.
async fn stopped_by_recorder(live: &ActiveRun) -> Option<Ending> {
    // An error would be that of the next write, and the end is on the disk already.
    let _ = live.recorder.refresh().await;
    let by_itself = live.claim_end_for_itself();
    let ending = Ending::recorded(live.recorder.run());
    if matches!(ending, Ending::Paused(_)) {
        live.pausing();
    }
    live.request_stop(ending.stop());
    by_itself.then_some(ending)
}

/// Fails the run if its task is dropped before it has ended, for example with its runtime, so that nobody waits for ever.
struct FailOnDrop {
    inner: Arc<Inner>,
    live: Option<Arc<ActiveRun>>,
}

impl FailOnDrop {
    fn disarm(mut self) {
        self.live = None;
    }
}

impl Drop for FailOnDrop {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.fail(Error::new(
                ErrorKind::Closed,
                "the runtime that the agent ran on was shut down",
            ));
            live.over.cancel();
            self.inner.forget(&live);
        }
    }
}

/// The output of the future that is ready first; `one` if both are.
pub(super) async fn first<A: Future, B: Future>(one: A, other: B) -> Either<A::Output, B::Output> {
    match futures_util::future::select(pin!(one), pin!(other)).await {
        Either::Left((output, _)) => Either::Left(output),
        Either::Right((output, _)) => Either::Right(output),
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with something that is no text")
}
