//! [`RequestDraft`]: what a request has done so far, in memory.

use std::{collections::HashMap, sync::Arc};

use runlog_model::{
    ChatEvent, ChatMessage, ChatRequest, ChatRole, RawJson, RequestDetails, Space, Step,
    StepStatus, StepType, Timestamp, limits::STACK_DEPTH_MAX,
};

use super::{
    buffered::{BufferedMessage, BufferedStep, content_of},
    ending::{RequestEnd, ended, settled},
    sizes::{
        self, CONTENT_BYTES_MAX, ERROR_CHARS_MAX, REQUEST_BYTES_MAX, REQUEST_RECORDS_MAX,
        message_bytes, step_bytes, text_bytes,
    },
    store::{already_exists, check_chat, not_found},
};
use crate::{Error, ErrorKind, Result, backend::Backend};

/// What a request has done so far: its messages and steps, the call stack and the space. Nothing here is written
/// before the request is flushed, or ends.
pub struct RequestDraft {
    backend: Arc<dyn Backend>,
    request: ChatRequest,
    stack: Vec<StackNode>,
    space: Space,
    messages: Vec<BufferedMessage>,
    message_indexes: HashMap<String, usize>,
    /// The ids that the caller gave, which the chat may have already.
    given_ids: Vec<String>,
    steps: Vec<BufferedStep>,
    /// An upper bound of the bytes that what isn't written takes now.
    bytes: usize,
    /// How many messages and steps were there when all of them were written last.
    written_count: usize,
    /// Whether what is kept of the request itself isn't what was written of it.
    is_request_changed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct StackNode {
    pub(super) stack_id: String,
    pub(super) assistant_id: String,
}

impl RequestDraft {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        request: ChatRequest,
        stack: Vec<StackNode>,
        space: Space,
    ) -> Self {
        Self {
            backend,
            request,
            stack,
            space,
            messages: Vec::new(),
            message_indexes: HashMap::new(),
            given_ids: Vec::new(),
            steps: Vec::new(),
            bytes: 0,
            written_count: 0,
            is_request_changed: false,
        }
    }

    /// The chat.
    pub fn chat_id(&self) -> &str {
        &self.request.chat_id
    }

    /// The request.
    pub fn request_id(&self) -> &str {
        &self.request.request_id
    }

    /// What is kept of the request itself; its status is `running` until it ends.
    pub fn request(&self) -> &ChatRequest {
        &self.request
    }

    /// Says more of the request: the run that does its work, what it took in tokens and cost, or anything else. It is
    /// written at the exit, however that is; what is said twice counts as it was said last.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the usage isn't a JSON object, [`TooLarge`](ErrorKind::TooLarge)
    /// for more than 64 KiB of it or of metadata.
    pub fn describe(&mut self, details: RequestDetails) -> Result<()> {
        self.request.describe(details)?;
        self.is_request_changed = true;
        Ok(())
    }

    /// The node of the call stack that is at work.
    pub fn stack_id(&self) -> &str {
        &self.top().stack_id
    }

    /// The assistant that is at work.
    pub fn assistant_id(&self) -> &str {
        &self.top().assistant_id
    }

    /// What the assistants of the request share.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// What the assistants of the request share, to be changed.
    pub fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    /// Adds a message, and says its id. Chat, request and assistant are filled in where they are left out.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) for an id that the request has already,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for what can't be saved.
    pub fn send(&mut self, mut message: ChatMessage) -> Result<String> {
        check_chat("message", &message.chat_id, self.chat_id())?;
        message.check_new()?;
        if message.message_id.is_empty() {
            message.message_id = self.backend.new_id().to_string();
        } else {
            self.given_ids.push(message.message_id.clone());
        }
        let id = message.message_id.clone();
        if self.message_indexes.contains_key(&id) {
            return Err(already_exists(
                "message",
                &id,
                "append or replace changes it",
            ));
        }
        self.check_count()?;
        message.id = None;
        self.chat_id().clone_into(&mut message.chat_id);
        message
            .request_id
            .get_or_insert_with(|| self.request_id().to_owned());
        if message.role == ChatRole::Assistant {
            message
                .assistant_id
                .get_or_insert_with(|| self.top().assistant_id.clone());
        }
        message.created_at = message.created_at.or(self.now());
        message.updated_at = message.updated_at.or(message.created_at);
        let bytes = message_bytes(&message);
        self.make_room(0, bytes)?;
        self.message_indexes.insert(id.clone(), self.messages.len());
        self.messages.push(BufferedMessage::new(message, bytes));
        Ok(id)
    }

    /// Appends text to a message's `content`.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when this request has no such message,
    /// [`InvalidInput`](ErrorKind::InvalidInput) when its content isn't text, [`TooLarge`](ErrorKind::TooLarge) when
    /// it can't be saved any more.
    pub fn append(&mut self, message_id: &str, text: &str) -> Result<()> {
        let now = self.now();
        let buffered = self.message_mut(message_id)?;
        if buffered.appended.is_empty() {
            content_of(&buffered.message)?;
        }
        let (before, after) = (
            buffered.unwritten_bytes(),
            buffered.bytes + text_bytes(text),
        );
        self.make_room(before, after)?;
        let buffered = self.message_mut(message_id)?;
        buffered.append(text, after);
        buffered.message.updated_at = now;
        Ok(())
    }

    /// Replaces a message's properties.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when this request has no such message,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for what can't be saved.
    pub fn replace(&mut self, message_id: &str, props: RawJson) -> Result<()> {
        let message_type = self.message_mut(message_id)?.message.message_type.clone();
        self.replace_as(message_id, message_type, props)
    }

    /// [`replace`](Self::replace) by a message of another type: what was loading becomes the text that came.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn replace_as(
        &mut self,
        message_id: &str,
        message_type: impl Into<String>,
        props: RawJson,
    ) -> Result<()> {
        let now = self.now();
        let buffered = self.message_mut(message_id)?;
        let before = buffered.unwritten_bytes();
        let message = ChatMessage {
            message_type: message_type.into(),
            props,
            updated_at: now,
            ..buffered.message.clone()
        };
        message.check()?;
        let bytes = message_bytes(&message);
        self.make_room(before, bytes)?;
        self.message_mut(message_id)?.replace(message, bytes);
        Ok(())
    }

    /// Begins a step of the assistant at work, with a snapshot of the space, and says the step's id.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the input isn't an object, [`TooLarge`](ErrorKind::TooLarge) when
    /// it can't be saved.
    pub fn start_step(&mut self, step_type: StepType, input: RawJson) -> Result<String> {
        let step = Step {
            status: StepStatus::Running,
            input: Some(input),
            ..self.new_step(step_type)
        };
        step.check()?;
        self.check_count()?;
        let (id, bytes) = (step.step_id.clone(), step_bytes(&step));
        self.make_room(0, bytes)?;
        self.steps.push(BufferedStep::new(step, bytes));
        Ok(id)
    }

    /// Completes a step, with what came of it.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when this request has no such step,
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the output isn't an object or the step has ended already,
    /// [`TooLarge`](ErrorKind::TooLarge) when it can't be saved.
    pub fn complete_step(&mut self, step_id: &str, output: Option<RawJson>) -> Result<()> {
        self.end_step(step_id, StepStatus::Completed, output, None)
    }

    /// Ends a step as failed, and says why.
    ///
    /// # Errors
    /// As [`complete_step`](Self::complete_step).
    pub fn fail_step(&mut self, step_id: &str, error: &str) -> Result<()> {
        self.end_step(step_id, StepStatus::Failed, None, Some(error.to_owned()))
    }

    fn end_step(
        &mut self,
        step_id: &str,
        status: StepStatus,
        output: Option<RawJson>,
        error: Option<String>,
    ) -> Result<()> {
        let now = self.now();
        let mut steps = self.steps.iter();
        let index = steps.rposition(|buffered| buffered.step.step_id == step_id);
        let index = index.ok_or_else(|| not_found("step", step_id))?;
        let (step, before) = (&self.steps[index].step, self.steps[index].unwritten_bytes());
        if step.status != StepStatus::Running {
            return Err(Error::invalid(format!(
                "step {step_id:?} is {} already",
                step.status
            )));
        }
        let ended = Step {
            status,
            output,
            error,
            updated_at: now,
            ..step.clone()
        };
        ended.check()?;
        let bytes = step_bytes(&ended);
        self.make_room(before, bytes)?;
        self.steps[index].change(ended, bytes);
        Ok(())
    }

    /// Calls another assistant: what follows is done by it, one level deeper in the stack. Says the node's id.
    ///
    /// # Errors
    /// [`TooLarge`](ErrorKind::TooLarge) when the stack is deeper than [`STACK_DEPTH_MAX`].
    pub fn enter(&mut self, assistant_id: impl Into<String>) -> Result<String> {
        let stack_id = self.backend.new_id().to_string();
        self.enter_as(assistant_id, stack_id)
    }

    /// [`enter`](Self::enter) with an id of the caller's for the node.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    pub fn enter_as(
        &mut self,
        assistant_id: impl Into<String>,
        stack_id: impl Into<String>,
    ) -> Result<String> {
        if self.stack.len() >= STACK_DEPTH_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("assistants call each other at most {STACK_DEPTH_MAX} deep"),
            ));
        }
        let (stack_id, assistant_id) = (stack_id.into(), assistant_id.into());
        self.stack.push(StackNode {
            stack_id: stack_id.clone(),
            assistant_id,
        });
        Ok(stack_id)
    }

    /// Returns to the assistant that called.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) at the root.
    pub fn leave(&mut self) -> Result<()> {
        if self.stack.len() == 1 {
            return Err(Error::invalid(
                "the root assistant has no caller to return to; end the request instead",
            ));
        }
        self.stack.pop();
        Ok(())
    }

    /// Whether any message has an id that the caller gave.
    pub(super) fn has_given_ids(&self) -> bool {
        !self.given_ids.is_empty()
    }

    /// The ids that the caller gave to messages.
    pub(super) fn given_ids(&self) -> &[String] {
        &self.given_ids
    }

    /// What is to be written when the request ends so.
    pub(super) fn events(&self, end: &RequestEnd) -> Vec<ChatEvent> {
        let now = self.now();
        let untold = self.untold(end);
        let steps: Vec<&Step> = self.steps.iter().map(|buffered| &buffered.step).collect();
        let steps = settled(&steps, end, now)
            .into_iter()
            .zip(&self.steps)
            .filter_map(|(settled, buffered)| buffered.event_as(settled))
            .chain(untold.map(|step| ChatEvent::StepSaved(Box::new(step))));
        let messages = self.messages.iter().filter_map(BufferedMessage::event);
        messages
            .chain(steps)
            .chain([ended(&self.request, end, now)])
            .collect()
    }

    /// What isn't written yet, as it is now.
    pub(super) fn unwritten(&self) -> Vec<ChatEvent> {
        let request = || ChatEvent::RequestSaved(Box::new(self.request.clone()));
        let messages = self.messages.iter().filter_map(BufferedMessage::event);
        messages
            .chain(self.steps.iter().filter_map(BufferedStep::event))
            .chain(self.is_request_changed.then(request))
            .collect()
    }

    /// Takes note that all there is now is written, and says which ids of messages in it the caller gave.
    pub(super) fn mark_written(&mut self) -> Vec<String> {
        self.messages
            .iter_mut()
            .for_each(BufferedMessage::mark_written);
        self.steps.iter_mut().for_each(BufferedStep::mark_written);
        self.bytes = 0;
        self.written_count = self.messages.len() + self.steps.len();
        self.is_request_changed = false;
        std::mem::take(&mut self.given_ids)
    }

    /// A step that keeps the error of a request that failed while no step was under way: nothing else would store it.
    fn untold(&self, end: &RequestEnd) -> Option<Step> {
        let RequestEnd::Failed(error) = end else {
            return None;
        };
        if self
            .steps
            .iter()
            .any(|buffered| buffered.step.status == StepStatus::Running)
        {
            return None;
        }
        Some(Step {
            status: StepStatus::Failed,
            error: Some(error.chars().take(ERROR_CHARS_MAX).collect()),
            input: RawJson::parse("{}").ok(),
            ..self.new_step(StepType::Input)
        })
    }

    /// A step of the assistant at work, with a snapshot of the space.
    fn new_step(&self, step_type: StepType) -> Step {
        let now = self.now();
        let StackNode {
            stack_id,
            assistant_id,
        } = self.top();
        let depth = self.stack.len() - 1;
        Step {
            step_id: self.backend.new_id().to_string(),
            chat_id: self.chat_id().to_owned(),
            stack_parent_id: depth
                .checked_sub(1)
                .map(|parent| self.stack[parent].stack_id.clone()),
            stack_depth: u32::try_from(depth).expect("the stack's depth is bounded"),
            space_snapshot: Some(self.space.snapshot()),
            created_at: now,
            updated_at: now,
            ..Step::new(self.request_id(), assistant_id, stack_id, step_type)
        }
    }

    fn top(&self) -> &StackNode {
        self.stack.last().expect("the root never leaves the stack")
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.backend.now_ms())
    }

    fn message_mut(&mut self, id: &str) -> Result<&mut BufferedMessage> {
        let index = self
            .message_indexes
            .get(id)
            .ok_or_else(|| not_found("message", id))?;
        Ok(&mut self.messages[*index])
    }

    /// Makes room for a message or step that took so many bytes before, and takes so many from now on; refuses what
    /// couldn't be written at the end, as long as something can be done about it.
    fn make_room(&mut self, before: usize, after: usize) -> Result<()> {
        if after > CONTENT_BYTES_MAX {
            return Err(sizes::too_large(
                after,
                CONTENT_BYTES_MAX,
                "keep large content elsewhere",
            ));
        }
        let bytes = self.bytes - before + after;
        if bytes > REQUEST_BYTES_MAX {
            return Err(sizes::too_large(
                bytes,
                REQUEST_BYTES_MAX,
                "flush it, and go on",
            ));
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Checks that there may be one more message or step.
    fn check_count(&self) -> Result<()> {
        let unwritten = self.messages.len() + self.steps.len() - self.written_count;
        if unwritten >= REQUEST_RECORDS_MAX {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "a request gathers at most {REQUEST_RECORDS_MAX} messages and steps; flush it, and go on"
                ),
            ));
        }
        Ok(())
    }
}
