//! The conversation between Runlog and an agent, from its first line to its end.

use std::time::Duration;

use runlog::{
    AgentInstance, Run,
    blocking::Store,
    runs::{Stop, StopKind},
};

use super::{
    child::{Child, Opening, SIGTERM},
    event::{ChildEvent, Ended},
    protocol::{Dangling, Hello, PROTOCOL, Ready, ToAgent, UNSUPPORTED_PROTOCOL},
    recorder::{Recorded, Recorder},
    spawn::{self, Spawner},
};
use crate::failure::{Exit, Failure, Result};

/// The most lines that are recorded with one flush.
const LINES_TOGETHER: usize = 256;
/// How long an agent has to end by itself after its last step, and again after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The agent's first lines: its identity, its context, and the tool calls without a result.
pub(crate) fn opening(
    store: &Store,
    instance: &AgentInstance,
    run: &Run,
    (how, task): (&'static str, Option<&str>),
    last_sequence: u64,
) -> Result<Opening> {
    let context = store.context(instance.id)?;
    let dangling = context
        .dangling_tool_calls()?
        .into_iter()
        .map(|call| Dangling {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
            sequence: call.sequence_number,
        });
    let ready = Ready {
        dangling_tool_calls: dangling.collect(),
    };
    let definition = store
        .agents()
        .get(run.project.as_deref(), &run.agent_name)?;
    let hello = Hello {
        protocol: PROTOCOL,
        runlog: env!("CARGO_PKG_VERSION"),
        session_id: instance.session_id,
        instance_id: instance.id,
        run_id: run.id,
        agent: instance.agent_name.clone(),
        started: how,
        last_sequence,
        step_count: run.step_count,
        max_steps: run.max_steps,
        resumed_from: run.resumed_from,
        parent_run_id: run.parent_run_id,
        task: task.filter(|task| !task.is_empty()).map(str::to_owned),
        tools: definition.map(|definition| definition.tools),
    };
    let events = store.contexts().events(instance.id, 1)?;
    Ok(Box::new(move |write| {
        let unread =
            |error: std::io::Error| Failure::io(&error, "the agent doesn't read its context");
        write(ToAgent::Hello(&hello).line()).map_err(unread)?;
        for event in events {
            let event = event?;
            if event.sequence_number > last_sequence {
                break;
            }
            if let Some(message) = event.message_json()? {
                let line = ToAgent::Message {
                    sequence: event.sequence_number,
                    message: &message,
                }
                .line();
                write(line).map_err(unread)?;
            }
        }
        write(ToAgent::Ready(&ready).line()).map_err(unread)
    }))
}

/// Records the agent's lines until it has ended, and calls `answer` with the result of each; returns how it ended, and
/// the signal that stopped it.
pub(crate) fn record(
    mut child: Child,
    recorder: &mut Recorder,
    answer: &mut dyn FnMut(&mut Child, Vec<Recorded>) -> Result<()>,
) -> Result<(Ended, Option<i32>)> {
    let mut stopped_by = None;
    let mut next = None;
    loop {
        let event = match next.take() {
            Some(event) => event,
            None => child.next()?,
        };
        match event {
            ChildEvent::Line(line) => {
                let mut lines = vec![line];
                while lines.len() < LINES_TOGETHER && next.is_none() {
                    match child.next_now() {
                        Some(ChildEvent::Line(line)) => lines.push(line),
                        Some(other) => next = Some(other),
                        None => break,
                    }
                }
                answer(&mut child, recorder.take(lines)?)?;
            }
            ChildEvent::Signal(signal) => {
                stop(&mut child, "interrupted", signal, stopped_by.is_some());
                stopped_by.get_or_insert(signal);
            }
            ChildEvent::RunOver => {
                stop(&mut child, "run_over", SIGTERM, stopped_by.is_some());
                stopped_by.get_or_insert(SIGTERM);
            }
            ChildEvent::Failed(failure) => {
                return Err(failure.about("the context can't be given to the agent"));
            }
            ChildEvent::End(ended) => return Ok((ended, stopped_by)),
        }
    }
}

/// Forwards the first signal, and kills at the second one.
fn stop(child: &mut Child, reason: &'static str, signal: i32, again: bool) {
    if again {
        return child.kill();
    }
    child.send(ToAgent::Stop { reason }.line());
    // A terminal sends Ctrl-C to the agent too; forwarded, it would arrive twice.
    let by_terminal = signal == 2 && std::io::IsTerminal::is_terminal(&std::io::stdin());
    if !by_terminal {
        child.signal(signal);
    }
}

/// Writes the result of a line to the agent.
///
/// # Errors
/// If the agent doesn't speak the protocol.
pub(crate) fn reply(
    child: &mut Child,
    recorded: &Recorded,
    spawner: Option<&mut Spawner>,
) -> Result<()> {
    match recorded {
        Recorded::Ask(ask) => match spawner {
            Some(spawner) => spawner.ask(ask.clone(), child.sender()),
            None => child.send(spawn::none(ask)),
        },
        Recorded::Ack(ack, _) => child.send(ToAgent::Ack(ack).line()),
        Recorded::TakesCommands => {
            if let Some(spawner) = spawner {
                spawner.deliver(child.sender());
            }
        }
        Recorded::Described(id) => {
            child.send(ToAgent::Described { id: id.as_ref() }.line());
        }
        Recorded::Step(step) => child.send(ToAgent::Step(step).line()),
        Recorded::Refused(refusal) => child.send(ToAgent::Error(refusal).line()),
        Recorded::BudgetSpent(refusal) => {
            child.send(ToAgent::Error(refusal).line());
            child.send(
                ToAgent::Stop {
                    reason: "step_budget",
                }
                .line(),
            );
            child.close_input();
            child.end_within(STOP_PATIENCE);
        }
        Recorded::OtherProtocol(refusal) => {
            child.send(ToAgent::Error(refusal).line());
            child.close_input();
            let message = format!("the agent can't be run: {}", refusal.message);
            return Err(Failure::new(Exit::Failure, UNSUPPORTED_PROTOCOL, message));
        }
        Recorded::Done => child.close_input(),
    }
    Ok(())
}

/// How a run of an agent ended, derived from its lines and its exit status.
pub(crate) enum Conclusion {
    /// It completed, with its summary.
    Completed(Option<String>),
    /// It can be resumed.
    Paused(Stop),
    /// It failed.
    Failed(String),
}

impl Conclusion {
    /// The conclusion of an agent whose process has ended.
    pub(crate) fn of(recorder: &Recorder, ended: Ended, stopped_by: Option<i32>) -> Self {
        let done = recorder.done();
        let error = done.and_then(|done| done.error_message.clone());
        let failed = match (ended.code, ended.signal) {
            (Some(0), _) if recorder.done_refused().is_none() => recorder.is_other_program().then(|| {
                match recorder.refused() {
                    0 => "the program doesn't speak the agent protocol: it said nothing".to_owned(),
                    refused => format!(
                        "the program doesn't speak the agent protocol: none of its {refused} lines could be read"
                    ),
                }
            }),
            // Its refused line may have reported a failure, so exit code 0 alone doesn't mean that it completed.
            (Some(0), _) => recorder.done_refused().map(|why| format!("the agent's `done` line was refused: {why}")),
            (Some(code), _) => Some(format!("the agent ended with exit code {code}")),
            (None, Some(signal)) => Some(format!("the agent was ended by signal {signal}")),
            (None, None) => Some("the agent ended without saying how".to_owned()),
        };
        let is_done = done.is_some() && failed.is_none();
        if let Some(signal) = stopped_by.filter(|_| !is_done) {
            let reason = format!("interrupted: signal {signal} told runlog to stop");
            return Self::Paused(Stop::new(StopKind::Shutdown, reason));
        }
        if let Some(why) = error.or(failed) {
            return Self::Failed(why);
        }
        match done.and_then(|done| done.pause_reason.clone()) {
            Some(reason) if stopped_by.is_some() => {
                Self::Paused(Stop::new(StopKind::Shutdown, reason))
            }
            Some(reason) => Self::Paused(reason.into()),
            None => Self::Completed(done.and_then(|done| done.summary.clone())),
        }
    }
}
