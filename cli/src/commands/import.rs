//! `runlog import`: transcripts into the store.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use runlog::{
    ErrorKind,
    transcript::{Format, Issue, Item, Options, Parser, Severity},
};
use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
    import::{Importer, Outcome},
    output::{Out, note},
    progress::Progress,
    store, text,
};

/// The most issues of one file that are printed; the others are counted.
const ISSUES_SHOWN: usize = 20;
/// How much of a file is read at a time.
const PIECE_BYTES: usize = 256 << 10;

const AFTER_HELP: &str = "\
The format is found out by looking: OpenAI-style chat messages (a run a line, or a message a line), Claude Code \
session files, SWE-agent .traj files, and what `runlog export` wrote. Messages, tool calls and arguments are \
kept byte for byte, and what stands around them is kept too.

A session is called what its source calls it (a Claude Code sessionId, a run's id), else after the file. When the \
store has a session of that name, the import goes on with it: what is there already is skipped, so that \
importing twice changes nothing, and a file that grew adds what is new. One of the same name that says something \
else gets a name beside it: NAME~2.

A line that is no JSON is left out and told (exit code 6); a line that is JSON but no message is kept beside the \
messages, with a warning. --strict stops at either.

With --json: a line for each file, {\"file\", \"format\", \"sessions\": [{\"id\", \"name\", \"outcome\"}], \"messages\", \
\"tool_calls\", \"other\", \"skipped\", \"issues\": [{\"severity\", \"line\", \"column\", \"what\"}], \"seconds\"}.";

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
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// Put the sessions into this project
    #[arg(long)]
    project: Option<String>,
}

/// A parser for the name of a format.
pub(crate) fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).unwrap_or(Format::Runlog))
}

/// What became of one file.
#[derive(Serialize)]
struct Report {
    file: String,
    format: Option<&'static str>,
    sessions: Vec<SessionReport>,
    messages: u64,
    tool_calls: u64,
    other: u64,
    skipped: u64,
    issues: Vec<IssueReport>,
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
        std::fs::metadata(file).map_err(|error| Failure::io(&error, format!("can't read {}", file.display())))?;
    }
    let store = store::open_or_create(global)?;
    // A device has no length, and standard input none that is known.
    let length = |file: &PathBuf| std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|it| it.len());
    let total = args.files.iter().map(length).sum();
    let mut progress = Progress::bytes(total, out.is_json());
    let mut importer = Importer::new(&store, args.project.clone());
    let mut exit = Exit::Ok;
    let mut any = false;
    for file in &args.files {
        progress.about(&name_of(file));
        let started = Instant::now();
        let (report, failure) = import_file(file, args, &mut importer, &mut progress);
        any |= report.messages + report.other + report.skipped > 0;
        let is_partial = report.issues.iter().any(|issue| issue.severity == "error");
        let report = Report { seconds: started.elapsed().as_secs_f64(), ..report };
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
    let of_the_file = [ErrorKind::InvalidInput.name(), ErrorKind::TooLarge.name(), "io", "not_found"];
    !of_the_file.contains(&failure.kind())
}

fn import_file(
    file: &Path,
    args: &Args,
    importer: &mut Importer<'_>,
    progress: &mut Progress,
) -> (Report, Option<Failure>) {
    let mut report = Report {
        file: file.display().to_string(),
        format: None,
        sessions: Vec::new(),
        messages: 0,
        tool_calls: 0,
        other: 0,
        skipped: 0,
        issues: Vec::new(),
        told: 0,
        seconds: 0.0,
    };
    let is_json = progress.is_json();
    let mut issues = Vec::new();
    let name = text::path(file);
    // Told as they come: a file may be long, or never end.
    let mut tell = |items: Vec<Item>, importer: &mut Importer<'_>, progress: &Progress| {
        take(items, importer, &mut |issue| {
            let issue = issue_report(&issue);
            if !is_json && issues.len() < ISSUES_SHOWN {
                progress.aside(|| tell_issue(&name, &issue));
            }
            issues.push(issue);
        })
    };
    let read = read_file(file, args, importer, progress, &mut tell, &mut report.format);
    let done = importer.finish_file();
    let failure = match (read, done) {
        (Err(failure), _) | (Ok(()), Err(failure)) => Some(failure.about(file.display())),
        (Ok(()), Ok(())) => None,
    };
    report.told = if is_json { 0 } else { issues.len().min(ISSUES_SHOWN) };
    report.issues = issues;
    for outcome in importer.take_outcomes() {
        let Outcome { session, what, messages, tool_calls, other, skipped, conflict } = outcome;
        report.messages += messages;
        report.tool_calls += tool_calls;
        report.other += other;
        report.skipped += skipped;
        if let Some((line, what)) = conflict {
            report.issues.push(IssueReport { severity: "error", line, column: 1, what });
        }
        let session = session.map(|it| SessionReport { id: it.id.to_string(), name: it.name, outcome: what });
        report.sessions.extend(session);
    }
    (report, failure)
}

fn read_file(
    file: &Path,
    args: &Args,
    importer: &mut Importer<'_>,
    progress: &mut Progress,
    take: &mut Take<'_>,
    format: &mut Option<&'static str>,
) -> Result<()> {
    let mut source: Box<dyn Read> = if is_stdin(file) {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| Failure::io(&error, "can't read it"))?)
    };
    let mut options = Options::default();
    options.format = args.format;
    options.strict = args.strict;
    options.name = Some(name_of(file));
    importer.start_file(name_of(file));
    let mut parser = Parser::new(options);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = match source.read(&mut piece) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::io(&error, "can't read it")),
        };
        let items = parser.push(&piece[..length])?;
        *format = parser.format().map(Format::name);
        take(items, importer, progress)?;
        progress.add(length as u64);
    }
    let (found, items) = parser.finish()?;
    *format = Some(found.name());
    take(items, importer, progress)
}

/// Where what was read goes.
type Take<'a> = dyn FnMut(Vec<Item>, &mut Importer<'_>, &Progress) -> Result<()> + 'a;

fn take(items: Vec<Item>, importer: &mut Importer<'_>, issues: &mut dyn FnMut(Issue)) -> Result<()> {
    for item in items {
        match item {
            Item::Issue(issue) => issues(issue),
            item => importer.take(item)?,
        }
    }
    Ok(())
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// What a file's sessions are called that have no name: the file's own, without its ending.
fn name_of(file: &Path) -> String {
    match file.file_stem() {
        Some(stem) if !is_stdin(file) => stem.to_string_lossy().into_owned(),
        _ => "stdin".to_owned(),
    }
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
    note(false, format!("{word} {file}:{}:{}: {what}", issue.line, issue.column));
}

fn print(report: &Report, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(report);
    }
    let file = text::name(&report.file);
    for issue in report.issues.iter().take(ISSUES_SHOWN).skip(report.told) {
        tell_issue(&file, issue);
    }
    if let Some(more) = report.issues.len().checked_sub(ISSUES_SHOWN).filter(|more| *more > 0) {
        note(false, format!("… and {more} more in {file}"));
    }
    let Some(format) = report.format else { return Ok(()) };
    let mut line = format!(
        "{format}, {}, {}, {}",
        text::count(report.sessions.len() as u64, "session", "sessions"),
        text::count(report.messages, "message", "messages"),
        text::count(report.tool_calls, "tool call", "tool calls"),
    );
    if report.other > 0 {
        line += &format!(", {}", text::count(report.other, "other line", "other lines"));
    }
    if report.skipped > 0 {
        line += &format!("; {} there already", text::thousands(report.skipped));
    }
    line += &format!("  ({})", text::duration(std::time::Duration::from_secs_f64(report.seconds)));
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
