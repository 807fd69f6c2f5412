//! The steps of chats.

use std::collections::HashSet;

use runlog_model::{ChatEvent, Step, Timestamp, Updates};

use super::{
    AsyncChatStore,
    cache::IdOf,
    store::{check_chat, exists, no},
};
use crate::{Error, Result};

impl AsyncChatStore {
    /// Saves steps of one chat: all of them or none. Each says which chat it is in. What is left empty (id,
    /// sequence, times) is given by the store. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a step id that is taken;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when they are of several chats, or a field is refused.
    pub async fn save_steps(&self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let Some(first) = steps.first() else { return Ok(Vec::new()) };
        let session = self.session_id(&first.chat_id).await?;
        let named = first.chat_id.clone();
        let chat = self.chat_id_of(session);
        let mut completed = Vec::with_capacity(steps.len());
        for mut step in steps {
            if step.chat_id == named {
                step.chat_id.clone_from(&chat);
            }
            completed.push(self.complete_step(step, &chat)?);
        }
        self.write(session, |fold| {
            let mut taken = HashSet::new();
            for step in &completed {
                if fold.step(&step.step_id).is_some() || !taken.insert(&step.step_id) {
                    return Err(exists("step", &step.step_id, "update_step changes it"));
                }
            }
            Ok(completed.iter().map(|step| ChatEvent::StepSaved(Box::new(step.clone()))).collect())
        })
        .await?;
        let fold = self.store.chat_fold(session).await?;
        Ok(completed.iter().filter_map(|step| fold.step(&step.step_id).cloned()).collect())
    }

    fn complete_step(&self, mut step: Step, chat: &str) -> Result<Step> {
        check_chat("step", &step.chat_id, chat)?;
        step.check()?;
        if step.step_id.is_empty() {
            step.step_id = self.store.backend().new_id().to_string();
        }
        step.created_at = step.created_at.or(Timestamp(self.store.backend().now_ms()));
        step.updated_at = step.updated_at.or(step.created_at);
        Ok(step)
    }

    /// Changes fields of a step, its status among them. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the step, [`Ambiguous`](crate::ErrorKind::Ambiguous)
    /// when several have, [`InvalidInput`](crate::ErrorKind::InvalidInput) or
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a field that is refused.
    pub async fn update_step(&self, step_id: &str, updates: &Updates) -> Result<Step> {
        let session = self.store.chat_with(IdOf::Step, step_id).await?;
        let at = Timestamp(self.store.backend().now_ms());
        self.write(session, |fold| {
            fold.step(step_id).ok_or_else(|| no("step", step_id))?.updated(updates, at)?;
            Ok(vec![ChatEvent::StepUpdated { step_id: step_id.to_owned(), at, updates: updates.clone() }])
        })
        .await?;
        let fold = self.store.chat_fold(session).await?;
        fold.step(step_id).cloned().ok_or_else(|| no("step", step_id))
    }

    /// The steps of a request, in its order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the request.
    pub async fn get_steps(&self, request_id: &str) -> Result<Vec<Step>> {
        let session = self.store.chat_with(IdOf::Request, request_id).await?;
        Ok(self.store.chat_fold(session).await?.steps_of_request(request_id).into_iter().cloned().collect())
    }

    /// The chat's last step that isn't completed; `None` when there is nothing to resume.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_last_incomplete_step(&self, chat_id: &str) -> Result<Option<Step>> {
        let session = self.session_id(chat_id).await?;
        Ok(self.store.chat_fold(session).await?.last_incomplete_step().cloned())
    }

    /// The steps of a node of the call stack, in their order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the node.
    pub async fn get_steps_by_stack_id(&self, stack_id: &str) -> Result<Vec<Step>> {
        let session = self.store.chat_with(IdOf::Stack, stack_id).await?;
        Ok(self.store.chat_fold(session).await?.steps_of_stack(stack_id).into_iter().cloned().collect())
    }

    /// The nodes of the call stack from the root to this one.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the node,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when its steps' parents go round in a circle.
    pub async fn get_stack_path(&self, stack_id: &str) -> Result<Vec<String>> {
        let session = self.store.chat_with(IdOf::Stack, stack_id).await?;
        let path = self.store.chat_fold(session).await?.stack_path(stack_id)?;
        path.ok_or_else(|| Error::not_found(format!("no step has the stack {stack_id:?}")))
    }
}
