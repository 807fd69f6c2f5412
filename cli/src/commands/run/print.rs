//! The output of `runlog run`, and its answers to the agent.

use runlog::{Run, RunId, RunStatus};
use serde::Serialize;

use super::start::Started;
use crate::{
    agent::{Ack, Child, Ended, Recorded, Recorder, Refusal, Spawner, Step, reply},
    failure::Result,
    output::{Out, note, to_stderr},
    text, view,
};

/// The most refused lines that are printed for people; the others are counted.
const REFUSALS_SHOWN: u64 = 20;
/// The most of a reason that is printed for people.
const REASON_WIDTH: usize = 200;

/// The result of a line, for a program. An id in it is any JSON of the agent's, also such as no `serde_json::Value` can hold,
/// like 1e400.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer<'a> {
    Ack(&'a Ack),
    Step(&'a Step),
    Error(&'a Refusal),
}

/// How an agent ended, and what was recorded of it.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    run_id: RunId,
    status: RunStatus,
    step_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a str>,
    /// Why it was paused, or what failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    events: u64,
    refused: u64,
    seconds: f64,
}

impl<'a> Report<'a> {
    /// The report of a run that took this many seconds.
    pub(super) fn new(run: &'a Run, ended: Ended, recorder: &Recorder, seconds: f64) -> Self {
        Self {
            run_id: run.id,
            status: run.status,
            step_count: run.step_count,
            summary: run.summary.as_deref(),
            reason: run.pause_reason.as_deref().or(run.error_message.as_deref()),
            exit_code: ended.code,
            signal: ended.signal,
            events: recorder.events(),
            refused: recorder.refused(),
            seconds,
        }
    }
}

/// Reports the result of a line to the agent and to the user; `refusals` counts those printed.
pub(super) fn answer(
    child: &mut Child,
    recorded: Recorded,
    spawner: Option<&mut Spawner>,
    refusals: &mut u64,
    out: &mut Out,
) -> Result<()> {
    reply(child, &recorded, spawner)?;
    match recorded {
        Recorded::Ack(ack, events) => {
            if out.is_json() {
                return out.value(&Answer::Ack(&ack));
            }
            if ack.repeated {
                let why = "recorded before: its key was used already";
                return out.line(format!(
                    "{:>5}  {}",
                    ack.sequence,
                    console::style(why).dim()
                ));
            }
            for (sequence, event) in (ack.sequence..).zip(&events) {
                let kind = text::pad(view::kind_name(event.kind), 11);
                let said =
                    view::summary_of(event.kind, &event.content, out.width().saturating_sub(20));
                out.line(
                    format!("{sequence:>5}  {}  {said}", view::styled(event.kind, &kind))
                        .trim_end(),
                )?;
            }
            Ok(())
        }
        Recorded::Step(step) => {
            if out.is_json() {
                return out.value(&Answer::Step(&step));
            }
            out.line(format!(
                "       {}",
                console::style(format!("step {}", step.step)).dim()
            ))
        }
        Recorded::Refused(refusal) | Recorded::BudgetSpent(refusal) => {
            refused(&refusal, refusals, out)
        }
        Recorded::Ask(_)
        | Recorded::Described(_)
        | Recorded::TakesCommands
        | Recorded::OtherProtocol(_)
        | Recorded::Done => Ok(()),
    }
}

fn refused(refusal: &Refusal, refusals: &mut u64, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(&Answer::Error(refusal));
    }
    *refusals += 1;
    // What sends back what it is sent is refused over and over for the same reason, and then ended with an error that says so.
    if refusal.is_echo && *refusals > 1 {
        return Ok(());
    }
    if *refusals > REFUSALS_SHOWN {
        if *refusals == REFUSALS_SHOWN + 1 {
            to_stderr(
                "… more lines are refused; how many is reported at the end, and --json reports each",
            );
        }
        return Ok(());
    }
    let word = console::style("refused").for_stderr().red();
    let what = text::one_line(&refusal.message, 300);
    to_stderr(&format!(
        "{word} line {} of the agent ({}): {what}",
        refusal.line, refusal.code
    ));
    Ok(())
}

/// Prints how the run was started.
pub(super) fn print_start(started: &Started, last_sequence: u64, out: &mut Out) -> Result<()> {
    let Started {
        session,
        instance,
        run,
        how,
    } = started;
    let run = run.run();
    if out.is_json() {
        out.value(&serde_json::json!({"started": {
            "session_id": session.id, "instance_id": instance.id, "run_id": run.id, "how": how,
            "last_sequence": last_sequence, "step_count": run.step_count, "resumed_from": run.resumed_from,
        }}))?;
        return out.flush();
    }
    let from = match last_sequence {
        0 => String::new(),
        last => format!(", from event {}", last + 1),
    };
    note(false, format!("{how} session {}{from}", session.id));
    Ok(())
}

/// Prints how it ended.
pub(super) fn print_end(started: &Started, report: &Report<'_>, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(&serde_json::json!({"ended": report}));
    }
    let how = match (report.exit_code, report.signal) {
        (Some(0), _) if report.status == RunStatus::Failed => "the agent failed".to_owned(),
        (Some(0), _) => "the agent is done".to_owned(),
        (Some(code), _) => format!("the agent failed with exit code {code}"),
        (None, Some(signal)) => format!("the agent was ended by signal {signal}"),
        (None, None) => "the agent ended".to_owned(),
    };
    let mut line = format!(
        "{how}; recorded {}",
        text::count(report.events, "event", "events")
    );
    if report.step_count > 0 {
        let steps = text::count(report.step_count.into(), "step", "steps");
        // They are counted over all resumes, as the limit is.
        let in_all = match started.run.run().resumed_from {
            Some(_) => " in all",
            None => "",
        };
        line += &format!(", {steps}{in_all}");
    }
    if report.refused > 0 {
        line += &format!(", refused {}", text::count(report.refused, "line", "lines"));
    }
    out.flush()?;
    note(false, line);
    let why = report
        .reason
        .map(|reason| format!(" ({})", text::one_line(reason, REASON_WIDTH)))
        .unwrap_or_default();
    note(
        false,
        format!(
            "run {} is {}{why}; `runlog run show {}` tells of it",
            report.run_id, report.status, report.run_id
        ),
    );
    note(
        false,
        format!("`runlog show {}` shows the session", started.session.id),
    );
    Ok(())
}
