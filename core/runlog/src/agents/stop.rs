//! Ending runs: by themselves or from outside, with all that is below them, in one batch.

use std::{
    collections::{BTreeMap, HashSet},
    future::Future,
    pin::pin,
    sync::Arc,
};

use futures_util::future::{Either, select};
use runlog_model::{RunId, RunStatus, Stop, StopKind, limits::RUN_TEXT_BYTES_MAX, pause_reason};
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
    /// Its agent stopped, or its time is up; it can be resumed.
    Paused(Stop),
    /// Its agent failed.
    Failed(String),
    /// Nobody wants it any more, nor what is below it, paused or not.
    Cancelled,
}

/// What was written of the ends of a tree.
enum Written {
    /// All of it.
    All,
    /// Nothing: a run below is under way that wasn't told to stop.
    NotAll,
}

impl Ending {
    /// What those at work are told of it. A run that ends by itself tells those below it.
    fn stop(&self) -> Stop {
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
        // Its agent may have come to an end by itself just now, which is then written.
        if !live.is_external && !live.ends_by_another() {
            live.ended.cancelled().await;
            return live.failure().map_or(Ok(()), Err);
        }
        live.pausing();
        let ended = self
            .end(vec![(Arc::clone(&live), Ending::Paused(reason))])
            .await;
        live.recorder.refresh().await?;
        // Somebody else may have ended it meanwhile.
        if is_over(&live) { Ok(()) } else { ended }
    }

    pub(super) async fn cancel(self: Arc<Self>, live: Arc<ActiveRun>) -> Result<()> {
        let inner = Arc::clone(&self);
        let work = async move {
            if let Err(refused) = check_not_resumed(&live) {
                // An agent that doesn't know it may still be at work, to no purpose.
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

    /// Ends runs as they are told to, and with them what is below them: it is paused where they are, and else cancelled;
    /// durable when it returns, all of it in one batch.
    ///
    /// Those at work are told to stop, and have a while to record what they have. Then their gates are closed, each
    /// before those below it, and what each of them became is written.
    pub(super) async fn end(self: &Arc<Self>, ends: Vec<(Arc<ActiveRun>, Ending)>) -> Result<()> {
        if ends.is_empty() {
            return Ok(());
        }
        let mut retries = Retries::default();
        let (tree, written) = loop {
            let below = self.work_below(&ends).await;
            self.stop_work(&below).await;
            let mut gates = Vec::new();
            let tree = self.block_writes_below(below, &mut gates).await;
            match self.write_ends(&ends, &tree).await {
                // Somebody went on with a run below meanwhile: that is stopped too, with the gates open for it to come in.
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
            if let Err(error) = &written {
                live.fail(error.clone());
            }
            self.forget(live);
        }
        written
    }

    /// The runs to end, and those below them that are under way and aren't in the tree of these; all of them are told.
    async fn work_below(&self, ends: &[(Arc<ActiveRun>, Ending)]) -> Vec<Arc<ActiveRun>> {
        let mut roots = Vec::new();
        for (live, ending) in ends {
            live.tell_to_stop(ending.stop());
            roots.push(Arc::clone(live));
            if !matches!(ending, Ending::Cancelled) {
                continue;
            }
            // Those that go on from a crash before their parent does are below it in the log alone, and so are those
            // that somebody resumes by themselves. A failure to read is told when the ends are written.
            for id in self
                .store
                .runs()
                .unfinished_below(live.id())
                .await
                .unwrap_or_default()
            {
                if let Some(apart) = self.arrived(id).await {
                    apart.tell_to_stop(stop_below(ending.stop()));
                    roots.push(apart);
                }
            }
        }
        roots
    }

    /// Takes a run out of memory, and tells those who wait for its end.
    pub(super) fn forget(&self, live: &ActiveRun) {
        live.leave();
        let mut runs = self.live_runs();
        // Another may stand for the run by now.
        if runs
            .get(&live.id())
            .is_some_and(|known| std::ptr::eq(&**known, live))
        {
            runs.remove(&live.id());
        }
        drop(runs);
        live.ended.cancel();
    }

    /// Gives those at work a while to stop, and drops the others.
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
        let all_over = async {
            for live in &working {
                live.over.cancelled().await;
            }
        };
        if self.within_grace(all_over).await.is_some() {
            return;
        }
        for live in &working {
            live.abandoned.cancel();
        }
        // One that blocks its thread can't be dropped; it is not waited for, and can't write any more.
        let all_over = async {
            for live in &working {
                live.over.cancelled().await;
            }
        };
        self.within_grace(all_over).await;
    }

    async fn within_grace<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), self.sleep(self.options.stop_grace)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }

    /// Closes the gates of runs and of all below them; gives all of them, each once.
    async fn block_writes_below(
        &self,
        roots: Vec<Arc<ActiveRun>>,
        gates: &mut Vec<OwnedRwLockWriteGuard<()>>,
    ) -> Vec<Arc<ActiveRun>> {
        let (mut tree, mut known) = (Vec::new(), HashSet::new());
        // All that end trees lock in the same order, so that they can't deadlock.
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
        // Whoever spawns writes to the stream of the parent: what is below is looked for again when one has moved.
        let mut retries = Retries::default();
        loop {
            if let Some(written) = self.try_write_ends(ends, tree).await? {
                return Ok(written);
            }
            retries.again(moved())?;
        }
    }

    /// What is written; `None` when others wrote in between.
    async fn try_write_ends(
        &self,
        ends: &[(Arc<ActiveRun>, Ending)],
        tree: &[Arc<ActiveRun>],
    ) -> Result<Option<Written>> {
        let runs = self.store.runs();
        // One that was resumed meanwhile can't be cancelled any more, and what is below it isn't either.
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
        // What was stopped in the middle of its work can be gone on with if what spawned it can.
        let with_root = match ends
            .iter()
            .all(|(_, ending)| matches!(ending, Ending::Paused(_)))
        {
            true => RunStatus::Paused,
            false => RunStatus::Cancelled,
        };
        let all = if self.is_broken(Defect::ForgetsSubAgents) {
            &[][..]
        } else {
            tree
        };
        for live in all {
            // One that has paused meanwhile is left to those below, who are cancelled when this is.
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
            // Until there is nothing new: a run that was resumed since it was listed can't be cancelled any more, but
            // the one that goes on from it is listed by now.
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
