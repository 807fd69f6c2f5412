//! [`RecordQueue`]: events of a flow that wait to be recorded. Those that wait while others are being written go together,
//! in one batch and one flush.

use std::{cell::RefCell, collections::VecDeque};

use runlog::{
    Durability, Error, ErrorKind,
    flows::{FlowRun, RuntimeEvent},
};
use tokio::sync::oneshot;

use crate::Result;

/// A batch takes no more events once it has so many bytes: it is in memory twice while it is written.
const BATCH_BYTES: usize = 4 << 20;

/// Events that wait, in the order of the calls.
#[derive(Default)]
pub(crate) struct RecordQueue {
    waiting: RefCell<VecDeque<Waiting>>,
    /// Goes up with each call that is no record: what is recorded after one doesn't go before it.
    turn: RefCell<u64>,
}

/// What one call records.
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
    /// Notes a call that is no record.
    pub(crate) fn end_turn(&self) {
        *self.turn.borrow_mut() += 1;
    }

    /// Has events wait; the answer comes once a call of [`record`](Self::record) has written them.
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

    /// Records what waits until the answer is there. Calls come in the order in which their events were added.
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
                let told = match &recorded {
                    Ok(sequences) => Ok(sequences.get(place).copied().unwrap_or_default()),
                    Err(error) => Err(error.clone().into()),
                };
                // Who gave up isn't told.
                let _ = waiting.done.send(told);
            }
        }
    }

    /// What goes together next.
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
