//! [`Progress`]: what a client that asked for it is told of a spawn while it is under way.

use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use runlog::agents::{SpawnNews, SpawnObserver};
use tokio::sync::mpsc;

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

    /// Tells of a spawn of these agents: their runs' ids first, then each that ends. The progress is how many have ended.
    pub(super) fn telling(self, names: Vec<String>) -> impl SpawnObserver {
        let total = names.len();
        let (tell, mut told) = mpsc::unbounded_channel::<(usize, String)>();
        // One after the other, in order; it ends with the spawn.
        tokio::spawn(async move {
            while let Some((ended, message)) = told.recv().await {
                #[allow(
                    clippy::cast_precision_loss,
                    reason = "a call spawns far fewer than 2^52 agents"
                )]
                let param = ProgressNotificationParam::new(self.token.clone(), ended as f64)
                    .with_total(total as f64)
                    .with_message(message);
                if self.peer.notify_progress(param).await.is_err() {
                    break;
                }
            }
        });
        let ended = AtomicUsize::new(0);
        move |news: SpawnNews| {
            let said = match news {
                SpawnNews::Begun(runs) => {
                    let runs = runs
                        .iter()
                        .zip(&names)
                        .filter_map(|(run, name)| run.map(|run| format!("{name} is run {run}")));
                    // What was refused has ended at once.
                    let runs: Vec<String> = runs.collect();
                    ended.store(total - runs.len(), Ordering::Relaxed);
                    format!("begun: {}", runs.join(", "))
                }
                SpawnNews::Ended(index, result) => {
                    ended.fetch_add(1, Ordering::Relaxed);
                    let name = names.get(index).map_or("", String::as_str);
                    format!("{name} is {}", result.status)
                }
            };
            // A client that is gone isn't told.
            let _ = tell.send((ended.load(Ordering::Relaxed), said));
        }
    }
}
