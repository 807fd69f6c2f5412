//! [`PlacesCache`]: where the messages of the chats in use lie in their streams.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use runlog_log::StreamInfo;
use runlog_model::SessionId;

/// The most chats, and the most messages of all of them, if there is more than one. A message takes 8 bytes.
const CHATS_MAX: usize = 256;
const MESSAGES_MAX: usize = 4 << 20;

/// Where the messages of a chat lie, in the order of its stream.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// What the chat's stream was, and the redaction count of the store, when they were read.
    pub(crate) read_at: (StreamInfo, u64),
    /// The sequences of the records that saved messages, without those that were redacted.
    pub(crate) saved: Vec<u64>,
    /// Those of them whose messages were deleted since, in the order of their sequences.
    pub(crate) deleted: Vec<u64>,
    /// The ids of these.
    pub(crate) deleted_ids: HashSet<String>,
}

impl Places {
    pub(crate) fn new(read_at: (StreamInfo, u64)) -> Self {
        Self {
            read_at,
            saved: Vec::new(),
            deleted: Vec::new(),
            deleted_ids: HashSet::new(),
        }
    }

    /// How many messages there are.
    pub(crate) fn count(&self) -> usize {
        self.saved.len() - self.deleted.len()
    }

    /// The sequence of the record that saved the message before which there are `offset` others.
    pub(crate) fn at(&self, offset: usize) -> Option<u64> {
        if offset >= self.count() {
            return None;
        }
        let mut at = offset;
        for (before, deleted) in self.deleted.iter().enumerate() {
            // So many that are there lie before this deleted one.
            let there = self.saved.partition_point(|saved| saved < deleted) - before;
            if there > offset {
                break;
            }
            at += 1;
        }
        self.saved.get(at).copied()
    }
}

/// The places of the chats that were asked for last.
#[derive(Default)]
pub(crate) struct PlacesCache {
    kept: Mutex<HashMap<SessionId, Arc<Places>>>,
}

impl PlacesCache {
    pub(crate) fn known(&self, session: SessionId) -> Option<Arc<Places>> {
        self.all().get(&session).cloned()
    }

    /// Taken out to be carried on: where nobody else holds them they aren't copied.
    pub(crate) fn take(&self, session: SessionId) -> Option<Arc<Places>> {
        self.all().remove(&session)
    }

    pub(crate) fn keep(&self, session: SessionId, places: &Arc<Places>) {
        let mut all = self.all();
        all.remove(&session);
        let messages: usize = all.values().map(|places| places.saved.len()).sum();
        // The last one stays, however many it has: otherwise each question would read all of the chat.
        if all.len() >= CHATS_MAX || messages + places.saved.len() > MESSAGES_MAX {
            all.clear();
        }
        all.insert(session, Arc::clone(places));
    }

    pub(crate) fn forget(&self, session: SessionId) {
        self.all().remove(&session);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Places>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use runlog_log::{Sequence, StreamId};

    use super::*;

    #[test]
    fn an_offset_passes_over_deleted_messages() {
        let saved: Vec<u64> = (1..=20).map(|at| at * 3).collect();
        for deleted in [
            vec![],
            vec![3],
            vec![60],
            vec![3, 6, 9],
            vec![6, 30, 33, 57],
            saved.clone(),
        ] {
            let info = StreamInfo {
                id: StreamId::from_bytes([1; 16]),
                last_sequence: Sequence(60),
                appended: 60,
            };
            let places = Places {
                saved: saved.clone(),
                deleted: deleted.clone(),
                ..Places::new((info, 0))
            };
            let there: Vec<u64> = saved
                .iter()
                .copied()
                .filter(|at| !deleted.contains(at))
                .collect();
            assert_eq!(places.count(), there.len());
            for offset in (0..=20).chain([usize::MAX - 1, usize::MAX]) {
                assert_eq!(places.at(offset), there.get(offset).copied(), "{deleted:?}");
            }
        }
    }
}
