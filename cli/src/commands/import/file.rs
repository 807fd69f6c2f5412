//! Importing one file: its format, and its destination.

use std::{
    io::{BufReader, Read},
    path::Path,
};

use runlog::{
    archive::ImportClock,
    blocking::Store,
    chats::Table,
    transcripts::{Format, Item, Options, Parser},
};

use super::{
    args::Args,
    report::{ISSUES_SHOWN, IssueReport, Report, SessionReport, other_format, print_issue},
};
use crate::{
    failure::{Failure, Result},
    import::{
        Importer,
        archive::Archive,
        source::{name_of, open, read_piece},
        tables::{FileFormat, TableImporter},
    },
    lines::PIECE_BYTES,
    progress::Progress,
    text,
};

/// One file, and its destination.
pub(super) struct Job<'a, 's> {
    pub(super) file: &'a Path,
    /// The opened file, if its format was detected before.
    pub(super) opened: Option<Opened>,
    pub(super) args: &'a Args,
    pub(super) store: &'s Store,
    pub(super) clock: &'a ImportClock,
    pub(super) importer: &'a mut Importer<'s>,
    pub(super) progress: &'a mut Progress,
}

/// Imports one file.
pub(super) fn import_file(job: &mut Job<'_, '_>) -> (Report, Option<Failure>) {
    let file = job.file;
    let mut report = Report {
        file: file.display().to_string(),
        ..Report::default()
    };
    let is_json = job.progress.is_json();
    let mut issues = Vec::new();
    let name = text::path(file);
    // Reported as they occur: a file may be long, or a stream without an end.
    let mut on_issue = |issue: IssueReport, progress: &Progress| {
        if !is_json && issues.len() < ISSUES_SHOWN {
            progress.aside(|| print_issue(&name, &issue));
        }
        issues.push(issue);
    };
    let opened = job
        .opened
        .take()
        .map_or_else(|| Opened::new(file, job.args.format), Ok);
    let read = opened.and_then(|opened| match opened {
        Opened::Archive(archive) => read_archive(&archive, job, &mut on_issue, &mut report),
        Opened::Other(Some(FileFormat::Table(table)), source) => {
            read_table(source, table, job, &mut on_issue, &mut report)
        }
        Opened::Other(Some(FileFormat::Transcript(format)), source) => {
            read_transcript(source, Some(format), job, &mut on_issue, &mut report)
        }
        Opened::Other(_, source) => read_transcript(source, None, job, &mut on_issue, &mut report),
    });
    let done = job.importer.finish_file();
    let failure = match (read, done) {
        (Err(failure), _) | (Ok(()), Err(failure)) => Some(failure.about(file.display())),
        (Ok(()), Ok(())) => None,
    };
    report.printed = if is_json {
        0
    } else {
        issues.len().min(ISSUES_SHOWN)
    };
    report.issues = issues;
    let outcomes = job.importer.take_outcomes();
    outcomes.into_iter().for_each(|outcome| report.add(outcome));
    if failure.is_none() {
        report.issues.extend(other_format(&report));
    }
    (report, failure)
}

/// The receiver of issues.
type OnIssue<'a> = dyn FnMut(IssueReport, &Progress) + 'a;

/// An opened file, with the format detected from its beginning.
pub(super) enum Opened {
    Archive(Archive),
    Other(Option<FileFormat>, Box<dyn Read>),
}

impl Opened {
    pub(super) fn new(file: &Path, format: Option<FileFormat>) -> Result<Self> {
        let (found, source) = open(file, format)?;
        if found != Some(FileFormat::Archive) {
            return Ok(Self::Other(found, source));
        }
        Archive::of_file(file)
            .map_or_else(|| Archive::of_stream(source), Ok)
            .map(Self::Archive)
    }

    pub(super) fn first_time(&self) -> Option<u64> {
        match self {
            Self::Archive(archive) => archive.first_time(),
            Self::Other(..) => None,
        }
    }
}

fn read_archive(
    archive: &Archive,
    job: &mut Job<'_, '_>,
    on_issue: &mut OnIssue<'_>,
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
        on_issue(
            IssueReport::error(conflict.line, conflict.what),
            job.progress,
        );
    }
    (report.messages, report.tool_calls) = (imported.messages, imported.tool_calls);
    report.chat_messages = imported.chat_messages;
    for session in &imported.sessions {
        let session = job.store.get_session(session.id)?;
        report.chats += u64::from(session.is_some_and(|session| session.chat.is_some()));
    }
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
    on_issue: &mut OnIssue<'_>,
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
        &mut |line, what| on_issue(IssueReport::error(line, what), &shared.borrow()),
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
    on_issue: &mut OnIssue<'_>,
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
                on_issue((&issue).into(), progress);
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
