//! [`Timestamp`]: a time as JSON writes it, and as the log counts it.

use std::fmt;

use runlog_log::calendar::{DAY_MS, date_from_days, days_from_date, days_of_month, time_of_day};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Numbers below this are seconds, the others milliseconds: as milliseconds it is in 1973, as seconds in 5138.
const SECONDS_END: f64 = 1e11;
/// The first millisecond of the year 10000, which RFC 3339 has no form for.
const RFC3339_END_MS: u64 = 253_402_300_800_000;

/// Milliseconds since 1970-01-01 UTC. In JSON an RFC 3339 string in UTC; a number of seconds or milliseconds is
/// read too. Zero stands for "not set".
///
/// ```
/// use runlog_model::Timestamp;
///
/// let time: Timestamp = serde_json::from_str(r#""2026-01-03T10:00:00.5+01:00""#).unwrap();
/// assert_eq!(time, Timestamp(1_767_430_800_500));
/// assert_eq!(serde_json::to_string(&time).unwrap(), r#""2026-01-03T09:00:00.500Z""#);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timestamp(#[cfg_attr(feature = "schema", schemars(with = "String"))] pub u64);

impl Timestamp {
    /// Not set.
    pub const UNSET: Self = Self(0);

    /// Whether no time was given.
    pub const fn is_unset(self) -> bool {
        self.0 == 0
    }

    /// This time, or `other` where none was given.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        if self.is_unset() { other } else { self }
    }

    /// Reads `2025-06-14T10:00:00.123Z`, with any number of decimals, `Z`, an offset or nothing (taken for UTC).
    /// `None` when it is something else, or before 1970.
    ///
    /// ```
    /// use runlog_model::Timestamp;
    /// assert_eq!(Timestamp::from_rfc3339("2024-02-29 00:00:00"), Some(Timestamp(1_709_164_800_000)));
    /// assert_eq!(Timestamp::from_rfc3339("yesterday"), None);
    /// assert_eq!(Timestamp::from_rfc3339("2023-02-29 00:00:00"), None);
    /// ```
    pub fn from_rfc3339(text: &str) -> Option<Self> {
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
        if separators != [&b'-', &b'-', &b':', &b':']
            || !matches!(bytes.get(10)?, b'T' | b't' | b' ')
        {
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
        let seconds =
            days_from_date(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
                - offset(rest)?;
        u64::try_from(seconds * 1000 + milliseconds).ok().map(Self)
    }

    /// The time of a number of seconds or milliseconds since 1970-01-01 UTC; `None` when it is out of range.
    ///
    /// ```
    /// use runlog_model::Timestamp;
    /// assert_eq!(Timestamp::from_number(1_749_895_200.25), Some(Timestamp(1_749_895_200_250)));
    /// assert_eq!(Timestamp::from_number(-5.0), None);
    /// ```
    pub fn from_number(number: f64) -> Option<Self> {
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
            .then_some(Self(milliseconds.round() as u64))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.min(RFC3339_END_MS - 1);
        let (year, month, day) = date_from_days(ms / DAY_MS);
        let ((hour, minute, second), ms) = (time_of_day(ms), ms % 1000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"
        )
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time: RFC 3339, or seconds or milliseconds since 1970-01-01 UTC")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                Timestamp::from_rfc3339(text)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Timestamp, E> {
                self.visit_f64(number as f64)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Timestamp, E> {
                Timestamp::from_number(number)
                    .ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
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
    fn every_day_is_written_as_it_is_read() {
        for day in (0..2_932_896).step_by(13) {
            let time = Timestamp(day * DAY_MS + 86_399_999);
            assert_eq!(
                Timestamp::from_rfc3339(&time.to_string()),
                Some(time),
                "{time}"
            );
        }
        assert_eq!(Timestamp(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["\"soon\"", "-1", "true", "null", "{}", "1e300"] {
            assert!(serde_json::from_str::<Timestamp>(text).is_err(), "{text}");
        }
        for date in [
            "2020-02-30",
            "2021-02-29",
            "2020-04-31",
            "2020-01-32",
            "2020-01-00",
            "2020-13-01",
        ] {
            assert_eq!(
                Timestamp::from_rfc3339(&format!("{date}T00:00:00Z")),
                None,
                "{date}"
            );
        }
        for offset in ["+24:00", "-99:99", "+05:60"] {
            let text = format!("2020-01-01T00:00:00{offset}");
            assert_eq!(Timestamp::from_rfc3339(&text), None, "{text}");
        }
        assert_eq!(
            serde_json::from_str::<Timestamp>("1767430800500").unwrap(),
            Timestamp(1_767_430_800_500)
        );
    }
}
