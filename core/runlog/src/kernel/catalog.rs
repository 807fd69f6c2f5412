//! [`CatalogReader`]: the catalog's fold over a backend, and changes of it.

use std::sync::Arc;

use runlog_log::{Batch, Expected, Op, Sequence, StreamId};
use runlog_model::{Catalog, CatalogEvent, Checkpointed, EncodedEvent};

use crate::{
    Result,
    backend::Backend,
    journal::{
        attempts::Queues,
        projection::{Folded, Projection, Streams},
    },
};

/// The stream of every store that says which sessions and instances there are.
pub const CATALOG_STREAM: StreamId = StreamId::from_bytes(*b"runlog:catalog:1");
/// The parts of the catalog's checkpoints; a snapshot of [`CATALOG_STREAM`] says which of them count.
pub(crate) const PARTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:catpart:1");

/// Which sessions and instances there are.
pub(crate) struct CatalogReader {
    backend: Arc<dyn Backend>,
    projection: Projection<Catalog>,
    queues: Arc<Queues>,
}

/// What [`CatalogReader::change`] is to write.
#[derive(Default)]
pub(crate) struct Change<'a> {
    /// What the catalog learns.
    pub(crate) events: Vec<CatalogEvent>,
    /// What happens with it, in the same batch.
    pub(crate) ops: Vec<Op<'a>>,
    /// Whether the decision still holds if the catalog changed meanwhile.
    pub(crate) guard: Guard,
}

impl Change<'_> {
    /// Events alone, of which a name or an id must be free.
    pub(crate) fn of(events: Vec<CatalogEvent>) -> Self {
        Self {
            events,
            ..Self::default()
        }
    }
}

/// What a change needs of the catalog.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Guard {
    /// That nobody else has changed it: a name or an id must be free.
    #[default]
    Unchanged,
    /// Nothing: ids are fresh, so that any number of writers can go on at once.
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

    /// Looks something up in what is folded already.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        self.projection.with_state(look)
    }

    /// Catches up, then looks something up.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&Catalog) -> T) -> Result<T> {
        self.projection.read(look).await
    }

    /// Writes events, where a check of the catalog as it is then says that they may be.
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

    /// Takes in what was just written to the catalog, and writes it down when it is time.
    pub(crate) async fn after_commit(&self) {
        self.projection.after_commit().await;
    }

    /// Writes down what is known, for whoever opens the store next.
    pub(crate) async fn before_close(&self) {
        self.projection.before_close().await;
    }

    /// Catches up, decides what to change, and writes it if nobody changed the catalog in between; else
    /// decides anew. `decide` gives the change and what to return once it is durable.
    pub(crate) async fn change<'a, T>(
        &self,
        decide: impl Fn(&Catalog) -> Result<(Change<'a>, T)>,
    ) -> Result<T> {
        let mut attempts = self.queues.attempts(&*self.backend, CATALOG_STREAM).await;
        loop {
            self.projection.catch_up().await?;
            let (last, decided) =
                self.with_state(|catalog| (catalog.last_sequence(), decide(catalog)));
            let (change, value) = decided?;
            if change.events.is_empty() && change.ops.is_empty() {
                return Ok(value);
            }
            let encoded = change
                .events
                .iter()
                .map(CatalogEvent::encode)
                .collect::<Result<Vec<_>>>()?;
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
