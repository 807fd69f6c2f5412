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
    channels::{Channels, Chunk, Subject, TailUpdate},
    event::{damaged, item},
};
use crate::{
    owners::{Owners, Topic},
    serve::{background::in_background, problem::Answer},
};

/// The most records of a chunk. It also has no more than about 1 MiB of payload beyond its first record, which is what
/// bounds it: the more events a client finds in one, the fewer times it is woken for them.
const CHUNK_RECORDS: u64 = 4_096;
/// How many chunks are published together, so that a client with events in several of them is woken once.
const CHUNKS_TOGETHER: usize = 4;
/// How many clients that are behind read at one time. Without a limit, many reconnecting clients would leave no thread
/// for other requests.
const READERS: usize = 4;
/// The follower pauses for this time per woken client, so that a writer that flushes hundreds of times a second doesn't
/// keep a thousand clients busy: the records of a pause are sent together, and sending many costs little more than one.
/// Half as long took a twentieth more from the writer, twice as long an eighth of a second more to each client.
const REST_PER_CLIENT: Duration = Duration::from_micros(50);
/// The longest pause.
const REST_MAX: Duration = Duration::from_millis(100);
/// How long a client may wait for a report of the position if no record matches.
pub(super) const UNREPORTED_TIME_MAX: Duration = Duration::from_secs(1);
/// How long to wait after the log couldn't be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Reads the log as it grows, once for all clients.
pub(in crate::serve) struct Follower {
    channels: Channels,
    /// The last position that was published, or that clients may read themselves.
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

    /// Subscribes to the future events of a subject. Earlier records are those up to [`last`](Self::last), to be read
    /// after this call.
    pub(super) fn subscribe(&self, subject: Subject) -> broadcast::Receiver<TailUpdate> {
        self.channels.subscribe(subject)
    }

    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::SeqCst)
    }

    /// Waits for a permit to read the log; it is released when it is dropped.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // The only error is a closed semaphore, and it is never closed.
        self.turns.acquire().await.ok()
    }

    /// Follows the log until the server ends.
    pub(in crate::serve) async fn run(&self, store: Store, stopped: CancellationToken) {
        let follow = async {
            loop {
                if let Err(problem) = self.follow(&store).await {
                    self.channels
                        .send_to_all(&TailUpdate::Broken(Arc::new(problem)));
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
                        reached.report(&self.channels, seen);
                        continue;
                    }
                },
            };
            if !self.channels.has_clients() || seen == 0 {
                // New clients read for themselves; a client that has just subscribed is notified to do so.
                self.last.store(end, Ordering::SeqCst);
                self.channels.send_to_all(&TailUpdate::More);
                reached = Reached::new(end);
                continue;
            }
            let mut next = seen + 1;
            let mut woken = 0;
            while next <= end {
                let mut chunks = Vec::new();
                while next <= end && chunks.len() < CHUNKS_TOGETHER {
                    let chunk;
                    (chunk, owners) = read(store.clone(), owners, next, end).await?;
                    next = chunk.last + 1;
                    chunks.push(chunk);
                }
                for chunk in chunks {
                    woken += self.publish(chunk);
                }
                // During continuous writes the wait below is never reached.
                if reached
                    .due(next - 1)
                    .is_some_and(|due| due <= Instant::now())
                {
                    woken += reached.report(&self.channels, next - 1);
                }
            }
            tokio::time::sleep(rest(woken)).await;
        }
    }

    /// The order matters: a client that subscribes now reads the log at least up to there. Returns how many clients
    /// were woken.
    fn publish(&self, chunk: Chunk) -> usize {
        self.last.store(chunk.last, Ordering::SeqCst);
        if chunk.items.iter().any(|item| item.topic == Topic::Damaged) {
            // It may have matched any subscription.
            return self
                .channels
                .send_to_all(&TailUpdate::Chunk(Arc::new(chunk)));
        }
        self.channels.send(chunk)
    }
}

/// The last position that was reported to all clients, and when.
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

    /// When a position has to be reported to all clients, if it wasn't yet.
    fn due(&self, position: u64) -> Option<Instant> {
        (position > self.position).then(|| self.at + UNREPORTED_TIME_MAX)
    }

    fn report(&mut self, channels: &Channels, position: u64) -> usize {
        *self = Self::new(position);
        channels.send_to_all(&TailUpdate::Reached(position))
    }
}

/// How long to pause after this many clients were woken.
fn rest(clients: usize) -> Duration {
    let clients = u32::try_from(clients).unwrap_or(u32::MAX);
    REST_PER_CLIENT.saturating_mul(clients).min(REST_MAX)
}

/// Reads the records from a position on, at most up to `end`, which must exist.
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
    // Without a next record, there is nothing more up to the end.
    let last = page.next.map_or(end, |next| next.0 - 1).min(end);
    let mut items = Vec::with_capacity(page.records.len());
    let records = page.records.iter();
    for record in records.take_while(|record| record.position.0 <= end) {
        items.push(item(store, owners, record).await?);
    }
    Ok(Chunk::new(last, items))
}

/// A chunk of only unreadable records, which are one event. It ends before the next readable one.
async fn lost(store: &Store, first: u64, end: u64, error: &Error) -> Answer<Chunk> {
    let next = store.backend().maintenance().next_readable(Position(first));
    // If the backend can't find the next readable record, the next one is tried separately.
    let last = match if_supported(next.await)? {
        Some(next) => next.map_or(end, |next| next.0.saturating_sub(1)),
        None => first,
    };
    let last = last.clamp(first, end);
    let items = vec![damaged(first, last, &error.to_string())?];
    Ok(Chunk::new(last, items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_clients_are_told_at_once_and_any_number_soon() {
        assert_eq!(rest(0), Duration::ZERO);
        assert!(rest(1) < Duration::from_millis(1));
        assert_eq!(rest(1_000), Duration::from_millis(50));
        assert_eq!(rest(usize::MAX), REST_MAX);
    }
}
