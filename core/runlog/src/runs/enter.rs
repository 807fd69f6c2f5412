//! Whether a run may begin in a context.

use runlog_model::{InstanceId, SessionId};

use super::Runs;
use crate::{Error, ErrorKind, Result, kernel::runs::Entering};

impl Runs {
    /// Checks that no run is active in a context, and prevents that one is started in it until the guard is dropped. In
    /// memory only, because only one process writes a store.
    pub(super) async fn enter(&self, session: SessionId, instance: InstanceId) -> Result<Entering> {
        let taken = |what: String| {
            let instead = "wait until it is over, work in another context, or, for a run that you record yourself, ask for it with `concurrent`";
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
