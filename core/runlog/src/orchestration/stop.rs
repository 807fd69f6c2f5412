//! Ending runs: by themselves or from outside, with all that is below them, in one batch.

use std::{
    collections::{HashSet, VecDeque},
    future::Future,
    pin::pin,
    sync::Arc,
};

use futures_util::future::{Either, select};
use runlog_model::{RunId, RunStatus, limits::RUN_TEXT_BYTES_MAX};
use tokio::sync::OwnedRwLockWriteGuard;

use super::{live::Live, orchestrator::Inner, report::clip};
use crate::{Result, runs::NewStatus};

/// How a run ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// Its agent is done.
    Completed(Option<String>),
    /// Its agent stopped, or its time is up; it can be resumed.
    Paused(String),
    /// Its agent failed.
    Failed(String),
    /// Nobody wants it any more, nor what is below it, paused or not.
    Cancelled,
}

impl Ending {
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
    /// Ends runs as they are told to, and cancels what is below them; durable when it returns, all of it in one batch.
    ///
    /// Those at work are told to stop, and have a while to record what they have. Then their gates are closed, each
    /// before those below it, and what each of them became is written.
    pub(super) async fn end(self: &Arc<Self>, ends: Vec<(Arc<Live>, Ending)>) -> Result<()> {
        if ends.is_empty() {
            return Ok(());
        }
        let mut tree = Vec::new();
        for (live, ending) in &ends {
            live.token.cancel();
            tree.push(Arc::clone(live));
            if matches!(ending, Ending::Cancelled) {
                // Those that go on from a crash before their parent does are below it in the log alone.
                let below = self.store.runs().unfinished_below(live.id()).await.unwrap_or_default();
                let apart = below.into_iter().filter_map(|id| self.live(id));
                tree.extend(apart.inspect(|live| live.token.cancel()));
            }
        }
        self.stop_work(&tree).await;
        let mut gates = Vec::new();
        let tree = self.close_gates(tree, &mut gates).await;
        let written = self.write_ends(&ends, &tree).await;
        for live in &tree {
            if let Err(error) = &written {
                live.fail(error.clone());
            }
            self.forget(live);
        }
        written
    }

    /// Takes a run out of memory, and tells those who wait for its end.
    pub(super) fn forget(&self, live: &Live) {
        live.leave();
        self.live_runs().remove(&live.id());
        live.ended.cancel();
    }

    /// Gives those at work a while to stop, and drops the others.
    async fn stop_work(&self, roots: &[Arc<Live>]) {
        let mut working: Vec<Arc<Live>> = Vec::new();
        let mut next: Vec<Arc<Live>> = roots.to_vec();
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
    async fn close_gates(&self, roots: Vec<Arc<Live>>, gates: &mut Vec<OwnedRwLockWriteGuard<()>>) -> Vec<Arc<Live>> {
        let (mut tree, mut known) = (Vec::new(), HashSet::new());
        let mut next = VecDeque::from(roots);
        while let Some(live) = next.pop_front() {
            if !known.insert(live.id()) {
                continue;
            }
            // One that came in between is told too, and has had its while.
            live.abandoned.cancel();
            gates.push(live.close_nursery().await);
            gates.extend(self.within_grace(live.close_gate()).await);
            next.extend(live.children());
            tree.push(live);
        }
        tree
    }

    async fn write_ends(&self, ends: &[(Arc<Live>, Ending)], tree: &[Arc<Live>]) -> Result<()> {
        let runs = self.store.runs();
        let mut changes = Vec::with_capacity(tree.len());
        let mut known: HashSet<RunId> = HashSet::new();
        for (live, ending) in ends {
            known.insert(live.id());
            let mut change = NewStatus::new(live.recorder.clone(), ending.status());
            match ending {
                Ending::Completed(summary) => change.summary = summary.as_deref().map(clipped),
                Ending::Paused(reason) => change.pause_reason = Some(clipped(reason)),
                Ending::Failed(message) => change.error_message = Some(clipped(message)),
                Ending::Cancelled => {}
            }
            changes.push(change);
        }
        for live in tree {
            // One that has paused meanwhile is left to those below, who are cancelled when this is.
            if live.recorder.run().status == RunStatus::Running && known.insert(live.id()) {
                changes.push(NewStatus::new(live.recorder.clone(), RunStatus::Cancelled));
            }
        }
        for (live, _) in ends.iter().filter(|(_, ending)| matches!(ending, Ending::Cancelled)) {
            for id in runs.unfinished_below(live.id()).await? {
                if known.insert(id) {
                    changes.push(NewStatus::new(runs.recorder(id).await?, RunStatus::Cancelled));
                }
            }
        }
        let unsaved = match ends.first() {
            Some((live, _)) => live.space.unsaved(self.now_ms())?.map(|unsaved| (live, unsaved)),
            None => None,
        };
        if let (Some((_, unsaved)), Some(change)) = (&unsaved, changes.first_mut()) {
            change.before.push(unsaved.record.clone());
        }
        runs.change_all(&changes).await?;
        if let Some((live, unsaved)) = &unsaved {
            live.space.saved(unsaved);
        }
        Ok(())
    }
}

fn clipped(text: &str) -> String {
    clip(text, RUN_TEXT_BYTES_MAX)
}
