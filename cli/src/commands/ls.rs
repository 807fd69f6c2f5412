//! `runlog ls`: lists the sessions, the last created first.

use runlog::{
    AgentInstance, Session,
    blocking::Store,
    sessions::{Deleted, ListSessions, SessionStatus},
};
use serde::Serialize;

use crate::{
    args::{Global, at_least},
    failure::{Exit, Failure, Result},
    find,
    output::Out,
    read, store, table, text,
};

const AFTER_HELP: &str = "\
The order is that in which sessions came into the store, the last one first; \"made\" is when a session was made, which an \
import keeps, so that imported ones may stand out of its order.

The first column is the beginning of the session's id, as long as it has to be to name it. Events are those of the agents' \
contexts; the messages of a chat, whose title begins with [chat], are not among them: `runlog chat messages` lists those.

With --json: a line for each session, with its fields (\"chat\" where it is one), \"events\" (of all its instances), and with --instances \
\"instances\": [{\"id\", \"agent_name\", \"parent_instance_id\", \"events\", …}].";

/// The most columns of a session's name.
const NAME_MOST: usize = 36;
/// The fewest columns of names and titles, however narrow the screen is.
const NAME_LEAST: usize = 12;
const TITLE_LEAST: usize = 10;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// List the agent instances of each session too
    #[arg(long)]
    instances: bool,
    /// At most so many sessions [default: 50, and all of them with --json]
    #[arg(short = 'n', long, value_name = "N",
        value_parser = at_least::<usize>(1))]
    limit: Option<usize>,
    /// Go on where the page before ended, with the same filters
    #[arg(long, value_name = "C")]
    cursor: Option<String>,
    /// Only the sessions of this project
    #[arg(long)]
    project: Option<String>,
    /// Deleted sessions too
    #[arg(long)]
    deleted: bool,
}

#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    session: &'a Session,
    events: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<Vec<InstanceRow>>,
}

#[derive(Serialize)]
struct InstanceRow {
    #[serde(flatten)]
    instance: AgentInstance,
    events: u64,
}

/// How many sessions a person is shown who doesn't say.
const SHOWN: usize = 50;
/// How many are read at a time for a program.
const PAGE: usize = 1_000;

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let mut options = ListSessions {
        project: args.project.clone(),
        deleted: if args.deleted {
            Deleted::Shown
        } else {
            Deleted::Hidden
        },
        cursor: args.cursor.clone(),
        ..ListSessions::default()
    };
    if out.is_json() {
        let mut left = args.limit.unwrap_or(usize::MAX);
        while left > 0 {
            options.limit = left.min(PAGE);
            let page = store
                .list_sessions(&options)
                .map_err(Failure::of_argument)?;
            left -= page.items.len();
            for session in &page.items {
                let instances = instances_of(&store, session)?;
                out.value(&Row {
                    session,
                    events: instances.iter().map(|it| it.events).sum(),
                    instances: Some(instances).filter(|_| args.instances),
                })?;
            }
            options.cursor = page.next;
            if options.cursor.is_none() {
                break;
            }
        }
        return Ok(Exit::Ok);
    }
    let limit = args.limit.unwrap_or(SHOWN);
    options.limit = limit.min(100_000);
    let page = store
        .list_sessions(&options)
        .map_err(Failure::of_argument)?;
    if page.items.is_empty() {
        let is_empty = store
            .list_sessions(&ListSessions {
                limit: 1,
                ..ListSessions::default()
            })?
            .items
            .is_empty();
        // Only those of no run are there without a session.
        let has_flows = is_empty && find::flows(&store).next().transpose()?.is_some();
        out.line(match (is_empty, has_flows) {
            (true, true) => "no sessions yet, but flows of no run, which `runlog flows` lists",
            (true, false) => {
                "no sessions yet; `runlog import FILE…` or `runlog run -- CMD…` makes some"
            }
            _ => "no sessions match",
        })?;
        return Ok(Exit::Ok);
    }
    let id_width = id_width(&store, &page.items)?;
    let mut rows = Vec::new();
    for session in &page.items {
        let instances = instances_of(&store, session)?;
        let events = instances.iter().map(|it| it.events).sum();
        rows.push((session, events, instances));
    }
    print(&rows, id_width, args, out)?;
    if let Some((session, ..)) = rows.iter().find(|(session, ..)| session.chat.is_some()) {
        out.line(format!(
            "`runlog chats` lists the chats, `runlog chat messages {}` the messages of one",
            session.id
        ))?;
    }
    table::next(page.next, out)?;
    Ok(Exit::Ok)
}

/// The instances of a session; those of a deleted one can't be listed.
fn instances_of(store: &Store, session: &Session) -> Result<Vec<InstanceRow>> {
    let instances = store.instances(session.id).unwrap_or_default();
    let row = |instance: AgentInstance| {
        Ok(InstanceRow {
            events: read::event_count(store, instance.id)?,
            instance,
        })
    };
    instances.into_iter().map(row).collect()
}

/// The length of an id's prefix that is unique among all sessions of the store.
fn id_width(store: &Store, sessions: &[Session]) -> Result<usize> {
    let mut width = 8;
    for session in sessions {
        let id = session.id.to_string();
        while width < id.len() && store.find_session(&id[..width]).is_err() {
            width += 1;
        }
    }
    Ok(width)
}

fn print(
    rows: &[(&Session, u64, Vec<InstanceRow>)],
    id_width: usize,
    args: &Args,
    out: &mut Out,
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let counts = rows
        .iter()
        .map(|(_, events, _)| text::thousands(*events).len());
    let events_width = counts.max().unwrap_or_default().max("events".len());
    let made_width = rows
        .iter()
        .map(|(session, ..)| text::time_to_minute(session.created_at_ms).len());
    let made_width = made_width
        .max()
        .unwrap_or_default()
        .max("created (UTC)".len());
    let several = rows.iter().any(|(.., instances)| instances.len() > 1);
    // The name gets the columns that the others leave, except those for the beginning of a title.
    let others = id_width + events_width + made_width + if several { 16 } else { 8 };
    let name_most = out
        .width()
        .saturating_sub(others + TITLE_LEAST)
        .clamp(NAME_LEAST, NAME_MOST);
    let names = rows.iter().map(|(session, ..)| {
        text::one_line(session.name.as_deref().unwrap_or_default(), name_most)
    });
    let name_width = names
        .map(|name| console::measure_text_width(&name))
        .max()
        .unwrap_or_default()
        .max(4);
    let agents = |count: &str| {
        if several {
            format!("{count:>6}  ")
        } else {
            String::new()
        }
    };
    let head = format!(
        "{}  {}  {}{:>events_width$}  {:<made_width$}  title",
        text::pad("session", id_width),
        text::pad("name", name_width),
        agents("agents"),
        "events",
        "created (UTC)"
    );
    let title_width = out.width().saturating_sub(head.len() - 5).max(TITLE_LEAST);
    out.line(console::style(head).bold().to_string())?;
    for (session, events, instances) in rows {
        let id = session.id.to_string();
        let mut title = session.title.clone().unwrap_or_default();
        if let Some(source) = session.copied_from {
            let source = source.to_string();
            title.insert_str(
                0,
                &format!("[copy of {}] ", &source[..id_width.min(source.len())]),
            );
        }
        if session.chat.is_some() {
            title.insert_str(0, "[chat] ");
        }
        if session.status == SessionStatus::Archived {
            title.insert_str(0, "[archived] ");
        }
        if session.deleted_at_ms.is_some() {
            title.insert_str(0, "[deleted] ");
        }
        let name = text::one_line(session.name.as_deref().unwrap_or("-"), name_width);
        let line = format!(
            "{}  {}  {}{:>events_width$}  {:<made_width$}  {}",
            console::style(&id[..id_width.min(id.len())]).yellow(),
            text::pad(&name, name_width),
            agents(&instances.len().to_string()),
            text::thousands(*events),
            text::time_to_minute(session.created_at_ms),
            text::one_line(&title, title_width)
        );
        out.line(line.trim_end())?;
        for row in instances.iter().filter(|_| args.instances) {
            let role = if row.instance.parent_instance_id.is_some() {
                "└─ "
            } else {
                "── "
            };
            let line = format!(
                "  {role}{}  {}  ",
                row.instance.id,
                text::count(row.events, "event", "events")
            );
            let left = out
                .width()
                .saturating_sub(console::measure_text_width(&line))
                .max(TITLE_LEAST);
            out.line(line + &text::one_line(&row.instance.agent_name, left))?;
        }
    }
    Ok(())
}
