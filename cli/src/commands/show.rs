//! `runlog show`: a conversation, for people.

use std::collections::HashMap;

use runlog::{
    AgentInstance, RawJson, Session,
    blocking::Store,
    chats::{ChatMessage, ListMessages},
    contexts::{ContextEvent, ContextEventKind},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Result},
    find,
    history::{self, HistoryItem},
    json::Json,
    output::Out,
    read, store, text,
    view::{self, Part},
};

/// The most lines of one message or result that are shown.
const LINES_SHOWN: usize = 40;
/// The indentation of a message's content.
const INDENT: usize = 6;
/// Arguments nested deeper than this are shown as JSON.
const INDENT_MAX: usize = 16;

const AFTER_HELP: &str = "\
Each message is shown with its sequence, which is what --to-point, --after, --from and --to mean.

Of a chat, in which no agent has a context, its messages are shown.

With --json: {\"session\": {…}, \"instances\": [{…}]} and then a line for each event, as `runlog replay --json`, or each \
message of a chat.";

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The session, or the agent instance
    #[arg(value_name = "SESSION|INSTANCE")]
    subject: String,
    /// Show long messages and results to their end
    #[arg(long)]
    full: bool,
}

/// What comes before the events, for a program.
#[derive(Serialize)]
struct Head<'a> {
    session: &'a Session,
    instances: &'a [AgentInstance],
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    let store = store::open_read_only(global)?;
    let subject = find::subject(&store, &args.subject)?;
    let (session, instances) = (subject.session(), subject.instances());
    if out.is_json() {
        out.value(&Head { session, instances })?;
        for item in history::history(&store, session, instances)? {
            if let HistoryItem::Event(event, _) = item? {
                out.value(&event)?;
            }
        }
        if instances.is_empty() {
            each_message(&store, session, |message| out.value(message))?;
        }
        return Ok(Exit::Ok);
    }
    let mut events = 0;
    for instance in instances {
        events += read::event_count(&store, instance.id)?;
    }
    let ids: Vec<_> = instances.iter().map(|it| it.id).collect();
    let mut page = Page {
        full: args.full,
        several: instances.len() > 1,
        current: None,
        shown_calls: HashMap::new(),
    };
    if instances.is_empty() {
        let messages = store
            .chats()
            .count_messages(&session.id.to_string(), &Default::default())?;
        let extent = text::count(messages as u64, "message", "messages");
        head(session, instances, extent, out)?;
        each_message(&store, session, |message| page.message(message, out))?;
        return Ok(Exit::Ok);
    }
    head(
        session,
        instances,
        text::count(events, "event", "events"),
        out,
    )?;
    for item in history::history(&store, session, instances)? {
        match item? {
            HistoryItem::Event(event, _) => {
                let agent = instances.iter().find(|it| it.id == event.instance_id);
                page.event(&event, agent, out)?;
            }
            HistoryItem::Other(instance, json) if ids.contains(&instance) => {
                let said = run_note(&json).unwrap_or_else(|| json.as_str().to_owned());
                let line = text::one_line(&said, out.width() - INDENT - 2);
                out.line(format!(
                    "{:INDENT$}{}",
                    "",
                    console::style(format!("· {line}")).dim()
                ))?;
            }
            HistoryItem::Other(..) => {}
        }
    }
    Ok(Exit::Ok)
}

/// Reads the messages of a chat, the oldest first.
fn each_message(
    store: &Store,
    session: &Session,
    mut each: impl FnMut(&ChatMessage) -> Result<()>,
) -> Result<()> {
    let mut options = ListMessages::default();
    loop {
        let page = store
            .chats()
            .list_messages(&session.id.to_string(), &options)?;
        page.items.iter().try_for_each(&mut each)?;
        if page.next.is_none() {
            return Ok(());
        }
        options.cursor = page.next;
    }
}

/// The first lines: the title, the ids, and what there is of the session.
fn head(
    session: &Session,
    instances: &[AgentInstance],
    extent: String,
    out: &mut Out,
) -> Result<()> {
    let title = session
        .title
        .as_deref()
        .or(session.name.as_deref())
        .unwrap_or("session");
    out.line(
        console::style(text::one_line(title, out.width()))
            .bold()
            .to_string(),
    )?;
    let mut origin = vec![session.id.to_string()];
    origin.extend(
        session
            .name
            .as_deref()
            .filter(|_| session.title.is_some())
            .map(|name| text::one_line(name, 40)),
    );
    origin.extend(history::format_of(session).map(|format| format!("from {format}")));
    let mut facts = vec![format!("{} UTC", text::time(session.created_at_ms))];
    if instances.len() > 1 {
        facts.push(text::count(instances.len() as u64, "agent", "agents"));
    }
    facts.push(extent);
    facts.extend(
        session
            .copied_from
            .map(|source| format!("copy of {source}")),
    );
    for line in [origin.join("  "), facts.join("  ")] {
        for line in text::wrap(&line, out.width()) {
            out.line(console::style(line).dim().to_string())?;
        }
    }
    Ok(())
}

/// The note of `runlog run` about a run, for people.
fn run_note(other: &RawJson) -> Option<String> {
    let note = Json::read(other.as_str()).filter(|_| history::is_run_note(other))?;
    let of = |name: &str| {
        note.get(name)
            .filter(|value| **value != Json::Null)
            .map(Json::plain)
    };
    let events = || {
        of("events")
            .and_then(|it| it.parse().ok())
            .map_or_else(String::new, |it| text::count(it, "event", "events"))
    };
    let what = match (of("state")?.as_str(), of("exit_code"), of("signal")) {
        ("started", ..) => format!("{} by `{}`", of("how")?, of("program")?),
        ("ended", Some(code), _) => format!("ended with exit code {code}, {} recorded", events()),
        ("ended", None, signal) => format!("ended by signal {}, {} recorded", signal?, events()),
        ("failed", ..) => format!("failed: {}", of("why")?),
        _ => return None,
    };
    Some(format!("run {what}"))
}

/// Whether a value is shown in a block of its own.
fn is_block(value: &Json) -> bool {
    match value {
        Json::String(said) => said.contains('\n'),
        Json::Array(elements) => elements
            .iter()
            .any(|element| matches!(element, Json::Object(_)) || is_block(element)),
        Json::Object(fields) => fields.len() > 1 || fields.iter().any(|(_, value)| is_block(value)),
        _ => false,
    }
}

struct Page {
    full: bool,
    /// Whether messages of several agents are interleaved.
    several: bool,
    current: Option<runlog::InstanceId>,
    /// How many tool calls of an id were shown with the previous message; their own events are skipped.
    shown_calls: HashMap<Option<String>, usize>,
}

impl Page {
    fn event(
        &mut self,
        event: &ContextEvent,
        agent: Option<&AgentInstance>,
        out: &mut Out,
    ) -> Result<()> {
        if self.several && self.current != Some(event.instance_id) {
            self.current = Some(event.instance_id);
            let name = agent.map_or("?", |it| it.agent_name.as_str());
            let line = format!("── {} ", text::one_line(name, 40));
            let rule = "─".repeat(
                out.width()
                    .saturating_sub(console::measure_text_width(&line)),
            );
            out.line("")?;
            out.line(console::style(format!("{line}{rule}")).bold().to_string())?;
        }
        if event.event_type == ContextEventKind::ToolCall {
            if let Some(count @ 1..) = self.shown_calls.get_mut(&event.tool_call_id) {
                *count -= 1;
                return Ok(());
            }
        } else {
            self.shown_calls.clear();
        }
        out.line("")?;
        self.heading(event, out)?;
        let parts = match (event.redacted, event.event_type) {
            (true, _) => vec![Part::Text("[redacted]".to_owned())],
            (_, ContextEventKind::ToolCall) => {
                view::call_part(&event.content).into_iter().collect()
            }
            _ => view::parts(&event.content),
        };
        for part in &parts {
            if let Part::Call { id, .. } = part {
                *self.shown_calls.entry(id.clone()).or_default() += 1;
            }
            self.part(part, event, out)?;
        }
        Ok(())
    }

    /// Prints a message of a chat.
    fn message(&self, message: &ChatMessage, out: &mut Out) -> Result<()> {
        let name = match message.message_type.as_str() {
            "text" | "user_input" => view::chat_role(message).to_owned(),
            other => format!("{} {}", view::chat_role(message), text::one_line(other, 40)),
        };
        let time = text::time(message.created_at_ms);
        let gap =
            (out.width()).saturating_sub(INDENT + console::measure_text_width(&name) + time.len());
        out.line("")?;
        out.line(format!(
            "{:>4}  {}{:gap$}{}",
            message.sequence,
            console::style(name).bold(),
            "",
            console::style(time).dim(),
        ))?;
        self.lines(&view::chat_content(message), INDENT, out)
    }

    fn heading(&self, event: &ContextEvent, out: &mut Out) -> Result<()> {
        let failed = event.tool_results.iter().any(|result| result.is_error);
        let mut name = view::kind_name(event.event_type).to_owned();
        if let Some(milliseconds) = event
            .tool_results
            .first()
            .and_then(|result| result.duration_ms)
        {
            name += &format!(" after {}", text::milliseconds(milliseconds));
        }
        let time = text::time(event.created_at_ms);
        let gap = out
            .width()
            .saturating_sub(INDENT + console::measure_text_width(&name) + time.len());
        let failed = if failed {
            console::style(" failed").red().to_string()
        } else {
            String::new()
        };
        let gap = gap.saturating_sub(if failed.is_empty() { 0 } else { 7 });
        out.line(format!(
            "{:>4}  {}{failed}{:gap$}{}",
            event.sequence_number,
            console::style(view::styled(event.event_type, &name)).bold(),
            "",
            console::style(time).dim(),
        ))
    }

    fn part(&self, part: &Part, event: &ContextEvent, out: &mut Out) -> Result<()> {
        match part {
            Part::Text(said) => self.lines(said, INDENT, out),
            Part::Thinking(thought) => self.lines(&format!("(thinking) {thought}"), INDENT, out),
            Part::Call {
                id,
                name,
                arguments,
            } => {
                let id = id
                    .as_deref()
                    .map(|id| text::one_line(id, 40))
                    .unwrap_or_default();
                let name = view::styled(
                    ContextEventKind::ToolCall,
                    &format!("→ {}", text::one_line(name, 60)),
                );
                out.line(format!("{:INDENT$}{name}  {}", "", console::style(id).dim()).trim_end())?;
                self.arguments(arguments, INDENT + 2, out)
            }
            Part::Result {
                id,
                is_error,
                text: got,
            } => {
                let id = id
                    .as_deref()
                    .map(|id| text::one_line(id, 40))
                    .unwrap_or_default();
                let arrow = view::styled(event.event_type, "←");
                let failed = if *is_error {
                    console::style("  failed").red().to_string()
                } else {
                    String::new()
                };
                out.line(
                    format!("{:INDENT$}{arrow} {}{failed}", "", console::style(id).dim())
                        .trim_end(),
                )?;
                self.lines(got, INDENT + 2, out)
            }
            Part::Other(kind) => self.lines(&format!("[{kind}]"), INDENT, out),
        }
    }

    /// Prints arguments, each in a line of its own, longer and structured ones in a block.
    fn arguments(&self, arguments: &Json, indent: usize, out: &mut Out) -> Result<()> {
        match arguments {
            Json::Null => Ok(()),
            Json::Object(fields) => {
                for (name, value) in fields {
                    let name = text::one_line(name, 40);
                    if is_block(value) && indent < INDENT_MAX {
                        out.line(format!("{:indent$}{name}:", ""))?;
                        self.arguments(value, indent + 2, out)?;
                    } else {
                        self.lines(&format!("{name}: {}", value.plain()), indent, out)?;
                    }
                }
                Ok(())
            }
            Json::Array(elements) if is_block(arguments) => {
                for (index, element) in elements.iter().enumerate() {
                    out.line(format!(
                        "{:indent$}{}",
                        "",
                        console::style(format!("{}.", index + 1)).dim()
                    ))?;
                    self.arguments(element, indent + 2, out)?;
                }
                Ok(())
            }
            other => self.lines(&other.plain(), indent, out),
        }
    }

    fn lines(&self, said: &str, indent: usize, out: &mut Out) -> Result<()> {
        let lines = text::wrap(said, out.width().saturating_sub(indent));
        let shown = if self.full { lines.len() } else { LINES_SHOWN };
        for line in lines.iter().take(shown) {
            out.line(format!("{:indent$}{line}", "").trim_end())?;
        }
        if let Some(more) = lines.len().checked_sub(shown).filter(|more| *more > 0) {
            let note = format!(
                "… {} (--full shows them)",
                text::count(more as u64, "more line", "more lines")
            );
            out.line(format!("{:indent$}{}", "", console::style(note).dim()))?;
        }
        Ok(())
    }
}
