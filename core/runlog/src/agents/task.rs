//! The task of a resumed run, from its context.

use runlog_model::{
    Role, RunId,
    json::slices::{fields, string},
};

use super::inner::Inner;
use crate::{
    Result,
    runs::{CONTINUE, ListRunMessages},
};

/// The task is one of this many first messages of a run: after the system prompt, or after the results of the
/// interrupted calls.
const FIRST_MESSAGES: usize = 64;

impl Inner {
    /// The task of a paused run: the instructions it was resumed with, or else the task of the run that it resumes.
    pub(super) async fn task_of(&self, paused: RunId) -> Result<String> {
        let runs = self.store.runs();
        let mut next = Some(paused);
        while let Some(id) = next {
            if let Some(task) = self.own_task(id).await? {
                return Ok(task);
            }
            next = runs.get(id).await?.and_then(|run| run.resumed_from);
        }
        Ok(String::new())
    }

    async fn own_task(&self, run: RunId) -> Result<Option<String>> {
        let first = ListRunMessages {
            limit: FIRST_MESSAGES,
            ..ListRunMessages::default()
        };
        let messages = self.store.runs().messages(run, &first).await?.items;
        let before_it_answers = messages
            .iter()
            .take_while(|message| message.role != Role::Assistant);
        for message in before_it_answers.filter(|message| message.role == Role::User) {
            // Its other fields may be such as no value can hold, like 1e400.
            let [content] = fields(message.content.as_str(), ["content"]).unwrap_or_default();
            let Some(text) = content.and_then(string) else {
                continue;
            };
            let task = match text.strip_prefix(CONTINUE) {
                Some(added) => added.trim_start_matches('\n'),
                None => text.as_str(),
            };
            return Ok(Some(task.to_owned()).filter(|task| !task.is_empty()));
        }
        Ok(None)
    }
}
