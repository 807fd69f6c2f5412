//! Text for terminals: safe to print, wrapped to a width, with units that people read.

use console::measure_text_width;
use runlog::log::calendar;

/// Recorded text without anything that a terminal would interpret: control characters become visible, except line
/// breaks and tabs, and characters that change the reading direction are removed.
pub(crate) fn printable(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\t' => safe.push(c),
            '\0'..='\x1f' => safe.extend(char::from_u32(u32::from(c) + 0x2400)),
            '\x7f' => safe.push('\u{2421}'),
            '\u{80}'..='\u{9f}' => safe.push('\u{fffd}'),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            c => safe.push(c),
        }
    }
    safe
}

/// The name of a file or a folder as one line: anyone may have named it.
pub(crate) fn path(path: &std::path::Path) -> String {
    name(&path.display().to_string())
}

/// A name as one line, line breaks and tabs made visible too.
pub(crate) fn name(text: &str) -> String {
    printable(&text.replace('\r', "\u{240d}"))
        .replace('\n', "\u{240a}")
        .replace('\t', "\u{2409}")
}

/// Recorded text as one line of at most `width` columns.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let head: String = text.chars().take(width.saturating_mul(4) + 64).collect();
    let line = printable(&head)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let line = if head.len() < text.len() {
        line + "…"
    } else {
        line
    };
    shorten(&line, width)
}

/// Text cut to at most `width` columns, with `…` where something is missing.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut columns = 0;
    for c in text.chars() {
        columns += measure_text_width(c.encode_utf8(&mut [0; 4]));
        if columns + 1 > width {
            break;
        }
        short.push(c);
    }
    short.push('…');
    short
}

/// Text padded on the right to `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(measure_text_width(text));
    format!("{text}{}", " ".repeat(missing))
}

/// Recorded text in lines of at most `width` columns, broken between words where that is possible.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    for line in printable(text).lines() {
        wrap_line(&line.replace('\t', "    "), width, &mut lines);
    }
    lines
}

fn wrap_line(line: &str, width: usize, lines: &mut Vec<String>) {
    let indent: String = line
        .chars()
        .take_while(|c| *c == ' ')
        .take(width / 2)
        .collect();
    let mut current = indent.clone();
    let mut columns = indent.len();
    let mut is_start = true;
    for word in line.trim().split(' ') {
        let length = measure_text_width(word);
        if !is_start && columns + 1 + length > width {
            lines.push(std::mem::replace(&mut current, indent.clone()));
            columns = indent.len();
            is_start = true;
        }
        if !is_start {
            current.push(' ');
            columns += 1;
        }
        is_start = false;
        for c in word.chars() {
            let step = measure_text_width(c.encode_utf8(&mut [0; 4]));
            if columns + step > width {
                lines.push(std::mem::replace(&mut current, indent.clone()));
                columns = indent.len();
            }
            current.push(c);
            columns += step;
        }
    }
    lines.push(current);
}

/// `1 message`, `1,222 messages`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        thousands(number),
        if number == 1 { one } else { many }
    )
}

/// `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `512 B`, `1.5 KiB`, `64.0 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let mut value = number as f64 / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = larger;
    }
    format!("{value:.1} {unit}")
}

/// `85 µs`, `1.2 ms`, `3.4 s`, `2 min 5 s`.
pub(crate) fn duration(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 100.0 {
        format!("{seconds:.1} s")
    } else {
        format!(
            "{} min {} s",
            duration.as_secs() / 60,
            duration.as_secs() % 60
        )
    }
}

/// A [`duration`] of this many milliseconds, which has no fractions of them.
pub(crate) fn milliseconds(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    duration(std::time::Duration::from_millis(milliseconds))
}

/// `2025-06-14 10:00:00`, in UTC; a year of more than four digits has a sign, as ISO 8601 has it.
pub(crate) fn time(milliseconds: u64) -> String {
    format!("{} {}", day(milliseconds), time_of_day(milliseconds))
}

/// `2025-06-14 10:00`: to the minute.
pub(crate) fn time_to_minute(milliseconds: u64) -> String {
    let minutes = milliseconds / 60_000 % 1440;
    format!(
        "{} {:02}:{:02}",
        day(milliseconds),
        minutes / 60,
        minutes % 60
    )
}

/// `06-14 10:00:00`: without the year, if that has four digits.
pub(crate) fn time_of_year(milliseconds: u64) -> String {
    let (year, month, day) = calendar::date_from_days(milliseconds / calendar::DAY_MS);
    if year > YEAR_MAX {
        return time(milliseconds);
    }
    format!("{month:02}-{day:02} {}", time_of_day(milliseconds))
}

/// `2025-06-14T10:00:00.123Z`.
pub(crate) fn rfc3339(milliseconds: u64) -> String {
    format!(
        "{}T{}.{:03}Z",
        day(milliseconds),
        time_of_day(milliseconds),
        milliseconds % 1000
    )
}

/// The last year that has four digits.
const YEAR_MAX: u64 = 9999;

fn day(milliseconds: u64) -> String {
    let (year, month, day) = calendar::date_from_days(milliseconds / calendar::DAY_MS);
    let sign = if year > YEAR_MAX { "+" } else { "" };
    format!("{sign}{year:04}-{month:02}-{day:02}")
}

fn time_of_day(milliseconds: u64) -> String {
    let (hour, minute, second) = calendar::time_of_day(milliseconds);
    format!("{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_can_not_command_the_terminal() {
        assert_eq!(
            printable("a\x1b[31mb\r\nc\td\x07\u{9b}\u{202e}e\r"),
            "a␛[31mb\nc\td␇\u{fffd}e␍"
        );
    }

    #[test]
    fn text_is_wrapped_between_words_and_by_columns() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("  indented text", 10), ["  indented", "  text"]);
        assert_eq!(wrap("abcdefghijkl", 8), ["abcdefgh", "ijkl"]);
        assert_eq!(wrap("日本語日本語", 8), ["日本語日", "本語"]);
        assert_eq!(wrap("a\n\nb", 8), ["a", "", "b"]);
        assert_eq!(wrap("", 8), Vec::<String>::new());
    }

    #[test]
    fn text_is_shortened_to_columns() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 3), "ab…");
        assert_eq!(shorten("日本語", 5), "日本…");
        assert_eq!(one_line("a\n  b\tc", 10), "a b c");
        assert_eq!(one_line(&"x ".repeat(500), 9), "x x x x …");
    }

    #[test]
    fn units_read_well() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(duration(std::time::Duration::from_micros(85)), "85 µs");
        assert_eq!(duration(std::time::Duration::from_secs(125)), "2 min 5 s");
        assert_eq!(time(1_709_164_800_000), "2024-02-29 00:00:00");
        assert_eq!(rfc3339(1_749_895_200_123), "2025-06-14T10:00:00.123Z");
        assert_eq!(time_to_minute(1_749_895_200_123), "2025-06-14 10:00");
        assert_eq!(time_of_year(1_749_895_200_123), "06-14 10:00:00");
    }

    #[test]
    fn every_time_that_can_be_recorded_is_told() {
        assert_eq!(time(253_402_300_799_999), "9999-12-31 23:59:59");
        assert_eq!(time(253_402_300_800_000), "+10000-01-01 00:00:00");
        assert_eq!(time_of_year(253_402_300_800_000), "+10000-01-01 00:00:00");
        assert_eq!(time(u64::MAX), "+584556019-04-03 14:25:51");
        assert_eq!(rfc3339(u64::MAX), "+584556019-04-03T14:25:51.615Z");
    }

    #[test]
    fn a_name_is_one_line_that_commands_nothing() {
        assert_eq!(name("\x1b[31mz\r\n\t.jsonl"), "␛[31mz␍␊␉.jsonl");
    }
}
