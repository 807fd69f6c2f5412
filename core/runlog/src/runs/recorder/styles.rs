//! How the provider wrote the calls of a run, and so wants their results.

use std::collections::HashMap;

use runlog_model::{ContextEvent, ContextEventKind, NewContextEvent, ToolStyle, tool_calls_of};

use super::AsyncRunRecorder;
use crate::Result;

impl AsyncRunRecorder {
    /// How the provider wrote a call. One that another recorder recorded, such as that of the run before a resume, is
    /// looked for from the end of the context.
    pub(super) async fn style_of(&self, tool_call_id: &str) -> Result<ToolStyle> {
        let known = self.state().styles.get(tool_call_id).copied();
        if let Some(style) = known {
            return Ok(style);
        }
        let instance = self.state().run.instance_id;
        let kinds = [ContextEventKind::AssistantMessage, ContextEventKind::ToolCall];
        let mut is_made = false;
        let look = |event: &ContextEvent| {
            if event.event_type == ContextEventKind::ToolCall {
                is_made |= event.tool_call_id.as_deref() == Some(tool_call_id);
                return None;
            }
            let calls = tool_calls_of(&event.content).unwrap_or_default();
            let call = calls.into_iter().find(|call| call.id.as_deref() == Some(tool_call_id));
            // A call that the message before it doesn't make was appended by itself.
            call.map(|call| call.style).or(is_made.then_some(ToolStyle::OpenAi))
        };
        let found = self.inner.runs.store.contexts().find_back(instance, &kinds, look).await?;
        Ok(found.unwrap_or(ToolStyle::OpenAi))
    }
}

/// Keeps the style of the calls of the last message that made some: results come before the next calls.
pub(super) fn remember_styles(styles: &mut HashMap<String, ToolStyle>, events: &[NewContextEvent]) {
    for event in events.iter().filter(|event| event.kind == ContextEventKind::AssistantMessage) {
        let calls = tool_calls_of(&event.content).unwrap_or_default();
        if !calls.is_empty() {
            styles.clear();
            styles.extend(calls.into_iter().filter_map(|call| Some((call.id?, call.style))));
        }
    }
}
