//! [`ContextEventKind`]: what a context event is; [`Role`]: who a message is from.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, Result, kinds};

/// What a context event is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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

impl ContextEventKind {
    /// Every kind, in the order of their bytes.
    pub const ALL: [Self; 5] = [
        Self::SystemMessage,
        Self::UserMessage,
        Self::AssistantMessage,
        Self::ToolCall,
        Self::ToolResult,
    ];

    /// The engine's kind byte.
    pub const fn byte(self) -> u8 {
        self as u8
    }

    /// The kind of a kind byte, `None` when it isn't one of a context event.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.byte() == byte)
    }

    /// Its name in snake_case, the same in the CLI, HTTP and JavaScript.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SystemMessage => "system_message",
            Self::UserMessage => "user_message",
            Self::AssistantMessage => "assistant_message",
            Self::ToolCall => "tool_call",
            Self::ToolResult => "tool_result",
        }
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

impl fmt::Display for ContextEventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ContextEventKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            Error::invalid(format!(
                "unknown event type {name:?}; it is one of system_message, user_message, assistant_message, tool_call, tool_result"
            ))
        })
    }
}

/// Who a message is from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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

impl Role {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

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

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
