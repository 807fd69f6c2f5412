//! The pace of a replay.

use std::time::Duration;

use crate::failure::{Failure, Result};

#[derive(clap::Args)]
pub(crate) struct PaceArgs {
    /// At so many times the recorded pace, like 1 or 10 or 0.5; everything at once unless given
    #[arg(long, value_name = "X")]
    speed: Option<f64>,
    /// Wait at most so many seconds between two events
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "speed",
        default_value_t = 60.0
    )]
    wait_max: f64,
}

/// How long to wait between events.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) speed: f64,
    pub(crate) wait_max: Duration,
}

impl PaceArgs {
    /// The requested pace; `None` for everything at once.
    pub(crate) fn pace(&self) -> Result<Option<Pace>> {
        let Some(speed) = self.speed else {
            return Ok(None);
        };
        if !speed.is_finite() || speed <= 0.0 {
            return Err(Failure::usage(format!(
                "--speed {speed} is not a number above 0; leave it out to have everything at once"
            )));
        }
        let wait_max = Duration::try_from_secs_f64(self.wait_max)
            .map_err(|error| Failure::usage(format!("--wait-max {}: {error}", self.wait_max)))?;
        Ok(Some(Pace { speed, wait_max }))
    }
}
