//! The checkpoint of the flows catalog: a flow is an item, whose place is its rank in the order of creation.

use bincode::{Decode, Encode};

use super::{Entry, FlowCatalog, FlowCatalogEvent, NONE};
use crate::{
    Error, Result, RunId,
    checkpoint::{Checkpointed, Progress},
    codec,
};

/// About how many bytes a flow takes in a part, its status aside.
const ROW_BYTES: usize = 72;

/// One flow of a part.
#[derive(Encode, Decode)]
struct FlowRow {
    place: u32,
    id: RunId,
    status: String,
    is_of_run: bool,
    parent: Option<RunId>,
    resumed_from: Option<u32>,
    created_at_ms: u64,
    updated_at_ms: u64,
}

impl Checkpointed for FlowCatalog {
    type Event = FlowCatalogEvent;

    const PART: u8 = crate::kinds::FLOW_CATALOG_PART;

    const EVENT: &'static str = "flows event";

    fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<FlowCatalogEvent> {
        FlowCatalogEvent::decode(kind, meta, payload)
    }

    fn apply_next(
        &mut self,
        _sequence: u64,
        event: FlowCatalogEvent,
    ) -> std::result::Result<u32, String> {
        // Two handles may both find that a flow isn't listed yet: the second event only says the status again.
        let Some(place) = self.place(event.run_id) else {
            return self.insert(&event);
        };
        let status = self.number(&event.status);
        self.change(place, status, event.at_ms);
        Ok(place)
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
                id: RunId(entry.id),
                status: self.statuses.get(entry.status as usize)?.0.to_string(),
                is_of_run: entry.is_of_run,
                parent: entry.parent.map(RunId),
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
                id: row.id.0,
                created_at_ms: row.created_at_ms,
                updated_at_ms: row.updated_at_ms,
                status,
                resumed_from: row.resumed_from.unwrap_or(NONE),
                resumed_by: NONE,
                parent: row.parent.map(|parent| parent.0),
                is_of_run: row.is_of_run,
            })
            .map_err(|what| wrong(&what))?;
        }
        Ok(())
    }

    fn change_part(&mut self, part: &[u8], counts: &dyn Fn(u32) -> bool) -> Result<()> {
        for row in codec::decode_part::<Vec<FlowRow>>(part)?
            .into_iter()
            .filter(|row| counts(row.place))
        {
            if self.entries.get(row.place).map(|entry| entry.id) != Some(row.id.0) {
                return Err(wrong(&format!("flow {} is another one", row.place)));
            }
            let status = self.number(&row.status);
            self.change(row.place, status, row.updated_at_ms);
        }
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
