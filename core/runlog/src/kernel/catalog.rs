//! [`CatalogReader`]: the catalog's fold over a backend, and changes of it.

use std::sync::Arc;

use runlog_log::{Batch, Expected, Op, Position, Sequence, StreamId};
use runlog_model::{Catalog, CatalogEvent, Checkpointed, EncodedEvent, SessionId};
use uuid::Uuid;

use super::lookup::{check_id, live_session};
use crate::{
    Result,
    backend::Backend,
    journal::{
        attempts::{Attempts, Queues},
        projection::{Folded, Projection, Streams},
    },
};

/// The stream of every store that lists its sessions and instances.
pub const CATALOG_STREAM: StreamId = StreamId::from_bytes(*b"runlog:catalog:1");
/// The parts of the catalog's checkpoints; a snapshot of [`CATALOG_STREAM`] lists the valid ones.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:catpart:1");

/// The sessions and instances of a store.
pub(crate) struct CatalogReader {
    backend: Arc<dyn Backend>,
    projection: Projection<Catalog>,
    queues: Arc<Queues>,
}

/// What [`CatalogReader::change`] writes.
#[derive(Default)]
pub(crate) struct Change<'a> {
    /// The events to append to the catalog.
    pub(crate) events: Vec<CatalogEvent>,
    /// Other operations of the same batch.
    pub(crate) ops: Vec<Op<'a>>,
    /// Whether the decision still holds if the catalog changed meanwhile.
    pub(crate) guard: Guard,
}

impl Change<'_> {
    /// Only events; their names and ids must be free.
    pub(crate) fn of(events: Vec<CatalogEvent>) -> Self {
        Self {
            events,
            ..Self::default()
        }
    }
}

/// The precondition of a change.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Guard {
    /// The catalog must be unchanged: a name or an id must be free.
    #[default]
    Unchanged,
    /// None: the ids are fresh, so any number of writers can write concurrently.
    Any,
}

impl CatalogReader {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        folded: Arc<Folded<Catalog>>,
        queues: Arc<Queues>,
    ) -> Self {
        let streams = Streams {
            events: CATALOG_STREAM,
            parts: PARTS_STREAM,
            event: "catalog event",
        };
        Self {
            projection: Projection::new(Arc::clone(&backend), streams, folded),
            backend,
            queues,
        }
    }

    /// Looks something up in the fold, without catching up.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        self.projection.with_state(look)
    }

    /// Catches up, then looks something up.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&Catalog) -> T) -> Result<T> {
        self.projection.read(look).await
    }

    /// As [`check_id`], once caught up.
    pub(crate) async fn check_id(&self, id: Uuid) -> Result<()> {
        self.read(|catalog| check_id(catalog, id)).await?
    }

    /// An error if there is no such session, or it was deleted.
    pub(crate) async fn check_live(&self, session: SessionId) -> Result<()> {
        self.read(|catalog| live_session(catalog, session).map(drop))
            .await?
    }

    /// Writes events, if `check` accepts the catalog as it is then.
    pub(crate) async fn add(
        &self,
        events: &[CatalogEvent],
        guard: Guard,
        check: impl Fn(&Catalog) -> Result<()>,
    ) -> Result<()> {
        self.change(|catalog| {
            check(catalog)?;
            let change = Change {
                events: events.to_vec(),
                guard,
                ..Change::default()
            };
            Ok((change, ()))
        })
        .await
    }

    /// Applies the events just written, and writes a checkpoint when one is due.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }

    /// Writes a checkpoint, so that the next opening is fast.
    pub(crate) async fn before_close(&self) {
        self.projection.before_close().await;
    }

    pub(super) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Turns at writing decisions to the catalog.
    pub(super) async fn attempts(&self) -> Attempts<'_> {
        self.queues.attempts(&*self.backend, CATALOG_STREAM).await
    }

    /// Writes the whole checkpoint anew if one from before this position has parts left, and redacts these.
    pub(super) async fn renew_checkpoint(&self, position: Position, reason: &str) -> Result<()> {
        self.projection.renew_checkpoint(position, reason).await
    }

    /// Catches up, decides what to change, and writes it unless the catalog was changed in between; then it decides
    /// again. `decide` returns the change, and the value to return once that is durable.
    pub(crate) async fn change<'a, T>(
        &self,
        decide: impl Fn(&Catalog) -> Result<(Change<'a>, T)>,
    ) -> Result<T> {
        let mut attempts = self.attempts().await;
        loop {
            self.projection.catch_up().await?;
            let (last, decided) =
                self.with_state(|catalog| (catalog.last_sequence(), decide(catalog)));
            let (change, value) = decided?;
            if change.events.is_empty() && change.ops.is_empty() {
                return Ok(value);
            }
            let encoded = encode(&change.events)?;
            let expected = match change.guard {
                Guard::Unchanged => Expected::Last(Sequence(last)),
                Guard::Any => {
                    attempts.release();
                    Expected::Any
                }
            };
            let mut ops = vec![Op::Append {
                stream: CATALOG_STREAM,
                expected,
                records: encoded.iter().map(EncodedEvent::record).collect(),
            }];
            ops.extend(change.ops);
            match self.backend.commit(Batch::new(ops)).await {
                Ok(_) => {
                    self.after_commit().await;
                    return Ok(value);
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }
}

/// The records of some events.
fn encode(events: &[CatalogEvent]) -> Result<Vec<EncodedEvent>> {
    let mut encoded = Vec::with_capacity(events.len());
    for event in events {
        encoded.extend(event.encode_all()?);
    }
    Ok(encoded)
}
