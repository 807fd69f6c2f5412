//! The requests of chats that are erased, as copies went on with them.

use std::collections::{BTreeSet, HashSet};

use runlog_log::{Position, Record};
use runlog_model::{ChatEvent, ChatFold, SessionId, kinds};

use crate::{Result, Store};

/// The requests of which copies have what is erased of them.
#[derive(Default)]
pub(super) struct ErasedRequests {
    /// The steps with which copies went on: each has the space of the request, which the copy took over.
    pub(super) steps: Vec<Position>,
    /// The requests, as the copies have them.
    pub(super) of_copies: HashSet<(SessionId, String)>,
}

impl Store {
    /// What copies made of requests whose steps are among the records at these positions, which are about to be erased.
    pub(super) async fn requests_of_erased(
        &self,
        copies: &BTreeSet<SessionId>,
        erased: &BTreeSet<u64>,
    ) -> Result<ErasedRequests> {
        let mut found = ErasedRequests::default();
        for id in copies {
            let Some(shared) = self.fold_of_copy(*id).await? else {
                continue;
            };
            let (requests, mut steps) = requests_with_steps_at(&shared.read(), erased);
            if requests.is_empty() {
                continue;
            }
            let of_steps = [
                kinds::STEP_SAVED,
                kinds::STEP_DIFF_SAVED,
                kinds::STEP_UPDATED,
            ];
            let own = self
                .own_of_copy(*id, &of_steps, &mut |record| {
                    is_of(record, &requests, &mut steps)
                })
                .await?;
            found.steps.extend(own);
            let requests = requests.into_iter();
            found
                .of_copies
                .extend(requests.map(|request| (*id, request)));
        }
        Ok(found)
    }
}

/// The requests of a chat that were begun, or have a step that was saved, at one of these positions, and all steps of theirs.
fn requests_with_steps_at(
    fold: &ChatFold,
    positions: &BTreeSet<u64>,
) -> (HashSet<String>, HashSet<String>) {
    let at = fold.steps_after(0).filter(|(at, _)| positions.contains(at));
    let mut requests: HashSet<String> = at.map(|(_, step)| step.request_id.clone()).collect();
    // Its steps may have been erased before, by their positions.
    let begun = fold.requests_begun_at(|at| positions.contains(&at));
    requests.extend(begun.into_iter().map(str::to_owned));
    let steps = requests.iter().flat_map(|id| fold.steps_of_request(id));
    let steps = steps.map(|step| step.step_id.clone()).collect();
    (requests, steps)
}

/// Whether a record saves or changes a step of these requests; their steps are given, and those found are added.
fn is_of(record: &Record, requests: &HashSet<String>, steps: &mut HashSet<String>) -> Result<bool> {
    let event = ChatEvent::decode(record.kind.0, &record.meta, &record.payload)?;
    if let ChatEvent::StepUpdated { step_id, .. } = &event {
        return Ok(steps.contains(step_id.as_str()));
    }
    let step = event.saved_step();
    let of_them = step.filter(|step| requests.contains(&step.request_id));
    steps.extend(of_them.map(|step| step.step_id.clone()));
    Ok(of_them.is_some())
}
