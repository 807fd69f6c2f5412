//! The description of a writer, shown to others that fail to get the lock.

use runlog_log::calendar::{DAY_MS, date_from_days, time_of_day};

use crate::store::options::OpenOptions;

/// The process, its program, and the time it locked the store.
#[cfg(not(target_family = "wasm"))]
#[allow(
    clippy::disallowed_methods,
    reason = "names this process, and decides nothing"
)]
pub(super) fn holder(options: &OpenOptions) -> String {
    let program = std::env::current_exe().ok();
    let program = program
        .as_deref()
        .and_then(std::path::Path::file_name)
        .map(|name| name.to_string_lossy());
    let (process, since) = (std::process::id(), utc(options.host.now_ms()));
    // The system frees the lock when the process ends, so the file is never stale.
    format!(
        "process {process} ({}), since {since}",
        program.as_deref().unwrap_or("unknown program")
    )
}

/// As above, where there are no processes.
#[cfg(target_family = "wasm")]
pub(super) fn holder(options: &OpenOptions) -> String {
    format!("another handle, since {}", utc(options.host.now_ms()))
}

/// A time as people write it, in UTC: `2026-01-03 09:00:00 UTC`.
fn utc(ms: u64) -> String {
    let ((year, month, day), (hour, minute, second)) =
        (date_from_days(ms / DAY_MS), time_of_day(ms));
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn a_time_is_told_as_people_write_it() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_000, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_767_430_800_500, "2026-01-03 09:00:00 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }
}
