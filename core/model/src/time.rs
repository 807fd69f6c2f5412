//! Times: milliseconds since 1970-01-01 UTC, and the other forms in which they are read.

use std::fmt;

use runlog_log::calendar::{days_from_date, days_of_month};
use serde::{Deserializer, de};
use serde_json::Value;

/// The last millisecond of the year 9999. Later times have no usual form as text, and from some 270,000 years on no date in JavaScript.
pub const LAST_MS: u64 = 253_402_300_799_999;

/// Numbers below this are seconds, the others milliseconds: as milliseconds it is in 1973, as seconds in 5138.
const SECONDS_END: f64 = 1e11;
/// From here on, numbers with a floating point are too coarse for milliseconds.
const FRACTIONS_END: f64 = 9_007_199_254_740_992.0;

/// Reads `2025-06-14T10:00:00.123Z`, with any number of decimals, `Z`, an offset or nothing (taken for UTC), as
/// milliseconds since 1970-01-01 UTC. `None` when it is something else, or before 1970.
///
/// ```
/// use runlog_model::time;
/// assert_eq!(time::from_rfc3339("2024-02-29 00:00:00"), Some(1_709_164_800_000));
/// assert_eq!(time::from_rfc3339("yesterday"), None);
/// assert_eq!(time::from_rfc3339("2023-02-29 00:00:00"), None);
/// ```
pub fn from_rfc3339(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let digits = |range: std::ops::Range<usize>| -> Option<i64> {
        bytes.get(range)?.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + i64::from(byte - b'0'))
        })
    };
    let (year, month, day) = (digits(0..4)?, digits(5..7)?, digits(8..10)?);
    let (hour, minute, second) = (digits(11..13)?, digits(14..16)?, digits(17..19)?);
    let separators = [bytes.get(4)?, bytes.get(7)?, bytes.get(13)?, bytes.get(16)?];
    if separators != [&b'-', &b'-', &b':', &b':'] || !matches!(bytes.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    if !(1..=days_of_month(year, month)).contains(&day) {
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
            let digit = fraction
                .as_bytes()
                .get(index)
                .filter(|_| index < length)
                .map_or(0, |digit| digit - b'0');
            milliseconds = milliseconds * 10 + i64::from(digit);
        }
        rest = fraction.get(length..)?;
    }
    let seconds = days_from_date(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
        - offset(rest)?;
    u64::try_from(seconds * 1000 + milliseconds).ok()
}

/// The milliseconds since 1970-01-01 UTC of a number that may be seconds, as many tools write them; `None` when it is out
/// of range.
///
/// ```
/// use runlog_model::time;
/// assert_eq!(time::from_number(1_749_895_200.25), Some(1_749_895_200_250));
/// assert_eq!(time::from_number(1_749_895_200_250.0), Some(1_749_895_200_250));
/// assert_eq!(time::from_number(-5.0), None);
/// ```
pub fn from_number(number: f64) -> Option<u64> {
    let milliseconds = if number < SECONDS_END {
        number * 1000.0
    } else {
        number
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked by the range"
    )]
    (0.0..1e15)
        .contains(&milliseconds)
        .then_some(milliseconds.round() as u64)
}

/// The time in a JSON value of somebody else's: an RFC 3339 string, or a number of seconds or milliseconds.
///
/// ```
/// use runlog_model::time;
/// assert_eq!(time::from_json(r#""2025-06-14T10:00:00Z""#), Some(1_749_895_200_000));
/// assert_eq!(time::from_json("1749895200.25"), Some(1_749_895_200_250));
/// assert_eq!(time::from_json("true"), None);
/// ```
pub fn from_json(value: &str) -> Option<u64> {
    match serde_json::from_str(value).ok()? {
        Value::String(text) => from_rfc3339(&text),
        Value::Number(number) => from_number(number.as_f64()?),
        _ => None,
    }
}

/// A time, or `other` where it isn't given, which is 0.
#[must_use]
pub const fn or(ms: u64, other: u64) -> u64 {
    if ms == 0 { other } else { ms }
}

/// Deserializes a field: milliseconds as they are written; or RFC 3339, as builds before wrote a chat's times.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time: milliseconds since 1970-01-01 UTC, or RFC 3339")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
            from_rfc3339(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
            Ok(number)
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// [`read`] of a field that may be left out.
pub(crate) fn read_option<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Time(#[serde(deserialize_with = "read")] u64);
    let time = <Option<Time> as serde::Deserialize>::deserialize(deserializer)?;
    Ok(time.map(|Time(ms)| ms))
}

/// Deserializes a field: milliseconds, of which a fraction is rounded down. `performance.timeOrigin + performance.now()` has one.
pub(crate) fn read_ms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    struct Visitor;
    impl de::Visitor<'_> for Visitor {
        type Value = u64;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time in milliseconds since 1970-01-01 UTC")
        }

        fn visit_u64<E: de::Error>(self, ms: u64) -> Result<u64, E> {
            Ok(ms)
        }

        fn visit_f64<E: de::Error>(self, ms: f64) -> Result<u64, E> {
            if !(0.0..FRACTIONS_END).contains(&ms) {
                return Err(E::invalid_type(de::Unexpected::Float(ms), &self));
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is in range, and its fraction is what is to go"
            )]
            let whole = ms as u64;
            Ok(whole)
        }
    }
    deserializer.deserialize_any(Visitor)
}

/// [`read_ms`] of a field that may be left out.
pub(crate) fn read_ms_if_any<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Time(#[serde(deserialize_with = "read_ms")] u64);
    let time = <Option<Time> as serde::Deserialize>::deserialize(deserializer)?;
    Ok(time.map(|Time(ms)| ms))
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
    let (hours, minutes): (i64, i64) = (
        digits.get(..2)?.parse().ok()?,
        digits.get(2..)?.parse().ok()?,
    );
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
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
            (r#""2020-02-30T00:00:00Z""#, None),
            (r#""2021-02-29T00:00:00Z""#, None),
            (r#""2020-04-31T00:00:00Z""#, None),
            (r#""2020-01-32T00:00:00Z""#, None),
            (r#""2020-01-00T00:00:00Z""#, None),
            (r#""2020-01-01T00:00:00+24:00""#, None),
            (r#""2020-01-01T00:00:00-99:99""#, None),
            (r#""2020-01-01T00:00:00+05:60""#, None),
            ("true", None),
            ("", None),
        ] {
            assert_eq!(from_json(value), expected, "{value}");
        }
    }

    #[test]
    fn fields_are_milliseconds_as_they_are_written_or_rfc3339() {
        #[derive(serde::Deserialize)]
        struct Fields {
            #[serde(deserialize_with = "read")]
            at: u64,
            #[serde(default, deserialize_with = "read_option")]
            later: Option<u64>,
        }
        let fields = |json: &str| {
            let Fields { at, later } = serde_json::from_str(json).ok()?;
            Some((at, later))
        };
        for (json, expected) in [
            (r#"{"at":5}"#, Some((5, None))),
            (r#"{"at":5,"later":null}"#, Some((5, None))),
            (
                r#"{"at":"1970-01-01T00:00:01Z","later":"1970-01-01T00:00:02.003Z"}"#,
                Some((1_000, Some(2_003))),
            ),
            (
                r#"{"at":1749895200123,"later":0}"#,
                Some((1_749_895_200_123, Some(0))),
            ),
            (r#"{"at":null}"#, None),
            (r#"{"at":-1}"#, None),
            (r#"{"at":1.5}"#, None),
            (r#"{"at":"soon"}"#, None),
            (r#"{"at":5,"later":true}"#, None),
        ] {
            assert_eq!(fields(json), expected, "{json}");
        }
    }
}
