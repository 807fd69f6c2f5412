//! [`StepDiffs`] decides which earlier step the input and the space of a step are saved as differences from.
//!
//! The input of each model call has what the one before had, and a little more; so has the space. Saved whole with each
//! step, a request would take space on the disk by the square of its length.
//!
//! Which earlier step that is, [`TextChain`] decides.

use std::collections::{HashMap, VecDeque};

use super::{
    ChatEvent, Step, StepType,
    step_diff::{DiffFrom, StepDiff},
};
use crate::{RawJson, json::chain::TextChain, limits::CHAT_EVENT_BYTES_MAX};

/// How many chains of inputs are kept in memory: one for each type of step at each node of the call stack.
const INPUT_CHAINS_MAX: usize = 16;
/// The most bytes of inputs that are kept in memory for later ones to differ from: 64 MiB.
const INPUT_BYTES_MAX: usize = 64 << 20;

/// The texts of a step, as they will be saved.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StepTexts {
    input: Text,
    space: Text,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Text {
    #[default]
    None,
    Whole(RawJson),
    Diff(DiffFrom),
}

impl Text {
    /// A text of a step, the next one of a chain.
    fn next(chain: &mut TextChain<String>, step: &Step, text: &RawJson) -> Self {
        match chain.next(step.step_id.clone(), text) {
            Some((step_id, diff)) => Self::Diff(DiffFrom { step_id, diff }),
            None => Self::Whole(text.clone()),
        }
    }

    fn json_bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Whole(json) => json.as_bytes().len(),
            Self::Diff(from) => 64 + 6 * from.step_id.len() + from.diff.json_bytes(),
        }
    }

    /// What goes into the step, and what beside it.
    fn parts(self) -> (Option<RawJson>, Option<DiffFrom>) {
        match self {
            Self::None => (None, None),
            Self::Whole(json) => (Some(json), None),
            Self::Diff(from) => (None, Some(from)),
        }
    }
}

impl StepTexts {
    /// An upper bound of their size as JSON.
    pub fn json_bytes(&self) -> usize {
        self.input.json_bytes() + self.space.json_bytes()
    }

    /// The event that saves a step with these texts in place of its own.
    pub fn event(self, step: Step) -> ChatEvent {
        let (input, input_diff) = self.input.parts();
        let (space_snapshot, space_diff) = self.space.parts();
        let step = Step {
            input,
            space_snapshot,
            ..step
        };
        if input_diff.is_none() && space_diff.is_none() {
            return ChatEvent::StepSaved(Box::new(step));
        }
        ChatEvent::StepDiffSaved(Box::new(StepDiff {
            step,
            input: input_diff,
            space_snapshot: space_diff,
        }))
    }
}

/// Finds for each step of a request, in the order in which they are saved, the earlier steps that its texts are saved as
/// differences from.
///
/// All steps that it was given must be in the log before those that it is given later: those differ from them.
#[derive(Debug, Default)]
pub struct StepDiffs {
    /// The one used last is the last.
    inputs: VecDeque<(InputsOf, TextChain<String>)>,
    space: TextChain<String>,
}

/// The steps whose inputs are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
struct InputsOf {
    stack_id: String,
    step_type: StepType,
}

impl StepDiffs {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// The texts of the next step, as they are to be saved.
    pub fn texts_of(&mut self, step: &Step) -> StepTexts {
        let input = step.input.as_ref();
        let input = input.map(|input| Text::next(self.inputs_like(step), step, input));
        self.bound_inputs();
        let space = step.space_snapshot.as_ref();
        let space = space.map(|space| Text::next(&mut self.space, step, space));
        StepTexts {
            input: input.unwrap_or_default(),
            space: space.unwrap_or_default(),
        }
    }

    /// Events that are saved together, in which steps are saved as differences from earlier ones of their request. A step
    /// that is too large to be saved whole is left so: it is refused then, as it would be without those before it.
    pub fn between(events: Vec<ChatEvent>) -> Vec<ChatEvent> {
        let mut of_requests: HashMap<String, Self> = HashMap::new();
        let shortened = |event| match event {
            ChatEvent::StepSaved(step) if is_readable(&step) => {
                let diffs = of_requests.entry(step.request_id.clone()).or_default();
                diffs.texts_of(&step).event(*step)
            }
            other => other,
        };
        events.into_iter().map(shortened).collect()
    }

    /// Forgets chains of inputs that weren't used for the longest time, where all together are too large.
    fn bound_inputs(&mut self) {
        let mut bytes: usize = self.inputs.iter().map(|(_, chain)| chain.bytes()).sum();
        while bytes > INPUT_BYTES_MAX
            && self.inputs.len() > 1
            && let Some((_, chain)) = self.inputs.pop_front()
        {
            bytes -= chain.bytes();
        }
    }

    fn inputs_like(&mut self, step: &Step) -> &mut TextChain<String> {
        let of = InputsOf {
            stack_id: step.stack_id.clone(),
            step_type: step.step_type,
        };
        let place = self.inputs.iter().rposition(|(other, _)| *other == of);
        let chain = match place.and_then(|place| self.inputs.remove(place)) {
            Some((_, chain)) => chain,
            None => TextChain::default(),
        };
        if self.inputs.len() >= INPUT_CHAINS_MAX {
            self.inputs.pop_front();
        }
        self.inputs.push_back((of, chain));
        &mut self.inputs.back_mut().expect("it was just put in").1
    }
}

/// Whether a step can be given to readers, who have its texts whole: they fit one event.
fn is_readable(step: &Step) -> bool {
    let texts = [&step.input, &step.space_snapshot].into_iter().flatten();
    texts.map(|text| text.as_bytes().len()).sum::<usize>() <= CHAT_EVENT_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(number: usize, input: &str) -> Step {
        Step {
            step_id: format!("s{number}"),
            input: RawJson::parse(input).ok(),
            ..Step::new("r", "a", "stk", StepType::Llm)
        }
    }

    fn base_of(texts: &StepTexts) -> Option<&str> {
        match &texts.input {
            Text::Diff(from) => Some(&from.step_id),
            _ => None,
        }
    }

    fn growing(number: usize) -> String {
        let message = |it| {
            format!(
                r#"{{"role":"user","content":"the words of message {it}, and some more of them"}}"#
            )
        };
        let all: Vec<String> = (0..number + 200).map(message).collect();
        format!(r#"{{"messages":[{}]}}"#, all.join(","))
    }

    #[test]
    fn a_step_differs_from_the_one_that_its_digits_name() {
        let mut diffs = StepDiffs::new();
        let bases: Vec<Option<String>> = (0..600)
            .map(|number| {
                base_of(&diffs.texts_of(&step(number, &growing(number)))).map(str::to_owned)
            })
            .collect();
        let base = |number: usize| bases[number].as_deref();
        assert_eq!(base(0), None);
        assert_eq!(
            (base(1), base(15), base(0x122)),
            (Some("s0"), Some("s14"), Some("s289"))
        );
        assert_eq!(
            (base(16), base(32), base(0x120)),
            (Some("s0"), Some("s16"), Some("s272"))
        );
        assert_eq!((base(0x100), base(0x200)), (Some("s0"), Some("s256")));
    }

    #[test]
    fn unchanged_short_and_unlike_texts() {
        let mut diffs = StepDiffs::new();
        let long = growing(1);
        assert_eq!(base_of(&diffs.texts_of(&step(0, &long))), None);
        for number in 1..4 {
            let texts = diffs.texts_of(&step(number, &long));
            assert_eq!(base_of(&texts), Some("s0"));
            assert!(texts.json_bytes() < 200, "{texts:?}");
        }
        assert_eq!(base_of(&diffs.texts_of(&step(4, "{}"))), None);
        let unlike = format!(r#"{{"x":"{}"}}"#, "z".repeat(2_000));
        assert_eq!(base_of(&diffs.texts_of(&step(5, &unlike))), None);
        let tool = Step {
            step_type: StepType::Tool,
            ..step(6, &unlike)
        };
        assert_eq!(
            base_of(&diffs.texts_of(&tool)),
            None,
            "tools have inputs of their own"
        );
        assert_eq!(base_of(&diffs.texts_of(&step(7, &unlike))), Some("s5"));
    }

    #[test]
    fn the_texts_that_are_kept_have_a_bound() {
        let mut diffs = StepDiffs::new();
        for number in 0..INPUT_CHAINS_MAX {
            let input = format!(r#"{{"x":["{}"]}}"#, number.to_string().repeat(6 << 20));
            diffs.texts_of(&Step {
                stack_id: format!("stk{number}"),
                ..step(number, &input)
            });
            let kept: usize = diffs.inputs.iter().map(|(_, chain)| chain.bytes()).sum();
            assert!(kept <= INPUT_BYTES_MAX, "{kept}");
        }
        assert!(diffs.inputs.len() > 1);
    }

    #[test]
    fn what_steps_take_grows_with_what_each_adds() {
        let (mut diffs, mut whole, mut saved) = (StepDiffs::new(), 0, 0);
        for number in 0..500 {
            let step = step(number, &growing(number));
            let texts = diffs.texts_of(&step);
            whole += step.input.as_ref().unwrap().as_bytes().len();
            saved += texts.json_bytes();
        }
        assert!(saved < whole / 50, "{saved} of {whole}");
    }
}
