//! Days of the Gregorian calendar, counted from 1970-01-01, by the algorithms of Howard Hinnant:
//! <https://howardhinnant.github.io/date_algorithms.html>.

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// Days from 1970-01-01 to a date, negative before it. The month is 1 to 12, the day 1 to 31.
///
/// ```
/// assert_eq!(runlog_log::calendar::days_from_date(2000, 2, 29), 11_016);
/// ```
pub const fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// How many days a month has, from 1 for January to 12, in that year.
///
/// ```
/// assert_eq!(runlog_log::calendar::days_of_month(2000, 2), 29);
/// assert_eq!(runlog_log::calendar::days_of_month(1900, 2), 28);
/// ```
pub const fn days_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The year, the month from 1, and the day from 1 of the date this many days after 1970-01-01.
///
/// ```
/// assert_eq!(runlog_log::calendar::date_from_days(11_016), (2000, 2, 29));
/// ```
pub const fn date_from_days(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    (year_of_era + era * 400 + (month <= 2) as u64, month, day)
}

/// The hour, the minute and the second of a time in milliseconds since 1970-01-01 UTC.
///
/// ```
/// assert_eq!(runlog_log::calendar::time_of_day(86_400_000 + 3_723_004), (1, 2, 3));
/// ```
pub const fn time_of_day(ms: u64) -> (u64, u64, u64) {
    let seconds = ms / 1000 % 86_400;
    (seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_other_back() {
        for days in (0..4_000_000).step_by(97) {
            let (year, month, day) = date_from_days(days);
            assert!((1..=12).contains(&month) && (1..=31).contains(&day));
            assert_eq!(
                days_from_date(year as i64, month as i64, day as i64),
                days as i64
            );
        }
        assert_eq!(date_from_days(0), (1970, 1, 1));
        assert_eq!(days_from_date(1969, 12, 31), -1);
    }
}
