//! Looking up messages: by id, by a filter, and by position.

use std::{
    collections::BTreeSet,
    ops::{Bound, Range},
};

use super::{ChatFold, Field, KeptMessage, MessageOrder, MessagePlace, Request};
use crate::{ChatMessage, ChatRequest, MessageFilter, SessionId, id_in_copy};

static NOTHING: BTreeSet<MessageOrder> = BTreeSet::new();

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

    /// The messages that a filter admits, in the chat's order. Those of a request, a block, a thread or a type are
    /// indexed, so other messages aren't scanned; an offset costs the messages skipped.
    pub fn messages(&self, filter: &MessageFilter) -> Vec<&ChatMessage> {
        let limit = if filter.limit == 0 {
            usize::MAX
        } else {
            filter.limit
        };
        self.admitted(filter, None..None)
            .map(|(_, message)| message)
            .skip(filter.offset)
            .take(limit)
            .collect()
    }

    /// How many messages a filter admits, whatever its limit and offset.
    pub fn message_count(&self, filter: &MessageFilter) -> usize {
        if filter.is_narrow() {
            self.admitted(filter, None..None).count()
        } else {
            self.message_order.len()
        }
    }

    /// The place of a message in the chat's order.
    pub fn place_of(&self, message_id: &str) -> Option<MessagePlace> {
        let place = *self.message_places.get(message_id)?;
        let (sequence, position, _) = self.messages.get(place)?.as_ref()?.order(place);
        Some((sequence, position))
    }

    /// The messages that a filter admits behind one place and before another, in the chat's order or backwards. It
    /// costs the messages taken, and those that pass one of the filters and not another.
    pub fn admitted<'a, 'filter>(
        &'a self,
        filter: &'filter MessageFilter,
        between: Range<Option<MessagePlace>>,
    ) -> impl DoubleEndedIterator<Item = (MessagePlace, &'a ChatMessage)> + use<'a, 'filter> {
        let is_empty =
            matches!((between.start, between.end), (Some(start), Some(end)) if start >= end);
        let (list, between) = if is_empty {
            (&NOTHING, None..None)
        } else {
            (self.narrowest(filter), between)
        };
        let after = between
            .start
            .map_or(Bound::Unbounded, |(sequence, position)| {
                Bound::Excluded((sequence, position, usize::MAX))
            });
        let before = between
            .end
            .map_or(Bound::Unbounded, |(sequence, position)| {
                Bound::Excluded((sequence, position, 0))
            });
        list.range((after, before))
            .filter_map(|(sequence, position, place)| {
                Some(((*sequence, *position), self.message_at(*place)?))
            })
            .filter(|(_, message)| filter.admits(message))
    }

    /// The first messages that a filter admits, in their order, or the last ones, the latest first; the fold is used up, and nothing
    /// copied.
    pub fn into_admitted(
        mut self,
        filter: &MessageFilter,
        newest_first: bool,
        limit: usize,
    ) -> Vec<ChatMessage> {
        let admitted = self
            .narrowest(filter)
            .iter()
            .filter(|(_, _, place)| self.message_at(*place).is_some_and(|it| filter.admits(it)))
            .map(|(_, _, place)| *place);
        let places: Vec<usize> = if newest_first {
            admitted.rev().take(limit).collect()
        } else {
            admitted.take(limit).collect()
        };
        let saved = places.into_iter().map(|place| self.messages[place].take());
        saved.flatten().map(|saved| *saved.message).collect()
    }

    fn narrowest(&self, filter: &MessageFilter) -> &BTreeSet<MessageOrder> {
        let fields = [
            filter.request_id.clone().map(Field::Request),
            filter.block_id.clone().map(Field::Block),
            filter.thread_id.clone().map(Field::Thread),
            filter.message_type.clone().map(Field::Type),
        ];
        let lists = fields.into_iter().flatten();
        lists
            .map(|field| self.by_field().get(&field).unwrap_or(&NOTHING))
            .min_by_key(|list| list.len())
            .unwrap_or(&self.message_order)
    }

    /// The record of a request; `None` for one that was never begun, whose steps were saved directly.
    pub fn request(&self, request_id: &str) -> Option<&ChatRequest> {
        self.requests.get(request_id)?.record.as_deref()
    }

    /// The records of the requests that were begun, in that order.
    pub fn requests(&self) -> Vec<&ChatRequest> {
        let begun = self.requests.values();
        let mut begun: Vec<_> = begun
            .filter_map(|request| Some((request.begun, request.record.as_deref()?)))
            .collect();
        begun.sort_by_key(|(position, _)| *position);
        begun.into_iter().map(|(_, record)| record).collect()
    }

    /// The ids of the requests whose first record stands at a position that is chosen.
    pub fn requests_begun_at(&self, is_chosen: impl Fn(u64) -> bool) -> Vec<&str> {
        let begun = self.requests.iter();
        let begun = begun.filter(|(_, it)| it.record.is_some() && is_chosen(it.begun));
        begun.map(|(id, _)| id.as_str()).collect()
    }

    /// The messages that the answer of a request replaces, as far as they are there still, each with the position at which it was
    /// saved. One that was saved since under an id of theirs is another message.
    pub fn replaced_by(&self, request_id: &str) -> Vec<(String, u64)> {
        let Some(Request {
            record: Some(record),
            begun,
            ..
        }) = self.requests.get(request_id)
        else {
            return Vec::new();
        };
        let ids = record.replaces.iter();
        let saved = ids.filter_map(|id| Some((id.clone(), self.message(id)?.id?)));
        saved.filter(|(_, position)| position < begun).collect()
    }

    /// Whether a request was begun, or there are messages or steps of it.
    pub fn has_request(&self, request_id: &str) -> bool {
        let request = self.requests.get(request_id);
        request.is_some_and(|request| request.record.is_some() || !request.steps.is_empty())
            || self
                .by_field()
                .contains_key(&Field::Request(request_id.to_owned()))
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

    /// Where the message with this id is kept.
    pub fn kept_message(&self, id: &str) -> Option<KeptMessage> {
        self.message_places.get(id).map(|place| self.kept(*place))
    }

    /// Where the message is kept that the event at a position saved or changed. Chats that are copies of each other have the
    /// events of the copied part at the same positions.
    pub fn kept_message_at(&self, position: u64) -> Option<KeptMessage> {
        self.message_touched_at(position)
            .map(|place| self.kept(place))
    }

    /// Where a message of the chat that this one, of a session, is a copy of is kept here. It is given by the position of the event
    /// that saved it there, and its id there.
    ///
    /// The id tells only where the copy has events of its own, because it was imported without its original: it may have been given
    /// to another message since, here or there.
    pub fn kept_of_original(
        &self,
        session: SessionId,
        original: &Self,
        position: u64,
        id: Option<&str>,
    ) -> Option<KeptMessage> {
        self.kept_message_at(position).or_else(|| {
            let id = id.filter(|_| !self.shares_events_with(original))?;
            let place = self.copied_place(&id_in_copy(session.0, id))?;
            let there = original.message_places.get(id);
            there
                .is_none_or(|there| self.is_as_old(place, original, *there))
                .then(|| self.kept(place))
        })
    }

    /// Where a message of this copy, which is of a session, is kept in the chat that it is a copy of; as
    /// [`kept_of_original`](Self::kept_of_original). Where the copy has events of its own, it scans all messages.
    pub fn kept_in_original(
        &self,
        session: SessionId,
        original: &Self,
        position: u64,
        id: Option<&str>,
    ) -> Option<KeptMessage> {
        original.kept_message_at(position).or_else(|| {
            let id = id.filter(|_| !self.shares_events_with(original))?;
            let place = self.copied_place(id)?;
            let mut there = original.message_places.iter();
            let (_, there) = there.find(|(there, _)| id_in_copy(session.0, there) == id)?;
            self.is_as_old(place, original, *there)
                .then(|| original.kept(*there))
        })
    }

    fn kept(&self, place: usize) -> KeptMessage {
        let of_it = self.touched.iter().filter(|touched| touched.1 == place);
        KeptMessage {
            id: self
                .message_at(place)
                .map(|message| message.message_id.clone()),
            positions: of_it.map(|(position, _)| *position).collect(),
        }
    }

    /// Whether a copy has the events of its original, by the first of them that saved a message.
    fn shares_events_with(&self, original: &Self) -> bool {
        let first = self.touched.first();
        first.is_some_and(|(position, _)| original.message_touched_at(*position).is_some())
    }

    /// The place of a message of this id that was there when the chat was copied.
    fn copied_place(&self, id: &str) -> Option<usize> {
        let place = self.message_places.get(id).copied();
        place.filter(|place| *place < self.copied)
    }

    /// Whether two messages were made at the same time, which no change of a message changes.
    fn is_as_old(&self, place: usize, other: &Self, there: usize) -> bool {
        let made = |message: &ChatMessage| message.created_at_ms;
        self.message_at(place).map(made) == other.message_at(there).map(made)
    }

    fn message_touched_at(&self, position: u64) -> Option<usize> {
        let index = self
            .touched
            .binary_search_by_key(&position, |(position, _)| *position)
            .ok()?;
        self.touched.get(index).map(|(_, place)| *place)
    }
}
