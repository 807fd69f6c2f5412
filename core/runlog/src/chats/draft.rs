//! [`RequestDraft`]: what a request has done so far, in memory.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use runlog_model::{
    ChatEvent, ChatFold, ChatMessage, ChatRequest, ChatRole, MessageFilter, RawJson,
    RequestDetails, RequestStatus, Space, Step, StepDiffs, StepStatus, StepType,
    json::string_bytes, time,
};

use super::{
    buffered::{BufferedMessage, BufferedStep},
    ending::{RequestEnd, Wholes, ended, settled},
    save_among::deletions,
    sizes::{ERROR_CHARS_MAX, check_size, message_bytes, step_bytes},
    stack::{CallStack, StackNode},
    store::{already_exists, check_chat, not_found},
    taken_ids::NewIds,
    write::SavedAt,
};
#[cfg(doc)]
use crate::ErrorKind;
use crate::{Error, Result, backend::Backend};

/// What a request has done so far: its messages and steps, the call stack and the space. Nothing is written before the
/// request is flushed or ends.
pub struct RequestDraft {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) request: ChatRequest,
    pub(super) stack: CallStack,
    space: Space,
    /// A snapshot of the current space, taken when a step begins and shared by all steps until the space changes.
    snapshot: OnceLock<RawJson>,
    pub(super) messages: Vec<BufferedMessage>,
    pub(super) message_indexes: HashMap<String, usize>,
    /// The ids chosen by the caller, which the chat may have already.
    pub(super) given_ids: Vec<String>,
    pub(super) steps: Vec<BufferedStep>,
    /// What the inputs and spaces of the next steps are saved as differences from.
    diffs: StepDiffs,
    /// Whether the request's own record has changed since it was written.
    pub(super) is_request_changed: bool,
    /// Whether it goes on from a step that was cut off.
    is_resumed: bool,
    /// The messages to delete once there is one of the request.
    pub(super) replaced: Vec<SavedAt>,
}

impl RequestDraft {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        request: ChatRequest,
        stack: CallStack,
        space: Space,
    ) -> Self {
        Self {
            backend,
            request,
            stack,
            space,
            snapshot: OnceLock::new(),
            messages: Vec::new(),
            message_indexes: HashMap::new(),
            given_ids: Vec::new(),
            steps: Vec::new(),
            diffs: StepDiffs::new(),
            is_request_changed: false,
            is_resumed: false,
            replaced: Vec::new(),
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

    /// The request's own record; its status is `running` until it ends.
    pub fn request(&self) -> &ChatRequest {
        &self.request
    }

    /// Adds details to the request: the run that does its work, its token usage and cost, or any metadata. They are
    /// written at the exit, whatever the outcome. A detail that is set twice keeps the last value.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the usage isn't a JSON object, [`TooLarge`](ErrorKind::TooLarge)
    /// for more than 64 KiB of it or of metadata.
    pub fn describe(&mut self, details: RequestDetails) -> Result<()> {
        self.request.describe(details)?;
        self.is_request_changed = true;
        Ok(())
    }

    /// The current node of the call stack.
    pub fn stack_id(&self) -> &str {
        &self.stack.top().stack_id
    }

    /// The current assistant.
    pub fn assistant_id(&self) -> &str {
        &self.stack.top().assistant_id
    }

    /// The values that the assistants of the request share.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The values that the assistants of the request share, for changes.
    pub fn space_mut(&mut self) -> &mut Space {
        self.snapshot.take();
        &mut self.space
    }

    /// Adds a message, and returns its id. Chat, request and assistant are filled in if they are left out.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) for an id that the request has already,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for what can't be saved.
    pub fn send(&mut self, mut message: ChatMessage) -> Result<String> {
        check_chat("message", &message.chat_id, self.chat_id())?;
        message.check_new()?;
        let is_given = !message.message_id.is_empty();
        if !is_given {
            message.message_id = self.backend.new_id().to_string();
        }
        let id = message.message_id.clone();
        if self.message_indexes.contains_key(&id) {
            return Err(already_exists(
                "message",
                &id,
                "append or replace changes it",
            ));
        }
        message.id = None;
        self.chat_id().clone_into(&mut message.chat_id);
        message
            .request_id
            .get_or_insert_with(|| self.request_id().to_owned());
        if message.role == ChatRole::Assistant {
            message
                .assistant_id
                .get_or_insert_with(|| self.stack.top().assistant_id.clone());
        }
        message.created_at_ms = time::or(message.created_at_ms, self.now());
        message.updated_at_ms = time::or(message.updated_at_ms, message.created_at_ms);
        let bytes = message_bytes(&message);
        check_size(bytes)?;
        self.given_ids.extend(is_given.then(|| id.clone()));
        self.message_indexes.insert(id.clone(), self.messages.len());
        self.messages.push(BufferedMessage::new(message, bytes));
        Ok(id)
    }

    /// Appends text to a message's `content`. Of one that was [flushed](super::RequestBuffer::flush) only that text is written; if
    /// others changed its content since, the whole message is, over what they changed; if it was deleted, nothing is, whatever has
    /// its id by then.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when this request has no such message,
    /// [`InvalidInput`](ErrorKind::InvalidInput) when its content isn't text, [`TooLarge`](ErrorKind::TooLarge) when
    /// it can't be saved any more.
    pub fn append(&mut self, message_id: &str, text: &str) -> Result<()> {
        let now = self.now();
        let buffered = self.message_mut(message_id)?;
        buffered.check_is_text()?;
        if text.is_empty() {
            return Ok(());
        }
        let after = buffered.bytes + string_bytes(text);
        check_size(after)?;
        buffered.append(text, after);
        buffered.message.updated_at_ms = now;
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

    /// [`replace`](Self::replace) by a message of another type: for example, a `loading` message by the text.
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
        let message = ChatMessage {
            message_type: message_type.into(),
            props,
            updated_at_ms: now,
            ..buffered.message.clone()
        };
        message.check()?;
        let bytes = message_bytes(&message);
        check_size(bytes)?;
        self.message_mut(message_id)?.replace(message, bytes);
        Ok(())
    }

    /// Begins a step of the current assistant, with a snapshot of the space, and returns the step's id.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the input isn't an object, [`TooLarge`](ErrorKind::TooLarge) when
    /// it can't be saved.
    pub fn start_step(&mut self, step_type: StepType, input: RawJson) -> Result<String> {
        self.begin_step(&self.stack.top().clone(), step_type, input)
    }

    /// [`start_step`](Self::start_step) of the assistant of another node, such as one of several that were
    /// [delegated](Self::delegate) to at once.
    ///
    /// # Errors
    /// As [`start_step`](Self::start_step); [`NotFound`](ErrorKind::NotFound) when the request has no such node.
    pub fn start_step_in(
        &mut self,
        stack_id: &str,
        step_type: StepType,
        input: RawJson,
    ) -> Result<String> {
        self.begin_step(&self.stack.node(stack_id)?.clone(), step_type, input)
    }

    fn begin_step(
        &mut self,
        node: &StackNode,
        step_type: StepType,
        input: RawJson,
    ) -> Result<String> {
        let step = Step {
            status: StepStatus::Running,
            input: Some(input),
            ..self.new_step(node, step_type)
        };
        step.check()?;
        let id = step.step_id.clone();
        // The whole of it is limited, also where less is written: readers have it whole.
        check_size(step_bytes(&step))?;
        let texts = self.diffs.texts_of(&step);
        self.steps.push(BufferedStep::new(step, texts));
        Ok(id)
    }

    /// Completes a step, with its output.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when this request has no such step,
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the output isn't an object or the step has ended already,
    /// [`TooLarge`](ErrorKind::TooLarge) when it can't be saved.
    pub fn complete_step(&mut self, step_id: &str, output: Option<RawJson>) -> Result<()> {
        self.end_step(step_id, StepStatus::Completed, output, None)
    }

    /// Ends a step as failed, with an error message.
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
        let step = &self.steps[index].step;
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
            updated_at_ms: now,
            ..step.clone()
        };
        ended.check()?;
        check_size(self.steps[index].bytes_with(&ended))?;
        self.steps[index].change(ended);
        Ok(())
    }

    /// Whether any unwritten message has an id or a sequence chosen by the caller: then the chat must be looked at to
    /// check it and to find its place.
    pub(super) fn is_placed(&self) -> bool {
        let unwritten = |it: &&BufferedMessage| it.unwritten_bytes() > 0;
        let mut messages = self.messages.iter().filter(unwritten);
        !self.given_ids.is_empty() || messages.any(|it| it.message.sequence != 0)
    }

    /// The message ids chosen by the caller.
    pub(super) fn given_ids(&self) -> &[String] {
        &self.given_ids
    }

    /// Gives messages whose ids are taken fresh ones. The caller goes on naming them as they were sent.
    pub(super) fn rename(&mut self, new_ids: &NewIds) {
        for (id, new) in new_ids {
            if let Some(index) = self.message_indexes.get(id).copied() {
                self.messages[index].rename(new);
                self.message_indexes.insert(new.clone(), index);
            }
        }
        self.given_ids.retain(|id| !new_ids.contains_key(id));
    }

    /// Takes over what the request has said before it was cut off, so that it can go on saying it. Of one that never ended, it may be in
    /// the store in pieces.
    pub(super) fn go_on_with(&mut self, fold: &ChatFold) {
        self.is_resumed = true;
        let known = fold.request(self.request_id());
        let never_ended = known.is_none_or(|request| request.status == RequestStatus::Running);
        let of_request = MessageFilter {
            request_id: Some(self.request_id().to_owned()),
            role: Some(ChatRole::Assistant),
            ..MessageFilter::default()
        };
        for message in fold.messages(&of_request) {
            let index = self.messages.len();
            self.message_indexes
                .insert(message.message_id.clone(), index);
            self.messages
                .push(BufferedMessage::saved(message.clone(), never_ended));
        }
    }

    /// Whether any step was started here.
    pub(super) fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Whether a step was started here.
    pub(super) fn has_step(&self, id: &str) -> bool {
        self.steps
            .iter()
            .any(|buffered| buffered.step.step_id == id)
    }

    /// The events to write when the request ends this way.
    pub(super) fn events(&self, end: &RequestEnd, wholes: Wholes) -> Vec<ChatEvent> {
        let now = self.now();
        let error_step = self.error_step(end);
        let steps: Vec<&Step> = self.steps.iter().map(|buffered| &buffered.step).collect();
        let steps = settled(&steps, end, now)
            .into_iter()
            .zip(&self.steps)
            .filter_map(|(settled, buffered)| buffered.event_as(settled))
            .chain(error_step.map(|step| ChatEvent::StepSaved(Box::new(step))));
        let mut room = self.room(wholes);
        let messages = self.messages.iter();
        let messages = messages.filter_map(|message| message.last_event(&mut room));
        let replaced = match self.messages.is_empty() {
            true => &[],
            false => &*self.replaced,
        };
        messages
            .chain(deletions(replaced, now))
            .chain(steps)
            .chain([ended(&self.request, end, now)])
            .collect()
    }

    /// A step for the error of a request that failed while no step was running: nothing else would store the error.
    fn error_step(&self, end: &RequestEnd) -> Option<Step> {
        let RequestEnd::Failed(error) = end else {
            return None;
        };
        // It is that of the step that it went on from.
        if self.is_resumed && self.steps.is_empty() {
            return None;
        }
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
            ..self.new_step(self.stack.top(), StepType::Input)
        })
    }

    /// A step of a node, with a snapshot of the space.
    fn new_step(&self, node: &StackNode, step_type: StepType) -> Step {
        let now = self.now();
        Step {
            step_id: self.backend.new_id().to_string(),
            chat_id: self.chat_id().to_owned(),
            stack_parent_id: node.parent_id.clone(),
            delegate_step_id: node.delegate_step_id.clone(),
            stack_depth: node.depth,
            space_snapshot: Some(self.snapshot.get_or_init(|| self.space.snapshot()).clone()),
            created_at_ms: now,
            updated_at_ms: now,
            ..Step::new(
                self.request_id(),
                &node.assistant_id,
                &node.stack_id,
                step_type,
            )
        }
    }

    fn now(&self) -> u64 {
        self.backend.now_ms()
    }

    fn message_mut(&mut self, id: &str) -> Result<&mut BufferedMessage> {
        let index = self
            .message_indexes
            .get(id)
            .ok_or_else(|| {
                Error::not_found(format!(
                    "the request has sent no message {id:?}; any other of the chat is changed by an update of that message"
                ))
            })?;
        Ok(&mut self.messages[*index])
    }
}
