//! [`SavedFlow`]: a flow's encoded state, with the event for the catalog of flows.

use futures_util::FutureExt;
use runlog_log::{Batch, Durability, Expected, Op, Sequence};
use runlog_model::{EncodedEvent, EncodedSnapshot, FlowCatalogEvent, RunId, RunSnapshot};

use crate::{
    Error, Result, Store,
    kernel::{
        flows::FLOWS_STREAM,
        gates::Saving,
        records::{append, run_stream},
        saved_states::{SavedStates, goes_on},
    },
};

/// A state of a flow, encoded.
pub(crate) struct SavedFlow {
    run: RunId,
    snapshot: EncodedSnapshot,
    /// The event for the catalog of flows; `None` if the catalog is up to date.
    listed: Option<EncodedEvent>,
}

impl SavedFlow {
    /// A state that is saved whole.
    pub(super) fn new(
        run: RunId,
        state: &RunSnapshot,
        listed: Option<EncodedEvent>,
    ) -> Result<Self> {
        Ok(Self {
            run,
            snapshot: state.encode()?,
            listed,
        })
    }

    /// The operations: the run's snapshot at a sequence of its stream, and the catalog's event.
    pub(crate) fn ops(&self, sequence: Sequence) -> Vec<Op<'_>> {
        let mut ops = vec![Op::Snapshot {
            stream: run_stream(self.run),
            expected: Expected::Any,
            sequence,
            meta: &self.snapshot.meta,
            payload: self.snapshot.payload.as_bytes(),
        }];
        ops.extend(
            self.listed
                .as_ref()
                .map(|event| append(FLOWS_STREAM, vec![event.record()])),
        );
        ops
    }

    /// The operations as a batch. It is always flushed, whatever the store's setting, because a flow is resumed from it.
    pub(crate) fn batch(&self, sequence: Sequence) -> Batch<'_> {
        Batch::new(self.ops(sequence)).with_durability(Durability::Sync)
    }

    /// Applies the event to the catalog of flows.
    pub(crate) async fn after_commit(&self, store: &Store) {
        if self.listed.is_some() {
            store.shared.flows.after_commit().await;
        }
    }
}

impl Store {
    /// Checks that no snapshot takes the place of a state of a flow: those saved later may be differences from it, and couldn't be
    /// read. It looks at the flows that this process has listed, saved or
    /// resumed, and asks a backend that answers at once, as those in this process.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) naming the flow and the sequence.
    pub(crate) fn check_snapshots(&self, ops: &[Op<'_>]) -> Result<()> {
        for op in ops {
            let Op::Snapshot {
                stream, sequence, ..
            } = op
            else {
                continue;
            };
            let run = RunId(stream.0);
            let flows = &self.shared.flows.projection;
            if !flows.with_state(|flows| flows.flow(run).is_some()) {
                continue;
            }
            // That it can't be read is reported when the snapshot is saved.
            let found = self.backend().latest_snapshot(*stream, *sequence);
            if let Some(Ok(Some(there))) = found.now_or_never()
                && there.sequence == *sequence
                && RunSnapshot::is_one(&there.meta)
            {
                return Err(Error::invalid(format!(
                    "a state of flow {run} is saved at sequence {sequence}, which later ones may be differences from; save a \
                     snapshot of your own at another sequence, or in a stream of your own"
                )));
            }
        }
        Ok(())
    }

    /// A state of a run's flow, encoded whole.
    pub(crate) async fn saved_flow(&self, run: RunId, state: &RunSnapshot) -> Result<SavedFlow> {
        SavedFlow::new(run, state, self.listed_flow(run, &state.status).await?)
    }

    /// Saves the next state of a run's flow, as the difference from an earlier one where that is shorter. Durable when it
    /// returns.
    pub(crate) async fn save_flow(
        &self,
        run: RunId,
        saving: &mut Saving,
        sequence: Sequence,
        whole: &EncodedSnapshot,
        status: &str,
    ) -> Result<()> {
        loop {
            let redactions = self.backend().redactions();
            let stream = self.backend().stream(run_stream(run)).await?;
            let before = saving.take().chain(redactions, stream.as_ref());
            let (snapshot, chain) = before.next(sequence.0, whole);
            let is_difference = snapshot.is_difference();
            let saved = SavedFlow {
                run,
                snapshot,
                listed: self.listed_flow(run, status).await?,
            };
            self.backend().commit(saved.batch(sequence)).await?;
            saved.after_commit(self).await;
            // What it differs from may have been redacted or truncated meanwhile: then it is saved once more, whole.
            let now = self.backend().stream(run_stream(run)).await?;
            let is_whole =
                self.backend().redactions() == redactions && goes_on(now.as_ref(), stream.as_ref());
            if !is_difference || is_whole {
                saving.keep(SavedStates {
                    chain,
                    redactions,
                    stream,
                });
                return Ok(());
            }
        }
    }

    /// The event for the catalog of flows when a snapshot of this status is saved; `None` if the catalog is up to date.
    async fn listed_flow(&self, run: RunId, status: &str) -> Result<Option<EncodedEvent>> {
        let listed = self
            .shared
            .flows
            .projection
            .read(|flows| flows.flow(run))
            .await?;
        if listed.as_ref().is_some_and(|flow| flow.status == status) {
            return Ok(None);
        }
        let known = self
            .runs()
            .index()
            .read(|runs| runs.run(run).map(|placed| placed.run))
            .await?;
        let event = FlowCatalogEvent {
            run_id: run,
            status: status.to_owned(),
            is_of_run: known.is_some(),
            parent_run_id: known.as_ref().and_then(|run| run.parent_run_id),
            // A flow that is listed already keeps the value of its first event.
            resumed_from: None,
            at_ms: self.backend().now_ms(),
        };
        Ok(Some(event.encode()?))
    }
}
