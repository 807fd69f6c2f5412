//! `runlog search`: finds a text in everything that is recorded.

use console::measure_text_width;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    filters::Page,
    find,
    output::{Out, note},
    search::{Hit, Search},
    store, table, view,
};

/// From this width on there is room for the names of agents.
const NAMED_FROM: usize = 100;
/// How wide what stands before the text may be, so that the text itself is on the screen.
const BEFORE: usize = 16;

const AFTER_HELP: &str = "\
It looks through messages, tool calls and results, chats, runs and flows, in any case, also where JSON has the text with \
backslashes; in their order in the log. What was truncated is found until a compaction, what was redacted is not. `runlog \
erase --position` takes a position.

With --json one document: {\"items\": [{\"position\", \"topic\", \"session_id\", \"instance_id\", \"agent_name\", \"run_id\", \
\"sequence_number\", \"event_type\", \"created_at_ms\", \"truncated\", \"excerpt\"}], \"next\": the cursor of the next page or null, \"unreadable\": [{\"position\", \"detail\"}] where it is \
damaged}.
What is damaged is not searched: then it ends with exit code 5.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The text
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
    /// Only in what is of this session
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    page: Page,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let session = args.session.as_ref();
    let session = session
        .map(|text| find::session_or_deleted(&store, text))
        .transpose()?;
    let search = Search {
        text: &args.text,
        session: session.map(|session| session.id),
        limit: args.page.limit,
        cursor: args.page.cursor.as_deref(),
        parts_max: usize::MAX,
    };
    let page = pollster::block_on(search.page(&store.to_async()));
    let found = page.map_err(Failure::of_argument)?;
    let exit = if found.unreadable.is_empty() {
        Exit::Ok
    } else {
        Exit::Damaged
    };
    if out.is_json() {
        out.value(&found)?;
        return Ok(exit);
    }
    let position = |hit: &Hit| hit.position.to_string();
    let session = |hit: &Hit| hit.session_id.map_or_else(String::new, |id| id.to_string());
    let agent = |hit: &Hit| hit.agent_name.clone().unwrap_or_default();
    let number = |hit: &Hit| hit.sequence_number.to_string();
    let mut columns: Vec<table::Cells<'_, Hit>> = vec![
        (table::right("position"), &position),
        (table::left("session", 13), &session),
    ];
    if out.width() >= NAMED_FROM {
        columns.push((table::left("agent", 12), &agent));
    }
    columns.push((table::right("number"), &number));
    columns.push((table::left("kind", 11), &kind));
    columns.push((table::left("text", 200), &shown));
    table::items(&found.items, "nothing has this text", &columns, out)?;
    table::next(found.next.as_deref(), out)?;
    for damage in &found.unreadable {
        note(false, format!("not searched: {}", damage.detail));
    }
    Ok(exit)
}

fn kind(hit: &Hit) -> String {
    let kind = hit.event_type.map_or(hit.topic.name(), view::kind_name);
    kind.to_owned()
}

/// The excerpt in one line, from a little before the text on.
fn shown(hit: &Hit) -> String {
    let (before, rest) = hit.excerpt.split_at_checked(hit.before).unwrap_or_default();
    let is_seen = |char: char| !char.is_whitespace() && !char.is_control();
    let before = before
        .chars()
        .map(|char| if is_seen(char) { char } else { ' ' });
    let before: String = before.collect();
    let fitting = before.char_indices().map(|(at, _)| at).find(|at| {
        before
            .get(*at..)
            .is_some_and(|end| measure_text_width(end) <= BEFORE)
    });
    let before = match fitting {
        Some(0) | None => before,
        Some(at) => format!("…{}", before.get(at..).unwrap_or_default()),
    };
    let note = if hit.truncated { "(truncated) " } else { "" };
    format!("{note}{before}{rest}")
}
