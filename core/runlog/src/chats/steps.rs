//! The steps of chats.

use std::collections::{BTreeSet, HashSet};

use runlog_model::{ChatEvent, ChatIdOf, FoldedStep, Page, Step, StepDiffs, Updates, time};

use super::{
    Chats,
    steps_found::{ListSteps, Listed},
    store::{already_exists, check_chat, not_found},
    write::Of,
};
use crate::{
    Error, Result,
    journal::{
        cursor::{Cursor, Kind as CursorKind},
        page::check_limit,
    },
};

/// The most bytes of inputs and spaces in one page of steps: 64 MiB.
const PAGE_BYTES_MAX: usize = 64 << 20;

impl Chats {
    /// One page of the steps of a chat, in the order in which they were saved, or of all chats, in the order in which
    /// each first matched the filters: when it was saved, or changed.
    ///
    /// For all chats the cost is that of the page, and of the steps that match the narrowest filter but not the others.
    /// From narrow to wide: a request, a node of the stack, a status other than `completed`, an assistant, a type.
    /// Steps that a copied chat has from its original aren't listed, unless they were changed in the copy. A page of more
    /// than 64 MiB of inputs and spaces ends before its limit.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list.
    pub async fn list_steps(&self, options: &ListSteps) -> Result<Page<Step>> {
        check_limit(options.limit)?;
        let session = match options.chat_id.as_deref() {
            Some(chat_id) => Some(self.session_id(chat_id).await?),
            None => None,
        };
        let ListSteps {
            chat_id: _,
            request_id,
            stack_id,
            assistant_id,
            step_type,
            status,
            limit: _,
            cursor: _,
        } = options;
        let filter = (
            session,
            request_id,
            stack_id,
            assistant_id,
            step_type,
            status,
        );
        let cursor = Cursor::read(options.cursor.as_deref(), CursorKind::Steps, &filter)?;
        let after = cursor.map_or(0, |cursor| cursor.first);
        let mut found = match session {
            Some(session) => {
                let shared = self.store.chat_fold(session).await?;
                let fold = shared.read();
                let admitted = fold
                    .steps_after(after)
                    .filter(|(_, step)| options.admits(step));
                let listed = admitted.map(|(position, step)| Listed {
                    position,
                    step: step.clone(),
                });
                listed.take(options.limit.saturating_add(1)).collect()
            }
            None => self.store.steps_found(options, after).await?,
        };
        let fitting = fitting(&found).min(options.limit);
        let is_more = found.len() > fitting;
        found.truncate(fitting);
        let last = found.last().filter(|_| is_more);
        let next = last.map(|last| {
            let cursor = Cursor {
                first: last.position,
                ..Cursor::default()
            };
            cursor.encode(CursorKind::Steps, &filter)
        });
        let items = FoldedStep::whole_all(found.iter().map(|listed| &listed.step))?;
        Ok(Page { items, next })
    }

    /// Saves steps of one chat: all of them or none. Each names its chat. The store fills in empty fields (id,
    /// sequence, times). Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted;
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for a step id that is taken, or a request or node that another chat has;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when they are of several chats, or a field is refused.
    pub async fn save_steps(&self, steps: Vec<Step>) -> Result<Vec<Step>> {
        let Some(first) = steps.first() else {
            return Ok(Vec::new());
        };
        let session = self.session_id(&first.chat_id).await?;
        let named = first.chat_id.clone();
        let chat = self.chat_id_of(session);
        let given: Vec<String> = steps.iter().map(|step| step.step_id.clone()).collect();
        let mut completed = Vec::with_capacity(steps.len());
        for mut step in steps {
            if step.chat_id == named {
                step.chat_id.clone_from(&chat);
            }
            completed.push(self.complete_step(step, &chat)?);
        }
        let ids = |id: fn(&Step) -> &String| {
            let ids: BTreeSet<&String> = completed.iter().map(id).collect();
            ids.into_iter().cloned().collect::<Vec<_>>()
        };
        let store = &self.store;
        let given: Vec<String> = given.into_iter().filter(|id| !id.is_empty()).collect();
        let requests = ids(|step| &step.request_id);
        let nodes = ids(|step| &step.stack_id);
        let own = |of, ids| store.reserve_own_ids(session, of, ids);
        let _steps = own(ChatIdOf::Step, &given).await?;
        let _requests = own(ChatIdOf::Request, &requests).await?;
        let _nodes = own(ChatIdOf::Stack, &nodes).await?;
        let saved = |step: &Step| ChatEvent::StepSaved(Box::new(step.clone()));
        let events = StepDiffs::between(completed.iter().map(saved).collect());
        self.write(session, Of::Chat, &mut |fold| {
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
            Ok(events.clone())
        })
        .await?;
        let shared = self.store.chat_fold(session).await?;
        let fold = shared.read();
        let saved = completed.iter();
        FoldedStep::whole_all(saved.filter_map(|step| fold.step(&step.step_id)))
    }

    pub(super) fn complete_step(&self, mut step: Step, chat: &str) -> Result<Step> {
        check_chat("step", &step.chat_id, chat)?;
        step.check_new()?;
        step.id = None;
        if step.step_id.is_empty() {
            step.step_id = self.store.backend().new_id().to_string();
        }
        step.created_at_ms = time::or(step.created_at_ms, self.store.backend().now_ms());
        step.updated_at_ms = time::or(step.updated_at_ms, step.created_at_ms);
        Ok(step)
    }

    /// Changes fields of a step, for example its status. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the step, [`Ambiguous`](crate::ErrorKind::Ambiguous)
    /// when several have, [`InvalidInput`](crate::ErrorKind::InvalidInput) or
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a field that is refused.
    pub async fn update_step(&self, step_id: &str, updates: &Updates) -> Result<Step> {
        let session = self.store.chat_with(ChatIdOf::Step, step_id).await?;
        let at_ms = self.store.backend().now_ms();
        self.write(session, Of::Step(step_id), &mut |fold| {
            let step = fold
                .step(step_id)
                .ok_or_else(|| not_found("step", step_id))?;
            let updated = Step::updated(step, updates, at_ms)?;
            if updates.get("sequence").is_some() {
                updated.check_moved()?;
            }
            Ok(vec![ChatEvent::StepUpdated {
                step_id: step_id.to_owned(),
                at_ms,
                updates: updates.clone(),
            }])
        })
        .await?;
        let shared = self.fold_of(session, Of::Step(step_id)).await?;
        let fold = shared.read();
        fold.step(step_id)
            .ok_or_else(|| not_found("step", step_id))?
            .whole()
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
        FoldedStep::whole_all(fold.steps_of_request(request_id))
    }

    /// The chat's last step that isn't completed; `None` when there is nothing to resume.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such chat, or it was deleted.
    pub async fn get_last_incomplete_step(&self, chat_id: &str) -> Result<Option<Step>> {
        let session = self.session_id(chat_id).await?;
        let fold = self.store.chat_fold(session).await?;
        let fold = fold.read();
        fold.last_incomplete_step()
            .map(FoldedStep::whole)
            .transpose()
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
        FoldedStep::whole_all(fold.steps_of_stack(stack_id))
    }

    /// The nodes of the call stack from the root to this one.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when no chat has the node,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the parents of its steps form a cycle.
    pub async fn get_stack_path(&self, stack_id: &str) -> Result<Vec<String>> {
        let session = self.store.chat_with(ChatIdOf::Stack, stack_id).await?;
        let fold = self.store.chat_fold(session).await?;
        let path = fold.read().stack_path(stack_id)?;
        path.ok_or_else(|| Error::not_found(format!("no step has the stack {stack_id:?}")))
    }
}

/// How many of some steps fit one page: at least one.
fn fitting(found: &[Listed]) -> usize {
    let mut bytes = 0;
    let fits = |listed: &&Listed| {
        bytes += listed.step.text_bytes();
        bytes <= PAGE_BYTES_MAX
    };
    found.iter().take_while(fits).count().max(1)
}
