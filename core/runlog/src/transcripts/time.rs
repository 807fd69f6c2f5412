//! The times that transcripts carry, as milliseconds since 1970-01-01 UTC.

use runlog_model::Timestamp;

/// The time in a JSON value: an RFC 3339 string, or a number of seconds or milliseconds.
pub(super) fn from_json(value: &str) -> Option<u64> {
    let time: Timestamp = serde_json::from_str(value).ok()?;
    Some(time.0)
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
