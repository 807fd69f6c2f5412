//! [`StepDiff`]: a step in the log whose input or space is saved as its difference from that of an earlier step.
//! [`StepDiffs`](super::StepDiffs) says why, and from which.

use serde::{Deserialize, Serialize};

use super::Step;
use crate::json::diff::TextDiff;

/// A step as it is saved when its input or its space differs little from that of an earlier step.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepDiff {
    /// The step, without the texts that are differences.
    pub step: Step,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<DiffFrom>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) space_snapshot: Option<DiffFrom>,
}

impl StepDiff {
    /// The texts that are in it and not in the steps that it differs from, for a search.
    pub fn new_texts(&self) -> impl Iterator<Item = &str> {
        let diffs = [&self.input, &self.space_snapshot].into_iter().flatten();
        diffs.flat_map(|from| from.diff.new_texts())
    }
}

/// A text as its difference from that of an earlier step of the chat.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct DiffFrom {
    /// The id of the earlier step.
    pub(crate) step_id: String,
    pub(crate) diff: TextDiff,
}
