//! What a run that goes on was asked to do, as its context tells.

use runlog_model::{Role, RunId};

use super::inner::Inner;
use crate::{
    Result,
    runs::{CONTINUE, ListRunMessages},
};

/// What a run is asked stands among so many of its first messages, behind the system prompt, or behind results of the calls that
/// were cut off.
const FIRST_MESSAGES: usize = 64;

impl Inner {
    /// What a paused run was asked to do: when it was resumed, or where nothing was said then, when the run was started that
    /// it goes on from.
    pub(super) async fn task_of(&self, paused: RunId) -> Result<String> {
        let runs = self.store.runs();
        let mut next = Some(paused);
        while let Some(id) = next {
            if let Some(task) = self.told_first(id).await? {
                return Ok(task);
            }
            next = runs.get(id).await?.and_then(|run| run.resumed_from);
        }
        Ok(String::new())
    }

    async fn told_first(&self, run: RunId) -> Result<Option<String>> {
        let first = ListRunMessages {
            limit: FIRST_MESSAGES,
            ..ListRunMessages::default()
        };
        let messages = self.store.runs().messages(run, &first).await?.items;
        let before_it_answers = messages
            .iter()
            .take_while(|message| message.role != Role::Assistant);
        for message in before_it_answers.filter(|message| message.role == Role::User) {
            let value: serde_json::Value = message.content.to_value()?;
            let Some(text) = value.get("content").and_then(|content| content.as_str()) else {
                continue;
            };
            let task = match text.strip_prefix(CONTINUE) {
                Some(beside) => beside.trim_start_matches('\n'),
                None => text,
            };
            return Ok(Some(task.to_owned()).filter(|task| !task.is_empty()));
        }
        Ok(None)
    }
}
