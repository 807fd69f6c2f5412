//! Optimistic writes: decide from what was read, write it if nothing changed since, and decide again after a conflict.
//!
//! A decision is written with the last sequence that it was made on. Of several writers of a stream one wins, and each
//! of the others reads again and tries again. Without further order, all of them would retry at once, and one that
//! reads more slowly than the others could lose for ever. So a writer that has lost once takes a turn at the stream,
//! and later writers wait for that. As long as no writer has lost there are no turns, and no writer waits.

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::{Context, Poll, Waker},
};

use runlog_log::{Backend, Error, ErrorKind, Position, Result, StreamId};

/// How often a decision is made before its conflict is returned to the caller. Each loss means that another writer has
/// won, and costs no flush; so this bounds only the number of concurrent writers.
const ATTEMPTS_MAX: u32 = 1_000;

/// This many of the latest waiters watch whether the log grows: if all did, each write would wake them all twice.
const WATCHING_MAX: u64 = 16;

/// The queues of writers, by stream; all handles of a store share them.
#[derive(Default)]
pub(crate) struct Queues {
    streams: Mutex<HashMap<StreamId, Weak<Queue>>>,
}

/// The turns at a stream.
///
/// A turn ends with its holder's write. Waiting writers may also take it over once the log has grown since it began:
/// the holder may be a future that is no longer polled, which must not block the others. Taking over a turn costs at
/// most a conflict. For the same reason a turn is never handed to a particular waiter: all are woken, and the first
/// that is polled takes it.
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
    waiting: Vec<Waker>,
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
            std::mem::take(&mut turn.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
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
        let arrival = self.queue.turn().arrive();
        let id = poll_fn(|context| {
            let holder = {
                let mut turn = self.queue.turn();
                let Some(holder) = turn.holder else {
                    return Poll::Ready(turn.take(self.end_of_log()));
                };
                turn.waiting.push(context.waker().clone());
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
