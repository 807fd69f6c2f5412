//! Beginning a request: with a message of its user, or for one that the chat has.

use runlog_model::{
    ChatIdOf, ChatMessage, ChatRequest, ChatRole, RequestStatus, SessionId, Space, Step, StepType,
};
use serde::Deserialize;

use super::{
    Chats, RequestBuffer,
    save::Begun,
    stack::{CallStack, StackNode},
};
use crate::{Error, Result};

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
    /// The message that its user saw as the chat's last one. If another one is, somebody else has written to the chat since, and
    /// the request isn't begun. An empty id is none: the chat must have no message. `None` for whatever there is.
    pub after: Option<String>,
    /// Whether it is refused while another request of the chat is under way, as when its user asks in two windows: the answer to the
    /// first question would stand behind the second one.
    #[serde(default)]
    pub exclusive: bool,
    /// The first of the messages that it replaces: this one and all behind it are deleted in the write that saves what is there
    /// instead, the user's new message, or the first message of another answer: one that fails before it says anything leaves them.
    /// What their requests took stays; those that aren't over are dismissed as it begins.
    pub replaces: Option<String>,
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

impl Chats {
    /// Begins a request: the user's message is durable when it returns. The message may have any type.
    ///
    /// An id names one request of a chat, and can be begun once: an interrupted request is [resumed](Self::resume);
    /// asking again needs another id. Where it says what it comes [after](NewRequest::after) or
    /// [replaces](NewRequest::replaces), the chat is folded, once.
    ///
    /// # Errors
    /// [`Conflict`](crate::ErrorKind::Conflict) while a request of this id in the chat, or one that it replaces, or any of the chat
    /// where it is [exclusive](NewRequest::exclusive), is under way: it was begun or resumed, and hasn't ended; or when the chat's last message isn't the one it is to come
    /// after; [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when the chat has
    /// messages or steps of a request with this id, or another chat has this request, or a node of this `stack_id`;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the message isn't the user's;
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat has no message that it replaces; otherwise as
    /// [`save_messages`](Self::save_messages).
    pub async fn begin_request(
        &self,
        chat_id: &str,
        mut new: NewRequest,
        mut message: ChatMessage,
    ) -> Result<RequestBuffer> {
        if message.role != ChatRole::User {
            return Err(Error::invalid(
                "a request begins with a message of role \"user\"",
            ));
        }
        if let Some(of_message) = message.request_id.take() {
            let given = new.request_id.get_or_insert(of_message.clone());
            if *given != of_message {
                return Err(Error::invalid(format!(
                    "the message is of request {of_message:?}, and the request is {given:?}; leave one of the ids out"
                )));
            }
        }
        self.begin(chat_id, new, Asked::Anew(Box::new(message)))
            .await
    }

    /// Begins a request for a message of the user that the chat has: one whose request was never answered, or one that is
    /// answered anew. An answer that is there stays unless it is [replaced](NewRequest::replaces), which it is once there is another;
    /// a request for the same message that isn't over is dismissed. Durable when it returns. The chat is folded, once.
    ///
    /// ```
    /// use runlog::{
    ///     blocking::Store,
    ///     chats::{Chat, ChatMessage, ChatRole, NewRequest, RequestEnd},
    /// };
    ///
    /// let chats = Store::in_memory().chats();
    /// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
    /// let mut asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
    /// asked.message_id = "question".into();
    /// let mut first = chats.begin_request(&chat_id, NewRequest::new("travel"), asked)?;
    /// let answer = first.send(ChatMessage::text(ChatRole::Assistant, "By bus?"))?;
    /// first.finish(RequestEnd::Completed)?;
    ///
    /// let again = NewRequest { replaces: Some(answer), ..NewRequest::new("travel") };
    /// let mut second = chats.answer_again(&chat_id, again, "question")?;
    /// second.send(ChatMessage::text(ChatRole::Assistant, "By train?"))?;
    /// second.finish(RequestEnd::Completed)?;
    /// assert_eq!(chats.get_messages(&chat_id, &Default::default())?.len(), 2);
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when the chat has no such message, or it was deleted;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it isn't the user's, or is among those that are replaced;
    /// [`Conflict`](crate::ErrorKind::Conflict) while somebody in this process is at work on a request for it; otherwise as
    /// [`begin_request`](Self::begin_request).
    pub async fn answer_again(
        &self,
        chat_id: &str,
        new: NewRequest,
        message_id: &str,
    ) -> Result<RequestBuffer> {
        self.begin(chat_id, new, Asked::There(message_id)).await
    }

    async fn begin(
        &self,
        chat_id: &str,
        new: NewRequest,
        asked: Asked<'_>,
    ) -> Result<RequestBuffer> {
        let NewRequest {
            request_id: given,
            assistant_id,
            stack_id,
            after,
            exclusive,
            replaces,
        } = new;
        let backend = self.store.backend();
        let fresh = || backend.new_id().to_string();
        let is_given = given.is_some();
        let request_id = given.unwrap_or_else(fresh);
        let given_nodes: Vec<String> = stack_id.iter().cloned().collect();
        let node = StackNode::root(stack_id.unwrap_or_else(fresh), assistant_id);
        check_names(&request_id, &node)?;
        let session = self.session_id(chat_id).await?;
        // Taken before the chat is read: of two concurrent calls, the second then sees what the first has written.
        let claims = self.store.claims();
        let claim = match exclusive {
            true => claims.take_alone(session, &request_id)?,
            false => claims.take(session, &request_id)?,
        };
        let mut request = self.new_request(session, request_id.clone(), node.assistant_id.clone());
        let given_requests = match is_given {
            true => std::slice::from_ref(&request_id),
            false => &[],
        };
        let store = &self.store;
        let own = |of, ids| store.reserve_own_ids(session, of, ids);
        let _reserved = own(ChatIdOf::Request, given_requests).await?;
        // Nothing is written with the node's id before the request ends.
        let reserved_node = own(ChatIdOf::Stack, &given_nodes).await?;
        let begun = Begun {
            request: None,
            is_request_given: is_given,
            after: after.as_deref(),
            replaces: replaces.as_deref(),
        };
        let mut replaced = Vec::new();
        match asked {
            Asked::Anew(mut message) => {
                message.request_id = Some(request_id);
                let begun = Begun {
                    request: Some(&request),
                    ..begun
                };
                self.save_messages_of(session, vec![*message], begun)
                    .await?;
            }
            Asked::There(id) => {
                request.answers = Some(id.to_owned());
                replaced = self.begin_answer(session, &begun, &request, id).await?;
            }
        }
        let mut buffer = self.buffer(
            session,
            request,
            CallStack::new(node),
            Space::new(),
            None,
            (claim, Some(reserved_node)),
        );
        buffer.draft.replaced = replaced;
        Ok(buffer)
    }

    /// The record of a request that begins now.
    pub(super) fn new_request(
        &self,
        session: SessionId,
        request_id: String,
        assistant_id: String,
    ) -> ChatRequest {
        let now = self.store.backend().now_ms();
        ChatRequest {
            request_id,
            chat_id: self.chat_id_of(session),
            assistant_id,
            status: RequestStatus::Running,
            error: None,
            answers: None,
            replaces: Vec::new(),
            is_copied: false,
            run_id: None,
            usage: None,
            metadata: None,
            created_at_ms: now,
            updated_at_ms: now,
        }
    }
}

/// What a request is begun for.
enum Asked<'a> {
    /// A new message of the user.
    Anew(Box<ChatMessage>),
    /// The message of this id, which the chat has.
    There(&'a str),
}

/// An error if the id of a request, an assistant or a node is refused.
fn check_names(request_id: &str, node: &StackNode) -> Result<()> {
    for (name, id) in [("request_id", request_id), ("stack_id", &*node.stack_id)] {
        if id.is_empty() {
            return Err(Error::invalid(format!(
                "`{name}` is empty; leave it out for a fresh one"
            )));
        }
    }
    Step::new(
        request_id,
        &node.assistant_id,
        &node.stack_id,
        StepType::Input,
    )
    .check()
}
