//! The steps of a request that was cut off: which wait for which, and which are still open when one of them was resumed.

use std::collections::HashMap;

use runlog_model::{ChatEvent, ChatFold, FoldedStep, RawJson, Step, StepStatus, StepType, Updates};

use super::{RequestEnd, sizes::ERROR_CHARS_MAX};
use crate::Result;

/// The delegate step that waits for the node of a step: the one it names, or else one of its caller.
pub(super) fn waiting_for<'a>(fold: &'a ChatFold, called: &Step) -> Option<&'a FoldedStep> {
    match &called.delegate_step_id {
        Some(id) => fold.step(id).filter(|step| step.status.can_resume()),
        None => waiting_in(fold, called.stack_parent_id.as_deref()?),
    }
}

/// Whether a request has steps to be resumed that are apart from `resumed` and from the steps that wait for it, after some events.
/// What `is_own` says yes to was begun since it was resumed, and ends with it.
pub(super) fn has_other_open_steps(
    fold: &ChatFold,
    resumed: &Step,
    events: &[ChatEvent],
    is_own: impl Fn(&str) -> bool,
) -> Result<bool> {
    let path = fold.stack_path(&resumed.stack_id)?.unwrap_or_default();
    // What is under way at each node of the path: the step that waits for the node below, and at the last what is resumed.
    let mut under_way: HashMap<&str, &FoldedStep> = HashMap::new();
    let mut below: &Step = resumed;
    for stack_id in path.iter().rev() {
        if *stack_id == resumed.stack_id {
            under_way.extend(
                fold.step(&resumed.step_id)
                    .map(|it| (stack_id.as_str(), it)),
            );
            continue;
        }
        // The one that is named may have been completed meanwhile: another isn't it.
        let called = Some(below).filter(|it| it.stack_parent_id.as_ref() == Some(stack_id));
        let waiting = match called.and_then(|called| called.delegate_step_id.as_deref()) {
            Some(id) => fold.step(id),
            None => waiting_in(fold, stack_id),
        };
        if let Some(waiting) = waiting {
            under_way.insert(stack_id, waiting);
            below = waiting;
        }
    }
    for step in fold.resumable_steps_of(&resumed.request_id) {
        if is_own(&step.step_id) || is_over(step, events) {
            continue;
        }
        let is_other = match under_way.get(step.stack_id.as_str()) {
            Some(than) => is_apart(step, than)?,
            None => !path.contains(&step.stack_id),
        };
        if is_other {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a step that was cut off is work of its own beside another one of its node: of several tools that were called at once, or
/// several assistants. What failed was seen to fail by its assistant, which went on; and a model is asked once at a time, so that a
/// step with other input is an earlier attempt.
fn is_apart(step: &FoldedStep, than: &FoldedStep) -> Result<bool> {
    let may_be = matches!(step.step_type, StepType::Tool | StepType::Delegate)
        && step.step_type == than.step_type
        && step.status != StepStatus::Failed
        && step.step_id != than.step_id;
    Ok(may_be && !step.has_input_of(than)?)
}

/// Whether one of the events ends a step, or is another attempt at it, with success.
pub(super) fn is_over(step: &FoldedStep, events: &[ChatEvent]) -> bool {
    events.iter().any(|event| match event {
        ChatEvent::StepUpdated { step_id, .. } => *step_id == step.step_id,
        ChatEvent::StepSaved(other) => {
            step.status == StepStatus::Failed
                && other.status == StepStatus::Completed
                && (&other.stack_id, other.step_type) == (&step.stack_id, step.step_type)
        }
        _ => false,
    })
}

/// The delegate step of a node that waits for an assistant it called.
pub(super) fn waiting_in<'a>(fold: &'a ChatFold, stack_id: &str) -> Option<&'a FoldedStep> {
    let steps = fold.steps_of_stack(stack_id).into_iter().rev();
    steps
        .into_iter()
        .find(|step| step.step_type == StepType::Delegate && step.status.can_resume())
}

/// The events for the steps that a request was gone on with from, as it ends: those of the same node that nobody completed, earlier
/// attempts included, but not those [apart](is_apart) from it, which are resumed next. What was under way was interrupted, and what
/// failed stays failed: the new attempts have steps of their own. Where the request is completed none of them is resumed any more.
/// Where it hasn't `begun` any, its work was that of the step that it went on from, which ends as it does.
pub(super) fn gone_on_from(
    fold: &ChatFold,
    resumed: &Step,
    end: &RequestEnd,
    begun: bool,
    at_ms: u64,
) -> Result<Vec<ChatEvent>> {
    let is_completed = *end == RequestEnd::Completed;
    let open = fold.steps_of_stack(&resumed.stack_id).into_iter();
    let open = open.filter(|step| step.request_id == resumed.request_id && step.can_resume());
    let resumed = fold.step(&resumed.step_id);
    let mut events = Vec::new();
    for step in open {
        let is_resumed = resumed.is_some_and(|resumed| resumed.step_id == step.step_id);
        let is_other = match resumed {
            _ if is_resumed => false,
            Some(resumed) if is_completed => is_apart(step, resumed)?,
            None if is_completed => false,
            // What others were at beside it waits as it did.
            _ => true,
        };
        if is_other {
            continue;
        }
        let mut updates = Updates::new();
        let is_done = is_resumed && !begun;
        match end {
            RequestEnd::Completed if is_done => {
                updates = updates
                    .with("status", RawJson::string(StepStatus::Completed.name()))
                    .with("error", RawJson::null());
            }
            RequestEnd::Failed(error) if is_done => {
                let error: String = error.chars().take(ERROR_CHARS_MAX).collect();
                updates = updates
                    .with("status", RawJson::string(StepStatus::Failed.name()))
                    .with("error", RawJson::string(&error));
            }
            _ if matches!(step.status, StepStatus::Pending | StepStatus::Running) => {
                let interrupted = StepStatus::Interrupted.name();
                updates = updates.with("status", RawJson::string(interrupted));
            }
            _ => {}
        }
        if is_completed && !is_done {
            updates = updates.with("dismissed_at", RawJson::from_value(&at_ms)?);
        }
        if updates.is_empty() {
            continue;
        }
        Step::updated(step, &updates, at_ms)?;
        events.push(ChatEvent::StepUpdated {
            step_id: step.step_id.clone(),
            at_ms,
            updates,
        });
    }
    Ok(events)
}
