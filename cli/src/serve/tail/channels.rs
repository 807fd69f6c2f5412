//! [`Channels`]: the subscriptions of clients. A chunk of the log wakes only the clients that are subscribed to
//! something in it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast;
use uuid::Uuid;

use super::event::Item;
use crate::serve::problem::Problem;

/// How many events wait for a client; a client that is further behind reads the log itself.
const WAITING: usize = 32;

/// The subject of a subscription: a session, an agent instance or a run, whose ids are distinct; or everything.
pub(super) type Subject = Option<Uuid>;

/// Some consecutive records of the log.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The position up to which the chunk is complete.
    pub(super) last: u64,
    /// The items for clients.
    pub(super) items: Vec<Item>,
    /// Where the items of a subject are; empty where that wasn't looked up.
    places: HashMap<Uuid, Vec<usize>>,
}

impl Chunk {
    pub(super) fn new(last: u64, items: Vec<Item>) -> Self {
        let places = HashMap::new();
        Self {
            last,
            items,
            places,
        }
    }

    /// Looks up where the items of each subject are: a thousand clients would each look through all of them otherwise.
    pub(super) fn sort_by_subject(&mut self) {
        for (place, item) in self.items.iter().enumerate() {
            for subject in item.subjects() {
                self.places.entry(subject).or_default().push(place);
            }
        }
    }

    /// All items of a subject, and maybe others.
    pub(super) fn of(&self, subject: Subject) -> impl Iterator<Item = &Item> {
        let sorted = subject.filter(|_| !self.places.is_empty());
        let places = sorted.map(|subject| self.places.get(&subject).map_or(&[][..], Vec::as_slice));
        let all = places.is_none().then_some(&self.items);
        let some = places.into_iter().flatten();
        some.filter_map(|place| self.items.get(*place))
            .chain(all.into_iter().flatten())
    }
}

/// An event for clients.
#[derive(Clone, Debug)]
pub(super) enum TailUpdate {
    Chunk(Arc<Chunk>),
    /// The log goes up to this position, and all items up to there were sent.
    Reached(u64),
    /// There are more records, which the follower hasn't read.
    More,
    /// The log couldn't be read.
    Broken(Arc<Problem>),
}

/// One channel for each subject with subscribers.
#[derive(Default)]
pub(super) struct Channels(Mutex<HashMap<Subject, broadcast::Sender<TailUpdate>>>);

impl Channels {
    /// Subscribes to the future events of a subject.
    pub(super) fn subscribe(&self, subject: Subject) -> broadcast::Receiver<TailUpdate> {
        let mut channels = self.open();
        // Channels without clients are removed before the map would grow, so that there are never many more than clients.
        if channels.len() == channels.capacity() {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        channels
            .entry(subject)
            .or_insert_with(|| broadcast::Sender::new(WAITING))
            .subscribe()
    }

    /// Whether there are any clients.
    pub(super) fn has_clients(&self) -> bool {
        self.open()
            .values()
            .any(|channel| channel.receiver_count() > 0)
    }

    /// Sends an event to all clients, and returns their number.
    pub(super) fn send_to_all(&self, event: &TailUpdate) -> usize {
        let channels = self.open();
        channels
            .values()
            .map(|channel| channel.send(event.clone()).unwrap_or(0))
            .sum()
    }

    /// Sends a chunk to the clients subscribed to one of its subjects or to everything, and returns their number.
    pub(super) fn send(&self, mut chunk: Chunk) -> usize {
        chunk.sort_by_subject();
        let chunk = Arc::new(chunk);
        let channels = self.open();
        let subjects = chunk.places.keys().copied().map(Some).chain([None]);
        subjects
            .filter_map(|subject| channels.get(&subject))
            .map(|channel| channel.send(TailUpdate::Chunk(chunk.clone())).unwrap_or(0))
            .sum()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Subject, broadcast::Sender<TailUpdate>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use runlog::SessionId;

    use super::*;
    use crate::owners::Topic;

    fn item(position: u64, session: Uuid) -> Item {
        Item {
            position,
            topic: Topic::Context,
            session: Some(SessionId(session)),
            instance: None,
            run: None,
            frame: Bytes::new(),
        }
    }

    #[test]
    fn a_chunk_that_was_not_sorted_has_everything_for_everybody() {
        let [one, other] = [1, 2].map(Uuid::from_u128);
        let mut chunk = Chunk::new(2, vec![item(1, one), item(2, other)]);
        assert_eq!(chunk.of(Some(one)).count(), 2);
        chunk.sort_by_subject();
        assert_eq!(chunk.of(Some(one)).count(), 1);
        assert_eq!(chunk.of(Some(Uuid::from_u128(3))).count(), 0);
    }

    #[test]
    fn only_who_asked_for_it_is_told() {
        let channels = Channels::default();
        assert!(!channels.has_clients());
        let [one, other, third] = [1, 2, 3].map(Uuid::from_u128);
        let mut receivers: Vec<_> = [Some(one), Some(other), None]
            .map(|subject| channels.subscribe(subject))
            .into();
        let items = [(1, one), (2, third), (3, one)];
        let chunk = Chunk::new(
            3,
            items
                .map(|(position, session)| item(position, session))
                .into(),
        );
        assert_eq!(channels.send(chunk), 2);
        let mut subscribed = [Some(one), Some(other), None]
            .into_iter()
            .zip(&mut receivers);
        let mut positions = || {
            let (subject, receiver) = subscribed.next()?;
            let Ok(TailUpdate::Chunk(chunk)) = receiver.try_recv() else {
                return Some(Vec::new());
            };
            let items = chunk.of(subject);
            Some(items.map(|item| item.position).collect::<Vec<_>>())
        };
        assert_eq!(positions(), Some(vec![1, 3]));
        assert_eq!(positions(), Some(vec![]));
        assert_eq!(positions(), Some(vec![1, 2, 3]));
        assert_eq!(channels.send_to_all(&TailUpdate::More), 3);
        receivers.clear();
        assert!(!channels.has_clients() && channels.send_to_all(&TailUpdate::More) == 0);
    }

    #[test]
    fn channels_of_clients_that_left_are_given_up() {
        let channels = Channels::default();
        for subject in 0..10_000 {
            drop(channels.subscribe(Some(Uuid::from_u128(subject))));
        }
        assert!(channels.open().len() < 100);
    }
}
