//! [`Recorder`]: records an agent's lines into the store.
//!
//! Invariant: nothing is acknowledged before it is as durable as the store promises, and acks come in the order
//! of the lines.

use runlog::{
    ErrorKind, RawJson, blocking::RunRecorder, contexts::ContextEventKind, runs::RunEntry,
    transcripts::NewContextEvent,
};

use super::{
    ask::Ask,
    protocol::{Ack, Done, FromAgent, Refusal, Step, UNSUPPORTED_PROTOCOL},
};
use crate::{
    failure::{Failure, Result},
    lines::{LINE_BYTES_MAX, Line},
};

/// An agent that sends back what it is sent would be refused for ever: each refusal is a line that it sends back. After so
/// many of them it is ended.
const ECHOED_MAX: u64 = 10;

/// The result of a line.
#[derive(Debug)]
pub(crate) enum Recorded {
    /// It is durable.
    Ack(Ack, Vec<NewContextEvent>),
    /// A step began.
    Step(Step),
    /// It was refused; nothing of it was recorded.
    Refused(Refusal),
    /// It would have begun a step beyond the run's limit: the run is paused.
    BudgetSpent(Refusal),
    /// The agent speaks another version of the protocol.
    OtherProtocol(Refusal),
    /// It reads the commands that are sent to its run.
    TakesCommands,
    /// Its description of the run is durable.
    Described(Option<RawJson>),
    /// A request to the orchestration.
    Ask(Ask),
    /// The agent says that nothing follows.
    Done,
}

/// Records one agent's lines as a run.
pub(crate) struct Recorder {
    run: RunRecorder,
    /// Whether the agent sends `step` lines; until the first one, each assistant message begins a step.
    counts_steps: bool,
    /// The steps of the earlier runs that this one resumes.
    steps_before: u32,
    done: Option<Done>,
    /// Why the agent's `done` line was refused, if no valid one followed.
    done_refused: Option<String>,
    budget_spent: bool,
    lines: u64,
    events: u64,
    refused: u64,
    /// How many of them are of a type that only Runlog writes.
    echoed: u64,
    /// Whether any line was one of the protocol.
    is_understood: bool,
}

/// A line that waits to be recorded.
struct Waiting {
    id: Option<RawJson>,
    line: u64,
    key: Option<String>,
    entry: RunEntry,
}

impl Recorder {
    /// A recorder of a run without a step.
    pub(crate) fn new(run: RunRecorder) -> Self {
        let steps_before = run.run().step_count;
        Self {
            run,
            counts_steps: false,
            steps_before,
            done: None,
            done_refused: None,
            budget_spent: false,
            lines: 0,
            events: 0,
            refused: 0,
            echoed: 0,
            is_understood: false,
        }
    }

    pub(crate) fn run(&self) -> &RunRecorder {
        &self.run
    }

    /// The agent's `done` line.
    pub(crate) fn done(&self) -> Option<&Done> {
        self.done.as_ref()
    }

    /// Why the agent's `done` line was refused, which leaves the run's end unknown.
    pub(crate) fn done_refused(&self) -> Option<&str> {
        self.done_refused.as_deref()
    }

    /// Whether the run was paused because its steps are spent.
    pub(crate) fn is_budget_spent(&self) -> bool {
        self.budget_spent
    }

    /// How many events were recorded.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// How many lines were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether no line of the agent is valid in the protocol, so that it is some other program.
    pub(crate) fn is_other_program(&self) -> bool {
        !self.is_understood
    }

    /// Records lines, and returns the result of each.
    ///
    /// # Errors
    /// Those of the store; lines without an acknowledgement may or may not have been recorded.
    pub(crate) fn take(&mut self, lines: Vec<Line>) -> Result<Vec<Recorded>> {
        let mut done = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        for line in lines {
            self.lines += 1;
            let read = self.read(line);
            self.is_understood |= matches!(read, Some(Ok(_)));
            match read {
                None => {}
                Some(Ok(FromAgent::Hello { commands })) => {
                    done.extend(commands.then_some(Recorded::TakesCommands));
                }
                Some(Ok(FromAgent::Done(said))) => {
                    self.record(&mut waiting, &mut done)?;
                    (self.done, self.done_refused) = (Some(said), None);
                    done.push(Recorded::Done);
                }
                Some(Ok(FromAgent::Ask(ask))) => {
                    // The call that it may answer is recorded first.
                    self.record(&mut waiting, &mut done)?;
                    done.push(Recorded::Ask(ask));
                }
                Some(Ok(FromAgent::Describe { id, details })) => {
                    self.record(&mut waiting, &mut done)?;
                    done.push(match self.run.describe(details) {
                        Ok(_) => Recorded::Described(id),
                        Err(error) => self.refused_line(id, self.lines, &error).ok_or(error)?,
                    });
                }
                Some(Ok(FromAgent::Step { id })) => {
                    self.record(&mut waiting, &mut done)?;
                    self.counts_steps = true;
                    done.push(self.step(id)?);
                }
                Some(Ok(FromAgent::Record { id, key, events })) => {
                    // A key is that of a whole batch, so its line has one to itself.
                    if key.is_some() || waiting.last().is_some_and(|last| last.key.is_some()) {
                        self.record(&mut waiting, &mut done)?;
                    }
                    let is_answer = events
                        .iter()
                        .any(|event| event.kind == ContextEventKind::AssistantMessage);
                    let entry = RunEntry {
                        events,
                        begins_step: is_answer && !self.counts_steps,
                    };
                    waiting.push(Waiting {
                        id,
                        line: self.lines,
                        key,
                        entry,
                    });
                }
                Some(Err(mut refusal)) => {
                    self.record(&mut waiting, &mut done)?;
                    self.refused += 1;
                    self.echoed += u64::from(refusal.is_echo);
                    if refusal.is_echo && self.echoed >= ECHOED_MAX {
                        refusal.code = UNSUPPORTED_PROTOCOL;
                        refusal.message = format!(
                            "{} of its lines are such as Runlog writes, so it seems to send back what it is sent; \
                             docs/agent-protocol.md says what an agent writes",
                            self.echoed
                        );
                    }
                    if refusal.is_done {
                        self.done_refused = Some(refusal.message.clone());
                    }
                    done.push(match refusal.code {
                        UNSUPPORTED_PROTOCOL => Recorded::OtherProtocol(refusal),
                        _ => Recorded::Refused(refusal),
                    });
                }
            }
        }
        self.record(&mut waiting, &mut done)?;
        Ok(done)
    }

    /// Parses a line; `None` if it is blank.
    fn read(&self, line: Line) -> Option<std::result::Result<FromAgent, Refusal>> {
        match line {
            Line::TooLong(bytes) => {
                let message =
                    format!("the line has {bytes} bytes, at most {LINE_BYTES_MAX} are read");
                Some(Err(Refusal::new(None, self.lines, "too_large", message)))
            }
            Line::Whole(bytes) | Line::Partial(bytes) if bytes.trim_ascii().is_empty() => None,
            Line::Whole(bytes) => Some(FromAgent::read(&bytes, self.lines)),
            Line::Partial(bytes) => Some(FromAgent::read(&bytes, self.lines).map_err(|refusal| {
                let message = match refusal.code {
                    "invalid_json" => format!(
                        "the agent ended in the middle of a line, after {} bytes",
                        bytes.len()
                    ),
                    _ => refusal.message,
                };
                Refusal { message, ..refusal }
            })),
        }
    }

    fn step(&mut self, id: Option<RawJson>) -> Result<Recorded> {
        match self.run.next_step() {
            Ok(step) => {
                let taken = step.saturating_sub(self.steps_before);
                let steps_left = self
                    .run
                    .run()
                    .max_steps
                    .map(|most| most.saturating_sub(taken));
                Ok(Recorded::Step(Step {
                    id,
                    step,
                    steps_left,
                }))
            }
            Err(error) => self
                .refused_line(id, self.lines, &error)
                .ok_or_else(|| error.into()),
        }
    }

    fn record(&mut self, waiting: &mut Vec<Waiting>, done: &mut Vec<Recorded>) -> Result<()> {
        let waiting = std::mem::take(waiting);
        match self.commit(&waiting) {
            Ok(acks) => {
                let acked = acks
                    .into_iter()
                    .zip(waiting)
                    .map(|(ack, line)| Recorded::Ack(ack, line.entry.events));
                done.extend(acked);
                Ok(())
            }
            Err(error) if is_of_a_line(&error) => {
                // One line of the batch is refused: record each by itself.
                for line in waiting {
                    done.push(self.record_one(line)?);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn record_one(&mut self, line: Waiting) -> Result<Recorded> {
        let error = match self.commit(std::slice::from_ref(&line)) {
            Ok(acks) => {
                let missing =
                    || Failure::other("the store acknowledged a line without saying where it is");
                let ack = acks.into_iter().next().ok_or_else(missing)?;
                return Ok(Recorded::Ack(ack, line.entry.events));
            }
            // The store has paused the run, and reports that.
            Err(error) if error.kind() == ErrorKind::LimitReached => {
                self.run.next_step().err().unwrap_or(error)
            }
            Err(error) => error,
        };
        self.refused_line(line.id, line.line, &error)
            .ok_or_else(|| error.into())
    }

    /// The refusal for a line that the store refused; `None` if the error isn't caused by the line.
    fn refused_line(
        &mut self,
        id: Option<RawJson>,
        line: u64,
        error: &runlog::Error,
    ) -> Option<Recorded> {
        if !is_of_a_line(error) {
            return None;
        }
        self.refused += 1;
        let refusal = |code| Refusal::new(id, line, code, error.to_string());
        Some(match error.kind() {
            ErrorKind::LimitReached => {
                self.budget_spent = true;
                Recorded::BudgetSpent(refusal("step_budget"))
            }
            ErrorKind::WrongStatus => Recorded::Refused(refusal("run_over")),
            ErrorKind::TooLarge => Recorded::Refused(refusal("too_large")),
            _ => Recorded::Refused(refusal("invalid_message")),
        })
    }

    fn commit(&mut self, lines: &[Waiting]) -> runlog::Result<Vec<Ack>> {
        let key = match lines {
            [only] => only.key.as_deref(),
            _ => None,
        };
        let entries: Vec<RunEntry> = lines.iter().map(|line| line.entry.clone()).collect();
        let recorded = self.run.record_entries(&entries, key)?;
        let mut acks = Vec::with_capacity(lines.len());
        for (line, recorded) in lines.iter().zip(recorded) {
            acks.push(Ack {
                id: line.id.clone(),
                sequence: recorded.sequence_number,
                last_sequence: recorded.last_sequence,
                step: recorded.step_number,
                repeated: recorded.repeated,
            });
            if !recorded.repeated {
                self.events += line.entry.events.len() as u64;
            }
        }
        Ok(acks)
    }
}

/// Whether an error is caused by a line's content, not by the store.
fn is_of_a_line(error: &runlog::Error) -> bool {
    let kinds = [
        ErrorKind::TooLarge,
        ErrorKind::InvalidInput,
        // A second result of one call.
        ErrorKind::AlreadyExists,
        ErrorKind::LimitReached,
        ErrorKind::WrongStatus,
    ];
    kinds.contains(&error.kind())
}
