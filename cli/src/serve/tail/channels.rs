//! [`Channels`]: who is told of what. A piece of the log wakes those clients that asked for something in it, and no others.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::broadcast;
use uuid::Uuid;

use super::event::Item;
use crate::serve::problem::Problem;

/// How many pieces of news wait for a client; one that is further behind reads for itself.
const WAITING: usize = 32;

/// What a client asks for: what is of a session, of an agent instance or of a run, whose ids never meet; or everything.
pub(super) type Subject = Option<Uuid>;

/// Some records that follow each other in the log.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The position up to which they are all.
    pub(super) last: u64,
    /// What clients are told of them.
    pub(super) items: Vec<Item>,
}

/// What clients are told.
#[derive(Clone, Debug)]
pub(super) enum News {
    Chunk(Arc<Chunk>),
    /// So far the log goes, and what was asked for up to there has been told.
    Reached(u64),
    /// There are more records, which nobody has read yet.
    More,
    /// The log couldn't be read.
    Broken(Arc<Problem>),
}

/// One channel for each subject that somebody asks for.
#[derive(Default)]
pub(super) struct Channels(Mutex<HashMap<Subject, broadcast::Sender<News>>>);

impl Channels {
    /// What comes of a subject from now on.
    pub(super) fn subscribe(&self, subject: Subject) -> broadcast::Receiver<News> {
        let mut channels = self.open();
        // Those whose clients have left go when others come, so that there are never many more than clients.
        if channels.len() == channels.capacity() {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        channels
            .entry(subject)
            .or_insert_with(|| broadcast::Sender::new(WAITING))
            .subscribe()
    }

    /// Whether anybody is there to be told.
    pub(super) fn has_clients(&self) -> bool {
        self.open()
            .values()
            .any(|channel| channel.receiver_count() > 0)
    }

    /// Tells everybody, and says how many they are.
    pub(super) fn tell_all(&self, news: &News) -> usize {
        let channels = self.open();
        channels
            .values()
            .map(|channel| channel.send(news.clone()).unwrap_or(0))
            .sum()
    }

    /// Tells those who asked for one of these subjects, and those who asked for everything; says how many they are.
    pub(super) fn tell(&self, subjects: &HashSet<Uuid>, news: &News) -> usize {
        let channels = self.open();
        let subjects = subjects.iter().copied().map(Some).chain([None]);
        subjects
            .filter_map(|subject| channels.get(&subject))
            .map(|channel| channel.send(news.clone()).unwrap_or(0))
            .sum()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Subject, broadcast::Sender<News>>> {
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
        assert_eq!(channels.tell(&HashSet::from([one, third]), &News::More), 2);
        let told: Vec<bool> = receivers
            .iter_mut()
            .map(|receiver| receiver.try_recv().is_ok())
            .collect();
        assert_eq!(told, [true, false, true]);
        assert_eq!(channels.tell_all(&News::More), 3);
        receivers.clear();
        assert!(!channels.has_clients() && channels.tell_all(&News::More) == 0);
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
