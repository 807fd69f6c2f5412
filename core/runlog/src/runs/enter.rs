//! Whether a run may begin in a context.

use runlog_model::{InstanceId, SessionId};

use super::Runs;
use crate::{Error, ErrorKind, Result, kernel::runs::Entering};

impl Runs {
    /// Sees to it that no run is at work in a context, and that none is started in it until what this gives is dropped.
    /// Kept in memory, since only one process writes a store.
    pub(super) async fn enter(&self, session: SessionId, instance: InstanceId) -> Result<Entering> {
        let taken = |what: String| {
            let instead =
                "wait until it is over, work in another context, or ask for it with `concurrent`";
            Error::new(
                ErrorKind::WrongStatus,
                format!("{what} in the context of instance {instance}; {instead}"),
            )
        };
        let entering = self.index().shared().enter(instance);
        let entering =
            entering.ok_or_else(|| taken("another run is just being started".to_owned()))?;
        match self
            .index()
            .read(|runs| runs.running_in(session, instance))
            .await?
        {
            Some(run) => Err(taken(format!("run {run} is at work"))),
            None => Ok(entering),
        }
    }
}
