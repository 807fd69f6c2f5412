//! The flows catalog written down: a flow is an item, whose place is its rank in the order of creation.

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::{Entry, FlowCatalog, FlowCatalogEvent, NONE};
use crate::{
    Error, Result,
    checkpoint::{Checkpointed, Progress},
    codec,
};

/// About how many bytes a flow takes in a part, its status aside.
const ROW_BYTES: usize = 72;

/// One flow of a part.
#[derive(Encode, Decode)]
struct FlowRow {
    place: u32,
    id: [u8; 16],
    status: String,
    is_of_run: bool,
    parent: Option<[u8; 16]>,
    resumed_from: Option<u32>,
    created_at_ms: u64,
    updated_at_ms: u64,
}

impl Checkpointed for FlowCatalog {
    type Event = FlowCatalogEvent;

    const PART: u8 = crate::kinds::FLOW_CATALOG_PART;

    fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<FlowCatalogEvent> {
        FlowCatalogEvent::decode(kind, meta, payload)
    }

    fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    fn apply_event(&mut self, sequence: u64, event: FlowCatalogEvent) -> Result<()> {
        self.apply(sequence, &event)
    }

    fn items(&self) -> usize {
        self.len()
    }

    fn item_bytes(&self, place: u32) -> usize {
        let entry = self.entries.get(place);
        let status = entry.and_then(|entry| self.statuses.get(entry.status as usize));
        ROW_BYTES + status.map_or(0, |(name, _)| name.len())
    }

    fn encode_part(&self, places: &[u32]) -> Result<Vec<u8>> {
        let row = |place: &u32| {
            let entry = self.entries.get(*place)?;
            Some(FlowRow {
                place: *place,
                id: *entry.id.as_bytes(),
                status: self.statuses.get(entry.status as usize)?.0.to_string(),
                is_of_run: entry.is_of_run,
                parent: entry.parent.map(|parent| *parent.as_bytes()),
                resumed_from: (entry.resumed_from != NONE).then_some(entry.resumed_from),
                created_at_ms: entry.created_at_ms,
                updated_at_ms: entry.updated_at_ms,
            })
        };
        codec::encode_part(&places.iter().filter_map(row).collect::<Vec<_>>())
    }

    fn add_part(&mut self, part: &[u8]) -> Result<()> {
        for row in codec::decode_part::<Vec<FlowRow>>(part)? {
            if row.place as usize != self.len() {
                return Err(wrong(&format!(
                    "flow {} should come next, but flow {} does",
                    self.len(),
                    row.place
                )));
            }
            if row.resumed_from.is_some_and(|before| before >= row.place) {
                return Err(wrong(&format!(
                    "flow {} goes on with one that comes after it",
                    row.place
                )));
            }
            let status = self.number(&row.status);
            self.add(Entry {
                id: Uuid::from_bytes(row.id),
                created_at_ms: row.created_at_ms,
                updated_at_ms: row.updated_at_ms,
                status,
                resumed_from: row.resumed_from.unwrap_or(NONE),
                resumed_by: NONE,
                parent: row.parent.map(Uuid::from_bytes),
                is_of_run: row.is_of_run,
            })?;
        }
        Ok(())
    }

    fn change_part(&mut self, part: &[u8], counts: &dyn Fn(u32) -> bool) -> Result<()> {
        for row in codec::decode_part::<Vec<FlowRow>>(part)?
            .into_iter()
            .filter(|row| counts(row.place))
        {
            if self.entries.get(row.place).map(|entry| entry.id) != Some(Uuid::from_bytes(row.id)) {
                return Err(wrong(&format!("flow {} is another one", row.place)));
            }
            let status = self.number(&row.status);
            self.change(row.place, status, row.updated_at_ms);
        }
        Ok(())
    }

    fn restored(&mut self, sequence: u64) -> Result<()> {
        self.last_sequence = sequence;
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }
}

fn wrong(what: &str) -> Error {
    Error::damaged(format!("a part of the flows catalog is wrong: {what}"))
}
