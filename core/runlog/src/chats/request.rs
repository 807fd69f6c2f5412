//! [`RequestBuffer`]: a request that is written twice, at its entry and at its exit.

use futures_util::FutureExt;
use runlog_engine::Wait;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use runlog_log::{Batch, Expected};
use runlog_model::{
    ChatEvent, ChatMessage, ChatRequest, ChatRole, RequestStatus, SessionId, Space, Step, Timestamp,
};
use serde::Deserialize;

use super::{
    Chats, RequestDraft, RequestEnd, Resumption,
    draft::StackNode,
    flush::{Part, RequestFlush, free_at},
    resume::{check_resumable, ended_with_request},
    store::already_exists,
    write::Prepared,
};
use crate::{
    Error, Result, Store,
    backend::Backend,
    kernel::{claims::Claim, lookup::live_session, records::chat_stream},
};

/// A request to begin.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRequest {
    /// Its id; `None` for a fresh one.
    pub request_id: Option<String>,
    /// The assistant it is for: the root of the call stack.
    pub assistant_id: String,
    /// The root's id in the call stack; `None` for a fresh one.
    pub stack_id: Option<String>,
}

impl NewRequest {
    /// A request for an assistant, with fresh ids.
    pub fn new(assistant_id: impl Into<String>) -> Self {
        Self {
            assistant_id: assistant_id.into(),
            ..Self::default()
        }
    }
}

/// A request under way: the user's message is written at its entry, everything else as one atomic batch at its
/// exit. In between all is in memory, and lost if the process crashes, but for what was [flushed](Self::flush).
///
/// The exit is [`finish`](Self::finish), or the drop of the buffer: then the step under way is `failed` when the
/// thread panics, else `interrupted`.
///
/// **A drop writes in the thread that drops**, which is blocked for as long as one flush takes: what was gathered is
/// durable before anybody goes on, also while an executor is shut down, when nothing that was spawned would run any
/// more. It can't tell of an error. A task that doesn't want its executor's thread blocked, or wants to know, awaits
/// `finish`.
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
    store: Store,
    session: SessionId,
    draft: RequestDraft,
    /// Names the exit's batch, so that it is written once, however often it is tried.
    key: [u8; 16],
    written: bool,
    /// A part that was begun to be written, and isn't known to be.
    flushing: Option<RequestFlush>,
    /// The step that was cut off, where this goes on with a request.
    resumed: Option<Step>,
    /// Keeps others from beginning it, or going on with it, too.
    claim: Option<Claim>,
}

impl Chats {
    /// Begins a request: the user's message is durable when it returns. The message may have any type.
    ///
    /// An id names one request of a chat, so that it is begun once: what was interrupted is [resumed](Self::resume), and
    /// whoever asks again asks under another id.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) while somebody in this process is at work on a request of this id in the chat:
    /// one that was begun or gone on with, and hasn't ended; [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the
    /// chat has messages or steps of such a request; [`InvalidInput`](crate::ErrorKind::InvalidInput) when the message isn't
    /// the user's; else as [`save_messages`](Self::save_messages).
    pub async fn begin_request(
        &self,
        chat_id: &str,
        new: NewRequest,
        mut message: ChatMessage,
    ) -> Result<RequestBuffer> {
        if message.role != ChatRole::User {
            return Err(Error::invalid(
                "a request begins with a message of role \"user\"",
            ));
        }
        let backend = self.store.backend();
        let fresh = || backend.new_id().to_string();
        let given = new.request_id.or_else(|| message.request_id.take());
        let is_given = given.is_some();
        let request_id = given.unwrap_or_else(fresh);
        let node = StackNode {
            stack_id: new.stack_id.unwrap_or_else(fresh),
            assistant_id: new.assistant_id,
        };
        check_names(&request_id, &node)?;
        message.request_id = Some(request_id.clone());
        let session = self.session_id(chat_id).await?;
        // Taken before the chat is looked at, so that of two who begin at once one finds what the other has written.
        let claim = self.store.claims().take(session, &request_id)?;
        let request = self.new_request(session, request_id.clone(), node.assistant_id.clone());
        self.save_messages_of(session, vec![message], Some(&request), is_given)
            .await?;
        Ok(self.buffer(session, request, vec![node], Space::new(), None, claim))
    }

    /// What is kept of a request that begins now.
    fn new_request(
        &self,
        session: SessionId,
        request_id: String,
        assistant_id: String,
    ) -> ChatRequest {
        let now = Timestamp(self.store.backend().now_ms());
        ChatRequest {
            request_id,
            chat_id: self.chat_id_of(session),
            assistant_id,
            status: RequestStatus::Running,
            error: None,
            run_id: None,
            usage: None,
            metadata: None,
            created_at: now,
            updated_at: now,
        }
    }

    /// The buffer in which a resumed request goes on: its space restored, its stack rebuilt from the root to the
    /// node of the interrupted step. Nothing is written at its entry. Nobody else goes on with the request until the
    /// buffer has ended.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) when somebody else is at work on the request, or has gone on with it since it was
    /// resumed; [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile.
    pub async fn go_on(&self, resumption: &Resumption) -> Result<RequestBuffer> {
        let session = self.session_id(&resumption.step.chat_id).await?;
        let claim = self
            .store
            .claims()
            .take(session, &resumption.step.request_id)?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        check_resumable(&fold, &resumption.step)?;
        let stack = resumption.stack.iter().map(|level| StackNode {
            stack_id: level.stack_id.clone(),
            assistant_id: level.assistant_id.clone(),
        });
        let (step, space) = (resumption.step.clone(), resumption.space.clone());
        let request = match fold.request(&step.request_id) {
            Some(request) => ChatRequest {
                status: RequestStatus::Running,
                ..request.clone()
            },
            // Its steps were saved by hand.
            None => {
                let root = resumption.stack.first().map(|level| &level.assistant_id);
                let root = root.unwrap_or(&step.assistant_id).clone();
                self.new_request(session, step.request_id.clone(), root)
            }
        };
        Ok(self.buffer(session, request, stack.collect(), space, Some(step), claim))
    }

    fn buffer(
        &self,
        session: SessionId,
        request: ChatRequest,
        stack: Vec<StackNode>,
        space: Space,
        resumed: Option<Step>,
        claim: Claim,
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
        }
    }
}

impl RequestBuffer {
    /// Adds a message, and says its id. Chat, request and assistant are filled in where they are left out.
    ///
    /// # Errors
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for an id that the chat or the request has already,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) or [`TooLarge`](crate::ErrorKind::TooLarge) for what can't be
    /// saved.
    pub fn send(&mut self, message: ChatMessage) -> Result<String> {
        let id = &message.message_id;
        if !id.is_empty() {
            // A backend elsewhere isn't waited for: `finish` tells.
            let has = self.store.has_message(self.session, id).now_or_never();
            if matches!(has, Some(Ok(true))) {
                return Err(already_exists("message", id, "update_message changes it"));
            }
        }
        self.draft.send(message)
    }

    /// Writes what the request has gathered so far as one atomic batch, steps under way as `running`: a crash then loses no more
    /// than what comes after. The exit writes the rest. What is flushed takes no room in the request any more, so that one that
    /// gathers more than fits a batch is written in parts. Durable when it returns; with nothing new it does nothing. After
    /// an error it can be called again; what is gathered is written once.
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
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when a message that was sent has an id that is taken by now,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the request has ended; else those of the storage.
    pub async fn flush(&mut self) -> Result<()> {
        while let Some(flush) = self.start_flush()? {
            flush.write().await?;
            self.flushed(&flush);
        }
        Ok(())
    }

    /// The part of the request that a flush writes next, for whoever goes on with the request while that is written: whatever
    /// comes in the meantime is of the next part. `None` when there is nothing to write.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn start_flush(&mut self) -> Result<Option<RequestFlush>> {
        if self.written {
            return Err(ended_already());
        }
        if self.flushing.is_none() {
            let events = self.draft.unwritten();
            if events.is_empty() {
                return Ok(None);
            }
            let prepared = self.of_live_chat(events)?;
            let given_ids = self.draft.mark_written();
            self.flushing = Some(RequestFlush(Arc::new(Part {
                store: self.store.clone(),
                session: self.session,
                prepared,
                key: *self.store.backend().new_id().as_bytes(),
                given_ids,
            })));
        }
        Ok(self.flushing.clone())
    }

    /// Takes note that a part is written.
    pub fn flushed(&mut self, flush: &RequestFlush) {
        self.flushing
            .take_if(|flushing| Arc::ptr_eq(&flushing.0, &flush.0));
    }

    /// Writes all messages and steps as one atomic batch, with the final status of the steps under way: as the
    /// request ended, except that a delegate step that waits for one under way stays `running`. Of a request that was
    /// gone on with, the step that had been cut off is completed with it, and its earlier tries; its output is that of
    /// [`complete_resumed`](Chats::complete_resumed), before or after. Durable when it
    /// returns. After an error it can be called again; whatever happens, it is written once.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when a message that was sent has an id that is taken by now:
    /// nothing is written then, and a drop writes it under another id,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it was written already; else those of the storage.
    pub async fn finish(&mut self, end: RequestEnd) -> Result<()> {
        if self.written {
            return Err(ended_already());
        }
        if let Some(flush) = self.flushing.clone() {
            flush.write().await?;
            self.flushed(&flush);
        }
        let prepared = self.commit(&end).await?;
        self.written = true;
        prepared.notify_catalog(&self.store).await;
        self.claim = None;
        Ok(())
    }

    /// Writes what the request has gathered. With ids that the caller gave, or the step that it goes on with, as the chat is
    /// when it is written; else wherever that comes.
    async fn commit(&self, end: &RequestEnd) -> Result<Prepared> {
        let backend = &**self.store.backend();
        if !self.draft.has_given_ids() && self.resumed.is_none() {
            let prepared = self.prepared(end, Vec::new())?;
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(&self.key);
            backend.commit(batch).await?;
            return Ok(prepared);
        }
        let _reserved = self
            .store
            .reserve_message_ids(self.session, self.draft.given_ids())?;
        let stream = chat_stream(self.session);
        let queues = &self.store.shared.folds.queues;
        let mut attempts = queues.attempts(backend, stream).await;
        loop {
            let last = free_at(&self.store, self.session, self.draft.given_ids()).await?;
            let mut also = Vec::new();
            if let (Some(resumed), RequestEnd::Completed) = (&self.resumed, end) {
                let shared = self.store.chat_fold(self.session).await?;
                let now = Timestamp(backend.now_ms());
                also = ended_with_request(&shared.read(), resumed, now)?;
            }
            let prepared = self.prepared(end, also)?;
            let batch = Batch::new(prepared.ops(Expected::Last(last))).with_key(&self.key);
            match backend.commit(batch).await {
                Ok(_) => return Ok(prepared),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    fn prepared(&self, end: &RequestEnd, also: Vec<ChatEvent>) -> Result<Prepared> {
        let mut events = self.draft.events(end);
        events.extend(also);
        self.of_live_chat(events)
    }

    fn of_live_chat(&self, events: Vec<ChatEvent>) -> Result<Prepared> {
        self.store
            .shared
            .catalog
            .with_state(|catalog| live_session(catalog, self.session).map(drop))?;
        Prepared::new(self.session, events, None, self.store.backend().now_ms())
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

impl Drop for RequestBuffer {
    fn drop(&mut self) {
        if self.written {
            return;
        }
        let end = if panicking() {
            RequestEnd::Failed("the request panicked".to_owned())
        } else {
            RequestEnd::Interrupted
        };
        let Ok(prepared) = self.prepared(&end, Vec::new()) else {
            return;
        };
        // Nobody is left to be told of an error.
        let backend = self.store.backend();
        let blocking = backend.waiting(Wait::Block);
        let backend = &**blocking.as_ref().unwrap_or(backend);
        let write_under = |key: &[u8; 16], prepared: &Prepared, expected| {
            wait_for(backend, Batch::new(prepared.ops(expected)).with_key(key))
        };
        if let Some(RequestFlush(part)) = self.flushing.take() {
            let reordered = || part.prepared.clone().reordered();
            let prepared = if part.given_ids.is_empty() {
                Ok(part.prepared.clone())
            } else {
                reordered()
            };
            let _ = prepared.map(|prepared| write_under(&part.key, &prepared, Expected::Any));
        }
        let write = |prepared: &Prepared, expected| write_under(&self.key, prepared, expected);
        if !self.draft.has_given_ids() {
            let _ = write(&prepared, Expected::Any);
            return;
        }
        let last = free_at(&self.store, self.session, self.draft.given_ids())
            .now_or_never()
            .and_then(Result::ok);
        let written = last.map(|last| write(&prepared, Expected::Last(last)));
        if !matches!(written, Some(Ok(()))) {
            // An id may be taken: then the message gets another, which only a fold tells.
            if let Ok(prepared) = prepared.reordered() {
                let _ = write(&prepared, Expected::Any);
            }
        }
    }
}

impl fmt::Debug for RequestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestBuffer")
            .field("request_id", &self.draft.request_id())
            .finish_non_exhaustive()
    }
}

fn panicking() -> bool {
    std::thread::panicking()
}

/// Commits from a thread that can't give way. A backend in this process is ready at the first poll.
fn wait_for(backend: &dyn Backend, batch: Batch<'_>) -> Result<()> {
    let mut commit = pin!(backend.commit(batch));
    if let Poll::Ready(done) = commit
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        return done.map(drop);
    }
    #[cfg(not(target_family = "wasm"))]
    {
        pollster::block_on(commit).map(drop)
    }
    #[cfg(target_family = "wasm")]
    {
        Err(Error::invalid(
            "a thread can't be blocked here; end the request with finish",
        ))
    }
}

fn check_names(request_id: &str, node: &StackNode) -> Result<()> {
    use runlog_model::{Step, StepType};
    Step::new(
        request_id,
        &node.assistant_id,
        &node.stack_id,
        StepType::Input,
    )
    .check()
}
