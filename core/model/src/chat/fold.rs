//! [`ChatFold`]: a chat's messages and steps, folded from its events.

use std::collections::HashMap;

use super::copied::id_in_copy;
use crate::{ChatEvent, ChatMessage, ChatRole, Error, Result, SessionId, Step, limits::STACK_DEPTH_MAX};

/// The messages and steps of a chat.
///
/// What it owns: an id names one message, or one step; a message's sequence is the one it was given, or the
/// next in the chat; a step's likewise in its request. An id that is saved once more takes the place of the first.
#[derive(Clone, Debug, Default)]
pub struct ChatFold {
    last_sequence: u64,
    bytes: usize,
    messages: HashMap<String, (u64, ChatMessage)>,
    last_message_sequence: u64,
    steps: Vec<Step>,
    /// Where each step was saved first: its place in the order, whatever becomes of it.
    step_positions: Vec<u64>,
    step_indexes: HashMap<String, usize>,
    /// The last sequence of each request's steps.
    requests: HashMap<String, u64>,
}

/// Which messages of a chat to get.
///
/// ```
/// use runlog_model::MessageFilter;
/// let filter: MessageFilter = serde_json::from_str(r#"{"request_id":"req_1","limit":10}"#).unwrap();
/// assert_eq!(filter, MessageFilter { request_id: Some("req_1".into()), limit: 10, ..MessageFilter::default() });
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct MessageFilter {
    /// Only those of this request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Only those from this side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<ChatRole>,
    /// Only those of this block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_id: Option<String>,
    /// At most so many; 0 is all.
    pub limit: usize,
    /// How many to pass over first.
    pub offset: usize,
}

impl ChatFold {
    /// A chat of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sequence of the last event that was applied or passed over.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// How many bytes of payload it was folded from: about what it holds.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Passes over a record that is no chat event, or was redacted.
    pub fn skip(&mut self, sequence: u64) {
        self.last_sequence = sequence;
    }

    /// Applies the event at a sequence and a position; `bytes` is the length of its payload.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event doesn't follow from those before it.
    pub fn apply(&mut self, sequence: u64, position: u64, bytes: usize, event: ChatEvent) -> Result<()> {
        self.apply_next(position, event)
            .map_err(|error| Error::damaged(format!("chat event {sequence} doesn't follow: {error}")))?;
        self.last_sequence = sequence;
        self.bytes += bytes;
        Ok(())
    }

    fn apply_next(&mut self, position: u64, event: ChatEvent) -> Result<()> {
        match event {
            ChatEvent::MessageSaved(mut message) => {
                if message.sequence == 0 {
                    let before = self.messages.get(&message.message_id).map(|(_, message)| message.sequence);
                    message.sequence = before.unwrap_or(self.last_message_sequence.saturating_add(1));
                }
                self.last_message_sequence = self.last_message_sequence.max(message.sequence);
                message.id = Some(position);
                self.messages.insert(message.message_id.clone(), (position, *message));
            }
            ChatEvent::MessageUpdated { message_id, at, updates } => {
                // A message may be redacted or deleted: its updates then change nothing.
                if let Some((_, message)) = self.messages.get_mut(&message_id) {
                    *message = message.updated(&updates, at)?;
                }
            }
            ChatEvent::MessagesDeleted { message_ids, .. } => {
                for id in message_ids {
                    self.messages.remove(&id);
                }
            }
            ChatEvent::StepSaved(mut step) => {
                let last = self.requests.entry(step.request_id.clone()).or_default();
                if step.sequence == 0 {
                    step.sequence = last.saturating_add(1);
                }
                *last = step.sequence.max(*last);
                step.id = Some(position);
                match self.step_indexes.get(&step.step_id) {
                    Some(index) => self.steps[*index] = *step,
                    None => {
                        self.step_indexes.insert(step.step_id.clone(), self.steps.len());
                        self.step_positions.push(position);
                        self.steps.push(*step);
                    }
                }
            }
            ChatEvent::StepUpdated { step_id, at, updates } => {
                if let Some(index) = self.step_indexes.get(&step_id) {
                    self.steps[*index] = self.steps[*index].updated(&updates, at)?;
                }
            }
            ChatEvent::Copied { session_id, chat_id } => self.become_copy(session_id, &chat_id),
        }
        Ok(())
    }

    /// What was folded so far is another chat's: from here on it is this one's, with ids of its own.
    fn become_copy(&mut self, session: SessionId, chat_id: &str) {
        let renew = |id: &mut String| *id = id_in_copy(session.0, id);
        let messages = std::mem::take(&mut self.messages).into_values().map(|(position, mut message)| {
            renew(&mut message.message_id);
            message.request_id.as_mut().map(renew);
            chat_id.clone_into(&mut message.chat_id);
            (message.message_id.clone(), (position, message))
        });
        self.messages = messages.collect();
        for step in &mut self.steps {
            [&mut step.step_id, &mut step.request_id, &mut step.stack_id].into_iter().for_each(renew);
            step.stack_parent_id.as_mut().map(renew);
            chat_id.clone_into(&mut step.chat_id);
        }
        self.step_indexes = self.steps.iter().enumerate().map(|(index, step)| (step.step_id.clone(), index)).collect();
        let requests = std::mem::take(&mut self.requests).into_iter();
        self.requests = requests.map(|(request, last)| (id_in_copy(session.0, &request), last)).collect();
    }

    /// The message with this id.
    pub fn message(&self, id: &str) -> Option<&ChatMessage> {
        self.messages.get(id).map(|(_, message)| message)
    }

    /// The messages that a filter admits, in the chat's order.
    pub fn messages(&self, filter: &MessageFilter) -> Vec<&ChatMessage> {
        let same = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let mut found: Vec<&(u64, ChatMessage)> = self
            .messages
            .values()
            .filter(|(_, message)| {
                same(&filter.request_id, &message.request_id)
                    && same(&filter.block_id, &message.block_id)
                    && filter.role.is_none_or(|role| message.role == role)
            })
            .collect();
        found.sort_unstable_by_key(|(position, message)| (message.sequence, *position));
        let limit = if filter.limit == 0 { usize::MAX } else { filter.limit };
        found.into_iter().skip(filter.offset).take(limit).map(|(_, message)| message).collect()
    }

    /// The ids of the messages.
    pub fn message_ids(&self) -> impl Iterator<Item = &str> {
        self.messages.keys().map(String::as_str)
    }

    /// The ids of the requests that messages or steps belong to; some more than once.
    pub fn request_ids(&self) -> impl Iterator<Item = &str> {
        let of_messages = self.messages.values().filter_map(|(_, message)| message.request_id.as_deref());
        of_messages.chain(self.requests.keys().map(String::as_str))
    }

    /// The step with this id.
    pub fn step(&self, id: &str) -> Option<&Step> {
        self.step_indexes.get(id).map(|index| &self.steps[*index])
    }

    /// Every step, in the order in which they were saved.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps that were saved after a position of the log, in that order, each with its own.
    pub fn steps_after(&self, position: u64) -> impl Iterator<Item = (u64, &Step)> {
        let first = self.step_positions.partition_point(|saved| *saved <= position);
        self.step_positions.iter().copied().zip(&self.steps).skip(first)
    }

    /// The steps of a request, in its order.
    pub fn steps_of_request(&self, request_id: &str) -> Vec<&Step> {
        let mut steps: Vec<&Step> = self.steps.iter().filter(|step| step.request_id == request_id).collect();
        steps.sort_by_key(|step| step.sequence);
        steps
    }

    /// The steps of a node of the call stack, in the order in which they were saved.
    pub fn steps_of_stack(&self, stack_id: &str) -> Vec<&Step> {
        self.steps.iter().filter(|step| step.stack_id == stack_id).collect()
    }

    /// The last step that can be resumed.
    pub fn last_incomplete_step(&self) -> Option<&Step> {
        self.steps.iter().rev().find(|step| step.status.can_resume())
    }

    /// The nodes of the call stack from the root to this one; `None` when no step has this node.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the steps' parents go round in a circle, or deeper
    /// than [`STACK_DEPTH_MAX`].
    pub fn stack_path(&self, stack_id: &str) -> Result<Option<Vec<String>>> {
        let parents: HashMap<&str, Option<&str>> =
            self.steps.iter().map(|step| (step.stack_id.as_str(), step.stack_parent_id.as_deref())).collect();
        if !parents.contains_key(stack_id) {
            return Ok(None);
        }
        let mut path = vec![stack_id.to_owned()];
        let mut next = parents.get(stack_id).copied().flatten();
        while let Some(stack) = next {
            if path.len() >= STACK_DEPTH_MAX || path.iter().any(|above| above == stack) {
                return Err(Error::invalid(format!(
                    "the stack of {stack_id:?} has no root: {stack:?} comes up twice, or it is deeper than {STACK_DEPTH_MAX}"
                )));
            }
            path.push(stack.to_owned());
            next = parents.get(stack).copied().flatten();
        }
        path.reverse();
        Ok(Some(path))
    }
}

#[cfg(test)]
mod tests;
