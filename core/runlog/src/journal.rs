//! Writing what was decided from what was read, and deciding anew when another writer came in between.
//!
//! A decision is written with the last sequence that it was made on. Of several writers of a stream one wins, and each of the
//! others reads again and tries again. Left to chance, one that reads more slowly than the others could lose for ever; so whoever
//! has lost once waits in a queue of the stream, first come, first served, and who comes later waits behind. As long as
//! nobody has lost there is no queue, and nobody waits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use runlog_log::{Error, ErrorKind, Result, StreamId};
use tokio::sync::{Mutex as Queue, OwnedMutexGuard};

/// How often a decision is made before its conflict is given to the caller. Whoever loses does so to one who won, and at no cost of
/// a flush, so this bounds the writers of other handles and processes at one time.
pub(crate) const ATTEMPTS_MAX: u32 = 1_000;

/// The queues of the streams that are written to, which all handles of a store have together.
#[derive(Default)]
pub(crate) struct Queues {
    streams: Mutex<HashMap<StreamId, Weak<Queue<()>>>>,
}

/// One writer's attempts to write a decision to a stream.
pub(crate) struct Attempts {
    queue: Arc<Queue<()>>,
    made: u32,
    /// Held from the first conflict on, until the decision is written or given up.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Queues {
    /// The first attempt may be made when this is ready: at once, unless others have lost and wait.
    pub(crate) async fn attempts(&self, stream: StreamId) -> Attempts {
        let queue = self.of(stream);
        let is_free = queue.try_lock().is_ok();
        let turn = if is_free { None } else { Some(Arc::clone(&queue).lock_owned().await) };
        Attempts { queue, made: 1, turn }
    }

    fn of(&self, stream: StreamId) -> Arc<Queue<()>> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = streams.get(&stream).and_then(Weak::upgrade) {
            return queue;
        }
        // Those of streams that nobody writes to go before the map would grow.
        if streams.len() == streams.capacity() {
            streams.retain(|_, queue| queue.strong_count() > 0);
        }
        let queue = Arc::default();
        streams.insert(stream, Arc::downgrade(&queue));
        queue
    }
}

impl Attempts {
    /// Lets those who wait go on: what was decided holds whatever they write.
    pub(crate) fn release(&mut self) {
        self.turn = None;
    }

    /// Ready when the decision may be made anew, after an attempt failed.
    ///
    /// # Errors
    /// The error of the attempt, when it isn't a conflict or there were too many.
    pub(crate) async fn again(&mut self, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::Conflict || self.made == ATTEMPTS_MAX {
            return Err(error);
        }
        self.made += 1;
        if self.turn.is_none() {
            self.turn = Some(Arc::clone(&self.queue).lock_owned().await);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pollster::block_on;

    use super::*;

    const STREAM: StreamId = StreamId::from_bytes([7; 16]);

    fn conflict() -> Error {
        Error::new(ErrorKind::Conflict, "another was faster")
    }

    #[test]
    fn who_has_lost_goes_before_those_who_come_later() {
        let queues = Queues::default();
        let mut first = block_on(queues.attempts(STREAM));
        let mut second = block_on(queues.attempts(STREAM));
        block_on(first.again(conflict())).unwrap();
        // The second loses too, and a third comes: both wait, in this order, until the first has written.
        let mut lost = Box::pin(second.again(conflict()));
        let mut third = Box::pin(queues.attempts(STREAM));
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(lost.as_mut().poll(context).is_pending() && third.as_mut().poll(context).is_pending());
        drop(first);
        assert!(third.as_mut().poll(context).is_pending());
        assert!(lost.as_mut().poll(context).is_ready());
        drop(lost);
        drop(second);
        assert!(third.as_mut().poll(context).is_ready());
    }

    #[test]
    fn attempts_end_and_other_errors_are_given_at_once() {
        let queues = Queues::default();
        let mut attempts = block_on(queues.attempts(STREAM));
        assert!(block_on(attempts.again(Error::invalid("no"))).is_err());
        let again = (1..2 * ATTEMPTS_MAX).take_while(|_| block_on(attempts.again(conflict())).is_ok());
        assert_eq!(again.count(), ATTEMPTS_MAX as usize - 1);
    }

    #[test]
    fn streams_that_nobody_writes_to_are_forgotten() {
        let queues = Queues::default();
        for number in 0..10_000_u128 {
            block_on(queues.attempts(StreamId(uuid::Uuid::from_u128(number))));
        }
        assert!(queues.streams.lock().unwrap().len() < 100);
    }
}
