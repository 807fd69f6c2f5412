//! [`Cursor`]: where a list goes on, as a string that fits only the list it came from.
//!
//! Hexadecimal digits of: version (1 byte), the kind of list (1), a hash of its filter (8), and two numbers of
//! the list's own (8 each), big-endian.

use std::fmt::Write;

use serde::Serialize;

use crate::{Error, Result};

const VERSION: u8 = 1;
const BYTES: usize = 26;

/// What is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Runs,
    Messages,
    ToolCalls,
    Sessions,
    Chats,
    Steps,
    Flows,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Runs => b'r',
            Self::Messages => b'm',
            Self::ToolCalls => b't',
            Self::Sessions => b's',
            Self::Chats => b'c',
            Self::Steps => b'p',
            Self::Flows => b'f',
        }
    }
}

/// Two numbers that say where a list goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl Cursor {
    /// The cursor as a string, bound to the list and its filter.
    pub(crate) fn encode(self, kind: Kind, filter: &impl Serialize) -> String {
        let mut bytes = vec![VERSION, kind.byte()];
        bytes.extend(hash(filter).to_be_bytes());
        bytes.extend(self.first.to_be_bytes());
        bytes.extend(self.second.to_be_bytes());
        bytes
            .iter()
            .fold(String::with_capacity(2 * BYTES), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            })
    }

    /// Reads a cursor of this list and filter, where there is one.
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
        let bytes = bytes_of(text).ok_or_else(|| {
            Error::invalid(format!(
                "a cursor has {} hexadecimal digits and is given back as it came, but this one isn't: {:?}",
                2 * BYTES,
                text.chars().take(60).collect::<String>()
            ))
        })?;
        let number = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[at + index]));
        if bytes[0] != VERSION {
            return Err(Error::invalid(format!(
                "the cursor has version {}, this build reads version {VERSION}; list from the beginning",
                bytes[0]
            )));
        }
        if bytes[1] != kind.byte() {
            return Err(Error::invalid(format!(
                "the cursor is that of another kind of list, not one of {}",
                kind.name()
            )));
        }
        if number(2) != hash(filter) {
            return Err(Error::invalid(
                "the cursor is that of a list with other filters; give those, or list from the beginning",
            ));
        }
        Ok(Self {
            first: number(10),
            second: number(18),
        })
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Messages => "messages",
            Self::ToolCalls => "tool calls",
            Self::Sessions => "sessions",
            Self::Chats => "chats",
            Self::Steps => "steps",
            Self::Flows => "flows",
        }
    }
}

fn bytes_of(text: &str) -> Option<[u8; BYTES]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * BYTES || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
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
    fn cursors_are_the_same_in_every_build() {
        let text = Cursor {
            first: 7,
            second: 8,
        }
        .encode(Kind::ToolCalls, &("a", 1));
        assert_eq!(text, "017414b44f969c391c5300000000000000070000000000000008");
    }
}
