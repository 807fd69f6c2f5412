//! `runlog tail`: prints the newest events of the whole store, and follows new ones.

use std::{collections::VecDeque, thread, time::Duration};

use runlog::log::{Position, Record};
use runlog::{AgentInstance, InstanceId, Store, contexts::ContextEvent};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    output::Out,
    owners::{Owner, Owners, Topic},
    read,
    record_line::{self, RecordLine},
    store, text, view,
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
Shown are what agents said and did, the messages, steps and requests of chats, and the events of flows. Not shown are the lists \
of the store, such as titles of sessions, and how runs went: `runlog runs` has that.

With -f it goes on until it is stopped, also while another process writes.

With --json: a line for each event of an agent, as `runlog replay --json`, with \"session_id\" and \"agent_name\"; for one of a \
chat or a flow {\"topic\": \"chat\" or \"flow\", \"position\", \"stream_id\", \"sequence_number\", \"kind\", \"recorded_at\", \
\"session_id\", \"run_id\", \"payload\": what was recorded}, without what there isn't.";

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

/// A record of a chat or a flow, for a program.
#[derive(Serialize)]
struct OtherLine {
    topic: Topic,
    #[serde(flatten)]
    record: RecordLine,
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

/// The newest `number` records that are shown, the oldest of them first.
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
                if shown(store, owners, &record)?.is_some() {
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

/// What a record is about, and whose stream it is in; `None` for what isn't shown.
fn shown(store: &Store, owners: &mut Owners, record: &Record) -> Result<Option<(Topic, Owner)>> {
    if !record.kind.is_data() {
        return Ok(None);
    }
    let owner = pollster::block_on(owners.of(store, record.stream))?;
    let topic = Topic::of(&owner, record);
    let is_shown = matches!(topic, Topic::Context | Topic::Chat | Topic::Flow);
    Ok(is_shown.then_some((topic, owner)))
}

fn print(store: &Store, owners: &mut Owners, record: &Record, out: &mut Out) -> Result<()> {
    match shown(store, owners, record)? {
        Some((_, Owner::Instance(instance))) => print_event(&instance, record, out),
        Some((topic, owner)) => print_other(topic, &owner, record, out),
        None => Ok(()),
    }
}

fn print_event(instance: &AgentInstance, record: &Record, out: &mut Out) -> Result<()> {
    let event = ContextEvent::decode(InstanceId(record.stream.0), record)?;
    if out.is_json() {
        let agent_name = instance.agent_name.as_str();
        return out.value(&Line {
            event: &event,
            session_id: instance.session_id,
            agent_name,
        });
    }
    let start = Start {
        at_ms: event.created_at_ms,
        id: instance.session_id.to_string(),
        name: &instance.agent_name,
        sequence: event.sequence_number,
    };
    let kind = view::kind_name(event.event_type);
    let styled = |kind: &str| view::styled(event.event_type, kind);
    start.print(kind, styled, |width| view::summary(&event, width), out)
}

/// Prints a record of a chat or a flow.
fn print_other(topic: Topic, owner: &Owner, record: &Record, out: &mut Out) -> Result<()> {
    let line = RecordLine::of(owner, record);
    if out.is_json() {
        return out.value(&OtherLine {
            topic,
            record: line,
        });
    }
    let start = Start {
        at_ms: record.time_ms,
        id: owner.session().map_or_else(
            || record.stream.0.to_string(),
            |session| session.to_string(),
        ),
        name: topic.name(),
        sequence: record.sequence.0,
    };
    let (kind, said) = record_line::said(topic, record);
    start.print(
        kind,
        str::to_owned,
        |width| text::one_line(&said, width),
        out,
    )
}

/// What a line begins with.
struct Start<'a> {
    at_ms: u64,
    /// The session, or the flow that is of none.
    id: String,
    name: &'a str,
    sequence: u64,
}

impl Start<'_> {
    fn print(
        &self,
        kind: &str,
        styled: impl Fn(&str) -> String,
        said: impl Fn(usize) -> String,
        out: &mut Out,
    ) -> Result<()> {
        let mut start = format!(
            "{}  {}",
            text::time_of_year(self.at_ms),
            &self.id[..13.min(self.id.len())]
        );
        // Each agent of a session has numbers of its own.
        if out.width() >= NAMED_FROM {
            let name = text::one_line(self.name, NAME_WIDTH);
            start = format!("{start}  {}", text::pad(&name, NAME_WIDTH));
        }
        let width = out
            .width()
            .saturating_sub(console::measure_text_width(&start) + 23);
        let line = format!(
            "{}  {:>5}  {}  {}",
            console::style(start).dim(),
            self.sequence,
            styled(&text::pad(kind, 11)),
            said(width.max(20))
        );
        out.line(line.trim_end())
    }
}
