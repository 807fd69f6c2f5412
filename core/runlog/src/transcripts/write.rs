//! Writing a transcript: [`EntryBatch`]es, each of them atomic.
//!
//! A session that fits into one batch is created by it, with its instances, its entries and its aside, so that no crash
//! leaves a part of it. A longer one takes several batches, and a crash may come between them. So the first batch
//! writes a mark to a stream of the session that an import has begun, and the last one that it is done. The next import
//! of the session finds the mark, and completes the session.

use runlog_log::{Batch, Direction, Kind, NewRecord, ReadOptions, StreamId};
use runlog_model::{
    AgentInstance, Catalog, CatalogEvent, SessionChanges, SessionId, SessionStatus,
};
use uuid::Uuid;

use super::{about::ImportMark, keep::EntryBatch};
use crate::{
    Error, ErrorKind, Result, Store,
    kernel::{
        catalog::Change,
        lookup::{check_free, check_id, check_unused, live_session},
        new_session::NewSession,
        records::append,
    },
};

/// The stream of a session's marks: its id is the session's with these bytes mixed in.
const MARKS: [u8; 16] = *b"runlog:import:01";

impl ImportMark {
    const ALL: [Self; 3] = [Self::Creating, Self::Adding, Self::Done];

    const fn name(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Adding => "adding",
            Self::Done => "done",
        }
    }
}

/// What [`Store::write_entries`] does in addition to writing the entries.
impl EntryBatch {
    /// Makes the batch create its session, with the batch's session id.
    pub fn create_session(&mut self, new: NewSession) {
        self.about.new_session = Some(NewSession {
            id: Some(self.session),
            ..new
        });
    }

    /// Makes the batch create an instance of its session. Parents must be added before their children.
    pub fn create_instance(&mut self, instance: AgentInstance) {
        self.about.new_instances.push(AgentInstance {
            session_id: self.session,
            ..instance
        });
    }

    /// Makes the batch archive its session.
    pub fn archive_session(&mut self) {
        self.about.is_archived = true;
    }

    /// Makes the batch record the progress of its session's import.
    pub fn mark(&mut self, mark: ImportMark) {
        self.about.mark = Some(mark);
    }
}

impl Store {
    /// Writes a batch of entries, with the session and the instances that it creates, atomically. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the session or the parent of an instance doesn't exist,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when an id or the session's name is taken,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn write_entries(&self, batch: &EntryBatch) -> Result<()> {
        let about = &batch.about;
        let mut ops = batch.batch().ops;
        if let Some(mark) = about.mark {
            let record = NewRecord {
                labels: &[],
                kind: Kind::DATA,
                meta: mark.name().as_bytes(),
                payload: &[],
            };
            ops.push(append(marks_of(batch.session), vec![record]));
        }
        let new_session = about.new_session.as_ref().map(|new| self.session_from(new));
        new_session
            .as_ref()
            .map_or(Ok(()), runlog_model::Session::check)?;
        about
            .new_instances
            .iter()
            .try_for_each(AgentInstance::check)?;
        let new_ids = new_session
            .iter()
            .map(|it| it.id.0)
            .chain(about.new_instances.iter().map(|it| it.id.0));
        for id in new_ids {
            check_unused(&**self.backend(), Some(id)).await?;
        }
        let at_ms = self.backend().now_ms();
        let changes = SessionChanges {
            status: Some(SessionStatus::Archived),
            ..SessionChanges::default()
        };
        let archived = about.is_archived.then(|| CatalogEvent::SessionUpdated {
            id: batch.session,
            at_ms,
            changes,
        });
        if new_session.is_none() && about.new_instances.is_empty() && archived.is_none() {
            self.shared.catalog.check_live(batch.session).await?;
            return self.backend().commit(Batch::new(ops)).await.map(drop);
        }
        self.shared
            .catalog
            .change(|catalog| {
                match &new_session {
                    Some(session) => check_free(catalog, session)?,
                    None => live_session(catalog, batch.session).map(drop)?,
                }
                check_instances(catalog, &about.new_instances)?;
                let session = new_session
                    .iter()
                    .cloned()
                    .map(CatalogEvent::SessionCreated);
                let instances = about
                    .new_instances
                    .iter()
                    .cloned()
                    .map(CatalogEvent::InstanceCreated);
                let events = session.chain(instances).chain(archived.clone()).collect();
                Ok((
                    Change {
                        events,
                        ops: ops.clone(),
                        ..Change::default()
                    },
                    (),
                ))
            })
            .await
    }

    /// The progress of an import of this session in several batches; `None` if one batch sufficed, or the session
    /// wasn't imported.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn import_mark(&self, session: SessionId) -> Result<Option<ImportMark>> {
        let newest = ReadOptions {
            direction: Direction::Backward,
            limit: 1,
            ..ReadOptions::default()
        };
        match self.backend().read(marks_of(session), newest).await {
            Ok(page) => Ok(page.records.first().and_then(|record| {
                ImportMark::ALL
                    .into_iter()
                    .find(|mark| mark.name().as_bytes() == &record.meta[..])
            })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a new session or instance may have this id: nothing has it, nor had it before a deletion.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn is_id_free(&self, id: Uuid) -> Result<bool> {
        if self
            .shared
            .catalog
            .read(|catalog| check_id(catalog, id).is_err())
            .await?
        {
            return Ok(false);
        }
        match check_unused(&**self.backend(), Some(id)).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Checks that new instances have ids of their own, and parents in their session.
fn check_instances(catalog: &Catalog, new: &[AgentInstance]) -> Result<()> {
    for (place, instance) in new.iter().enumerate() {
        check_id(catalog, instance.id.0)?;
        let before = new.get(..place).unwrap_or_default();
        if before.iter().any(|it| it.id == instance.id) {
            let message = format!("the batch makes the agent instance {} twice", instance.id);
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let Some(parent) = instance.parent_instance_id else {
            continue;
        };
        let found = before
            .iter()
            .find(|it| it.id == parent)
            .map(|it| it.session_id)
            .or_else(|| Some(catalog.instance(parent)?.session_id));
        if found != Some(instance.session_id) {
            return Err(Error::not_found(format!(
                "session {} has no agent instance {parent} to be the parent; make it first",
                instance.session_id
            )));
        }
    }
    Ok(())
}

/// The stream of a session's marks.
pub(crate) fn marks_of(session: SessionId) -> StreamId {
    super::keep::derived_stream(session, MARKS)
}
