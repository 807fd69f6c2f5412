//! The parts in which a request is written, each of which fits one batch.

use std::collections::HashMap;

use runlog_model::ChatEvent;

use super::{
    beside::Beside,
    buffered::{BufferedMessage, BufferedStep},
    draft::RequestDraft,
    ending::Wholes,
    save_among::deletions,
    sizes::{PART_BYTES_MAX, PART_RECORDS_MAX},
    write::SavedAt,
};

/// A part of a request that fits one batch.
pub(super) struct Part {
    pub(super) events: Vec<ChatEvent>,
    pub(super) given_ids: Vec<String>,
    pub(super) beside: Beside,
}

impl RequestDraft {
    /// Whether it has gathered anything that no flush has taken.
    pub fn has_unwritten(&self) -> bool {
        self.is_request_changed || self.unwritten_sizes().next().is_some()
    }

    /// Whether what it writes next changes messages that it has flushed, or deletes some.
    pub fn changes_saved(&self) -> bool {
        !self.replaced.is_empty() || self.messages.iter().any(BufferedMessage::changes_saved)
    }

    /// Whether the unwritten messages and steps exceed the limits of one batch.
    pub(super) fn exceeds_part(&self) -> bool {
        let (mut bytes, mut count) = (0, 0);
        let mut sizes = self.unwritten_sizes();
        sizes.any(|size| {
            (bytes, count) = (bytes + size, count + 1);
            bytes > PART_BYTES_MAX || count > PART_RECORDS_MAX
        })
    }

    /// How many bytes of whole messages the batch of its end may have beside the rest.
    pub(super) fn room(&self, wholes: Wholes) -> usize {
        match wholes {
            Wholes::Written => PART_BYTES_MAX.saturating_sub(self.unwritten_sizes().sum()),
            Wholes::Left => 0,
        }
    }

    /// Takes in where messages are that a flush wrote.
    pub(super) fn saved_at(&mut self, saved: &[SavedAt]) {
        for (id, position) in saved {
            if let Some(index) = self.message_indexes.get(id) {
                self.messages[*index].position = Some(*position);
            }
        }
    }

    fn unwritten_sizes(&self) -> impl Iterator<Item = usize> {
        let messages = self.messages.iter().map(BufferedMessage::unwritten_bytes);
        let steps = self.steps.iter().map(BufferedStep::unwritten_bytes);
        messages.chain(steps).filter(|size| *size > 0)
    }

    /// The next batch of unwritten messages and steps, in their current version, with the message ids in it that were
    /// chosen by the caller. They are marked as written.
    pub(super) fn take_part(&mut self) -> Part {
        let (mut bytes, mut count, mut is_whole) = (0, 0, true);
        let mut fits = |size: usize| {
            (bytes, count) = (bytes + size, count + 1);
            is_whole &= count == 1 || (bytes <= PART_BYTES_MAX && count <= PART_RECORDS_MAX);
            is_whole
        };
        let mut events = Vec::new();
        // Steps first: after a crash between two parts, the running step is stored, and the request can be resumed from it.
        for buffered in &mut self.steps {
            let size = buffered.unwritten_bytes();
            if size > 0 && fits(size) {
                events.extend(buffered.event());
                buffered.mark_written();
            }
        }
        let (mut has_message, mut extended) = (false, HashMap::new());
        let mut own = HashMap::new();
        for buffered in &mut self.messages {
            let size = buffered.unwritten_bytes();
            if size > 0 && fits(size) {
                events.extend(buffered.event());
                extended.extend(buffered.extended());
                own.extend(buffered.own());
                buffered.mark_written();
                has_message = true;
            }
        }
        let mut replaced = Vec::new();
        if has_message {
            replaced = std::mem::take(&mut self.replaced);
            events.extend(deletions(&replaced, self.backend.now_ms()));
        }
        if is_whole && std::mem::take(&mut self.is_request_changed) {
            events.push(ChatEvent::RequestSaved(Box::new(self.request.clone())));
        }
        let is_in_part = |id: &String| {
            let index = self.message_indexes.get(id);
            index.is_some_and(|index| self.messages[*index].unwritten_bytes() == 0)
        };
        let given_ids = std::mem::take(&mut self.given_ids);
        let (in_part, left) = given_ids.into_iter().partition(is_in_part);
        self.given_ids = left;
        Part {
            events,
            given_ids: in_part,
            beside: Beside {
                replaced,
                own,
                extended,
                is_end: false,
            },
        }
    }

    /// What the events of its end depend on.
    pub(super) fn beside(&self, wholes: Wholes) -> Beside {
        let messages = || self.messages.iter();
        let extended = messages().filter_map(BufferedMessage::extended);
        Beside {
            replaced: self.replaced.clone(),
            own: messages().filter_map(BufferedMessage::own).collect(),
            extended: extended.collect(),
            is_end: wholes == Wholes::Written,
        }
    }
}
