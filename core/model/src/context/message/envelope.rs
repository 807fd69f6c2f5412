//! [`Envelope`]: the fields of a message that decide where it belongs.

use std::borrow::Cow;

use serde::Deserialize;

use crate::{
    Error, RawJson, Result, Role,
    json::slices::{beginning, each_element, unique_fields},
    limits::{MESSAGE_TOOLS_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// The fields of a message that decide where it belongs.
pub(in crate::context) struct Envelope<'a> {
    pub(in crate::context) role: Option<&'a str>,
    pub(super) content: Option<&'a str>,
    pub(super) tool_calls: Option<&'a str>,
    pub(super) function_call: Option<&'a str>,
    pub(super) tool_call_id: Option<&'a str>,
    pub(super) tool_call_ids: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    pub(in crate::context) fn of(json: &'a RawJson) -> Result<Self> {
        let names = [
            "role",
            "content",
            "tool_calls",
            "function_call",
            "tool_call_id",
            "tool_call_ids",
        ];
        let [
            role,
            content,
            tool_calls,
            function_call,
            tool_call_id,
            tool_call_ids,
        ] = unique_fields(json.as_str(), "a message", names)?;
        Ok(Self {
            role,
            content,
            tool_calls,
            function_call,
            tool_call_id,
            tool_call_ids,
        })
    }

    pub(in crate::context) fn role(&self) -> Result<Role> {
        match self.role {
            Some(raw) => string(raw, "role")?.parse(),
            None => Err(Error::invalid(
                "the message has no role; it is one of system, user, assistant, tool",
            )),
        }
    }

    /// Gives every content block of a type to `take`. Content that has no blocks has none of them.
    pub(super) fn each_block(
        &self,
        kind: &str,
        mut take: impl FnMut(&'a str) -> Result<()>,
    ) -> Result<()> {
        let Some(content) = self.content.filter(|content| content.starts_with('[')) else {
            return Ok(());
        };
        each_element(content, "content", |block| {
            if !block.starts_with('{') {
                return Ok(());
            }
            let [found] = unique_fields(block, "a content block", ["type"])?;
            match found.and_then(|text| text.strip_prefix('"')?.strip_suffix('"')) {
                Some(name) if name == kind => take(block),
                _ => Ok(()),
            }
        })
    }
}

/// The role of a message.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the message isn't an object, or has no known role.
pub fn role_of(json: &RawJson) -> Result<Role> {
    Envelope::of(json)?.role()
}

/// Adds a tool call or result, of which a message has a bounded number.
pub(super) fn push<T>(items: &mut Vec<T>, item: T, what: &str) -> Result<()> {
    if items.len() == MESSAGE_TOOLS_MAX {
        return Err(Error::too_large(format!(
            "the message has more than {MESSAGE_TOOLS_MAX} {what}; split it into several messages"
        )));
    }
    items.push(item);
    Ok(())
}

pub(in crate::context) fn string<'a>(raw: &'a str, what: &str) -> Result<Cow<'a, str>> {
    /// `Cow<str>` alone would always be copied.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

    serde_json::from_str::<Text<'a>>(raw)
        .map(|text| text.0)
        .map_err(|_| {
            Error::invalid(format!(
                "{what} should be a string, but is {:?}",
                beginning(raw)
            ))
        })
}

pub(in crate::context) fn id_string(raw: &str, what: &str) -> Result<String> {
    let id = string(raw, what)?;
    check_id_length(&id)?;
    Ok(id.into_owned())
}

pub(in crate::context) fn check_id_length(id: &str) -> Result<()> {
    if id.len() <= TOOL_CALL_ID_BYTES_MAX {
        return Ok(());
    }
    Err(Error::too_large(format!(
        "a tool call id has {} bytes, at most {TOOL_CALL_ID_BYTES_MAX} are allowed: {:?}…",
        id.len(),
        beginning(id)
    )))
}
