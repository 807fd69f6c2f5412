//! Retention: removing the sessions that a policy doesn't keep, and erasing content that must not be stored.
//!
//! A session is removed as a whole: the contexts of its instances, its chat, the asides of imported contexts, and the
//! flows of its runs. A context is one conversation that its runs continue, so a single run can't be removed from the
//! middle of it. The session's runs stay listed with their outcomes, and its title and metadata are kept.

mod deltas;
mod dismissed;
mod erase;
mod erased_content;
mod erased_requests;
mod give_up;
mod plan;
mod retain;
mod size;

pub use erase::{Erase, Erased};

use runlog_log::Compaction;
use runlog_model::{RunStatus, SessionId};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Which sessions are given up. A session goes when **every** rule that is given says so: what one of them keeps, stays.
/// To have each of several limits for itself, ask once for each.
///
/// Never given up are sessions with a run at work or paused, or with a request that somebody in this process is at work on,
/// and those that a copy was made of which isn't given up itself.
///
/// ```
/// use runlog::{NewSession, blocking::Store, retention::RetentionPolicy};
///
/// let store = Store::in_memory();
/// for title in ["first", "second", "third"] {
///     store.start_session(NewSession::titled(title), "planner")?;
/// }
/// let policy = RetentionPolicy { keep_last: Some(2), dry_run: true, ..RetentionPolicy::default() };
/// assert_eq!(store.retain(&policy)?.sessions, 1);
/// assert!(store.retain(&RetentionPolicy::default()).is_err(), "a policy without a rule is refused");
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, said by its name"
)]
pub struct RetentionPolicy {
    /// Rule: nothing has happened in the session for so many milliseconds; for a deleted one, since it was deleted. 0 is refused
    /// where nothing else restricts the policy.
    pub older_than_ms: Option<u64>,
    /// Rule: so many sessions had something happen in them later. They are counted among those the policy is for.
    pub keep_last: Option<u64>,
    /// Rule: the session and those that had something happen in them later are more than so many bytes together: payloads,
    /// metadata and headers, before any compression.
    pub max_bytes: Option<u64>,
    /// Rule: the last run of the session that no other spawned has one of these statuses. With [`RunStatus::Paused`], paused
    /// runs don't keep their sessions. [`RunStatus::Running`] is refused.
    pub statuses: Vec<RunStatus>,
    /// Rule, and what the policy is for: sessions that were deleted, instead of those that weren't.
    pub deleted: bool,
    /// A policy of its own, which goes with no other rule and gives up no session: the streaming deltas of flows, once their
    /// whole text has stood for so many milliseconds, in an `agent:text`, `agent:thinking` or `agent:complete` of the same
    /// node and run. Deltas of which no event has the whole text, as those of an agent that was killed, are its only text
    /// and stay.
    pub deltas_older_than_ms: Option<u64>,
    /// The policy is for sessions of this project; `None` is all.
    pub project: Option<String>,
    /// The policy is for sessions that were archived, no others.
    pub archived: bool,
    /// Only say what would be given up, and how much.
    pub dry_run: bool,
    /// Compact the store then, so that the disk space is given back at once. A dry run doesn't.
    pub compact: bool,
}

/// What was given up, or would be.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Retained {
    /// How many sessions.
    pub sessions: u64,
    /// Their ids, the one made last first; at most 1,000 of them.
    pub session_ids: Vec<SessionId>,
    /// How many runs they had.
    pub runs: u64,
    /// How many records.
    pub records: u64,
    /// How many bytes these have: payloads, metadata and headers, before any compression. What a context elsewhere was copied
    /// from is among them, and stays until that is given up, too.
    pub bytes: u64,
    /// How many of these records are streaming deltas that were dropped while their flow stays. Their bytes are payloads and
    /// metadata; the headers stay.
    pub deltas: u64,
    /// How many streaming deltas are old enough to be dropped and stay, because no event has their whole text.
    pub deltas_kept: u64,
    /// How many sessions the rules don't keep stay because something is at work in them, or paused.
    pub kept_at_work: u64,
    /// How many because a copy of them sees what they have.
    pub kept_for_copies: u64,
    /// How many because they were written to, changed or copied after the rules were applied, or sessions were made or changed
    /// each time that it was tried. Always 0 in a dry run.
    pub kept_changed: u64,
    /// Whether it ended because it was told to, with some of its work left.
    pub is_cancelled: bool,
    /// What the compaction did, where one was asked for.
    pub compaction: Option<Compaction>,
}

/// How far a retention has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RetainProgress {
    /// What is being done.
    pub stage: RetainStage,
    /// So much of it is done: sessions, flows, or bytes of a compaction; …
    pub done: u64,
    /// … of so much; 0 where nobody knows yet.
    pub total: u64,
}

/// What a retention is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetainStage {
    /// Looking through the sessions.
    #[default]
    Looking,
    /// Reading flows and dropping their deltas.
    DroppingDeltas,
    /// Measuring those that go and giving them up.
    GivingUp,
    /// Compacting the store.
    Compacting,
}

/// The most ids that a [`Retained`] has.
pub const RETAINED_IDS_MAX: usize = 1_000;

impl RetentionPolicy {
    /// An error for a policy that would remove everything, or selects nothing.
    fn check(&self) -> Result<()> {
        if self.deltas_older_than_ms.is_some() {
            return self.check_deltas();
        }
        let rules = [
            self.older_than_ms.is_some(),
            self.keep_last.is_some(),
            self.max_bytes.is_some(),
            !self.statuses.is_empty(),
            self.deleted,
        ];
        if !rules.contains(&true) {
            return Err(Error::invalid(
                "the retention policy has no rule, so that it would give up everything; give `older_than_ms`, `keep_last`, \
                 `max_bytes`, `statuses` or `deleted`, several where each has to say so, or `deltas_older_than_ms` by itself",
            ));
        }
        for (name, value) in [("keep_last", self.keep_last), ("max_bytes", self.max_bytes)] {
            if value == Some(0) {
                return Err(Error::invalid(format!(
                    "`{name}` of the retention policy is 0, so that this rule keeps nothing; give at least 1, or leave it out"
                )));
            }
        }
        // Every rule has to agree, so that any other keeps something beside an age of 0.
        let age_alone = Self {
            older_than_ms: Some(0),
            dry_run: self.dry_run,
            compact: self.compact,
            ..Self::default()
        };
        if *self == age_alone {
            return Err(Error::invalid(
                "`older_than_ms` of the retention policy is 0 and nothing else restricts it, so that it would keep nothing; give \
                 at least 1, or another rule",
            ));
        }
        if self.statuses.contains(&RunStatus::Running) {
            return Err(Error::invalid(
                "a run that is at work can't be given up, so that `statuses` of a retention policy may not name `running`; cancel the run first, and name how it \
                 ended: `paused`, `completed`, `failed` or `cancelled`",
            ));
        }
        Ok(())
    }

    /// An error for fields that the policy for deltas doesn't support.
    fn check_deltas(&self) -> Result<()> {
        let alone = Self {
            deltas_older_than_ms: self.deltas_older_than_ms,
            dry_run: self.dry_run,
            compact: self.compact,
            ..Self::default()
        };
        if *self != alone {
            return Err(Error::invalid(
                "`deltas_older_than_ms` goes with `dry_run` and `compact` alone: deltas have a policy of their own; give `older_than_ms`, \
                 `keep_last`, `max_bytes`, `statuses`, `deleted`, `project` and `archived` to another call",
            ));
        }
        if self.deltas_older_than_ms == Some(0) {
            return Err(Error::invalid(
                "`deltas_older_than_ms` is 0, so that those were dropped which somebody follows now; give at least 1",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(policy: &RetentionPolicy) -> String {
        policy.check().unwrap_err().to_string()
    }

    #[test]
    fn a_policy_that_is_refused_names_the_options() {
        let policy = RetentionPolicy::default;
        let none = refused(&policy());
        for option in [
            "`older_than_ms`",
            "`keep_last`",
            "`max_bytes`",
            "`statuses`",
            "`deleted`",
            "`deltas_older_than_ms`",
        ] {
            assert!(none.contains(option), "{option}: {none}");
        }
        let running = vec![RunStatus::Running];
        let (zero, some) = (Some(0), Some(1));
        #[rustfmt::skip]
        let wrong = [
            ("`older_than_ms`", RetentionPolicy { older_than_ms: zero, ..policy() }),
            ("`keep_last`", RetentionPolicy { keep_last: zero, ..policy() }),
            ("`max_bytes`", RetentionPolicy { max_bytes: zero, ..policy() }),
            ("`statuses`", RetentionPolicy { statuses: running, ..policy() }),
            ("`deltas_older_than_ms`", RetentionPolicy { deltas_older_than_ms: zero, ..policy() }),
            ("`deltas_older_than_ms`", RetentionPolicy { deltas_older_than_ms: some, keep_last: some, ..policy() }),
        ];
        for (option, policy) in wrong {
            let message = refused(&policy);
            assert!(message.contains(option), "{option}: {message}");
        }
    }
}
