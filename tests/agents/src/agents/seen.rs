//! [`Seen`]: how much of a script a context has, found by going through it event by event.

use runlog::contexts::{ContextEvent, ContextEventKind};

use super::tasks::{Answer, Line, Task};

/// What an agent is told when it is resumed: the library's own words, and the others that [`work`](super::work) uses.
pub const TOLD: [&str; 2] = [
    r#"{"role":"user","content":"Continue your work from where you left off."}"#,
    r#"{"role":"user","content":"The process was killed. Go on."}"#,
];
/// What stands for the result of a call that was cut off: the library's words, and those that `work` uses.
pub const CUT_OFF: [&str; 2] = ["was interrupted", "The lights went out."];

/// How much of a script a context has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The messages of the opening.
    pub opening: usize,
    /// The lines after it, each once and in order.
    pub lines: usize,
    /// Of those, the results that say that their call was cut off.
    pub cut_off: Vec<usize>,
    /// How often the agent was told to go on.
    pub resumes: usize,
}

impl Seen {
    /// Goes through the events of a context; tells what isn't as the script has it.
    pub fn of(task: &Task, events: &[ContextEvent]) -> Result<Self, String> {
        let mut seen = Self::default();
        for event in events {
            seen.take(task, event).map_err(|what| {
                format!(
                    "task {}, event {} ({:?}): {what}",
                    task.name,
                    event.sequence_number,
                    event.content.as_str()
                )
            })?;
        }
        Ok(seen)
    }

    /// How many messages and results that is, as a process counts what it has recorded.
    pub fn count(&self) -> usize {
        self.opening + self.lines
    }

    fn take(&mut self, task: &Task, event: &ContextEvent) -> Result<(), String> {
        let json = event.content.as_str();
        match event.event_type {
            // It stands beside its message; that it is there is told by the tool calls of the run.
            ContextEventKind::ToolCall => Ok(()),
            ContextEventKind::ToolResult => self.take_results(task, event),
            _ if TOLD.contains(&json) => {
                self.resumes += 1;
                Ok(())
            }
            _ if self.opening < task.opening.len() => {
                same(json, &task.opening[self.opening])?;
                self.opening += 1;
                Ok(())
            }
            _ => {
                match task.lines.get(self.lines) {
                    Some(Line::User(expected) | Line::Says { json: expected, .. }) => {
                        same(json, expected)?
                    }
                    Some(Line::Result(answer)) => {
                        return Err(format!("the result of {} should come", answer.id));
                    }
                    None => return Err("nothing should come".to_owned()),
                }
                self.lines += 1;
                Ok(())
            }
        }
    }

    /// One result, or several that say together that their calls were cut off.
    fn take_results(&mut self, task: &Task, event: &ContextEvent) -> Result<(), String> {
        let json = event.content.as_str();
        for mark in &event.tool_results {
            let Some(Line::Result(answer)) = task.lines.get(self.lines) else {
                return Err("no result should come".to_owned());
            };
            if mark.tool_call_id.as_deref() != Some(&answer.id) {
                return Err(format!("the result of {} should come", answer.id));
            }
            if is_cut_off(json) && mark.is_error && mark.duration_ms.is_none() {
                self.cut_off.push(self.lines);
            } else {
                is_answer(answer, json, mark.is_error, mark.duration_ms)?;
            }
            self.lines += 1;
        }
        Ok(())
    }
}

/// Whether a result says that its call was cut off.
pub fn is_cut_off(json: &str) -> bool {
    CUT_OFF.iter().any(|words| json.contains(words))
}

fn is_answer(
    answer: &Answer,
    json: &str,
    is_error: bool,
    duration_ms: Option<u64>,
) -> Result<(), String> {
    same(json, &answer.json())?;
    if (is_error, duration_ms) == (answer.is_error, Some(answer.duration_ms)) {
        return Ok(());
    }
    Err(format!(
        "error {is_error} after {duration_ms:?} ms, expected {} after {}",
        answer.is_error, answer.duration_ms
    ))
}

fn same(found: &str, expected: &str) -> Result<(), String> {
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}"))
    }
}
