//! [`Follower`]: reads the log as it grows, once for all clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use runlog::{Error, ErrorKind, Store, backend::if_supported, log::Position};
use tokio::sync::{Semaphore, SemaphorePermit, broadcast};
use tokio_util::sync::CancellationToken;

use super::event::{Item, Owners, damaged, item};
use crate::serve::{
    background::in_background,
    problem::{Answer, Problem},
};

/// How many chunks wait for clients; one that is further behind reads for itself.
const CHUNKS: usize = 32;
/// The most records of a chunk. It also has no more than about 1 MiB of payload beyond its first record.
const CHUNK_RECORDS: u64 = 256;
/// How many clients that are behind read at one time. More would leave no thread for other requests, however many clients
/// come back at once.
const READERS: usize = 4;
/// Each piece of the log wakes every client, which costs about so much of a processor for each. The follower rests for as long
/// as that, so that a writer that flushes hundreds of times a second leaves no thousand clients awake all the time: what
/// comes meanwhile is one piece.
const REST_PER_CLIENT: Duration = Duration::from_micros(25);
/// It is told this soon all the same.
const REST_MAX: Duration = Duration::from_millis(50);
/// How long to wait after the log couldn't be read.
const PAUSE: Duration = Duration::from_secs(1);

/// Some records that follow each other in the log.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) first: u64,
    pub(super) last: u64,
    /// What clients are told of them.
    pub(super) items: Vec<Item>,
}

/// What clients are told.
#[derive(Clone, Debug)]
pub(super) enum News {
    Chunk(Arc<Chunk>),
    /// There are more records, which nobody has read yet.
    More,
    /// The log couldn't be read.
    Broken(Arc<Problem>),
}

/// Reads the log as it grows, once for all clients.
pub(in crate::serve) struct Follower {
    news: broadcast::Sender<News>,
    /// The last position that clients were told of, or may read themselves.
    last: AtomicU64,
    turns: Semaphore,
}

impl Follower {
    pub(in crate::serve) fn new() -> Self {
        Self {
            news: broadcast::Sender::new(CHUNKS),
            last: AtomicU64::new(0),
            turns: Semaphore::new(READERS),
        }
    }

    /// What comes from now on; what comes before is up to [`last`](Self::last), which is asked for after this.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
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
                    // With nobody there, nobody is told.
                    let _ = self.news.send(News::Broken(Arc::new(problem)));
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
        loop {
            let seen = self.last();
            let end = store.backend().wait_past(Position(seen)).await?.0;
            if self.news.receiver_count() == 0 || seen == 0 {
                // Who comes later reads what it wants; who has just come is told to.
                self.publish(end, News::More);
                continue;
            }
            let mut next = seen + 1;
            while next <= end {
                let chunk;
                (chunk, owners) = read(store.clone(), owners, next, end).await?;
                next = chunk.last + 1;
                self.publish(chunk.last, News::Chunk(Arc::new(chunk)));
            }
            tokio::time::sleep(rest(self.news.receiver_count())).await;
        }
    }

    /// In this order: who is told reads at least up to there.
    fn publish(&self, last: u64, news: News) {
        self.last.store(last, Ordering::SeqCst);
        let _ = self.news.send(news);
    }
}

/// How long to rest after so many clients were told.
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
        first,
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
        first,
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
