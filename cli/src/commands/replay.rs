//! `runlog replay`: prints recorded events again, in order, and with `--speed` at their pace.

use std::{thread, time::Duration};

use runlog::contexts::ContextEvent;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find::{self, Subject},
    history::{self, HistoryItem},
    output::{Out, note},
    pace::{Pace, PaceArgs},
    store, text, view,
};

const AFTER_HELP: &str = "\
A replay shows what was recorded; no agent and no tool is run. --from and --to are sequences of the session's first \
agent (of the instance, where one is given), both inclusive; with either only that agent's events are replayed, \
else those of all agents in the order in which they happened.

With --json: a line for each event, {\"position\", \"instance_id\", \"sequence_number\", \"event_type\", \"content\", \
\"tool_call_id\", \"tool_results\", \"run_id\", \"step_number\", \"created_at_ms\", \"redacted\"}.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The session, or the agent instance
    #[arg(value_name = "SESSION|INSTANCE")]
    subject: String,
    /// The first sequence to replay
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// The last sequence to replay
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    #[command(flatten)]
    pace: PaceArgs,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
    {
        return Err(Failure::usage(format!(
            "--from {from} comes after --to {to}"
        )));
    }
    let pace = args.pace.pace()?;
    let store = store::open_read_only(global)?;
    let subject = find::subject(&store, &args.subject)?;
    let mut instances = subject.instances().to_vec();
    if matches!(subject, Subject::Session(..)) && (args.from.is_some() || args.to.is_some()) {
        instances = vec![store.root_instance(subject.session().id)?];
    }
    let several = instances.len() > 1;
    let mut before = None;
    let (mut first, mut last) = (None, 0);
    for item in history::history(&store, subject.session(), &instances)? {
        let HistoryItem::Event(event, _) = item? else {
            continue;
        };
        last = event.sequence_number;
        if args.from.is_some_and(|from| event.sequence_number < from) {
            continue;
        }
        if args.to.is_some_and(|to| event.sequence_number > to) {
            break;
        }
        if let Some(pace) = pace {
            wait(
                pace,
                before.replace(event.created_at_ms),
                event.created_at_ms,
            );
        }
        let first = *first.get_or_insert(event.created_at_ms);
        let agent = instances
            .iter()
            .find(|it| several && it.id == event.instance_id);
        print(&event, first, agent.map(|it| it.agent_name.as_str()), out)?;
        if pace.is_some() || out.is_terminal() {
            out.flush()?;
        }
    }
    if first.is_none() {
        let from = args.from.map(|from| format!(" from {from}"));
        let from = from.unwrap_or_default();
        note(
            out.is_json(),
            match last {
                0 => "there are no events yet".to_owned(),
                last => format!("there are no events{from}; the last is {last}"),
            },
        );
    }
    Ok(Exit::Ok)
}

fn print(event: &ContextEvent, first_ms: u64, agent: Option<&str>, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(event);
    }
    let since = Duration::from_millis(event.created_at_ms.saturating_sub(first_ms));
    let agent = agent
        .map(|agent| text::pad(&text::one_line(agent, 12), 13))
        .unwrap_or_default();
    let kind = text::pad(view::kind_name(event.event_type), 11);
    let start = format!(
        "{:>4}  {:>9}  {agent}",
        event.sequence_number,
        format!("+{:.1} s", since.as_secs_f64())
    );
    let width = out
        .width()
        .saturating_sub(console::measure_text_width(&start) + 13);
    let said = view::summary(event, width.max(20));
    out.line(format!("{start}{}  {said}", view::styled(event.event_type, &kind)).trim_end())
}

/// Waits for the time between two events, at a pace.
fn wait(pace: Pace, before_ms: Option<u64>, now_ms: u64) {
    let gap = Duration::from_millis(now_ms.saturating_sub(before_ms.unwrap_or(now_ms)));
    let wait = Duration::try_from_secs_f64(gap.as_secs_f64() / pace.speed).unwrap_or(pace.wait_max);
    thread::sleep(wait.min(pace.wait_max));
}
