//! Where a command prints: text for people, or JSON for programs, without a panic when nobody reads any more.

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use crate::failure::{Failure, Result};

/// How wide text is where there is no terminal to ask.
const WIDTH_DEFAULT: usize = 100;
/// Longer lines than this are hard to read.
const WIDTH_MAX: usize = 120;
/// Narrower terminals are written to as if they were this wide.
const WIDTH_MIN: usize = 40;

/// Standard output.
pub(crate) struct Out {
    to: BufWriter<io::Stdout>,
    json: bool,
    width: usize,
    is_terminal: bool,
}

impl Out {
    /// Standard output; `json` is what `--json` asks for.
    pub(crate) fn stdout(json: bool) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let width = match console::Term::stdout().size_checked() {
            Some((_, columns)) if is_terminal => usize::from(columns).clamp(WIDTH_MIN, WIDTH_MAX),
            _ => WIDTH_DEFAULT,
        };
        Self { to: BufWriter::new(io::stdout()), json, width, is_terminal }
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
        let mut line = serde_json::to_vec(value).map_err(|error| Failure::other(error.to_string()))?;
        // Recorded JSON keeps its own line breaks, which are white space between values.
        for byte in &mut line {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(|error| Failure::io(&error, "standard output"))
    }

    /// Gives everything to the reader now.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.to.flush().map_err(|error| Failure::io(&error, "standard output"))
    }
}

/// A line on stderr. Nobody can be told when that fails.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A line on stderr for people: what was done, apart from the data that goes to stdout.
pub(crate) fn note(json: bool, line: impl AsRef<str>) {
    if !json {
        to_stderr(line.as_ref());
    }
}
