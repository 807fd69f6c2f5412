//! [`Channels`]: the subscriptions of clients. A chunk of the log wakes only the clients that are subscribed to
//! something in it.

use std::{
    collections::{HashMap, HashSet},
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

    /// Sends an event to the clients subscribed to one of these subjects or to everything, and returns their number.
    pub(super) fn send_to(&self, subjects: &HashSet<Uuid>, event: &TailUpdate) -> usize {
        let channels = self.open();
        let subjects = subjects.iter().copied().map(Some).chain([None]);
        subjects
            .filter_map(|subject| channels.get(&subject))
            .map(|channel| channel.send(event.clone()).unwrap_or(0))
            .sum()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Subject, broadcast::Sender<TailUpdate>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asked_for_it_is_told() {
        let channels = Channels::default();
        assert!(!channels.has_clients());
        let [one, other, third] = [1, 2, 3].map(Uuid::from_u128);
        let mut receivers: Vec<_> = [Some(one), Some(other), None]
            .map(|subject| channels.subscribe(subject))
            .into();
        assert_eq!(
            channels.send_to(&HashSet::from([one, third]), &TailUpdate::More),
            2
        );
        let told: Vec<bool> = receivers
            .iter_mut()
            .map(|receiver| receiver.try_recv().is_ok())
            .collect();
        assert_eq!(told, [true, false, true]);
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
