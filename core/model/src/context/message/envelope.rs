//! [`Envelope`]: the fields of a message that decide where it belongs.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;

use crate::{
    Error, RawJson, Result, Role,
    json::slices::{beginning, each_element, has_field, unique_fields},
    limits::{MESSAGE_TOOLS_MAX, TOOL_CALL_ID_BYTES_MAX},
};

/// The fields of a message that decide where it belongs.
pub(in crate::context) struct Envelope<'a> {
    pub(in crate::context) role: Option<&'a str>,
    pub(super) content: Option<&'a str>,
    pub(super) tool_calls: Option<&'a str>,
    /// Whether the fields of OpenAI's form are named in camelCase.
    pub(super) is_camel: bool,
    pub(super) function_call: Option<&'a str>,
    pub(super) tool_call_id: Option<&'a str>,
    pub(super) tool_call_ids: Option<&'a str>,
    /// The item of OpenAI's Responses that it is, which has no role.
    pub(in crate::context) item: Option<Item>,
    /// The parts of a content of Gemini's.
    pub(super) parts: Option<&'a str>,
    text: &'a str,
}

/// An item of OpenAI's Responses that has no role: what it is says whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::context) enum Item {
    FunctionCall,
    FunctionCallOutput,
    /// A call whose input is a text of any form.
    CustomCall,
    CustomCallOutput,
    /// What the model thought, or did by a tool of the provider's own, which has its result with it.
    OfModel,
    /// Whether the user lets the model call a tool of a server that the provider asks.
    Approval,
}

impl Item {
    /// Each by its type.
    const ALL: [(&'static str, Self); 14] = [
        ("function_call", Self::FunctionCall),
        ("function_call_output", Self::FunctionCallOutput),
        ("custom_tool_call", Self::CustomCall),
        ("custom_tool_call_output", Self::CustomCallOutput),
        ("reasoning", Self::OfModel),
        ("web_search_call", Self::OfModel),
        ("file_search_call", Self::OfModel),
        ("code_interpreter_call", Self::OfModel),
        ("image_generation_call", Self::OfModel),
        ("mcp_list_tools", Self::OfModel),
        ("mcp_call", Self::OfModel),
        ("mcp_approval_request", Self::OfModel),
        ("mcp_approval_response", Self::Approval),
        ("compaction", Self::OfModel),
    ];

    fn of(raw: &str) -> Option<Self> {
        let name = raw.strip_prefix('"')?.strip_suffix('"')?;
        let found = Self::ALL.iter().find(|(own, _)| *own == name);
        found.map(|(_, item)| *item)
    }

    fn role(self) -> Role {
        match self {
            Self::FunctionCall | Self::CustomCall | Self::OfModel => Role::Assistant,
            Self::FunctionCallOutput | Self::CustomCallOutput => Role::Tool,
            Self::Approval => Role::User,
        }
    }

    /// Its type, where it is the result of a call.
    pub(super) fn output_type(self) -> Option<&'static str> {
        match self {
            Self::FunctionCallOutput => Some("function_call_output"),
            Self::CustomCallOutput => Some("custom_tool_call_output"),
            _ => None,
        }
    }
}

/// The types of the items of OpenAI's Responses that are messages without a role.
pub fn response_item_types() -> impl Iterator<Item = &'static str> {
    Item::ALL.iter().map(|(name, _)| *name)
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
            "type",
            "parts",
            "toolCalls",
            "toolCallId",
        ];
        let [
            role,
            content,
            tool_calls,
            function_call,
            tool_call_id,
            tool_call_ids,
            kind,
            parts,
            camel_calls,
            camel_call_id,
        ] = unique_fields(json.as_str(), "a message", names)?;
        let parts = match (parts, content) {
            (Some(parts), None) if are_untyped(parts)? => Some(parts),
            _ => None,
        };
        Ok(Self {
            role,
            content,
            tool_calls: tool_calls.or(camel_calls),
            is_camel: tool_calls.is_none() && camel_calls.is_some(),
            function_call,
            tool_call_id: tool_call_id.or(camel_call_id),
            tool_call_ids,
            item: kind.filter(|_| role.is_none()).and_then(Item::of),
            parts,
            text: json.as_str(),
        })
    }

    /// Fields of the message by their names.
    pub(super) fn fields<const N: usize>(&self, names: [&str; N]) -> Result<[Option<&'a str>; N]> {
        unique_fields(self.text, "a message", names)
    }

    /// Whether it is what the model says, as an item of OpenAI's Responses, which has a role.
    fn is_message_item(&self) -> bool {
        self.role == Some("\"assistant\"")
            && self
                .fields(["type"])
                .is_ok_and(|[kind]| kind == Some("\"message\""))
    }

    pub(in crate::context) fn role(&self) -> Result<Role> {
        match (self.role, self.item) {
            // What Gemini's model says; elsewhere nobody has this role.
            (Some("\"model\""), _) if self.parts.is_some() => Ok(Role::Assistant),
            (Some(raw), _) => string(raw, "role")?.parse(),
            (None, Some(item)) => Ok(item.role()),
            (None, None) => Err(self.without_role()?),
        }
    }

    fn without_role(&self) -> Result<Error> {
        let roles = "one of system, developer, user, assistant, tool, function";
        let [kind] = self.fields(["type"])?;
        let Some(kind) = kind.filter(|kind| kind.starts_with('"')) else {
            return Ok(Error::invalid(format!(
                "the message has no role; it is {roles}"
            )));
        };
        let items: Vec<&str> = response_item_types().collect();
        Ok(Error::invalid(format!(
            "the message has no role, which is {roles}; and by its type, {}, it is none of the items of OpenAI's Responses that are taken \
             without one: {}",
            beginning(kind),
            items.join(", ")
        )))
    }

    /// Gives what every part of Gemini's content holds under one of two names to `take`: the API's name, and that of its client
    /// for Python.
    pub(super) fn each_part(
        &self,
        names: [&str; 2],
        take: impl FnMut(&'a str) -> Result<()>,
    ) -> Result<()> {
        match self.parts {
            Some(parts) => each_member(parts, "parts", names, take),
            None => Ok(()),
        }
    }

    /// Gives what blocks of Bedrock's Converse hold under a name to `take`. They have no `type`, unlike those of the others.
    pub(super) fn each_untyped_block(
        &self,
        name: &str,
        take: impl FnMut(&'a str) -> Result<()>,
    ) -> Result<()> {
        // Almost no message has them: a search for the name is far cheaper than another look at each block.
        let has_name = |content: &&str| memmem::find(content.as_bytes(), name.as_bytes()).is_some();
        let content = self.content.filter(|content| content.starts_with('['));
        match content.filter(has_name) {
            Some(content) => each_member(content, "content", [name, name], take),
            None => Ok(()),
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

/// Gives the object that elements without a `type` hold under one of two names to `take`.
fn each_member<'a>(
    elements: &'a str,
    what: &str,
    names: [&str; 2],
    mut take: impl FnMut(&'a str) -> Result<()>,
) -> Result<()> {
    let mut place = 0;
    each_element(elements, what, |element| {
        let at = place;
        place += 1;
        if !element.starts_with('{') || has_field(element, "type") {
            return Ok(());
        }
        let [camel, snake] = unique_fields(element, "a part of the message", names)?;
        match camel.or(snake) {
            Some(found) if found.starts_with('{') => take(found),
            // Clients for Python write the fields that a part hasn't.
            None | Some("null") => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "{what}[{at}].{} should be an object, but is {:?}",
                names[0],
                beginning(other)
            ))),
        }
    })
}

/// The text that names something, which can't be empty; `null` is nothing.
pub(super) fn named(raw: Option<&str>, what: &str) -> Result<Option<String>> {
    let Some(raw) = raw.filter(|raw| *raw != "null") else {
        return Ok(None);
    };
    match id_string(raw, what)? {
        id if id.is_empty() => Err(Error::invalid(format!(
            "{what} is empty; give one, or leave it out where the provider gives none"
        ))),
        id => Ok(Some(id)),
    }
}

/// Whether parts are objects that have no `type`, as Gemini and Bedrock write them; those of all others have one.
fn are_untyped(parts: &str) -> Result<bool> {
    let (mut count, mut fit) = (0_usize, parts.starts_with('['));
    if fit {
        each_element(parts, "parts", |part| {
            count += 1;
            fit = fit && part.starts_with('{') && !has_field(part, "type");
            Ok(())
        })?;
    }
    Ok(fit && count > 0)
}

/// Whether a message is an item of OpenAI's Responses: those of one answer follow one another, calls among them.
pub fn is_response_item(json: &RawJson) -> bool {
    Envelope::of(json).is_ok_and(|envelope| {
        let is_without_role = |item: Item| item.role() == Role::Assistant;
        // What the model says is an item, too, and may follow its calls.
        envelope
            .item
            .map_or_else(|| envelope.is_message_item(), is_without_role)
    })
}

/// Whether a message's blocks are those of Bedrock's Converse: objects without a `type`.
pub(in crate::context) fn is_bedrocks(json: &RawJson) -> bool {
    let Ok(Envelope {
        content: Some(content),
        ..
    }) = Envelope::of(json)
    else {
        return false;
    };
    are_untyped(content).unwrap_or(false)
}

/// Whether a message is a content of Gemini's, which has `parts`.
pub(in crate::context) fn is_geminis(json: &RawJson) -> bool {
    Envelope::of(json).is_ok_and(|envelope| envelope.parts.is_some())
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
