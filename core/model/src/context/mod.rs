//! Contexts: the input of an agent's model, as a sequence of [`ContextEvent`]s, and the folds that rebuild it.

pub(crate) mod dangling;
mod event;
mod fold;
mod in_order;
mod kind;
pub(crate) mod message;
mod new_event;
mod new_message;
pub(crate) mod placeholder;
mod summary;

pub use crate::codec::ToolMark;
pub use dangling::{DanglingFold, DanglingToolCall, dangling_tool_calls, error_results};
pub use event::{
    ContextEvent, EncodedMeta, EventOptions, NewContextEvent, context_labels, tool_call_label,
    tool_error_label,
};
pub use fold::{Message, MessageFold, messages};
pub use in_order::InOrder;
pub use kind::{ContextEventKind, Role};
pub use message::{
    ResultForm, ToolCallRequest, ToolStyle, is_response_item, place_without_id,
    response_item_types, role_of, style_of, tool_calls_of, tools_without_id,
};
pub use new_message::{NewMessage, NewToolCall};
pub use summary::{EventSummary, TokenUsage};
