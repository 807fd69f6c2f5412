//! Contexts: the messages, tool calls and tool results of one agent, as immutable events.
//!
//! [`Contexts`] works on the events of any instance, [`Context`] on the messages that one agent's model sees.

mod append;
mod change;
pub(crate) mod context;
pub(crate) mod events;

pub use runlog_model::{
    ContextEvent, ContextEventKind, DanglingToolCall, EventOptions, JsonText, Message, NewMessage,
    NewToolCall, RawJson, Role, ToolMark, ToolStyle, read_fields, read_json, read_json_at,
    read_json_borrowed, read_value, read_with_own_id,
};

pub use append::{AppendOptions, AppendResult};
pub use context::{Context, RawMessage};
pub use events::{Contexts, EventPages, Followed};
