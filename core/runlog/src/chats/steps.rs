//! The steps of chats.

use std::collections::HashSet;

use runlog_model::{ChatEvent, ChatIdOf, Page, Step, StepStatus, StepType, Timestamp, Updates};

use super::{
    Chats,
    store::{already_exists, check_chat, not_found},
};
use crate::{
    Error, Result,
    journal::{
        cursor::{Cursor, Kind as CursorKind},
        page::check_limit,
    },
};
use serde::Deserialize;

/// Which steps of a chat to list, and how many.
///
/// ```
/// use runlog::{
///     blocking::Store,
///     chats::{Chat, ListSteps, Step, StepStatus, StepType},
/// };
///
/// let chats = Store::in_memory().chats();
/// let chat_id = chats.create_chat(Chat::new("travel"))?.chat_id;
/// let step = Step { chat_id: chat_id.clone(), ..Step::new("req_1", "travel", "stk_1", StepType::Llm) };
/// chats.save_steps(vec![step])?;
/// let open = ListSteps { status: Some(StepStatus::Pending), limit: 10, ..ListSteps::default() };
/// let page = chats.list_steps(&chat_id, &open)?;
/// assert_eq!((page.items.len(), page.next), (1, None));
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListSteps {
    /// Only steps of this request; `None` is all.
    pub request_id: Option<String>,
    /// Only steps of this node of the call stack; `None` is all.
    pub stack_id: Option<String>,
    /// Only steps of this type; `None` is all.
    #[serde(rename = "type")]
    pub step_type: Option<StepType>,
    /// Only steps of this status; `None` is all.
    pub status: Option<StepStatus>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListSteps {
    fn default() -> Self {
        Self {
            request_id: None,
            stack_id: None,
            step_type: None,
            status: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl ListSteps {
    fn admits(&self, step: &Step) -> bool {
        self.request_id
            .as_ref()
            .is_none_or(|request| step.request_id == *request)
            && self
                .stack_id
                .as_ref()
                .is_none_or(|stack| step.stack_id == *stack)
            && self
                .step_type
                .is_none_or(|step_type| step.step_type == step_type)
            && self.status.is_none_or(|status| step.status == status)
    }
}

impl Chats {
    /// One page of a chat's steps, in the order in which they were saved, of all its requests.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list_steps(&self, chat_id: &str, options: &ListSteps) -> Result<Page<Step>> {
        check_limit(options.limit)?;
        let session = self.session_id(chat_id).await?;
        let ListSteps {
            request_id,
            stack_id,
            step_type,
            status,
            limit: _,
            cursor: _,
        } = options;
        let filter = (session, request_id, stack_id, step_type, status);
        let cursor = Cursor::read(options.cursor.as_deref(), CursorKind::Steps, &filter)?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        let mut page = Page {
            items: Vec::new(),
            next: None,
        };
        let mut last = 0;
        for (position, step) in fold.steps_after(cursor.map_or(0, |cursor| cursor.first)) {
            if !options.admits(step) {
                continue;
            }
            if page.items.len() == options.limit {
                page.next = Some(
                    Cursor {
                        first: last,
                        ..Cursor::default()
                    }
                    .encode(CursorKind::Steps, &filter),
                );
                break;
            }
            page.items.push(step.clone());
            last = position;
        }
        Ok(page)
    }

    /// Saves steps of one chat: all of them or none. Each says which chat it is in. What is left empty (id,
    /// sequence, times) is given by the store. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a step id that is taken;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when they are of several chats, or a field is refused.
    pub async fn save_steps(&self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let Some(first) = steps.first() else {
            return Ok(Vec::new());
        };
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
                    return Err(already_exists(
                        "step",
                        &step.step_id,
                        "update_step changes it",
                    ));
                }
            }
            Ok(completed
                .iter()
                .map(|step| ChatEvent::StepSaved(Box::new(step.clone())))
                .collect())
        })
        .await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        Ok(completed
            .iter()
            .filter_map(|step| fold.step(&step.step_id).cloned())
            .collect())
    }

    pub(super) fn complete_step(&self, mut step: Step, chat: &str) -> Result<Step> {
        check_chat("step", &step.chat_id, chat)?;
        step.check_new()?;
        step.id = None;
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
        let session = self.store.chat_with(ChatIdOf::Step, step_id).await?;
        let at = Timestamp(self.store.backend().now_ms());
        self.write(session, |fold| {
            let step = fold
                .step(step_id)
                .ok_or_else(|| not_found("step", step_id))?;
            let updated = step.updated(updates, at)?;
            if updated.sequence != step.sequence {
                updated.check_new()?;
            }
            Ok(vec![ChatEvent::StepUpdated {
                step_id: step_id.to_owned(),
                at,
                updates: updates.clone(),
            }])
        })
        .await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        fold.step(step_id)
            .cloned()
            .ok_or_else(|| not_found("step", step_id))
    }

    /// The steps of a request, in its order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the request.
    pub async fn get_steps(&self, request_id: &str) -> Result<Vec<Step>> {
        let of = ChatIdOf::Request;
        let session = self.store.chat_with(of, request_id).await?;
        let shared = self.store.steps_fold(session, of, request_id).await?;
        let fold = shared.read();
        let steps = fold.steps_of_request(request_id).into_iter();
        Ok(steps.cloned().collect())
    }

    /// The chat's last step that isn't completed; `None` when there is nothing to resume.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_last_incomplete_step(&self, chat_id: &str) -> Result<Option<Step>> {
        let session = self.session_id(chat_id).await?;
        let fold = self.store.chat_fold(session).await?;
        let step = fold.read().last_incomplete_step().cloned();
        Ok(step)
    }

    /// The steps of a node of the call stack, in their order.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the node.
    pub async fn get_steps_by_stack_id(&self, stack_id: &str) -> Result<Vec<Step>> {
        let of = ChatIdOf::Stack;
        let session = self.store.chat_with(of, stack_id).await?;
        let shared = self.store.steps_fold(session, of, stack_id).await?;
        let fold = shared.read();
        let steps = fold.steps_of_stack(stack_id).into_iter();
        Ok(steps.cloned().collect())
    }

    /// The nodes of the call stack from the root to this one.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the node,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when its steps' parents go round in a circle.
    pub async fn get_stack_path(&self, stack_id: &str) -> Result<Vec<String>> {
        let session = self.store.chat_with(ChatIdOf::Stack, stack_id).await?;
        let fold = self.store.chat_fold(session).await?;
        let path = fold.read().stack_path(stack_id)?;
        path.ok_or_else(|| Error::not_found(format!("no step has the stack {stack_id:?}")))
    }
}
