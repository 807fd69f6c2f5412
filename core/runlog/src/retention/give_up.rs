//! Removing one session, in one atomic batch.

use runlog_log::{Batch, Durability, Expected, NewRecord, Op, Sequence};
use runlog_model::{CatalogEvent, Checkpointed, EncodedEvent, RunStatus, SessionId};

use super::{
    dismissed::dismissals,
    plan::Seen,
    size::{Contents, Size},
};
use crate::{
    ErrorKind, Result, Store,
    kernel::{catalog::CATALOG_STREAM, records::run_stream},
};

/// How often a session is retried if it or the catalog was written to meanwhile.
const ATTEMPTS: u32 = 8;

/// What was removed.
pub(super) struct GivenUp {
    pub(super) size: Size,
    pub(super) runs: u64,
}

impl Store {
    /// Deletes a session and truncates its streams, in one batch. `None` if it is in use now, or isn't as it was seen any
    /// more, or was copied since.
    pub(super) async fn give_up(
        &self,
        seen: &Seen,
        newest: Option<SessionId>,
        statuses: &[RunStatus],
        durability: Option<Durability>,
    ) -> Result<Option<GivenUp>> {
        let id = seen.id();
        for _ in 0..ATTEMPTS {
            // Prevents that runs begin in its contexts until this is done.
            let instances = self
                .shared
                .catalog
                .read(|catalog| {
                    let instances = catalog.instances(id);
                    instances.map(|instance| instance.id).collect::<Vec<_>>()
                })
                .await?;
            let runs = self.runs();
            let shared = runs.index().shared();
            let entered: Vec<_> = instances.iter().map(|it| shared.enter(*it)).collect();
            if entered.iter().any(Option::is_none) {
                return Ok(None);
            }
            // What tells of the runs is written again.
            let _beside = self.beside_erasures().await;
            let found = self
                .shared
                .catalog
                .read(|catalog| (catalog.last_sequence(), catalog.session(id).cloned()))
                .await?;
            let (catalog_last, Some(session)) = found else {
                return Ok(None);
            };
            let listed = self.session_runs(id).await?;
            if self.is_at_work(&session, &listed, statuses)
                || self.seen(&session, &listed).await? != *seen
                || self.is_copied_since(id, newest).await?
            {
                return Ok(None);
            }
            let contents = self.contents(id).await?;
            let size = self.size_of(&contents).await?;
            let deleted = CatalogEvent::SessionDeleted {
                id,
                at_ms: self.backend().now_ms(),
            }
            .encode()?;
            // What is conditional on what was read now has to be what the rules saw.
            if contents.streams != seen.streams {
                return Ok(None);
            }
            let mut ops = ops_of(&contents);
            let is_deleted = session.deleted_at_ms.is_some();
            let mut events = dismissals(&session, |_| true)?;
            events.extend((!is_deleted).then_some(deleted));
            ops.push(changes(&events, catalog_last));
            let batch = Batch {
                durability,
                ..Batch::new(ops)
            };
            let removals = &self.shared.folds.removals;
            removals.begin();
            match self.backend().commit(batch).await {
                Ok(_) => {
                    self.chat_cache().forget(id);
                    self.often().forget(id);
                    self.shared.catalog.after_commit().await;
                    removals.end();
                    return Ok(Some(GivenUp {
                        size,
                        runs: contents.run_count,
                    }));
                }
                Err(error) if error.kind() == ErrorKind::Conflict => removals.end(),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Changes the catalog on condition that no session was changed, restored or copied since.
fn changes(events: &[EncodedEvent], catalog_last: u64) -> Op<'_> {
    Op::Append {
        stream: CATALOG_STREAM,
        expected: Expected::Last(Sequence(catalog_last)),
        records: events.iter().map(EncodedEvent::record).collect(),
    }
}

/// The operations that remove a session's contents, on condition that nothing was written to it since they were read.
fn ops_of(contents: &Contents) -> Vec<Op<'_>> {
    let forget = |stream, last| Op::Truncate {
        stream,
        expected: Expected::Last(last),
        after: Sequence::ZERO,
    };
    let mut ops = Vec::new();
    for (stream, last) in &contents.streams {
        ops.push(forget(*stream, *last));
    }
    for (id, short) in &contents.runs {
        ops.push(forget(run_stream(*id), short.last));
        ops.push(Op::Append {
            stream: run_stream(*id),
            expected: Expected::Last(Sequence::ZERO),
            records: short
                .kept
                .iter()
                .map(|kept| NewRecord {
                    labels: &[],
                    kind: kept.kind,
                    meta: &kept.meta,
                    payload: &kept.payload,
                })
                .collect(),
        });
    }
    ops
}
