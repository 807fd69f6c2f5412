//! Runs that this orchestrator doesn't execute, and that spawn agents by it all the same.

use std::{collections::hash_map::Entry, sync::Arc};

use futures_util::future::Either;
use runlog_model::RunId;

use super::{
    active_run::{ActiveRun, Beginning},
    inner::{Entered, Inner},
    stop::Ending,
    work::first,
};
use crate::{Result, kernel::inbox::Inbox};

impl Inner {
    /// The run in the tree. A run that isn't active here is added as an external one.
    pub(super) async fn live_or_outside(self: &Arc<Self>, id: RunId) -> Result<Entered> {
        let (recorder, depth) = loop {
            if let Some(live) = self.arrived(id).await {
                return Ok(self.entered(live));
            }
            let recorder = self.store.runs().recorder(id).await?;
            let depth = self.depth_of(recorder.run().parent_run_id).await?;
            if !self.is_arriving(id) {
                break (recorder, depth);
            }
        };
        let beginning = Beginning {
            recorder,
            definition: None,
            task: String::new(),
            depth,
            space: self.space_of(id).await?,
            inbox: Inbox::unlisted(id, self.options.inbox_max),
        };
        let live = match self.live_runs().entry(id) {
            Entry::Occupied(known) => Arc::clone(known.get()),
            Entry::Vacant(free) => {
                let live = Arc::clone(free.insert(ActiveRun::outside(beginning)));
                self.follow_recorder(&live);
                live
            }
        };
        Ok(self.entered(live))
    }

    /// Ends the runs below an external one once its recorder ends it. The task doesn't hold the run, which is to be removed
    /// when no call uses it any more.
    fn follow_recorder(self: &Arc<Self>, live: &ActiveRun) {
        let (inner, recorder, ended) =
            (Arc::clone(self), live.recorder.clone(), live.ended.clone());
        self.spawn_task(async move {
            match first(recorder.stopped(), ended.cancelled()).await {
                Either::Left(()) => {}
                Either::Right(()) => return,
            }
            let live = inner.live(recorder.id()).filter(|live| live.is_external);
            if let Some(live) = live.map(|live| inner.entered(live)) {
                // An error is that of a read that the next call meets too.
                let _ = recorder.refresh().await;
                let ending = Ending::recorded(recorder.run());
                let _ = inner.end(vec![(Arc::clone(live.live()), ending)]).await;
            }
        });
    }
}
