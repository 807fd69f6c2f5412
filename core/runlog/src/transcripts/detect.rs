//! Detecting the [`Format`] of a source.

use runlog_model::json::slices::{fields, for_each_element, string};

use super::values::Format;
use crate::{Error, Result};

/// The most lines that are examined to detect a format.
const LINES_MAX: usize = 100;

/// Detects the format of a transcript from its beginning.
///
/// The first of its first 100 lines with a recognizable format decides, so one odd line before it does no harm. A
/// source whose first line is not a whole JSON value is treated as one value over several lines.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the format can't be detected; the message says what was found.
///
/// ```
/// use runlog::transcripts::{Format, detect};
/// let line = br#"{"messages":[{"role":"user","content":"hi"}]}"#;
/// assert_eq!(detect(line).unwrap(), Format::OpenAi);
/// assert!(detect(b"a,b,c\n1,2,3\n").is_err());
/// ```
pub fn detect(bytes: &[u8]) -> Result<Format> {
    if let Some(what) = compressed(bytes) {
        return Err(Error::invalid(what));
    }
    let bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.trim_ascii().is_empty());
    let Some(first) = lines.next() else {
        return Err(empty());
    };
    let second = lines.clone().next();
    // The second line is only examined if the first doesn't decide.
    let undecided = second.filter(|_| is_document(first, None));
    if [Some(first), undecided]
        .into_iter()
        .flatten()
        .any(|line| line.contains(&0))
    {
        return Err(not_text());
    }
    if is_document(first, second) {
        return document(bytes).ok_or_else(|| unknown_document(first, bytes));
    }
    for looked_at in std::iter::once(first).chain(lines).take(LINES_MAX) {
        if looked_at.contains(&0) {
            return Err(not_text());
        }
        if let Some(format) = line(looked_at) {
            return Ok(format);
        }
    }
    Err(unknown(first))
}

/// The error of a source with a NUL byte in its first lines: no JSON has one unescaped.
pub(super) fn not_text() -> Error {
    Error::invalid(
        "not text: there is a NUL byte near its beginning; a transcript is JSON in UTF-8",
    )
}

/// What to say of a file that is compressed.
pub(crate) fn compressed(bytes: &[u8]) -> Option<&'static str> {
    let is_gzip = bytes.starts_with(b"\x1f\x8b");
    is_gzip.then_some("this is compressed by gzip; unpack it, and import what comes out")
}

/// The byte order mark that some programs begin a UTF-8 file with.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Whether a source that begins with these lines is one value over several lines. The second one is needed only if the
/// first doesn't decide.
pub(super) fn is_document(first: &[u8], second: Option<&[u8]>) -> bool {
    let is_by_itself = |line: &[u8]| line.starts_with(b"{") && !is_unfinished(line);
    is_unfinished(first) && (!second.is_some_and(is_by_itself) || ends_before_a_value(first))
}

/// Whether a text is the beginning of a JSON value.
fn is_unfinished(text: &[u8]) -> bool {
    let read: std::result::Result<serde::de::IgnoredAny, _> = serde_json::from_slice(text);
    read.is_err_and(|error| error.is_eof())
}

/// Whether an unfinished line ends where a value or a name is to follow, as the first line of an array with an element a line
/// does. A damaged line of its own breaks off anywhere, mostly in a string: there no line feed may follow.
fn ends_before_a_value(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.last().is_some_and(|last| b"[{,:".contains(last)) && is_unfinished(&[line, b"\n"].concat())
}

/// The format of one line, if it is recognizable.
pub(super) fn line(line: &[u8]) -> Option<Format> {
    let text = std::str::from_utf8(line).ok()?.trim();
    if text.starts_with('[') {
        return is_array_of_chats(text).then_some(Format::OpenAi);
    }
    let names = [
        "runlog",
        "history",
        "trajectory",
        "messages",
        "traj",
        "contents",
        "message",
        "role",
        "type",
        "sessionId",
        "uuid",
        "leafUuid",
    ];
    let [
        runlog,
        history,
        trajectory,
        messages,
        traj,
        contents,
        message,
        role,
        kind,
        session_id,
        uuid,
        leaf,
    ] = fields(text, names).ok()?;
    let is_array = |value: Option<&str>| value.is_some_and(|value| value.starts_with('['));
    let is_object = |value: Option<&str>| value.is_some_and(|value| value.starts_with('{'));
    if runlog.is_some() {
        Some(Format::Runlog)
    } else if is_array(history) || is_array(trajectory) {
        Some(Format::SweAgent)
    } else if is_array(messages) || is_array(traj) || is_array(contents) {
        Some(Format::OpenAi)
    } else if kind.is_some() && [session_id, uuid, leaf].iter().any(Option::is_some) {
        Some(Format::ClaudeCode)
    } else if role.and_then(string).is_some() || is_object(message) {
        Some(Format::OpenAi)
    } else {
        None
    }
}

/// Whether a JSON array's first element is a chat message, or a run with messages.
pub(super) fn is_array_of_chats(text: &str) -> bool {
    let mut first = None;
    let read = for_each_element(text, |element| {
        first.get_or_insert(element);
    });
    let is_chat = |element: &str| {
        element.starts_with('{') && line(element.as_bytes()) == Some(Format::OpenAi)
    };
    read.is_ok() && first.is_some_and(is_chat)
}

/// The format of one value over several lines. If it is malformed, its field names decide.
pub(super) fn document(bytes: &[u8]) -> Option<Format> {
    line(bytes).or_else(|| {
        let has = |name: &str| {
            bytes
                .windows(name.len())
                .any(|window| window == name.as_bytes())
        };
        if has("\"trajectory\"") || has("\"history\"") {
            Some(Format::SweAgent)
        } else if has("\"messages\"") {
            Some(Format::OpenAi)
        } else {
            None
        }
    })
}

pub(super) fn empty() -> Error {
    Error::invalid("no transcript in it: it is empty")
}

/// The error of one value over several lines, of unknown format: what stands in its first line alone tells nothing.
pub(super) fn unknown_document(first: &[u8], bytes: &[u8]) -> Error {
    let is_text = std::str::from_utf8(first).is_ok();
    unknown(if is_text { bytes } else { first })
}

/// The error of a source of unknown format which begins with the line `bytes`.
pub(super) fn unknown(bytes: &[u8]) -> Error {
    let first = bytes.split(|byte| *byte == b'\n').next();
    if let Err(error) = std::str::from_utf8(first.unwrap_or_default()) {
        let what = format!(
            "not UTF-8, in which a transcript is: byte {} of its first line is part of no character",
            error.valid_up_to() + 1
        );
        return Error::invalid(what);
    }
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(240)]);
    let words: Vec<&str> = beginning
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty())
        .collect();
    let first: String = words.join(" ").chars().take(60).collect();
    let formats = Format::ALL.map(Format::name).join(", ");
    let what = format!(
        "can't tell its format: expected one of {formats}, found text that begins with `{first}`"
    );
    Error::invalid(what)
}

/// Whether to give up after this many lines of unknown format.
pub(super) const fn gives_up_after(lines: usize) -> bool {
    lines >= LINES_MAX
}
