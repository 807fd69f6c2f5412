//! What callers may do with streams of records that aren't known here.

use runlog_log::{Op, StreamId};
use runlog_model::{InstanceId, RunId, SessionId};

use super::{lookup::check_streams, store::Store};
use crate::{Error, Result};

impl Store {
    /// Checks operations on streams that a caller made by itself, as bindings take them: they change none that the store keeps for
    /// itself, nor that of a session, an agent instance, a run or a flow, which couldn't be read with a record of another kind in
    /// it; and take the place of no state of a flow. A snapshot of the caller's own may be of any of these. It looks at what this
    /// process has listed or made, and asks a backend that answers at once, as those in this process.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) naming the stream.
    pub fn check_raw(&self, ops: &[Op<'_>]) -> Result<()> {
        check_streams(ops)?;
        for op in ops {
            let (stream, instead) = match op {
                Op::Append { stream, .. } => (stream, "append to"),
                Op::Truncate { stream, .. } => (stream, "truncate"),
                Op::Delete { stream, .. } => (stream, "delete"),
                Op::Fork { child, .. } => (child, "make"),
                Op::Snapshot { .. } | Op::Redact { .. } | Op::RedactMany { .. } => continue,
            };
            if let Some(owner) = self.owner_of(*stream) {
                let id = stream.0;
                return Err(Error::invalid(format!(
                    "stream {id} is that of {owner}; {instead} it by the calls for these, or use a stream of your own, with another id"
                )));
            }
        }
        self.check_snapshots(ops)
    }

    /// Whose stream this is, as far as is known.
    fn owner_of(&self, stream: StreamId) -> Option<&'static str> {
        let StreamId(id) = stream;
        let listed = self.shared.catalog.with_state(|catalog| {
            match (
                catalog.has_instance(InstanceId(id)),
                catalog.session(SessionId(id)),
            ) {
                (true, _) => Some("an agent instance, its context"),
                (_, Some(_)) => Some("a session, its chat"),
                _ => None,
            }
        });
        listed
            .or_else(|| {
                let is_run = self
                    .shared
                    .runs
                    .with_state(|runs| runs.run(RunId(id)).is_some());
                is_run.then_some("a run")
            })
            .or_else(|| {
                let flows = &self.shared.flows.projection;
                let is_flow = flows.with_state(|flows| flows.flow(RunId(id)).is_some());
                is_flow.then_some("a flow")
            })
    }
}
