//! Checks of fields that several types share.

use crate::{
    Error, RawJson, Result,
    limits::{CHAT_SEQUENCE_GIVEN_MAX, CHAT_SEQUENCE_MAX},
    time::LAST_MS,
};

/// Checks the length of a text in bytes.
pub(crate) fn check_length(what: &str, text: Option<&str>, bytes_max: usize) -> Result<()> {
    match text.map(str::len) {
        Some(length) if length > bytes_max => Err(Error::too_large(format!(
            "{what} has {length} bytes, at most {bytes_max} are allowed; shorten it"
        ))),
        _ => Ok(()),
    }
}

/// Checks the length of a text in characters.
pub(crate) fn length(what: &str, text: Option<&str>, chars_max: usize) -> Result<()> {
    // A character has at least one byte, so that most texts needn't be counted.
    let Some(text) = text.filter(|text| text.len() > chars_max) else {
        return Ok(());
    };
    let chars = text.chars().count();
    if chars <= chars_max {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "{what} has {chars} characters, at most {chars_max} are allowed; shorten it"
    )))
}

/// Checks that a text is there, and its length.
pub(crate) fn required(what: &str, text: &str, chars_max: usize) -> Result<()> {
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} is empty; give one")));
    }
    length(what, Some(text), chars_max)
}

/// Checks a time that a caller gave.
pub(crate) fn given_time(what: &str, at_ms: u64) -> Result<()> {
    if at_ms <= LAST_MS {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {at_ms}, which is after the year 9999; it is in milliseconds since 1970-01-01 UTC"
    )))
}

/// Checks that a JSON value is an object.
pub(crate) fn object(what: &str, json: Option<&RawJson>) -> Result<()> {
    match json {
        Some(json) if !json.as_str().trim_start().starts_with('{') => Err(Error::invalid(format!(
            "{what} should be a JSON object, but is {}",
            short(json.as_str())
        ))),
        _ => Ok(()),
    }
}

/// Checks a sequence, whoever gave it.
pub(crate) fn sequence(what: &str, sequence: u64) -> Result<()> {
    sequence_up_to(what, sequence, CHAT_SEQUENCE_MAX)
}

/// Checks a sequence that a caller gave: it has to leave room for those that the store assigns after it.
pub(crate) fn given_sequence(what: &str, id: &str, sequence: u64) -> Result<()> {
    let what = if id.is_empty() {
        format!("the {what}'s sequence")
    } else {
        format!("the sequence of {what} {id:?}")
    };
    sequence_up_to(&what, sequence, CHAT_SEQUENCE_GIVEN_MAX)
}

/// Checks that a sequence isn't left to the store.
pub(crate) fn chosen_sequence(what: &str, id: &str, sequence: u64) -> Result<()> {
    if sequence == 0 {
        return Err(Error::invalid(format!(
            "the sequence of {what} {id:?} would be 0; sequences count from 1"
        )));
    }
    Ok(())
}

fn sequence_up_to(what: &str, sequence: u64, max: u64) -> Result<()> {
    if sequence <= max {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} is {sequence}, at most {max} is allowed; 0 is the next one"
    )))
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}
