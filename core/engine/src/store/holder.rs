//! How a writer is named to those it keeps out.

use super::OpenOptions;

/// The process, its program, and since when it has the store.
#[cfg(not(target_family = "wasm"))]
#[allow(clippy::disallowed_methods, reason = "names this process, and decides nothing")]
pub(super) fn holder(options: &OpenOptions) -> String {
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(std::path::Path::file_name).map(|name| name.to_string_lossy());
    let (process, since) = (std::process::id(), utc(options.host.now_ms()));
    // The system frees the lock when the process ends, so the file is never stale.
    format!("process {process} ({}), since {since}", program.as_deref().unwrap_or("unknown program"))
}

/// As above, where there are no processes.
#[cfg(target_family = "wasm")]
pub(super) fn holder(options: &OpenOptions) -> String {
    format!("another handle, since {}", utc(options.host.now_ms()))
}

/// A time as people write it, in UTC: `2026-01-03 09:00:00 UTC`.
fn utc(ms: u64) -> String {
    let (days, seconds) = (ms / 86_400_000, ms / 1_000 % 86_400);
    // Howard Hinnant's civil_from_days, for days since 1970: https://howardhinnant.github.io/date_algorithms.html
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
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
