//! Writing the records of the lists into an archive.

use std::collections::HashSet;

use runlog_log::{Kind, Position, StreamId};
use runlog_model::{RunCatalogEvent, SessionId, kinds};

use super::{
    lines::{Line, encode, line_of},
    lists::{List, ListEvent, Subject, each_record},
    owners::Owners,
};
use crate::{Error, blocking::Store};

/// Writes the records of a list about the chosen sessions, or all of them. Returns how many. Runs and flows whose streams are
/// headless are left out, with the runs that build on them: nothing could be made of them.
pub(super) fn write_list<E: From<Error>>(
    store: &Store,
    list: List,
    bound: Position,
    owners: &Owners,
    chosen: Option<&HashSet<SessionId>>,
    headless: &mut HashSet<StreamId>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let mut count = 0;
    let mut created = HashSet::new();
    let mut before = None;
    each_record(store, list.stream(), bound, |record| {
        let event = list.event_of(before.as_ref(), record)?;
        before = Some(event.subject());
        if let ListEvent::Run(RunCatalogEvent::Created(run)) = &event {
            let relatives = [run.parent_run_id, run.resumed_from];
            if relatives
                .iter()
                .flatten()
                .any(|id| headless.contains(&StreamId(id.as_uuid())))
            {
                headless.insert(StreamId(run.id.as_uuid()));
            }
        }
        match event.subject() {
            Subject::Run(id) | Subject::Flow(id) if headless.contains(&StreamId(id.as_uuid())) => {
                return Ok(());
            }
            Subject::Run(id) if matches!(event, ListEvent::Run(RunCatalogEvent::Created(_))) => {
                created.insert(id);
            }
            // Its creation is lost; a repair has listed it again, as it is by now, further on.
            Subject::Run(id) if !created.contains(&id) => return Ok(()),
            _ => {}
        }
        let session = match event.subject() {
            Subject::Session(id) => Some(id),
            Subject::Run(id) | Subject::Flow(id) => {
                owners.runs.get(&id).map(|(session, _)| *session)
            }
            Subject::Agent(..) | Subject::Lost(_) => None,
        };
        let is_lost = matches!(event, ListEvent::Lost(_));
        if is_lost
            || chosen.is_none_or(|chosen| session.is_some_and(|session| chosen.contains(&session)))
        {
            count += 1;
            let mut line = line_of(list.stream(), record);
            if is_lost {
                (line.kind, line.redacted) = (Kind(kinds::LISTED_EVENT_LOST), false);
            }
            line.redacted |= matches!(event, ListEvent::Erased(_));
            write(&encode(&Line::Record(line), Some(event.what())))?;
        }
        Ok::<(), E>(())
    })?;
    Ok(count)
}
