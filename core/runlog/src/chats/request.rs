//! [`RequestBuffer`]: a request that is written twice, at its entry and at its exit.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, OnceLock},
};

use runlog_log::{Batch, Expected};
use runlog_model::{
    ChatEvent, ChatIdOf, ChatMessage, ChatRequest, RequestStatus, SessionId, Space, Step,
};

use super::{
    Chats, RequestDraft, RequestEnd, Resumption,
    ending::Wholes,
    flush::{Part, RequestFlush, have_changes, place_of},
    open_steps::{gone_on_from, has_other_open_steps},
    resume::{check_resumable, delegate_of, own_part},
    stack::{CallStack, StackNode},
    taken_ids::NewIds,
    write::Prepared,
};
use crate::{
    Error, ErrorKind, Result, Store,
    kernel::{chats::Reserved, claims::Claim, lookup::live_session, records::chat_stream},
};

/// An active request: the user's message is written at its entry, everything else as one atomic batch at its exit. In
/// between, everything is in memory, and lost if the process crashes, except for what was [flushed](Self::flush).
///
/// The exit is [`finish`](Self::finish), or the drop of the buffer: then the running step becomes `failed` if the
/// thread panics, otherwise `interrupted`.
///
/// **A drop writes in the thread that drops**, which blocks for as long as one flush takes. So the buffered content is
/// durable before the program continues, even while an executor shuts down and a spawned task would not run any more. A
/// drop can't report errors. A task that must not block its executor's thread, or needs the error, awaits `finish`.
///
/// ```
/// use runlog::{
///     RawJson, Store,
///     chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd, StepType},
/// };
///
/// # pollster::block_on(async {
/// let chats = Store::in_memory().chats();
/// let chat = chats.create_chat(Chat::new("travel")).await?;
/// let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
/// let mut request = chats.begin_request(&chat.chat_id, NewRequest::new("travel"), asked).await?;
/// let step = request.start_step(StepType::Llm, RawJson::parse(r#"{"messages":[]}"#)?)?;
/// let answer = request.send(ChatMessage::text(ChatRole::Assistant, "By "))?;
/// request.append(&answer, "train?")?;
/// request.complete_step(&step, None)?;
/// request.finish(RequestEnd::Completed).await?;
/// assert_eq!(chats.get_messages(&chat.chat_id, &Default::default()).await?.len(), 2);
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
pub struct RequestBuffer {
    pub(super) store: Store,
    pub(super) session: SessionId,
    pub(super) draft: RequestDraft,
    /// The idempotency key of the exit's batch: retries write it only once.
    pub(super) key: [u8; 16],
    pub(super) written: bool,
    /// A part whose write was started and isn't confirmed.
    pub(super) flushing: Option<RequestFlush>,
    /// The interrupted step, if this resumes a request.
    resumed: Option<Step>,
    /// Prevents that the request is begun or resumed twice at a time.
    claim: Option<Claim>,
    /// The id that the caller gave the root of the stack, until it is written.
    _reserved_node: Option<Reserved>,
    /// The ids that the caller gave messages: no other chat saves anything with one before this has ended.
    reserved_messages: Vec<Reserved>,
}

impl Chats {
    /// The buffer of a resumed request: its space is restored, its stack rebuilt from the root to the node of the
    /// interrupted step. Nothing is written at its entry. The request can't be resumed again until the buffer has ended.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when the request is active, or was resumed by another caller since
    /// [`resume`](Self::resume) returned; [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile;
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly) in a store that is open for reading: only the process that writes the
    /// store knows which requests are active.
    pub async fn go_on(&self, resumption: &Resumption) -> Result<RequestBuffer> {
        if self.store.backend().is_read_only() {
            return Err(Error::new(
                ErrorKind::ReadOnly,
                "the store is open for reading only, so that what is resumed couldn't be written; go on in the process that writes it",
            ));
        }
        let session = self.session_id(&resumption.step.chat_id).await?;
        // What was erased meanwhile isn't found, and what is found isn't erased while it is claimed.
        let _beside = self.store.beside_erasures().await;
        let claim = self
            .store
            .claims()
            .take(session, &resumption.step.request_id)?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        check_resumable(&fold, &resumption.step)?;
        let mut path: Vec<StackNode> = Vec::new();
        for level in &resumption.stack {
            let parent = path.last();
            path.push(StackNode {
                parent_id: parent.map(|parent| parent.stack_id.clone()),
                depth: parent.map_or(0, |parent| parent.depth + 1),
                delegate_step_id: parent.and_then(|_| delegate_of(&level.steps)),
                ..StackNode::root(level.stack_id.clone(), level.assistant_id.clone())
            });
        }
        let of_request = fold.steps_of_request(&resumption.step.request_id);
        let stack = CallStack::resumed(path, of_request.into_iter().map(|step| &**step));
        let (step, space) = (resumption.step.clone(), resumption.space.clone());
        let known = fold.request(&step.request_id);
        let was_copied = known.is_some_and(|request| request.is_copied);
        let request = match known {
            Some(request) => ChatRequest {
                status: RequestStatus::Running,
                is_copied: false,
                error: None,
                ..own_part(request)
            },
            // Its steps were saved without a request.
            None => {
                let root = resumption.stack.first().map(|level| &level.assistant_id);
                let root = root.unwrap_or(&step.assistant_id).clone();
                self.new_request(session, step.request_id.clone(), root)
            }
        };
        let replaced = fold.replaced_by(&request.request_id);
        let mut buffer = self.buffer(session, request, stack, space, Some(step), (claim, None));
        buffer.draft.replaced = replaced;
        buffer.draft.go_on_with(&fold);
        // It is the copy's own from what is written next.
        buffer.draft.is_request_changed |= was_copied;
        Ok(buffer)
    }

    pub(super) fn buffer(
        &self,
        session: SessionId,
        request: ChatRequest,
        stack: CallStack,
        space: Space,
        resumed: Option<Step>,
        (claim, reserved_node): (Claim, Option<Reserved>),
    ) -> RequestBuffer {
        let backend = Arc::clone(self.store.backend());
        let key = *backend.new_id().as_bytes();
        let draft = RequestDraft::new(backend, request, stack, space);
        let claim = Some(claim);
        RequestBuffer {
            store: self.store.clone(),
            session,
            draft,
            key,
            written: false,
            flushing: None,
            resumed,
            claim,
            _reserved_node: reserved_node,
            reserved_messages: Vec::new(),
        }
    }
}

impl RequestBuffer {
    /// Adds a message, and returns its id. Chat, request and assistant are filled in if they are left out.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for an id that the request, its chat or another chat has
    /// already, [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for what
    /// can't be saved.
    pub fn send(&mut self, message: ChatMessage) -> Result<String> {
        let reserved = match message.message_id.as_str() {
            "" => None,
            id => Some(self.store.reserve_sent(self.session, id)?),
        };
        let id = self.draft.send(message)?;
        self.reserved_messages.extend(reserved);
        Ok(id)
    }

    /// Writes everything buffered so far as one atomic batch, with unfinished steps as `running`: a crash then loses
    /// only what comes later. The exit writes the rest. Flushed content is dropped from memory, but for the inputs and the
    /// space that later steps are saved as differences from: at most 64 MiB of inputs. More than 64 MiB, or
    /// 50,000 messages and steps, are written as several batches. Durable when it returns; does nothing if nothing is
    /// new. After an error it can be called again; everything is written once.
    ///
    /// ```
    /// use runlog::{
    ///     RawJson,
    ///     blocking::Store,
    ///     chats::{Chat, ChatMessage, ChatRole, MessageFilter, NewRequest, RequestEnd, StepType},
    /// };
    ///
    /// let chats = Store::in_memory().chats();
    /// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
    /// let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
    /// let mut request = chats.begin_request(&chat_id, NewRequest::new("travel"), asked)?;
    /// let step = request.start_step(StepType::Llm, RawJson::parse("{}")?)?;
    /// let answer = request.send(ChatMessage::text(ChatRole::Assistant, "By "))?;
    /// request.flush()?;
    /// assert_eq!(chats.get_messages(&chat_id, &MessageFilter::default())?.len(), 2);
    /// request.append(&answer, "train?")?;
    /// request.complete_step(&step, None)?;
    /// request.finish(RequestEnd::Completed)?;
    /// let messages = chats.get_messages(&chat_id, &MessageFilter::default())?;
    /// assert_eq!(messages[1].props.as_str(), r#"{"content":"By train?"}"#);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when a message that was sent has an id that is taken by now:
    /// nothing is written then, and the next call writes the message with a fresh id, which the error tells,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the request has ended; else those of the storage.
    pub async fn flush(&mut self) -> Result<()> {
        while let Some(flush) = self.start_flush()? {
            flush.write().await?;
            self.flushed(&flush);
        }
        Ok(())
    }

    /// Takes the part of the request that a flush writes next, for callers that continue the request while it is
    /// written: later messages and steps belong to the next part. `None` when there is nothing to write.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn start_flush(&mut self) -> Result<Option<RequestFlush>> {
        if self.written {
            return Err(ended_already());
        }
        self.rename_refused()?;
        if self.flushing.is_none() {
            self.check_live()?;
            let is_placed = self.draft.is_placed();
            let part = self.draft.take_part();
            if part.events.is_empty() {
                return Ok(None);
            }
            let store = self.store.clone();
            let prepared = self.prepare(part.events.clone(), None)?;
            self.flushing = Some(RequestFlush(Arc::new(Part {
                key: *store.backend().new_id().as_bytes(),
                session: self.session,
                prepared,
                looked_up: (is_placed || have_changes(&part.events)).then_some(part),
                store,
                new_ids: Mutex::default(),
                saved_at: OnceLock::new(),
                is_written: tokio::sync::Mutex::default(),
            })));
        }
        Ok(self.flushing.clone())
    }

    /// If the part that is to be written was refused for ids that are taken, makes it one with fresh ids.
    pub(super) fn rename_refused(&mut self) -> Result<()> {
        let flushing = self.flushing.as_ref().map(RequestFlush::with_new_ids);
        if let Some((flush, new_ids)) = flushing.transpose()?.flatten() {
            self.draft.rename(&new_ids);
            self.flushing = Some(flush);
        }
        Ok(())
    }

    /// Marks a part as written.
    pub fn flushed(&mut self, flush: &RequestFlush) {
        let is_same = |flushing: &mut RequestFlush| Arc::ptr_eq(&flushing.0, &flush.0);
        if self.flushing.take_if(is_same).is_some() {
            let saved_at = flush.0.saved_at.get();
            self.draft.saved_at(saved_at.map_or(&[], Vec::as_slice));
        }
    }

    /// Writes all messages and steps as one atomic batch (if there are more than 64 MiB, [flushes](Self::flush) write
    /// all but the last part first). Running steps get the final status of the request, except that a delegate step
    /// that waits for a running step stays `running`. If the request was resumed, the step that it went on from ends with it where no other was begun since.
    /// Else that step stays `failed`, or is `interrupted`, and so are earlier attempts at it; where the request is completed, they aren't
    /// resumed any more. The output is set by [`complete_resumed`](Chats::complete_resumed), before or after.
    /// Durable when it returns. After an error it can be called again; everything is written once.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when a message that was sent has an id that is taken by now:
    /// nothing is written then, and the next call writes the message with a fresh id, which the error tells,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it was written already; else those of the storage.
    pub async fn finish(&mut self, end: RequestEnd) -> Result<()> {
        if self.written {
            return Err(ended_already());
        }
        while self.flushing.is_some() || self.draft.exceeds_part() {
            let Some(flush) = self.start_flush()? else {
                break;
            };
            flush.write().await?;
            self.flushed(&flush);
        }
        let mut committed = self.commit(&end, Wholes::Written).await;
        // What is written once more, for those who search, is no reason not to end.
        if matches!(&committed, Err(error) if error.kind() == ErrorKind::StorageFull) {
            committed = self.commit(&end, Wholes::Left).await;
        }
        let prepared = match committed {
            Ok(prepared) => prepared,
            Err(error) => {
                let (given_ids, mut new_ids) = (self.draft.given_ids(), NewIds::new());
                let refused = self
                    .store
                    .refused(self.session, given_ids, error, &mut new_ids);
                let refused = refused.await;
                self.draft.rename(&new_ids);
                return Err(refused);
            }
        };
        self.written = true;
        prepared.written(&self.store).await;
        self.claim = None;
        self.reserved_messages.clear();
        Ok(())
    }

    /// Writes the buffered content. If it has ids or sequences chosen by the caller, or resumes a step, it is written
    /// on condition that the chat is unchanged since it was checked; otherwise it is appended unconditionally.
    async fn commit(&self, end: &RequestEnd, wholes: Wholes) -> Result<Prepared> {
        let backend = &**self.store.backend();
        self.check_live()?;
        let events = self.draft.events(end, wholes);
        if !self.draft.is_placed() && self.resumed.is_none() && !have_changes(&events) {
            let prepared = self.prepare(events, None)?;
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(&self.key);
            backend.commit(batch).await?;
            return Ok(prepared);
        }
        let of = ChatIdOf::Message;
        let given_ids = self.draft.given_ids();
        let _reserved = self.store.reserve_ids(self.session, of, given_ids)?;
        let stream = chat_stream(self.session);
        let mut attempts = self.store.attempts(stream).await;
        let beside = self.draft.beside(wholes);
        loop {
            let given_ids = self.draft.given_ids();
            let (last, after) = place_of(&self.store, self.session, given_ids, &events).await?;
            let events = events.clone();
            let mut events = beside.adjust(&self.store, self.session, events).await?;
            if let Some(resumed) = &self.resumed {
                let shared = self.store.chat_fold(self.session).await?;
                let (begun, now) = (self.draft.has_steps(), backend.now_ms());
                let fold = shared.read();
                events.extend(gone_on_from(&fold, resumed, end, begun, now)?);
                let is_own = |id: &str| self.draft.has_step(id);
                if *end == RequestEnd::Completed
                    && has_other_open_steps(&fold, resumed, &events, is_own)?
                {
                    still_interrupted(&mut events);
                }
            }
            let prepared = self.prepare(events, after)?;
            let batch = Batch::new(prepared.ops(Expected::Last(last))).with_key(&self.key);
            match backend.commit(batch).await {
                Ok(_) => return Ok(prepared),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    pub(super) fn check_live(&self) -> Result<()> {
        let catalog = &self.store.shared.catalog;
        catalog.with_state(|catalog| live_session(catalog, self.session).map(drop))
    }

    pub(super) fn prepare(&self, events: Vec<ChatEvent>, after: Option<u64>) -> Result<Prepared> {
        Prepared::new(self.session, events, after, self.store.backend().now_ms())
    }
}

fn ended_already() -> Error {
    Error::invalid("the request has ended already; begin another")
}

impl Deref for RequestBuffer {
    type Target = RequestDraft;

    fn deref(&self) -> &RequestDraft {
        &self.draft
    }
}

impl DerefMut for RequestBuffer {
    fn deref_mut(&mut self) -> &mut RequestDraft {
        &mut self.draft
    }
}

impl fmt::Debug for RequestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuffer")
            .field("request_id", &self.draft.request_id())
            .finish_non_exhaustive()
    }
}

/// Keeps the status `interrupted` for a request that was completed in one of its branches, while others are interrupted.
fn still_interrupted(events: &mut [ChatEvent]) {
    for event in events {
        if let ChatEvent::RequestSaved(request) = event {
            request.status = RequestStatus::Interrupted;
        }
    }
}
