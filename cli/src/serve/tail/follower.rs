//! [`Follower`]: reads the log as it grows, once for all clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runlog::{Error, ErrorKind, Store, backend::if_supported, log::Position};
use tokio::{
    sync::{Semaphore, SemaphorePermit, broadcast},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    channels::{Channels, Chunk, News, Subject},
    event::{Item, Owners, Topic, damaged, item},
};
use crate::serve::{background::in_background, problem::Answer};

/// The most records of a chunk. It also has no more than about 1 MiB of payload beyond its first record.
const CHUNK_RECORDS: u64 = 256;
/// How many clients that are behind read at one time. More would leave no thread for other requests, however many clients
/// come back at once.
const READERS: usize = 4;
/// To wake a client costs about so much of a processor. The follower rests for as long as that for each that it has woken, so
/// that a writer that flushes hundreds of times a second leaves no thousand clients awake all the time: what comes meanwhile is
/// one piece.
const REST_PER_CLIENT: Duration = Duration::from_micros(25);
/// It is told this soon all the same.
const REST_MAX: Duration = Duration::from_millis(50);
/// How long a client may not know how far the log goes, where nothing came that it wants.
pub(super) const UNSAID_TIME_MAX: Duration = Duration::from_secs(1);
/// How long to wait after the log couldn't be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads the log as it grows, once for all clients.
pub(in crate::serve) struct Follower {
    channels: Channels,
    /// The last position that clients were told of, or may read themselves.
    last: AtomicU64,
    turns: Semaphore,
}

impl Follower {
    pub(in crate::serve) fn new() -> Self {
        Self {
            channels: Channels::default(),
            last: AtomicU64::new(0),
            turns: Semaphore::new(READERS),
        }
    }

    /// What comes of a subject from now on; what comes before is up to [`last`](Self::last), which is asked for after this.
    pub(super) fn subscribe(&self, subject: Subject) -> broadcast::Receiver<News> {
        self.channels.subscribe(subject)
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Waits until it is a client's turn to read for itself; the turn ends when this is dropped.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed, which is the only failure.
        self.turns.acquire().await.ok()
    }

    /// Follows the log until the server ends.
    pub(in crate::serve) async fn run(&self, store: Store, stopped: CancellationToken) {
        let follow = async {
            loop {
                if let Err(problem) = self.follow(&store).await {
                    self.channels.tell_all(&News::Broken(Arc::new(problem)));
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        tokio::select! {
            () = follow => {}
            () = stopped.cancelled() => {}
        }
    }

    async fn follow(&self, store: &Store) -> Answer<()> {
        let mut owners = Owners::default();
        let mut reached = Reached::new(self.last());
        loop {
            let seen = self.last();
            let waiting = store.backend().wait_past(Position(seen));
            let end = match reached.due(seen) {
                None => waiting.await?.0,
                Some(due) => match tokio::time::timeout_at(due, waiting).await {
                    Ok(end) => end?.0,
                    Err(_) => {
                        reached.tell(&self.channels, seen);
                        continue;
                    }
                },
            };
            if !self.channels.has_clients() || seen == 0 {
                // Who comes later reads what it wants; who has just come is told to.
                self.last.store(end, Ordering::SeqCst);
                self.channels.tell_all(&News::More);
                reached = Reached::new(end);
                continue;
            }
            let mut next = seen + 1;
            let mut woken = 0;
            while next <= end {
                let chunk;
                (chunk, owners) = read(store.clone(), owners, next, end).await?;
                next = chunk.last + 1;
                woken += self.publish(chunk);
                // While much is written the time to say so would never be waited for.
                if reached
                    .due(next - 1)
                    .is_some_and(|due| due <= Instant::now())
                {
                    woken += reached.tell(&self.channels, next - 1);
                }
            }
            tokio::time::sleep(rest(woken)).await;
        }
    }

    /// In this order: who subscribes now reads for itself up to there at least. Says how many were woken.
    fn publish(&self, chunk: Chunk) -> usize {
        self.last.store(chunk.last, Ordering::SeqCst);
        if chunk.items.iter().any(|item| item.topic == Topic::Damaged) {
            // It may have been anything.
            return self.channels.tell_all(&News::Chunk(Arc::new(chunk)));
        }
        let subjects = chunk.items.iter().flat_map(Item::subjects).collect();
        self.channels.tell(&subjects, &News::Chunk(Arc::new(chunk)))
    }
}

/// Up to which position everybody was told how far the log goes, and when.
struct Reached {
    position: u64,
    at: Instant,
}

impl Reached {
    fn new(position: u64) -> Self {
        Self {
            position,
            at: Instant::now(),
        }
    }

    /// When everybody has to be told that the log goes up to a position, where not everybody was.
    fn due(&self, position: u64) -> Option<Instant> {
        (position > self.position).then(|| self.at + UNSAID_TIME_MAX)
    }

    fn tell(&mut self, channels: &Channels, position: u64) -> usize {
        *self = Self::new(position);
        channels.tell_all(&News::Reached(position))
    }
}

/// How long to rest after so many clients were woken.
fn rest(clients: usize) -> Duration {
    let clients = u32::try_from(clients).unwrap_or(u32::MAX);
    REST_PER_CLIENT.saturating_mul(clients).min(REST_MAX)
}

/// Reads the records from a position on, at most up to another, which has to be there.
pub(super) async fn read(
    store: Store,
    mut owners: Owners,
    first: u64,
    end: u64,
) -> Answer<(Chunk, Owners)> {
    in_background(move || {
        let chunk = pollster::block_on(chunk(&store, &mut owners, first, end))?;
        Ok((chunk, owners))
    })
    .await
}

async fn chunk(store: &Store, owners: &mut Owners, first: u64, end: u64) -> Answer<Chunk> {
    let page = match store.backend().scan(Position(first), CHUNK_RECORDS).await {
        Err(error) if error.kind() == ErrorKind::Damaged => {
            return lost(store, first, end, &error).await;
        }
        page => page?,
    };
    let mut chunk = Chunk {
        // Without another record, up to the end there is nothing.
        last: page.next.map_or(end, |next| next.0 - 1).min(end),
        items: Vec::new(),
    };
    let records = page.records.iter();
    for record in records.take_while(|record| record.position.0 <= end) {
        chunk.items.push(item(store, owners, record).await?);
    }
    Ok(chunk)
}

/// A chunk of nothing but records that can't be read, which are one event. It ends before the next one that can.
async fn lost(store: &Store, first: u64, end: u64, error: &Error) -> Answer<Chunk> {
    let next = store.backend().maintenance().next_readable(Position(first));
    // A backend that can't tell has the next one asked for by itself.
    let last = match if_supported(next.await)? {
        Some(next) => next.map_or(end, |next| next.0.saturating_sub(1)),
        None => first,
    };
    let last = last.clamp(first, end);
    Ok(Chunk {
        last,
        items: vec![damaged(first, last, &error.to_string())?],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_clients_are_told_at_once_and_any_number_soon() {
        assert_eq!(rest(0), Duration::ZERO);
        assert!(rest(1) < Duration::from_millis(1));
        assert_eq!(rest(1_000), Duration::from_millis(25));
        assert_eq!(rest(usize::MAX), REST_MAX);
    }
}
