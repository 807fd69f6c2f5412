//! [`ContextEventKind`]: what a context event is; [`Role`]: who a message is from.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, kinds, named::named};

/// What a context event is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ContextEventType"))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ContextEventKind {
    /// The initial system prompt: a message.
    SystemMessage = kinds::SYSTEM_MESSAGE,
    /// What the user or the task said: a message.
    UserMessage = kinds::USER_MESSAGE,
    /// What the model answered: a message, with the tool calls it asks for.
    AssistantMessage = kinds::ASSISTANT_MESSAGE,
    /// One tool call, `{id, name, arguments}`: a record beside the assistant message, not a message.
    ToolCall = kinds::TOOL_CALL,
    /// The results of one or more tool calls: a message.
    ToolResult = kinds::TOOL_RESULT,
}

named! {
    ContextEventKind: "event type" {
        SystemMessage = "system_message",
        UserMessage = "user_message",
        AssistantMessage = "assistant_message",
        ToolCall = "tool_call",
        ToolResult = "tool_result",
    }
}

impl ContextEventKind {
    /// The engine's kind byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The kind of a kind byte, `None` when it isn't one of a context event.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Whether the event is a message of the context; all are, except [`ToolCall`](Self::ToolCall).
    pub const fn is_message(self) -> bool {
        !matches!(self, Self::ToolCall)
    }

    /// The role of a message of this kind that names none itself. `None` for what isn't a message.
    pub const fn role(self) -> Option<Role> {
        match self {
            Self::SystemMessage => Some(Role::System),
            Self::UserMessage => Some(Role::User),
            Self::AssistantMessage => Some(Role::Assistant),
            Self::ToolCall => None,
            Self::ToolResult => Some(Role::Tool),
        }
    }
}

/// Who a message is from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The system prompt.
    System,
    /// The user or the task.
    User,
    /// The model.
    Assistant,
    /// A tool that was called.
    Tool,
}

named! {
    Role {
        System = "system",
        User = "user",
        Assistant = "assistant",
        Tool = "tool",
    }
}

impl Role {
    /// The kind of event that a message of this role becomes.
    pub const fn event_kind(self) -> ContextEventKind {
        match self {
            Self::System => ContextEventKind::SystemMessage,
            Self::User => ContextEventKind::UserMessage,
            Self::Assistant => ContextEventKind::AssistantMessage,
            Self::Tool => ContextEventKind::ToolResult,
        }
    }
}

/// Reads the roles that providers use: also `developer` (system) and `function` (tool).
impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "system" | "developer" => Ok(Self::System),
            "user" => Ok(Self::User),
            "assistant" => Ok(Self::Assistant),
            "tool" | "function" => Ok(Self::Tool),
            _ => Err(Error::invalid(format!(
                "unknown role {name:?}; it is one of system, developer, user, assistant, tool, function"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_bytes_are_fixed_and_below_the_engines_own() {
        let bytes = ContextEventKind::ALL.map(ContextEventKind::byte);
        assert_eq!(bytes, [1, 2, 3, 4, 5]);
        for kind in ContextEventKind::ALL {
            assert_eq!(ContextEventKind::from_byte(kind.byte()), Some(kind));
            assert_eq!(kind.name().parse::<ContextEventKind>().unwrap(), kind);
        }
        assert_eq!(ContextEventKind::from_byte(0), None);
        assert_eq!(ContextEventKind::from_byte(6), None);
    }
}
