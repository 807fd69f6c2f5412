//! `Store::retain`: applying a retention policy.

use std::ops::ControlFlow;

use runlog_log::{CompactOptions, Durability, if_supported};

use super::{
    RETAINED_IDS_MAX, RetainProgress, RetainStage, Retained, RetentionPolicy,
    give_up::GivenUp,
    plan::{OnProgress, Plan},
};
#[cfg(doc)]
use crate::ErrorKind;
use crate::{Error, Result, Store};

impl Store {
    /// Removes the sessions that a policy doesn't keep, and returns which, and their size. A session is removed with
    /// everything in it, atomically: after a crash, call this again for the rest. Records that a copy shares are kept.
    /// When this returns, the sessions are durably removed and can't be read any more. Their disk space is freed by the
    /// next [`compact`](Self::compact), or at once with [`RetentionPolicy::compact`]. Their runs stay listed with their
    /// outcomes; a chat that is restored is empty.
    ///
    /// With [`RetentionPolicy::deltas_older_than_ms`] it removes no session, but redacts deltas in flows. It reads
    /// all flows for that, those in which it found nothing to drop only once they have gone on (it forgets which when the store is
    /// closed), and redacts the deltas of a text atomically; another call finds those that are left.
    ///
    /// It reads the sessions it removes to measure them, and with [`RetentionPolicy::max_bytes`] all sessions that the
    /// policy applies to. What lies behind a lost record isn't measured; it is removed nevertheless. With
    /// [`RetentionPolicy::compact`] it blocks the thread while it compacts, as [`compact`](Self::compact) does.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a policy without a rule, or one that would keep nothing;
    /// [`ReadOnly`](ErrorKind::ReadOnly) for a store opened for reading, unless it is a dry run; else those of reading
    /// and writing the store. Sessions removed before the error stay removed; but where the error is one of writing to the
    /// device, a loss of power may bring the last of them back, whole, and the next call removes them again.
    pub async fn retain(&self, policy: &RetentionPolicy) -> Result<Retained> {
        self.retain_with(policy, |_| ControlFlow::Continue(()))
            .await
    }

    /// [`retain`](Self::retain); `progress` is called for each session, and returns whether to continue.
    ///
    /// # Errors
    /// As [`retain`](Self::retain).
    pub async fn retain_with(
        &self,
        policy: &RetentionPolicy,
        mut progress: impl FnMut(RetainProgress) -> ControlFlow<()> + Send,
    ) -> Result<Retained> {
        policy.check()?;
        if self.backend().is_read_only() && !policy.dry_run {
            return Err(Error::new(
                crate::ErrorKind::ReadOnly,
                "the store is open for reading only; ask for a dry run, or open it for writing",
            ));
        }
        let mut retained = match policy.deltas_older_than_ms {
            Some(least_ms) => self.drop_deltas(policy, least_ms, &mut progress).await?,
            None => {
                let plan = self.plan(policy, &mut progress).await?;
                self.carry_out(policy, &plan, &mut progress).await?
            }
        };
        if policy.compact && !policy.dry_run && !retained.is_cancelled {
            let compaction = self.compact_with(CompactOptions::default(), |at| {
                progress(RetainProgress {
                    stage: RetainStage::Compacting,
                    done: at.bytes_done,
                    total: at.bytes_total,
                })
            })?;
            retained.is_cancelled = compaction.is_cancelled;
            retained.compaction = Some(compaction);
        }
        Ok(retained)
    }

    async fn carry_out(
        &self,
        policy: &RetentionPolicy,
        plan: &Plan,
        progress: &mut OnProgress<'_>,
    ) -> Result<Retained> {
        // One flush makes all removals durable: one for each would make the appends beside them wait, too. Asked for first,
        // it tells whether there is one; on a backend without, each removal is as durable as the store's appends.
        let log = self.backend().maintenance();
        let shares_flush =
            !policy.dry_run && !plan.going.is_empty() && if_supported(log.flush().await)?.is_some();
        let durability = shares_flush.then_some(Durability::Os);
        let removed = self.remove_each(policy, plan, durability, progress).await;
        if shares_flush {
            // Also after an error: what was removed before it stays removed.
            let flushed = log.flush().await;
            return removed.and_then(|removed| flushed.map(|()| removed));
        }
        removed
    }

    async fn remove_each(
        &self,
        policy: &RetentionPolicy,
        plan: &Plan,
        durability: Option<Durability>,
        progress: &mut OnProgress<'_>,
    ) -> Result<Retained> {
        let mut retained = Retained {
            kept_at_work: plan.kept_at_work,
            kept_for_copies: plan.kept_for_copies,
            is_cancelled: plan.is_cancelled,
            ..Retained::default()
        };
        for (done, seen) in (0_u64..).zip(&plan.going) {
            let state = RetainProgress {
                stage: RetainStage::GivingUp,
                done,
                total: plan.going.len() as u64,
            };
            if progress(state).is_break() {
                retained.is_cancelled = true;
                break;
            }
            let given_up = if policy.dry_run {
                let contents = self.contents(seen.id()).await?;
                Some(GivenUp {
                    size: self.size_of(&contents).await?,
                    runs: contents.run_count,
                })
            } else {
                self.give_up(seen, plan.newest, &policy.statuses, durability)
                    .await?
            };
            let Some(GivenUp { size, runs }) = given_up else {
                retained.kept_changed += 1;
                continue;
            };
            retained.sessions += 1;
            retained.runs += runs;
            retained.records += size.records;
            retained.bytes += size.bytes;
            if retained.session_ids.len() < RETAINED_IDS_MAX {
                retained.session_ids.push(seen.id());
            }
        }
        Ok(retained)
    }
}
