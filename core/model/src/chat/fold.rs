//! [`ChatFold`]: a chat's messages and steps, folded from its events.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::OnceLock,
};

use super::{ChatEvent, ChatMessage, ChatRequest, ContentEnd, RequestStatus, id_in_copy};
use crate::{Error, Result, SessionId, kinds::MESSAGE_SAVED, limits::CHAT_SEQUENCE_MAX};

mod find;
mod step;
mod steps;

pub use step::FoldedStep;

/// The messages and steps of a chat.
///
/// Invariants: an id names one message, or one step; a message's sequence is the one it was given, or the next in the
/// chat; a step's likewise in its request. Saving an id again replaces the first.
///
/// An event costs O(what it changes), and a lookup O(what it returns): a chat of 10,000 steps is not scanned.
#[derive(Clone, Debug, Default)]
pub struct ChatFold {
    last_sequence: u64,
    bytes: usize,
    /// In the order in which they were first saved; a deleted one leaves its place empty.
    messages: Vec<Option<SavedMessage>>,
    message_places: HashMap<String, usize>,
    /// How many of the messages are those of the chat that this one is a copy of.
    copied: usize,
    deleted_messages: HashSet<String>,
    message_order: BTreeSet<MessageOrder>,
    /// Indexed by the fields that lists of messages can be filtered by, once one is.
    by_field: OnceLock<HashMap<Field, BTreeSet<MessageOrder>>>,
    last_message_sequence: u64,
    steps: Vec<FoldedStep>,
    /// The texts of steps as they were saved, where they were changed since: later steps may be saved as differences from
    /// those.
    saved_texts: HashMap<usize, step::Texts>,
    /// The position at which each step was first saved: its place in the order, also after changes.
    step_positions: Vec<u64>,
    step_places: HashMap<String, usize>,
    /// The steps that can be resumed.
    open_steps: BTreeSet<usize>,
    requests: HashMap<String, Request>,
    /// The steps of each node of the call stack.
    stacks: HashMap<String, BTreeSet<usize>>,
    /// The positions of the events that saved or changed messages, and the place of each.
    touched: Vec<(u64, usize)>,
}

#[derive(Clone, Debug)]
struct SavedMessage {
    /// Where it was saved last.
    position: u64,
    message: Box<ChatMessage>,
    /// Where text is appended to it.
    end: ContentEnd,
}

impl SavedMessage {
    fn new(position: u64, message: Box<ChatMessage>) -> Self {
        Self {
            position,
            message,
            end: ContentEnd::default(),
        }
    }

    fn order(&self, place: usize) -> MessageOrder {
        (self.message.sequence, self.position, place)
    }
}

/// Where a message is in the order of its chat: its sequence, and its position in the log.
pub type MessagePlace = (u64, u64);

/// Sequence, position and place: the order of a chat.
type MessageOrder = (u64, u64, usize);

/// A field that a list of messages can be filtered by.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Field {
    Request(String),
    Block(String),
    Thread(String),
    Type(String),
}

/// The messages and steps of a request.
#[derive(Clone, Debug, Default)]
struct Request {
    /// With their sequences.
    steps: BTreeSet<(u64, usize)>,
    last_step_sequence: u64,
    record: Option<Box<ChatRequest>>,
    /// The position at which it was begun.
    begun: u64,
}

/// Where a message is kept, which may be deleted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptMessage {
    /// Its id; `None` when it was deleted.
    pub id: Option<String>,
    /// The positions of the events that saved and changed it, the first one first.
    pub positions: Vec<u64>,
}

impl ChatFold {
    /// An empty chat.
    pub fn new() -> Self {
        Self::default()
    }

    /// A part of a chat, from after the message that has this sequence on: earlier messages aren't in it, and events of
    /// those change nothing.
    pub fn after_message(sequence: u64) -> Self {
        Self {
            last_message_sequence: sequence,
            ..Self::default()
        }
    }

    /// Skips messages up to the one that has this sequence: the next one comes after it.
    pub fn pass_messages_to(&mut self, sequence: u64) {
        self.last_message_sequence = sequence;
    }

    /// The sequence of the last event that was applied or skipped.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// The bytes of payload it was folded from, as an estimate of its memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Skips a record that is no chat event.
    pub fn skip(&mut self, sequence: u64) {
        self.last_sequence = sequence;
    }

    /// Skips an event that was redacted. A message keeps its place in the chat: no other gets its sequence.
    pub fn skip_redacted(&mut self, sequence: u64, kind: u8) {
        if kind == MESSAGE_SAVED {
            self.last_message_sequence = sequence_after(self.last_message_sequence);
        }
        self.last_sequence = sequence;
    }

    /// Applies the event at a sequence and a position; `bytes` is the length of its payload.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event doesn't follow from those before it.
    pub fn apply(
        &mut self,
        sequence: u64,
        position: u64,
        bytes: usize,
        event: ChatEvent,
    ) -> Result<()> {
        self.apply_next(position, event).map_err(|error| {
            Error::damaged(format!("chat event {sequence} doesn't follow: {error}"))
        })?;
        self.last_sequence = sequence;
        self.bytes += bytes;
        Ok(())
    }

    fn apply_next(&mut self, position: u64, event: ChatEvent) -> Result<()> {
        match event {
            ChatEvent::MessageSaved(message) => self.save_message(position, message),
            ChatEvent::MessageUpdated {
                message_id,
                at_ms,
                updates,
                appended,
            } => {
                // A message may be redacted or deleted: its updates then change nothing.
                if let Some(place) = self.message_places.get(&message_id).copied()
                    && let Some(saved) = &mut self.messages[place]
                {
                    if updates.is_empty() && !appended.is_empty() {
                        // It stays where it is in the order, and in lists by field.
                        let SavedMessage { message, end, .. } = saved;
                        message.append(&appended, at_ms, end)?;
                    } else {
                        let message = Box::new(saved.message.changed(&updates, &appended, at_ms)?);
                        // What is saved next stands behind one that was moved to the end, too.
                        self.last_message_sequence =
                            self.last_message_sequence.max(message.sequence);
                        let saved = SavedMessage::new(saved.position, message);
                        self.put_message(place, Some(saved));
                    }
                    self.touched.push((position, place));
                }
            }
            ChatEvent::MessagesDeleted { message_ids, .. } => {
                for id in message_ids {
                    if let Some(place) = self.message_places.remove(&id) {
                        self.put_message(place, None);
                    }
                    self.deleted_messages.insert(id);
                }
            }
            ChatEvent::StepSaved(step) => self.save_step(position, FoldedStep::from(*step)),
            ChatEvent::StepDiffSaved(diff) => {
                let step = FoldedStep::from_diff(*diff, |id| self.saved_texts_of(id))?;
                self.save_step(position, step);
            }
            ChatEvent::StepUpdated {
                step_id,
                at_ms,
                updates,
            } => {
                if let Some(place) = self.step_places.get(&step_id).copied() {
                    let (step, has_other_texts) = self.steps[place].updated(&updates, at_ms)?;
                    self.unlink_step(place);
                    let before = std::mem::replace(&mut self.steps[place], step);
                    if has_other_texts {
                        self.saved_texts.entry(place).or_insert(before.texts);
                    }
                    self.link_step(place);
                }
            }
            ChatEvent::Copied {
                session_id,
                chat_id,
            } => self.become_copy(session_id, &chat_id),
            ChatEvent::RequestSaved(mut saved) => {
                let id = saved.request_id.clone();
                let request = entry(&mut self.requests, &id);
                match request.record.take() {
                    None => request.begun = position,
                    Some(before) if saved.replaces.is_empty() => saved.replaces = before.replaces,
                    Some(_) => {}
                }
                request.record = Some(saved);
            }
        }
        Ok(())
    }

    fn save_message(&mut self, position: u64, mut message: Box<ChatMessage>) {
        if self.message_places.contains_key(&message.message_id) {
            // Two that were saved at the same moment under one id: neither takes the other's place.
            message.message_id = format!("{}~{position}", message.message_id);
        }
        if message.sequence == 0 {
            message.sequence = sequence_after(self.last_message_sequence);
        }
        self.last_message_sequence = self.last_message_sequence.max(message.sequence);
        message.id = Some(position);
        let place = self.messages.len();
        self.message_places
            .insert(message.message_id.clone(), place);
        self.messages.push(None);
        self.put_message(place, Some(SavedMessage::new(position, message)));
        self.touched.push((position, place));
    }

    fn put_message(&mut self, place: usize, saved: Option<SavedMessage>) {
        if let Some(before) = self.messages[place].take() {
            let order = before.order(place);
            self.message_order.remove(&order);
            if let Some(by_field) = self.by_field.get_mut() {
                for field in fields(&before.message) {
                    if let Some(list) = by_field.get_mut(&field) {
                        list.remove(&order);
                        if list.is_empty() {
                            by_field.remove(&field);
                        }
                    }
                }
            }
        }
        self.messages[place] = saved;
        self.link_message(place);
    }

    fn link_message(&mut self, place: usize) {
        let Some(saved) = &self.messages[place] else {
            return;
        };
        let order = saved.order(place);
        self.message_order.insert(order);
        if let Some(by_field) = self.by_field.get_mut() {
            for field in fields(&saved.message) {
                by_field.entry(field).or_default().insert(order);
            }
        }
    }

    fn by_field(&self) -> &HashMap<Field, BTreeSet<MessageOrder>> {
        self.by_field.get_or_init(|| {
            let mut by_field = HashMap::<Field, BTreeSet<MessageOrder>>::new();
            for (place, saved) in self.messages.iter().enumerate() {
                let Some(saved) = saved else { continue };
                for field in fields(&saved.message) {
                    let list = by_field.entry(field).or_default();
                    list.insert(saved.order(place));
                }
            }
            by_field
        })
    }

    /// The input and the space of a step, as it was saved last.
    fn saved_texts_of(&self, step_id: &str) -> Option<step::Texts> {
        let place = self.step_places.get(step_id)?;
        let before = self.saved_texts.get(place);
        Some(before.unwrap_or(&self.steps[*place].texts).clone())
    }

    fn save_step(&mut self, position: u64, mut saved: FoldedStep) {
        let step = saved.step_mut();
        let request = entry(&mut self.requests, &step.request_id);
        if step.sequence == 0 {
            step.sequence = sequence_after(request.last_step_sequence);
        }
        request.last_step_sequence = step.sequence.max(request.last_step_sequence);
        step.id = Some(position);
        let place = match self.step_places.get(&saved.step_id).copied() {
            Some(place) => {
                self.unlink_step(place);
                self.saved_texts.remove(&place);
                self.steps[place] = saved;
                place
            }
            None => {
                self.step_places
                    .insert(saved.step_id.clone(), self.steps.len());
                self.step_positions.push(position);
                self.steps.push(saved);
                self.steps.len() - 1
            }
        };
        self.link_step(place);
    }

    fn unlink_step(&mut self, place: usize) {
        let step = &self.steps[place];
        self.open_steps.remove(&place);
        if let Some(request) = self.requests.get_mut(&step.request_id) {
            request.steps.remove(&(step.sequence, place));
        }
        if let Some(stack) = self.stacks.get_mut(&step.stack_id) {
            stack.remove(&place);
            if stack.is_empty() {
                self.stacks.remove(&step.stack_id);
            }
        }
    }

    fn link_step(&mut self, place: usize) {
        let step = &self.steps[place];
        if step.can_resume() {
            self.open_steps.insert(place);
        }
        entry(&mut self.requests, &step.request_id)
            .steps
            .insert((step.sequence, place));
        entry(&mut self.stacks, &step.stack_id).insert(place);
    }

    /// Turns the events folded so far, which are the original's, into this copy's, with ids of its own.
    fn become_copy(&mut self, session: SessionId, chat_id: &str) {
        let renew = |id: &mut String| *id = id_in_copy(session.0, id);
        self.message_places.clear();
        let deleted = std::mem::take(&mut self.deleted_messages).into_iter();
        self.deleted_messages = deleted.map(|id| id_in_copy(session.0, &id)).collect();
        self.copied = self.messages.len();
        self.by_field = OnceLock::new();
        self.step_places.clear();
        self.stacks.clear();
        let requests = std::mem::take(&mut self.requests).into_iter();
        self.requests = requests
            .map(|(id, request)| {
                let request_id = id_in_copy(session.0, &id);
                let mut record = request.record;
                if let Some(record) = &mut record {
                    record.request_id.clone_from(&request_id);
                    chat_id.clone_into(&mut record.chat_id);
                    record.is_copied = true;
                    // Whoever works on it does so in the original.
                    if record.status == RequestStatus::Running {
                        record.status = RequestStatus::Interrupted;
                    }
                    record.answers.as_mut().map(renew);
                    record.replaces.iter_mut().for_each(renew);
                }
                let copied = Request {
                    last_step_sequence: request.last_step_sequence,
                    record,
                    begun: request.begun,
                    ..Request::default()
                };
                (request_id, copied)
            })
            .collect();
        for place in 0..self.messages.len() {
            let Some(SavedMessage { message, .. }) = &mut self.messages[place] else {
                continue;
            };
            renew(&mut message.message_id);
            message.request_id.as_mut().map(renew);
            chat_id.clone_into(&mut message.chat_id);
            self.message_places
                .insert(message.message_id.clone(), place);
            self.link_message(place);
        }
        for place in 0..self.steps.len() {
            let step = self.steps[place].step_mut();
            [&mut step.step_id, &mut step.request_id, &mut step.stack_id]
                .into_iter()
                .for_each(renew);
            step.stack_parent_id.as_mut().map(renew);
            step.delegate_step_id.as_mut().map(renew);
            chat_id.clone_into(&mut step.chat_id);
            self.step_places.insert(step.step_id.clone(), place);
            self.link_step(place);
        }
    }

    fn message_at(&self, place: usize) -> Option<&ChatMessage> {
        self.messages
            .get(place)?
            .as_ref()
            .map(|saved| &*saved.message)
    }
}

fn fields(message: &ChatMessage) -> impl Iterator<Item = Field> {
    let request = message.request_id.clone().map(Field::Request);
    let block = message.block_id.clone().map(Field::Block);
    let thread = message.thread_id.clone().map(Field::Thread);
    let of_type = Some(Field::Type(message.message_type.clone()));
    [request, block, thread, of_type].into_iter().flatten()
}

/// The next sequence. After the largest one, all further messages share that one, in the order in which they were
/// saved.
fn sequence_after(last: u64) -> u64 {
    last.saturating_add(1).min(CHAT_SEQUENCE_MAX)
}

/// The value of a key, made where there is none; the key is copied only then.
fn entry<'a, V: Default>(map: &'a mut HashMap<String, V>, key: &str) -> &'a mut V {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), V::default());
    }
    map.get_mut(key)
        .expect("it was put in where it wasn't there")
}

#[cfg(test)]
mod tests;
