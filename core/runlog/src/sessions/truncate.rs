//! Truncating a session: its root, and everything that its sub-agents wrote since.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicU64, Ordering},
};

use runlog_log::{Expected, Op, Sequence};
use runlog_model::{AgentInstance, SessionId};

use super::cut::needs_next;
use crate::{Result, Store, kernel::records::context_stream, transcripts::keep::aside_stream};

impl Store {
    /// Deletes the events of a session's root instance after a sequence, with their asides if they were imported: the
    /// session then continues from there. Everything that its sub-agents, and theirs, wrote after the first deleted
    /// event, in the order of the log, is deleted too; sub-agents that were spawned after that point then have an empty
    /// context. Other instances are unchanged, and so is its chat, which has messages and an order of its own. A run at
    /// work in it goes on behind what is left. Atomic, and durable when it returns. Returns how many events were
    /// deleted, those of sub-agents included.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, or it has no instance;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the root's context ends before the sequence.
    pub async fn truncate_session(&self, session: SessionId, after_sequence: u64) -> Result<u64> {
        let root = self.root_instance(session).await?;
        let contexts = self.contexts();
        // Reset by each attempt: after a conflict the operations are built again.
        let below = AtomicU64::new(0);
        // In one batch: once the events are deleted, the asides that belong to them can't be determined any more.
        let of_root = contexts
            .delete_events_with(root.id, after_sequence, || {
                self.along_to_truncate(session, &root, after_sequence, &below)
            })
            .await?;
        Ok(of_root + below.into_inner())
    }

    /// How far a session's agents were when a message of its chat was saved: the last sequence that the root's context had then, to
    /// [truncate](Self::truncate_session) the session after. Of an answer it is that at the beginning of what came next. 0 where the root had
    /// written nothing.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such session, its chat has no such message, or it has no instance.
    pub async fn sequence_at_message(&self, session: SessionId, message_id: &str) -> Result<u64> {
        let cut = self.cut_at_message(session, message_id).await?;
        let root = self.root_instance(session).await?;
        let id = root.id;
        let lasts = self.lasts_at(&[root], Some(&cut)).await?;
        Ok(lasts.get(&id).map_or(0, |written| written.last.0))
    }

    /// The operations that delete what belongs to the events after a sequence of a session's root instance: the events
    /// that its sub-agents wrote since, which are counted in `below`, and the asides.
    async fn along_to_truncate(
        &self,
        session: SessionId,
        root: &AgentInstance,
        after_sequence: u64,
        below: &AtomicU64,
    ) -> Result<Vec<Op<'static>>> {
        below.store(0, Ordering::Relaxed);
        let first = after_sequence.saturating_add(1);
        let first = self.contexts().event(root.id, first).await;
        let Some(first) = first.map_err(|error| needs_next(error, after_sequence))? else {
            return Ok(Vec::new());
        };
        let (mut ops, count) = self
            .below_to_truncate(session, root, first.position)
            .await?;
        below.store(count, Ordering::Relaxed);
        ops.extend(self.aside_to_truncate(session, first.position).await?);
        Ok(ops)
    }

    /// The operations that delete the events of the sub-agents below the root from a position on, and the number of these.
    async fn below_to_truncate(
        &self,
        session: SessionId,
        root: &AgentInstance,
        first: u64,
    ) -> Result<(Vec<Op<'static>>, u64)> {
        let instances: Vec<AgentInstance> = self
            .shared
            .catalog
            .read(|catalog| catalog.instances(session).collect())
            .await?;
        let (mut below, mut ops, mut count) = (HashSet::from([root.id]), Vec::new(), 0);
        for instance in instances {
            // Parents come before their children.
            let parent = instance.parent_instance_id;
            if !parent.is_some_and(|parent| below.contains(&parent)) {
                continue;
            }
            below.insert(instance.id);
            let stream = context_stream(instance.id);
            let Some(info) = self.backend().stream(stream).await? else {
                continue;
            };
            let last = info.last_sequence;
            let before = self.last_before(stream, last, first).await?;
            let after = before.map_or(Sequence::ZERO, |record| record.sequence);
            let expected = Expected::Last(last);
            count += last.0.saturating_sub(after.0);
            ops.extend((after < last).then_some(Op::Truncate {
                stream,
                expected,
                after,
            }));
        }
        Ok((ops, count))
    }

    /// The operation that truncates a session's aside from a position on.
    async fn aside_to_truncate(
        &self,
        session: SessionId,
        first: u64,
    ) -> Result<Option<Op<'static>>> {
        let stream = aside_stream(session);
        let Some(info) = self.backend().stream(stream).await? else {
            return Ok(None);
        };
        let after = self.aside_before(stream, info.last_sequence, first).await?;
        let expected = Expected::Last(info.last_sequence);
        Ok((after < info.last_sequence).then_some(Op::Truncate {
            stream,
            expected,
            after,
        }))
    }
}
