//! Resuming an interrupted request, nested calls included.

use runlog_model::{
    ChatEvent, ChatFold, ChatIdOf, ChatRequest, FoldedStep, RawJson, RequestStatus, SessionId,
    Space, Step, StepStatus, Updates,
};

use super::{
    Chats,
    open_steps::{is_over, waiting_for, waiting_in},
    store::not_found,
    write::Of,
};
use crate::{Error, ErrorKind, Result};
use serde::Serialize;

/// An interrupted request, and how to resume it: which assistant, with which input, in which space, at which node of
/// the call stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resumption {
    /// The interrupted step: its assistant is to be resumed, with its input.
    pub step: Step,
    /// The space as it was when the step began.
    pub space: Space,
    /// The call stack, from the root to the node of the step.
    pub stack: Vec<StackLevel>,
}

/// One level of a call stack.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackLevel {
    /// The node.
    pub stack_id: String,
    /// Its assistant.
    pub assistant_id: String,
    /// Its steps, in their order.
    pub steps: Vec<Step>,
    /// The step that waits for the level below.
    pub waiting: Option<Step>,
}

/// What to do with the step that was cut off.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ResumeAction {
    /// It hadn't begun: start it.
    Start,
    /// It ran when the process died: start it over.
    Restart,
    /// It failed: try it again.
    Retry,
    /// The user stopped it: go on.
    Continue,
}

impl Resumption {
    /// The assistant to resume.
    pub fn assistant_id(&self) -> &str {
        &self.step.assistant_id
    }

    /// Its input: that of the interrupted step.
    pub fn input(&self) -> Option<&RawJson> {
        self.step.input.as_ref()
    }

    /// What to do with the step.
    pub fn action(&self) -> ResumeAction {
        match self.step.status {
            StepStatus::Pending => ResumeAction::Start,
            StepStatus::Failed => ResumeAction::Retry,
            StepStatus::Interrupted => ResumeAction::Continue,
            StepStatus::Running | StepStatus::Completed => ResumeAction::Restart,
        }
    }

    /// The nodes of the call stack, the root first.
    pub fn stack_path(&self) -> Vec<&str> {
        self.stack
            .iter()
            .map(|level| level.stack_id.as_str())
            .collect()
    }

    /// Whether the assistant to resume was called by another one.
    pub fn is_nested(&self) -> bool {
        self.step.stack_depth > 0
    }
}

impl Chats {
    /// How to resume the chat's last interrupted request: from its last step that isn't completed and wasn't retried
    /// successfully, in a request that isn't completed either. `None` when there is nothing to resume. Nothing is
    /// written, and the request isn't claimed; [`go_on`](Self::go_on) claims it.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the step's space or stack can't be restored.
    pub async fn resume(&self, chat_id: &str) -> Result<Option<Resumption>> {
        let session = self.session_id(chat_id).await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        fold.last_resumable_step()
            .map(|step| resumption(&fold, step))
            .transpose()
    }

    /// As [`resume`](Self::resume), for a particular request, for example an older one. `None` when it is completed or
    /// was dismissed, or when none of its steps was interrupted: ask again then, and [dismiss](Self::dismiss) it.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when no chat has the request, [`Ambiguous`](ErrorKind::Ambiguous) when several
    /// have, [`InvalidInput`](ErrorKind::InvalidInput) for an empty id, or when the step's space or stack can't be restored.
    pub async fn resume_request(&self, request_id: &str) -> Result<Option<Resumption>> {
        check_given(request_id)?;
        let session = self.store.chat_with(ChatIdOf::Request, request_id).await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        resumption_of(&fold, request_id)
    }

    /// As [`resume_request`](Self::resume_request), of a request of this chat: an import may have brought another chat with a
    /// request of the same id.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, it was deleted, or it has no such request;
    /// [`InvalidInput`](ErrorKind::InvalidInput) as [`resume_request`](Self::resume_request).
    pub async fn resume_request_in(
        &self,
        chat_id: &str,
        request_id: &str,
    ) -> Result<Option<Resumption>> {
        check_given(request_id)?;
        let session = self.session_id(chat_id).await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        if fold.request(request_id).is_none() && fold.steps_of_request(request_id).is_empty() {
            let message = format!("chat {chat_id:?} has no request {request_id:?}");
            return Err(Error::not_found(message));
        }
        resumption_of(&fold, request_id)
    }

    /// Marks an interrupted request as not to be resumed any more, for example because the user asked again. Its steps
    /// keep their status, and get the time of the dismissal. Returns the steps that could have been resumed; none for a
    /// completed request. Durable when it returns.
    ///
    /// ```
    /// use runlog::{
    ///     RawJson,
    ///     blocking::Store,
    ///     chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd, StepType},
    /// };
    ///
    /// let chats = Store::in_memory().chats();
    /// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
    /// let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
    /// let mut request = chats.begin_request(&chat_id, NewRequest::new("travel"), asked)?;
    /// request.start_step(StepType::Llm, RawJson::parse("{}")?)?;
    /// let request_id = request.request_id().to_owned();
    /// request.finish(RequestEnd::Interrupted)?;
    /// assert!(chats.resume(&chat_id)?.is_some());
    /// assert_eq!(chats.dismiss(&request_id)?.len(), 1);
    /// assert_eq!(chats.resume(&chat_id)?, None);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when no chat has the request, [`Ambiguous`](ErrorKind::Ambiguous) when several
    /// have, [`Conflict`](ErrorKind::Conflict) while it is active, [`InvalidInput`](ErrorKind::InvalidInput) for an
    /// empty id.
    pub async fn dismiss(&self, request_id: &str) -> Result<Vec<Step>> {
        check_given(request_id)?;
        let session = self.store.chat_with(ChatIdOf::Request, request_id).await?;
        let _claim = self.store.claims().take(session, request_id)?;
        let at_ms = self.store.backend().now_ms();
        let plan = |fold: &ChatFold| dismissal(fold, request_id, at_ms);
        self.write_steps(session, &plan).await
    }

    /// Records that the resumed assistant has returned with an output: the interrupted step is completed, and the
    /// caller's delegate step that waits for it is completed with `{"response": output}`; both or none. Earlier
    /// attempts of the same step (same type and input, at the same node of the stack) are completed too. Returns the
    /// changed steps, the caller's last. Durable when it returns.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) when the step was completed or dismissed meanwhile, [`NotFound`](ErrorKind::NotFound)
    /// when the chat was deleted; [`InvalidInput`](ErrorKind::InvalidInput) when the output isn't a JSON object.
    pub async fn complete_resumed(
        &self,
        resumption: &Resumption,
        output: &RawJson,
    ) -> Result<Vec<Step>> {
        let id = resumption.step.step_id.as_str();
        let at_ms = self.store.backend().now_ms();
        let plan = |fold: &ChatFold| {
            let step = fold.step(id).ok_or_else(|| not_found("step", id))?;
            // The end of a request that went on from it has left it to this call, also where it ended first.
            let request = fold.request(&step.request_id);
            let is_dismissed = request.is_none_or(|it| it.status == RequestStatus::Dismissed);
            if step.dismissed_at_ms.is_some() && is_dismissed {
                return Err(no_longer(step));
            }
            let caller = waiting_for(fold, step);
            let mut events = vec![completed(step, output.clone(), at_ms)?];
            for other in fold.steps_of_stack(&step.stack_id) {
                let may_be_same = other.step_type == step.step_type
                    && other.step_id != step.step_id
                    && other.status.can_resume();
                if may_be_same && other.has_input_of(step)? {
                    events.push(completed(other, output.clone(), at_ms)?);
                }
            }
            if let Some(caller) = caller {
                events.push(completed(caller, response(output)?, at_ms)?);
            }
            if leaves_none_open(fold, &step.request_id, &events) {
                let status = RequestStatus::Completed;
                events.extend(over(fold, &step.request_id, status, at_ms));
            }
            Ok(events)
        };
        let session = self.session_id(&resumption.step.chat_id).await?;
        self.write_steps(session, &plan).await
    }

    /// Records that the assistant of a node has returned with an output: the delegate step that waits for it is
    /// completed with `{"response": output}`. For the levels above the one that was resumed. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such chat, or no step waits for the node.
    pub async fn complete_delegate(
        &self,
        chat_id: &str,
        stack_id: &str,
        output: &RawJson,
    ) -> Result<Step> {
        let at_ms = self.store.backend().now_ms();
        let plan = |fold: &ChatFold| {
            let below = fold.steps_of_stack(stack_id);
            let waiting = below.first().and_then(|step| waiting_for(fold, step));
            let waiting = waiting.ok_or_else(|| {
                Error::not_found(format!("no delegate step waits for the stack {stack_id:?}"))
            })?;
            let mut events = vec![completed(waiting, response(output)?, at_ms)?];
            if leaves_none_open(fold, &waiting.request_id, &events) {
                let status = RequestStatus::Completed;
                events.extend(over(fold, &waiting.request_id, status, at_ms));
            }
            Ok(events)
        };
        let session = self.session_id(chat_id).await?;
        let mut steps = self.write_steps(session, &plan).await?;
        steps.pop().ok_or_else(|| not_found("stack", stack_id))
    }

    async fn write_steps(
        &self,
        session: SessionId,
        plan: &(dyn Fn(&ChatFold) -> Result<Vec<ChatEvent>> + Sync),
    ) -> Result<Vec<Step>> {
        let changed = std::sync::Mutex::new(Vec::new());
        self.write(session, Of::Chat, &mut |fold| {
            let events = plan(fold)?;
            let ids = events.iter().filter_map(|event| match event {
                ChatEvent::StepUpdated { step_id, .. } => Some(step_id.clone()),
                _ => None,
            });
            *changed.lock().expect("nobody else has it") = ids.collect();
            Ok(events)
        })
        .await?;
        let ids = changed.into_inner().expect("nobody else has it");
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        FoldedStep::whole_all(ids.iter().filter_map(|id| fold.step(id)))
    }
}

/// The events that dismiss a request: of its steps that could be resumed, and of its record; none if it is over.
pub(super) fn dismissal(fold: &ChatFold, request_id: &str, at_ms: u64) -> Result<Vec<ChatEvent>> {
    let updates = Updates::new().with("dismissed_at", RawJson::from_value(&at_ms)?);
    let open = fold
        .steps_of_request(request_id)
        .into_iter()
        .filter(|step| step.can_resume());
    let dismissed = |step: &FoldedStep| ChatEvent::StepUpdated {
        step_id: step.step_id.clone(),
        at_ms,
        updates: updates.clone(),
    };
    let mut events: Vec<_> = open.map(dismissed).collect();
    events.extend(over(fold, request_id, RequestStatus::Dismissed, at_ms));
    Ok(events)
}

/// The event that ends a request; `None` if it is over already, or if only its steps were saved. Of a copied one it doesn't repeat what the
/// original's work took, and how that failed: it is told there, and goes with it.
fn over(fold: &ChatFold, request_id: &str, status: RequestStatus, at_ms: u64) -> Option<ChatEvent> {
    let request = fold.request(request_id)?;
    if request.status.is_over() {
        return None;
    }
    let mut ended = ChatRequest {
        status,
        updated_at_ms: at_ms,
        ..own_part(request)
    };
    if status == RequestStatus::Completed {
        ended.error = None;
    }
    Some(ChatEvent::RequestSaved(Box::new(ended)))
}

/// What a chat writes again of a request: all of its own, and of a copied one what says which it is.
pub(super) fn own_part(request: &ChatRequest) -> ChatRequest {
    let mut own = request.clone();
    // The first record has them.
    own.replaces.clear();
    if request.is_copied {
        own.run_id = None;
        own.usage = None;
        own.metadata = None;
        own.error = None;
    }
    own
}

/// Whether no step of a request can be resumed after some events.
fn leaves_none_open(fold: &ChatFold, request_id: &str, events: &[ChatEvent]) -> bool {
    fold.resumable_steps_of(request_id)
        .all(|step| is_over(step, events))
}

fn check_given(request_id: &str) -> Result<()> {
    if request_id.is_empty() {
        return Err(Error::invalid(
            "the id of the request is empty; give one, or none for the last request of the chat",
        ));
    }
    Ok(())
}

/// How to resume a request; `None` when it isn't to be resumed.
fn resumption_of(fold: &ChatFold, request_id: &str) -> Result<Option<Resumption>> {
    fold.last_resumable_step_of(request_id)
        .map(|step| resumption(fold, step))
        .transpose()
}

/// How to resume from a step.
fn resumption(fold: &ChatFold, step: &FoldedStep) -> Result<Resumption> {
    let whole = step.whole()?;
    let mut space = Space::new();
    if let Some(snapshot) = &whole.space_snapshot {
        space.restore(snapshot)?;
    }
    let path = fold.stack_path(&step.stack_id)?.unwrap_or_default();
    let mut below: Option<&FoldedStep> = Some(step);
    let level = |stack_id: String| {
        let steps = FoldedStep::whole_all(fold.steps_of_stack(&stack_id))?;
        let waiting = if stack_id == step.stack_id {
            None
        } else {
            let called = below.filter(|below| below.stack_parent_id.as_ref() == Some(&stack_id));
            let waiting = called.and_then(|called| waiting_for(fold, called));
            let waiting = waiting.or_else(|| waiting_in(fold, &stack_id));
            waiting.map(FoldedStep::whole).transpose()?
        };
        below = fold.steps_of_stack(&stack_id).first().copied();
        let assistant_id = steps
            .first()
            .map(|step| step.assistant_id.clone())
            .unwrap_or_default();
        Ok(StackLevel {
            stack_id,
            assistant_id,
            steps,
            waiting,
        })
    };
    // From the step up: each level knows which step of the one above waits for it.
    let mut stack = path
        .into_iter()
        .rev()
        .map(level)
        .collect::<Result<Vec<StackLevel>>>()?;
    stack.reverse();
    Ok(Resumption {
        step: whole,
        space,
        stack,
    })
}

/// An error if a step is no longer the one from which its request is to be resumed.
pub(super) fn check_resumable(fold: &ChatFold, step: &Step) -> Result<()> {
    if fold
        .last_resumable_step_of(&step.request_id)
        .is_some_and(|last| last.step_id == step.step_id)
    {
        return Ok(());
    }
    Err(no_longer(step))
}

/// The error for what is done to a step from which its request isn't gone on with any more.
fn no_longer(step: &Step) -> Error {
    let (id, request) = (&step.step_id, &step.request_id);
    Error::new(
        ErrorKind::Conflict,
        format!(
            "request {request:?} isn't to be resumed at step {id:?} any more: it was resumed, or dismissed, since; \
             resume the chat anew"
        ),
    )
}

/// The delegate step that waits for a node, as named by the node's steps.
pub(super) fn delegate_of(steps: &[Step]) -> Option<String> {
    steps.iter().find_map(|step| step.delegate_step_id.clone())
}

fn completed(step: &Step, output: RawJson, at_ms: u64) -> Result<ChatEvent> {
    // A step that was completed by the end of its request has no output yet.
    let lacks_output = step.status == StepStatus::Completed && step.output.is_none();
    if !step.status.can_resume() && !lacks_output {
        return Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "step {:?} was completed meanwhile; resume the chat anew",
                step.step_id
            ),
        ));
    }
    let updates = Updates::new()
        .with("status", RawJson::string("completed"))
        .with("output", output)
        .with("error", RawJson::null());
    step.updated(&updates, at_ms)?;
    Ok(ChatEvent::StepUpdated {
        step_id: step.step_id.clone(),
        at_ms,
        updates,
    })
}

fn response(output: &RawJson) -> Result<RawJson> {
    RawJson::from_value(&std::collections::BTreeMap::from([("response", output)]))
}
