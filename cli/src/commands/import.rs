//! `runlog import`: transcripts into the store.

use std::{
    io::{BufReader, Read},
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use runlog::{
    ErrorKind,
    archive::ImportClock,
    blocking::Store,
    transcripts::{Format, Issue, Item, Options, Parser, Severity},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    import::{
        Importer, Outcome,
        archive::Archive,
        source::{PIECE_BYTES, is_stdin, name_of, open, read_piece},
        tables::{FileFormat, Table, TableImporter},
    },
    output::{Out, note},
    progress::Progress,
    store, text,
};

/// The most issues of one file that are printed; the others are counted.
const ISSUES_SHOWN: usize = 20;

const AFTER_HELP: &str = "\
The format is found out by looking: OpenAI-style chat messages (a run a line, or a message a line), Claude Code \
session files, SWE-agent .traj files, what `runlog export` wrote, and the tables agent_chat, agent_message, agent_step \
and agent_history with a row of JSON a line. Messages, tool calls and arguments are kept byte for byte, and what stands around them is kept too.

What `runlog export` wrote comes back as it was: sessions, runs, chats, flows and definitions with their ids, sequences \
and times. It is read whole before anything is written. What is there already is skipped, so that importing twice changes \
nothing and a newer export adds what is new; a session that went another way since is left out as a whole, and told (exit \
code 6). An import that is interrupted lists nothing of it yet; importing the file again completes it.

Of other formats: a session is called what its source calls it (a Claude Code sessionId, a run's id), else after the file. When the \
store has a session of that name, the import goes on with it: what is there already is skipped, so that \
importing twice changes nothing, and a file that grew adds what is new. One of the same name that says something \
else gets a name beside it: NAME~2.

A session is there whole or not at all, unless it is too long for one write. An import that is interrupted marks what \
it leaves unfinished; importing the file again completes it, and says so.

The rows of agent_chat become chats, those of agent_message and agent_step messages and steps of these chats: import \
agent_chat first, for a chat that isn't there is made with no more than its rows tell. The rows of agent_history, the older \
table of messages, need their chats. A row that is there already is left as it is, and one that was deleted is passed over.

A line that is no JSON is left out and told (exit code 6); a line that is JSON but no message is kept beside the \
messages, with a warning. --strict stops at either.

With --json: a line for each file, {\"file\", \"format\", \"sessions\": [{\"id\", \"name\", \"outcome\"}], \"chats\", \
\"messages\", \"steps\", \"tool_calls\", \"other\", \"skipped\", \"issues\": [{\"severity\", \"line\", \"column\", \"what\"}], \"seconds\"}, \
where \"outcome\" is created, continued, completed, unchanged or conflict.";

/// The arguments.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The files; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Stop at the first thing that is wrong with a file
    #[arg(long)]
    strict: bool,
    /// Take the files to be of this format
    #[arg(long, value_parser = file_format_parser())]
    format: Option<FileFormat>,
    /// Put the sessions into this project; a table has none
    #[arg(long)]
    project: Option<String>,
}

fn file_format_parser() -> impl TypedValueParser<Value = FileFormat> {
    PossibleValuesParser::new(FileFormat::named())
        .map(|name| FileFormat::from_name(&name).unwrap_or(FileFormat::Transcript(Format::Runlog)))
}

/// What became of one file.
#[derive(Serialize)]
struct Report {
    file: String,
    format: Option<&'static str>,
    sessions: Vec<SessionReport>,
    /// Chats of a table.
    chats: u64,
    messages: u64,
    /// Steps of a table.
    steps: u64,
    tool_calls: u64,
    other: u64,
    skipped: u64,
    issues: Vec<IssueReport>,
    /// Whether it is what `runlog export` wrote, which has records.
    #[serde(skip)]
    is_archive: bool,
    /// How many of the issues were printed while the file was read.
    #[serde(skip)]
    told: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct SessionReport {
    id: String,
    name: Option<String>,
    outcome: &'static str,
}

#[derive(Serialize)]
struct IssueReport {
    severity: &'static str,
    line: u64,
    column: u64,
    what: String,
}

/// Does it.
pub(crate) fn run(global: &Global, args: &Args, out: &mut Out) -> Result<Exit> {
    for file in args.files.iter().filter(|file| !is_stdin(file)) {
        // Told before the store is made, so that a typo leaves nothing behind.
        std::fs::metadata(file)
            .map_err(|error| Failure::io(&error, format!("can't read {}", file.display())))?;
    }
    // What comes once is looked at before the store is made, which begins with the oldest record of an archive.
    let mut stream = match args.files.iter().find(|file| is_stdin(file)) {
        Some(file) => {
            Some(Opened::new(file, args.format).map_err(|failure| failure.about(file.display()))?)
        }
        None => None,
    };
    let first_ms = args.files.iter().find_map(|file| match &stream {
        Some(opened) if is_stdin(file) => opened.first_time(),
        _ => Archive::of_file(file)?.first_time(),
    });
    let (store, clock) = store::open_to_import(global, first_ms)?;
    // A device has no length, and standard input none that is known.
    let length = |file: &PathBuf| {
        std::fs::metadata(file)
            .ok()
            .filter(std::fs::Metadata::is_file)
            .map(|it| it.len())
    };
    let total = args.files.iter().map(length).sum();
    let mut progress = Progress::bytes(total, out.is_json());
    let mut importer = Importer::new(&store, args.project.clone());
    let mut exit = Exit::Ok;
    let mut any = false;
    for file in &args.files {
        progress.about(&name_of(file));
        let started = Instant::now();
        let opened = if is_stdin(file) { stream.take() } else { None };
        let (store, importer, progress) = (&store, &mut importer, &mut progress);
        let mut job = Job {
            file,
            opened,
            args,
            store,
            clock: &clock,
            importer,
            progress,
        };
        let (report, failure) = import_file(&mut job);
        any |= report.chats + report.messages + report.steps + report.other + report.skipped > 0;
        let is_partial = report.issues.iter().any(|issue| issue.severity == "error");
        let report = Report {
            seconds: started.elapsed().as_secs_f64(),
            ..report
        };
        let mut printed = Ok(());
        progress.aside(|| printed = print(&report, out));
        printed?;
        match failure {
            Some(failure) if args.files.len() == 1 || stops_all(&failure) => {
                progress.finish();
                return Err(failure);
            }
            Some(failure) => {
                failure.report(out.is_json());
                exit = Exit::Partial;
            }
            None if is_partial => exit = Exit::Partial,
            None => {}
        }
    }
    progress.finish();
    if exit == Exit::Partial && !any {
        exit = Exit::Failure;
    }
    Ok(exit)
}

/// Whether there is no sense in going on with the next file.
fn stops_all(failure: &Failure) -> bool {
    let of_the_file = [
        ErrorKind::InvalidInput.name(),
        ErrorKind::TooLarge.name(),
        "io",
        "not_found",
    ];
    !of_the_file.contains(&failure.kind())
}

/// One file, and where it goes.
struct Job<'a, 's> {
    file: &'a Path,
    /// What it is, where that was looked at before.
    opened: Option<Opened>,
    args: &'a Args,
    store: &'s Store,
    clock: &'a ImportClock,
    importer: &'a mut Importer<'s>,
    progress: &'a mut Progress,
}

fn import_file(job: &mut Job<'_, '_>) -> (Report, Option<Failure>) {
    let file = job.file;
    let mut report = Report {
        file: file.display().to_string(),
        format: None,
        sessions: Vec::new(),
        chats: 0,
        messages: 0,
        steps: 0,
        tool_calls: 0,
        other: 0,
        skipped: 0,
        issues: Vec::new(),
        is_archive: false,
        told: 0,
        seconds: 0.0,
    };
    let is_json = job.progress.is_json();
    let mut issues = Vec::new();
    let name = text::path(file);
    // Told as they come: a file may be long, or never end.
    let mut tell = |issue: IssueReport, progress: &Progress| {
        if !is_json && issues.len() < ISSUES_SHOWN {
            progress.aside(|| tell_issue(&name, &issue));
        }
        issues.push(issue);
    };
    let opened = job
        .opened
        .take()
        .map_or_else(|| Opened::new(file, job.args.format), Ok);
    let read = opened.and_then(|opened| match opened {
        Opened::Archive(archive) => read_archive(&archive, job, &mut tell, &mut report),
        Opened::Other(Some(FileFormat::Table(table)), source) => {
            read_table(source, table, job, &mut tell, &mut report)
        }
        Opened::Other(Some(FileFormat::Transcript(format)), source) => {
            read_transcript(source, Some(format), job, &mut tell, &mut report)
        }
        Opened::Other(_, source) => read_transcript(source, None, job, &mut tell, &mut report),
    });
    let done = job.importer.finish_file();
    let failure = match (read, done) {
        (Err(failure), _) | (Ok(()), Err(failure)) => Some(failure.about(file.display())),
        (Ok(()), Ok(())) => None,
    };
    report.told = if is_json {
        0
    } else {
        issues.len().min(ISSUES_SHOWN)
    };
    report.issues = issues;
    for outcome in job.importer.take_outcomes() {
        let Outcome {
            session,
            what,
            messages,
            tool_calls,
            other,
            skipped,
            conflict,
            ..
        } = outcome;
        report.messages += messages;
        report.tool_calls += tool_calls;
        report.other += other;
        report.skipped += skipped;
        if let Some((line, what)) = conflict {
            report.issues.push(IssueReport {
                severity: "error",
                line,
                column: 1,
                what,
            });
        }
        let session = session.map(|it| SessionReport {
            id: it.id.to_string(),
            name: it.name,
            outcome: what,
        });
        report.sessions.extend(session);
    }
    if failure.is_none() {
        report.issues.extend(other_format(&report));
    }
    (report, failure)
}

/// What is told of a file that was taken for a format which much of it isn't in: another agent's, say, whose messages have
/// the same fields and other roles. What it has is kept, but it is no success.
fn other_format(report: &Report) -> Option<IssueReport> {
    let unread = report
        .issues
        .iter()
        .filter(|issue| issue.what.starts_with(OTHER_ROLE))
        .count() as u64;
    let read = report.messages + report.skipped;
    let says_nothing = read == 0 && report.other > 0;
    if report.is_archive || unread * 10 <= read && !says_nothing {
        return None;
    }
    let format = report.format.unwrap_or("transcript");
    let what = match says_nothing {
        true => format!("there is no message in it; this looks like another format than {format}"),
        false => format!(
            "{unread} messages have unknown roles; this looks like another agent's format than {format}"
        ),
    };
    Some(IssueReport {
        severity: "error",
        line: 1,
        column: 1,
        what,
    })
}

/// How the issues begin that tell of messages that are kept, and whose role isn't known.
const OTHER_ROLE: &str = "unknown role";

/// Where issues go.
type Tell<'a> = dyn FnMut(IssueReport, &Progress) + 'a;

/// A file, and what it is as far as its beginning tells.
enum Opened {
    Archive(Archive),
    Other(Option<FileFormat>, Box<dyn Read>),
}

impl Opened {
    fn new(file: &Path, format: Option<FileFormat>) -> Result<Self> {
        let (found, source) = open(file, format)?;
        if found != Some(FileFormat::Archive) {
            return Ok(Self::Other(found, source));
        }
        Archive::of_file(file)
            .map_or_else(|| Archive::of_stream(source), Ok)
            .map(Self::Archive)
    }

    fn first_time(&self) -> Option<u64> {
        match self {
            Self::Archive(archive) => archive.first_time(),
            Self::Other(..) => None,
        }
    }
}

fn read_archive(
    archive: &Archive,
    job: &mut Job<'_, '_>,
    tell: &mut Tell<'_>,
    report: &mut Report,
) -> Result<()> {
    if job.args.project.is_some() {
        return Err(Failure::usage(
            "an export keeps the projects of its sessions; leave --project out".to_owned(),
        ));
    }
    (report.format, report.is_archive) = (Some(Format::Runlog.name()), true);
    let progress = &mut *job.progress;
    let imported = archive.import(job.store, job.clock, job.args.strict, &mut |bytes| {
        progress.add(bytes)
    })?;
    for conflict in imported.conflicts {
        tell(
            IssueReport {
                severity: "error",
                line: conflict.line,
                column: 1,
                what: conflict.what,
            },
            job.progress,
        );
    }
    (report.messages, report.tool_calls) = (imported.messages, imported.tool_calls);
    (report.other, report.skipped) = (imported.other, imported.skipped);
    report
        .sessions
        .extend(imported.sessions.into_iter().map(|it| SessionReport {
            id: it.id.to_string(),
            name: it.name,
            outcome: it.outcome.name(),
        }));
    Ok(())
}

fn read_table(
    source: impl Read,
    table: Table,
    job: &mut Job<'_, '_>,
    tell: &mut Tell<'_>,
    report: &mut Report,
) -> Result<()> {
    if job.args.project.is_some() {
        return Err(Failure::usage(format!(
            "{} has no project; leave --project out",
            table.name()
        )));
    }
    report.format = Some(table.name());
    let mut importer = TableImporter::new(job.store, table, job.args.strict);
    let shared = std::cell::RefCell::new(&mut *job.progress);
    let imported = importer.import(
        BufReader::new(source),
        &mut |line, what| {
            tell(
                IssueReport {
                    severity: "error",
                    line,
                    column: 1,
                    what,
                },
                &shared.borrow(),
            )
        },
        &mut |bytes| shared.borrow_mut().add(bytes),
    );
    match table {
        Table::Chat => report.chats = importer.imported,
        Table::History | Table::Message => {
            (report.chats, report.messages) = (importer.chats, importer.imported)
        }
        Table::Step => (report.chats, report.steps) = (importer.chats, importer.imported),
    }
    report.skipped = importer.skipped;
    imported
}

fn read_transcript(
    mut source: Box<dyn Read>,
    format: Option<Format>,
    job: &mut Job<'_, '_>,
    tell: &mut Tell<'_>,
    report: &mut Report,
) -> Result<()> {
    let Job {
        file,
        args,
        importer,
        progress,
        ..
    } = job;
    let mut options = Options::default();
    options.format = format;
    options.strict = args.strict;
    options.name = Some(name_of(file));
    importer.start_file(name_of(file));
    let mut take = |items: Vec<Item>, progress: &Progress| {
        items.into_iter().try_for_each(|item| match item {
            Item::Issue(issue) => {
                tell(issue_report(&issue), progress);
                Ok(())
            }
            item => importer.take(item),
        })
    };
    let mut parser = Parser::new(options);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = read_piece(&mut source, &mut piece)?;
        if read.is_empty() {
            break;
        }
        let items = parser.push(read)?;
        report.format = parser.format().map(Format::name);
        take(items, progress)?;
        progress.add(read.len() as u64);
    }
    let (found, items) = parser.finish()?;
    report.format = Some(found.name());
    take(items, progress)
}

fn issue_report(issue: &Issue) -> IssueReport {
    IssueReport {
        severity: match issue.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        },
        line: issue.line,
        column: issue.column,
        what: issue.what.clone(),
    }
}

fn tell_issue(file: &str, issue: &IssueReport) {
    let word = match issue.severity {
        "error" => console::style("error:").for_stderr().red(),
        _ => console::style("warning:").for_stderr().yellow(),
    };
    let what = text::printable(&issue.what);
    note(
        false,
        format!("{word} {file}:{}:{}: {what}", issue.line, issue.column),
    );
}

fn print(report: &Report, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(report);
    }
    let file = text::name(&report.file);
    for issue in report.issues.iter().take(ISSUES_SHOWN).skip(report.told) {
        tell_issue(&file, issue);
    }
    if let Some(more) = report
        .issues
        .len()
        .checked_sub(ISSUES_SHOWN)
        .filter(|more| *more > 0)
    {
        note(false, format!("… and {more} more in {file}"));
    }
    let Some(format) = report.format else {
        return Ok(());
    };
    let table = Table::ALL.into_iter().find(|table| table.name() == format);
    let is_table = table.is_some();
    let mut line = format.to_owned();
    for (number, one, many, is_told) in [
        (
            report.sessions.len() as u64,
            "session",
            "sessions",
            !is_table,
        ),
        (
            report.chats,
            "chat",
            "chats",
            table == Some(Table::Chat) || report.chats > 0,
        ),
        (
            report.messages,
            "message",
            "messages",
            !matches!(table, Some(Table::Chat | Table::Step)),
        ),
        (report.steps, "step", "steps", table == Some(Table::Step)),
        (report.tool_calls, "tool call", "tool calls", !is_table),
        (
            report.other,
            "other line",
            "other lines",
            report.other > 0 && !report.is_archive,
        ),
        (
            report.other,
            "other record",
            "other records",
            report.other > 0 && report.is_archive,
        ),
    ] {
        if is_told {
            line += &format!(", {}", text::count(number, one, many));
        }
    }
    if report.skipped > 0 {
        line += &format!("; {} there already", text::thousands(report.skipped));
    }
    let completed = report
        .sessions
        .iter()
        .filter(|session| session.outcome == "completed")
        .count() as u64;
    if completed > 0 {
        let sessions = text::count(completed, "session", "sessions");
        line += &format!("; completed {sessions} that an interrupted import had begun");
    }
    line += &format!(
        "  ({})",
        text::duration(std::time::Duration::from_secs_f64(report.seconds))
    );
    // Beside the name where there is room, else below it.
    if console::measure_text_width(&file) + 2 + console::measure_text_width(&line) <= out.width() {
        return out.line(format!("{file}: {line}"));
    }
    out.line(format!("{file}:"))?;
    for line in text::wrap(&line, out.width().saturating_sub(2)) {
        out.line(format!("  {line}"))?;
    }
    Ok(())
}
