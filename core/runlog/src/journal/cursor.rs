//! [`Cursor`]: where the next page of a list begins, as a string that is valid only for that list.
//!
//! Hexadecimal digits of: version (1 byte), the kind of list (1), a hash of its filter (8), and the position: two
//! numbers (8 each, big-endian), for chats and their messages a third one; for a list ordered by name, the last name.

use std::fmt::Write;

use serde::Serialize;

use crate::{Error, Result};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 10;
/// The longest name in a list ordered by name.
const NAME_BYTES_MAX: usize = 4096;

/// The kind of list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Runs,
    Messages,
    ToolCalls,
    Sessions,
    Chats,
    ChatMessages,
    Steps,
    Requests,
    Flows,
    Agents,
    Instances,
    Search,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Runs => b'r',
            Self::Messages => b'm',
            Self::ToolCalls => b't',
            Self::Sessions => b's',
            Self::Chats => b'c',
            Self::ChatMessages => b'h',
            Self::Steps => b'p',
            Self::Requests => b'q',
            Self::Flows => b'f',
            Self::Agents => b'a',
            Self::Instances => b'i',
            Self::Search => b'x',
        }
    }
}

/// The numbers of a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) first: u64,
    pub(crate) second: u64,
    /// Used for chats and their messages.
    pub(crate) third: u64,
}

impl Cursor {
    /// The cursor as a string, bound to the list and its filter.
    pub(crate) fn encode(self, kind: Kind, filter: &impl Serialize) -> String {
        let mut bytes = head(kind, filter);
        bytes.extend(self.first.to_be_bytes());
        bytes.extend(self.second.to_be_bytes());
        if kind.numbers() > 2 {
            bytes.extend(self.third.to_be_bytes());
        }
        hexadecimal(&bytes)
    }

    /// Reads a cursor of this list and filter, if there is one.
    pub(crate) fn read(
        text: Option<&str>,
        kind: Kind,
        filter: &impl Serialize,
    ) -> Result<Option<Self>> {
        text.map(|text| Self::decode(text, kind, filter))
            .transpose()
    }

    /// Reads a cursor of this list and filter.
    pub(crate) fn decode(text: &str, kind: Kind, filter: &impl Serialize) -> Result<Self> {
        let bytes = bytes_of(text).ok_or_else(|| unreadable(text))?;
        check_head(&bytes, kind, filter)?;
        let (numbers, rest) = bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks::<8>();
        if numbers.len() != kind.numbers() || !rest.is_empty() {
            return Err(unreadable(text));
        }
        let number = |at: usize| {
            numbers
                .get(at)
                .map_or(0, |bytes| u64::from_be_bytes(*bytes))
        };
        Ok(Self {
            first: number(0),
            second: number(1),
            third: number(2),
        })
    }
}

/// The cursor of a list ordered by name, after a page that ended with this name.
pub(crate) fn encode_name(name: &str, kind: Kind, filter: &impl Serialize) -> String {
    let mut bytes = head(kind, filter);
    bytes.extend(name.as_bytes());
    hexadecimal(&bytes)
}

/// The name after which the page begins, if there is a cursor.
pub(crate) fn read_name(
    text: Option<&str>,
    kind: Kind,
    filter: &impl Serialize,
) -> Result<Option<String>> {
    let Some(text) = text else { return Ok(None) };
    let bytes = bytes_of(text).ok_or_else(|| unreadable(text))?;
    check_head(&bytes, kind, filter)?;
    let name = bytes.get(HEAD_BYTES..).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| unreadable(text))?;
    Ok(Some(name.to_owned()))
}

fn head(kind: Kind, filter: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![VERSION, kind.byte()];
    bytes.extend(hash(filter).to_be_bytes());
    bytes
}

/// Checks that a cursor is one of this list and filter.
fn check_head(bytes: &[u8], kind: Kind, filter: &impl Serialize) -> Result<()> {
    let wanted = head(kind, filter);
    let found = bytes.get(..HEAD_BYTES).unwrap_or_default();
    if found.first() != wanted.first() {
        return Err(Error::invalid(format!(
            "the cursor has version {}, this build reads version {VERSION}; list from the beginning",
            found.first().copied().unwrap_or_default()
        )));
    }
    if found.get(1) != wanted.get(1) {
        return Err(Error::invalid(format!(
            "the cursor is that of another kind of list, not one of {}",
            kind.name()
        )));
    }
    if found != wanted {
        return Err(Error::invalid(
            "the cursor is that of a list with other filters; give those, or list from the beginning",
        ));
    }
    Ok(())
}

/// Why a text is no cursor, and what to do.
fn unreadable(text: &str) -> Error {
    let quoted = text.chars().take(60).collect::<String>();
    let what = if text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        "the cursor was cut off, or something was added to it"
    } else {
        "this is no cursor"
    };
    Error::invalid(format!(
        "{what}; give `next` of the page before as it is, or leave the cursor out to list from the beginning: {quoted:?}"
    ))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

impl Kind {
    /// How many numbers a cursor of this kind of list has.
    fn numbers(self) -> usize {
        if matches!(self, Self::Chats | Self::ChatMessages) {
            3
        } else {
            2
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Messages => "messages",
            Self::ToolCalls => "tool calls",
            Self::Sessions => "sessions",
            Self::Chats => "chats",
            Self::ChatMessages => "messages of a chat",
            Self::Steps => "steps",
            Self::Requests => "requests",
            Self::Flows => "flows",
            Self::Agents => "agents",
            Self::Instances => "instances",
            Self::Search => "found messages",
        }
    }
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let length = text.len() / 2;
    let fits = (HEAD_BYTES..=HEAD_BYTES + NAME_BYTES_MAX).contains(&length);
    if !fits
        || !text.len().is_multiple_of(2)
        || !text.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return None;
    }
    (0..length)
        .map(|index| u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok())
        .collect()
}

/// FNV-1a of the filter's JSON: the same in every build, so that a cursor outlives the process.
fn hash(filter: &impl Serialize) -> u64 {
    let json = serde_json::to_vec(filter).expect("a filter of strings and numbers has a JSON form");
    json.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_cursor_fits_only_the_list_it_came_from() {
        let cursor = Cursor {
            first: 7,
            second: u64::MAX,
            third: 0,
        };
        let text = cursor.encode(Kind::Runs, &("a", 1));
        assert_eq!(
            Cursor::decode(&text, Kind::Runs, &("a", 1)).unwrap(),
            cursor
        );
        let later = text.replacen("01", "02", 1);
        for (text, kind, filter) in [
            (text.as_str(), Kind::Messages, ("a", 1)),
            (&text, Kind::Runs, ("a", 2)),
            (&later, Kind::Runs, ("a", 1)),
            ("", Kind::Runs, ("a", 1)),
            ("zz", Kind::Runs, ("a", 1)),
            (&text[1..], Kind::Runs, ("a", 1)),
            (&"é".repeat(26), Kind::Runs, ("a", 1)),
        ] {
            let error = Cursor::decode(text, kind, &filter).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text} {kind:?}");
        }
    }

    #[test]
    fn a_cursor_that_was_cut_is_told_so() {
        let message = |text: &str| {
            let error = Cursor::decode(text, Kind::Runs, &"f").unwrap_err();
            error.to_string()
        };
        let text = Cursor::default().encode(Kind::Runs, &"f");
        for cut in [
            "",
            "01",
            &text[..30],
            &text[..text.len() - 1],
            &text[..text.len() - 2],
        ] {
            let message = message(cut);
            assert!(message.contains("cut off"), "{cut}: {message}");
            assert!(
                message.contains("list from the beginning"),
                "{cut}: {message}"
            );
        }
        assert!(message(&format!("{text}00")).contains("added"));
        let junk = message("no cursor");
        assert!(junk.contains("this is no cursor"), "{junk}");
        let cut = encode_name("coder", Kind::Agents, &"p");
        let error = read_name(Some(&cut[..10]), Kind::Agents, &"p").unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
    }

    #[test]
    fn a_name_comes_back_and_any_other_text_is_refused() {
        let text = encode_name("coder é", Kind::Agents, &"p");
        let read = |text: &str, filter: &str| read_name(Some(text), Kind::Agents, &filter);
        assert_eq!(read(&text, "p").unwrap().as_deref(), Some("coder é"));
        assert_eq!(read_name(None, Kind::Agents, &"p").unwrap(), None);
        let of_numbers = Cursor::default().encode(Kind::Runs, &"p");
        let cut = &text[..text.len() - 2];
        let long = format!("{text}{}", "61".repeat(NAME_BYTES_MAX));
        for wrong in ["coder", "", "zz", &text[1..], cut, &of_numbers, &long] {
            let error = read(wrong, "p").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
        assert!(read(&text, "q").is_err());
    }

    #[test]
    fn cursors_are_the_same_in_every_build() {
        let text = Cursor {
            first: 7,
            second: 8,
            third: 0,
        }
        .encode(Kind::ToolCalls, &("a", 1));
        assert_eq!(text, "017414b44f969c391c5300000000000000070000000000000008");
    }
}
