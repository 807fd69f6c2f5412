//! Looking up steps: those of a request, those of a node of the call stack, and those that can be resumed.

use super::{ChatFold, FoldedStep};
use crate::{Error, RequestStatus, Result, StepStatus, limits::STACK_DEPTH_MAX};

impl ChatFold {
    /// The step with this id.
    pub fn step(&self, id: &str) -> Option<&FoldedStep> {
        self.step_places.get(id).map(|place| &self.steps[*place])
    }

    /// Every step, in the order in which they were saved.
    pub fn steps(&self) -> &[FoldedStep] {
        &self.steps
    }

    /// The step that the event at this position of the log saved first. Of a copy, only steps that were saved in it.
    pub fn step_saved_at(&self, position: u64) -> Option<&FoldedStep> {
        let place = self.step_positions.binary_search(&position).ok()?;
        self.steps.get(place)
    }

    /// The steps that were saved after a position of the log, in that order, each with its own.
    pub fn steps_after(&self, position: u64) -> impl Iterator<Item = (u64, &FoldedStep)> {
        let first = self
            .step_positions
            .partition_point(|saved| *saved <= position);
        self.step_positions
            .iter()
            .copied()
            .zip(&self.steps)
            .skip(first)
    }

    /// The steps of a request, in its order.
    pub fn steps_of_request(&self, request_id: &str) -> Vec<&FoldedStep> {
        let steps = self
            .requests
            .get(request_id)
            .into_iter()
            .flat_map(|request| &request.steps);
        steps.map(|(_, place)| &self.steps[*place]).collect()
    }

    /// The steps of a node of the call stack, in the order in which they were saved.
    pub fn steps_of_stack(&self, stack_id: &str) -> Vec<&FoldedStep> {
        self.stacks
            .get(stack_id)
            .into_iter()
            .flatten()
            .map(|place| &self.steps[*place])
            .collect()
    }

    /// The last step that can be resumed and that nothing has made up for: a failed step that the same assistant tried
    /// again, with success, is over, and so is one of a request that was completed all the same.
    pub fn last_resumable_step(&self) -> Option<&FoldedStep> {
        self.open_steps
            .iter()
            .rev()
            .find(|place| !self.is_made_up_for(**place))
            .map(|place| &self.steps[*place])
    }

    /// As [`last_resumable_step`](Self::last_resumable_step), of one request.
    pub fn last_resumable_step_of(&self, request_id: &str) -> Option<&FoldedStep> {
        let last = self.resumable_places(request_id).max()?;
        Some(&self.steps[last])
    }

    /// The steps of a request that can be resumed and that nothing has made up for, in any order.
    pub fn resumable_steps_of(&self, request_id: &str) -> impl Iterator<Item = &FoldedStep> {
        self.resumable_places(request_id)
            .map(|place| &self.steps[place])
    }

    fn resumable_places(&self, request_id: &str) -> impl Iterator<Item = usize> {
        let request = self.requests.get(request_id).into_iter();
        let places = request.flat_map(|request| request.steps.iter().map(|(_, place)| *place));
        places.filter(|place| self.open_steps.contains(place) && !self.is_made_up_for(*place))
    }

    fn is_made_up_for(&self, place: usize) -> bool {
        let step = &self.steps[place];
        let request = self.request(&step.request_id);
        // Its assistant went on without it, and answered.
        if request.is_some_and(|request| request.status == RequestStatus::Completed) {
            return true;
        }
        let later = self
            .stacks
            .get(&step.stack_id)
            .into_iter()
            .flat_map(|stack| stack.range(place + 1..));
        let later = later.map(|place| &self.steps[*place]);
        step.status == StepStatus::Failed
            && later
                .filter(|other| {
                    other.request_id == step.request_id && other.step_type == step.step_type
                })
                .any(|other| other.status == StepStatus::Completed && is_retry(other, step))
    }

    /// The last step that can be resumed.
    pub fn last_incomplete_step(&self) -> Option<&FoldedStep> {
        self.open_steps.last().map(|place| &self.steps[*place])
    }

    /// The nodes of the call stack from the root to this one; `None` when no step has this node.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the steps' parents go round in a circle, or deeper
    /// than [`STACK_DEPTH_MAX`].
    pub fn stack_path(&self, stack_id: &str) -> Result<Option<Vec<String>>> {
        let parent_of = |stack: &str| {
            let last = self.stacks.get(stack)?.last()?;
            self.steps[*last].stack_parent_id.as_deref()
        };
        if !self.stacks.contains_key(stack_id) {
            return Ok(None);
        }
        let mut path = vec![stack_id.to_owned()];
        let mut next = parent_of(stack_id);
        while let Some(stack) = next {
            if path.len() >= STACK_DEPTH_MAX || path.iter().any(|above| above == stack) {
                return Err(Error::invalid(format!(
                    "the stack of {stack_id:?} has no root: {stack:?} comes up twice, or it is deeper than {STACK_DEPTH_MAX}"
                )));
            }
            path.push(stack.to_owned());
            next = parent_of(stack);
        }
        path.reverse();
        Ok(Some(path))
    }
}

/// Whether a step was begun because another one had failed. One of the same time counts if it has the same input: several may
/// have been begun at once.
fn is_retry(step: &FoldedStep, failed: &FoldedStep) -> bool {
    step.created_at_ms > failed.updated_at_ms || step.has_input_of(failed).unwrap_or(false)
}
