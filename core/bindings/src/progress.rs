//! [`Watch`]: long work that reports its progress, and stops early when its caller is dropped or its store is closed.
//!
//! JavaScript gives the watched call a number; another call with that number waits for the next progress report. Only
//! the latest report is stored, so that work never waits for a busy JavaScript thread.

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

/// Running work, and the progress of it by the numbers that JavaScript gave it.
pub(crate) struct Watch<P> {
    receivers: Rc<RefCell<HashMap<u64, Receiver<P>>>>,
    is_closing: Arc<AtomicBool>,
    /// Each reporter has a receiver of it, until its work has ended.
    ends: Sender<()>,
}

impl<P> Default for Watch<P> {
    fn default() -> Self {
        Self {
            receivers: Rc::default(),
            is_closing: Arc::default(),
            ends: Sender::new(()),
        }
    }
}

impl<P: Copy + Default + 'static> Watch<P> {
    /// The two parts for new work: one for reporting progress, and one that stops the work when it is dropped.
    pub(crate) fn begin(&self, number: Option<u64>) -> (Reporter<P>, StopOnDrop) {
        let stop = StopOnDrop::default();
        let to = number.map(|number| {
            let (to, from) = watch::channel(P::default());
            self.receivers.borrow_mut().insert(number, from);
            to
        });
        let reporter = Reporter {
            to,
            is_stopped: Arc::clone(&stop.0),
            is_closing: Arc::clone(&self.is_closing),
            _running: self.ends.subscribe(),
        };
        (reporter, stop)
    }

    /// Stops all running work early. The future it returns is ready once all of it has ended, so that what it did is reported to
    /// its callers before the store below it is closed.
    pub(crate) fn stop_all(&self) -> impl Future<Output = ()> + use<P> {
        self.is_closing.store(true, Ordering::Relaxed);
        let ends = self.ends.clone();
        async move { ends.closed().await }
    }

    /// The next progress report of the work with a number; `None` once it has ended and everything was reported.
    pub(crate) fn next(&self, number: u64) -> impl Future<Output = Result<Option<P>>> + use<P> {
        let receivers = Rc::clone(&self.receivers);
        let taken = receivers.borrow_mut().remove(&number);
        async move {
            let mut from =
                taken.ok_or_else(|| Failure::invalid("no work is watched by that number"))?;
            if from.changed().await.is_err() {
                return Ok(None);
            }
            let progress = *from.borrow_and_update();
            receivers.borrow_mut().insert(number, from);
            Ok(Some(progress))
        }
    }
}

/// Reports the progress of work; it is dropped when the work has ended.
pub(crate) struct Reporter<P> {
    to: Option<Sender<P>>,
    is_stopped: Arc<AtomicBool>,
    is_closing: Arc<AtomicBool>,
    _running: Receiver<()>,
}

impl<P> Reporter<P> {
    /// Reports the progress, and returns whether to continue.
    pub(crate) fn report(&self, progress: P) -> ControlFlow<()> {
        if let Some(to) = &self.to {
            to.send_replace(progress);
        }
        if self.is_stopped.load(Ordering::Relaxed) || self.is_closing.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Stops work when it is dropped: a cancelled call drops its future.
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
        let (reporter, _stop) = watch.begin(Some(1));
        assert!(reporter.report(1).is_continue() && reporter.report(2).is_continue());
        let next = || pollster::block_on(watch.next(1));
        assert_eq!(next(), Ok(Some(2)));
        drop(reporter);
        assert_eq!(next(), Ok(None));
        assert!(next().is_err());
    }

    #[test]
    fn work_of_a_call_that_was_given_up_is_stopped() {
        let (reporter, stop) = Watch::<u32>::default().begin(None);
        assert!(reporter.report(1).is_continue());
        drop(stop);
        assert!(reporter.report(2).is_break());
    }

    #[test]
    fn all_work_is_stopped_and_waited_for() {
        let watch = Watch::<u32>::default();
        pollster::block_on(Watch::<u32>::default().stop_all());
        let works = [watch.begin(None), watch.begin(Some(1))];
        let mut all = Box::pin(watch.stop_all());
        let mut is_ready = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            all.as_mut().poll(&mut context).is_ready()
        };
        for (reporter, stop) in works {
            assert!(reporter.report(1).is_break());
            assert!(!is_ready());
            drop((reporter, stop));
        }
        assert!(is_ready());
    }
}
