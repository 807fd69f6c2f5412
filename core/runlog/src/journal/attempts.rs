//! Optimistic writes: decide from what was read, write it if nothing changed since, and decide again after a conflict.
//!
//! A decision is written with the last sequence that it was made on. Of several writers of a stream one wins, and each
//! of the others reads again and tries again. Without further order, all of them would retry at once, and one that
//! reads more slowly than the others could lose for ever. So a writer that has lost once takes a turn at the stream,
//! and later writers wait for that. As long as no writer has lost there are no turns, and no writer waits.

use std::{
    collections::{BTreeMap, HashMap},
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use runlog_log::{Backend, Error, ErrorKind, Position, Result, StreamId};

/// How often a decision is made before its conflict is returned to the caller. Each loss means that another writer has
/// won, and costs no flush; so this bounds only the number of concurrent writers.
const ATTEMPTS_MAX: u32 = 1_000;

/// This many of the latest waiters watch whether the log grows: if all did, each write would wake them all.
const WATCHING_MAX: u64 = 16;

/// This many of those that wait longest are woken at the end of a turn: if all were, the writes of n writers would take n²
/// wakes.
const WOKEN_MAX: usize = 16;

/// The queues of writers, by stream; all handles of a store share them.
#[derive(Default)]
pub(crate) struct Queues {
    streams: Mutex<HashMap<StreamId, Weak<Queue>>>,
}

/// The turns at a stream.
///
/// A turn ends with its holder's write. Waiting writers may also take it over once the log has grown since it began:
/// the holder may be a future that is no longer polled, which must not block the others. Taking over a turn costs at
/// most a conflict. For the same reason a turn is never handed to a particular waiter: several are woken, and the first
/// that is polled takes it. Those that don't come are passed over at the next end.
#[derive(Default)]
struct Queue {
    turn: Mutex<Turn>,
}

#[derive(Default)]
struct Turn {
    holder: Option<Holder>,
    last_id: u64,
    /// How many have waited so far.
    arrivals: u64,
    /// By arrival: those that wait and weren't woken since they were polled.
    waiting: BTreeMap<u64, Waker>,
}

/// One that waits for its turn. Dropped at the end of the wait, whether it has its turn or the caller gave up.
struct Waiting {
    queue: Arc<Queue>,
    arrival: u64,
}

#[derive(Clone, Copy)]
struct Holder {
    id: u64,
    /// The end of the log when the turn began.
    since: Position,
}

/// Counts the failed attempts of a writer that doesn't queue.
#[derive(Default)]
pub(crate) struct Retries {
    failed: u32,
}

impl Retries {
    /// Counts a failed attempt; on `Ok` the caller decides again.
    ///
    /// # Errors
    /// The error of the attempt, when it isn't a conflict or there were too many.
    pub(crate) fn again(&mut self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Conflict || self.failed + 1 == ATTEMPTS_MAX {
            return Err(error);
        }
        self.failed += 1;
        Ok(())
    }
}

/// One writer's attempts to write a decision to a stream.
pub(crate) struct Attempts<'a> {
    backend: &'a dyn Backend,
    queue: Arc<Queue>,
    retries: Retries,
    /// Its turn, from the first conflict until the decision is written or given up.
    turn: Option<u64>,
}

impl Queues {
    /// Ready when the first attempt may be made: at once, unless other writers have lost.
    pub(crate) async fn attempts<'a>(
        &self,
        backend: &'a dyn Backend,
        stream: StreamId,
    ) -> Attempts<'a> {
        let queue = self.of(stream);
        let is_free = queue.turn().holder.is_none();
        let mut attempts = Attempts {
            backend,
            queue,
            retries: Retries::default(),
            turn: None,
        };
        if !is_free {
            attempts.wait().await;
        }
        attempts
    }

    fn of(&self, stream: StreamId) -> Arc<Queue> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = streams.get(&stream).and_then(Weak::upgrade) {
            return queue;
        }
        // Unused queues are removed before the map would grow.
        if streams.len() == streams.capacity() {
            streams.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::default();
        streams.insert(stream, Arc::downgrade(&queue));
        queue
    }
}

impl Queue {
    /// The lock is never held across a wait.
    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, id: u64) {
        let waiting = {
            let mut turn = self.turn();
            if turn.holder.is_none_or(|holder| holder.id != id) {
                return;
            }
            turn.holder = None;
            turn.next_waiting()
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    fn new(queue: Arc<Queue>) -> Self {
        let arrival = queue.turn().arrive();
        Self { queue, arrival }
    }
}

impl Drop for Waiting {
    /// One that was woken and never came, as its caller gave up, wakes others in its place.
    fn drop(&mut self) {
        let others = {
            let mut turn = self.queue.turn();
            let wasnt_woken = turn.waiting.remove(&self.arrival).is_some();
            if wasnt_woken || turn.holder.is_some() {
                return;
            }
            turn.next_waiting()
        };
        others.into_iter().for_each(Waker::wake);
    }
}

impl Attempts<'_> {
    /// Ready when the caller may decide again, after a failed attempt.
    ///
    /// # Errors
    /// The error of the attempt, when it isn't a conflict or there were too many.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        self.retries.again(error)?;
        let is_held = self.turn.is_some_and(|id| {
            self.queue
                .turn()
                .holder
                .is_some_and(|holder| holder.id == id)
        });
        if !is_held {
            self.wait().await;
        }
        Ok(())
    }

    /// Ends the turn early: the decision is valid whatever other writers write.
    pub(crate) fn release(&mut self) {
        if let Some(id) = self.turn.take() {
            self.queue.end(id);
        }
    }

    /// Waits for its turn.
    async fn wait(&mut self) {
        let waiting = Waiting::new(self.queue.clone());
        let arrival = waiting.arrival;
        let id = poll_fn(|context| {
            let holder = {
                let mut turn = self.queue.turn();
                let Some(holder) = turn.holder else {
                    return Poll::Ready(turn.take(self.end_of_log()));
                };
                turn.waiting.insert(arrival, context.waker().clone());
                if arrival + WATCHING_MAX < turn.arrivals {
                    return Poll::Pending;
                }
                holder
            };
            // An error (the store was closed) is reported by the next attempt.
            if self.backend.poll_past(holder.since, context).is_pending() {
                return Poll::Pending;
            }
            let mut turn = self.queue.turn();
            if turn.holder.is_some_and(|other| other.id != holder.id) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(turn.take(self.end_of_log()))
        })
        .await;
        self.turn = Some(id);
    }

    /// The last durable position; 0 if there is none.
    fn end_of_log(&self) -> Position {
        match self
            .backend
            .poll_past(Position::ZERO, &mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(position)) => position,
            _ => Position::ZERO,
        }
    }
}

impl Turn {
    fn arrive(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    /// Takes out those that are to be woken now.
    fn next_waiting(&mut self) -> Vec<Waker> {
        let next = std::iter::from_fn(|| self.waiting.pop_first());
        next.map(|(_, waker)| waker).take(WOKEN_MAX).collect()
    }

    fn take(&mut self, since: Position) -> u64 {
        self.last_id += 1;
        self.holder = Some(Holder {
            id: self.last_id,
            since,
        });
        self.last_id
    }
}

impl Drop for Attempts<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::atomic::{AtomicU32, Ordering},
        task::Wake,
    };

    use pollster::block_on;
    use runlog_engine::{Embedded, SystemHost, Wait};
    use runlog_log::{Batch, Expected, NewRecord, Op};

    use super::*;

    const STREAM: StreamId = StreamId::from_bytes([7; 16]);

    fn conflict() -> Error {
        Error::new(ErrorKind::Conflict, "another was faster")
    }

    fn backend() -> Embedded {
        Embedded::in_memory(Arc::new(SystemHost), Wait::Await)
    }

    fn append(backend: &Embedded) {
        let op = Op::Append {
            stream: STREAM,
            expected: Expected::Any,
            records: vec![NewRecord::data(b"x")],
        };
        block_on(backend.commit(Batch::new(vec![op]))).unwrap();
    }

    #[test]
    fn who_has_lost_is_waited_for() {
        let (queues, backend) = (Queues::default(), backend());
        append(&backend);
        let mut first = block_on(queues.attempts(&backend, STREAM));
        let mut second = block_on(queues.attempts(&backend, STREAM));
        block_on(first.again(conflict())).unwrap();
        let mut lost = Box::pin(second.again(conflict()));
        let mut third = Box::pin(queues.attempts(&backend, STREAM));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(
            lost.as_mut().poll(context).is_pending() && third.as_mut().poll(context).is_pending()
        );
        drop(first);
        assert!(lost.as_mut().poll(context).is_ready());
        assert!(third.as_mut().poll(context).is_pending());
        drop(lost);
        drop(second);
        assert!(third.as_mut().poll(context).is_ready());
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakes {
        fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
            future.poll(&mut Context::from_waker(&Waker::from(self.clone())))
        }
    }

    #[test]
    fn many_that_wait_are_woken_a_few_at_a_time_and_all_have_their_turn() {
        const MANY: usize = 1000;
        let (queues, backend) = (Queues::default(), backend());
        append(&backend);
        let mut first = block_on(queues.attempts(&backend, STREAM));
        block_on(first.again(conflict())).unwrap();
        let mut waiting: Vec<_> = (0..MANY)
            .map(|_| {
                let mut one = Box::pin(queues.attempts(&backend, STREAM));
                let wakes = Arc::new(Wakes::default());
                assert!(wakes.poll(one.as_mut()).is_pending());
                (one, wakes)
            })
            .collect();
        drop(first);
        let (mut had_turn, mut woken, mut kept) = (0, 0, Vec::new());
        loop {
            let (coming, others): (Vec<_>, Vec<_>) = waiting
                .into_iter()
                .partition(|(_, wakes)| wakes.0.swap(0, Ordering::Relaxed) > 0);
            waiting = others;
            if coming.is_empty() {
                break;
            }
            // Writes while the others come.
            let mut holder = None;
            for (mut one, wakes) in coming {
                woken += 1;
                match woken % 50 {
                    // It gives up, as do all that are woken first.
                    3 => {}
                    _ if woken < 3 * WOKEN_MAX => {}
                    // It isn't polled any more.
                    5 => kept.push(one),
                    _ => match wakes.poll(one.as_mut()) {
                        Poll::Ready(attempts) => holder = Some(attempts),
                        Poll::Pending => waiting.push((one, wakes)),
                    },
                }
            }
            had_turn += usize::from(holder.is_some());
        }
        assert_eq!(
            waiting.len(),
            0,
            "{had_turn} had their turn, these wait for ever"
        );
        assert!(had_turn > MANY / 2);
        assert!(woken <= MANY * WOKEN_MAX, "{woken} wakes");
        // Those that weren't polled stop nobody.
        drop(block_on(queues.attempts(&backend, STREAM)));
    }

    #[test]
    fn futures_that_are_kept_and_not_polled_stop_nobody() {
        let (queues, backend) = (Queues::default(), backend());
        append(&backend);
        let mut kept: Vec<_> = (0..3)
            .map(|_| block_on(queues.attempts(&backend, STREAM)))
            .collect();
        let mut waiting: Vec<_> = kept
            .iter_mut()
            .map(|attempts| Box::pin(attempts.again(conflict())))
            .collect();
        let context = &mut Context::from_waker(Waker::noop());
        let ready = waiting
            .iter_mut()
            .filter_map(|one| one.as_mut().poll(context).is_ready().then_some(()))
            .count();
        assert_eq!(ready, 1, "one has its turn, and two wait");
        // The writer that has the turn has written, and isn't polled any more.
        append(&backend);
        drop(block_on(queues.attempts(&backend, STREAM)));
        drop(block_on(queues.attempts(&backend, STREAM)));
    }

    #[test]
    fn attempts_end_and_other_errors_are_given_at_once() {
        let (queues, backend) = (Queues::default(), backend());
        let mut attempts = block_on(queues.attempts(&backend, STREAM));
        assert!(block_on(attempts.again(Error::invalid("no"))).is_err());
        let again =
            (1..2 * ATTEMPTS_MAX).take_while(|_| block_on(attempts.again(conflict())).is_ok());
        assert_eq!(again.count(), ATTEMPTS_MAX as usize - 1);
    }

    #[test]
    fn streams_that_nobody_writes_to_are_forgotten() {
        let (queues, backend) = (Queues::default(), backend());
        for number in 0..10_000_u128 {
            block_on(queues.attempts(&backend, StreamId(uuid::Uuid::from_u128(number))));
        }
        assert!(queues.streams.lock().unwrap().len() < 100);
    }
}
