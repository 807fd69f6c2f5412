//! `runlog tail`: prints the newest events of the whole store, and follows new ones.

use std::{collections::VecDeque, sync::Arc, thread, time::Duration};

use runlog::log::{Position, Record};
use runlog::{
    AgentInstance, InstanceId, Store,
    contexts::{ContextEvent, ContextEventKind},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
    owners::{Owner, Owners},
    read, store, text, view,
};

/// How many records are read at a time.
const PAGE_RECORDS: u64 = 1000;
/// From this width on there is room for the names of agents,
const NAMED_FROM: usize = 100;
/// each so wide.
const NAME_WIDTH: usize = 12;
/// The interval at which the store is polled: another process writes, and can't wake this one.
const POLL: Duration = Duration::from_millis(50);

const AFTER_HELP: &str = "\
With -f it goes on until it is stopped, also while another process writes.

With --json: a line for each event, as `runlog replay --json`, with \"session_id\" and \"agent_name\".";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Go on with the events that come
    #[arg(short, long)]
    follow: bool,
    /// How many of the newest events to print first
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    number: usize,
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    event: &'a ContextEvent,
    session_id: runlog::SessionId,
    agent_name: &'a str,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let reader = store::open_read_only(global)?;
    let store = reader.to_async();
    let mut owners = Owners::default();
    let last = read::last_position(&reader)?;
    for record in newest(&store, &mut owners, last, args.number)? {
        print(&store, &mut owners, &record, out)?;
    }
    if !args.follow {
        return Ok(Exit::Ok);
    }
    let mut seen = last;
    loop {
        out.flush()?;
        let durable = read::last_position(&reader)?;
        if durable <= seen {
            if out.is_closed() {
                return Ok(Exit::Ok);
            }
            thread::sleep(POLL);
            continue;
        }
        let mut next = Some(seen.next());
        while let Some(first) = next.filter(|first| *first <= durable) {
            let page = pollster::block_on(store.backend().scan(first, PAGE_RECORDS))?;
            for record in page
                .records
                .iter()
                .take_while(|record| record.position <= durable)
            {
                seen = record.position;
                print(&store, &mut owners, record, out)?;
            }
            next = page.next;
        }
        seen = seen.max(durable);
    }
}

/// The newest `number` records that are events of a context, the oldest of them first.
fn newest(
    store: &Store,
    owners: &mut Owners,
    last: Position,
    number: usize,
) -> Result<Vec<Record>> {
    let mut found: VecDeque<Record> = VecDeque::new();
    let mut end = last.next();
    let mut span = (number as u64).saturating_mul(2).max(64);
    while found.len() < number && end > Position::FIRST {
        let first = Position(end.0.saturating_sub(span).max(1));
        let mut piece = Vec::new();
        let mut next = Some(first);
        while let Some(from) = next.filter(|from| *from < end) {
            let page = pollster::block_on(store.backend().scan(from, PAGE_RECORDS))?;
            for record in page
                .records
                .into_iter()
                .take_while(|record| record.position < end)
            {
                if context_of(store, owners, &record)?.is_some() {
                    piece.push(record);
                }
            }
            next = page.next;
        }
        for record in piece.into_iter().rev().take(number - found.len()) {
            found.push_front(record);
        }
        end = first;
        span = span.saturating_mul(4);
    }
    Ok(found.into())
}

/// The instance in whose context a record is an event; `None` for all others.
fn context_of(
    store: &Store,
    owners: &mut Owners,
    record: &Record,
) -> Result<Option<Arc<AgentInstance>>> {
    if ContextEventKind::from_byte(record.kind.0).is_none() {
        return Ok(None);
    }
    match pollster::block_on(owners.of(store, record.stream))? {
        Owner::Instance(instance) => Ok(Some(instance)),
        _ => Ok(None),
    }
}

fn print(store: &Store, owners: &mut Owners, record: &Record, out: &mut Out) -> Result<()> {
    let Some(instance) = context_of(store, owners, record)? else {
        return Ok(());
    };
    let event = ContextEvent::decode(InstanceId(record.stream.0), record)?;
    if out.is_json() {
        let agent_name = instance.agent_name.as_str();
        return out.value(&Line {
            event: &event,
            session_id: instance.session_id,
            agent_name,
        });
    }
    let session = instance.session_id.to_string();
    let mut start = format!(
        "{}  {}",
        text::time_of_year(event.created_at_ms),
        &session[..13.min(session.len())]
    );
    // Each agent of a session has numbers of its own.
    if out.width() >= NAMED_FROM {
        let name = text::one_line(&instance.agent_name, NAME_WIDTH);
        start = format!("{start}  {}", text::pad(&name, NAME_WIDTH));
    }
    let kind = text::pad(view::kind_name(event.event_type), 11);
    let width = out
        .width()
        .saturating_sub(console::measure_text_width(&start) + 23);
    let said = view::summary(&event, width.max(20));
    let kind = view::styled(event.event_type, &kind);
    out.line(
        format!(
            "{}  {:>5}  {kind}  {said}",
            console::style(start).dim(),
            event.sequence_number
        )
        .trim_end(),
    )
}
