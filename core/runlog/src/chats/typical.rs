//! S4's typical request, to try and to measure.

use runlog_model::{ChatMessage, ChatRole, RawJson, StepType};

use super::{NewRequest, RequestEnd};
use crate::{ChatStore, Result};

/// Records a typical request in a chat: the user's message, five steps (hook_create, llm, tool, llm, hook_next)
/// and five messages: 11 records in 2 writes.
///
/// ```
/// use runlog::{Chat, Store, record_typical_request};
///
/// let chats = Store::in_memory().chats();
/// let chat = chats.create_chat(Chat::new("travel"))?;
/// record_typical_request(&chats, &chat.chat_id)?;
/// assert_eq!(chats.get_messages(&chat.chat_id, &Default::default())?.len(), 6);
/// # Ok::<(), runlog::Error>(())
/// ```
///
/// # Errors
/// As [`ChatStore::begin_request`], and those of the storage.
pub fn record_typical_request(chats: &ChatStore, chat_id: &str) -> Result<()> {
    let messages = r#"{"messages":[{"role":"user","content":"What will the weather be in Oslo tomorrow?"}]}"#;
    let asked = ChatMessage::text(ChatRole::User, "What will the weather be in Oslo tomorrow?");
    let mut request = chats.begin_request(chat_id, NewRequest::new("weather"), asked)?;
    let said = ["Let me look.", "Looking up Oslo.", "Found it.", "Rain in the morning,", "and sun at noon."];
    let steps = [
        (StepType::HookCreate, messages, messages),
        (StepType::Llm, messages, r#"{"content":"Let me look.","tool_calls":[{"id":"c1","name":"forecast"}]}"#),
        (StepType::Tool, r#"{"server":"weather","tool":"forecast","args":{"city":"Oslo"}}"#, r#"{"result":"rain"}"#),
        (StepType::Llm, messages, r#"{"content":"Rain in the morning, and sun at noon."}"#),
        (StepType::HookNext, r#"{"completion":{},"tools":[]}"#, r#"{"data":null}"#),
    ];
    for ((step_type, input, output), said) in steps.into_iter().zip(said) {
        let step = request.start_step(step_type, RawJson::parse(input)?)?;
        request.send(ChatMessage::text(ChatRole::Assistant, said))?;
        request.complete_step(&step, Some(RawJson::parse(output)?))?;
    }
    request.finish(RequestEnd::Completed)
}
