//! `runlog replay`: prints recorded events again, in order, and with `--speed` at their pace.

use std::{thread, time::Duration};

use runlog::{AgentInstance, Session, blocking::Store, contexts::ContextEvent};

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find::{self, Subject},
    history::{self, HistoryItem},
    output::{Out, note},
    pace::{Pace, PaceArgs},
    read, store, text, view,
};

const AFTER_HELP: &str = "\
A replay shows what was recorded; no agent and no tool is run. --from and --to are sequences of the session's first \
agent (of the instance, where one is given), both inclusive; with either only that agent's events are replayed, \
else those of all agents in the order in which they happened. A chat, in which no agent has a context, is shown by `runlog show`.

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
    if read::is_only_chat(&store, subject.session())? {
        let session = &args.subject;
        return Err(Failure::not_found(format!(
            "{session} is a chat, in which no agent has a context to be replayed; `runlog show {session}` shows its messages"
        )));
    }
    let mut instances = subject.instances().to_vec();
    if matches!(subject, Subject::Session(..)) && (args.from.is_some() || args.to.is_some()) {
        instances = vec![store.root_instance(subject.session().id)?];
    }
    let several = instances.len() > 1;
    let mut before = None;
    let mut first = None;
    for event in events(&store, subject.session(), &instances, args)? {
        let event = event?;
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
        let ends = instances.iter().map(|it| read::event_count(&store, it.id));
        let last = ends.collect::<Result<Vec<_>>>()?.into_iter().max();
        let from = args.from.map(|from| format!(" from {from}"));
        let from = from.unwrap_or_default();
        note(
            out.is_json(),
            match last.unwrap_or(0) {
                0 => "there are no events yet".to_owned(),
                last => format!("there are no events{from}; the last is {last}"),
            },
        );
    }
    Ok(Exit::Ok)
}

/// The events to replay. Of one instance only those that are asked for are read: what is damaged elsewhere is no matter.
fn events<'a>(
    store: &'a Store,
    session: &Session,
    instances: &'a [AgentInstance],
    args: &Args,
) -> Result<Box<dyn Iterator<Item = Result<ContextEvent>> + 'a>> {
    if let [instance] = instances {
        let from = args.from.unwrap_or(1).max(1);
        let events = store.contexts().events(instance.id, from)?;
        let Some(to) = args.to else {
            return Ok(Box::new(events.map(|event| Ok(event?))));
        };
        let span = to.saturating_add(1).saturating_sub(from);
        let events = events.beginning_with(span.max(1));
        let events = events.take(usize::try_from(span).unwrap_or(usize::MAX));
        return Ok(Box::new(events.map(|event| Ok(event?))));
    }
    let history = history::history(store, session, instances)?;
    Ok(Box::new(history.filter_map(|item| match item {
        Ok(HistoryItem::Event(event, _)) => Some(Ok(event)),
        Ok(HistoryItem::Other(..)) => None,
        Err(failure) => Some(Err(failure)),
    })))
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
