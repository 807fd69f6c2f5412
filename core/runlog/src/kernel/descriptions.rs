//! Erasing what tells of the people and the subjects of sessions: titles, metadata, who made and changed a chat.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use runlog_log::{Batch, Expected, Kind, Op, Position, ReadOptions, Sequence};
use runlog_model::{
    Catalog, CatalogEvent, Checkpointed, EncodedEvent, RawJson, SessionChanges, SessionDescription,
    SessionId, kinds,
};

use super::catalog::{CATALOG_STREAM, CatalogReader};
use crate::{Result, journal::follow::read_each};

/// How many sessions' descriptions are erased in one batch.
const TOGETHER: usize = 5_000;

/// What the list says of the chosen sessions, and of those that may have taken their descriptions over.
#[derive(Default)]
struct Found {
    /// Their descriptions that haven't been erased, by session, in the order they were written.
    described: BTreeMap<SessionId, Vec<(Position, SessionDescription)>>,
    /// What those were copied from that were.
    sources: BTreeMap<SessionId, SessionId>,
    /// Where the last description of a chosen session was erased.
    erased: Option<Position>,
}

/// Whose descriptions are erased, and who loses with them what they say.
pub(crate) struct ErasedDescriptions {
    /// The sessions of which all is erased.
    pub(crate) chosen: BTreeSet<SessionId>,
    /// Their copies: they lose what isn't said by another session that they, or the chosen one, were copied from.
    pub(crate) copies: BTreeSet<SessionId>,
}

/// What descriptions say: titles, metadata, people, and values of further fields by their names.
#[derive(Default)]
struct Said {
    titles: HashSet<String>,
    metadata: HashSet<RawJson>,
    people: HashSet<String>,
    extra: HashSet<(String, String)>,
}

impl Said {
    fn add(&mut self, description: &SessionDescription) {
        self.titles.extend(description.title.clone());
        self.metadata.extend(description.metadata.clone());
        self.people.extend(description.created_by.clone());
        self.people.extend(description.updated_by.clone());
        let extra = description.extra.iter();
        self.extra
            .extend(extra.map(|(field, value)| (field.clone(), value.to_string())));
    }

    fn add_all<'a>(&mut self, all: impl IntoIterator<Item = &'a (Position, SessionDescription)>) {
        all.into_iter().for_each(|(_, it)| self.add(it));
    }

    fn join(&mut self, other: Self) {
        self.titles.extend(other.titles);
        self.metadata.extend(other.metadata);
        self.people.extend(other.people);
        self.extra.extend(other.extra);
    }

    /// Takes out what another session said, but for people.
    fn remove(&mut self, description: &SessionDescription) {
        if let Some(title) = &description.title {
            self.titles.remove(title);
        }
        if let Some(json) = &description.metadata {
            self.metadata.remove(json);
        }
        for (field, value) in &description.extra {
            self.extra.remove(&(field.clone(), value.to_string()));
        }
    }

    /// What a description of another session says besides. It goes on to say whose that is: without it, nobody would find it who looks
    /// for all that this user made.
    fn left_of(&self, description: &SessionDescription) -> SessionDescription {
        let mut left = description.clone();
        left.title.take_if(|title| self.titles.contains(title));
        left.metadata.take_if(|json| self.metadata.contains(json));
        let maker = left.created_by.as_ref();
        left.updated_by
            .take_if(|name| self.people.contains(name) && Some(&*name) != maker);
        left.extra
            .retain(|field, value| !self.extra.contains(&(field.clone(), value.to_string())));
        left
    }
}

/// What was erased.
#[derive(Default)]
struct Erased {
    /// How many records, now.
    records: u64,
    /// Where the last description was erased, now or before.
    last: Option<Position>,
}

/// What is to be written.
struct Erasing {
    /// The records to redact, in order.
    positions: Vec<Position>,
    /// What the sessions are described by then.
    left: Vec<SessionDescription>,
}

impl CatalogReader {
    /// Takes all that was ever written about some sessions out of every read, and what of it others say that share with them what was
    /// said. The caller compacts the store then, which removes its bytes.
    ///
    /// Returns of how many records. Repeated after a crash, it does what was left to do.
    pub(crate) async fn erase_descriptions(
        &self,
        what: &ErasedDescriptions,
        reason: &str,
    ) -> Result<u64> {
        let (mut rest, mut erased) = (what.chosen.clone(), Erased::default());
        while !rest.is_empty() {
            let after = rest.iter().nth(TOGETHER).copied();
            let later = after.map(|after| rest.split_off(&after));
            let some = self.erase_some(&rest, what, reason).await?;
            erased.records += some.records;
            erased.last = erased.last.max(some.last);
            rest = later.unwrap_or_default();
        }
        if let Some(last) = erased.last {
            self.renew_checkpoint(last, reason).await?;
        }
        Ok(erased.records)
    }

    /// Erases the descriptions of some sessions in one batch.
    async fn erase_some(
        &self,
        chosen: &BTreeSet<SessionId>,
        what: &ErasedDescriptions,
        reason: &str,
    ) -> Result<Erased> {
        let mut attempts = self.attempts().await;
        loop {
            let look = |catalog: &Catalog| {
                let family = catalog.related(chosen);
                let source = |id: &SessionId| Some((*id, catalog.session(*id)?.copied_from?));
                let sources: BTreeMap<_, _> = family.iter().filter_map(source).collect();
                let updated = |id: &SessionId| Some((*id, catalog.session(*id)?.updated_at_ms));
                let updated: BTreeMap<_, _> = family.iter().filter_map(updated).collect();
                (catalog.last_sequence(), family, sources, updated)
            };
            let (last, family, sources, updated) = self.read(look).await?;
            let found = self.descriptions(chosen, &family, Sequence(last)).await?;
            let erasing = Found { sources, ..found }.erasing(chosen, what);
            if erasing.positions.is_empty() {
                return Ok(Erased {
                    records: 0,
                    last: found.erased,
                });
            }
            let records = erasing.records(&updated)?;
            let mut ops = vec![Op::Append {
                stream: CATALOG_STREAM,
                // A description that somebody writes meanwhile may say what is to be erased.
                expected: Expected::Last(Sequence(last)),
                records: records.iter().map(EncodedEvent::record).collect(),
            }];
            ops.extend(Op::redactions(&erasing.positions, reason));
            match self.backend().commit(Batch::new(ops)).await {
                Ok(written) => {
                    return Ok(Erased {
                        records: erasing.positions.len() as u64,
                        last: Some(written.last_position),
                    });
                }
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    /// What the list says of some sessions up to a sequence.
    async fn descriptions(
        &self,
        chosen: &BTreeSet<SessionId>,
        family: &BTreeSet<SessionId>,
        last: Sequence,
    ) -> Result<Found> {
        let mut found = Found::default();
        let options = ReadOptions {
            last,
            kinds: vec![Kind(kinds::SESSION_DESCRIBED)],
            ..ReadOptions::default()
        };
        read_each(self.backend(), CATALOG_STREAM, options, &mut |record| {
            if record.payload.is_empty() {
                return Ok(());
            }
            let event = CatalogEvent::decode(record.kind.0, &record.meta, &record.payload)?;
            if let CatalogEvent::SessionDescribed(description) = event
                && family.contains(&description.id)
            {
                if !description.is_empty() {
                    let of_session = found.described.entry(description.id).or_default();
                    of_session.push((record.position, description));
                } else if chosen.contains(&description.id) {
                    found.erased = Some(record.position);
                }
            }
            Ok(())
        })
        .await?;
        Ok(found)
    }
}

impl Found {
    /// What a session was copied from, what that was, and so on.
    fn above(&self, id: SessionId) -> impl Iterator<Item = SessionId> {
        std::iter::successors(self.sources.get(&id).copied(), |id| {
            self.sources.get(id).copied()
        })
    }

    /// What a session that is erased says, without what it may have taken over from one that isn't.
    fn own_of(&self, id: SessionId, what: &ErasedDescriptions) -> Said {
        let mut said = Said::default();
        said.add_all(self.described.get(&id).into_iter().flatten());
        for other in self.above(id).filter(|id| !what.chosen.contains(id)) {
            let descriptions = self.described.get(&other).into_iter().flatten();
            descriptions.for_each(|(_, it)| said.remove(it));
        }
        said
    }

    fn erasing(&self, chosen: &BTreeSet<SessionId>, what: &ErasedDescriptions) -> Erasing {
        let mut positions = BTreeSet::new();
        let mut left = Vec::new();
        for (id, descriptions) in &self.described {
            if chosen.contains(id) {
                positions.extend(descriptions.iter().map(|(position, _)| *position));
                left.push(SessionDescription::empty(*id));
                continue;
            }
            if !what.copies.contains(id) {
                continue;
            }
            let mut said = Said::default();
            for above in self.above(*id).filter(|id| what.chosen.contains(id)) {
                said.join(self.own_of(above, what));
            }
            let with_it: Vec<_> = descriptions
                .iter()
                .filter(|(_, it)| said.left_of(it) != *it)
                .collect();
            let Some((_, newest)) = descriptions.last().filter(|_| !with_it.is_empty()) else {
                continue;
            };
            // What else it said once is kept as what it said before: others may have taken that over, and it is looked for here when
            // this session is erased itself.
            for (position, description) in with_it {
                positions.insert(*position);
                left.push(said.left_of(description));
            }
            left.push(said.left_of(newest));
            left.dedup();
        }
        Erasing {
            positions: positions.into_iter().collect(),
            left,
        }
    }
}

impl Erasing {
    /// The entries of the list that say what is left. Each description stands behind an entry of its session, to which it belongs
    /// once it can't be read. They are no use of it: it stays as old as it is, for lists and for what is given up.
    fn records(&self, updated: &BTreeMap<SessionId, u64>) -> Result<Vec<EncodedEvent>> {
        let mut records = Vec::with_capacity(2 * self.left.len());
        for description in &self.left {
            let updated = CatalogEvent::SessionUpdated {
                id: description.id,
                at_ms: updated.get(&description.id).copied().unwrap_or_default(),
                changes: SessionChanges::default(),
            };
            records.push(updated.encode()?);
            records.push(CatalogEvent::SessionDescribed(description.clone()).encode()?);
        }
        Ok(records)
    }
}
