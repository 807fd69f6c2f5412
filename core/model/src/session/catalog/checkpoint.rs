//! The catalog's checkpoint: sessions and instances are items, in the order of their creation.

use bincode::{Decode, Encode};

use super::{Catalog, CatalogEvent, Item};
use crate::{
    AgentInstance, Error, RawJson, Result, Session, SessionId, SessionStatus,
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
    Session(SessionRow),
    Instance {
        /// The number of its session: its rank in the order of creation.
        session: u32,
        instance: AgentInstance,
    },
}

/// A session of a [`CatalogPart`]: read without looking at text, unless it is a chat or has metadata.
#[derive(Encode, Decode)]
struct SessionRow {
    /// The sequence of its creation in the catalog.
    created: u64,
    id: SessionId,
    name: Option<String>,
    project: Option<String>,
    title: Option<String>,
    is_archived: bool,
    /// JSON, as its source gave it.
    metadata: Option<String>,
    copied_from: Option<SessionId>,
    created_at_ms: u64,
    updated_at_ms: u64,
    deleted_at_ms: Option<u64>,
    /// What it has as a chat, as JSON: a newer build's fields stay in it.
    chat: Option<Vec<u8>>,
}

impl Checkpointed for Catalog {
    type Event = CatalogEvent;

    const PART: u8 = crate::kinds::CATALOG_PART;

    const EVENT: &'static str = "catalog event";

    const ERASABLE: Option<u8> = Some(crate::kinds::SESSION_DESCRIBED);

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

    /// It may have been that messages of a chat were reordered.
    fn lost_one(&mut self) {
        for number in 0..self.sessions.next_place().unwrap_or(u32::MAX) {
            let entry = self.sessions.get_mut(number);
            if let Some(chat) = entry.and_then(|entry| entry.session.chat.as_mut()) {
                chat.reordered = true;
            }
        }
    }

    fn items(&self) -> usize {
        self.items.len()
    }

    fn item_bytes(&self, place: u32) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        match self.items.get(place as usize) {
            Some(Item::Session(number)) => self.sessions.get(*number).map_or(ROW_BYTES, |entry| {
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
                CatalogRow::Session(row) => {
                    self.check_order(row.created)?;
                    self.push_session(row.created, row.session()?)
                }
                CatalogRow::Instance { session, instance } => {
                    let id = self.sessions.get(session).map(|entry| entry.session.id);
                    if id != Some(instance.session_id) {
                        let session = instance.session_id;
                        return Err(wrong(format!(
                            "an instance is of another session, {session}"
                        )));
                    }
                    self.push_instance(&instance, session)
                }
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
            let (Some(Item::Session(number)), CatalogRow::Session(row)) =
                (self.items.get(place as usize).copied(), row)
            else {
                return Err(wrong(format!(
                    "item {place} is no session, and can't change"
                )));
            };
            // Nothing changes a session's project, nor what it is a copy of: the indexes of these stay.
            let is_it = |session: &Session, created| {
                let (own, others) = (
                    (session.id, &session.project, session.copied_from),
                    (row.id, &row.project, row.copied_from),
                );
                own == others && created == row.created
            };
            match self.sessions.get_mut(number) {
                Some(entry) if is_it(&entry.session, entry.created) => {
                    entry.session = row.session()?;
                }
                _ => return Err(wrong(format!("item {place} is another session"))),
            }
        }
        Ok(())
    }

    fn restored(&mut self) -> Result<()> {
        // All at once, which takes half as long as one with each session.
        let Self {
            sessions, by_id, ..
        } = self;
        by_id.reserve(sessions.len());
        for (entry, number) in sessions.iter().zip(0..) {
            let id = entry.session.id;
            let is_it = |other| sessions.get(other).is_some_and(|it| it.session.id == id);
            let added = by_id.insert_new(id.0.as_u128(), number, is_it);
            added.map_err(|_| wrong(format!("session {id} is there twice")))?;
        }
        let twice = |id| wrong(format!("instance {id} is there twice"));
        self.instances.index().map_err(twice)?;
        // Only now: a name may have gone from a session that was deleted to another.
        for number in (0..).take(self.sessions.len()) {
            let session = self.sessions.get(number).map(|entry| &entry.session);
            let is_live = |session: &&Session| session.deleted_at_ms.is_none();
            let name = session
                .filter(is_live)
                .and_then(|session| session.name.as_deref());
            self.check_name(name).map_err(wrong)?;
            self.add_to_indexes(number);
        }
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
            Item::Session(number) => {
                let entry = self.sessions.get(*number).ok_or_else(gone)?;
                let row = SessionRow::of(&entry.session, entry.created)?;
                Ok(CatalogRow::Session(row))
            }
            Item::Instance(number) => Ok(CatalogRow::Instance {
                session: self.instances.session_of(*number).ok_or_else(gone)?,
                instance: self.instance_at(*number).ok_or_else(gone)?,
            }),
        }
    }

    /// Sessions are found by where they were made, which ascends with their numbers.
    fn check_order(&self, created: u64) -> Result<()> {
        if self.number_made_from(created) as usize == self.sessions.len() {
            return Ok(());
        }
        Err(wrong(format!(
            "a session was made at {created}, after one that was made later"
        )))
    }
}

impl SessionRow {
    fn of(session: &Session, created: u64) -> Result<Self> {
        let chat = session.chat.as_ref().map(serde_json::to_vec).transpose();
        let chat = chat.map_err(|source| {
            let id = session.id;
            Error::invalid(format!("session {id} has no JSON form: {source}"))
        })?;
        Ok(Self {
            created,
            id: session.id,
            name: session.name.clone(),
            project: session.project.clone(),
            title: session.title.clone(),
            is_archived: session.status == SessionStatus::Archived,
            metadata: session.metadata.as_ref().map(|it| it.as_str().to_owned()),
            copied_from: session.copied_from,
            created_at_ms: session.created_at_ms,
            updated_at_ms: session.updated_at_ms,
            deleted_at_ms: session.deleted_at_ms,
            chat,
        })
    }

    fn session(self) -> Result<Session> {
        let unreadable = |source| wrong(format!("a session can't be read: {source}"));
        let metadata = self.metadata.map(|json| RawJson::from_stored(json.into()));
        let chat = self.chat.map(|json| read_bytes(&json)).transpose();
        Ok(Session {
            id: self.id,
            name: self.name,
            project: self.project,
            title: self.title,
            status: if self.is_archived {
                SessionStatus::Archived
            } else {
                SessionStatus::Active
            },
            metadata: metadata.transpose()?,
            copied_from: self.copied_from,
            created_at_ms: self.created_at_ms,
            updated_at_ms: self.updated_at_ms,
            deleted_at_ms: self.deleted_at_ms,
            chat: chat.map_err(unreadable)?,
        })
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::damaged(format!("a part of the catalog is wrong: {}", what.into()))
}
