//! [`Watch`]: work that takes long, which tells how far it is and ends early when nobody waits for it any more.
//!
//! A call that is to be watched is given a number of JavaScript's; another call with that number waits for what is told
//! next. Only the latest is kept, so that work is never held up by a thread that is busy.

use std::{
    cell::RefCell,
    collections::HashMap,
    future::Future,
    ops::ControlFlow,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::watch::{self, Receiver, Sender};

use crate::{Failure, Result};

/// What is told of work under way, by the numbers that JavaScript gave it.
pub(crate) struct Watch<P>(Rc<RefCell<HashMap<u64, Receiver<P>>>>);

impl<P> Default for Watch<P> {
    fn default() -> Self {
        Self(Rc::default())
    }
}

impl<P: Copy + Default + 'static> Watch<P> {
    /// The two ends of work that begins: where it tells, and what stops it when that is dropped before it has ended.
    pub(crate) fn begin(&self, number: Option<u64>) -> (Teller<P>, StopOnDrop) {
        let stop = StopOnDrop::default();
        let to = number.map(|number| {
            let (to, from) = watch::channel(P::default());
            self.0.borrow_mut().insert(number, from);
            to
        });
        let is_stopped = Arc::clone(&stop.0);
        (Teller { to, is_stopped }, stop)
    }

    /// What is told next of the work with a number; `None` once it has ended and nothing is left to be told.
    pub(crate) fn next(&self, number: u64) -> impl Future<Output = Result<Option<P>>> + use<P> {
        let receivers = Rc::clone(&self.0);
        let taken = receivers.borrow_mut().remove(&number);
        async move {
            let mut from =
                taken.ok_or_else(|| Failure::invalid("no work is watched by that number"))?;
            if from.changed().await.is_err() {
                return Ok(None);
            }
            let told = *from.borrow_and_update();
            receivers.borrow_mut().insert(number, from);
            Ok(Some(told))
        }
    }
}

/// Where work tells how far it is.
pub(crate) struct Teller<P> {
    to: Option<Sender<P>>,
    is_stopped: Arc<AtomicBool>,
}

impl<P> Teller<P> {
    /// Tells it, and says whether the work goes on.
    pub(crate) fn tell(&self, progress: P) -> ControlFlow<()> {
        if let Some(to) = &self.to {
            to.send_replace(progress);
        }
        if self.is_stopped.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Stops work when it is dropped: a call that is given up drops what it waits for.
#[derive(Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_is_told_and_then_the_end() {
        let watch = Watch::<u32>::default();
        let (teller, _stop) = watch.begin(Some(1));
        assert!(teller.tell(1).is_continue() && teller.tell(2).is_continue());
        let next = || pollster::block_on(watch.next(1));
        assert_eq!(next(), Ok(Some(2)));
        drop(teller);
        assert_eq!(next(), Ok(None));
        assert!(next().is_err());
    }

    #[test]
    fn work_of_a_call_that_was_given_up_is_stopped() {
        let (teller, stop) = Watch::<u32>::default().begin(None);
        assert!(teller.tell(1).is_continue());
        drop(stop);
        assert!(teller.tell(2).is_break());
    }
}
