//! [`WriterRequest`]: what the process that writes is asked for, and the clock by which it is valid.

use std::time::Duration;

use runlog_engine::{Host, SystemHost};
use runlog_model::{RawJson, RunId, Stop, StopKind};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// How long one request is posted; whoever waits longer posts another one then.
pub(super) const TURN_MAX: Duration = Duration::from_secs(10);
/// How much longer it is valid, so that it is still valid when it is withdrawn.
pub(super) const VALID_BEYOND: Duration = Duration::from_secs(2);
/// From this age on a request isn't valid.
pub(super) const VALID_MAX: Duration = TURN_MAX.saturating_add(VALID_BEYOND);
/// How long a request that the writer has claimed may take: a run that is cancelled has time to record what it has.
pub(super) const EXECUTION_MAX: Duration = Duration::from_secs(60);
/// From this age on nobody waits for the answer to a request any more, however long it took to write it.
pub(super) const WAITED_MAX: Duration = TURN_MAX
    .saturating_add(EXECUTION_MAX)
    .saturating_add(Duration::from_secs(20));

/// What the process that writes is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct WriterRequest {
    pub(crate) call: WriterCall,
    /// The run that it is about.
    pub(crate) run_id: RunId,
    /// Of [`WriterCall::Send`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<RawJson>,
    /// Of [`WriterCall::Pause`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<(StopKind, String)>,
    /// From when on nobody waits for it: milliseconds since 1970-01-01 UTC.
    pub(super) expires_at_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WriterCall {
    Send,
    Cancel,
    Pause,
}

/// The answer: nothing, or the error.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<(String, String)>,
}

impl Answer {
    pub(super) fn to(done: Result<()>) -> Vec<u8> {
        let error = done
            .err()
            .map(|error| (error.kind().name().to_owned(), error.to_string()));
        serde_json::to_vec(&Self { error }).unwrap_or_default()
    }
}

impl WriterRequest {
    fn new(call: WriterCall, run_id: RunId) -> Self {
        Self {
            call,
            run_id,
            command: None,
            stop: None,
            expires_at_ms: 0,
        }
    }

    pub(crate) fn send(run_id: RunId, command: &RawJson) -> Self {
        let command = Some(command.clone());
        Self {
            command,
            ..Self::new(WriterCall::Send, run_id)
        }
    }

    pub(crate) fn cancel(run_id: RunId) -> Self {
        Self::new(WriterCall::Cancel, run_id)
    }

    pub(crate) fn pause(run_id: RunId, stop: Stop) -> Self {
        let stop = Some((stop.kind, stop.reason));
        Self {
            stop,
            ..Self::new(WriterCall::Pause, run_id)
        }
    }
}

/// The error of a request that nobody executes.
pub(super) fn unanswered(what: &str) -> Error {
    Error::new(
        ErrorKind::Locked,
        format!(
            "{what}, so nothing was done: the process that writes the store takes requests from its first orchestrator or \
             flow on; it has none, or is busy or gone"
        ),
    )
}

/// The error of a request that the writer found when it wasn't valid any more.
pub(super) fn too_late() -> Error {
    unanswered("the request came too late")
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// By the clock of the machine, which both processes have.
pub(super) fn now_ms() -> u64 {
    SystemHost.now_ms()
}
