//! [`RecordQueue`]: events of a flow that wait to be recorded. Those that arrive while others are being written are
//! written together, in one batch and one flush.

use std::{cell::RefCell, collections::VecDeque};

use runlog::{
    Durability, Error, ErrorKind,
    flows::{FlowRun, RuntimeEvent},
};
use tokio::sync::oneshot;

use crate::Result;

/// A batch takes no more events once it has this many bytes, because it is in memory twice while it is written.
const BATCH_BYTES: usize = 4 << 20;

/// The waiting events, in the order of the calls.
#[derive(Default)]
pub(crate) struct RecordQueue {
    waiting: RefCell<VecDeque<Waiting>>,
    /// Incremented by each other call, so that later events aren't recorded before it.
    turn: RefCell<u64>,
}

/// The events of one call.
struct Waiting {
    events: Vec<RuntimeEvent>,
    durability: Option<Durability>,
    turn: u64,
    done: oneshot::Sender<Result<u64>>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.events
            .iter()
            .map(|event| event.json.as_bytes().len())
            .sum()
    }
}

impl RecordQueue {
    /// Marks a call that doesn't record events.
    pub(crate) fn end_turn(&self) {
        *self.turn.borrow_mut() += 1;
    }

    /// Adds events to the queue; the answer is ready once a call of [`record`](Self::record) has written them.
    pub(crate) fn add(
        &self,
        events: Vec<RuntimeEvent>,
        durability: Option<Durability>,
    ) -> oneshot::Receiver<Result<u64>> {
        let (done, answer) = oneshot::channel();
        let turn = *self.turn.borrow();
        self.waiting.borrow_mut().push_back(Waiting {
            events,
            durability,
            turn,
            done,
        });
        answer
    }

    /// Records waiting events until the answer is ready. Called in the order in which the events were added.
    pub(crate) async fn record(
        &self,
        flow: &mut FlowRun,
        mut answer: oneshot::Receiver<Result<u64>>,
    ) -> Result<u64> {
        loop {
            if let Ok(done) = answer.try_recv() {
                return done;
            }
            let together = self.take();
            let Some(first) = together.first() else {
                return Err(Error::new(
                    ErrorKind::Closed,
                    "the events were given up before they were recorded",
                )
                .into());
            };
            let groups: Vec<&[RuntimeEvent]> =
                together.iter().map(|waiting| &waiting.events[..]).collect();
            let recorded = flow.record_groups(&groups, first.durability).await;
            for (place, waiting) in together.into_iter().enumerate() {
                let outcome = match &recorded {
                    Ok(sequences) => Ok(sequences.get(place).copied().unwrap_or_default()),
                    Err(error) => Err(error.clone().into()),
                };
                // An error means that the caller no longer waits.
                let _ = waiting.done.send(outcome);
            }
        }
    }

    /// The events of the next batch.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting.borrow_mut();
        let (mut together, mut bytes): (Vec<Waiting>, usize) = (Vec::new(), 0);
        while let Some(next) = waiting.front() {
            let fits = together.first().is_none_or(|first| {
                (first.turn, first.durability) == (next.turn, next.durability)
                    && bytes + next.bytes() <= BATCH_BYTES
            });
            if !fits {
                break;
            }
            bytes += next.bytes();
            together.extend(waiting.pop_front());
        }
        together
    }
}
