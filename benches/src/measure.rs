//! Rates, medians and paired rounds.

use std::{
    io,
    time::{Duration, Instant},
};

/// Repeats `step` for about `budget` and says how many units a second it did; `step` returns how many it did at once.
///
/// # Errors
///
/// The first error of `step`.
pub fn rate<E>(budget: Duration, mut step: impl FnMut() -> Result<u64, E>) -> Result<f64, E> {
    let start = Instant::now();
    let mut units = 0;
    loop {
        units += step()?;
        let elapsed = start.elapsed();
        if elapsed >= budget {
            return Ok(per_second(units, elapsed));
        }
    }
}

/// Units a second.
#[must_use]
pub fn per_second(units: u64, elapsed: Duration) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "a rate needs no more than 53 bits"
    )]
    let units = units as f64;
    units / elapsed.as_secs_f64().max(1e-9)
}

/// Seconds that one run of `step` takes.
///
/// # Errors
///
/// The error of `step`.
pub fn seconds<T, E>(step: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let start = Instant::now();
    let result = step()?;
    let elapsed = start.elapsed().as_secs_f64();
    drop(std::hint::black_box(result));
    Ok(elapsed)
}

/// The middle of some numbers; NaN when there are none.
#[must_use]
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (below, above) = (
        sorted.get(sorted.len().saturating_sub(1) / 2),
        sorted.get(sorted.len() / 2),
    );
    match (below, above) {
        (Some(below), Some(above)) => (below + above) / 2.0,
        _ => f64::NAN,
    }
}

/// Two things measured in turns, round by round.
#[derive(Clone, Debug, Default)]
pub struct Paired {
    /// The floor's figure of each round.
    pub floor: Vec<f64>,
    /// The store's figure of each round.
    pub store: Vec<f64>,
}

impl Paired {
    /// Adds a round. Which of the two goes first changes with each, so that neither always finds the disk as the
    /// other left it.
    ///
    /// # Errors
    ///
    /// The first error of either.
    pub fn round(
        &mut self,
        floor: impl FnOnce() -> io::Result<f64>,
        store: impl FnOnce() -> io::Result<f64>,
    ) -> io::Result<()> {
        let (floor, store) = if self.floor.len().is_multiple_of(2) {
            let floor = floor()?;
            (floor, store()?)
        } else {
            let store = store()?;
            (floor()?, store)
        };
        self.floor.push(floor);
        self.store.push(store);
        Ok(())
    }

    /// The median of the rounds' own ratios, store by floor: a disk that slows down slows both of a round.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let ratios: Vec<f64> = self
            .store
            .iter()
            .zip(&self.floor)
            .map(|(store, floor)| store / floor)
            .collect();
        median(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratio_pairs_the_figures_of_a_round() {
        let mut paired = Paired::default();
        for (floor, store) in [(100.0, 90.0), (10.0, 9.0), (1000.0, 100.0)] {
            paired
                .round(|| Ok(floor), || Ok(store))
                .expect("neither fails");
        }
        assert_eq!(paired.ratio(), 0.9);
    }

    #[test]
    fn rate_counts_units_not_steps() {
        let rate = rate(Duration::from_millis(5), || {
            std::thread::sleep(Duration::from_millis(5));
            Ok::<_, io::Error>(1000)
        });
        let rate = rate.expect("it does not fail");
        assert!(rate > 1.0 && rate <= 200_000.0, "{rate}");
    }
}
