//! The sessions that a policy removes.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use runlog_log::{Sequence, StreamId};
use runlog_model::{
    Deleted, ListSessions, RunId, RunStatus, RunSummary, Session, SessionId, SessionStatus,
};

use super::{RetainProgress, RetainStage, RetentionPolicy};
use crate::{Result, Store};

/// How many sessions are listed at a time.
const PAGE: usize = 1_000;

/// Receives the progress of a retention, and returns whether to continue.
pub(super) type OnProgress<'a> = dyn FnMut(RetainProgress) -> ControlFlow<()> + Send + 'a;

/// What is to be removed.
#[derive(Default)]
pub(super) struct Plan {
    /// The sessions to remove, the newest first: a copy comes before its source.
    pub(super) going: Vec<Seen>,
    /// The newest session that there was at the beginning.
    pub(super) newest: Option<SessionId>,
    pub(super) kept_at_work: u64,
    pub(super) kept_for_copies: u64,
    pub(super) is_cancelled: bool,
}

/// A session as it was when the rules were applied to it. They are for all sessions together, and aren't applied again when
/// it is removed: one that isn't the same any more is kept.
#[derive(PartialEq)]
pub(super) struct Seen {
    /// Without its metadata, which may be large: a change of that changes its time, too.
    session: Session,
    pub(super) streams: Vec<(StreamId, Sequence)>,
    runs: Vec<(RunId, RunStatus)>,
}

impl Seen {
    pub(super) fn id(&self) -> SessionId {
        self.session.id
    }
}

/// A session that the policy applies to.
struct Candidate {
    id: SessionId,
    seen: Seen,
    /// The time of its last activity: milliseconds since 1970-01-01 UTC.
    active_ms: u64,
    /// Its outcome: see [`outcome`].
    status: Option<RunStatus>,
    is_at_work: bool,
    bytes: u64,
}

impl RetentionPolicy {
    fn is_for(&self, session: &Session) -> bool {
        session.deleted_at_ms.is_some() == self.deleted
            && (self.project.is_none() || session.project == self.project)
            && (!self.archived || session.status == SessionStatus::Archived)
    }

    /// Whether it keeps a session that was active at a time or later, whatever the others are. The rules that count sessions or bytes
    /// need all of them, each with its time.
    fn keeps_active_since(&self, active_ms: u64, now_ms: u64) -> bool {
        let counts = self.keep_last.is_some() || self.max_bytes.is_some();
        let age_ms = now_ms.saturating_sub(active_ms);
        !counts && self.older_than_ms.is_some_and(|least| age_ms <= least)
    }
}

impl Store {
    /// What a policy removes.
    pub(super) async fn plan(
        &self,
        policy: &RetentionPolicy,
        progress: &mut OnProgress<'_>,
    ) -> Result<Plan> {
        let mut plan = Plan::default();
        let (mut candidates, mut copies) = (Vec::new(), Vec::new());
        let (mut cursor, mut done) = (None, 0);
        loop {
            let options = ListSessions {
                deleted: Deleted::Shown,
                limit: PAGE,
                cursor,
                ..ListSessions::default()
            };
            let page = self.list_sessions(&options).await?;
            if plan.newest.is_none() {
                plan.newest = page.items.first().map(|session| session.id);
            }
            for session in page.items {
                let state = RetainProgress {
                    stage: RetainStage::Looking,
                    done,
                    total: 0,
                };
                if progress(state).is_break() {
                    plan.is_cancelled = true;
                    return Ok(plan);
                }
                done += 1;
                // A session that was removed before has nothing left.
                let is_deleted = session.deleted_at_ms.is_some();
                let is_asked_for = policy.is_for(&session);
                if is_deleted && (is_asked_for || session.copied_from.is_some()) {
                    let contents = self.contents(session.id).await?;
                    if contents.is_empty() {
                        continue;
                    }
                }
                copies.extend(session.copied_from.map(|source| (session.id, source)));
                if is_asked_for {
                    candidates.extend(self.candidate(policy, &session).await?);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self.decide(policy, candidates, &copies, &mut plan);
        Ok(plan)
    }

    fn decide(
        &self,
        policy: &RetentionPolicy,
        candidates: Vec<Candidate>,
        copies: &[(SessionId, SessionId)],
        plan: &mut Plan,
    ) {
        let now_ms = self.backend().now_ms();
        // A stable sort: of sessions with the same time, the one created last counts as the later.
        let mut by_activity: Vec<&Candidate> = candidates.iter().collect();
        runlog_log::order::sort_by_key(&mut by_activity, |candidate| {
            std::cmp::Reverse(candidate.active_ms)
        });
        let mut unkept = HashSet::new();
        let (mut rank, mut bytes) = (0_u64, 0_u64);
        for candidate in by_activity {
            bytes = bytes.saturating_add(candidate.bytes);
            let age_ms = now_ms.saturating_sub(candidate.active_ms);
            let rules = [
                policy.older_than_ms.is_none_or(|least| age_ms > least),
                policy.keep_last.is_none_or(|most| rank >= most),
                policy.max_bytes.is_none_or(|most| bytes > most),
                policy.statuses.is_empty()
                    || candidate
                        .status
                        .is_some_and(|status| policy.statuses.contains(&status)),
            ];
            if rules.iter().all(|gives_up| *gives_up) {
                unkept.insert(candidate.id);
            }
            rank += 1;
        }
        let mut seen_by: HashMap<SessionId, u64> = HashMap::new();
        for (_, source) in copies {
            *seen_by.entry(*source).or_default() += 1;
        }
        let source_of: HashMap<_, _> = copies.iter().copied().collect();
        // Newest first, so that copies come before their sources.
        for candidate in candidates {
            if !unkept.contains(&candidate.id) {
                continue;
            }
            if candidate.is_at_work {
                plan.kept_at_work += 1;
                continue;
            }
            if seen_by.get(&candidate.id).is_some_and(|count| *count > 0) {
                plan.kept_for_copies += 1;
                continue;
            }
            if let Some(count) = source_of
                .get(&candidate.id)
                .and_then(|source| seen_by.get_mut(source))
            {
                *count -= 1;
            }
            plan.going.push(candidate.seen);
        }
    }

    /// A session that the policy applies to; `None` for one that it surely keeps.
    async fn candidate(
        &self,
        policy: &RetentionPolicy,
        session: &Session,
    ) -> Result<Option<Candidate>> {
        let runs = self.session_runs(session.id).await?;
        // Of most sessions of a store this is known without reading any of their records.
        if policy.keeps_active_since(known_active_ms(session, &runs), self.backend().now_ms()) {
            return Ok(None);
        }
        // Before anything is measured: what is written meanwhile makes it another.
        let seen = self.seen(session, &runs).await?;
        let bytes = if policy.max_bytes.is_some() {
            let contents = self.contents(session.id).await?;
            self.size_of(&contents).await?.bytes
        } else {
            0
        };
        let active_ms = match session.deleted_at_ms {
            Some(at_ms) => at_ms,
            None => self.active_ms(session, &runs).await?,
        };
        Ok(Some(Candidate {
            id: session.id,
            seen,
            active_ms,
            status: outcome(&runs),
            is_at_work: self.is_at_work(session, &runs, &policy.statuses),
            bytes,
        }))
    }

    /// A session as it is now.
    pub(super) async fn seen(&self, session: &Session, runs: &[RunSummary]) -> Result<Seen> {
        Ok(Seen {
            session: Session {
                metadata: None,
                ..session.clone()
            },
            streams: self.session_streams(session.id).await?,
            runs: runs.iter().map(|run| (run.id, run.status)).collect(),
        })
    }

    /// Whether a session was copied since `newest` was the newest one.
    pub(super) async fn is_copied_since(
        &self,
        id: SessionId,
        newest: Option<SessionId>,
    ) -> Result<bool> {
        let options = ListSessions {
            deleted: Deleted::Shown,
            // It is asked for each session that goes; mostly the first one is the newest still.
            limit: 4,
            ..ListSessions::default()
        };
        self.shared
            .catalog
            .read(|catalog| {
                let mut before = None;
                loop {
                    let (page, next) = catalog.list(&options, before);
                    for session in page {
                        if Some(session.id) == newest {
                            return false;
                        }
                        if session.copied_from == Some(id) {
                            return true;
                        }
                    }
                    if next.is_none() {
                        return false;
                    }
                    before = next;
                }
            })
            .await
    }

    /// Whether a session is in use, or is to be resumed.
    pub(super) fn is_at_work(
        &self,
        session: &Session,
        runs: &[RunSummary],
        statuses: &[RunStatus],
    ) -> bool {
        let resumed_runs = resumed_runs(runs);
        let is_run_kept = |run: &RunSummary| match run.status {
            RunStatus::Running => true,
            // Nothing of a deleted session is resumed.
            RunStatus::Paused if session.deleted_at_ms.is_some() => false,
            RunStatus::Paused => {
                !resumed_runs.contains(&run.id) && !statuses.contains(&RunStatus::Paused)
            }
            RunStatus::Completed | RunStatus::Failed | RunStatus::Cancelled => false,
        };
        // Handles of flows don't count: the flow of a run that isn't running takes nothing any more.
        // A request that is gone on with is recorded as running only by what is written of it next.
        runs.iter().any(is_run_kept) || self.claims().of_chat(session.id).is_some()
    }

    /// The time of the last activity in a session that isn't deleted.
    async fn active_ms(&self, session: &Session, runs: &[RunSummary]) -> Result<u64> {
        let mut active_ms = known_active_ms(session, runs);
        for (stream, last) in self.session_streams(session.id).await? {
            active_ms = active_ms.max(self.last_used_ms(stream, last).await?);
        }
        Ok(active_ms)
    }
}

/// The time of the last activity in a session, as far as it is known without reading records: it may have been active later.
fn known_active_ms(session: &Session, runs: &[RunSummary]) -> u64 {
    if let Some(at_ms) = session.deleted_at_ms {
        return at_ms;
    }
    let chat = session.chat.as_ref();
    let last_message_ms = chat.and_then(|chat| chat.last_message_at_ms).unwrap_or(0);
    let ended_ms = |run: &RunSummary| {
        let took_ms = run.duration_ms.unwrap_or(0);
        run.created_at_ms.saturating_add(took_ms)
    };
    let last_run_ms = runs.iter().map(ended_ms).max().unwrap_or(0);
    session.updated_at_ms.max(last_message_ms).max(last_run_ms)
}

/// The runs that were resumed by another: they stay paused for ever.
fn resumed_runs(runs: &[RunSummary]) -> HashSet<RunId> {
    runs.iter().filter_map(|run| run.resumed_from).collect()
}

/// The outcome of a session: the status of its last run that wasn't spawned by another; if all were spawned, of its
/// last run.
fn outcome(runs: &[RunSummary]) -> Option<RunStatus> {
    let resumed_runs = resumed_runs(runs);
    let mut last = runs.iter().filter(|run| !resumed_runs.contains(&run.id));
    let of_its_own = last.clone().find(|run| run.parent_run_id.is_none());
    of_its_own.or_else(|| last.next()).map(|run| run.status)
}
