//! Yielding the processor, unless somebody else keeps it.
//!
//! A thread that waits for something short yields, because parking and waking it take longer. That is so as long as the
//! other threads yield or block too. Beside threads that compute all the time, each yield gives away a time slice of the
//! scheduler, some milliseconds on Linux, while a thread that was parked and is woken is soon let in. So each yield is
//! timed, and where slow ones take most of the time, nobody yields for a while. A slow one now and then says nothing: a
//! virtual machine stops for some milliseconds, too.
#![allow(
    clippy::disallowed_methods,
    reason = "how long a yield takes is a fact of this machine, not the store's time: nothing that is stored depends on it"
)]

use std::{
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A yield is slow from this duration. Among threads that wait for a flush one takes microseconds, also among 64 of them
/// on two processors.
const SLOW: Duration = Duration::from_millis(1);

/// The time over which slow yields are looked at. They are the rule where more than half of it passed in one of them.
const WINDOW: Duration = Duration::from_millis(32);

/// For how long nobody yields then: finding out that the processors are still taken costs a fiftieth of the time.
const PAUSE: Duration = Duration::from_millis(1600);

/// One for all stores of the process: they share its processors.
static PROCESS: LazyLock<Yielding> = LazyLock::new(Yielding::new);

/// Yields the processor; `false` if a waiting thread had better park, because yields were slow a while ago: then it didn't
/// yield.
pub(crate) fn yield_briefly() -> bool {
    PROCESS.yield_briefly(thread::yield_now)
}

struct Yielding {
    origin: Instant,
    /// In nanoseconds after `origin`.
    paused_until: AtomicU64,
    slow: Mutex<SlowYields>,
}

/// The slow yields of a window, as durations after the origin.
#[derive(Default)]
struct SlowYields {
    window_start: Duration,
    /// How much of it passed in slow yields; those of several threads at once count as one.
    covered: Duration,
    covered_until: Duration,
}

impl SlowYields {
    /// Takes one in; `true` if they are the rule.
    fn add(&mut self, start: Duration, end: Duration) -> bool {
        if start.saturating_sub(self.covered_until) > WINDOW {
            (self.window_start, self.covered) = (start, Duration::ZERO);
        }
        self.covered += end.saturating_sub(start.max(self.covered_until));
        self.covered_until = self.covered_until.max(end);
        let window = end.saturating_sub(self.window_start);
        if window < WINDOW {
            return false;
        }
        let are_the_rule = self.covered * 2 > window;
        (self.window_start, self.covered) = (end, Duration::ZERO);
        are_the_rule
    }
}

impl Yielding {
    fn new() -> Self {
        Self {
            origin: Instant::now(),
            paused_until: AtomicU64::new(0),
            slow: Mutex::default(),
        }
    }

    fn yield_briefly(&self, yield_now: impl FnOnce()) -> bool {
        let start = self.origin.elapsed();
        if start < Duration::from_nanos(self.paused_until.load(Ordering::Relaxed)) {
            return false;
        }
        yield_now();
        let end = self.origin.elapsed();
        if end - start >= SLOW
            && self
                .slow
                .lock()
                .expect("no panic under this lock")
                .add(start, end)
        {
            let until = u64::try_from((end + PAUSE).as_nanos()).unwrap_or(u64::MAX);
            self.paused_until.store(until, Ordering::Relaxed);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn slow_yields_are_the_rule_where_they_take_most_of_the_time() {
        let mut yields = SlowYields::default();
        let one_after_the_other =
            (0..12).map(|number| yields.add(ms(number * 4), ms(number * 4 + 3)));
        assert_eq!(one_after_the_other.filter(|are| *are).count(), 1);
    }

    #[test]
    fn slow_yields_now_and_then_or_of_many_threads_at_once_are_not_the_rule() {
        let mut yields = SlowYields::default();
        for incident in 0..100 {
            for _ in 0..32 {
                let start = ms(incident * 15);
                assert!(!yields.add(start, start + ms(4)));
            }
        }
    }

    #[test]
    fn nobody_yields_until_the_pause_is_over() {
        let yielding = Yielding::new();
        let mut yielded = 0;
        while yielding.yield_briefly(|| thread::sleep(SLOW * 2)) {
            yielded += 1;
        }
        assert!(yielded > 1, "one slow yield says nothing");
        assert!(!yielding.yield_briefly(|| yielded = 0));
        assert!(yielded > 0, "it didn't yield");

        yielding.paused_until.store(0, Ordering::Relaxed);
        assert!(yielding.yield_briefly(|| yielded = 0));
        assert_eq!(yielded, 0, "it yields again");
    }
}
