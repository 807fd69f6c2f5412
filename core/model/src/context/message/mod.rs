//! Messages as providers write them: role, tool calls and tool results read out of raw JSON, whose bytes stay.
//!
//! Read are OpenAI's form (`tool_calls[].function.{name, arguments}`, `tool_call_id`, the older `function_call`),
//! Anthropic's (content blocks `tool_use` and `tool_result`), that of the Vercel AI SDK's model messages (content parts
//! `tool-call` and `tool-result`), the items `function_call` and `function_call_output` of OpenAI's Responses, Gemini's parts
//! `functionCall` and `functionResponse`, the blocks `toolUse` and `toolResult` of Amazon Bedrock's Converse, OpenAI's form with
//! `toolCalls` and `toolCallId`, as the TypeScript clients of Mistral and Cohere have it, and the plain `tool_calls[].{id, name, arguments}`.
//! What is not understood is kept, not refused: only what decides where an event belongs must be right.

mod calls;
mod content;
mod envelope;
mod form;
mod results;

pub(crate) use calls::plain_call;
pub use calls::{ToolCallRequest, ToolStyle, style_of, tool_calls_of};
pub(super) use content::{Content, check as check_content};
pub(super) use envelope::{Envelope, check_id_length, id_string, is_bedrocks, is_geminis, string};
pub use envelope::{is_response_item, response_item_types, role_of};
pub use form::ResultForm;
pub(crate) use results::{outputs_of, without_results};
pub use results::{place_without_id, tools_without_id};
