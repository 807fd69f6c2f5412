//! How the assistants of a request call each other: one after the other, or several at once.

use runlog_model::{Step, StepStatus, StepType};
use serde::Deserialize;

use super::{draft::RequestDraft, store::not_found};
#[cfg(doc)]
use crate::ErrorKind;
use crate::{Error, Result};

/// How another assistant is called beside what else goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DelegateOptions {
    /// The step of type `delegate` that waits for it; when left out, the last one that the calling node has begun and that has
    /// no node yet.
    pub step_id: Option<String>,
    /// The node that calls; when left out, the one at work.
    pub from: Option<String>,
    /// The id of the new node; a fresh one when left out.
    pub stack_id: Option<String>,
}

impl RequestDraft {
    /// Calls another assistant: it becomes the current one, one level deeper in the stack. Returns the node's id.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an empty id, [`TooLarge`](ErrorKind::TooLarge) when the stack is deeper than
    /// [`STACK_DEPTH_MAX`](runlog_model::limits::STACK_DEPTH_MAX).
    pub fn enter(&mut self, assistant_id: impl Into<String>) -> Result<String> {
        let stack_id = self.backend.new_id().to_string();
        self.enter_as(assistant_id, stack_id)
    }

    /// [`enter`](Self::enter) with a node id chosen by the caller.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn enter_as(
        &mut self,
        assistant_id: impl Into<String>,
        stack_id: impl Into<String>,
    ) -> Result<String> {
        let options = DelegateOptions {
            stack_id: Some(stack_id.into()),
            ..DelegateOptions::default()
        };
        let stack_id = self.delegate(assistant_id, options)?;
        self.stack.go_to(&stack_id)?;
        Ok(stack_id)
    }

    /// Calls another assistant concurrently: the current assistant stays the current one, and the steps of the new one
    /// are recorded with [`start_step_in`](Self::start_step_in). So several can be called at once, each in a node of
    /// its own, by any node of the request. Returns the new node's id.
    ///
    /// The step of type `delegate` that waits for this node is the named one; by default, the last one that the caller
    /// has begun and that has no node yet. Name it if several tasks call concurrently: then the last begun step depends
    /// on their timing.
    ///
    /// ```
    /// use runlog::{
    ///     RawJson,
    ///     blocking::Store,
    ///     chats::{Chat, ChatMessage, ChatRole, DelegateOptions, NewRequest, RequestEnd, StepType},
    /// };
    ///
    /// let chats = Store::in_memory().chats();
    /// let chat_id = chats.create_chat(Chat::new("lead"))?.chat_id;
    /// let asked = ChatMessage::text(ChatRole::User, "Oslo or Bergen?");
    /// let mut request = chats.begin_request(&chat_id, NewRequest::new("lead"), asked)?;
    /// let (root, none) = (request.stack_id().to_owned(), RawJson::parse("{}")?);
    /// let asks = [(); 2].map(|()| request.start_step(StepType::Delegate, none.clone()));
    /// let [oslo, bergen] = asks.map(|step| {
    ///     let waits = DelegateOptions { step_id: Some(step?), ..DelegateOptions::default() };
    ///     request.delegate("scout", waits)
    /// });
    /// let (oslo, bergen) = (oslo?, bergen?);
    /// for stack in [&oslo, &bergen, &oslo] {
    ///     let step = request.start_step_in(stack, StepType::Llm, none.clone())?;
    ///     request.complete_step(&step, None)?;
    /// }
    /// request.finish(RequestEnd::Completed)?;
    /// assert_eq!(chats.get_stack_path(&bergen)?, [root, bergen]);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when the request has no node `from`, or no such step;
    /// [`InvalidInput`](ErrorKind::InvalidInput) for an empty id, or when the step isn't a delegate step of that node that runs and
    /// has no node yet; [`AlreadyExists`](ErrorKind::AlreadyExists) when another node has the id, [`TooLarge`](ErrorKind::TooLarge)
    /// when the stack is deeper than [`STACK_DEPTH_MAX`].
    ///
    /// [`STACK_DEPTH_MAX`]: runlog_model::limits::STACK_DEPTH_MAX
    pub fn delegate(
        &mut self,
        assistant_id: impl Into<String>,
        options: DelegateOptions,
    ) -> Result<String> {
        let from = options.from.unwrap_or_else(|| self.stack_id().to_owned());
        let stack_id = options
            .stack_id
            .unwrap_or_else(|| self.backend.new_id().to_string());
        let waiting = match options.step_id {
            Some(step_id) => Some(self.named(step_id, &from)?),
            None => self.last_waiting(&from),
        };
        let assistant_id = assistant_id.into();
        self.stack
            .call(&from, assistant_id, stack_id.clone(), waiting)?;
        Ok(stack_id)
    }

    /// The step with an id, if it can wait for the next call of the node `from`.
    fn named(&self, step_id: String, from: &str) -> Result<String> {
        let mut steps = self.steps.iter().map(|buffered| &buffered.step);
        let step = steps
            .find(|step| step.step_id == step_id)
            .ok_or_else(|| not_found("step of the request", &step_id))?;
        if !self.waits(step, from) {
            return Err(Error::invalid(format!(
                "step {step_id:?} can't wait for another assistant: that takes a step of type delegate that node {from:?} has begun, \
                 that runs, and that waits for none yet"
            )));
        }
        Ok(step_id)
    }

    /// The last step that can wait for the next call of the node `from`.
    fn last_waiting(&self, from: &str) -> Option<String> {
        let mut steps = self.steps.iter().rev().map(|buffered| &buffered.step);
        let waiting = steps.find(|step| self.waits(step, from));
        waiting.map(|step| step.step_id.clone())
    }

    fn waits(&self, step: &Step, from: &str) -> bool {
        step.step_type == StepType::Delegate
            && step.status == StepStatus::Running
            && step.stack_id == from
            && !self.stack.has_delegate(&step.step_id)
    }

    /// Makes the caller of the current assistant the current one.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) at the root.
    pub fn leave(&mut self) -> Result<()> {
        self.stack.leave()
    }
}
