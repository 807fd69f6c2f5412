//! [`AsyncRequestBuffer`]: a request that is written twice, at its entry and at its exit.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use runlog_engine::{Batch, Expected};
use runlog_model::{ChatMessage, ChatRole, SessionId, Space};

use super::{AsyncChatStore, NewRequest, RequestDraft, RequestEnd, Resumption, draft::StackNode, store::Prepared};
use crate::{AsyncStore, Error, Result, backend::Backend, embedded::Wait, lookup::live_session};

/// A request under way: the user's message is written at its entry, everything else as one atomic batch at its
/// exit. In between all is in memory, and lost if the process crashes.
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
/// use runlog::{AsyncStore, Chat, ChatMessage, ChatRole, NewRequest, RawJson, RequestEnd, StepType};
///
/// # pollster::block_on(async {
/// let chats = AsyncStore::in_memory().chats();
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
pub struct AsyncRequestBuffer {
    store: AsyncStore,
    session: SessionId,
    draft: RequestDraft,
    /// Names the exit's batch, so that it is written once, however often it is tried.
    key: [u8; 16],
    written: bool,
}

impl AsyncChatStore {
    /// Begins a request: the user's message is durable when it returns. The message may have any type.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the message isn't the user's; else as
    /// [`save_messages`](Self::save_messages).
    pub async fn begin_request(
        &self,
        chat_id: &str,
        new: NewRequest,
        mut message: ChatMessage,
    ) -> Result<AsyncRequestBuffer> {
        if message.role != ChatRole::User {
            return Err(Error::invalid("a request begins with a message of role \"user\""));
        }
        let backend = self.store.backend();
        let fresh = || backend.new_id().to_string();
        let request_id = new.request_id.or_else(|| message.request_id.take()).unwrap_or_else(fresh);
        let node = StackNode { stack_id: new.stack_id.unwrap_or_else(fresh), assistant_id: new.assistant_id };
        check_names(&request_id, &node)?;
        message.request_id = Some(request_id.clone());
        self.save_messages(chat_id, vec![message]).await?;
        let session = self.session_id(chat_id).await?;
        Ok(self.buffer(session, request_id, vec![node], Space::new()))
    }

    /// The buffer in which a resumed request goes on: its space restored, its stack rebuilt from the root to the
    /// node of the interrupted step. Nothing is written at its entry.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile.
    pub async fn go_on(&self, resumption: &Resumption) -> Result<AsyncRequestBuffer> {
        let session = self.session_id(&resumption.step.chat_id).await?;
        let stack = resumption
            .stack
            .iter()
            .map(|level| StackNode { stack_id: level.stack_id.clone(), assistant_id: level.assistant_id.clone() });
        Ok(self.buffer(session, resumption.step.request_id.clone(), stack.collect(), resumption.space.clone()))
    }

    fn buffer(
        &self,
        session: SessionId,
        request_id: String,
        stack: Vec<StackNode>,
        space: Space,
    ) -> AsyncRequestBuffer {
        let backend = Arc::clone(self.store.backend());
        let key = *backend.new_id().as_bytes();
        let draft = RequestDraft::new(backend, self.chat_id_of(session), request_id, stack, space);
        AsyncRequestBuffer { store: self.store.clone(), session, draft, key, written: false }
    }
}

impl AsyncRequestBuffer {
    /// Writes all messages and steps as one atomic batch, with the final status of the steps under way: as the
    /// request ended, except that a delegate step that waits for one under way stays `running`. Durable when it
    /// returns. After an error it can be called again; whatever happens, it is written once.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat was deleted meanwhile,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it was written already; else those of the storage.
    pub async fn finish(&mut self, end: RequestEnd) -> Result<()> {
        if self.written {
            return Err(Error::invalid("the request has ended already; begin another"));
        }
        if let Some(prepared) = self.prepared(&end)? {
            let batch = Batch::new(prepared.ops(Expected::Any)).with_key(&self.key);
            self.store.backend().commit(batch).await?;
            self.written = true;
            prepared.told(&self.store).await;
        }
        self.written = true;
        Ok(())
    }

    fn prepared(&self, end: &RequestEnd) -> Result<Option<Prepared>> {
        self.store.shared.catalog.peek(|catalog| live_session(catalog, self.session).map(drop))?;
        let events = self.draft.events(end);
        if events.is_empty() {
            return Ok(None);
        }
        Prepared::new(self.session, events, self.store.backend().now_ms()).map(Some)
    }
}

impl Deref for AsyncRequestBuffer {
    type Target = RequestDraft;

    fn deref(&self) -> &RequestDraft {
        &self.draft
    }
}

impl DerefMut for AsyncRequestBuffer {
    fn deref_mut(&mut self) -> &mut RequestDraft {
        &mut self.draft
    }
}

impl Drop for AsyncRequestBuffer {
    fn drop(&mut self) {
        if self.written {
            return;
        }
        let end =
            if panicking() { RequestEnd::Failed("the request panicked".to_owned()) } else { RequestEnd::Interrupted };
        let Ok(Some(prepared)) = self.prepared(&end) else { return };
        let batch = Batch::new(prepared.ops(Expected::Any)).with_key(&self.key);
        // Nobody is left to be told of an error.
        let _ = match self.store.embedded() {
            Some(embedded) => wait_for(&embedded.with_wait(Wait::Block), batch),
            None => wait_for(&**self.store.backend(), batch),
        };
    }
}

impl fmt::Debug for AsyncRequestBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncRequestBuffer").field("request_id", &self.draft.request_id()).finish_non_exhaustive()
    }
}

fn panicking() -> bool {
    std::thread::panicking()
}

/// Commits from a thread that can't give way. A backend in this process is ready at the first poll.
fn wait_for(backend: &dyn Backend, batch: Batch<'_>) -> Result<()> {
    let mut commit = pin!(backend.commit(batch));
    if let Poll::Ready(done) = commit.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        return done.map(drop);
    }
    #[cfg(not(target_family = "wasm"))]
    {
        pollster::block_on(commit).map(drop)
    }
    #[cfg(target_family = "wasm")]
    {
        Err(Error::invalid("a thread can't be blocked here; end the request with finish"))
    }
}

fn check_names(request_id: &str, node: &StackNode) -> Result<()> {
    use runlog_model::{Step, StepType};
    Ok(Step::new(request_id, &node.assistant_id, &node.stack_id, StepType::Input).check()?)
}
