//! [`Owners`]: the session that each stream of a store belongs to.

use std::collections::{HashMap, HashSet};

use pollster::block_on;
use runlog_log::{Position, Sequence, StreamId};
use runlog_model::{CatalogEvent, RunCatalogEvent, RunId, SessionId};

use super::{
    lines::LostLine,
    lists::{List, ListEvent, Subject, each_record, each_record_from, is_derived, streams_of},
};
use crate::{Error, ErrorKind, Result, blocking::Store};

/// A stream to write.
pub(super) struct Planned {
    pub(super) id: StreamId,
    pub(super) of: &'static str,
    pub(super) session: Option<SessionId>,
    /// The position at which its session was created.
    pub(super) made_at: u64,
    /// The stream of the archive that it shares its first records with, and how many.
    pub(super) fork: Option<(StreamId, u64)>,
    /// The last sequence at which its records belong to another stream.
    pub(super) inherited: u64,
    pub(super) last: u64,
    pub(super) is_written: bool,
    /// The last sequence that was written, shared records included.
    pub(super) written: u64,
    /// What of it can't be read, and hasn't been written yet.
    pub(super) lost: Vec<LostLine>,
}

/// The owners of the streams, from the lists.
#[derive(Default)]
pub(super) struct Owners {
    /// The sessions in the order of their creation, with the position of its record.
    pub(super) sessions: Vec<(SessionId, u64)>,
    pub(super) instances: HashMap<StreamId, SessionId>,
    pub(super) of_session: HashMap<SessionId, Vec<StreamId>>,
    pub(super) runs: HashMap<RunId, (SessionId, [Option<RunId>; 2])>,
}

impl Owners {
    pub(super) fn read(store: &Store, bound: Position) -> Result<Self> {
        let mut owners = Self::default();
        let mut made = HashSet::new();
        for list in List::ALL {
            let mut before = None;
            each_record(store, list.stream(), bound, |record| {
                let event = list.event_of(before.as_ref(), record)?;
                before = Some(event.subject());
                // The first event of a session is its creation, unless that is lost.
                if let ListEvent::Session(event) = &event
                    && let Subject::Session(id) = ListEvent::Session(event.clone()).subject()
                    && made.insert(id)
                {
                    owners.sessions.push((id, record.position.0));
                }
                match event {
                    ListEvent::Session(CatalogEvent::InstanceCreated(instance)) => {
                        let stream = StreamId(instance.id.as_uuid());
                        owners.instances.insert(stream, instance.session_id);
                        owners
                            .of_session
                            .entry(instance.session_id)
                            .or_default()
                            .push(stream);
                    }
                    ListEvent::Run(RunCatalogEvent::Created(run)) => {
                        let relatives = [run.parent_run_id, run.resumed_from];
                        owners.runs.insert(run.id, (run.session_id, relatives));
                        owners
                            .of_session
                            .entry(run.session_id)
                            .or_default()
                            .push(StreamId(run.id.as_uuid()));
                    }
                    _ => {}
                }
                Ok::<(), Error>(())
            })?;
        }
        Ok(owners)
    }

    /// The sessions, and those of the runs that spawned their runs or were resumed by them: a run can't be listed
    /// without these.
    pub(super) fn with_relatives(&self, sessions: &[SessionId]) -> Result<Vec<SessionId>> {
        let mut chosen = Vec::new();
        let mut known = HashSet::new();
        for id in sessions {
            if !self.sessions.iter().any(|(session, _)| session == id) {
                return Err(Error::not_found(format!("no session {id}")));
            }
            if known.insert(*id) {
                chosen.push(*id);
            }
        }
        let mut next = 0;
        while let Some(id) = chosen.get(next).copied() {
            next += 1;
            for stream in self.of_session.get(&id).into_iter().flatten() {
                let Some((_, relatives)) = self.runs.get(&RunId(stream.0)) else {
                    continue;
                };
                for run in relatives.iter().flatten() {
                    let session = self.runs.get(run).map(|(session, _)| *session);
                    chosen.extend(session.filter(|session| known.insert(*session)));
                }
            }
        }
        Ok(chosen)
    }

    /// An error if a session of the archive was given up by a retention since: it is listed as it was, and its streams may
    /// have been empty when they were read.
    pub(super) fn check_kept(
        &self,
        store: &Store,
        bound: Position,
        is_chosen: impl Fn(SessionId) -> bool,
    ) -> Result<()> {
        let sessions = List::Sessions.stream();
        let Some(info) = block_on(store.backend().stream(sessions))? else {
            return Ok(());
        };
        let later = store
            .as_async()
            .last_before(sessions, info.last_sequence, bound.next().0);
        let first = block_on(later)?.map_or(1, |record| record.sequence.0 + 1);
        each_record_from(
            store,
            sessions,
            Sequence(first),
            Position(u64::MAX),
            |record| {
                let ListEvent::Session(CatalogEvent::SessionDeleted { id, .. }) =
                    List::Sessions.event_of(None, record)?
                else {
                    return Ok(());
                };
                // One that was only deleted still has its contents.
                if !is_chosen(id) || !self.is_emptied(store, id)? {
                    return Ok(());
                }
                let what = format!("session {id} was given up meanwhile; export again");
                Err(Error::new(ErrorKind::Conflict, what))
            },
        )
    }

    /// Whether a stream of a session had records and has none.
    fn is_emptied(&self, store: &Store, id: SessionId) -> Result<bool> {
        let own = StreamId(id.as_uuid());
        for stream in self.of_session.get(&id).into_iter().flatten().chain([&own]) {
            let info = block_on(store.backend().stream(*stream))?;
            if info.is_some_and(|info| info.last_sequence == Sequence::ZERO && info.appended > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The streams to write, with their content types.
    pub(super) fn streams(&self, all: &[StreamId], chosen: Option<&[SessionId]>) -> Vec<Planned> {
        let made_at: HashMap<SessionId, u64> = self.sessions.iter().copied().collect();
        let own: HashMap<StreamId, (SessionId, &'static str)> = made_at
            .keys()
            .flat_map(|id| streams_of(*id).map(|(stream, of)| (stream, (*id, of))))
            .collect();
        let planned = |stream: StreamId| {
            let (session, of) = if let Some((session, of)) = own.get(&stream) {
                (Some(*session), *of)
            } else if let Some(session) = self.instances.get(&stream) {
                (Some(*session), "context")
            } else if let Some((session, _)) = self.runs.get(&RunId(stream.0)) {
                (Some(*session), "run")
            } else {
                (None, "stream")
            };
            let made_at = session
                .and_then(|session| made_at.get(&session))
                .copied()
                .unwrap_or_default();
            Planned {
                id: stream,
                of,
                session,
                made_at,
                fork: None,
                inherited: 0,
                last: 0,
                is_written: false,
                written: 0,
                lost: Vec::new(),
            }
        };
        let is_data =
            |stream: &StreamId| List::of_stream(*stream).is_none() && !is_derived(*stream);
        match chosen {
            None => all.iter().copied().filter(is_data).map(planned).collect(),
            Some(chosen) => chosen
                .iter()
                .flat_map(|id| {
                    let own = self.of_session.get(id).into_iter().flatten().copied();
                    streams_of(*id)
                        .map(|(stream, _)| stream)
                        .into_iter()
                        .chain(own)
                })
                .map(planned)
                .collect(),
        }
    }
}
