//! The output of a command: text for people, or JSON for programs, without a panic if the output is closed.

use std::{
    borrow::Cow,
    io::{self, BufWriter, IsTerminal, Write},
};

use serde::Serialize;

use crate::{
    args::Global,
    failure::{Exit, Failure, Result},
};

/// The width of text if it is unknown.
const WIDTH_DEFAULT: usize = 80;
/// Longer lines than this are hard to read.
const WIDTH_MAX: usize = 120;
/// The minimum width, even if the terminal is narrower.
const WIDTH_MIN: usize = 40;

/// Standard output.
pub(crate) struct Out {
    to: BufWriter<io::Stdout>,
    json: bool,
    width: usize,
    is_terminal: bool,
    losable: Losable,
}

/// The handling of output that can't be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Losable {
    /// The command fails.
    No,
    /// The command continues without it if nobody reads any more: its exit code is what it is about.
    IfClosed,
    /// The command continues without it.
    Yes,
    /// It continues, and nothing is printed any more.
    Lost,
}

/// How many columns text may take: COLUMNS, or else the terminal's width.
pub(crate) fn width() -> usize {
    let said = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.trim().parse().ok());
    let asked = || Some(usize::from(console::Term::stdout().size_checked()?.1));
    let width = said
        .filter(|columns| *columns > 0)
        .or_else(asked)
        .unwrap_or(WIDTH_DEFAULT);
    width.clamp(WIDTH_MIN, WIDTH_MAX)
}

/// What a command did to a store, or would do.
#[derive(Serialize)]
pub(crate) struct Report<T> {
    store: String,
    pub(crate) dry_run: bool,
    #[serde(flatten)]
    pub(crate) done: T,
}

impl Out {
    /// Standard output; `json` is what `--json` asks for.
    pub(crate) fn stdout(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self {
            to: BufWriter::new(io::stdout()),
            json,
            width: width(),
            is_terminal,
            losable: Losable::No,
        }
    }

    /// From here on the command continues if its output is closed: that is reported once.
    pub(crate) fn continue_if_closed(&mut self) {
        if self.losable == Losable::No {
            self.losable = Losable::Yes;
        }
    }

    /// From here on the command continues to its exit code if nobody reads any more what it prints.
    pub(crate) fn continue_for_exit_code(&mut self) {
        if self.losable == Losable::No {
            self.losable = Losable::IfClosed;
        }
    }

    /// Prints the report of a command on the store of `global`; `for_people` prints it as text.
    pub(crate) fn report<T: Serialize>(
        &mut self,
        global: &Global,
        dry_run: bool,
        done: T,
        for_people: impl FnOnce(&Report<T>, &mut Self) -> Result<()>,
    ) -> Result<Exit> {
        let report = Report {
            store: global.store.display().to_string(),
            dry_run,
            done,
        };
        if self.is_json() {
            self.value(&report)?;
        } else {
            for_people(&report, self)?;
        }
        Ok(Exit::Ok)
    }

    /// Whether the output is closed. That may be detected only by the next print.
    pub(crate) fn is_closed(&self) -> bool {
        #[cfg(unix)]
        {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let stdout = io::stdout();
            let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut asked, Some(&now)).is_ok() && asked[0].revents().contains(PollFlags::ERR)
        }
        #[cfg(not(unix))]
        false
    }

    /// Whether a program reads.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person looks at a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// How many columns text may take.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Prints a line of text.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.bytes(text.as_ref().as_bytes())?;
        self.bytes(b"\n")
    }

    /// Prints a value as a line of JSON.
    pub(crate) fn value(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line =
            serde_json::to_vec(value).map_err(|error| Failure::other(error.to_string()))?;
        // Recorded JSON keeps its own line breaks, which are white space between values.
        for byte in &mut line {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Prints bytes as they are; on a terminal, characters that it would obey are written as JSON escapes them.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if self.losable == Losable::Lost {
            return Ok(());
        }
        let written = if self.is_terminal {
            self.to.write_all(&for_terminal(bytes))
        } else {
            self.to.write_all(bytes)
        };
        self.written(written)
    }

    /// Flushes the output.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.losable == Losable::Lost {
            return Ok(());
        }
        let written = self.to.flush();
        self.written(written)
    }

    fn written(&mut self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(error)
                if self.losable == Losable::IfClosed
                    && error.kind() == io::ErrorKind::BrokenPipe =>
            {
                self.losable = Losable::Lost;
                Ok(())
            }
            Err(error) if self.losable == Losable::Yes => {
                self.losable = Losable::Lost;
                let why = crate::failure::plain(&error);
                to_stderr(&format!(
                    "standard output: {why}; what happens is recorded, and not shown any more"
                ));
                Ok(())
            }
            written => written.map_err(|error| Failure::io(&error, "standard output")),
        }
    }
}

/// JSON made safe for a terminal. In text, control characters are made visible before; JSON strings may have some
/// unescaped: those of C1, delete, and those that change the reading direction.
fn for_terminal(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_obeyed = |c: char| matches!(c, '\x7f'..='\u{9f}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Cow::Borrowed(bytes);
    };
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(bytes);
    }
    let escaped = text.chars().map(|c| {
        if is_obeyed(c) {
            format!("\\u{:04x}", u32::from(c))
        } else {
            c.to_string()
        }
    });
    Cow::Owned(escaped.collect::<String>().into_bytes())
}

/// Prints a line on stderr. A failure of that can't be reported.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints a failure on stderr: a line of text, or with `--json` a line of JSON.
pub(crate) fn report(failure: &Failure, json: bool) {
    if failure.is_silent() {
        return;
    }
    let message = failure.message();
    if json {
        let error = serde_json::json!({"error": {
            "kind": failure.kind(), "message": message, "exit": failure.exit().code(),
        }});
        to_stderr(&error.to_string());
    } else {
        let word = console::style("error:").for_stderr().red().bold();
        to_stderr(&format!("{word} {}", crate::text::printable(message)));
    }
}

/// Prints a line on stderr for people: a note, separate from the data on stdout.
pub(crate) fn note(json: bool, line: impl AsRef<str>) {
    if !json {
        to_stderr(line.as_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_json_that_means_the_same_and_commands_nothing() {
        let line = "{\"a\":\"x\u{9b}31m\u{202e}\u{7f}é\"}\n";
        let safe = for_terminal(line.as_bytes());
        assert_eq!(safe, "{\"a\":\"x\\u009b31m\\u202e\\u007fé\"}\n".as_bytes());
        let read = |bytes: &[u8]| serde_json::from_slice::<serde_json::Value>(bytes).unwrap();
        assert_eq!(read(&safe), read(line.as_bytes()));
        // Our own colours are kept.
        assert_eq!(
            for_terminal(b"\x1b[1mhead\x1b[0m"),
            b"\x1b[1mhead\x1b[0m".as_slice()
        );
    }
}
