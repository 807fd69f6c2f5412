//! `runlog export`: sessions as JSON lines, or as a page that shows them.

mod html;
mod subject;

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use runlog::{
    AgentInstance, RawJson, Session, SessionId,
    archive::{self, LostRecords, NewFile, What},
    blocking::Store,
    contexts::{ContextEvent, ContextEventKind},
    transcripts::{Format, render, runlog_lines},
};

use self::subject::{Sink, Subject};
use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    find,
    history::{self, HistoryItem},
    output::{Out, note},
    progress::Progress,
    store, text,
};

const AFTER_HELP: &str = "\
Formats:
  runlog       everything the store has of the sessions, a record a line:
               agents, events, runs, chats, flows, and what copies share;
               `runlog import` gives it back. A session whose run spawned
               one of theirs comes along. A flow of no run is in no session:
               --all has it
  events       what their agents' contexts have, a readable line each
  openai       a line for each agent instance: {\"messages\": […]}, in what
               stood around it where it came from
  claude-code  a line for each message, in the envelope that it came in
  swe-agent    a .traj of the session's first agent; only for sessions that
               were one

Only the format runlog has the messages of chats.

With --all the format runlog has the whole store: every session, deleted ones too, the definitions of agents, and streams \
of your own. Another process may write to the store meanwhile; what it writes then isn't in it. Positions in the log, \
what was truncated, states of a flow before its last, and idempotency keys are not kept.

Of a damaged store --skip-damaged writes what can be read. Lines of the kind \"lost\" stand for the records that can't be, and they \
are reported (exit code 6). An import takes each conversation up to the first of them, and says what it left out.

With --output the file gets its name when it is whole, and never takes the place of another; until then it is a hidden \
file beside it, .runlog-….partial, which an export that was killed leaves behind.

With --html it is a page that any browser opens from disk: the viewer, with the recording inside. Names are those of \
runs or sessions; the sessions of the runs that theirs spawned are in it too, and it begins with the agent of the first \
one that is named. It holds at most 256 MiB of recording; `runlog serve --open` shows any store.

Messages are written byte for byte as they were recorded: a session that came from one provider's format is not \
turned into another's. A message that has no envelope of its own gets the least that the format needs.

The output is JSON lines in any case; --json changes nothing.";

/// What to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Written {
    /// Everything, as an archive.
    Archive,
    /// A transcript; in Runlog's own format, events.
    Transcript(Format),
}

impl Written {
    const ALL: [Self; 5] = [
        Self::Archive,
        Self::Transcript(Format::Runlog),
        Self::Transcript(Format::OpenAi),
        Self::Transcript(Format::ClaudeCode),
        Self::Transcript(Format::SweAgent),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Archive => "runlog",
            Self::Transcript(Format::Runlog) => "events",
            Self::Transcript(format) => format.name(),
        }
    }
}

fn format_parser() -> impl TypedValueParser<Value = Written> {
    PossibleValuesParser::new(Written::ALL.map(Written::name)).map(|name| {
        Written::ALL
            .into_iter()
            .find(|it| it.name() == name)
            .unwrap_or(Written::Archive)
    })
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("subject").args(["sessions", "all"]).required(true))]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The sessions; with --html runs too
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// The whole store
    #[arg(long)]
    all: bool,
    /// What to write
    #[arg(long, default_value = "runlog", value_parser = format_parser())]
    format: Written,
    /// Write one HTML file that shows it, and needs nothing else
    #[arg(long, conflicts_with = "format")]
    html: bool,
    /// Leave out records that can't be read, and say which
    #[arg(long, conflicts_with = "html")]
    skip_damaged: bool,
    /// Write to this file, which must not be there yet; `-` is standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    if args.all && args.format != Written::Archive {
        return Err(Failure::usage(
            "--all is of the format runlog; name sessions for another one".to_owned(),
        ));
    }
    if args.skip_damaged && args.format != Written::Archive {
        return Err(Failure::usage(
            "--skip-damaged is of the format runlog: the others have no way to say what is missing",
        ));
    }
    let page = args.html.then(html::Page::of_this_build).transpose()?;
    let output = args
        .output
        .as_deref()
        .filter(|path| *path != Path::new("-"));
    if page.is_some() && output.is_none() && out.is_terminal() {
        return Err(Failure::usage(
            "a page is nothing for a terminal; name a file with --output",
        ));
    }
    let store = store::open_read_only(global)?;
    let subject = subject_of(&store, args)?;
    let sessions = &subject.sessions;
    let left_out = match args.format {
        Written::Transcript(Format::OpenAi | Format::ClaudeCode) => {
            subject::note_chats(&store, sessions, out)?
        }
        _ => Exit::Ok,
    };
    let Some(path) = output else {
        let written = write_all(&store, args, page, &subject, &mut |bytes| out.bytes(bytes))?;
        note_relatives(sessions, args, &written.sessions, out);
        return Ok(left_out.or(note_lost(&written.lost, out)));
    };
    let mut file = NewFile::create(path).map_err(|error| Failure::unwritten(&error, path))?;
    let mut total = 0_u64;
    let mut progress = Progress::bytes(None, out.is_json());
    progress.about("exporting");
    let mut write = |bytes: &[u8]| {
        total += bytes.len() as u64;
        progress.add(bytes.len() as u64);
        file.write_all(bytes)
            .map_err(|error| Failure::unwritten(&error, path))
    };
    let written = write_all(&store, args, page, &subject, &mut write)?;
    progress.finish();
    file.finish()
        .map_err(|error| Failure::unwritten(&error, path))?;
    note_relatives(sessions, args, &written.sessions, out);
    let what = subject::extent(&store, written.sessions.len(), args.all)?;
    note(
        out.is_json(),
        format!(
            "wrote {what} to {} ({})",
            text::path(path),
            text::bytes(total)
        ),
    );
    Ok(left_out.or(note_lost(&written.lost, out)))
}

fn subject_of(store: &Store, args: &Args) -> Result<Subject> {
    if args.html && !args.all {
        return html::subject(store, &args.sessions);
    }
    let names = args.sessions.iter();
    let sessions = names.map(|text| {
        find::session(store, text).map_err(|failure| subject::not_found(store, text, failure))
    });
    Ok(Subject {
        sessions: sessions.collect::<Result<_>>()?,
        agent: None,
    })
}

/// What an export has, and lacks.
struct Contents {
    sessions: Vec<SessionId>,
    lost: Vec<LostRecords>,
}

/// Writes the export.
fn write_all(
    store: &Store,
    args: &Args,
    page: Option<html::Page>,
    subject: &Subject,
    write: Sink<'_>,
) -> Result<Contents> {
    let whole = |sessions| Contents {
        sessions,
        lost: Vec::new(),
    };
    let sessions = &subject.sessions;
    let ids: Vec<SessionId> = sessions.iter().map(|session| session.id).collect();
    let Written::Transcript(format) = args.format else {
        let what = if args.all {
            What::All
        } else {
            What::Sessions(&ids)
        };
        if let Some(page) = page {
            return page.write(store, what, subject, write).map(whole);
        }
        if args.skip_damaged {
            let written = archive::export_readable(store, what, write);
            let (written, lost) = written.map_err(|failure: Failure| {
                if failure.exit() == Exit::Damaged {
                    let advice = "it is in one of the store's lists, which `runlog verify --repair` lets go on; then export again";
                    return failure.and(advice);
                }
                failure
            })?;
            let sessions = written.sessions;
            return Ok(Contents { sessions, lost });
        }
        let exported = archive::export(store, what, write).map_err(|failure: Failure| {
            if failure.exit() == Exit::Damaged {
                return failure.and("`runlog export --skip-damaged` writes everything else");
            }
            failure
        })?;
        return Ok(whole(exported.sessions));
    };
    for session in sessions {
        export(store, session, format, write)?;
    }
    Ok(whole(ids))
}

/// At most so many losses are reported one by one.
const LOST_SHOWN: usize = 20;

/// Prints what couldn't be read.
fn note_lost(lost: &[LostRecords], out: &Out) -> Exit {
    if lost.is_empty() {
        return Exit::Ok;
    }
    for lost in lost.iter().take(LOST_SHOWN) {
        let of = match lost.session {
            Some(session) => format!("session {session}, {} {}", lost.of, lost.stream),
            None => format!("{} {}", lost.of, lost.stream),
        };
        let what = match (lost.is_snapshot, lost.first == lost.last) {
            (false, true) => format!("record {}", lost.first),
            (false, false) => format!("records {} to {}", lost.first, lost.last),
            (true, true) => format!("the state saved at record {}", lost.first),
            (true, false) => format!(
                "a state saved at a record from {} to {}",
                lost.first, lost.last
            ),
        };
        note(out.is_json(), format!("lost: {of}: {what} can't be read"));
    }
    if let Some(more) = lost.len().checked_sub(LOST_SHOWN).filter(|more| *more > 0) {
        let more = text::count(more as u64, "loss more", "losses more");
        note(
            out.is_json(),
            format!("… and {more}; each has a line in the export"),
        );
    }
    Exit::Partial
}

/// Prints which related sessions were exported too.
fn note_relatives(asked: &[Session], args: &Args, written: &[SessionId], out: &Out) {
    for id in written
        .iter()
        .filter(|id| !args.all && !asked.iter().any(|session| session.id == **id))
    {
        note(
            out.is_json(),
            format!(
                "session {id} is in it too: a run of it spawned one of these, or one goes on from it"
            ),
        );
    }
}

fn export(store: &Store, session: &Session, format: Format, write: Sink<'_>) -> Result<()> {
    let exported = Exported {
        store,
        session,
        instances: &store.instances(session.id)?,
    };
    match format {
        Format::Runlog => exported.runlog(write),
        Format::OpenAi => exported.openai(write),
        Format::ClaudeCode => exported.claude_code(write),
        Format::SweAgent => exported.swe_agent(write),
    }
}

/// A session that is exported, in any format.
struct Exported<'a> {
    store: &'a Store,
    session: &'a Session,
    instances: &'a [AgentInstance],
}

impl Exported<'_> {
    fn wrapper(&self) -> Result<Option<RawJson>> {
        history::wrapper(self.store, self.session)
    }

    fn history(&self) -> Result<impl Iterator<Item = Result<HistoryItem>>> {
        history::history(self.store, self.session, self.instances)
    }

    fn runlog(&self, write: Sink<'_>) -> Result<()> {
        let wrapper = self.wrapper()?;
        write(&runlog_lines::session_line(
            self.session,
            history::format_of(self.session),
            wrapper.as_ref(),
        ))?;
        for instance in self.instances {
            write(&runlog_lines::instance_line(instance))?;
        }
        let mut entries = 0;
        for item in self.history()? {
            entries += 1;
            match item? {
                HistoryItem::Event(event, envelope) => {
                    write(&runlog_lines::event_line(&event, envelope.as_ref()))?
                }
                HistoryItem::Other(instance, json) => {
                    write(&runlog_lines::other_line(instance, &json))?
                }
            }
        }
        write(&runlog_lines::end_line(self.session.id, entries))
    }

    fn openai(&self, write: Sink<'_>) -> Result<()> {
        let mut write = |wrapper, messages: &[RawJson]| {
            let mut line = render::one_line(render::run(wrapper, messages));
            line.push(b'\n');
            write(&line)
        };
        if let Some(wrapper) = self.wrapper()? {
            // Its array had the messages of all instances, or none.
            return write(Some(&wrapper), &self.run_entries()?);
        }
        for instance in self.instances {
            let of_instance = std::slice::from_ref(instance);
            let mut messages = Vec::new();
            for item in history::history(self.store, self.session, of_instance)? {
                if let HistoryItem::Event(event, _) = item? {
                    messages.extend(message_of(&event)?);
                }
            }
            if !messages.is_empty() || self.instances.len() == 1 {
                write(None, &messages)?;
            }
        }
        Ok(())
    }

    /// The elements of the array in a run's wrapper: the messages of all instances, and elements that are no messages.
    fn run_entries(&self) -> Result<Vec<RawJson>> {
        let mut entries = Vec::new();
        for item in self.history()? {
            match item? {
                HistoryItem::Event(event, _) => entries.extend(message_of(&event)?),
                HistoryItem::Other(_, json) if !history::is_run_note(&json) => entries.push(json),
                HistoryItem::Other(..) => {}
            }
        }
        Ok(entries)
    }

    fn swe_agent(&self, write: Sink<'_>) -> Result<()> {
        let wrapper = self
            .wrapper()?
            .filter(|_| history::format_of(self.session) == Some(Format::SweAgent));
        let Some(wrapper) = wrapper else {
            return Err(Failure::usage(format!(
                "session {} was not imported from a .traj file; export it as runlog, openai or claude-code",
                self.session.id
            )));
        };
        let mut text = render::run(Some(&wrapper), &self.run_entries()?);
        text.push(b'\n');
        write(&text)
    }

    fn claude_code(&self, write: Sink<'_>) -> Result<()> {
        let from_claude = history::format_of(self.session) == Some(Format::ClaudeCode);
        let mut last_of = std::collections::HashMap::new();
        for item in self.history()? {
            let mut line = match item? {
                HistoryItem::Event(event, Some(envelope)) => {
                    let Some(message) = message_of(&event)? else {
                        continue;
                    };
                    last_of.insert(event.instance_id, uuid_in(&envelope));
                    render::line(Some(&envelope), &message)
                }
                HistoryItem::Event(event, None) => {
                    let Some(message) = message_of(&event)? else {
                        continue;
                    };
                    let instance = self.instances.iter().find(|it| it.id == event.instance_id);
                    let parent = last_of.get(&event.instance_id).cloned().flatten();
                    let envelope = envelope_of(self.session, instance, &event, parent);
                    last_of.insert(event.instance_id, uuid_in(&envelope));
                    render::line(Some(&envelope), &message)
                }
                HistoryItem::Other(_, json) if from_claude && !history::is_run_note(&json) => {
                    render::line(None, &json)
                }
                HistoryItem::Other(..) => continue,
            };
            line.push(b'\n');
            write(&line)?;
        }
        Ok(())
    }
}

/// The message of an event, as in a context.
fn message_of(event: &ContextEvent) -> Result<Option<RawJson>> {
    event.message_json().map_err(Failure::from)
}

/// The minimal envelope of a message in a Claude Code session.
fn envelope_of(
    session: &Session,
    instance: Option<&AgentInstance>,
    event: &ContextEvent,
    parent: Option<String>,
) -> RawJson {
    let kind = match event.event_type {
        ContextEventKind::AssistantMessage => "assistant",
        ContextEventKind::SystemMessage => "system",
        _ => "user",
    };
    let sub_agent = instance.filter(|it| it.parent_instance_id.is_some());
    let mut envelope = serde_json::json!({
        "type": kind,
        "uuid": format!("{}-{}", event.instance_id, event.sequence_number),
        "parentUuid": parent,
        "sessionId": session.name.clone().unwrap_or_else(|| session.id.to_string()),
        "timestamp": text::rfc3339(event.created_at_ms),
        "isSidechain": sub_agent.is_some(),
        "message": null,
    });
    if let Some(instance) = sub_agent {
        envelope["agentId"] = instance.id.to_string().into();
    }
    RawJson::from_stored(envelope.to_string().into()).unwrap_or(RawJson::null())
}

fn uuid_in(envelope: &RawJson) -> Option<String> {
    let fields: serde_json::Value = envelope.to_value().ok()?;
    fields.get("uuid")?.as_str().map(str::to_owned)
}
