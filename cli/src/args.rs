//! [`Global`]: the options of every command; and [`whole`]: numbers of theirs.

use std::{env, ops::RangeInclusive, path::PathBuf};

/// The help heading of the options of every command.
const GLOBAL: &str = "Options of every command";

/// What every command takes.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Global {
    /// The folder of the store; made by `import`, `run`, `agents put` and `mcp --agents` when it isn't there [env:
    /// RUNLOG_STORE] [default: ./runlog-data]
    // The environment is the default here, not clap's `env`: what that gives is shown in usage lines as if it had to be
    // given.
    #[arg(long, global = true, help_heading = GLOBAL, default_value_os_t = default_store(), hide_default_value = true, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// How many seconds to wait for another process to let go of the store, where it is to be written
    #[arg(long, global = true, help_heading = GLOBAL, default_value_t = 0, value_name = "SECONDS")]
    pub(crate) lock_timeout: u64,
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = GLOBAL)]
    pub(crate) json: bool,
}

/// The store where `--store` isn't given.
fn default_store() -> PathBuf {
    env::var_os("RUNLOG_STORE")
        .filter(|folder| !folder.is_empty())
        .map_or_else(|| PathBuf::from("./runlog-data"), PathBuf::from)
}

/// Reads a whole number from `least` on.
pub(crate) fn at_least<T: TryFrom<u64>>(least: u64) -> impl Fn(&str) -> Result<T, String> + Clone {
    within(least..=u64::MAX, format!("at least {least}"))
}

/// Reads a whole number of a range. clap's own message writes it in Rust, and what has no upper end with the largest
/// number that the processor knows.
pub(crate) fn from_to<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    let expected = format!("from {} to {}", range.start(), range.end());
    within(range, expected)
}

fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    expected: String,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
        match text.parse() {
            Ok(number) if range.contains(&number) => {
                T::try_from(number).map_err(|_| format!("{text} is too large"))
            }
            Err(_) if digits => Err(format!("{text} is too large")),
            _ => Err(format!("it should be a whole number, {expected}")),
        }
    }
}
