//! [`Progress`]: what a client that asked for it is told of a spawn while it is under way.

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use runlog::agents::Spawned;

/// Whom to tell, and under which token.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Progress {
    /// `None` where the client didn't ask to be told.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        let token = context.meta.get_progress_token()?;
        Some(Self {
            peer: context.peer.clone(),
            token,
        })
    }

    /// Tells of a spawn of these agents until all have ended: their runs' ids first, then each that ends. The progress is how
    /// many have ended.
    pub(super) async fn tell(self, names: &[String], spawned: &mut Spawned) {
        let runs = spawned.run_ids().iter().zip(names);
        let runs: Vec<_> = runs
            .filter_map(|(run, name)| run.map(|run| format!("{name} is run {run}")))
            .collect();
        // What was refused has ended at once, and its result says why.
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
        // A client that is gone isn't told.
        let _ = self.peer.notify_progress(param).await;
    }
}
