//! [`FoldedStep`]: a step in a fold, with texts that may be differences.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use crate::{
    Error, RawJson, Result, Step, Updates,
    chat::step_diff::{DiffFrom, StepDiff},
    json::diff::TextDiff,
    limits::CHAT_EVENT_BYTES_MAX,
};

/// The most differences that one text depends on. A step of number n depends on 15 for each digit of n to the base 16.
const DEPTH_MAX: usize = 1_000;

/// A step in a fold: all of it can be read but its input and its space, which may be kept as differences from those of
/// earlier steps, so that a fold takes no more memory than its events. [`whole`](Self::whole) has them too.
#[derive(Clone, Debug)]
pub struct FoldedStep {
    /// Without its input and its space. Shared with the pages that have it.
    step: Arc<Step>,
    pub(super) texts: Texts,
}

/// The input and the space of a step.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    input: Text,
    space: Text,
}

#[derive(Clone, Debug)]
enum Text {
    None,
    Whole(RawJson),
    Diff(Arc<Diff>),
    /// A text that it differs from was redacted, or lost.
    Lost,
}

#[derive(Debug)]
struct Diff {
    base: Text,
    diff: TextDiff,
    length: usize,
    /// How many differences there are before it is whole.
    depth: usize,
}

impl Deref for FoldedStep {
    type Target = Step;

    fn deref(&self) -> &Step {
        &self.step
    }
}

impl From<Step> for FoldedStep {
    fn from(mut step: Step) -> Self {
        let texts = Texts {
            input: Text::of(step.input.take()),
            space: Text::of(step.space_snapshot.take()),
        };
        Self {
            step: Arc::new(step),
            texts,
        }
    }
}

impl FoldedStep {
    /// A step that was saved as a difference; `texts_of` finds the texts of an earlier step, as they were saved.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) for differences that don't fit what they differ from.
    pub(super) fn from_diff(
        saved: StepDiff,
        texts_of: impl Fn(&str) -> Option<Texts>,
    ) -> Result<Self> {
        let mut folded = Self::from(saved.step);
        if let Some(from) = saved.input {
            let base = texts_of(&from.step_id).map(|texts| texts.input);
            folded.texts.input = Text::differing(base, from)?;
        }
        if let Some(from) = saved.space_snapshot {
            let base = texts_of(&from.step_id).map(|texts| texts.space);
            folded.texts.space = Text::differing(base, from)?;
        }
        Ok(folded)
    }

    /// The step with its input and its space. They are missing where the text of an earlier step that they differ from was
    /// redacted, or lost.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when a difference doesn't make JSON.
    pub fn whole(&self) -> Result<Step> {
        self.whole_knowing(&mut Known::default())
    }

    /// Many steps with their inputs and spaces, as [`whole`](Self::whole) has them. Those that differ from each other are
    /// made from each other, and those that are the same share their memory.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub fn whole_all<'a>(steps: impl IntoIterator<Item = &'a Self>) -> Result<Vec<Step>> {
        let mut known = Known::default();
        let steps = steps.into_iter();
        steps.map(|step| step.whole_knowing(&mut known)).collect()
    }

    fn whole_knowing(&self, known: &mut Known) -> Result<Step> {
        let of_step = |error: Error| {
            let message = format!("step {:?}: {error}", self.step.step_id);
            Error::new(error.kind(), message)
        };
        Ok(Step {
            input: self.texts.input.whole(known).map_err(of_step)?,
            space_snapshot: self.texts.space.whole(known).map_err(of_step)?,
            ..Step::clone(&self.step)
        })
    }

    /// Whether another step has the same input. It isn't known of one whose input is lost.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub fn has_input_of(&self, other: &Self) -> Result<bool> {
        let (one, two) = (&self.texts.input, &other.texts.input);
        let is_lost = matches!(one, Text::Lost) || matches!(two, Text::Lost);
        if is_lost || one.length() != two.length() {
            return Ok(false);
        }
        let mut known = Known::default();
        Ok(one.whole(&mut known)? == two.whole(&mut known)?)
    }

    /// How many bytes the input and the space have.
    pub fn text_bytes(&self) -> usize {
        self.texts.input.length() + self.texts.space.length()
    }

    pub(super) fn step_mut(&mut self) -> &mut Step {
        Arc::make_mut(&mut self.step)
    }

    /// The step with updates, and whether they change its input or its space.
    pub(super) fn updated(&self, updates: &Updates, at_ms: u64) -> Result<(Self, bool)> {
        let mut step = self.step.updated(updates, at_ms)?;
        let (input, space) = (step.input.take(), step.space_snapshot.take());
        let mut texts = self.texts.clone();
        let is_input = updates.get("input").is_some();
        let is_space = updates.get("space_snapshot").is_some();
        if is_input {
            texts.input = Text::of(input);
        }
        if is_space {
            texts.space = Text::of(space);
        }
        let step = Arc::new(step);
        Ok((Self { step, texts }, is_input || is_space))
    }
}

impl Text {
    fn of(json: Option<RawJson>) -> Self {
        json.map_or(Self::None, Self::Whole)
    }

    fn differing(base: Option<Self>, from: DiffFrom) -> Result<Self> {
        let (depth, length) = match &base {
            None | Some(Self::None | Self::Lost) => return Ok(Self::Lost),
            Some(Self::Whole(json)) => (1, json.as_bytes().len()),
            Some(Self::Diff(diff)) => (diff.depth + 1, diff.length),
        };
        let damaged = |what| {
            let id = &from.step_id;
            Err(Error::damaged(format!(
                "its text differs from that of step {id:?}, and {what}"
            )))
        };
        let Some(length) = from.diff.length(length) else {
            return damaged("names a part that isn't there".to_owned());
        };
        if length > CHAT_EVENT_BYTES_MAX || depth > DEPTH_MAX {
            return damaged(format!(
                "has {length} bytes from {depth} differences; {CHAT_EVENT_BYTES_MAX} and {DEPTH_MAX} are the most"
            ));
        }
        Ok(Self::Diff(Arc::new(Diff {
            base: base.unwrap_or(Self::Lost),
            diff: from.diff,
            length,
            depth,
        })))
    }

    fn length(&self) -> usize {
        match self {
            Self::None | Self::Lost => 0,
            Self::Whole(json) => json.as_bytes().len(),
            Self::Diff(diff) => diff.length,
        }
    }

    fn whole(&self, known: &mut Known) -> Result<Option<RawJson>> {
        // From this text back to one that is known, then forward again. It isn't recursive, for a chain may be longer than
        // the stack of the thread allows.
        let (mut diffs, mut text) = (Vec::new(), self);
        let mut whole = loop {
            match text {
                Self::None | Self::Lost => return Ok(None),
                Self::Whole(json) => break json.clone(),
                Self::Diff(diff) => match known.0.get(&Arc::as_ptr(diff)) {
                    Some(json) => break json.clone(),
                    None => {
                        diffs.push(diff);
                        text = &diff.base;
                    }
                },
            }
        };
        for diff in diffs.iter().rev() {
            if !diff.diff.is_same(whole.as_bytes().len()) {
                let text = diff.diff.applied_to(whole.as_str())?;
                whole = RawJson::from_stored(text.into())?;
            }
        }
        if let Some(last) = diffs.first() {
            // Only the last is checked: each reader gets that one.
            whole = RawJson::parse(whole.into_bytes()).map_err(|error| {
                Error::damaged(format!("its differences don't make JSON: {error}"))
            })?;
            known.0.insert(Arc::as_ptr(last), whole.clone());
        }
        Ok(Some(whole))
    }
}

/// The texts of differences that were made whole already, by address: the steps that have them outlive it, so that no address
/// is used again meanwhile.
#[derive(Default)]
struct Known(HashMap<*const Diff, RawJson>);

/// Compared by what they say, in whichever form they are kept.
impl PartialEq for FoldedStep {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.whole(), other.whole());
        matches!((one, two), (Ok(one), Ok(two)) if one == two)
    }
}
