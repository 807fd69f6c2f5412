//! [`Report`]: the result of importing one file, and how it is printed.

use runlog::transcripts::{Issue, Severity};
use serde::Serialize;

use runlog::chats::Table;

use crate::{
    failure::Result,
    import::Outcome,
    output::{Out, note},
    text,
};

/// The most issues of one file that are printed; the others are counted.
pub(super) const ISSUES_SHOWN: usize = 20;

/// The result of importing one file.
#[derive(Serialize, Default)]
pub(super) struct Report {
    pub(super) file: String,
    pub(super) format: Option<&'static str>,
    pub(super) sessions: Vec<SessionReport>,
    /// Chats of a table; of an archive, how many of its sessions are chats.
    pub(super) chats: u64,
    pub(super) messages: u64,
    /// Messages of an archive's chats.
    pub(super) chat_messages: u64,
    /// Steps of a table.
    pub(super) steps: u64,
    pub(super) tool_calls: u64,
    pub(super) other: u64,
    /// What was there already: entries of a transcript, rows of a table, records of an archive.
    pub(super) skipped: u64,
    /// How many of these are messages of a transcript.
    #[serde(skip)]
    pub(super) skipped_messages: u64,
    pub(super) issues: Vec<IssueReport>,
    /// Whether it is an archive by `runlog export`, which contains records.
    #[serde(skip)]
    pub(super) is_archive: bool,
    /// How many of the issues were printed while the file was read.
    #[serde(skip)]
    pub(super) printed: usize,
    pub(super) seconds: f64,
}

#[derive(Serialize)]
pub(super) struct SessionReport {
    pub(super) id: String,
    pub(super) name: Option<String>,
    pub(super) outcome: &'static str,
}

/// Something that is wrong with a file.
#[derive(Serialize)]
pub(super) struct IssueReport {
    pub(super) severity: &'static str,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) what: String,
}

impl IssueReport {
    /// The reason why a line was not imported.
    pub(super) fn error(line: u64, what: String) -> Self {
        Self {
            severity: "error",
            line,
            column: 1,
            what,
        }
    }
}

impl From<&Issue> for IssueReport {
    fn from(issue: &Issue) -> Self {
        Self {
            severity: match issue.severity {
                Severity::Warning => "warning",
                Severity::Error => "error",
            },
            line: issue.line,
            column: issue.column,
            what: issue.what.clone(),
        }
    }
}

impl Report {
    /// Adds the result of one session.
    pub(super) fn add(&mut self, outcome: Outcome) {
        self.messages += outcome.messages;
        self.tool_calls += outcome.tool_calls;
        self.other += outcome.other;
        self.skipped += outcome.skipped;
        self.skipped_messages += outcome.skipped_messages;
        if let Some((line, what)) = outcome.conflict {
            self.issues.push(IssueReport::error(line, what));
        }
        if let Some(session) = outcome.session {
            self.sessions.push(SessionReport {
                id: session.id.to_string(),
                name: session.name,
                outcome: outcome.what,
            });
        }
    }

    /// Whether the file had anything to import.
    pub(super) fn has_any(&self) -> bool {
        self.chats + self.messages + self.chat_messages + self.steps + self.other + self.skipped > 0
    }

    /// Whether something of the file was left out.
    pub(super) fn is_partial(&self) -> bool {
        self.issues.iter().any(|issue| issue.severity == "error")
    }
}

/// The issue for a file that largely isn't in the detected format, for example another agent's, whose messages have the
/// same fields and other roles. Its messages are imported, but the import is not reported as a success.
pub(super) fn other_format(report: &Report) -> Option<IssueReport> {
    let unread = report
        .issues
        .iter()
        .filter(|issue| issue.what.starts_with(OTHER_ROLE))
        .count() as u64;
    // What was there already counts as well: the same file is judged alike a second time.
    let read = report.messages + report.skipped_messages;
    let other = report.other + report.skipped.saturating_sub(report.skipped_messages);
    let says_nothing = read == 0 && other > 0;
    let is_transcript = !report.is_archive && !report.sessions.is_empty();
    if !is_transcript || unread * 10 <= read && !says_nothing {
        return None;
    }
    let format = report.format.unwrap_or("transcript");
    let what = match says_nothing {
        true => format!("there is no message in it; this looks like another format than {format}"),
        false => format!(
            "{unread} messages have unknown roles; this looks like another agent's format than {format}"
        ),
    };
    Some(IssueReport::error(1, what))
}

/// The prefix of issues about imported messages with an unknown role.
const OTHER_ROLE: &str = "unknown role";

pub(super) fn print_issue(file: &str, issue: &IssueReport) {
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

/// The entries of a transcript that were there already, as their kinds are counted where they are new.
fn skipped(report: &Report) -> String {
    let others = report.skipped.saturating_sub(report.skipped_messages);
    let kinds = [
        (report.skipped_messages, "message", "messages"),
        (others, "other line", "other lines"),
    ];
    let kinds = kinds.into_iter().filter(|(number, ..)| *number > 0);
    kinds
        .map(|(number, one, many)| text::count(number, one, many))
        .collect::<Vec<_>>()
        .join(" and ")
}

/// Prints the result of importing a file.
pub(super) fn print(report: &Report, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.value(report);
    }
    let file = text::name(&report.file);
    for issue in report.issues.iter().take(ISSUES_SHOWN).skip(report.printed) {
        print_issue(&file, issue);
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
    let of = |tables: &[Table]| table.is_some_and(|table| tables.contains(&table));
    let has_messages = table.is_none() || of(&[Table::History, Table::Message]);
    let others = match report.is_archive {
        true => ("other record", "other records"),
        false => ("other line", "other lines"),
    };
    let sessions = report.sessions.len() as u64;
    let chats = match report.is_archive {
        true => ("chat among them", "chats among them"),
        false => ("chat", "chats"),
    };
    let mut line = format.to_owned();
    for (number, (one, many), is_shown) in [
        (sessions, ("session", "sessions"), table.is_none()),
        (report.chats, chats, report.chats > 0 || of(&[Table::Chat])),
        (report.messages, ("message", "messages"), has_messages),
        (
            report.chat_messages,
            ("chat message", "chat messages"),
            report.chat_messages > 0,
        ),
        (report.steps, ("step", "steps"), of(&[Table::Step])),
        (
            report.tool_calls,
            ("tool call", "tool calls"),
            table.is_none(),
        ),
        (report.other, others, report.other > 0),
    ] {
        if is_shown {
            line += &format!(", {}", text::count(number, one, many));
        }
    }
    if report.skipped > 0 {
        let what = match (report.is_archive, table) {
            (true, _) => text::count(report.skipped, "record", "records"),
            (false, Some(_)) => text::count(report.skipped, "row", "rows"),
            (false, None) => skipped(report),
        };
        line += &format!("; {what} there already");
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
    // On the same line as the name if it fits, otherwise below it.
    if console::measure_text_width(&file) + 2 + console::measure_text_width(&line) <= out.width() {
        return out.line(format!("{file}: {line}"));
    }
    out.line(format!("{file}:"))?;
    for line in text::wrap(&line, out.width().saturating_sub(2)) {
        out.line(format!("  {line}"))?;
    }
    Ok(())
}
