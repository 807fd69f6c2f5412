//! The tool calls that are open at the place where a recorder is about to write.

use runlog_log::Sequence;
use runlog_model::{
    ContextEvent, ContextEventKind, DanglingFold, DanglingToolCall, NewContextEvent, RawJson,
    is_response_item,
};

use super::state::RunRecorder;
use crate::{
    Result,
    kernel::runs::Turn,
    runs::open_calls::{OpenCalls, is_result},
};

impl RunRecorder {
    /// Waits for its turn to write to the context.
    pub(super) async fn turn<'e>(
        &self,
        mut events: impl Iterator<Item = &'e NewContextEvent>,
    ) -> Turn<'_> {
        self.inner.order.turn(events.all(is_result)).await
    }

    /// The calls that are open before events that are about to be written; `None` for results only, which are always allowed.
    pub(super) async fn open_before<'e>(
        &self,
        mut events: impl Iterator<Item = &'e NewContextEvent>,
    ) -> Result<Option<OpenCalls>> {
        if events.all(is_result) {
            return Ok(None);
        }
        // Taken out, not cloned, as there may be many: whoever has its turn to write more than results has it alone. Where it
        // isn't given back, after an error, it is looked for again.
        match self.look_at_calls(|calls| calls.open.take()).await? {
            Some(open) => Ok(Some(open)),
            None => Ok(Some(OpenCalls::of(&self.look_for_open().await?))),
        }
    }

    /// Searches back to the last message that is no result: in a context that providers accept, no call before it can
    /// be open.
    pub(super) async fn look_for_open(&self) -> Result<Vec<DanglingToolCall>> {
        let instance = self.state().run.instance_id;
        let mut turn = Vec::new();
        let mut items = false;
        let collect = |event: &ContextEvent| match event.event_type {
            ContextEventKind::UserMessage | ContextEventKind::SystemMessage => Some(()),
            ContextEventKind::AssistantMessage => {
                turn.push(event.clone());
                items = is_response_item(&event.content);
                (!items).then_some(())
            }
            // An answered call before the items of an answer belongs to an earlier turn.
            ContextEventKind::ToolResult if items => Some(()),
            ContextEventKind::ToolCall | ContextEventKind::ToolResult => {
                let mut event = event.clone();
                let has_ids = |event: &ContextEvent| {
                    let mut marks = event.tool_results.iter();
                    marks.all(|mark| mark.tool_call_id.is_some())
                };
                if event.event_type == ContextEventKind::ToolResult && has_ids(&event) {
                    // The content of a result that names its call isn't needed, and may be large.
                    event.content = RawJson::null();
                }
                turn.push(event);
                None
            }
        };
        self.inner
            .runs
            .store
            .contexts()
            .find_back(instance, Sequence::MAX, &ContextEventKind::ALL, collect)
            .await?;
        let mut fold = DanglingFold::new();
        turn.iter().rev().try_for_each(|event| fold.push(event))?;
        Ok(fold.finish())
    }
}
