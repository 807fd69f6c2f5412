//! Ending runs: by themselves or from outside, with all runs below them, in one batch.

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    pin::pin,
    sync::Arc,
};

use futures_util::future::{Either, select};
use runlog_model::{
    Run, RunId, RunStatus, Stop, StopKind, limits::RUN_TEXT_BYTES_MAX, pause_reason,
};
use tokio::sync::OwnedRwLockWriteGuard;

use super::{
    active_run::{ActiveRun, stop_below},
    defect::Defect,
    report::clip,
};
use crate::{
    Error, ErrorKind, Result, agents::inner::Inner, journal::attempts::Retries, runs::NewStatus,
};

/// How a run ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// Its agent is done.
    Completed(Option<String>),
    /// Its agent stopped, or it timed out; it can be resumed.
    Paused(Stop),
    /// Its agent failed.
    Failed(String),
    /// It was cancelled, with all runs below it, paused ones included.
    Cancelled,
}

/// Whether the ends of a tree were written.
enum Written {
    /// All of it.
    All,
    /// Nothing: an active run below wasn't asked to stop.
    NotAll,
}

impl Ending {
    /// How a recorder has ended or paused a run.
    pub(super) fn recorded(run: Run) -> Self {
        match run.status {
            RunStatus::Completed => Self::Completed(run.summary),
            RunStatus::Failed => Self::Failed(run.error_message.unwrap_or_default()),
            RunStatus::Cancelled => Self::Cancelled,
            RunStatus::Paused | RunStatus::Running => Self::Paused(Stop::new(
                run.stop_kind.unwrap_or(StopKind::Requested),
                run.pause_reason.unwrap_or_default(),
            )),
        }
    }

    /// The stop reason of the working runs. A run that ends by itself stops the runs below it.
    pub(super) fn stop(&self) -> Stop {
        match self {
            Self::Paused(stop) => stop.clone(),
            Self::Cancelled => StopKind::Cancelled.into(),
            Self::Completed(_) | Self::Failed(_) => {
                Stop::new(StopKind::Requested, format!("it is {}", self.status()))
            }
        }
    }

    fn status(&self) -> RunStatus {
        match self {
            Self::Completed(_) => RunStatus::Completed,
            Self::Paused(_) => RunStatus::Paused,
            Self::Failed(_) => RunStatus::Failed,
            Self::Cancelled => RunStatus::Cancelled,
        }
    }
}

impl Inner {
    pub(super) async fn pause(self: Arc<Self>, live: Arc<ActiveRun>, reason: Stop) -> Result<()> {
        if is_over(&live) {
            return Ok(());
        }
        // The agent has just ended by itself; that end is being written.
        if !live.is_external && !live.claim_end_for_another() {
            live.ended.cancelled().await;
            return live.failure().map_or(Ok(()), Err);
        }
        live.pausing();
        let ended = self
            .end(vec![(Arc::clone(&live), Ending::Paused(reason))])
            .await;
        live.recorder.refresh().await?;
        // Another task may have ended it meanwhile.
        if is_over(&live) { Ok(()) } else { ended }
    }

    pub(super) async fn cancel(self: Arc<Self>, live: Arc<ActiveRun>) -> Result<()> {
        let inner = Arc::clone(&self);
        let work = async move {
            if let Err(refused) = check_not_resumed(&live) {
                // The run's agent may still be working, although another run has resumed it: stop it.
                if !live.is_external {
                    inner
                        .end(vec![(live, Ending::Paused(Stop::from("")))])
                        .await?;
                }
                return Err(refused);
            }
            inner
                .end(vec![(Arc::clone(&live), Ending::Cancelled)])
                .await?;
            // It may have been resumed in the meantime.
            live.recorder.refresh().await?;
            check_not_resumed(&live)
        };
        self.to_the_end(work).await?
    }

    /// Ends runs as given, and with them all runs below: these are paused if the runs above are, and cancelled
    /// otherwise. Durable when it returns, all of it in one batch.
    ///
    /// Working runs are asked to stop, and have the grace period to record what they have. Then their gates are closed,
    /// parents before children, and the outcome of each is written.
    pub(super) async fn end(self: &Arc<Self>, ends: Vec<(Arc<ActiveRun>, Ending)>) -> Result<()> {
        if ends.is_empty() {
            return Ok(());
        }
        let mut retries = Retries::default();
        let (tree, written) = loop {
            let below = self.work_below(&ends).await;
            self.stop_work(&below).await;
            if only_pauses(&ends) {
                self.record_spawns(&below).await;
            }
            let mut gates = Vec::new();
            let tree = self.block_writes_below(below, &mut gates).await;
            match self.write_ends(&ends, &tree).await {
                // A run below was resumed meanwhile: stop it too, with the gates open so that it can join the tree.
                Ok(Written::NotAll) => {
                    if let Err(error) = retries.again(moved()) {
                        break (tree, Err(error));
                    }
                }
                Ok(Written::All) => break (tree, Ok(())),
                Err(error) => break (tree, Err(error)),
            }
        };
        for live in &tree {
            match &written {
                Err(error) => live.fail(error.clone()),
                // Who records it outside of the orchestrator waits for that.
                Ok(()) if live.is_external => live.recorder.tell_stopped(),
                Ok(()) => {}
            }
            self.forget(live);
        }
        written
    }

    /// Asks the runs to stop, and the active runs below them that aren't in their tree; returns all of these.
    async fn work_below(&self, ends: &[(Arc<ActiveRun>, Ending)]) -> Vec<Arc<ActiveRun>> {
        let mut roots = Vec::new();
        for (live, ending) in ends {
            live.request_stop(ending.stop());
            roots.push(Arc::clone(live));
            if !matches!(ending, Ending::Cancelled) {
                continue;
            }
            // A run that is resumed after a crash before its parent is below the parent in the log only, and so is one
            // that is resumed separately. A failed read is reported when the ends are written.
            for id in self
                .store
                .runs()
                .unfinished_below(live.id())
                .await
                .unwrap_or_default()
            {
                if let Some(apart) = self.arrived(id).await {
                    apart.request_stop(stop_below(ending.stop()));
                    roots.push(apart);
                }
            }
        }
        roots
    }

    /// Removes a run from memory, and notifies the tasks that wait for its end.
    pub(super) fn forget(&self, live: &ActiveRun) {
        live.leave();
        let mut runs = self.live_runs();
        // The list may hold another `ActiveRun` of the same run by now.
        if runs
            .get(&live.id())
            .is_some_and(|known| std::ptr::eq(&**known, live))
        {
            runs.remove(&live.id());
        }
        drop(runs);
        live.ended.cancel();
    }

    /// Waits for the working runs to stop, and abandons those that don't within the grace period.
    async fn stop_work(&self, roots: &[Arc<ActiveRun>]) {
        let mut working: Vec<Arc<ActiveRun>> = Vec::new();
        let mut next: Vec<Arc<ActiveRun>> = roots.to_vec();
        while let Some(live) = next.pop() {
            next.extend(live.children());
            if !live.over.is_cancelled() {
                working.push(live);
            }
        }
        if working.is_empty() {
            return;
        }
        let all_over = || async {
            for live in &working {
                live.over.cancelled().await;
            }
        };
        if self.within_grace(all_over()).await.is_some() {
            return;
        }
        for live in &working {
            live.abandoned.cancel();
        }
        // An executor that blocks its thread can't be dropped. It isn't waited for any longer, and its writes are refused.
        self.within_grace(all_over()).await;
    }

    /// Waits until the results of the open spawns of runs that pause, and of all runs below them, are recorded in their
    /// contexts: afterwards their gates are closed. No gate may be held, since what is waited for passes through them.
    async fn record_spawns(&self, roots: &[Arc<ActiveRun>]) {
        let mut tree = roots.to_vec();
        let mut next: Vec<_> = roots.iter().flat_map(|live| live.children()).collect();
        while let Some(live) = next.pop() {
            // It ended by itself, just before: its outcome is part of a result. Its end waits only for what is below it.
            if !live.claim_end_for_another() {
                live.ended.cancelled().await;
                continue;
            }
            next.extend(live.children());
            tree.push(live);
        }
        for live in tree {
            let mut open = live.open_spawns();
            while *open.borrow_and_update() > 0 {
                // An agent that hangs may block what is written to its context for ever.
                if self.within_grace(open.changed()).await.is_none() {
                    return;
                }
            }
        }
    }

    async fn within_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), self.sleep(self.options.stop_grace)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Closes the gates of runs and of all runs below them; returns all of them, each once.
    async fn block_writes_below(
        &self,
        roots: Vec<Arc<ActiveRun>>,
        gates: &mut Vec<OwnedRwLockWriteGuard<()>>,
    ) -> Vec<Arc<ActiveRun>> {
        let (mut tree, mut known) = (Vec::new(), HashSet::new());
        // All tasks that end trees lock in the same order, so that they can't deadlock.
        let place = |live: Arc<ActiveRun>| ((live.depth, live.id()), live);
        let mut next: BTreeMap<_, _> = roots.into_iter().map(place).collect();
        while let Some((_, live)) = next.pop_first() {
            if !known.insert(live.id()) {
                continue;
            }
            // A run that joined meanwhile is abandoned too: the tree's grace period is over.
            live.abandoned.cancel();
            gates.push(live.block_spawns().await);
            gates.extend(self.within_grace(live.block_writes()).await);
            next.extend(live.children().into_iter().map(place));
            tree.push(live);
        }
        tree
    }

    async fn write_ends(
        &self,
        ends: &[(Arc<ActiveRun>, Ending)],
        tree: &[Arc<ActiveRun>],
    ) -> Result<Written> {
        // A spawn writes to the parent's stream: if one of the streams has moved, the runs below are looked up again.
        let mut retries = Retries::default();
        loop {
            if let Some(written) = self.try_write_ends(ends, tree).await? {
                return Ok(written);
            }
            retries.again(moved())?;
        }
    }

    /// Whether the ends were written; `None` if others wrote to the runs in between.
    async fn try_write_ends(
        &self,
        ends: &[(Arc<ActiveRun>, Ending)],
        tree: &[Arc<ActiveRun>],
    ) -> Result<Option<Written>> {
        let runs = self.store.runs();
        // A run that was resumed meanwhile can't be cancelled any more, and the runs below it aren't either.
        let ends: Vec<_> = ends
            .iter()
            .filter(|(live, ending)| !is_resumed(live, ending))
            .collect();
        let mut changes = Vec::with_capacity(tree.len());
        let mut known: HashSet<RunId> = HashSet::new();
        for (live, ending) in &ends {
            known.insert(live.id());
            let mut change = NewStatus::new(live.recorder.clone(), ending.status());
            match ending {
                Ending::Completed(summary) => change.summary = summary.as_deref().map(clipped),
                Ending::Paused(stop) => {
                    change.pause_reason = Some(clipped(&stop.reason));
                    change.stop_kind = Some(stop.kind);
                }
                Ending::Failed(message) => change.error_message = Some(clipped(message)),
                Ending::Cancelled => change.stop_kind = Some(StopKind::Cancelled),
            }
            changes.push(change);
        }
        // An interrupted run below stays resumable only if the runs above it are.
        let with_root = match only_pauses(ends.iter().copied()) {
            true => RunStatus::Paused,
            false => RunStatus::Cancelled,
        };
        let all = if self.is_broken(Defect::ForgetsSubAgents) {
            &[][..]
        } else {
            tree
        };
        for live in all {
            // A run that has paused meanwhile is handled by the loop below, which cancels it if its root is cancelled.
            if live.recorder.run().status == RunStatus::Running {
                if known.insert(live.id()) {
                    let mut change = NewStatus::new(live.recorder.clone(), with_root);
                    change.pause_reason =
                        (with_root == RunStatus::Paused).then(|| pause_reason::PARENT.to_owned());
                    change.stop_kind = Some(StopKind::Parent);
                    changes.push(change);
                }
            } else if self.is_broken(Defect::LeavesPaused) {
                known.insert(live.id());
            }
        }
        let in_tree: HashSet<RunId> = tree.iter().map(|live| live.id()).collect();
        for (live, _) in ends
            .iter()
            .filter(|(_, ending)| matches!(ending, Ending::Cancelled))
        {
            // Repeat until nothing new is listed: a run that was resumed since it was listed can't be cancelled any
            // more, but the run that resumes it is listed by now.
            loop {
                let below = runs.unfinished_below(live.id()).await?;
                let new: Vec<RunId> = below.into_iter().filter(|id| known.insert(*id)).collect();
                if new.is_empty() {
                    break;
                }
                for id in new {
                    if !in_tree.contains(&id) && (self.is_arriving(id) || self.live(id).is_some()) {
                        return Ok(Some(Written::NotAll));
                    }
                    let below = runs.recorder(id).await?;
                    let mut change = NewStatus::new(below, RunStatus::Cancelled);
                    change.stop_kind = Some(StopKind::Parent);
                    changes.push(change);
                }
            }
        }
        let unsaved = match ends.first() {
            Some((live, _)) => live
                .space
                .unsaved(self.now_ms())?
                .map(|unsaved| (live, unsaved)),
            None => None,
        };
        if let (Some((_, unsaved)), Some(change)) = (&unsaved, changes.first_mut()) {
            change.before.push(unsaved.record.clone());
        }
        let is_written = runs.change_all(&changes).await?;
        if let Some((live, unsaved)) = unsaved.as_ref().filter(|_| is_written) {
            live.space.saved(unsaved);
        }
        Ok(is_written.then_some(Written::All))
    }
}

/// Whether none of the runs is to end for good: then those below stay resumable too.
fn only_pauses<'a>(ends: impl IntoIterator<Item = &'a (Arc<ActiveRun>, Ending)>) -> bool {
    let mut endings = ends.into_iter().map(|(_, ending)| ending);
    endings.all(|ending| matches!(ending, Ending::Paused(_)))
}

fn is_over(live: &ActiveRun) -> bool {
    live.recorder.run().status != RunStatus::Running
}

fn check_not_resumed(live: &ActiveRun) -> Result<()> {
    let run = live.recorder.run();
    let Some(by) = run.resumed_by else {
        return Ok(());
    };
    let message = format!("run {} was resumed as run {by}; cancel that one", run.id);
    Err(Error::new(ErrorKind::WrongStatus, message))
}

fn is_resumed(live: &ActiveRun, ending: &Ending) -> bool {
    matches!(ending, Ending::Cancelled) && live.recorder.run().resumed_by.is_some()
}

fn moved() -> Error {
    Error::new(
        ErrorKind::Conflict,
        "others wrote to the runs each time that their end was to be written",
    )
}

fn clipped(text: &str) -> String {
    clip(text, RUN_TEXT_BYTES_MAX)
}
