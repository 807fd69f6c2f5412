//! How long a harness runs: for a fixed short while in the test command, or for as many seconds as `RUNLOG_TORTURE`
//! says; and what it then has to show for it.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What one harness may spend, and its figures, which it prints when it is done.
pub struct Budget {
    name: String,
    torture: Option<Duration>,
    since: Instant,
    figures: RefCell<BTreeMap<String, u64>>,
}

/// Whether the harnesses are to run for long.
pub fn is_torture() -> bool {
    seconds().is_some()
}

fn seconds() -> Option<u64> {
    std::env::var("RUNLOG_TORTURE").ok()?.parse().ok()
}

/// The budget of a harness that starts now.
pub fn of(name: &str) -> Budget {
    let torture = seconds().map(Duration::from_secs);
    Budget {
        name: name.to_owned(),
        torture,
        since: Instant::now(),
        figures: RefCell::default(),
    }
}

impl Budget {
    /// A seed: always the same in the test command, another each time when tortured.
    pub fn seed(&self) -> u64 {
        match self.torture {
            None => 20_260_101,
            Some(_) => {
                let since = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                u64::try_from(since.as_nanos() & u128::from(u64::MAX)).unwrap_or(0)
            }
        }
    }

    /// Whether time is left for another round; never in the test command.
    pub fn goes_on(&self) -> bool {
        self.torture
            .is_some_and(|torture| self.since.elapsed() < torture)
    }

    /// Whether the time of a torture is over, for a sweep that would go on for hours; never in the test command, where a sweep
    /// is whole.
    pub fn is_used_up(&self) -> bool {
        self.torture.is_some() && !self.goes_on()
    }

    /// Adds to a figure.
    pub fn add(&self, figure: &str, count: u64) {
        *self
            .figures
            .borrow_mut()
            .entry(figure.to_owned())
            .or_default() += count;
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        let figures = self.figures.borrow();
        let figures: Vec<_> = figures
            .iter()
            .map(|(figure, count)| format!("{count} {figure}"))
            .collect();
        println!("{}: {}", self.name, figures.join(", "));
    }
}
