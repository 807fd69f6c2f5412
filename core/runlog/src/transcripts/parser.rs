//! [`Parser`]: a transcript in, piece by piece; [`Item`]s out, in the order of the source.
//!
//! Invariant: at most one value (a line, or a source that is one value) and the lines before the format is detected are
//! held at a time, and none is longer than the [limit](LINE_BYTES_MAX).

use bytes::{Bytes, BytesMut};
use serde::de::IgnoredAny;

use super::{
    chat::ChatReader,
    claude_code::ClaudeReader,
    detect,
    reader::{Output, Reader},
    runlog_lines::RunlogReader,
    values::{Format, Issue, Item, Severity, Transcript},
};
use crate::{Error, Result};

/// The longest line, and the largest source that is one JSON value: 64 MiB.
pub const LINE_BYTES_MAX: usize = 64 << 20;

/// How to read a transcript.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The format; `None` detects it as [`detect`](super::detect) does.
    pub format: Option<Format>,
    /// Stop at the first issue, warnings included, instead of continuing with the rest.
    pub strict: bool,
    /// The name of sessions that have none of their own: usually the name of the file.
    pub name: Option<String>,
    /// The longest line in bytes; at most, and unless set, [`LINE_BYTES_MAX`].
    pub line_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            format: None,
            strict: false,
            name: None,
            line_bytes_max: LINE_BYTES_MAX,
        }
    }
}

/// Reads a whole transcript from memory.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the format can't be detected, and with [`Options::strict`] at the
/// first issue, with its line and column.
///
/// ```
/// use runlog::transcripts::{Options, parse};
/// let run = br#"{"task_id": 7, "messages": [{"role": "user", "content": "hi"}]}"#;
/// let transcript = parse(run, Options::default()).unwrap();
/// assert_eq!(transcript.sessions[0].name.as_deref(), Some("7"));
/// assert_eq!(transcript.entries[0].raw.as_str(), r#"{"role": "user", "content": "hi"}"#);
/// ```
pub fn parse(bytes: &[u8], options: Options) -> Result<Transcript> {
    let mut parser = Parser::new(options);
    let mut items = parser.push(bytes)?;
    let (format, last) = parser.finish()?;
    items.extend(last);
    let mut transcript = Transcript {
        format,
        sessions: Vec::new(),
        instances: Vec::new(),
        entries: Vec::new(),
        issues: Vec::new(),
    };
    for item in items {
        match item {
            Item::Session(session) => transcript.sessions.push(session),
            Item::Instance(instance) => transcript.instances.push(instance),
            Item::Entry(entry) => transcript.entries.push(entry),
            Item::Issue(issue) => transcript.issues.push(issue),
            Item::End { .. } => {}
        }
    }
    Ok(transcript)
}

/// Reads a transcript in pieces, with bounded memory.
///
/// ```
/// use runlog::transcripts::{Item, Options, Parser};
/// let mut parser = Parser::new(Options::default());
/// let mut items = parser.push(b"{\"role\":\"user\",\"content\":\"hi\"}\n{\"role\":\"assist").unwrap();
/// items.extend(parser.push(b"ant\",\"content\":\"hello\"}\n").unwrap());
/// items.extend(parser.finish().unwrap().1);
/// assert_eq!(items.iter().filter(|item| matches!(item, Item::Entry(_))).count(), 2);
/// ```
pub struct Parser {
    options: Options,
    /// The input since the last line end.
    partial: BytesMut,
    /// Whether the current line is too long, so that the rest of it is dropped.
    skipping: bool,
    /// Whether any line was.
    has_skipped: bool,
    /// The number of the current line, from 1.
    line: u64,
    state: State,
    out: Output,
}

enum State {
    /// Whether the source is lines or one value, and its format, are not known yet.
    Undecided {
        held: Vec<(u64, Bytes)>,
        held_bytes: usize,
    },
    /// Every line is a value.
    Lines(Format, Box<dyn Reader>),
    /// The source is one value, which begins on this line.
    Document { line: u64, bytes: BytesMut },
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parser")
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl Parser {
    /// A parser at the start of a source.
    pub fn new(options: Options) -> Self {
        let options = Options {
            line_bytes_max: options.line_bytes_max.min(LINE_BYTES_MAX),
            ..options
        };
        Self {
            options,
            partial: BytesMut::new(),
            skipping: false,
            has_skipped: false,
            line: 1,
            state: State::Undecided {
                held: Vec::new(),
                held_bytes: 0,
            },
            out: Output::default(),
        }
    }

    /// The format, once it is known.
    pub fn format(&self) -> Option<Format> {
        match self.state {
            State::Lines(format, _) => Some(format),
            _ => self.options.format,
        }
    }

    /// Takes the next piece of the source, of any length; returns the complete items.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the format can't be detected, and with [`Options::strict`] at the
    /// first issue. The parser can't be used any more then.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Item>> {
        let mut rest = piece;
        while !rest.is_empty() {
            let newline = rest.iter().position(|byte| *byte == b'\n');
            let (part, after) = rest.split_at(newline.unwrap_or(rest.len()));
            self.take(part)?;
            rest = after;
            if newline.is_some() {
                self.end_line()?;
                rest = rest.get(1..).unwrap_or_default();
            }
        }
        self.items()
    }

    /// Ends the source; returns its format and the last items.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish(mut self) -> Result<(Format, Vec<Item>)> {
        self.end_line()?;
        if let State::Undecided { .. } = self.state {
            self.decide_at_end()?;
        }
        let format = match std::mem::replace(
            &mut self.state,
            State::Undecided {
                held: Vec::new(),
                held_bytes: 0,
            },
        ) {
            State::Lines(format, mut reader) => {
                reader.finish(&mut self.out);
                format
            }
            State::Document { line, bytes } => self.finish_document(line, bytes.freeze())?,
            State::Undecided { .. } => return Err(detect::empty()),
        };
        Ok((format, self.items()?))
    }

    /// The items so far, or, with `strict`, the first issue among them as an error.
    fn items(&mut self) -> Result<Vec<Item>> {
        let items = std::mem::take(&mut self.out.items);
        let issue = items.iter().find_map(|item| match item {
            Item::Issue(issue) if self.options.strict => Some(stopped(issue)),
            _ => None,
        });
        match issue {
            Some(issue) => Err(Error::invalid(issue)),
            None => Ok(items),
        }
    }

    /// Adds a part of a line.
    fn take(&mut self, part: &[u8]) -> Result<()> {
        let max = self.options.line_bytes_max;
        if matches!(self.state, State::Undecided { .. }) && part.contains(&0) {
            // Checked at once: the first line of a binary source might never end.
            let begun = [&self.partial, part].concat();
            return Err(detect::compressed(&begun).map_or_else(detect::not_text, Error::invalid));
        }
        if let State::Document { bytes, .. } = &self.state {
            if bytes.len() + self.partial.len() + part.len() > max {
                let what =
                    format!("one JSON value of more than {max} bytes, the most that is read");
                return Err(Error::too_large(what));
            }
        } else if self.skipping {
            return Ok(());
        } else if self.partial.len() + part.len() > max {
            (self.skipping, self.has_skipped) = (true, true);
            self.partial = BytesMut::new();
            let column = max as u64 + 1;
            self.out.error(
                self.line,
                column,
                format!("the line is longer than {max} bytes; left out"),
            );
            return Ok(());
        }
        self.partial.extend_from_slice(part);
        Ok(())
    }

    /// Ends the current line.
    fn end_line(&mut self) -> Result<()> {
        let number = self.line;
        self.line += 1;
        if std::mem::take(&mut self.skipping) {
            return Ok(());
        }
        if let State::Document { bytes, .. } = &mut self.state {
            bytes.extend_from_slice(&self.partial);
            bytes.extend_from_slice(b"\n");
            self.partial.clear();
            return Ok(());
        }
        let mut line = self.partial.split().freeze();
        if number == 1 && line.starts_with(detect::BOM) {
            line = line.slice(detect::BOM.len()..);
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match &mut self.state {
            State::Lines(_, reader) => {
                read_line(reader.as_mut(), number, &line, &mut self.out);
                Ok(())
            }
            _ => self.hold(number, line),
        }
    }

    /// Holds a line until the format is known, and decides if the line makes it known.
    fn hold(&mut self, number: u64, line: Bytes) -> Result<()> {
        let State::Undecided { held, held_bytes } = &mut self.state else {
            return Ok(());
        };
        *held_bytes += line.len();
        held.push((number, line));
        let (first, second) = (&held[0].1, held.get(1).map(|(_, line)| &line[..]));
        if second.is_none() && detect::is_document(first, None) {
            return Ok(());
        }
        if detect::is_document(first, second) {
            return self.become_document();
        }
        let format = self
            .options
            .format
            .or_else(|| held.iter().rev().find_map(|(_, line)| detect::line(line)));
        match format {
            Some(format) => self.become_lines(format),
            None if detect::gives_up_after(held.len())
                || *held_bytes > self.options.line_bytes_max =>
            {
                Err(detect::unknown(&held[0].1))
            }
            None => Ok(()),
        }
    }

    fn become_lines(&mut self, format: Format) -> Result<()> {
        let reader = reader_of(format, self.options.name.clone());
        let before = std::mem::replace(&mut self.state, State::Lines(format, reader));
        if let (State::Undecided { held, .. }, State::Lines(_, reader)) = (before, &mut self.state)
        {
            for (number, line) in held {
                read_line(reader.as_mut(), number, &line, &mut self.out);
            }
        }
        Ok(())
    }

    fn become_document(&mut self) -> Result<()> {
        let State::Undecided { held, .. } = &self.state else {
            return Ok(());
        };
        let mut bytes = BytesMut::new();
        let first = held.first().map_or(1, |(number, _)| *number);
        let mut at = first;
        for (number, line) in held {
            // Blank lines were not held; they are put back so that line numbers are right.
            while at < *number {
                bytes.extend_from_slice(b"\n");
                at += 1;
            }
            bytes.extend_from_slice(line);
        }
        bytes.extend_from_slice(b"\n");
        self.state = State::Document { line: first, bytes };
        Ok(())
    }

    /// Decides at the end of a source that was too short to decide earlier.
    fn decide_at_end(&mut self) -> Result<()> {
        let State::Undecided { held, .. } = &self.state else {
            return Ok(());
        };
        let Some((_, first)) = held.first() else {
            if self.has_skipped {
                let what = "no transcript in it: each of its lines is too long to be read";
                return Err(Error::too_large(what));
            }
            let issue = self.items()?.into_iter().next();
            return Err(issue.map_or_else(detect::empty, |issue| match issue {
                Item::Issue(issue) => Error::invalid(issue.to_string()),
                _ => detect::empty(),
            }));
        };
        match self.options.format {
            Some(format) => self.become_lines(format),
            None if detect::is_document(first, None) => self.become_document(),
            None => Err(detect::unknown(first)),
        }
    }

    fn finish_document(&mut self, line: u64, bytes: Bytes) -> Result<Format> {
        let format = self.options.format.or_else(|| detect::document(&bytes));
        let format = format.ok_or_else(|| {
            let first = bytes.split(|byte| *byte == b'\n').next();
            detect::unknown_document(first.unwrap_or_default(), &bytes)
        })?;
        let mut reader = reader_of(format, self.options.name.clone());
        read_line(reader.as_mut(), line, &bytes, &mut self.out);
        reader.finish(&mut self.out);
        Ok(format)
    }
}

/// The error message of a strict reader for the issue that it stops at: without what would have been left out or kept.
fn stopped(issue: &Issue) -> String {
    let text = issue.to_string();
    let outcomes = [
        "; left out",
        "; kept, but not as a message",
        "; the rest is kept",
    ];
    let end = outcomes
        .iter()
        .find_map(|outcome| text.strip_suffix(outcome))
        .unwrap_or(&text);
    format!("{end}; stopped here")
}

fn reader_of(format: Format, name: Option<String>) -> Box<dyn Reader> {
    match format {
        Format::Runlog => Box::new(RunlogReader::new()),
        Format::OpenAi => Box::new(ChatReader::openai(name)),
        Format::ClaudeCode => Box::new(ClaudeReader::new(name)),
        Format::SweAgent => Box::new(ChatReader::swe_agent(name)),
    }
}

/// Passes a line (or a whole source) to `reader` if it is one JSON value.
fn read_line(reader: &mut dyn Reader, line: u64, bytes: &Bytes, out: &mut Output) {
    let value = bytes.slice_ref(bytes.trim_ascii());
    let indent = bytes.len() - bytes.trim_ascii_start().len();
    if let Err(error) = std::str::from_utf8(&value) {
        let column = (indent + error.valid_up_to()) as u64 + 1;
        return out.error(line, column, "not UTF-8 text; left out".to_owned());
    }
    match serde_json::from_slice::<IgnoredAny>(&value) {
        Ok(_) => reader.value(line, &value, out),
        Err(error) => {
            let first = error.line().max(1) as u64;
            let shift = if first == 1 { indent as u64 } else { 0 };
            out.error(
                line + first - 1,
                error.column() as u64 + shift,
                malformed(&error),
            );
        }
    }
}

/// The message of serde_json without the place, which is part of the issue.
fn malformed(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    if error.is_eof() {
        format!("the JSON breaks off ({what}); left out")
    } else {
        format!("not JSON ({what}); left out")
    }
}

impl Transcript {
    /// Whether every line was read: there are no issues but warnings.
    pub fn is_complete(&self) -> bool {
        self.issues
            .iter()
            .all(|issue| issue.severity == Severity::Warning)
    }
}
