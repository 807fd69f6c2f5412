//! The times that transcripts carry, as milliseconds since 1970-01-01 UTC.

use super::json;

/// The time that a JSON value tells: an RFC 3339 string, or a number of seconds or milliseconds.
pub(super) fn from_json(value: &str) -> Option<u64> {
    match value.bytes().next()? {
        b'"' => from_rfc3339(&json::string(value)?),
        _ => from_number(value.parse().ok()?),
    }
}

/// Numbers below this are seconds, the others milliseconds: as milliseconds it is in 1973, as seconds in 5138.
const SECONDS_END: f64 = 1e11;

fn from_number(number: f64) -> Option<u64> {
    let milliseconds = if number < SECONDS_END { number * 1000.0 } else { number };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked by the range")]
    (0.0..1e15).contains(&milliseconds).then_some(milliseconds.round() as u64)
}

/// `2025-06-14T10:00:00.123Z`, with any number of decimals, `Z` or an offset. `None` when it is something
/// else, or before 1970.
fn from_rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        let part = text.get(range)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let separators = [bytes.get(4)?, bytes.get(7)?, bytes.get(13)?, bytes.get(16)?];
    if separators != [&b'-', &b'-', &b':', &b':'] || !matches!(bytes.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = text.get(19..)?;
    let mut milliseconds = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let length = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return None;
        }
        for index in 0..3 {
            let digit = fraction.as_bytes().get(index).filter(|_| index < length).map_or(0, |digit| digit - b'0');
            milliseconds = milliseconds * 10 + i64::from(digit);
        }
        rest = fraction.get(length..)?;
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset(rest)?;
    u64::try_from(seconds * 1000 + milliseconds).ok()
}

/// `Z`, `+02:00`, `-0330`, or nothing (taken for UTC), in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text.bytes().next() {
        None => return Some(0),
        Some(b'Z' | b'z') => return (text.len() == 1).then_some(0),
        Some(b'+') => (1, text.get(1..)?),
        Some(b'-') => (-1, text.get(1..)?),
        Some(_) => return None,
    };
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    if digits.len() != 4 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (digits.get(..2)?.parse().ok()?, digits.get(2..)?.parse().ok()?);
    Some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (Howard Hinnant's algorithm).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_every_form_are_read() {
        for (value, expected) in [
            (r#""1970-01-01T00:00:00Z""#, Some(0)),
            (r#""2025-06-14T10:00:00Z""#, Some(1_749_895_200_000)),
            (r#""2025-06-14T10:00:00.123456Z""#, Some(1_749_895_200_123)),
            (r#""2025-06-14T10:00:00.5+02:00""#, Some(1_749_888_000_500)),
            (r#""2025-06-14T05:30:00-0430""#, Some(1_749_895_200_000)),
            (r#""2024-02-29 00:00:00""#, Some(1_709_164_800_000)),
            ("1749895200", Some(1_749_895_200_000)),
            ("1749895200.25", Some(1_749_895_200_250)),
            ("1749895200123", Some(1_749_895_200_123)),
            (r#""2025-06-14""#, None),
            (r#""2025-13-14T10:00:00Z""#, None),
            (r#""1969-12-31T23:59:59Z""#, None),
            (r#""2025-06-14T10:00:00.Z""#, None),
            (r#""2025-06-14T10:00:00Zulu""#, None),
            (r#""日本2025-06-14T10:00:0""#, None),
            ("-5", None),
            ("1e300", None),
            ("NaN", None),
            ("true", None),
            ("", None),
        ] {
            assert_eq!(from_json(value), expected, "{value}");
        }
    }
}
