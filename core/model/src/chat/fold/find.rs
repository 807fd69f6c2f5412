//! Looking up messages: by their ids, by a filter, and where each is kept.

use std::collections::BTreeSet;

use super::{ChatFold, KeptMessage, Place};
use crate::{ChatMessage, MessageFilter, SessionId, id_in_copy};

impl ChatFold {
    /// Whether the chat has a message of this id, or had one that was deleted.
    pub fn had_message(&self, id: &str) -> bool {
        self.message_places.contains_key(id) || self.deleted_messages.contains(id)
    }

    /// The message with this id.
    pub fn message(&self, id: &str) -> Option<&ChatMessage> {
        self.message_places
            .get(id)
            .and_then(|place| self.message_at(*place))
    }

    /// The messages that a filter admits, in the chat's order. Those of a request are not looked for among the others;
    /// an offset costs what is passed over.
    pub fn messages(&self, filter: &MessageFilter) -> Vec<&ChatMessage> {
        let nothing = BTreeSet::new();
        let order = match &filter.request_id {
            Some(request) => self
                .requests
                .get(request)
                .map_or(&nothing, |request| &request.messages),
            None => &self.message_order,
        };
        let limit = if filter.limit == 0 {
            usize::MAX
        } else {
            filter.limit
        };
        order
            .iter()
            .filter_map(|(.., place)| self.message_at(*place))
            .filter(|message| filter.role.is_none_or(|role| message.role == role))
            .filter(|message| filter.block_id.is_none() || filter.block_id == message.block_id)
            .skip(filter.offset)
            .take(limit)
            .collect()
    }

    /// Whether there are messages or steps of a request.
    pub fn has_request(&self, request_id: &str) -> bool {
        let request = self.requests.get(request_id);
        request.is_some_and(|request| !request.messages.is_empty() || !request.steps.is_empty())
    }

    /// The largest sequence that a message of the chat has, or had.
    pub fn last_message_sequence(&self) -> u64 {
        self.last_message_sequence
    }

    /// The first message with a sequence.
    pub fn message_with_sequence(&self, sequence: u64) -> Option<&ChatMessage> {
        let (_, _, place) = self.message_order.range((sequence, 0, 0)..).next()?;
        self.message_at(*place)
            .filter(|message| message.sequence == sequence)
    }

    /// Where the message with this id is kept; where there is none, the one that the event at a position saved or changed.
    /// Chats that are copies of each other have the events of the copied part at the same positions.
    pub fn kept_message(&self, id: Option<&str>, position: u64) -> Option<KeptMessage> {
        let by_id = id.and_then(|id| self.message_places.get(id).copied());
        let place = by_id.or_else(|| self.message_touched_at(position))?;
        let of_it =
            |touched: &&(u64, Place)| matches!(touched.1, Place::Message(other) if other == place);
        Some(KeptMessage {
            id: self
                .message_at(place)
                .map(|message| message.message_id.clone()),
            positions: self
                .touched
                .iter()
                .filter(of_it)
                .map(|(position, _)| *position)
                .collect(),
        })
    }

    /// The id of the message that has this id in a copy of the chat. Looks through all of them.
    pub fn id_of_copied(&self, copy: SessionId, id_there: &str) -> Option<&str> {
        self.message_places
            .keys()
            .find(|id| id_in_copy(copy.0, id) == id_there)
            .map(String::as_str)
    }

    fn message_touched_at(&self, position: u64) -> Option<usize> {
        let index = self
            .touched
            .binary_search_by_key(&position, |(position, _)| *position)
            .ok()?;
        match self.touched.get(index)?.1 {
            Place::Message(place) => Some(place),
            Place::Step(_) => None,
        }
    }
}
