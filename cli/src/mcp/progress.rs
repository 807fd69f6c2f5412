//! [`Progress`]: progress notifications about a spawn, for a client that asked for them.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use runlog::agents::Spawned;

/// The client to notify, and its token.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Progress {
    /// `None` if the client didn't ask for notifications.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self {
            peer: context.peer.clone(),
            token,
        })
    }

    /// Notifies the client about a spawn of these agents until all have ended: first of their runs' ids, then of each
    /// end. The progress is the number of ended runs.
    pub(super) async fn report(self, names: &[String], spawned: &mut Spawned) {
        let runs = spawned.run_ids().iter().zip(names);
        let runs: Vec<_> = runs
            .filter_map(|(run, name)| run.map(|run| format!("{name} is run {run}")))
            .collect();
        // Refused requests have ended at once; their results say why.
        let refused = names.len() - runs.len();
        let mut ended = refused;
        let begun = format!("begun: {}", runs.join(", "));
        self.notify(ended, names.len(), begun).await;
        for _ in 0..refused {
            spawned.next().await;
        }
        while let Some((index, result)) = spawned.next().await {
            ended += 1;
            let name = names.get(index).map_or("", String::as_str);
            let message = format!("{name} is {}", result.status);
            self.notify(ended, names.len(), message).await;
        }
    }

    async fn notify(&self, ended: usize, total: usize, message: String) {
        #[allow(
            clippy::cast_precision_loss,
            reason = "a call spawns far fewer than 2^52 agents"
        )]
        let param = ProgressNotificationParam::new(self.token.clone(), ended as f64)
            .with_total(total as f64)
            .with_message(message);
        // An error means that the client has disconnected.
        let _ = self.peer.notify_progress(param).await;
    }
}
