//! The catalog's checkpoint: sessions and instances are items, in the order of their creation.

use bincode::{Decode, Encode};

use super::{Catalog, CatalogEvent, Item};
use crate::{
    AgentInstance, Error, Result, Session,
    checkpoint::{Checkpointed, Progress},
    codec,
    json::read_bytes,
};

/// About how many bytes an item takes in a part beside its texts, and twice as many where it is a chat.
const ROW_BYTES: usize = 200;

/// Some sessions and instances of the catalog, written down, in the order they were made.
#[derive(Encode, Decode)]
struct CatalogPart {
    /// Each with its place in that order.
    items: Vec<(u32, CatalogRow)>,
}

/// One item of a [`CatalogPart`].
#[derive(Encode, Decode)]
enum CatalogRow {
    /// A session.
    Session {
        /// The sequence of its creation in the catalog.
        created: u64,
        /// The session as JSON.
        json: Vec<u8>,
    },
    /// An agent instance.
    Instance(AgentInstance),
}

impl Checkpointed for Catalog {
    type Event = CatalogEvent;

    const PART: u8 = crate::kinds::CATALOG_PART;

    const EVENT: &'static str = "catalog event";

    fn decode(kind: u8, meta: &[u8], payload: &[u8]) -> Result<CatalogEvent> {
        CatalogEvent::decode(kind, meta, payload)
    }

    fn apply_next(
        &mut self,
        sequence: u64,
        event: CatalogEvent,
    ) -> std::result::Result<u32, String> {
        self.fold(sequence, event)
    }

    fn items(&self) -> usize {
        self.items.len()
    }

    fn item_bytes(&self, place: u32) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self.items.get(place as usize) {
            Some(Item::Session(id)) => self.sessions.get(id).map_or(ROW_BYTES, |entry| {
                let session = &entry.session;
                let metadata = session
                    .metadata
                    .as_ref()
                    .map_or(0, |metadata| metadata.as_bytes().len());
                let texts = length(&session.name)
                    + length(&session.project)
                    + length(&session.title)
                    + metadata;
                // What a newer build keeps in a chat may be of any size; it is measured, as it is rare.
                let extra = session
                    .chat
                    .as_ref()
                    .map(|chat| &chat.extra)
                    .filter(|extra| !extra.is_empty());
                let extra = extra.map_or(0, |extra| {
                    serde_json::to_vec(extra).map_or(0, |json| json.len())
                });
                let open = session
                    .chat
                    .as_ref()
                    .map_or(0, |chat| chat.open_requests.len());
                let rows = if session.chat.is_some() {
                    2 + 2 * open
                } else {
                    1
                };
                ROW_BYTES * rows + texts + extra
            }),
            _ => ROW_BYTES,
        }
    }

    fn encode_part(&self, places: &[u32]) -> Result<Vec<u8>> {
        let items = places
            .iter()
            .map(|place| Ok((*place, self.row(*place)?)))
            .collect::<Result<Vec<_>>>()?;
        codec::encode_part(&CatalogPart { items })
    }

    fn add_part(&mut self, part: &[u8]) -> Result<()> {
        for (place, row) in codec::decode_part::<CatalogPart>(part)?.items {
            let expected = self.items.len();
            if place as usize != expected {
                return Err(wrong(format!(
                    "item {expected} should come next, but item {place} does"
                )));
            }
            let added = match row {
                CatalogRow::Session { created, json } => {
                    self.add_nameless(created, session(&json)?)
                }
                CatalogRow::Instance(instance) => self.add_instance(instance),
            };
            added.map_err(wrong)?;
        }
        Ok(())
    }

    fn change_part(&mut self, part: &[u8], counts: &dyn Fn(u32) -> bool) -> Result<()> {
        for (place, row) in codec::decode_part::<CatalogPart>(part)?.items {
            if !counts(place) {
                continue;
            }
            let (Some(Item::Session(id)), CatalogRow::Session { created, json }) =
                (self.items.get(place as usize).copied(), row)
            else {
                return Err(wrong(format!(
                    "item {place} is no session, and can't change"
                )));
            };
            let (session, entry) = (session(&json)?, self.sessions.get_mut(&id));
            match entry.filter(|entry| session.id == id && entry.created == created) {
                Some(entry) => entry.session = session,
                None => return Err(wrong(format!("item {place} is another session"))),
            }
        }
        Ok(())
    }

    fn restored(&mut self) -> Result<()> {
        // Only now: a name may have gone from a session that was deleted to another.
        for (id, entry) in &self.sessions {
            let session = &entry.session;
            let Some(name) = session
                .name
                .as_ref()
                .filter(|_| session.deleted_at_ms.is_none())
            else {
                continue;
            };
            if self.by_name.insert(name.clone(), *id).is_some() {
                return Err(wrong(format!("two sessions have the name {name:?}")));
            }
        }
        if self.by_creation.len() != self.sessions.len() {
            return Err(wrong("two sessions were made at once".to_owned()));
        }
        self.sessions
            .values()
            .for_each(|entry| self.listed.insert(entry));
        self.index_requests();
        Ok(())
    }

    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }
}

impl Catalog {
    fn row(&self, place: u32) -> Result<CatalogRow> {
        let gone = || Error::damaged(format!("the catalog has no item {place}"));
        match self.items.get(place as usize).ok_or_else(gone)? {
            Item::Session(id) => {
                let entry = self.sessions.get(id).ok_or_else(gone)?;
                let json = serde_json::to_vec(&entry.session).map_err(|source| {
                    Error::invalid(format!("session {id} has no JSON form: {source}"))
                })?;
                Ok(CatalogRow::Session {
                    created: entry.created,
                    json,
                })
            }
            Item::Instance(id) => {
                let instance = self.instances.get(id).ok_or_else(gone)?;
                Ok(CatalogRow::Instance(instance.clone()))
            }
        }
    }
}

fn session(json: &[u8]) -> Result<Session> {
    read_bytes(json).map_err(|source| wrong(format!("a session can't be read: {source}")))
}

fn wrong(what: impl Into<String>) -> Error {
    Error::damaged(format!("a part of the catalog is wrong: {}", what.into()))
}
