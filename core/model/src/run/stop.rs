//! [`StopKind`]: the cause that stopped a run; [`Stop`]: the cause with a reason in words.

use serde::{Deserialize, Serialize};

use crate::named::named;

/// The reasons for a pause that Runlog itself gives; any other text is the caller's.
pub mod pause_reason {
    /// The agent or a caller requested it.
    pub const REQUESTED: &str = "requested";
    /// The steps of this resume are used up.
    pub const STEP_BUDGET: &str = "step budget spent";
    /// Its timeout was reached.
    pub const TIMEOUT: &str = "timeout";
    /// The run that spawned it was paused while it was running.
    pub const PARENT: &str = "the run that spawned it was paused";
    /// The process that ran it has ended.
    pub const ORPHANED: &str =
        "orphaned: the process that ran it ended without saying how the run did";
}

/// What stopped a run that is paused or cancelled, for programs to tell apart; the reason beside it is for people.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// Its agent, or a caller, asked for it.
    Requested,
    /// Its timeout was reached.
    Timeout,
    /// Its steps are used up.
    Budget,
    /// It was cancelled.
    Cancelled,
    /// The run that spawned it was paused, was cancelled or ended while it was running.
    Parent,
    /// The process that ran it ended without recording the run's end.
    Orphaned,
    /// The process that ran it was shut down, or its client disconnected.
    Shutdown,
}

named! {
    StopKind: "kind of stop" {
        Requested = "requested",
        Timeout = "timeout",
        Budget = "budget",
        Cancelled = "cancelled",
        Parent = "parent",
        Orphaned = "orphaned",
        Shutdown = "shutdown",
    }
}

/// Why a run is paused. A text alone means that a caller requested it; the other kinds are set by the component that
/// stops the run.
///
/// ```
/// use runlog_model::{Stop, StopKind};
///
/// assert_eq!(Stop::from("lunch").kind, StopKind::Requested);
/// assert_eq!(Stop::from(StopKind::Timeout).reason, "timeout");
/// assert_eq!(Stop::new(StopKind::Shutdown, "SIGTERM").reason, "SIGTERM");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stop {
    /// The cause.
    pub kind: StopKind,
    /// Why, in words.
    pub reason: String,
}

impl Stop {
    /// A stop of this kind, with its reason in words.
    pub fn new(kind: StopKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
        }
    }
}

/// In Runlog's own words.
impl From<StopKind> for Stop {
    fn from(kind: StopKind) -> Self {
        let reason = match kind {
            StopKind::Requested => pause_reason::REQUESTED,
            StopKind::Timeout => pause_reason::TIMEOUT,
            StopKind::Budget => pause_reason::STEP_BUDGET,
            StopKind::Cancelled => "cancelled",
            StopKind::Parent => pause_reason::PARENT,
            StopKind::Orphaned => pause_reason::ORPHANED,
            StopKind::Shutdown => "the process that ran it was told to end",
        };
        Self::new(kind, reason)
    }
}

impl From<String> for Stop {
    fn from(reason: String) -> Self {
        Self::new(StopKind::Requested, reason)
    }
}

impl From<&String> for Stop {
    fn from(reason: &String) -> Self {
        Self::from(reason.clone())
    }
}

impl From<&str> for Stop {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}
