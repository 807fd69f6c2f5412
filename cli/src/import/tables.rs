//! The tables `agent_chat`, `agent_history`, `agent_message` and `agent_step`, as lines of JSON: chats, their messages and
//! their steps.

use std::io::BufRead;

use clap::builder::PossibleValue;
use runlog::{
    ErrorKind,
    blocking::Store,
    chats::{ImportOptions, Table},
    transcripts::{self, Format},
};
use serde_json::{Map, Value};

use crate::{
    failure::{Exit, Failure, Result},
    lines::{LINE_BYTES_MAX, Line, Lines},
};

/// Lines are imported together up to this many bytes.
const CHUNK_BYTES: usize = 4 << 20;
/// The same of `agent_history`, whose rows are ordered by time: those that are imported together.
const HISTORY_BYTES: usize = 64 << 20;
/// How many bytes of a file are inspected to detect a table.
pub(crate) const LOOKED_AT_BYTES: usize = 256 << 10;
/// The most lines that are inspected.
const LOOKED_AT_LINES: usize = 100;

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FileFormat {
    /// An archive of `runlog export`.
    Archive,
    /// A transcript.
    Transcript(Format),
    /// A table.
    Table(Table),
}

/// The table of a file, detected by its beginning; `None` if it is a transcript, or neither.
pub(crate) fn detect_table(beginning: &[u8]) -> Option<Table> {
    for line in beginning.split(|byte| *byte == b'\n').take(LOOKED_AT_LINES) {
        if let Some(table) = table_of_line(line) {
            return Some(table);
        }
        if transcripts::detect(line).is_ok() {
            return None;
        }
    }
    None
}

fn table_of_line(line: &[u8]) -> Option<Table> {
    let row: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let has = |name: &str| {
        row.get(name)
            .is_some_and(|value| value.is_string() || value.is_number())
    };
    if !has("chat_id") {
        return None;
    }
    if has("step_id") && has("request_id") && has("stack_id") {
        return Some(Table::Step);
    }
    if has("message_id")
        && row.contains_key("role")
        && row.contains_key("type")
        && row.contains_key("props")
    {
        return Some(Table::Message);
    }
    if row.contains_key("role") && row.contains_key("content") {
        // A chat message of another program has no row id.
        return (has("id") || has("message_id")).then_some(Table::History);
    }
    let is_other = ["role", "message", "messages", "type"]
        .iter()
        .any(|name| row.contains_key(*name));
    (has("assistant_id") && !is_other).then_some(Table::Chat)
}

/// The name of a table, spelled like those of the other formats.
const fn alias(table: Table) -> &'static str {
    match table {
        Table::Chat => "agent-chat",
        Table::History => "agent-history",
        Table::Message => "agent-message",
        Table::Step => "agent-step",
    }
}

impl FileFormat {
    /// All formats, with their names on the command line.
    pub(crate) fn named() -> Vec<PossibleValue> {
        let transcripts = Format::ALL.map(|format| PossibleValue::new(format.name()));
        let tables = Table::ALL.map(|table| PossibleValue::new(table.name()).alias(alias(table)));
        transcripts.into_iter().chain(tables).collect()
    }

    /// The format with this name on the command line.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let table = Table::ALL
            .into_iter()
            .find(|table| table.name() == name || alias(*table) == name);
        table
            .map(Self::Table)
            .or_else(|| Format::from_name(name).map(Self::Transcript))
    }
}

/// Reads a table into a store.
pub(crate) struct TableImporter<'a> {
    store: &'a Store,
    table: Table,
    strict: bool,
    chunk: String,
    /// The lines of the chunk that can't be read, and the reasons.
    unread: Vec<(u64, String)>,
    /// The number of the chunk's first line, and the number of lines read.
    first_line: u64,
    lines: u64,
    /// The number of rows that were imported, and of those that existed already.
    pub(crate) imported: u64,
    pub(crate) skipped: u64,
    /// The number of chats that were created for the rows.
    pub(crate) chats: u64,
}

/// Called with the number of a line that was skipped, and the reason.
pub(crate) type OnIssue<'a> = dyn FnMut(u64, String) + 'a;

impl<'a> TableImporter<'a> {
    /// An importer of this table. A strict one stops at the first line that it can't import.
    pub(crate) fn new(store: &'a Store, table: Table, strict: bool) -> Self {
        Self {
            store,
            table,
            strict,
            chunk: String::new(),
            unread: Vec::new(),
            first_line: 1,
            lines: 0,
            imported: 0,
            skipped: 0,
            chats: 0,
        }
    }

    /// Imports everything from `from`; `progress` is called with the number of bytes as they are read.
    ///
    /// # Errors
    /// Those of the store, those of reading, and the first line that is left out of a strict import. Lines before it
    /// stay imported.
    pub(crate) fn import(
        &mut self,
        from: impl BufRead,
        on_issue: &mut OnIssue<'_>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut lines = Lines::new(from, LINE_BYTES_MAX);
        let chunk_bytes = match self.table {
            Table::History => HISTORY_BYTES,
            _ => CHUNK_BYTES,
        };
        while let Some(line) = lines
            .next()
            .map_err(|error| Failure::io(&error, "can't read it"))?
        {
            self.lines += 1;
            let (bytes, read) = match line {
                Line::Whole(bytes) | Line::Partial(bytes) => {
                    let read = bytes.len() as u64 + 1;
                    (
                        String::from_utf8(bytes).map_err(|_| "the line isn't UTF-8".to_owned()),
                        read,
                    )
                }
                Line::TooLong(bytes) => (
                    Err(format!(
                        "the line has {bytes} bytes, at most {LINE_BYTES_MAX} are read"
                    )),
                    bytes + 1,
                ),
            };
            match bytes {
                Ok(text) => {
                    self.chunk.push_str(
                        text.strip_prefix('\u{feff}')
                            .filter(|_| self.lines == 1)
                            .unwrap_or(&text),
                    );
                }
                Err(what) => {
                    // The rows around it stay together: they may be ordered.
                    self.unread.push((self.lines, what));
                    if self.strict {
                        self.flush(on_issue)?;
                    }
                }
            }
            self.chunk.push('\n');
            if self.chunk.len() >= chunk_bytes {
                self.flush(on_issue)?;
            }
            progress(read);
        }
        self.flush(on_issue)
    }

    fn flush(&mut self, on_issue: &mut OnIssue<'_>) -> Result<()> {
        let lines = std::mem::take(&mut self.chunk);
        let first_line = std::mem::replace(&mut self.first_line, self.lines + 1);
        let options = ImportOptions {
            stop_at_issue: self.strict,
        };
        let chats = self.store.chats();
        let report = chats.import_table(self.table, &lines, options)?;
        self.imported += report.imported as u64;
        self.skipped += report.skipped as u64;
        self.chats += report.chats as u64;
        let of_rows = report.issues.into_iter().map(|issue| {
            let line = (first_line + issue.line as u64).saturating_sub(1);
            (line, issue.what)
        });
        let mut issues = std::mem::take(&mut self.unread);
        issues.extend(of_rows);
        issues.sort_unstable();
        issues
            .into_iter()
            .try_for_each(|(line, what)| self.leave_out(line, what, on_issue))
    }

    fn leave_out(&self, line: u64, what: String, on_issue: &mut OnIssue<'_>) -> Result<()> {
        if self.strict {
            let kind = ErrorKind::InvalidInput.name();
            return Err(Failure::new(
                Exit::Failure,
                kind,
                format!("line {line}: {what}; stopped here"),
            ));
        }
        on_issue(line, what);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_from_a_transcript() {
        for (lines, expected) in [
            (
                r#"{"id":1,"chat_id":"c","role":"user","content":"hi"}"#,
                Some(Table::History),
            ),
            (
                r#"{"message_id":"m","chat_id":3,"role":"assistant","content":null}"#,
                Some(Table::History),
            ),
            (
                r#"{"id":1,"chat_id":"c","assistant_id":"a","title":null}"#,
                Some(Table::Chat),
            ),
            (
                "not json\n\n{\"chat_id\":\"c\",\"assistant_id\":\"a\"}",
                Some(Table::Chat),
            ),
            (
                r#"{"id":1,"message_id":"m","chat_id":"c","role":"user","type":"text","props":{}}"#,
                Some(Table::Message),
            ),
            (
                r#"{"id":1,"step_id":"s","chat_id":"c","request_id":"r","assistant_id":"a","stack_id":"k","type":"llm"}"#,
                Some(Table::Step),
            ),
            (r#"{"chat_id":"c","role":"user","content":"hi"}"#, None),
            (r#"{"chat_id":"c","assistant_id":"a","messages":[]}"#, None),
            (
                "{\"role\":\"user\",\"content\":\"x\"}\n{\"chat_id\":\"c\",\"assistant_id\":\"a\"}",
                None,
            ),
            (r#"{"id":1,"chat_id":{},"assistant_id":"a"}"#, None),
            ("", None),
        ] {
            assert_eq!(detect_table(lines.as_bytes()), expected, "{lines}");
        }
    }

    #[test]
    fn every_format_is_found_by_the_names_that_it_has() {
        for value in FileFormat::named() {
            for name in value.get_name_and_aliases() {
                assert!(FileFormat::from_name(name).is_some(), "{name}");
            }
        }
        assert_eq!(
            FileFormat::from_name("agent-chat"),
            Some(FileFormat::Table(Table::Chat))
        );
        assert_eq!(FileFormat::from_name("nothing"), None);
    }
}
