//! [`CatalogReader`]: the catalog's fold over a backend, caught up whenever it is asked.

use std::sync::{Arc, Mutex, MutexGuard};

use runlog_engine::{Batch, Expected, Kind, NewRecord, Op, ReadOptions, Sequence, StreamId};
use runlog_model::{Catalog, CatalogEvent, EncodedCatalogEvent};

use crate::{Error, ErrorKind, Result, backend::Backend};

/// The stream of every store that says which sessions and instances there are.
pub const CATALOG_STREAM: StreamId = StreamId::from_bytes(*b"runlog:catalog:1");

/// How often a change is tried again after another writer changed the catalog in between. Whoever loses does
/// so to one who won, and at no cost of a flush, so that this bounds the writers at one time.
const ATTEMPTS_MAX: u32 = 1_000;

/// Owns the fold, and that it is never ahead of what is durable.
pub(crate) struct CatalogReader {
    backend: Arc<dyn Backend>,
    catalog: Mutex<Catalog>,
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
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        Self { backend, catalog: Mutex::new(Catalog::new()) }
    }

    /// The fold as far as it got. The lock is never held across a wait.
    fn locked(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().expect("the catalog was left broken by a panic")
    }

    /// Looks something up in what is folded already.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&Catalog) -> T) -> T {
        look(&self.locked())
    }

    /// Catches up, then looks something up.
    pub(crate) async fn read<T>(&self, look: impl FnOnce(&Catalog) -> T) -> Result<T> {
        self.catch_up().await?;
        Ok(self.peek(look))
    }

    /// Catches up, decides what to change, and writes it if nobody changed the catalog in between; else
    /// decides anew. `decide` gives the change and what to return once it is durable.
    pub(crate) async fn change<'a, T>(&self, decide: impl Fn(&Catalog) -> Result<(Change<'a>, T)>) -> Result<T> {
        let mut attempt = 1;
        loop {
            self.catch_up().await?;
            let (last, decided) = self.peek(|catalog| (catalog.last_sequence(), decide(catalog)));
            let (change, value) = decided?;
            let encoded = change.events.iter().map(CatalogEvent::encode).collect::<runlog_model::Result<Vec<_>>>()?;
            let expected = match change.guard {
                Guard::Unchanged => Expected::Last(Sequence(last)),
                Guard::Any => Expected::Any,
            };
            let mut ops = vec![Op::Append { stream: CATALOG_STREAM, expected, records: records(&encoded) }];
            ops.extend(change.ops);
            match self.backend.commit(Batch::new(ops)).await {
                Ok(_) => {
                    // It is written; a failure to read it back is told by the next read.
                    let _ = self.catch_up().await;
                    return Ok(value);
                }
                Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    async fn catch_up(&self) -> Result<()> {
        let Some(info) = self.backend.stream(CATALOG_STREAM).await? else { return Ok(()) };
        let mut next = Some(Sequence(self.peek(Catalog::last_sequence)).next());
        while let Some(first) = next.filter(|first| *first <= info.last_sequence) {
            let page = self.backend.read(CATALOG_STREAM, ReadOptions { first, ..ReadOptions::default() }).await?;
            next = page.next;
            let mut catalog = self.locked();
            for record in &page.records {
                // Another thread may have got further meanwhile; what it applied is skipped.
                if record.sequence.0 <= catalog.last_sequence() {
                    continue;
                }
                let event = CatalogEvent::decode(record.kind.0, &record.meta, &record.payload).map_err(|error| {
                    let error = Error::from(error);
                    Error::new(error.kind(), format!("catalog event {}: {error}", record.sequence))
                })?;
                catalog.apply(record.sequence.0, event)?;
            }
        }
        Ok(())
    }
}

fn records(events: &[EncodedCatalogEvent]) -> Vec<NewRecord<'_>> {
    events.iter().map(catalog_record).collect()
}

pub(crate) fn catalog_record(event: &EncodedCatalogEvent) -> NewRecord<'_> {
    NewRecord { kind: Kind(event.kind), meta: &event.meta, payload: &event.payload }
}
