//! [`RequestEnd`]: how a request ends, and the resulting statuses of its steps.

use std::collections::HashSet;

use runlog_model::{ChatEvent, ChatRequest, RequestStatus, Step, StepStatus, StepType};
use serde::Deserialize;

use super::sizes;

/// How a request ended, which decides what becomes of the step that was under way.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum RequestEnd {
    /// As it should: steps that run are completed.
    Completed,
    /// The user stopped it: the step under way is interrupted.
    Interrupted,
    /// It failed, and why: the step under way failed.
    Failed(String),
}

impl RequestEnd {
    /// How the work of a request ended: completed, or failed with its error.
    ///
    /// ```
    /// use runlog::chats::RequestEnd;
    /// assert_eq!(RequestEnd::of(&Err::<(), _>("timeout")), RequestEnd::Failed("timeout".into()));
    /// ```
    pub fn of<T, E: std::fmt::Display>(work: &Result<T, E>) -> Self {
        match work {
            Ok(_) => Self::Completed,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// What the end of a request does about messages whose text was written in pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wholes {
    /// It writes them once more, whole: a search of the log looks at records.
    Written,
    /// It leaves them in pieces.
    Left,
}

/// The event with the record of an ended request.
pub(super) fn ended(request: &ChatRequest, end: &RequestEnd, now: u64) -> ChatEvent {
    let (status, error) = match end {
        RequestEnd::Completed => (RequestStatus::Completed, None),
        RequestEnd::Interrupted => (RequestStatus::Interrupted, None),
        RequestEnd::Failed(error) => {
            let error = error.chars().take(sizes::ERROR_CHARS_MAX).collect();
            (RequestStatus::Failed, Some(error))
        }
    };
    ChatEvent::RequestSaved(Box::new(ChatRequest {
        status,
        error,
        updated_at_ms: now,
        ..request.clone()
    }))
}

/// The steps with their final statuses. A delegate step that waits for a running step stays `running`, so that it is
/// completed when that one is resumed and returns.
pub(super) fn settled(steps: &[&Step], end: &RequestEnd, now: u64) -> Vec<Step> {
    let running = |step: &&&Step| step.status == StepStatus::Running;
    // A node names the step that waits for it. If it doesn't, all delegate steps of its caller wait for it.
    let (mut waiting_steps, mut waiting_stacks) = (HashSet::new(), HashSet::new());
    for step in steps.iter().filter(running) {
        match (&step.delegate_step_id, &step.stack_parent_id) {
            (Some(delegate), _) => drop(waiting_steps.insert(delegate.as_str())),
            (None, Some(parent)) => drop(waiting_stacks.insert(parent.as_str())),
            (None, None) => {}
        }
    }
    // The error is stored in all of them, and together they must fit in the batch.
    let running_count = steps.iter().filter(running).count().max(1);
    let chars_max = sizes::error_chars_max(running_count);
    let settle = |step: &&Step| {
        let mut step = Step::clone(step);
        let waits = step.step_type == StepType::Delegate
            && (waiting_steps.contains(step.step_id.as_str())
                || waiting_stacks.contains(step.stack_id.as_str()));
        if step.status != StepStatus::Running || (waits && *end != RequestEnd::Completed) {
            return step;
        }
        step.updated_at_ms = now;
        step.status = match end {
            RequestEnd::Completed => StepStatus::Completed,
            RequestEnd::Interrupted => StepStatus::Interrupted,
            RequestEnd::Failed(error) => {
                step.error = Some(error.chars().take(chars_max).collect());
                StepStatus::Failed
            }
        };
        step
    };
    steps.iter().map(settle).collect()
}
